/* SPDX-License-Identifier: Apache-2.0 */
#include "image/web.h"
#include "base/clock.h"
#include "image/curl.h"
#include "model/limits.h"
#include "net/host.h"
#include "net/rule.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define BUFFER (256 * CAY_KIB)

struct cay_web {
    CURL *curl;
    const struct cay_web_rules *rules;
    struct cay_net_host host;       /* for the addresses that are its own */
    char refused[INET6_ADDRSTRLEN]; /* the last address that was not dialled */
    char problem[CURL_ERROR_SIZE];
};

/* One request on its way. */
struct turn {
    struct cay_web *f;
    const struct cay_web_request *rq;
    struct cay_web_answer *got;
    const char *url; /* in the arena */
    struct cay_arena arena;
    bool private_allowed, by_proxy, stopped;
    uint64_t from; /* where its bytes begin */
};

static void init_curl(void)
{
    (void)curl_global_init(CURL_GLOBAL_DEFAULT); /* what is missing then, each handle says */
}

struct cay_web *cay_web_new(const struct cay_web_rules *rules)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, init_curl);
    struct cay_web *f = calloc(1, sizeof *f);
    if (!f || !(f->curl = curl_easy_init()))
        abort();
    f->rules = rules;
    return f;
}

void cay_web_free(struct cay_web *f)
{
    if (!f)
        return;
    curl_easy_cleanup(f->curl);
    cay_net_host_done(&f->host);
    free(f);
}

/* ---- where to ---- */

static struct in6_addr address_of(const struct sockaddr *sa)
{
    if (sa->sa_family == AF_INET6)
        return ((const struct sockaddr_in6 *)sa)->sin6_addr;
    return cay_address_of4(ntohl(((const struct sockaddr_in *)sa)->sin_addr.s_addr));
}

/* The socket is made for this very address: what is judged here is what is dialled. */
static curl_socket_t open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *to)
{
    struct turn *t = arg;
    if (purpose != CURLSOCKTYPE_IPCXN || (to->family != AF_INET && to->family != AF_INET6))
        return CURL_SOCKET_BAD;
    struct in6_addr ip = address_of(&to->addr);
    cay_net_host_look(&t->f->host, cay_clock_mono_ms());
    if (!t->private_allowed && !t->by_proxy && cay_net_host_guards(&t->f->host, &ip)) {
        (void)cay_address_text(&ip, t->f->refused);
        return CURL_SOCKET_BAD;
    }
    return socket(to->family, to->socktype | SOCK_CLOEXEC, to->protocol);
}

/* Does the operator's proxy stand between? Then it is him who dials. */
static bool goes_by_proxy(const struct cay_web *f, const char *host)
{
    char list[1024];
    char *save;
    size_t len = strcspn(host, ":");
    if (!f->rules->proxy || !*f->rules->proxy)
        return false;
    cay_str_copy(list, sizeof list, f->rules->no_proxy ? f->rules->no_proxy : "");
    for (char *w = strtok_r(list, ", ", &save); w; w = strtok_r(NULL, ", ", &save)) {
        w += strspn(w, "*.");
        size_t end = strlen(w);
        if (len >= end && strncasecmp(host + len - end, w, end) == 0 &&
            (len == end || host[len - end - 1] == '.'))
            return false;
    }
    return true;
}

static int aim(struct turn *t, struct cay_error *err)
{
    bool tls = strncmp(t->url, "https://", 8) == 0;
    if (!tls && strncmp(t->url, "http://", 7) != 0)
        return cay_fail_as(err, CAY_ERR_FORBIDDEN, "ADDRESS_REFUSED",
                           "the registry leads to %.60s, which is no http", t->url);
    const char *host = cay_registry_host_of(&t->arena, t->url);
    const struct cay_registry_host *known = cay_registry_host_find(&t->f->rules->hosts, host);
    if (strchr(host, '@'))
        return cay_fail_as(err, CAY_ERR_FORBIDDEN, "ADDRESS_REFUSED",
                           "the registry leads to a URL with a user in it");
    if (!tls && !known->insecure)
        return cay_fail_as(err, CAY_ERR_FORBIDDEN, "INSECURE_REGISTRY",
                           "%.80s is not spoken to without TLS, unless registry-insecure names it",
                           host);
    t->private_allowed = known->named;
    t->by_proxy = goes_by_proxy(t->f, host);
    CURL *c = t->f->curl;
    struct curl_blob ca = {.data = (void *)(uintptr_t)known->ca,
                           .len = known->ca ? strlen(known->ca) : 0,
                           .flags = CURL_BLOB_COPY};
    curl_easy_setopt(c, CURLOPT_PROXY, t->by_proxy ? t->f->rules->proxy : "");
    curl_easy_setopt(c, CURLOPT_URL, t->url);
    if (known->ca)
        curl_easy_setopt(c, CURLOPT_CAINFO_BLOB, &ca);
    return 0;
}

