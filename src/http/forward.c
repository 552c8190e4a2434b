/* SPDX-License-Identifier: Apache-2.0 */
/* Which headers go through a proxy, which stay, and which are changed: by table. */
#include "http/forward.h"
#include "http/parse.h"
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define OUR_KEY "cay_" /* how tokens of ours begin */
#define OUR_SANDBOX "cays_"

/* Of one connection, not of the message (RFC 9110, 7.6.1); framing is written anew. */
static const char *const of_connection[] = {
    "connection",          "keep-alive", "proxy-connection", "proxy-authenticate",
    "proxy-authorization", "te",         "trailer",          "upgrade",
    "transfer-encoding",   "expect",     "http2-settings"};

/* What a client may not say for us, and what was said to us. */
static const char *const not_in[] = {
    "host",      "forwarded", "x-forwarded-for",    "x-forwarded-host",   "x-forwarded-proto",
    "x-real-ip", "cay-token", "x-forwarded-prefix", "x-forwarded-server", "x-forwarded-port",
    "via",       "cay-wait",  "x-cay-account",
};

/* What would reach beyond its own origin, or outlive it. */
static const char *const not_out[] = {
    "service-worker-allowed", "clear-site-data", "strict-transport-security",
    "public-key-pins",        "alt-svc",         "content-length",
};

static bool is_one_of(const char *name, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(name, list[i]) == 0)
            return true;
    return false;
}

static void add_line(struct cay_buf *out, const char *name, const char *value)
{
    cay_buf_adds(out, name);
    cay_buf_adds(out, ": ");
    cay_buf_adds(out, value);
    cay_buf_adds(out, "\r\n");
}

/* ---- in ---- */

bool cay_forward_is_upgrade(const struct cay_req *req)
{
    return !req->http10 && strcmp(req->method, "GET") == 0 &&
           cay_parse_has_token(cay_req_header(req, "upgrade"), "websocket") &&
           cay_parse_has_token(cay_req_header(req, "connection"), "upgrade");
}

static bool is_cookie(const char *cookie, size_t len, const char *ours)
{
    size_t want = strlen(ours);
    return want > 0 && len > want && memcmp(cookie, ours, want) == 0 && cookie[want] == '=';
}

/* All cookies but ours. */
static void add_cookies(const struct cay_forward *f, const char *value, struct cay_buf *out)
{
    bool any = false;
    while (*value) {
        value += strspn(value, "; ,");
        size_t len = strcspn(value, ";");
        if (len > 0 && !is_cookie(value, len, f->cookie)) {
            cay_buf_adds(out, any ? "; " : "cookie: ");
            cay_buf_add(out, value, len);
            any = true;
        }
        value += len;
    }
    if (any)
        cay_buf_adds(out, "\r\n");
}

static bool is_our_token(const char *value)
{
    const char *token = strncasecmp(value, "Bearer ", 7) == 0 ? value + 7 : "";
    token += strspn(token, " ");
    return strncmp(token, OUR_KEY, strlen(OUR_KEY)) == 0 ||
           strncmp(token, OUR_SANDBOX, strlen(OUR_SANDBOX)) == 0;
}

/* A page of the sandbox's own is at home there as well. */
static bool is_own_origin(const struct cay_forward *f, const struct cay_req *req,
                          const char *origin)
{
    const char *scheme = f->is_tls ? "https://" : "http://";
    size_t len = strlen(scheme);
    return strncasecmp(origin, scheme, len) == 0 && strcasecmp(origin + len, req->host) == 0;
}

static void add_header(const struct cay_forward *f, const struct cay_req *req,
                       const struct cay_pair *h, struct cay_buf *out)
{
    /* The body goes on as it came: without its length it would be taken for the next request. */
    bool frames = strcmp(h->key, "content-length") == 0;
    if (is_one_of(h->key, of_connection, CAY_COUNT(of_connection)) ||
        is_one_of(h->key, not_in, CAY_COUNT(not_in)) ||
        (!frames && cay_parse_has_token(cay_req_header(req, "connection"), h->key)))
        return;
    if (strcmp(h->key, "cookie") == 0) {
        add_cookies(f, h->value, out);
        return;
    }
    if (strcmp(h->key, "authorization") == 0 && (f->hides_authorization || is_our_token(h->value)))
        return;
    if (strcmp(h->key, "origin") == 0 && is_own_origin(f, req, h->value)) {
        cay_buf_addf(out, "origin: http://%s\r\n", f->host);
        return;
    }
    add_line(out, h->key, h->value);
}

