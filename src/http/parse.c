/* SPDX-License-Identifier: Apache-2.0 */
/* The head of a request: find its end, copy it once, cut the copy into strings, then decide what
 * the body is. Each step refuses what is not plainly right. */
#include "http/parse.h"
#include "model/limits.h"
#include <string.h>
#include <strings.h>

#define METHOD_MAX 16

static int bad(struct cay_error *err, const char *why)
{
    return cay_fail_as(err, CAY_ERR_INVALID, "BAD_REQUEST", "%s", why);
}

static int too_large(struct cay_error *err)
{
    return cay_fail_as(err, CAY_ERR_TOO_LARGE, "HEADERS_TOO_LARGE",
                       "the request's head is above %lld bytes or %d headers",
                       (long long)CAY_HTTP_HEAD_MAX, CAY_HTTP_HEADERS_MAX);
}

static bool is_token_char(unsigned char c)
{
    static const char others[] = "!#$%&'*+-.^_`|~";
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != 0 && strchr(others, c));
}

int cay_parse_scan(const char *data, size_t len, size_t *scanned, struct cay_error *err)
{
    /* A TLS hello or other noise need not be waited for until its deadline. */
    if (len > 0 && data[0] != '\r' && !is_token_char((unsigned char)data[0]))
        return bad(err, "the request does not begin with a method");
    size_t limit = len < CAY_HTTP_HEAD_MAX ? len : CAY_HTTP_HEAD_MAX;
    while (*scanned < limit) {
        const char *lf = memchr(data + *scanned, '\n', limit - *scanned);
        if (!lf) {
            *scanned = limit;
            break;
        }
        size_t at = (size_t)(lf - data);
        *scanned = at + 1;
        if (at < 1 || data[at - 1] != '\r')
            return bad(err, "a line of the head does not end with CR LF");
        if (at >= 3 && data[at - 2] == '\n')
            return (int)at + 1;
    }
    return len >= CAY_HTTP_HEAD_MAX ? too_large(err) : 0;
}

static int parse_version(const char *version, struct cay_head *h, struct cay_error *err)
{
    if (strcmp(version, "HTTP/1.1") == 0)
        return 0;
    if (strcmp(version, "HTTP/1.0") == 0) {
        h->http10 = true;
        return 0;
    }
    bool has_form = strlen(version) == 8 && strncmp(version, "HTTP/", 5) == 0 &&
                    version[5] >= '0' && version[5] <= '9' && version[6] == '.' &&
                    version[7] >= '0' && version[7] <= '9';
    if (has_form)
        return cay_fail_as(err, CAY_ERR_UNSUPPORTED, "HTTP_VERSION_NOT_SUPPORTED",
                           "only HTTP/1.1 and HTTP/1.0 are spoken here");
    return bad(err, "the request line has no HTTP version");
}

/* Origin form; and the two forms that end as 405: "*" of OPTIONS and CONNECT's authority. */
static int parse_target(char *target, struct cay_head *h, struct cay_error *err)
{
    for (const char *p = target; *p; p++)
        if (*p <= 0x20 || *p >= 0x7f || *p == '#')
            return bad(err, "the request target has a character that must be encoded");
    bool star = strcmp(target, "*") == 0 && strcmp(h->method, "OPTIONS") == 0;
    bool authority = strcmp(h->method, "CONNECT") == 0 && target[0] && !strchr(target, '/');
    if (target[0] != '/' && !star && !authority)
        return bad(err, "the request target is not a path");
    char *query = strchr(target, '?');
    if (query)
        *query++ = 0;
    h->path = target;
    h->query = query ? query : "";
    return 0;
}

static int parse_request_line(char *line, struct cay_head *h, struct cay_error *err)
{
    char *target = strchr(line, ' ');
    char *version = target ? strchr(target + 1, ' ') : NULL;
    if (!version)
        return bad(err, "the request line is not method, target, version");
    *target++ = 0;
    *version++ = 0;
    size_t len = strlen(line);
    if (len == 0 || len > METHOD_MAX)
        return bad(err, "the method is empty or too long");
    for (size_t i = 0; i < len; i++)
        if (!is_token_char((unsigned char)line[i]))
            return bad(err, "the method is not a token");
    h->method = line;
    int r = parse_version(version, h, err);
    return r < 0 ? r : parse_target(target, h, err);
}

static int parse_header(char *line, struct cay_pair *out, struct cay_error *err)
{
    char *colon = strchr(line, ':');
    if (!colon || colon == line)
        return bad(err, "a header line has no name");
    for (char *p = line; p < colon; p++) {
        if (!is_token_char((unsigned char)*p)) /* also a blank before the colon and obs-fold */
            return bad(err, "a header's name is not a token");
        if (*p >= 'A' && *p <= 'Z')
            *p += 'a' - 'A';
    }
    *colon = 0;
    char *value = colon + 1;
    while (*value == ' ' || *value == '\t')
        value++;
    size_t len = strlen(value);
    while (len > 0 && (value[len - 1] == ' ' || value[len - 1] == '\t'))
        value[--len] = 0;
    *out = (struct cay_pair){line, value};
    return 0;
}

/* Joins the i-th header with all later ones of its name. All lengths are summed up first: a head of
 * a hundred equal names must not cost a hundred growing copies. */
