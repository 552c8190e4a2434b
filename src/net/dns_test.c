/* SPDX-License-Identifier: Apache-2.0 */
#include "net/dns.h"
#include "net/policy.h"
#include "net/rule.h"
#include "tests/test.h"

#define BYTES(s) s, sizeof(s) - 1
#define HEAD(id, flags, q, a, n, x) id flags "\0" q "\0" a "\0" n "\0" x
#define NAME "\1a\7example"
#define END "\0"
#define A_IN "\0\1\0\1"
#define OPT(size) "\0\0\x29" size "\0\0\0\0\0\0"

static const struct {
    const char *what, *bytes;
    size_t len;
    int want;
    const char *name;
    uint16_t type;
} queries[] = {
    {"plain", BYTES(HEAD("\x12\x34", "\1\0", "\1", "\0", "\0", "\0") NAME END A_IN), 0, "a.example",
     1},
    {"AAAA", BYTES(HEAD("\x12\x34", "\1\0", "\1", "\0", "\0", "\0") NAME END "\0\x1c\0\1"), 0,
     "a.example", 28},
    {"case", BYTES(HEAD("\x12\x34", "\1\0", "\1", "\0", "\0", "\0") "\1A\7exAMple" END A_IN), 0,
     "a.example", 1},
    {"EDNS", BYTES(HEAD("\x12\x34", "\1\0", "\1", "\0", "\0", "\1") NAME END A_IN OPT("\4\xd0")), 0,
     "a.example", 1},
    {"the root", BYTES(HEAD("\x12\x34", "\1\0", "\1", "\0", "\0", "\0") END "\0\2\0\1"), 0, "", 2},
    {"a dot in a label", BYTES(HEAD("\x12\x34", "\1\0", "\1", "\0", "\0", "\0") "\3a.b" END A_IN),
     0, "", 1},
    {"a NUL in a label",
     BYTES(HEAD("\x12\x34", "\1\0", "\1", "\0", "\0", "\0") "\3a\0b\7example" END A_IN), 0, "", 1},
    {"an address",
     BYTES(HEAD("\x12\x34", "\1\0", "\1", "\0", "\0", "\0") "\0011\0012\0013\0014" END A_IN), 0, "",
     1},
    {"another class", BYTES(HEAD("\x12\x34", "\1\0", "\1", "\0", "\0", "\0") NAME END "\0\1\0\3"),
     CAY_DNS_REFUSED, "a.example", 1},
    {"an update", BYTES(HEAD("\x12\x34", "\x28\0", "\1", "\0", "\0", "\0") NAME END A_IN),
     CAY_DNS_NOT_DONE, "", 0},
    {"no question", BYTES(HEAD("\x12\x34", "\1\0", "\0", "\0", "\0", "\0")), CAY_DNS_FORMAT, "", 0},
    {"two questions",
     BYTES(HEAD("\x12\x34", "\1\0", "\2", "\0", "\0", "\0") NAME END A_IN NAME END A_IN),
     CAY_DNS_FORMAT, "", 0},
    {"an answer in it",
     BYTES(HEAD("\x12\x34", "\1\0", "\1", "\1", "\0", "\0") NAME END A_IN "\xc0\x0c" A_IN
                                                                          "\0\0\0\1\0\4\1\2\3\4"),
     CAY_DNS_FORMAT, "", 0},
    {"compressed", BYTES(HEAD("\x12\x34", "\1\0", "\1", "\0", "\0", "\0") "\xc0\x0c" A_IN),
     CAY_DNS_FORMAT, "", 0},
    {"bytes behind it", BYTES(HEAD("\x12\x34", "\1\0", "\1", "\0", "\0", "\0") NAME END A_IN "x"),
     CAY_DNS_FORMAT, "a.example", 1},
    {"cut in the name", BYTES(HEAD("\x12\x34", "\1\0", "\1", "\0", "\0", "\0") "\1a\7exa"),
     CAY_DNS_FORMAT, "", 0},
    {"a label of 64", BYTES(HEAD("\x12\x34", "\1\0", "\1", "\0", "\0", "\0") "\x40" END A_IN),
     CAY_DNS_FORMAT, "", 0},
    {"two OPT",
     BYTES(HEAD("\x12\x34", "\1\0", "\1", "\0", "\0", "\2") NAME END A_IN OPT("\4\xd0")
               OPT("\4\xd0")),
     CAY_DNS_FORMAT, "a.example", 1},
    {"a reply", BYTES(HEAD("\x12\x34", "\x81\0", "\1", "\0", "\0", "\0") NAME END A_IN), -1, NULL,
     0},
    {"a short one", BYTES("\x12\x34\1\0\0\1\0\0\0\0\0"), -1, NULL, 0},
    {"nothing", BYTES(""), -1, NULL, 0},
};