/* ---- what comes ---- */

static bool good(long status)
{
    return status == 200 || status == 206;
}

static bool header_is(const char *line, size_t len, const char *name, char *to, size_t size)
{
    size_t n = strlen(name);
    if (len <= n || line[n] != ':' || strncasecmp(line, name, n) != 0)
        return false;
    const char *from = line + n + 1;
    size_t left = len - n - 1;
    for (; left && (*from == ' ' || *from == '\t'); left--)
        from++;
    while (left && strchr(" \t\r\n", from[left - 1]))
        left--;
    size_t at = strlen(to); /* doubled ones are joined */
    if (at && at + 2 < size) {
        memcpy(to + at, ", ", 3);
        at += 2;
    }
    if (left >= size - at)
        return true; /* too long to be looked at */
    memcpy(to + at, from, left);
    to[at + left] = 0;
    return true;
}

static size_t on_header(char *line, size_t one, size_t len, void *arg)
{
    struct turn *t = arg;
    struct cay_web_answer *got = t->got;
    char text[64] = "";
    uint64_t n;
    if (len > 5 && strncmp(line, "HTTP/", 5) == 0) { /* of this answer, not of one before it */
        *got = (struct cay_web_answer){.length = -1};
        t->from = 0;
    } else if (header_is(line, len, "content-range", text, sizeof text)) {
        size_t digits = strspn(text, "bytes ");
        text[digits + strspn(text + digits, "0123456789")] = 0;
        t->from = cay_str_u64(text + digits, INT64_MAX, &n) ? n : UINT64_MAX;
    } else if (header_is(line, len, "content-length", text, sizeof text)) {
        got->length = cay_str_u64(text, INT64_MAX, &n) ? (int64_t)n : -1;
    } else if (header_is(line, len, "retry-after", text, sizeof text)) {
        got->retry_after_ms = cay_str_u64(text, 86400, &n) ? (int64_t)n * 1000 : 0;
    } else if (!header_is(line, len, "content-type", got->type, sizeof got->type)) {
        (void)header_is(line, len, "www-authenticate", got->challenge, sizeof got->challenge);
    }
    return one * len;
}

static size_t on_data(char *bytes, size_t one, size_t len, void *arg)
{
    struct turn *t = arg;
    long status = 0;
    curl_easy_getinfo(t->f->curl, CURLINFO_RESPONSE_CODE, &status);
    if (good(status)) {
        uint64_t from = status == 206 ? t->from : 0;
        t->stopped = !t->rq->data(t->rq->arg, from, bytes, len);
        return t->stopped ? 0 : one * len;
    }
    size_t at = strlen(t->got->text);
    for (size_t i = 0; i < len && at + 1 < sizeof t->got->text; i++)
        t->got->text[at++] = (unsigned char)bytes[i] < 0x20 || bytes[i] == 0x7f ? ' ' : bytes[i];
    t->got->text[at] = 0;
    return at + 1 < sizeof t->got->text ? one * len : 0; /* enough of it was read */
}

static int on_step(void *arg, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    struct turn *t = arg;
    (void)a, (void)b, (void)c, (void)d;
    if (t->rq->go_on && !t->rq->go_on(t->rq->arg))
        t->stopped = true;
    return t->stopped;
}

/* ---- one request ---- */

static void set_up(struct turn *t)
{
    CURL *c = t->f->curl;
    curl_easy_reset(c); /* connections stay */
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_ERRORBUFFER, t->f->problem);
    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(c, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(c, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    curl_easy_setopt(c, CURLOPT_NOPROXY, "");
    curl_easy_setopt(c, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    curl_easy_setopt(c, CURLOPT_BUFFERSIZE, (long)BUFFER);
    curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, (long)t->rq->connect_ms);
    curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)t->rq->timeout_ms);
    curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, (long)CAY_REGISTRY_SLOW_BYTES);
    curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, (long)CAY_REGISTRY_SLOW_S);
    curl_easy_setopt(c, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    curl_easy_setopt(c, CURLOPT_OPENSOCKETDATA, t);
    curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(c, CURLOPT_HEADERDATA, t);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_data);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, t);
    curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, on_step);
    curl_easy_setopt(c, CURLOPT_XFERINFODATA, t);
    if (t->rq->offset)
        curl_easy_setopt(c, CURLOPT_RANGE,
                         cay_arena_printf(&t->arena, "%llu-", (unsigned long long)t->rq->offset));
}

