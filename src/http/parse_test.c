/* SPDX-License-Identifier: Apache-2.0 */
#include "http/parse.h"
#include "model/limits.h"
#include "tests/test.h"
#include <stdio.h>

#define GET "GET / HTTP/1.1\r\n"
#define HOST "Host: h\r\n"

/* Scans and parses, all bytes at once or one after the other. */
static int parse(struct cay_arena *a, const char *bytes, size_t len, size_t step,
                 struct cay_head *out, struct cay_error *err)
{
    size_t scanned = 0;
    for (size_t have = step < len ? step : len;; have = have + step < len ? have + step : len) {
        int r = cay_parse_scan(bytes, have, &scanned, err);
        if (r > 0)
            return cay_parse_head(a, bytes, (size_t)r, out, err);
        if (r < 0 || have == len)
            return r < 0 ? r : 1;
    }
}

static const struct {
    const char *name, *bytes;
    int want; /* 1: more must come */
    const char *error;
} cases[] = {
    {"plain", GET HOST "\r\n", 0, NULL},
    {"one empty line ahead", "\r\n" GET HOST "\r\n", 0, NULL},
    {"two empty lines ahead", "\r\n\r\n" GET HOST "\r\n", CAY_ERR_INVALID, "BAD_REQUEST"},
    {"a lone CR ahead", "\rGET / HTTP/1.1\r\n" HOST "\r\n", CAY_ERR_INVALID, "BAD_REQUEST"},
    {"not whole", GET HOST, 1, NULL},
    {"nothing", "", 1, NULL},
    {"noise", "\x16\x03\x01", CAY_ERR_INVALID, "BAD_REQUEST"},
    {"bare LF", "GET / HTTP/1.1\nHost: h\n\n", CAY_ERR_INVALID, "BAD_REQUEST"},
    {"bare LF in a header", GET "Host: h\n\r\n", CAY_ERR_INVALID, "BAD_REQUEST"},
    {"bare CR in a value", GET HOST "A: b\rc\r\n\r\n", CAY_ERR_INVALID, "BAD_REQUEST"},
    {"control in a value", GET HOST "A: b\001c\r\n\r\n", CAY_ERR_INVALID, "BAD_REQUEST"},
    {"DEL in a value", GET HOST "A: b\177c\r\n\r\n", CAY_ERR_INVALID, "BAD_REQUEST"},
    {"tab in a value", GET HOST "A: b\tc\r\n\r\n", 0, NULL},
    {"blank before the colon", GET "Host : h\r\n\r\n", CAY_ERR_INVALID, "BAD_REQUEST"},
    {"obs-fold", GET HOST "A: b\r\n c\r\n\r\n", CAY_ERR_INVALID, "BAD_REQUEST"},
    {"fold before any header", GET " A: b\r\n" HOST "\r\n", CAY_ERR_INVALID, "BAD_REQUEST"},
    {"no colon", GET HOST "A\r\n\r\n", CAY_ERR_INVALID, "BAD_REQUEST"},
    {"no name", GET HOST ": b\r\n\r\n", CAY_ERR_INVALID, "BAD_REQUEST"},
    {"bad name", GET HOST "A(b): c\r\n\r\n", CAY_ERR_INVALID, "BAD_REQUEST"},
    {"no Host", GET "\r\n", CAY_ERR_INVALID, "BAD_REQUEST"},
    {"no Host in 1.0", "GET / HTTP/1.0\r\n\r\n", CAY_ERR_INVALID, "BAD_REQUEST"},
    {"two Hosts", GET HOST HOST "\r\n", CAY_ERR_INVALID, "BAD_REQUEST"},
    {"empty Host", GET "Host:\r\n\r\n", CAY_ERR_INVALID, "BAD_REQUEST"},
    {"Host with a path", GET "Host: h/x\r\n\r\n", CAY_ERR_INVALID, "BAD_REQUEST"},
    {"Host with a user", GET "Host: a@h\r\n\r\n", CAY_ERR_INVALID, "BAD_REQUEST"},
    {"Host of numbers", GET "Host: [::1]:3000\r\n\r\n", 0, NULL},
    {"two spaces", "GET  / HTTP/1.1\r\n" HOST "\r\n", CAY_ERR_INVALID, "BAD_REQUEST"},
    {"blank at the end", "GET / HTTP/1.1 \r\n" HOST "\r\n", CAY_ERR_INVALID, "BAD_REQUEST"},
    {"no version", "GET /\r\n" HOST "\r\n", CAY_ERR_INVALID, "BAD_REQUEST"},
    {"tab for space", "GET\t/ HTTP/1.1\r\n" HOST "\r\n", CAY_ERR_INVALID, "BAD_REQUEST"},
    {"lower-case version", "GET / http/1.1\r\n" HOST "\r\n", CAY_ERR_INVALID, "BAD_REQUEST"},
    {"1.0", "GET / HTTP/1.0\r\n" HOST "\r\n", 0, NULL},
    {"2.0", "GET / HTTP/2.0\r\n" HOST "\r\n", CAY_ERR_UNSUPPORTED, "HTTP_VERSION_NOT_SUPPORTED"},
    {"1.2", "GET / HTTP/1.2\r\n" HOST "\r\n", CAY_ERR_UNSUPPORTED, "HTTP_VERSION_NOT_SUPPORTED"},
    {"HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\n", CAY_ERR_UNSUPPORTED, "HTTP_VERSION_NOT_SUPPORTED"},
    {"bad method", "G(T / HTTP/1.1\r\n" HOST "\r\n", CAY_ERR_INVALID, "BAD_REQUEST"},
    {"long method", "AAAAAAAAAAAAAAAAA / HTTP/1.1\r\n" HOST "\r\n", CAY_ERR_INVALID, "BAD_REQUEST"},
    {"absolute form", "GET http://h/ HTTP/1.1\r\n" HOST "\r\n", CAY_ERR_INVALID, "BAD_REQUEST"},
    {"relative", "GET x HTTP/1.1\r\n" HOST "\r\n", CAY_ERR_INVALID, "BAD_REQUEST"},
    {"fragment", "GET /#x HTTP/1.1\r\n" HOST "\r\n", CAY_ERR_INVALID, "BAD_REQUEST"},
    {"raw UTF-8 in the target", "GET /\xc3\xa4 HTTP/1.1\r\n" HOST "\r\n", CAY_ERR_INVALID,
     "BAD_REQUEST"},
    {"* for OPTIONS", "OPTIONS * HTTP/1.1\r\n" HOST "\r\n", 0, NULL},
    {"* for GET", "GET * HTTP/1.1\r\n" HOST "\r\n", CAY_ERR_INVALID, "BAD_REQUEST"},
    {"CONNECT", "CONNECT h:1 HTTP/1.1\r\n" HOST "\r\n", 0, NULL},
    {"length", GET HOST "Content-Length: 12\r\n\r\n", 0, NULL},
    {"two lengths", GET HOST "Content-Length: 1\r\nContent-Length: 1\r\n\r\n", CAY_ERR_INVALID,
     "BAD_REQUEST"},
    {"list of lengths", GET HOST "Content-Length: 1, 1\r\n\r\n", CAY_ERR_INVALID, "BAD_REQUEST"},
    {"negative length", GET HOST "Content-Length: -1\r\n\r\n", CAY_ERR_INVALID, "BAD_REQUEST"},
    {"signed length", GET HOST "Content-Length: +1\r\n\r\n", CAY_ERR_INVALID, "BAD_REQUEST"},
    {"hex length", GET HOST "Content-Length: 0x1\r\n\r\n", CAY_ERR_INVALID, "BAD_REQUEST"},
    {"empty length", GET HOST "Content-Length:\r\n\r\n", CAY_ERR_INVALID, "BAD_REQUEST"},
    {"huge length", GET HOST "Content-Length: 99999999999999999999\r\n\r\n", CAY_ERR_INVALID,
     "BAD_REQUEST"},
    {"length and chunked", GET HOST "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
     CAY_ERR_INVALID, "BAD_REQUEST"},
    {"chunked", GET HOST "Transfer-Encoding: chunked\r\n\r\n", 0, NULL},
    {"chunked twice", GET HOST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
     CAY_ERR_INVALID, "BAD_REQUEST"},
    {"gzip, chunked", GET HOST "Transfer-Encoding: gzip, chunked\r\n\r\n", CAY_ERR_INVALID,
     "BAD_REQUEST"},
    {"identity", GET HOST "Transfer-Encoding: identity\r\n\r\n", CAY_ERR_INVALID, "BAD_REQUEST"},
    {"almost chunked", GET HOST "Transfer-Encoding: xchunked\r\n\r\n", CAY_ERR_INVALID,
     "BAD_REQUEST"},
    {"chunked in 1.0", "GET / HTTP/1.0\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n",
     CAY_ERR_INVALID, "BAD_REQUEST"},
    {"other expectation", GET HOST "Expect: tea\r\n\r\n", CAY_ERR_INVALID, "BAD_REQUEST"},
};