void cay_forward_request(const struct cay_forward *f, const struct cay_req *req,
                         struct cay_buf *out)
{
    const char *path = req->path + strlen(f->prefix);
    cay_buf_addf(out, "%s %s%s%s%s HTTP/1.1\r\nhost: %s\r\n", req->method,
                 path[0] == '/' ? "" : "/", path, req->query[0] ? "?" : "", req->query, f->host);
    for (size_t i = 0; i < req->headers.count; i++)
        add_header(f, req, &req->headers.at[i], out);
    add_line(out, "x-forwarded-for", req->peer ? req->peer : "");
    add_line(out, "x-forwarded-host", req->host);
    add_line(out, "x-forwarded-proto", f->is_tls ? "https" : "http");
    if (f->prefix[0])
        add_line(out, "x-forwarded-prefix", f->prefix);
    if (cay_req_header(req, "transfer-encoding"))
        add_line(out, "transfer-encoding", "chunked");
    if (cay_forward_is_upgrade(req))
        cay_buf_adds(out, "connection: Upgrade\r\nupgrade: websocket\r\n");
    cay_buf_adds(out, "\r\n");
}

/* ---- out ---- */

struct lines {
    struct cay_pair at[CAY_HTTP_HEADERS_MAX];
    size_t count;
    char *status; /* the first line */
};

static int bad(struct cay_error *err, const char *why)
{
    return cay_fail_as(err, CAY_ERR_PROVIDER, "BAD_ANSWER",
                       "what listens there gave no HTTP that can be trusted: %s", why);
}

static bool is_name(char *name, const char *end)
{
    static const char others[] = "!#$%&'*+-.^_`|~";
    for (char *p = name; p < end; p++) {
        if (*p >= 'A' && *p <= 'Z')
            *p += 'a' - 'A';
        if (!(*p >= 'a' && *p <= 'z') && !(*p >= '0' && *p <= '9') && !(*p && strchr(others, *p)))
            return false;
    }
    return end > name;
}

static int cut_header(char *line, struct cay_pair *out, struct cay_error *err)
{
    char *colon = strchr(line, ':');
    if (!colon || !is_name(line, colon)) /* also a folded line */
        return bad(err, "a header has no proper name");
    *colon = 0;
    char *value = colon + 1 + strspn(colon + 1, " \t");
    size_t len = strlen(value);
    while (len > 0 && (value[len - 1] == ' ' || value[len - 1] == '\t'))
        value[--len] = 0;
    *out = (struct cay_pair){line, value};
    return 0;
}

