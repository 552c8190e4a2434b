/* SPDX-License-Identifier: Apache-2.0 */
#include "net/request.h"
#include <string.h>
#include <strings.h>

#define CHUNK_LINE_MAX 256
#define CHUNK_DIGITS 15 /* more than anybody sends */

struct text {
    const char *at;
    size_t len;
};

/* ---- words ---- */

static bool is_token_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("!#$%&'*+-.^_`|~", c));
}

static size_t token_len(struct text t)
{
    size_t len = 0;
    while (len < t.len && is_token_char(t.at[len]))
        len++;
    return len;
}

static bool is(struct text t, const char *word)
{
    return t.len == strlen(word) && strncasecmp(t.at, word, t.len) == 0;
}

static struct text after(struct text t, size_t len)
{
    return (struct text){t.at + len, t.len - len};
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static struct text trimmed(struct text t)
{
    while (t.len > 0 && is_blank(t.at[0]))
        t = after(t, 1);
    while (t.len > 0 && is_blank(t.at[t.len - 1]))
        t.len--;
    return t;
}

/* One of "a, b, c"? */
static bool lists(struct text t, const char *word)
{
    while (t.len > 0) {
        const char *comma = memchr(t.at, ',', t.len);
        size_t len = comma ? (size_t)(comma - t.at) : t.len;
        if (is(trimmed((struct text){t.at, len}), word))
            return true;
        t = after(t, len + (comma != NULL));
    }
    return false;
}

/* A line feed ends a line everywhere; a carriage return only before it. */
static bool take_line(struct text *left, struct text *line_out)
{
    const char *end = memchr(left->at, '\n', left->len);
    if (!end)
        return false;
    size_t len = (size_t)(end - left->at);
    *line_out = (struct text){left->at, len > 0 && end[-1] == '\r' ? len - 1 : len};
    *left = after(*left, len + 1);
    return true;
}

static bool is_plain(struct text t)
{
    for (size_t i = 0; i < t.len; i++)
        if (((unsigned char)t.at[i] < ' ' && t.at[i] != '\t') || t.at[i] == 0x7f)
            return false;
    return true;
}

static bool holds(struct text t, const char *word)
{
    for (; t.len >= strlen(word); t = after(t, 1))
        if (strncasecmp(t.at, word, strlen(word)) == 0)
            return true;
    return false;
}

/* ---- a head ---- */

struct reading {
    struct cay_request *r;
    bool named, has_length, old; /* old: HTTP/1.0 */
    bool to_switch;              /* Connection: Upgrade */
};

static bool is_number(struct text t)
{
    size_t len = 0;
    while (len < t.len && t.at[len] >= '0' && t.at[len] <= '9')
        len++;
    return len == t.len;
}

/* Of "host", "host:80", "[::1]:80" the host; an address is no name, and fine. */
static bool read_one_host(struct text t, char out[CAY_HOST_SIZE])
{
    const char *of_address =
        t.len > 0 && t.at[0] == '[' ? "0123456789abcdefABCDEF:.[]" : "0123456789.";
    const char *colon = of_address[10] == '.' ? memchr(t.at, ':', t.len) : NULL;
    size_t len = colon ? (size_t)(colon - t.at) : t.len;
    out[0] = 0;
    if (colon && !is_number(after(t, len + 1)))
        return false; /* "host:x@other" is another host to some */
    if (cay_host_read(t.at, len, out))
        return true;
    for (size_t i = 0; i < len; i++)
        if (!strchr(of_address, t.at[i]))
            return false;
    return true;
}

/* Said twice it must be the same. */
static bool read_host(struct reading *x, struct text t)
{
    char host[CAY_HOST_SIZE];
    if (!read_one_host(t, host))
        return false;
    bool same = host[0] ? strcmp(host, x->r->host) == 0 : is(t, "") || !x->r->host[0];
    if (x->named)
        return same;
    x->named = true;
    memcpy(x->r->host, host, sizeof host);
    return true;
}

static bool read_length(struct reading *x, struct text t)
{
    uint64_t length = 0;
    for (size_t i = 0; i < t.len; i++)
        length = length * 10 + (uint64_t)(t.at[i] - '0');
    bool once = !x->has_length && is_number(t) && t.len > 0 && t.len <= 18;
    x->has_length = true;
    x->r->length = length;
    return once;
}

static bool read_coding(struct reading *x, struct text t)
{
    bool once = !x->r->chunked && !x->old && is(t, "chunked");
    x->r->chunked = true;
    return once;
}

static bool read_upgrade(struct reading *x, struct text t)
{
    x->r->websocket = !x->r->upgrades && is(t, "websocket");
    x->r->upgrades = true;
    return true;
}

static bool read_connection(struct reading *x, struct text t)
{
    x->to_switch = x->to_switch || lists(t, "upgrade");
    return true;
}

static const struct {
    const char *name;
    bool (*read)(struct reading *x, struct text value);
} headers[] = {
    {"host", read_host},       {"content-length", read_length}, {"transfer-encoding", read_coding},
    {"upgrade", read_upgrade}, {"connection", read_connection},
};

static bool read_header(struct reading *x, struct text line)
{
    size_t name = token_len(line);
    if (name == 0 || name == line.len || line.at[name] != ':' || !is_plain(line))
        return false; /* folded ones too: some join them, some do not */
    for (size_t i = 0; i < CAY_COUNT(headers); i++)
        if (is((struct text){line.at, name}, headers[i].name))
            return headers[i].read(x, trimmed(after(line, name + 1)));
    return true;
}

/* "/path", "*", "http://host/path", and host:port for CONNECT. */
static bool read_target(struct reading *x, struct text t)
{
    size_t scheme = 0, len = 0;
    if (x->r->connects)
        return read_host(x, t);
    if (t.at[0] == '/' || is(t, "*"))
        return true;
    while (scheme < t.len && is_token_char(t.at[scheme]))
        scheme++;
    if (t.len - scheme < 3 || memcmp(t.at + scheme, "://", 3) != 0)
        return false;
    t = after(t, scheme + 3);
    while (len < t.len && !memchr("/?#", t.at[len], 3))
        len++;
    return read_host(x, (struct text){t.at, len});
}

/* What somebody takes for a blank between words: C, Python and others do not agree. */
static bool is_gap(char c)
{
    return c && strchr(" \t\v\f\x1c\x1d\x1e\x1f\x85\xa0", c);
}

static size_t gap_len(struct text t)
{
    size_t len = 0;
    while (len < t.len && is_gap(t.at[len]))
        len++;
    return len;
}

static size_t word_len(struct text t)
{
    size_t len = 0;
    while (len < t.len && t.at[len] > ' ' && t.at[len] < 0x7f)
        len++;
    return len;
}

/* Could anybody take this line, or what has come of it, for a request's? Those without a version
 * are as old as HTTP, and some servers still read the host in them, or behind them. */
static bool is_like_a_request(struct text line)
{
    static const char old[] = "GET";
    line = after(line, gap_len(line));
    if (holds(line, "HTTP/"))
        return true;
    size_t word = word_len(line);
    if (word != sizeof old - 1 || memcmp(line.at, old, word) != 0)
        return false;
    line = after(line, word);
    line = after(line, gap_len(line));
    return (line.len > 0 && line.at[0] == '/') || holds(line, "://");
}

/* May a request begin so, even one that is badly written? */
static bool may_be_words(struct text line)
{
    size_t gap = gap_len(line), word = word_len(after(line, gap));
    if (word > 0 && !is_token_char(line.at[gap]))
        return false;
    return gap + word == line.len || (word > 0 && is_gap(line.at[gap + word]));
}

/* "GET /path HTTP/1.1", one blank between words. */
static bool read_words(struct reading *x, struct text line)
{
    static const char version[] = " HTTP/1.";
    const size_t tail = sizeof version; /* with its last digit */
    struct text method = {line.at, token_len(line)};
    if (method.len == 0 || line.len < method.len + 1 + tail || line.at[method.len] != ' ' ||
        !is_plain(line) || memcmp(line.at + line.len - tail, version, tail - 1) != 0)
        return false;
    struct text target = {line.at + method.len + 1, line.len - method.len - 1 - tail};
    char digit = line.at[line.len - 1];
    if (target.len == 0 || memchr(target.at, ' ', target.len) ||
        memchr(target.at, '\t', target.len) || (digit != '0' && digit != '1'))
        return false;
    x->old = digit == '0';
    x->r->loose = line.at[line.len] != '\r';
    x->r->connects = is(method, "CONNECT");
    x->r->echoes = is(method, "TRACE");
    return read_target(x, target);
}

/* What only looks like a request is another's, unless somebody could take it for one. */
static enum cay_request_result read_first(struct reading *x, struct text *left, bool ended)
{
    static const char http2[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    const size_t preface = sizeof http2 - 1;
    struct text line = *left;
    bool whole = take_line(left, &line);
    const size_t come = (size_t)(left->at - line.at) + left->len;
    if (!may_be_words(line))
        return CAY_REQUEST_NOT;
    if (memcmp(line.at, http2, come < preface ? come : preface) == 0)
        return come < preface && !ended ? CAY_REQUEST_MORE : CAY_REQUEST_NOT;
    if (!whole && !ended)
        return CAY_REQUEST_MORE;
    if (!is_like_a_request(line))
        return CAY_REQUEST_NOT;
    return whole && read_words(x, line) ? CAY_REQUEST_WHOLE : CAY_REQUEST_BAD;
}

static bool fits_together(const struct reading *x)
{
    const struct cay_request *r = x->r;
    bool leaves = r->connects || (r->websocket && x->to_switch);
    return !(x->has_length && r->chunked) && !(leaves && (r->chunked || r->length > 0));
}

enum cay_request_result cay_request_read(const void *data, size_t len, bool ended,
                                         struct cay_request *out)
{
    struct cay_request r = {0};
    struct reading x = {.r = &r};
    struct text left = {data, len}, line;
    while (left.len > 0 && (left.at[0] == '\r' || left.at[0] == '\n'))
        left = after(left, 1); /* as servers do */
    if (left.len == 0)
        return CAY_REQUEST_MORE;
    enum cay_request_result first = read_first(&x, &left, ended);
    if (first != CAY_REQUEST_WHOLE)
        return first;
    while (take_line(&left, &line)) {
        r.loose |= line.at[line.len] != '\r';
        if (line.len > 0 && !read_header(&x, line))
            return CAY_REQUEST_BAD;
        if (line.len > 0)
            continue;
        r.len = len - left.len;
        r.websocket = r.websocket && x.to_switch;
        if (!fits_together(&x))
            return CAY_REQUEST_BAD;
        *out = r;
        return CAY_REQUEST_WHOLE;
    }
    return ended ? CAY_REQUEST_BAD : CAY_REQUEST_MORE; /* some take the end for a blank line */
}

/* ---- a body in chunks ---- */

static int digit_of(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

enum cay_request_result cay_request_chunk(const void *data, size_t len, bool first, size_t *len_out,
                                          uint64_t *size_out)
{
    struct text left = {data, len}, line;
    uint64_t size = 0;
    size_t digits = 0;
    if (!first) {
        if (memcmp(left.at, "\r\n", left.len < 2 ? left.len : 2) != 0)
            return CAY_REQUEST_BAD;
        left = after(left, left.len < 2 ? left.len : 2);
    }
    for (; digits < left.len && digit_of(left.at[digits]) >= 0; digits++)
        size = size << 4 | (uint64_t)digit_of(left.at[digits]);
    if (digits > CHUNK_DIGITS || (digits == 0 && left.len > 0) ||
        (digits < left.len && !memchr("\r;", left.at[digits], 2)))
        return CAY_REQUEST_BAD;
    if (!take_line(&left, &line))
        return left.len > CHUNK_LINE_MAX ? CAY_REQUEST_BAD : CAY_REQUEST_MORE;
    if (line.at[line.len] != '\r' || line.len > CHUNK_LINE_MAX || !is_plain(line))
        return CAY_REQUEST_BAD;
    *len_out = len - left.len;
    *size_out = size;
    return CAY_REQUEST_WHOLE;
}

enum cay_request_result cay_request_trailer(const void *data, size_t len, size_t *len_out)
{
    struct text left = {data, len}, line;
    while (take_line(&left, &line)) {
        size_t name = token_len(line);
        if (line.at[line.len] != '\r' || !is_plain(line) ||
            (line.len > 0 && (name == 0 || name == line.len || line.at[name] != ':')))
            return CAY_REQUEST_BAD;
        if (line.len == 0) {
            *len_out = len - left.len;
            return CAY_REQUEST_WHOLE;
        }
    }
    return CAY_REQUEST_MORE;
}

/* ---- the head once more ---- */

static bool is_dropped(struct text name, bool keeps_upgrade,
                       const struct cay_header_rule *const *add, size_t count)
{
    if (!keeps_upgrade && (is(name, "upgrade") || is(name, "http2-settings")))
        return true;
    for (size_t i = 0; i < count; i++)
        if (is(name, add[i]->name))
            return true;
    return false;
}

void cay_request_write(const void *head, const struct cay_request *r, bool keeps_upgrade,
                       const struct cay_header_rule *const *add, size_t count, struct cay_buf *out)
{
    struct text left = {head, r->len}, line;
    bool first = true;
    while (take_line(&left, &line)) {
        bool dropped =
            line.len == 0 || (!first && is_dropped((struct text){line.at, token_len(line)},
                                                   keeps_upgrade, add, count));
        first = first && line.len == 0;
        if (dropped)
            continue;
        cay_buf_add(out, line.at, line.len);
        cay_buf_adds(out, "\r\n");
    }
    for (size_t i = 0; i < count; i++)
        cay_buf_addf(out, "%s: %s\r\n", add[i]->name, add[i]->value);
    cay_buf_adds(out, "\r\n");
}

bool cay_request_may_set(const char *name)
{
    static const char *const ours[] = {"host",
                                       "content-length",
                                       "transfer-encoding",
                                       "upgrade",
                                       "connection",
                                       "keep-alive",
                                       "te",
                                       "trailer",
                                       "expect",
                                       "http2-settings"};
    struct text t = {name, strlen(name)};
    if (t.len == 0 || token_len(t) != t.len || strncasecmp(name, "proxy-", 6) == 0)
        return false;
    for (size_t i = 0; i < CAY_COUNT(ours); i++)
        if (is(t, ours[i]))
            return false;
    return true;
}
