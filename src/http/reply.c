/* SPDX-License-Identifier: Apache-2.0 */
/* The answer's grammar (RFC 9112), line by line, with a bound on each line, head and trailer. */
#include "http/reply.h"
#include <string.h>
#include <strings.h>

#define LENGTH_MAX ((uint64_t)1 << 53)

static int bad(struct cay_error *err, const char *why)
{
    return cay_fail_as(err, CAY_ERR_PROVIDER, "BAD_ANSWER",
                       "the answer is no HTTP that can be trusted: %s", why);
}

void cay_reply_init(struct cay_reply *a)
{
    a->state = CAY_REPLY_STATUS;
    a->status = 0;
    a->keep_alive = true;
    a->content_type[0] = 0;
    a->retry_after_s = 0;
    a->has_length = a->chunked = a->old = false;
    a->left = 0;
    a->head_bytes = a->line_len = 0;
    a->headers = a->interim = 0;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_token_char(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c && strchr("!#$%&'*+-.^_`|~", c));
}

/* Field values and reason phrases: no control characters but the tab. */
static bool is_text(const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (((unsigned char)s[i] < 0x20 && s[i] != '\t') || s[i] == 0x7f)
            return false;
    return true;
}

static int take_status(struct cay_reply *a, struct cay_error *err)
{
    const char *l = a->line;
    if (a->line_len < 12 || (memcmp(l, "HTTP/1.1 ", 9) != 0 && memcmp(l, "HTTP/1.0 ", 9) != 0))
        return bad(err, "its first line is no status line");
    if (l[9] < '1' || l[9] > '5' || !is_digit(l[10]) || !is_digit(l[11]) ||
        (a->line_len > 12 && l[12] != ' ') || !is_text(l, a->line_len))
        return bad(err, "its status is broken");
    a->status = (l[9] - '0') * 100 + (l[10] - '0') * 10 + (l[11] - '0');
    a->old = l[7] == '0';
    a->keep_alive = !a->old;
    a->state = CAY_REPLY_HEADERS;
    return 0;
}

static int take_length(struct cay_reply *a, const char *value, size_t len, struct cay_error *err)
{
    uint64_t n = 0;
    if (a->has_length)
        return bad(err, "it has two lengths");
    if (len == 0 || len > 16)
        return bad(err, "its length is broken");
    for (size_t i = 0; i < len; i++) {
        if (!is_digit(value[i]))
            return bad(err, "its length is broken");
        n = n * 10 + (uint64_t)(value[i] - '0');
    }
    if (n > LENGTH_MAX)
        return bad(err, "its length is beyond all bounds");
    a->has_length = true;
    a->left = n;
    return 0;
}

static int take_coding(struct cay_reply *a, const char *value, struct cay_error *err)
{
    if (a->chunked || strcasecmp(value, "chunked") != 0)
        return bad(err, "its transfer coding is not plain chunked");
    a->chunked = true;
    return 0;
}

static void take_type(struct cay_reply *a, const char *value)
{
    size_t len = strcspn(value, "; \t");
    if (len >= sizeof a->content_type)
        len = sizeof a->content_type - 1;
    memcpy(a->content_type, value, len);
    a->content_type[len] = 0;
}

static void take_retry(struct cay_reply *a, const char *value, size_t len)
{
    int64_t s = 0;
    for (size_t i = 0; i < len; i++) {
        if (!is_digit(value[i]) || s > 86400)
            return; /* a date, or nonsense: as if it were not there */
        s = s * 10 + (value[i] - '0');
    }
    a->retry_after_s = s;
}

static int take_field(struct cay_reply *a, const char *name, const char *value, size_t len,
                      struct cay_error *err)
{
    if (strcasecmp(name, "content-length") == 0)
        return take_length(a, value, len, err);
    if (strcasecmp(name, "transfer-encoding") == 0)
        return take_coding(a, value, err);
    if (strcasecmp(name, "content-encoding") == 0 && strcasecmp(value, "identity") != 0)
        return bad(err, "it is encoded, which was not asked for");
    if (strcasecmp(name, "content-type") == 0)
        take_type(a, value);
    else if (strcasecmp(name, "retry-after") == 0)
        take_retry(a, value, len);
    else if (strcasecmp(name, "connection") == 0 && strcasestr(value, "close"))
        a->keep_alive = false;
    return 0;
}

/* Splits "Name: value"; the value loses the blanks around it. */
static int take_header(struct cay_reply *a, struct cay_error *err)
{
    size_t name_len = 0;
    while (name_len < a->line_len && is_token_char(a->line[name_len]))
        name_len++;
    if (name_len == 0 || a->line[name_len] != ':' || !is_text(a->line, a->line_len))
        return bad(err, "a header line is broken");
    if (++a->headers > CAY_REPLY_HEADERS_MAX)
        return bad(err, "it has too many headers");
    a->line[name_len] = 0;
    char *value = a->line + name_len + 1;
    char *end = a->line + a->line_len;
    while (*value == ' ' || *value == '\t')
        value++;
    while (end > value && (end[-1] == ' ' || end[-1] == '\t'))
        *--end = 0;
    return take_field(a, a->line, value, (size_t)(end - value), err);
}

