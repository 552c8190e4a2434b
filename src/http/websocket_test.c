/* SPDX-License-Identifier: Apache-2.0 */
#include "http/websocket.h"
#include "model/limits.h"
#include "tests/test.h"
#include <stdio.h>

#define MASK "\1\2\3\4"
#define BYTES(text) text, sizeof(text) - 1

/* Each case as the pieces it decodes to: "op:bytes" joined by '|', then the result's code. */
static const struct {
    const char *name, *bytes;
    size_t len;
    const char *want;
} cases[] = {
    {"text", BYTES("\x81\x82" MASK "ik"), "1:hi|"},
    {"empty text", BYTES("\x81\x80" MASK), "1:|"},
    {"binary", BYTES("\x82\x82" MASK "ik"), "2:hi|"},
    {"empty binary is nothing", BYTES("\x82\x80" MASK), ""},
    {"ping", BYTES("\x89\x82" MASK "ik"), "9:hi|"},
    {"pong", BYTES("\x8a\x80" MASK), "10:|"},
    {"fragments", BYTES("\x01\x82" MASK "ik\x80\x81" MASK "!"), "1:hi |"},
    {"control in between", BYTES("\x01\x82" MASK "ik\x89\x81" MASK "`\x80\x80" MASK), "9:a|1:hi|"},
    {"binary fragments", BYTES("\x02\x82" MASK "ik\x80\x81" MASK "`"), "2:hi|2:a|"},
    {"close", BYTES("\x88\x82" MASK "\x02\xea"), "8:1000 |"},
    {"close without code", BYTES("\x88\x80" MASK), "8:1005 |"},
    {"half a code", BYTES("\x88\x81" MASK "\x02"), "1002"},
    {"a code nobody may send", BYTES("\x88\x82" MASK "\x02\xef"), "1002"},
    {"unmasked", BYTES("\x81\x02hi"), "1002"},
    {"reserved bit", BYTES("\xc1\x82" MASK "ik"), "1002"},
    {"unknown op", BYTES("\x83\x82" MASK "ik"), "1002"},
    {"unknown control", BYTES("\x8b\x80" MASK), "1002"},
    {"control in fragments", BYTES("\x09\x80" MASK), "1002"},
    {"control too long", BYTES("\x89\xfe\0\x7e" MASK), "1002"},
    {"fragment of nothing", BYTES("\x80\x80" MASK), "1002"},
    {"message in a message", BYTES("\x01\x80" MASK "\x81\x80" MASK), "1002"},
    {"a short length in long form", BYTES("\x82\xfe\0\x02" MASK "ik"), "1002"},
    {"and in the longest", BYTES("\x82\xff\0\0\0\0\0\0\xff\xff" MASK), "1002"},
    {"a gigabyte", BYTES("\x82\xff\0\0\0\0\x40\0\0\0" MASK), "1009"},
    {"2^63", BYTES("\x82\xff\x80\0\0\0\0\0\0\0" MASK), "1009"},
    {"a long text", BYTES("\x81\xfe\x40\x01" MASK), "1009"},
    {"text that is none", BYTES("\x81\x81" MASK "\xfe"), "1007"},
};

static void add_piece(struct cay_buf *got, const struct cay_ws_piece *p)
{
    cay_buf_addf(got, "%d:", (int)p->op);
    if (p->op == CAY_WS_CLOSE)
        cay_buf_addf(got, "%d ", (int)p->code);
    cay_buf_add(got, p->data, p->len);
    cay_buf_addc(got, '|');
}

/* All of it in steps of so many bytes; binary pieces are joined when `join`. */
static void decode(struct cay_ws *d, const char *bytes, size_t len, size_t step,
                   struct cay_buf *got)
{
    char copy[256];
    struct cay_ws_piece piece;
    int r = 0;
    for (size_t at = 0, end = 0; r >= 0 && (at < len || r == 1);) {
        size_t used;
        if (at == end)
            end = end + step < len ? end + step : len;
        memcpy(copy, bytes + at, end - at);
        r = cay_ws_decode(d, copy, end - at, &used, &piece);
        at += used;
        if (r == 1)
            add_piece(got, &piece);
    }
    if (r < 0)
        cay_buf_addf(got, "%d", -r);
    cay_buf_addc(got, 0);
}

