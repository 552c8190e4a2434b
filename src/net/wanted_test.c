/* SPDX-License-Identifier: Apache-2.0 */
#include "net/rule.h"
#include "net/wanted.h"
#include "tests/test.h"
#include <stdio.h>

#define MOST 6

static const struct {
    const char *what;
    const char
        *wanted[MOST]; /* "name@address:port", either may be missing; "!" denied, "#" guarded */
    const char *rules; /* with blanks between */
} cases[] = {
    {"nothing", {0}, ""},
    {"a name", {"a.example@192.0.2.1:443"}, "a.example:443"},
    {"an address", {"@192.0.2.1:443"}, "192.0.2.1:443"},
    {"an address, IPv6", {"@[2001:db8::1]:443"}, "[2001:db8::1]:443"},
    {"a name by two addresses",
     {"a.example@192.0.2.1:443", "a.example@[2001:db8::1]:443"},
     "a.example:443"},
    {"two ports",
     {"a.example@192.0.2.1:443", "a.example@192.0.2.1:80"},
     "a.example:80 a.example:443"},
    {"ports in a row",
     {"a.example@192.0.2.1:82", "a.example@192.0.2.1:80", "a.example@192.0.2.1:81"},
     "a.example:80-82"},
    {"names before addresses, by alphabet",
     {"@192.0.2.1:1", "b.example@192.0.2.1:1", "a.example@192.0.2.1:1"},
     "a.example:1 b.example:1 192.0.2.1:1"},
    {"a name that was only asked for", {"a.example@"}, "a.example"},
    {"and then wanted", {"a.example@", "a.example@192.0.2.1:443"}, "a.example:443"},
    {"and asked for again",
     {"a.example@192.0.2.1:1", "a.example@", "a.example@192.0.2.1:9"},
     "a.example:1 a.example:9"},
    {"what none can allow",
     {"#a.example@10.0.0.1:443", "!b.example@192.0.2.1:443", "!c.example@"},
     ""},
    {"what is no name", {"a b@"}, ""},
    {"what is no name, with an address", {"a b@192.0.2.1:80"}, "192.0.2.1:80"},
    {"all ports of none",
     {"a.example@192.0.2.1:65535", "a.example@192.0.2.1:1"},
     "a.example:1 a.example:65535"},
};

static struct cay_wanted wanted_of(struct cay_arena *a, const char *text)
{
    struct cay_wanted w = {.verdict = CAY_NET_UNLISTED};
    struct cay_error err = {0};
    struct cay_rule rule;
    if (text[0] == '#' || text[0] == '!')
        w.verdict = *text++ == '#' ? CAY_NET_GUARDED : CAY_NET_DENIED;
    const char *at = strchr(text, '@');
    memcpy(w.name, text, (size_t)(at - text));
    if (at[1]) {
        CHECK_EQ(text, cay_rule_read(a, at + 1, &rule, &err), 0);
        w.to = (struct cay_address){rule.net.net, rule.net.ports.first};
    }
    return w;
}

TEST(wanted_is_proposed)
{
    for (size_t i = 0; i < COUNT(cases); i++) {
        CAY_AUTO_ARENA struct cay_arena a = {0};
        struct cay_wanted wanted[MOST];
        struct cay_network network;
        char rules[256] = "";
        size_t count = 0, len = 0;
        for (; count < MOST && cases[i].wanted[count]; count++)
            wanted[count] = wanted_of(&a, cases[i].wanted[count]);
        cay_wanted_propose(&a, wanted, count, &network);
        for (size_t k = 0; k < network.allow.count; k++)
            len += (size_t)snprintf(rules + len, sizeof rules - len, "%s%s", k ? " " : "",
                                    network.allow.at[k]);
        CHECK_STR(cases[i].what, rules, cases[i].rules);
        CHECK_EQ(cases[i].what, network.mode, CAY_NETWORK_LISTED);
    }
}

/* What is proposed allows what was wanted, and nothing beside it. */
TEST(wanted_is_allowed_then)
{
    for (size_t i = 0; i < COUNT(cases); i++) {
        CAY_AUTO_ARENA struct cay_arena a = {0};
        struct cay_error err = {0};
        struct cay_policy policy;
        struct cay_network network;
        struct cay_wanted wanted[MOST];
        size_t count = 0;
        for (; count < MOST && cases[i].wanted[count]; count++)
            wanted[count] = wanted_of(&a, cases[i].wanted[count]);
        cay_wanted_propose(&a, wanted, count, &network);
        CHECK_EQ(cases[i].what, cay_policy_read(&a, &network, &policy, &err), 0);
        for (size_t k = 0; k < count; k++) {
            const char *name = wanted[k].name;
            struct cay_policy_asked q = {
                .to = wanted[k].to, .names = &name, .name_count = name[0] != '\0'};
            bool can = cay_wanted_open(&wanted[k]);
            if (q.to.port == 0) {
                CHECK_EQ(name, cay_policy_name(&policy, name, 0) == CAY_NET_ALLOWED, can);
                continue;
            }
            CHECK_EQ(name, cay_policy_address(&policy, &q) == CAY_NET_ALLOWED, can);
            q.to.port++;
            q.to.ip.s6_addr[15] ^= 0x80;
            if (name[0] == '\0')
                CHECK(name, cay_policy_address(&policy, &q) != CAY_NET_ALLOWED);
        }
    }
}