/* Cuts a copy of the head into lines, in place. */
static int cut(char *text, size_t len, struct lines *out, struct cay_error *err)
{
    out->count = 0;
    out->status = NULL;
    for (char *line = text, *end = text + len, *lf; line < end; line = lf + 1) {
        lf = memchr(line, '\n', (size_t)(end - line));
        if (!lf || lf == line || lf[-1] != '\r')
            return bad(err, "a line does not end with CR LF");
        lf[-1] = 0;
        for (const char *p = line; p < lf - 1; p++)
            if (((unsigned char)*p < 0x20 && *p != '\t') || *p == 0x7f)
                return bad(err, "its head has a control character");
        if (line == lf - 1)
            break;
        if (!out->status) {
            out->status = line;
            continue;
        }
        if (out->count == CAY_COUNT(out->at))
            return bad(err, "it has too many headers");
        int r = cut_header(line, &out->at[out->count++], err);
        if (r < 0)
            return r;
    }
    return out->status ? 0 : bad(err, "it has no status line");
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* "HTTP/1.1 200 OK"; the words may be missing. */
static int read_status(const char *line, struct cay_forward_answer *out, bool *old_out,
                       struct cay_error *err)
{
    *old_out = strncmp(line, "HTTP/1.0 ", 9) == 0;
    if (!*old_out && strncmp(line, "HTTP/1.1 ", 9) != 0)
        return bad(err, "its first line is no status line");
    const char *s = line + 9;
    if (s[0] < '1' || s[0] > '9' || !is_digit(s[1]) || !is_digit(s[2]) || (s[3] && s[3] != ' '))
        return bad(err, "its status is broken");
    out->status = (s[0] - '0') * 100 + (s[1] - '0') * 10 + (s[2] - '0');
    return 0;
}

static const char *only(const struct lines *l, const char *name, bool *doubled)
{
    const char *found = NULL;
    for (size_t i = 0; i < l->count; i++)
        if (strcmp(l->at[i].key, name) == 0) {
            *doubled = *doubled || found;
            found = l->at[i].value;
        }
    return found;
}

static int read_framing(const struct lines *l, bool old, struct cay_forward_answer *out,
                        struct cay_error *err)
{
    bool doubled = false;
    const char *length = only(l, "content-length", &doubled);
    const char *coding = only(l, "transfer-encoding", &doubled);
    if (doubled || (length && coding))
        return bad(err, "it tells its length twice");
    if (length && !cay_str_u64(length, INT64_MAX, &out->length))
        return bad(err, "its length is no number");
    if (coding && (old || strcasecmp(coding, "chunked") != 0))
        return bad(err, "its transfer coding is not plain chunked");
    out->has_length = length != NULL;
    out->chunked = coding != NULL;
    out->keep_alive = !old;
    for (size_t i = 0; i < l->count; i++)
        if (strcmp(l->at[i].key, "connection") == 0 && cay_parse_has_token(l->at[i].value, "close"))
            out->keep_alive = false;
    return 0;
}

static bool is_named_by_connection(const struct lines *l, const char *name)
{
    for (size_t i = 0; i < l->count; i++)
        if (strcmp(l->at[i].key, "connection") == 0 && cay_parse_has_token(l->at[i].value, name))
            return true;
    return false;
}

/* As browsers read it: blanks around a name are none of it. */
static bool is_attribute(const char *part, size_t len, const char *name)
{
    size_t want = strlen(name);
    while (len > 0 && strchr(" \t", *part)) {
        part++;
        len--;
    }
    if (len < want || strncasecmp(part, name, want) != 0)
        return false;
    return len == want || strchr("= \t", part[want]);
}

/* One without a name comes back as its value alone, which may look like ours. */
static bool sets_cookie(const char *value, const char *ours)
{
    size_t want = strlen(ours);
    value += strspn(value, "= \t");
    if (want == 0 || strncmp(value, ours, want) != 0)
        return false;
    value += want + strspn(value + want, " \t");
    return *value == '=';
}

/* Without Domain, so that it is its own host's alone; below the prefix, where there is one. */
static void add_set_cookie(const struct cay_forward *f, const char *value, struct cay_buf *out)
{
    size_t len = strcspn(value, ";");
    if (sets_cookie(value, f->cookie))
        return;
    cay_buf_adds(out, "set-cookie: ");
    cay_buf_add(out, value, len);
    for (value += len; *value == ';'; value += len) {
        len = strcspn(++value, ";");
        if (is_attribute(value, len, "domain") ||
            (f->prefix[0] && is_attribute(value, len, "path")))
            continue;
        cay_buf_addc(out, ';');
        cay_buf_add(out, value, len);
    }
    if (f->prefix[0])
        cay_buf_addf(out, "; Path=%s/", f->prefix);
    cay_buf_adds(out, "\r\n");
}

/* A redirect to where the service believes itself to be leads to where it is seen. */
static void add_location(const struct cay_forward *f, const char *name, const char *value,
                         struct cay_buf *out)
{
    size_t len = strlen(f->host);
    const char *path = value;
    if (strncasecmp(value, "http://", 7) == 0 && strncasecmp(value + 7, f->host, len) == 0 &&
        (!value[7 + len] || strchr("/?#", value[7 + len])))
        path = value + 7 + len;
    bool moves = path != value || (value[0] == '/' && value[1] != '/' && value[1] != '\\');
    cay_buf_addf(out, "%s: %s", name, moves ? f->prefix : "");
    cay_buf_addf(out, "%s%s\r\n", path == value || path[0] == '/' ? "" : "/", path);
}

static void add_answer_header(const struct cay_forward *f, const struct lines *l,
                              const struct cay_pair *h, struct cay_buf *out)
{
    if (is_one_of(h->key, of_connection, CAY_COUNT(of_connection)) ||
        is_one_of(h->key, not_out, CAY_COUNT(not_out)) || is_named_by_connection(l, h->key))
        return;
    if (strcmp(h->key, "set-cookie") == 0)
        add_set_cookie(f, h->value, out);
    else if (strcmp(h->key, "location") == 0 || strcmp(h->key, "content-location") == 0)
        add_location(f, h->key, h->value, out);
    else
        add_line(out, h->key, h->value);
}

int cay_forward_answer(const struct cay_forward *f, const char *head, size_t len, bool upgrade,
                       struct cay_forward_answer *answer_out, struct cay_buf *out,
                       struct cay_error *err)
{
    CAY_AUTO_BUF struct cay_buf copy = {0};
    struct cay_forward_answer answer = {0};
    struct lines l;
    bool old = false;
    cay_buf_add(&copy, head, len);
    if (memchr(head, 0, len))
        return bad(err, "its head has a NUL");
    int r = cut(copy.data, copy.len, &l, err);
    if (r == 0)
        r = read_status(l.status, &answer, &old, err);
    if (r == 0)
        r = read_framing(&l, old, &answer, err);
    if (r < 0)
        return r;
    bool interim = answer.status < 200;
    if (interim && (answer.has_length || answer.chunked || (answer.status == 101 && !upgrade)))
        return bad(err, "an interim answer is what none can be");
    cay_buf_addf(out, "HTTP/1.1 %s\r\n", l.status + 9);
    for (size_t i = 0; i < l.count; i++)
        add_answer_header(f, &l, &l.at[i], out);
    *answer_out = answer;
    return 0;
}
