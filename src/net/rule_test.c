/* SPDX-License-Identifier: Apache-2.0 */
#include "net/name.h"
#include "net/rule.h"
#include "tests/test.h"

#define L63 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define L61 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static const struct {
    const char *text, *back; /* NULL: refused */
} rules[] = {
    {"example.com", "example.com"},
    {"EXAMPLE.Com", "example.com"},
    {"example.com.", "example.com"},
    {"example.com..", NULL},
    {"example.com:443", "example.com:443"},
    {"example.com.:443", "example.com:443"},
    {"*.example.com:80-90", "*.example.com:80-90"},
    {"*.example.com:80-80", "*.example.com:80"},
    {"example.com:1-65535", "example.com"},
    {"*", "*"},
    {"*:443", "*:443"},
    {"*.com", "*.com"},
    {"localhost", "localhost"},
    {"a_b._c.example", "a_b._c.example"},
    {"xn--mnchen-3ya.de", "xn--mnchen-3ya.de"},
    {L63 "." L63 "." L63 "." L61, L63 "." L63 "." L63 "." L61},
    {L63 "." L63 "." L63 "." L61 ".", L63 "." L63 "." L63 "." L61},
    {L63 "." L63 "." L63 "." L61 "a", NULL},
    {"*." L63 "." L63 "." L63 "." L61, "*." L63 "." L63 "." L63 "." L61},
    {L63 "a.example", NULL},
    {"192.0.2.1", "192.0.2.1"},
    {"192.0.2.1/32", "192.0.2.1"},
    {"192.0.2.0/24", "192.0.2.0/24"},
    {"192.0.2.0/24:443", "192.0.2.0/24:443"},
    {"0.0.0.0/0", "0.0.0.0/0"},
    {"::/0", "::/0"},
    {"2001:DB8::/32", "2001:db8::/32"},
    {"2001:db8:0:0:0:0:0:1", "2001:db8::1"},
    {"[2001:db8::1]", "2001:db8::1"},
    {"[2001:db8::1]:443", "[2001:db8::1]:443"},
    {"[2001:db8::/32]:1-2", "[2001:db8::/32]:1-2"},
    {"::ffff:192.0.2.0/120", "192.0.2.0/24"},
    {"::ffff:192.0.2.1", "192.0.2.1"},
    {"", NULL},
    {".", NULL},
    {"*.", NULL},
    {"*..com", NULL},
    {"**", NULL},
    {"*.*", NULL},
    {"*.*.com", NULL},
    {"a.*.com", NULL},
    {"*a.com", NULL},
    {"a*", NULL},
    {".example.com", NULL},
    {"a..b", NULL},
    {"-a.com", NULL},
    {"a-.com", NULL},
    {"a b", NULL},
    {" a.com", NULL},
    {"a.com ", NULL},
    {"a\tb.com", NULL},
    {"m\xC3\xBCnchen.de", NULL},
    {"*.m\xC3\xBCnchen.de", NULL},
    {"https://example.com", NULL},
    {"example.com/path", NULL},
    {"user@example.com", NULL},
    {"example.com:", NULL},
    {"example.com:0", NULL},
    {"example.com:65536", NULL},
    {"example.com:080", NULL},
    {"example.com:http", NULL},
    {"example.com:-1", NULL},
    {"example.com:90-80", NULL},
    {"example.com:80-", NULL},
    {"example.com:-80", NULL},
    {"example.com:1-2-3", NULL},
    {"example.com:99999999999999999999", NULL},
    {"example.com:443:443", NULL},
    {"127.1", NULL},
    {"2130706433", NULL},
    {"0x7f000001", NULL},
    {"0x7f.1", NULL},
    {"0x", NULL},
    {"a.0x", NULL},
    {"0177.0.0.1", NULL},
    {"1.2.3.4.5", NULL},
    {"1.2.3.256", NULL},
    {"1.2.3.", NULL},
    {"example.1", NULL},
    {"192.0.2.0/33", NULL},
    {"192.0.2.0/-1", NULL},
    {"192.0.2.0/", NULL},
    {"192.0.2.0/08", NULL},
    {"192.0.2.0/24/24", NULL},
    {"192.0.2.0/255.255.255.0", NULL},
    {"192.0.2.1/24", NULL},
    {"0.0.0.1/0", NULL},
    {"/24", NULL},
    {"2001:db8::/129", NULL},
    {"2001:db8::1/64", NULL},
    {"::ffff:0:0/90", NULL},
    {"2001:db8::1%eth0", NULL},
    {"[2001:db8::1", NULL},
    {"2001:db8::1]", NULL},
    {"[2001:db8::1]443", NULL},
    {"[2001:db8::1]:", NULL},
    {"[]", NULL},
    {"[example.com]", NULL},
    {":::", NULL},
    {"1:2:3", NULL},
};

TEST(rule_as_it_is_written)
{
    for (size_t i = 0; i < COUNT(rules); i++) {
        CAY_AUTO_ARENA struct cay_arena a = {0};
        struct cay_error err = {0};
        struct cay_rule rule = {0}, again = {0};
        int r = cay_rule_read(&a, rules[i].text, &rule, &err);
        CHECK_EQ(rules[i].text, r, rules[i].back ? 0 : CAY_ERR_INVALID);
        if (r < 0) {
            CHECK_STR(rules[i].text, cay_error_name(&err), "VALIDATION_ERROR");
            continue;
        }
        const char *back = cay_rule_text(&a, &rule);
        CHECK_STR(rules[i].text, back, rules[i].back);
        CHECK_EQ(back, cay_rule_read(&a, back, &again, &err), 0);
        CHECK_STR(back, cay_rule_text(&a, &again), back);
    }
}

TEST(rule_that_is_too_long)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_error err = {0};
    struct cay_rule rule;
    char text[CAY_MAX_RULE + 2];
    memset(text, 'a', sizeof text);
    text[sizeof text - 1] = '\0';
    CHECK_EQ("long", cay_rule_read(&a, text, &rule, &err), CAY_ERR_INVALID);
}

TEST(rule_refusals_say_what_to_write)
{
    static const struct {
        const char *text, *hint;
    } cases[] = {
        {"m\xC3\xBCnchen.de", "punycode"}, {"https://a.com", "not a URL"},
        {"a.com/x", "not a URL"},          {"192.0.2.1/24", "behind its prefix"},
        {"192.0.2.0/33", "0 to 32"},       {"a.com:0", "1 to 65535"},
        {"a.*.com", "first label"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        CAY_AUTO_ARENA struct cay_arena a = {0};
        struct cay_error err = {0};
        struct cay_rule rule;
        CHECK_EQ(cases[i].text, cay_rule_read(&a, cases[i].text, &rule, &err), CAY_ERR_INVALID);
        CHECK(cases[i].text, strstr(err.msg, cases[i].hint));
    }
}

static const struct {
    const char *pattern, *host;
    bool matches;
} patterns[] = {
    {"example.com", "example.com", true},
    {"example.com", "a.example.com", false},
    {"example.com", "xexample.com", false},
    {"*.example.com", "a.example.com", true},
    {"*.example.com", "a.b.example.com", true},
    {"*.example.com", "example.com", false},
    {"*.example.com", "xexample.com", false},
    {"*.example.com", "a.example.com.evil.org", false},
    {"*", "anything", true},
    {"*", "a.b.c", true},
};

TEST(rule_patterns_match_hosts)
{
    for (size_t i = 0; i < COUNT(patterns); i++)
        CHECK_EQ(patterns[i].host, cay_host_matches(patterns[i].pattern, patterns[i].host),
                 patterns[i].matches);
}