TEST(dns_questions)
{
    for (size_t i = 0; i < COUNT(queries); i++) {
        struct cay_dns_query q = {0};
        CHECK_EQ(queries[i].what, cay_dns_query_read(queries[i].bytes, queries[i].len, &q),
                 queries[i].want);
        if (queries[i].want < 0)
            continue;
        CHECK_EQ(queries[i].what, q.id, 0x1234);
        CHECK_STR(queries[i].what, q.name, queries[i].name);
        CHECK_EQ(queries[i].what, q.type, queries[i].type);
    }
}

static struct cay_dns_query asked(const char *name, uint16_t type)
{
    uint8_t bytes[CAY_DNS_MESSAGE];
    struct cay_dns_query q = {0};
    size_t len = cay_dns_query_write(77, name, type, bytes, sizeof bytes);
    CHECK_EQ(name, cay_dns_query_read(bytes, len, &q), CAY_DNS_OK);
    CHECK_EQ(name, q.edns && q.recursion, true);
    CHECK_EQ(name, q.udp_bytes, CAY_DNS_UDP);
    return q;
}

TEST(dns_answers_are_read_back)
{
    struct in6_addr addresses[] = {cay_address_of4(0xc0000201),
                                   {{{0x20, 1, 0xd, 0xb8, [15] = 1}}},
                                   cay_address_of4(0xc0000202)};
    struct cay_dns_reply reply = {.ttl_s = 60, .addresses = addresses, .address_count = 3};
    static const struct {
        uint16_t type;
        size_t count;
    } cases[] = {{CAY_DNS_A, 2}, {CAY_DNS_AAAA, 1}, {65, 0}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct cay_dns_query q = asked("A.example.", cases[i].type);
        struct cay_dns_found found = {0};
        uint8_t bytes[CAY_DNS_MESSAGE];
        size_t len = cay_dns_reply_write(&q, &reply, bytes, q.udp_bytes);
        CHECK("read", cay_dns_reply_read(bytes, len, 77, "a.example", cases[i].type, &found));
        CHECK_EQ("code", found.code, CAY_DNS_OK);
        CHECK_EQ("count", found.address_count, cases[i].count);
        CHECK_EQ("ttl", found.ttl_s, cases[i].count ? 60 : 0);
        CHECK("another id",
              !cay_dns_reply_read(bytes, len, 78, "a.example", cases[i].type, &found));
        CHECK("another name",
              !cay_dns_reply_read(bytes, len, 77, "b.example", cases[i].type, &found));
        CHECK("another type", !cay_dns_reply_read(bytes, len, 77, "a.example", 99, &found));
        for (size_t cut = 0; cut < len; cut++)
            CHECK("cut", !cay_dns_reply_read(bytes, cut, 77, "a.example", cases[i].type, &found));
    }
}

TEST(dns_answers_fit_or_say_so)
{
    struct in6_addr addresses[CAY_DNS_ADDRESSES + 8];
    struct cay_dns_reply reply = {
        .ttl_s = 1, .addresses = addresses, .address_count = COUNT(addresses)};
    for (size_t i = 0; i < COUNT(addresses); i++)
        addresses[i] = (struct in6_addr){{{0x20, 1, [15] = (uint8_t)i}}};
    struct cay_dns_query q = asked("a.example", CAY_DNS_AAAA);
    for (size_t cap = 0; cap <= CAY_DNS_MESSAGE; cap++) {
        uint8_t bytes[CAY_DNS_MESSAGE];
        struct cay_dns_found found = {0};
        size_t len = cay_dns_reply_write(&q, &reply, bytes, cap);
        CHECK("within", len <= cap);
        if (len == 0) {
            CHECK("room for the question", cap < 12 + q.question_len + 11);
            continue;
        }
        CHECK("read", cay_dns_reply_read(bytes, len, 77, "a.example", CAY_DNS_AAAA, &found));
        CHECK("cut", found.cut);
    }
}