static struct curl_slist *headers_of(struct turn *t, bool secret)
{
    struct curl_slist *list = curl_slist_append(NULL, "User-Agent: cay/" CAY_VERSION);
    if (t->rq->accept)
        list = curl_slist_append(list, cay_arena_printf(&t->arena, "Accept: %s", t->rq->accept));
    if (secret && t->rq->authorization)
        list = curl_slist_append(
            list, cay_arena_printf(&t->arena, "Authorization: %s", t->rq->authorization));
    if (!list)
        abort();
    return list;
}

static int told(struct turn *t, CURLcode code, struct cay_error *err)
{
    const char *host = cay_registry_host_of(&t->arena, t->url);
    const char *why = t->f->problem[0] ? t->f->problem : curl_easy_strerror(code);
    if (t->stopped)
        return cay_fail_as(err, CAY_ERR_CONFLICT, "CANCELLED", "it was cancelled");
    if (t->f->refused[0])
        return cay_fail_as(err, CAY_ERR_FORBIDDEN, "ADDRESS_REFUSED",
                           "%.80s is at %s, a private address that the operator did not open", host,
                           t->f->refused);
    bool trust = code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE;
    if (code == CURLE_COULDNT_RESOLVE_HOST)
        return cay_fail_as(err, CAY_ERR_NOT_FOUND, "REGISTRY_NOT_FOUND",
                           "nobody knows the address of %.80s", host);
    (void)cay_fail_as(err, trust ? CAY_ERR_FORBIDDEN : CAY_ERR_UNAVAILABLE,
                      trust ? "NOT_TRUSTED" : "REGISTRY_UNREACHABLE",
                      trust ? "%.80s is not who it should be" : "%.80s cannot be reached", host);
    cay_str_copy(err->cause, sizeof err->cause, why);
    return err->code;
}

/* One answer, and where it leads: *next_out NULL when it is the last. */
static int once(struct turn *t, bool secret, const char **next_out, struct cay_error *err)
{
    CURL *c = t->f->curl;
    char *to = NULL;
    set_up(t);
    int r = aim(t, err);
    if (r < 0)
        return r;
    struct curl_slist *headers = headers_of(t, secret);
    curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers);
    t->f->refused[0] = t->f->problem[0] = 0;
    CURLcode code = curl_easy_perform(c);
    curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &t->got->status);
    curl_easy_getinfo(c, CURLINFO_REDIRECT_URL, &to);
    *next_out = to ? cay_arena_strdup(&t->arena, to) : NULL;
    curl_slist_free_all(headers);
    bool enough = code == CURLE_WRITE_ERROR && !t->stopped && !good(t->got->status);
    return code == CURLE_OK || enough ? 0 : told(t, code, err);
}

static bool same_host(struct turn *t, const char *a, const char *b)
{
    return strcmp(cay_registry_host_of(&t->arena, a), cay_registry_host_of(&t->arena, b)) == 0 &&
           (strncmp(a, "https", 5) == 0) == (strncmp(b, "https", 5) == 0);
}

static void turn_done(struct turn *t)
{
    cay_arena_done(&t->arena);
}

int cay_web_get(struct cay_web *f, const struct cay_web_request *rq, struct cay_web_answer *out,
                struct cay_error *err)
{
    CAY_CLEANUP(turn_done) struct turn t = {.f = f, .rq = rq, .got = out, .url = rq->url};
    const char *next = NULL;
    bool secret = true;
    *out = (struct cay_web_answer){.length = -1};
    for (int i = 0; i <= CAY_REGISTRY_REDIRECTS; i++) {
        int r = once(&t, secret, &next, err);
        if (!secret)
            out->challenge[0] = 0; /* who gets no secret is not asked where to bring it */
        if (r < 0 || !next)
            return r;
        secret = secret && same_host(&t, t.url, next);
        t.url = next;
    }
    return cay_fail_as(err, CAY_ERR_UNPROCESSABLE, "TOO_MANY_REDIRECTS",
                       "%.80s leads from one place to the next more than %d times",
                       cay_registry_host_of(&t.arena, rq->url), CAY_REGISTRY_REDIRECTS);
}
