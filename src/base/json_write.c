/* SPDX-License-Identifier: Apache-2.0 */
/* Writing JSON straight onto the buffer: one reservation per value. */
#include "base/clock.h"
#include "base/json.h"
#include "base/str.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define PIECE 1024 /* bytes of a string that are escaped under one reservation */
#define ONES 0x0101010101010101ULL
#define HIGHS 0x8080808080808080ULL

/* Is one of the eight bytes a quote, a backslash, a control character or no ASCII? (A borrow can
 * mark a byte behind a true one; it never hides one.) */
static bool needs_care(uint64_t eight)
{
    uint64_t quote = eight ^ ONES * '"', slash = eight ^ ONES * '\\';
    return (((quote - ONES) & ~quote) | ((slash - ONES) & ~slash) |
            ((eight - ONES * 0x20) & ~eight) | eight) &
           HIGHS;
}

/* One character that cannot be copied as it is; returns how many bytes of s it took. */
static size_t put_special(char **to, const char *s, size_t len)
{
    static const char hex[] = "0123456789abcdef";
    unsigned char c = (unsigned char)*s;
    if (c >= 0x80) {
        int step = cay_str_utf8_step(s, len);
        memcpy(*to, step > 0 ? s : "\xEF\xBF\xBD", step > 0 ? (size_t)step : 3);
        *to += step > 0 ? step : 3;
        return step > 0 ? (size_t)step : 1;
    }
    const char *from = "\"\\\b\f\n\r\t", *into = "\"\\bfnrt";
    const char *known = c ? strchr(from, c) : NULL;
    *(*to)++ = '\\';
    if (known) {
        *(*to)++ = into[known - from];
        return 1;
    }
    memcpy(*to, "u00", 3);
    (*to)[3] = hex[c >> 4];
    (*to)[4] = hex[c & 15];
    *to += 5;
    return 1;
}

/* Escapes from s on until about PIECE bytes are done; returns how many were. */
static size_t put_piece(char **to, const char *s, size_t len)
{
    size_t at = 0, stop = len < PIECE ? len : PIECE;
    while (at < stop) {
        uint64_t eight;
        if (stop - at >= sizeof eight) {
            memcpy(&eight, s + at, sizeof eight);
            if (!needs_care(eight)) {
                memcpy(*to, &eight, sizeof eight);
                *to += sizeof eight;
                at += sizeof eight;
                continue;
            }
        }
        unsigned char c = (unsigned char)s[at];
        if (c >= 0x20 && c < 0x80 && c != '"' && c != '\\') {
            *(*to)++ = s[at++];
            continue;
        }
        at += put_special(to, s + at, len - at);
    }
    return at;
}

void cay_json_escape(struct cay_buf *b, const char *s, size_t len)
{
    size_t at = 0;
    while (at < len) {
        size_t piece = len - at < PIECE ? len - at : PIECE;
        char *room = cay_buf_room(b, CAY_JSON_WORST * piece + 8), *to = room;
        at += put_piece(&to, s + at, len - at);
        b->len += (size_t)(to - room);
    }
}

static void put_quoted(struct cay_buf *b, const char *s, size_t len)
{
    cay_buf_addc(b, '"');
    cay_json_escape(b, s, len);
    cay_buf_addc(b, '"');
}

/* The comma and the key ahead of a value, and room for `more` bytes behind them. */
static char *begin(struct cay_json_writer *w, const char *key, size_t more)
{
    struct cay_buf *b = w->buf;
    if (w->comma)
        cay_buf_addc(b, ',');
    w->comma = true;
    if (key) {
        put_quoted(b, key, strlen(key));
        cay_buf_addc(b, ':');
    }
    return cay_buf_room(b, more);
}

void cay_jw_object(struct cay_json_writer *w, const char *key)
{
    *begin(w, key, 1) = '{';
    w->buf->len++;
    w->comma = false;
}

void cay_jw_object_end(struct cay_json_writer *w)
{
    cay_buf_addc(w->buf, '}');
    w->comma = true;
}

void cay_jw_array(struct cay_json_writer *w, const char *key)
{
    *begin(w, key, 1) = '[';
    w->buf->len++;
    w->comma = false;
}

void cay_jw_array_end(struct cay_json_writer *w)
{
    cay_buf_addc(w->buf, ']');
    w->comma = true;
}

void cay_jw_strn(struct cay_json_writer *w, const char *key, const char *value, size_t len)
{
    (void)begin(w, key, 2);
    put_quoted(w->buf, value, len);
}

void cay_jw_str(struct cay_json_writer *w, const char *key, const char *value)
{
    if (value)
        cay_jw_strn(w, key, value, strlen(value));
    else
        cay_jw_null(w, key);
}

void cay_jw_raw(struct cay_json_writer *w, const char *key, const char *json, size_t len)
{
    memcpy(begin(w, key, len + 1), json, len);
    w->buf->len += len;
}

void cay_jw_int(struct cay_json_writer *w, const char *key, int64_t value)
{
    char text[20], *at = text + sizeof text;
    uint64_t left = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do
        *--at = (char)('0' + left % 10);
    while (left /= 10);
    if (value < 0)
        *--at = '-';
    cay_jw_raw(w, key, at, (size_t)(text + sizeof text - at));
}

void cay_jw_real(struct cay_json_writer *w, const char *key, double value)
{
    char text[32];
    if (!isfinite(value)) {
        cay_jw_null(w, key); /* JSON has no other word for it */
        return;
    }
    if (fabs(value) <= 9007199254740992.0 && value == (double)(int64_t)value) {
        cay_jw_int(w, key, (int64_t)value);
        return;
    }
    int len = snprintf(text, sizeof text, "%.15g", value);
    if (strtod(text, NULL) != value)
        len = snprintf(text, sizeof text, "%.17g", value);
    cay_jw_raw(w, key, text, (size_t)len);
}

void cay_jw_bool(struct cay_json_writer *w, const char *key, bool value)
{
    cay_jw_raw(w, key, value ? "true" : "false", value ? 4 : 5);
}

void cay_jw_null(struct cay_json_writer *w, const char *key)
{
    cay_jw_raw(w, key, "null", 4);
}

void cay_jw_time(struct cay_json_writer *w, const char *key, int64_t time_ms)
{
    char text[CAY_ISO_SIZE];
    if (time_ms == 0) {
        cay_jw_null(w, key);
        return;
    }
    (void)cay_clock_iso(time_ms, text);
    char *to = begin(w, key, CAY_ISO_SIZE + 1);
    to[0] = '"';
    memcpy(to + 1, text, CAY_ISO_SIZE - 1);
    to[CAY_ISO_SIZE] = '"';
    w->buf->len += CAY_ISO_SIZE + 1;
}