TEST(dns_codes_are_told)
{
    static const enum cay_dns_code codes[] = {CAY_DNS_FORMAT, CAY_DNS_FAILED, CAY_DNS_NO_NAME,
                                              CAY_DNS_NOT_DONE, CAY_DNS_REFUSED};
    struct in6_addr address = cay_address_of4(1);
    for (size_t i = 0; i < COUNT(codes); i++) {
        struct cay_dns_query q = asked("a.example", CAY_DNS_A);
        struct cay_dns_reply reply = {.code = codes[i], .addresses = &address, .address_count = 1};
        struct cay_dns_found found = {0};
        uint8_t bytes[CAY_DNS_MESSAGE];
        size_t len = cay_dns_reply_write(&q, &reply, bytes, sizeof bytes);
        CHECK("read", cay_dns_reply_read(bytes, len, 77, "a.example", CAY_DNS_A, &found));
        CHECK_EQ("code", found.code, codes[i]);
        CHECK_EQ("no address", found.address_count, 0);
    }
}

/* Answers of a resolver to "a.example A", id 0x1234. The question's name is at 12, its "example" at
 * 14; the first record begins at 27. */
#define QUESTION(a, n, x) HEAD("\x12\x34", "\x81\x80", "\1", a, n, x) NAME END A_IN
#define RR(name, type, ttl, data) name "\0" type "\0\1\0\0\0" ttl "\0" data
#define IP(last) "\4\xc0\0\2" last

static const struct {
    const char *what, *bytes;
    size_t len;
    bool ok;
    size_t count;
    uint32_t ttl_s, last;
} replies[] = {
    {"one", BYTES(QUESTION("\1", "\0", "\0") RR("\xc0\x0c", "\1", "\x3c", IP("\1"))), true, 1, 60,
     1},
    {"the least time",
     BYTES(QUESTION("\2", "\0", "\0") RR("\xc0\x0c", "\1", "\x3c", IP("\1"))
               RR("\xc0\x0c", "\1", "\5", IP("\2"))),
     true, 2, 5, 1},
    {"an alias",
     BYTES(QUESTION("\2", "\0", "\0") RR("\xc0\x0c", "\5", "\7", "\4\1b\xc0\x0e")
               RR("\1b\xc0\x0e", "\1", "\x3c", IP("\3"))),
     true, 1, 7, 3},
    {"an alias behind its address",
     BYTES(QUESTION("\2", "\0", "\0") RR("\1b\xc0\x0e", "\1", "\x3c", IP("\3"))
               RR("\xc0\x0c", "\5", "\7", "\4\1b\xc0\x0e")),
     true, 1, 7, 3},
    {"an alias to nowhere",
     BYTES(QUESTION("\1", "\0", "\0") RR("\xc0\x0c", "\5", "\7", "\4\1b\xc0\x0e")), true, 0, 0, 0},
    {"an alias of itself",
     BYTES(QUESTION("\1", "\0", "\0") RR("\xc0\x0c", "\5", "\7", "\2\xc0\x0c")), false, 0, 0, 0},
    {"aliases of each other",
     BYTES(QUESTION("\2", "\0", "\0") RR("\xc0\x0c", "\5", "\7", "\4\1b\xc0\x0e")
               RR("\1b\xc0\x0e", "\5", "\7", "\2\xc0\x0c")),
     false, 0, 0, 0},
    {"an address of another",
     BYTES(QUESTION("\1", "\0", "\0") RR("\1b\xc0\x0e", "\1", "\x3c", IP("\3"))), true, 0, 0, 0},
    {"an address of another class",
     BYTES(QUESTION("\1", "\0", "\0") "\xc0\x0c\0\1\0\3\0\0\0\x3c\0" IP("\1")), true, 0, 0, 0},
    {"an address of five bytes",
     BYTES(QUESTION("\1", "\0", "\0") RR("\xc0\x0c", "\1", "\x3c", "\5\1\2\3\4\5")), false, 0, 0,
     0},
    {"a pointer to itself",
     BYTES(QUESTION("\1", "\0", "\0") RR("\xc0\x1b", "\1", "\x3c", IP("\1"))), false, 0, 0, 0},
    {"a pointer forward", BYTES(QUESTION("\1", "\0", "\0") RR("\xc0\x20", "\1", "\x3c", IP("\1"))),
     false, 0, 0, 0},
    {"a pointer into the head",
     BYTES(QUESTION("\1", "\0", "\0") RR("\xc0\2", "\1", "\x3c", IP("\1"))), false, 0, 0, 0},
    {"a pointer behind the end",
     BYTES(QUESTION("\1", "\0", "\0") RR("\xff\xff", "\1", "\x3c", IP("\1"))), false, 0, 0, 0},
    {"a label of another kind",
     BYTES(QUESTION("\1", "\0", "\0") RR("\x41"
                                         "a\0",
                                         "\1", "\x3c", IP("\1"))),
     false, 0, 0, 0},
    {"fewer records than said",
     BYTES(QUESTION("\2", "\0", "\0") RR("\xc0\x0c", "\1", "\x3c", IP("\1"))), false, 0, 0, 0},
    {"bytes behind", BYTES(QUESTION("\1", "\0", "\0") RR("\xc0\x0c", "\1", "\x3c", IP("\1")) "x"),
     false, 0, 0, 0},
    {"a record longer than all",
     BYTES(QUESTION("\1", "\0", "\0") RR("\xc0\x0c", "\1", "\x3c", "\xff\1\2\3\4")), false, 0, 0,
     0},
    {"a record that is cut",
     BYTES(QUESTION("\0", "\1", "\0") RR(
         "\xc0\x0e", "\6", "\x64", "\x18\1n\0\1m\0\0\0\0\1\0\0\0\2\0\0\0\3\0\0\0\4\0\0\0\x2a")),
     false, 0, 0, 0},
    {"nothing, for so long",
     BYTES(QUESTION("\0", "\1", "\0") RR(
         "\xc0\x0e", "\6", "\x64", "\x1a\1n\0\1m\0\0\0\0\1\0\0\0\2\0\0\0\3\0\0\0\4\0\0\0\x2a")),
     true, 0, 42, 0},
    {"a time with its highest bit",
     BYTES(QUESTION("\1", "\0", "\0") "\xc0\x0c\0\1\0\1\x80\0\0\1\0" IP("\1")), true, 1, 0, 1},
    {"a time of weeks", BYTES(QUESTION("\1", "\0", "\0") "\xc0\x0c\0\1\0\1\0\x10\0\1\0" IP("\1")),
     true, 1, CAY_DNS_TTL_MAX, 1},
    {"a question, not an answer",
     BYTES(HEAD("\x12\x34", "\1\0", "\1", "\0", "\0", "\0") NAME END A_IN), false, 0, 0, 0},
};

