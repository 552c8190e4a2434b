/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "net/claim.h"
#include "tests/test.h"

static const struct {
    const char *what, *text;
    enum cay_claim_result want;
    const char *name;
} requests[] = {
    {"Host", "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n", CAY_CLAIM_NAMED, "a.example"},
    {"its spelling", "GET / HTTP/1.1\r\nhOST:\tA.Example.:80 \r\n\r\n", CAY_CLAIM_NAMED,
     "a.example"},
    {"behind others", "POST /x HTTP/1.0\r\nA: b\r\nHostile: x\r\nHost: a.example\r\n\r\nbody",
     CAY_CLAIM_NAMED, "a.example"},
    {"line feeds alone", "GET / HTTP/1.1\nHost: a.example\n\n", CAY_CLAIM_NAMED, "a.example"},
    {"in the target", "GET http://a.example/x HTTP/1.1\r\nHost: a.example\r\n\r\n", CAY_CLAIM_NAMED,
     "a.example"},
    {"in the target alone", "GET http://a.example:80?x HTTP/1.1\r\n\r\n", CAY_CLAIM_NAMED,
     "a.example"},
    {"target and Host differ", "GET http://a.example/ HTTP/1.1\r\nHost: b.example\r\n\r\n",
     CAY_CLAIM_BAD, NULL},
    {"two", "GET / HTTP/1.1\r\nHost: a.example\r\nHost: b.example\r\n\r\n", CAY_CLAIM_BAD, NULL},
    {"two of the same", "GET / HTTP/1.1\r\nHost: a.example\r\nHost: a.example\r\n\r\n",
     CAY_CLAIM_NAMED, "a.example"},
    {"folded", "GET / HTTP/1.1\r\nHost: a.example\r\n b\r\n\r\n", CAY_CLAIM_BAD, NULL},
    {"a blank before the colon", "GET / HTTP/1.1\r\nHost : a.example\r\n\r\n", CAY_CLAIM_BAD, NULL},
    {"none", "GET / HTTP/1.0\r\n\r\n", CAY_CLAIM_NONE, NULL},
    {"empty", "GET / HTTP/1.1\r\nHost:\r\n\r\n", CAY_CLAIM_NONE, NULL},
    {"an address", "GET / HTTP/1.1\r\nHost: 192.0.2.1\r\n\r\n", CAY_CLAIM_NONE, NULL},
    {"an address, IPv6", "GET / HTTP/1.1\r\nHost: [2001:db8::1]:80\r\n\r\n", CAY_CLAIM_NONE, NULL},
    {"no name", "GET / HTTP/1.1\r\nHost: a b\r\n\r\n", CAY_CLAIM_BAD, NULL},
    {"the end is missing", "GET / HTTP/1.1\r\nHost: a.example\r\n", CAY_CLAIM_MORE, NULL},
    {"a line is missing", "GET / HTTP/1.1", CAY_CLAIM_MORE, NULL},
    {"a method", "GET", CAY_CLAIM_MORE, NULL},
    {"nothing", "", CAY_CLAIM_MORE, NULL},
    {"HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", CAY_CLAIM_NONE, NULL},
    {"another protocol", "SSH-2.0-x\r\n", CAY_CLAIM_NONE, NULL},
    {"another one", "EHLO a.example\r\n", CAY_CLAIM_NONE, NULL},
    {"small letters", "get / HTTP/1.1\r\n\r\n", CAY_CLAIM_NONE, NULL},
    {"a blank line first", "\r\n\r\nGET / HTTP/1.1\r\nHost: a.example\r\n\r\n", CAY_CLAIM_NAMED,
     "a.example"},
    {"a method of its own", "m-get / HTTP/1.1\r\nHost: a.example\r\n\r\n", CAY_CLAIM_NAMED,
     "a.example"},
    {"a blank behind", "GET / HTTP/1.1 \r\nHost: a.example\r\n\r\n", CAY_CLAIM_BAD, NULL},
    {"tabs", "GET\t/\tHTTP/1.1\r\nHost: a.example\r\n\r\n", CAY_CLAIM_BAD, NULL},
    {"a user", "GET http://u@a.example/ HTTP/1.1\r\nHost: b.example\r\n\r\n", CAY_CLAIM_BAD, NULL},
    {"a proxy is asked", "CONNECT a.example:443 HTTP/1.1\r\nHost: a.example\r\n\r\n",
     CAY_CLAIM_NAMED, "a.example"},
    {"capitals without end", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", CAY_CLAIM_MORE, NULL},
    {"capitals, and then none", "AMQP\1\1\0\n", CAY_CLAIM_NONE, NULL},
    {"bytes", "\x80\x01", CAY_CLAIM_NONE, NULL},
    {"a warning before the hello", "\x15\x03\x01", CAY_CLAIM_BAD, NULL},
    {"what may become one", "\x15", CAY_CLAIM_MORE, NULL},
    {"what did not", "\x15\x04", CAY_CLAIM_NONE, NULL},
};

/* The verdict on the whole, and that no part of it has another. */
static void check(const char *what, const void *bytes, size_t len, enum cay_claim_result want,
                  const char *name)
{
    struct cay_claim claim = {0};
    enum cay_claim_result got = cay_claim_read(bytes, len, false, &claim);
    CHECK_EQ(what, got, want);
    if (name)
        CHECK_STR(what, claim.name, name);
    for (size_t cut = 0; cut < len; cut++) {
        struct cay_claim part = {0};
        got = cay_claim_read(bytes, cut, false, &part);
        CHECK(what, got == CAY_CLAIM_MORE || (got == want && strcmp(part.name, claim.name) == 0));
        CHECK(what, cay_claim_read(bytes, cut, true, &part) != CAY_CLAIM_MORE);
    }
}

TEST(claim_of_a_request)
{
    for (size_t i = 0; i < COUNT(requests); i++)
        check(requests[i].what, requests[i].text, strlen(requests[i].text), requests[i].want,
              requests[i].name);
}

TEST(claim_is_looked_for_only_so_far)
{
    CAY_AUTO_BUF struct cay_buf b = {0};
    struct cay_claim claim;
    cay_buf_adds(&b, "GET / HTTP/1.1\r\nX: ");
    while (b.len < CAY_CLAIM_MAX - 1)
        cay_buf_addc(&b, 'x');
    CHECK_EQ("before", cay_claim_read(b.data, b.len, false, &claim), CAY_CLAIM_MORE);
    cay_buf_adds(&b, "xxx\r\nHost: a.example\r\n\r\n");
    CHECK_EQ("behind", cay_claim_read(b.data, b.len, false, &claim), CAY_CLAIM_BAD);
    b.len = 0;
    while (b.len < CAY_CLAIM_MAX - 4)
        cay_buf_adds(&b, "\r\n");
    cay_buf_adds(&b, "GET "); /* and more, that its end came behind */
    CHECK_EQ("all of it blank", cay_claim_read(b.data, b.len, true, &claim), CAY_CLAIM_BAD);
}

/* A ClientHello by parts. */
struct hello {
    const char *name;
    int names, extensions; /* how many: of names in one, of such extensions */
    bool none;             /* no extensions at all */
    int lie;               /* added to the length of the name's list */
    size_t record;         /* bytes of one record; 0: all */
};

static void add16(struct cay_buf *b, size_t n)
{
    cay_buf_addc(b, (char)(n >> 8));
    cay_buf_addc(b, (char)n);
}

static void add_names(struct cay_buf *b, const struct hello *h)
{
    size_t len = strlen(h->name), list = (size_t)h->names * (3 + len);
    add16(b, 0);
    add16(b, list + 2);
    add16(b, list + (size_t)h->lie);
    for (int i = 0; i < h->names; i++) {
        cay_buf_addc(b, 0);
        add16(b, len);
        cay_buf_add(b, h->name, len);
    }
}

static void add_hello(struct cay_buf *b, const struct hello *h)
{
    CAY_AUTO_BUF struct cay_buf extensions = {0}, body = {0}, handshake = {0};
    cay_buf_add(&extensions, "\0\x2b\0\3\2\3\4", 7); /* versions */
    for (int i = 0; i < h->extensions; i++)
        add_names(&extensions, h);
    cay_buf_add(&body, "\3\3", 2);
    for (int i = 0; i < 32; i++)
        cay_buf_addc(&body, (char)i);
    cay_buf_add(&body, "\4abcd\0\2\x13\1\1\0", 11); /* session, ciphers, compression */
    if (!h->none) {
        add16(&body, extensions.len);
        cay_buf_add(&body, extensions.data, extensions.len);
    }
    cay_buf_add(&handshake, "\1\0", 2);
    add16(&handshake, body.len);
    cay_buf_add(&handshake, body.data, body.len);
    for (size_t at = 0; at < handshake.len;) {
        size_t left = handshake.len - at, n = h->record && h->record < left ? h->record : left;
        cay_buf_add(b, "\x16\3\1", 3);
        add16(b, n);
        cay_buf_add(b, handshake.data + at, n);
        at += n;
    }
}

static const struct {
    const char *what;
    struct hello hello;
    enum cay_claim_result want;
    const char *name;
} hellos[] = {
    {"a name", {"a.example", 1, 1}, CAY_CLAIM_NAMED, "a.example"},
    {"its spelling", {"A.Example.", 1, 1}, CAY_CLAIM_NAMED, "a.example"},
    {"in many records", {"a.example", 1, 1, .record = 7}, CAY_CLAIM_NAMED, "a.example"},
    {"in records of a byte", {"a.example", 1, 1, .record = 1}, CAY_CLAIM_NAMED, "a.example"},
    {"none", {"", 0, 0}, CAY_CLAIM_NONE, NULL},
    {"no extension", {"", 0, 0, .none = true}, CAY_CLAIM_NONE, NULL},
    {"an address", {"192.0.2.1", 1, 1}, CAY_CLAIM_NONE, NULL},
    {"no name", {"a b", 1, 1}, CAY_CLAIM_BAD, NULL},
    {"two names", {"a.example", 2, 1}, CAY_CLAIM_BAD, NULL},
    {"two extensions", {"a.example", 1, 2}, CAY_CLAIM_BAD, NULL},
    {"an empty list", {"", 0, 1}, CAY_CLAIM_BAD, NULL},
    {"a list that is longer than it is", {"a.example", 1, 1, .lie = 1}, CAY_CLAIM_BAD, NULL},
    {"a list that is shorter", {"a.example", 1, 1, .lie = -1}, CAY_CLAIM_BAD, NULL},
};

TEST(claim_of_a_client_hello)
{
    for (size_t i = 0; i < COUNT(hellos); i++) {
        CAY_AUTO_BUF struct cay_buf b = {0};
        add_hello(&b, &hellos[i].hello);
        check(hellos[i].what, b.data, b.len, hellos[i].want, hellos[i].name);
        cay_buf_adds(&b, "\x17\3\3whatever comes behind");
        check(hellos[i].what, b.data, b.len, hellos[i].want, hellos[i].name);
    }
}

TEST(claim_of_what_begins_like_tls)
{
    static const struct {
        const char *what, *bytes;
        size_t len;
        enum cay_claim_result want;
    } cases[] = {
        {"a version of its own", "\x16\2\1\0\4\2", 6, CAY_CLAIM_NONE},
        {"something else", "\x16\x20\0\0\0\0\0\0", 8, CAY_CLAIM_NONE},
        {"megabytes, by a version of its own", "\x16\4\3\0\4\1\xff\xff\xff", 9, CAY_CLAIM_BAD},
        {"an empty record", "\x16\3\1\0\0", 5, CAY_CLAIM_BAD},
        {"a long record", "\x16\3\1\xff\xff", 5, CAY_CLAIM_BAD},
        {"another message", "\x16\3\1\0\4\2\0\0\0", 9, CAY_CLAIM_NONE},
        {"a hello of megabytes", "\x16\3\1\0\4\1\xff\xff\xff", 9, CAY_CLAIM_BAD},
        {"a hello of nothing", "\x16\3\1\0\4\1\0\0\0", 9, CAY_CLAIM_BAD},
        {"another record in the midst", "\x16\3\1\0\2\1\0\x17\3\3\0\1x", 13, CAY_CLAIM_BAD},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        check(cases[i].what, cases[i].bytes, cases[i].len, cases[i].want, NULL);
}

/* Some servers read it all the same. */
TEST(claim_of_a_hello_in_records_of_no_version)
{
    CAY_AUTO_BUF struct cay_buf b = {0};
    add_hello(&b, &(struct hello){"a.example", 1, 1});
    b.data[1] = 9;
    check("named", b.data, b.len, CAY_CLAIM_NAMED, "a.example");
}