static void join_doubled(struct cay_arena *a, struct cay_pairs *headers, size_t i)
{
    struct cay_pair *first = &headers->at[i];
    size_t total = strlen(first->value) + 1, doubled = 0;
    for (size_t k = i + 1; k < headers->count; k++)
        if (headers->at[k].key && strcmp(headers->at[k].key, first->key) == 0) {
            total += strlen(headers->at[k].value) + 2;
            doubled++;
        }
    if (!doubled)
        return;
    char *joined = cay_arena_alloc(a, total), *end = stpcpy(joined, first->value);
    for (size_t k = i + 1; k < headers->count; k++)
        if (headers->at[k].key && strcmp(headers->at[k].key, first->key) == 0) {
            end = stpcpy(stpcpy(end, ", "), headers->at[k].value);
            headers->at[k].key = NULL;
        }
    first->value = joined;
}

static int join_headers(struct cay_arena *a, struct cay_pairs *headers, struct cay_error *err)
{
    unsigned hosts = 0, lengths = 0;
    for (size_t i = 0; i < headers->count; i++) {
        hosts += strcmp(headers->at[i].key, "host") == 0;
        lengths += strcmp(headers->at[i].key, "content-length") == 0;
    }
    if (hosts != 1)
        return bad(err, "there must be one Host header");
    if (lengths > 1)
        return bad(err, "there are two Content-Length headers");
    size_t kept = 0;
    for (size_t i = 0; i < headers->count; i++) {
        if (!headers->at[i].key)
            continue;
        join_doubled(a, headers, i);
        headers->at[kept++] = headers->at[i];
    }
    headers->count = kept;
    return 0;
}

static int parse_host(struct cay_head *h, struct cay_error *err)
{
    h->host = cay_pairs_get(&h->headers, "host");
    if (!h->host[0])
        return bad(err, "the Host header is empty");
    for (const char *p = h->host; *p; p++)
        if (!is_token_char((unsigned char)*p) && !strchr(":[]", *p))
            return bad(err, "the Host header is not a host");
    return 0;
}

bool cay_parse_has_token(const char *list, const char *token)
{
    size_t want = strlen(token);
    while (list && *list) {
        list += strspn(list, " \t,");
        size_t len = strcspn(list, " \t,;");
        if (len == want && strncasecmp(list, token, len) == 0)
            return true;
        list += strcspn(list, ",");
    }
    return false;
}

/* How long the body is. Two answers to that are how requests are smuggled. */
static int parse_framing(struct cay_head *h, struct cay_error *err)
{
    const char *length = cay_pairs_get(&h->headers, "content-length");
    const char *encoding = cay_pairs_get(&h->headers, "transfer-encoding");
    const char *expect = cay_pairs_get(&h->headers, "expect");
    if (length && encoding)
        return bad(err, "Content-Length and Transfer-Encoding exclude each other");
    if (length && !cay_str_u64(length, INT64_MAX, &h->length))
        return bad(err, "Content-Length is not a number");
    if (encoding && (h->http10 || strcasecmp(encoding, "chunked") != 0))
        return bad(err, "the only Transfer-Encoding taken is chunked");
    h->chunked = encoding != NULL;
    if (expect && strcasecmp(expect, "100-continue") != 0)
        return bad(err, "the only Expect taken is 100-continue");
    h->expects = expect && !h->http10;
    h->keep_alive =
        !h->http10 && !cay_parse_has_token(cay_pairs_get(&h->headers, "connection"), "close");
    return 0;
}

/* The next line, terminated in place, or NULL at the empty line that ends the head. */
static int next_line(char **at, char *end, char **line_out, struct cay_error *err)
{
    char *line = *at, *lf = memchr(line, '\n', (size_t)(end - line));
    if (!lf || lf == line || lf[-1] != '\r')
        return bad(err, "a line of the head does not end with CR LF");
    lf[-1] = 0;
    for (const unsigned char *p = (unsigned char *)line; p < (unsigned char *)lf - 1; p++)
        if ((*p < 0x20 && *p != '\t') || *p == 0x7f)
            return bad(err, "the head has a control character");
    *at = lf + 1;
    *line_out = line == lf - 1 ? NULL : line;
    return 0;
}

int cay_parse_head(struct cay_arena *a, const char *data, size_t len, struct cay_head *out,
                   struct cay_error *err)
{
    struct cay_head h = {.headers.at = NULL};
    struct cay_pair found[CAY_HTTP_HEADERS_MAX];
    size_t skip =
        len >= 2 && memcmp(data, "\r\n", 2) == 0 ? 2 : 0; /* one empty line ahead is forgiven */
    char *at = cay_arena_alloc(a, len - skip + 1), *end = at + (len - skip), *line = NULL;
    memcpy(at, data + skip, len - skip);

    int r = next_line(&at, end, &line, err);
    if (r < 0)
        return r;
    if (!line)
        return bad(err, "the request line is missing");
    r = parse_request_line(line, &h, err);
    while (r == 0) {
        r = next_line(&at, end, &line, err);
        if (r < 0 || !line)
            break;
        if (h.headers.count == CAY_HTTP_HEADERS_MAX)
            return too_large(err);
        r = parse_header(line, &found[h.headers.count++], err);
    }
    if (r < 0)
        return r;
    h.headers.at = cay_arena_alloc(a, (h.headers.count + 1) * sizeof(found[0]));
    memcpy(h.headers.at, found, h.headers.count * sizeof(found[0]));
    r = join_headers(a, &h.headers, err);
    if (r == 0)
        r = parse_host(&h, err);
    if (r == 0)
        r = parse_framing(&h, err);
    if (r == 0)
        *out = h;
    return r;
}