TEST(dns_answers_of_others)
{
    for (size_t i = 0; i < COUNT(replies); i++) {
        struct cay_dns_found found = {0};
        bool ok = cay_dns_reply_read(replies[i].bytes, replies[i].len, 0x1234, "a.example",
                                     CAY_DNS_A, &found);
        CHECK_EQ(replies[i].what, ok, replies[i].ok);
        if (!ok || !replies[i].ok)
            continue;
        CHECK_EQ(replies[i].what, found.address_count, replies[i].count);
        CHECK_EQ(replies[i].what, found.ttl_s, replies[i].ttl_s);
        if (replies[i].count)
            CHECK_EQ(replies[i].what, found.addresses[0].s6_addr[15], replies[i].last);
    }
}

TEST(dns_chains_have_an_end)
{
    for (unsigned links = CAY_DNS_CHAIN - 1; links <= CAY_DNS_CHAIN + 1; links++) {
        uint8_t bytes[CAY_DNS_MESSAGE];
        struct cay_dns_found found = {0};
        size_t len = sizeof(QUESTION("\0", "\0", "\0")) - 1;
        memcpy(bytes, QUESTION("\0", "\0", "\0"), len);
        bytes[7] = (uint8_t)(links + 1);
        for (unsigned i = 0; i <= links; i++) {
            uint8_t from[] = {1, (uint8_t)(i ? 'A' + i : 'a'), 0xc0,
                              0x0e}; /* "b" and on, below it */
            uint8_t alias[] = {0, 5, 0, 1, 0, 0, 0, 9, 0, 4, 1, (uint8_t)('A' + i + 1), 0xc0, 0x0e};
            uint8_t address[] = {0, 1, 0, 1, 0, 0, 0, 9, 0, 4, 192, 0, 2, 1};
            memcpy(bytes + len, from, sizeof from);
            memcpy(bytes + len + sizeof from, i < links ? alias : address, sizeof alias);
            len += sizeof from + sizeof alias;
        }
        bool ok = cay_dns_reply_read(bytes, len, 0x1234, "a.example", CAY_DNS_A, &found);
        CHECK_EQ("chain", ok, links <= CAY_DNS_CHAIN);
        CHECK_EQ("chain", found.address_count, links <= CAY_DNS_CHAIN);
    }
}

TEST(dns_own_questions_need_a_name)
{
    uint8_t bytes[CAY_DNS_MESSAGE];
    CHECK_EQ("no name", cay_dns_query_write(1, "a b", CAY_DNS_A, bytes, sizeof bytes), 0);
    CHECK_EQ("a number", cay_dns_query_write(1, "1.2.3.4", CAY_DNS_A, bytes, sizeof bytes), 0);
    CHECK_EQ("no room", cay_dns_query_write(1, "a", CAY_DNS_A, bytes, 64), 0);
}