TEST(websocket_decodes)
{
    for (size_t i = 0; i < COUNT(cases); i++) {
        if (!cases[i].want)
            continue;
        CAY_AUTO_BUF struct cay_buf got = {0};
        struct cay_ws d = {0};
        decode(&d, cases[i].bytes, cases[i].len, 256, &got);
        CHECK_STR(cases[i].name, got.data, cases[i].want);
        cay_ws_done(&d);
    }
}

TEST(websocket_decodes_byte_by_byte)
{
    for (size_t i = 0; i < COUNT(cases); i++) {
        if (!cases[i].want || strchr(cases[i].want, '2') == cases[i].want)
            continue; /* bytes come as they come */
        CAY_AUTO_BUF struct cay_buf got = {0};
        struct cay_ws d = {0};
        decode(&d, cases[i].bytes, cases[i].len, 1, &got);
        CHECK_STR(cases[i].name, got.data, cases[i].want);
        cay_ws_done(&d);
    }
}

TEST(websocket_bounds_fragments)
{
    struct cay_ws d = {0};
    struct cay_ws_piece piece;
    size_t used;
    char first[] = "\x01\x80" MASK, more[] = "\x00\x80" MASK;
    int r = cay_ws_decode(&d, first, 6, &used, &piece), count = 1;
    for (; r == 0 && count < 1000000; count++)
        r = cay_ws_decode(&d, more, 6, &used, &piece);
    CHECK_EQ("too many", r, -CAY_WS_TOO_BIG);
    CHECK_EQ("as the limit says", count, CAY_WS_FRAGMENTS_MAX + 1);
    cay_ws_done(&d);
}

TEST(websocket_frames_come_back)
{
    static const size_t sizes[] = {0, 1, 125, 126, 127, 65535, 65536, 1000000};
    static char bytes[1000000];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(i * 7);
    for (int masked = 0; masked < 2; masked++)
        for (size_t i = 0; i < COUNT(sizes); i++) {
            CAY_AUTO_BUF struct cay_buf b = {0};
            struct cay_ws d = {.unmasked = !masked};
            struct cay_ws_piece piece = {.data = "", .len = 0};
            size_t used, at = 0, got = 0;
            cay_ws_frame(&b, CAY_WS_BINARY, bytes, sizes[i],
                         masked ? (const unsigned char *)MASK : NULL);
            int r = 1;
            while (r == 1) {
                r = cay_ws_decode(&d, b.data + at, b.len - at, &used, &piece);
                at += used;
                if (r == 1 && memcmp(piece.data, bytes + got, piece.len) != 0)
                    r = -1;
                got += r == 1 ? piece.len : 0;
            }
            CHECK_EQ("no fault", r, 0);
            CHECK_EQ("all of it", got, sizes[i]);
            CHECK_EQ("to the end", at, b.len);
            cay_ws_done(&d);
        }
}

TEST(websocket_handshake)
{
    char accept[CAY_WS_ACCEPT_SIZE];
    cay_ws_accept("dGhlIHNhbXBsZSBub25jZQ==", accept); /* RFC 6455, 1.3 */
    CHECK_STR("as the RFC has it", accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    CHECK("a key", cay_ws_key_is_valid("dGhlIHNhbXBsZSBub25jZQ=="));
    CHECK("none", !cay_ws_key_is_valid(NULL) && !cay_ws_key_is_valid(""));
    CHECK("too short", !cay_ws_key_is_valid("dGhlIHNhbXBsZSBub25jZ==="));
    CHECK("not base64", !cay_ws_key_is_valid("dGhlIHNhbXBsZSBub25j\r\n=="));
}