static int end_interim(struct cay_reply *a, struct cay_error *err)
{
    int seen = a->interim + 1;
    if (a->status == 101 || a->has_length || a->chunked)
        return bad(err, "an interim answer has what only a final one may have");
    if (seen > CAY_REPLY_INTERIM_MAX)
        return bad(err, "it has too many interim answers");
    cay_reply_init(a);
    a->interim = seen;
    return 0;
}

/* The blank line: says how the body ends. One that ends with the connection is refused, since a
 * cut could not be told from an end. */
static int end_head(struct cay_reply *a, struct cay_error *err)
{
    if (a->status < 200)
        return end_interim(a, err);
    if (a->chunked && (a->has_length || a->old))
        return bad(err, "it is chunked where it must not be");
    a->head_bytes = 0;
    if (a->status == 204 || a->status == 304) {
        a->state = CAY_REPLY_DONE;
        return 0;
    }
    if (!a->chunked && !a->has_length)
        return bad(err, "it does not tell its length");
    if (a->chunked)
        a->state = CAY_REPLY_CHUNK_SIZE;
    else
        a->state = a->left ? CAY_REPLY_FIXED : CAY_REPLY_DONE;
    return 0;
}

static int hex_value(char c)
{
    if (is_digit(c))
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

static int take_chunk_size(struct cay_reply *a, struct cay_error *err)
{
    uint64_t size = 0;
    size_t i = 0;
    for (; i < a->line_len && hex_value(a->line[i]) >= 0; i++) {
        if (i >= 13)
            return bad(err, "a chunk is beyond all bounds");
        size = size * 16 + (uint64_t)hex_value(a->line[i]);
    }
    if (i == 0 || (i < a->line_len && a->line[i] != ';') || !is_text(a->line, a->line_len))
        return bad(err, "a chunk's size is broken");
    a->left = size;
    a->state = size ? CAY_REPLY_CHUNK_DATA : CAY_REPLY_TRAILER;
    return 0;
}

static int take_trailer(struct cay_reply *a, struct cay_error *err)
{
    if (a->line_len == 0) {
        a->state = CAY_REPLY_DONE;
        return 0;
    }
    if (!memchr(a->line, ':', a->line_len) || !is_text(a->line, a->line_len))
        return bad(err, "a trailer line is broken");
    return 0; /* nothing in a trailer is for us */
}

static int take_line(struct cay_reply *a, struct cay_error *err)
{
    switch (a->state) {
    case CAY_REPLY_STATUS:
        return take_status(a, err);
    case CAY_REPLY_HEADERS:
        return a->line_len ? take_header(a, err) : end_head(a, err);
    case CAY_REPLY_CHUNK_SIZE:
        return take_chunk_size(a, err);
    case CAY_REPLY_CHUNK_END:
        if (a->line_len)
            return bad(err, "a chunk is longer than it said");
        a->state = CAY_REPLY_CHUNK_SIZE;
        return 0;
    default:
        return take_trailer(a, err);
    }
}

static size_t line_max(const struct cay_reply *a)
{
    switch (a->state) {
    case CAY_REPLY_CHUNK_SIZE:
        return CAY_REPLY_CHUNK_LINE_MAX;
    case CAY_REPLY_CHUNK_END:
        return 2;
    case CAY_REPLY_TRAILER:
        return CAY_REPLY_TRAILER_MAX - a->head_bytes;
    default:
        return CAY_REPLY_HEAD_MAX - a->head_bytes;
    }
}

/* Adds one byte to the line under way. Only CRLF ends a line: readers differ about the rest. */
static int feed_line(struct cay_reply *a, char c, struct cay_error *err)
{
    bool counted = a->state == CAY_REPLY_STATUS || a->state == CAY_REPLY_HEADERS ||
                   a->state == CAY_REPLY_TRAILER;
    if (a->line_len >= line_max(a))
        return bad(err, "a line or its head is too long");
    a->line[a->line_len++] = c;
    if (c != '\n')
        return 0;
    if (a->line_len < 2 || a->line[a->line_len - 2] != '\r')
        return bad(err, "a line does not end in CRLF");
    if (counted)
        a->head_bytes += a->line_len;
    a->line_len -= 2;
    a->line[a->line_len] = 0;
    int r = take_line(a, err);
    a->line_len = 0;
    return r;
}

int cay_reply_feed(struct cay_reply *a, const char *data, size_t len, cay_reply_sink sink,
                   void *arg, size_t *used_out, struct cay_error *err)
{
    size_t used = 0;
    int r = 0;

    while (used < len && a->state != CAY_REPLY_DONE) {
        if (a->state != CAY_REPLY_FIXED && a->state != CAY_REPLY_CHUNK_DATA) {
            r = feed_line(a, data[used++], err);
            if (r < 0)
                return r;
            continue;
        }
        size_t n = len - used < a->left ? len - used : (size_t)a->left;
        r = sink(arg, a, data + used, n, err);
        if (r < 0)
            return r;
        used += n;
        a->left -= n;
        if (a->left == 0)
            a->state = a->state == CAY_REPLY_FIXED ? CAY_REPLY_DONE : CAY_REPLY_CHUNK_END;
    }
    *used_out = used;
    return 0;
}