TEST(parse_refuses_what_is_ambiguous)
{
    for (size_t i = 0; i < COUNT(cases); i++)
        for (size_t step = 1; step < 100000; step *= 300) {
            CAY_AUTO_ARENA struct cay_arena a = {0};
            struct cay_head head;
            struct cay_error err = {0};
            size_t len = strlen(cases[i].bytes);
            CHECK_EQ(cases[i].name, parse(&a, cases[i].bytes, len, step, &head, &err),
                     cases[i].want);
            if (cases[i].error)
                CHECK_STR(cases[i].name, cay_error_name(&err), cases[i].error);
        }
}

TEST(parse_refuses_a_nul)
{
    static const char bytes[] = GET HOST "A: b\0c\r\n\r\n";
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_head head;
    struct cay_error err;
    CHECK_EQ("NUL", parse(&a, bytes, sizeof bytes - 1, 1000, &head, &err), CAY_ERR_INVALID);
}

TEST(parse_cuts_the_head)
{
    static const char bytes[] = "POST /a/b?c=d&e HTTP/1.1\r\nHOST: h:80\r\nX-List: 1\r\n"
                                "Connection: foo, Close\r\nx-list:  2 \t\r\nContent-Length: 7\r\n"
                                "X-LIST: 3\r\nExpect: 100-Continue\r\n\r\nbody";
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_head head;
    struct cay_error err;
    CHECK_EQ("ok", parse(&a, bytes, sizeof bytes - 1, 7, &head, &err), 0);
    CHECK_STR("method", head.method, "POST");
    CHECK_STR("path", head.path, "/a/b");
    CHECK_STR("query", head.query, "c=d&e");
    CHECK_STR("host", head.host, "h:80");
    CHECK_STR("joined", cay_pairs_get(&head.headers, "x-list"), "1, 2, 3");
    CHECK_EQ("headers", head.headers.count, 5);
    CHECK_EQ("length", head.length, 7);
    CHECK("close", !head.keep_alive);
    CHECK("expects", head.expects);
    CHECK("not chunked", !head.chunked);
}

TEST(parse_bounds_the_head)
{
    static char bytes[CAY_HTTP_HEAD_MAX + 100];
    for (int over = 0; over <= 1; over++) {
        CAY_AUTO_ARENA struct cay_arena a = {0};
        struct cay_head head;
        struct cay_error err;
        int rest = (int)CAY_HTTP_HEAD_MAX - (int)strlen(GET HOST "A: \r\n\r\n") + over;
        int len = snprintf(bytes, sizeof bytes, GET HOST "A: %0*d\r\n\r\n", rest, 0);
        CHECK_EQ("bytes", parse(&a, bytes, (size_t)len, 999, &head, &err),
                 over ? CAY_ERR_TOO_LARGE : 0);
        size_t at = (size_t)snprintf(bytes, sizeof bytes, GET HOST);
        for (int i = 1; i < CAY_HTTP_HEADERS_MAX + over; i++)
            at += (size_t)snprintf(bytes + at, sizeof bytes - at, "A: b\r\n");
        at += (size_t)snprintf(bytes + at, sizeof bytes - at, "\r\n");
        CHECK_EQ("headers", parse(&a, bytes, at, 999, &head, &err), over ? CAY_ERR_TOO_LARGE : 0);
    }
}
