/* SPDX-License-Identifier: Apache-2.0 */
/* A request goes to one place after the other (mirrors, the registry); in each it is tried again
 * while there is hope, with a token where one is asked for. */
#include "image/registry.h"
#include "base/clock.h"
#include "base/json.h"
#include "image/challenge.h"
#include "image/intake.h"
#include "image/tokens.h"
#include "model/limits.h"
#include <stdio.h>
#include <string.h>
#include <time.h>

#define ACCEPT                                                                                     \
    "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, "        \
    "application/vnd.docker.distribution.manifest.list.v2+json, "                                  \
    "application/vnd.docker.distribution.manifest.v2+json"
#define HUB_URL "https://registry-1.docker.io"
#define NAP_MS 100    /* between two looks whether to give up */
#define WHOLE_TRIES 2 /* of what came whole and was not what it should be */
#define BASIC_S 3600

struct cay_registry {
    struct cay_arena arena;
    struct cay_web_rules rules;
    struct cay_tokens tokens;
};

struct cay_registry_link {
    struct cay_registry *registry;
    const struct cay_ref *ref;
    struct cay_registry_watch watch;
    struct cay_web *fetcher;
    struct cay_arena arena;
    struct cay_strs places; /* scheme://host[:port]: mirrors, then the registry */
    size_t place;           /* that answered last */
};

/* What is asked for. */
struct wish {
    const char *path; /* behind the place */
    const char *accept;
    int64_t timeout_ms;
    const char *digest; /* that it must have; NULL: nobody knows */
    struct cay_intake *in;
    char sum[CAY_DIGEST_HEX + 1]; /* that it has */
    char type[128];
};

int cay_registry_open(const struct cay_registry_options *o, struct cay_registry **out,
                      struct cay_error *err)
{
    struct cay_registry *r = calloc(1, sizeof *r);
    if (!r)
        abort();
    struct cay_registry_options mine = *o;
    mine.settings = cay_pairs_dup(&r->arena, &o->settings);
    int failed = cay_registry_hosts_read(&r->arena, &mine, &r->rules.hosts, err);
    if (failed < 0) {
        cay_arena_done(&r->arena);
        free(r);
        return failed;
    }
    r->rules.proxy = cay_arena_strdup(&r->arena, o->proxy);
    r->rules.no_proxy = cay_arena_strdup(&r->arena, o->no_proxy);
    cay_tokens_init(&r->tokens);
    *out = r;
    return 0;
}

void cay_registry_close(struct cay_registry *r)
{
    if (!r)
        return;
    cay_tokens_done(&r->tokens);
    cay_arena_done(&r->arena);
    free(r);
}

struct cay_registry_link *cay_registry_link(struct cay_registry *r, const struct cay_ref *ref,
                                            const struct cay_registry_watch *watch,
                                            const struct cay_registry_link *like)
{
    struct cay_registry_link *l = calloc(1, sizeof *l);
    if (!l)
        abort();
    const struct cay_registry_host *h = cay_registry_host_find(&r->rules.hosts, ref->registry);
    *l = (struct cay_registry_link){.registry = r,
                                    .ref = ref,
                                    .watch = *watch,
                                    .fetcher = cay_web_new(&r->rules),
                                    .place = like ? like->place : 0};
    for (size_t i = 0; i < h->mirrors.count; i++)
        cay_strs_push(&l->arena, &l->places, h->mirrors.at[i]);
    cay_strs_push(&l->arena, &l->places,
                  strcmp(ref->registry, CAY_REF_HUB) == 0
                      ? HUB_URL
                      : cay_arena_printf(&l->arena, "%s://%s", h->insecure ? "http" : "https",
                                         ref->registry));
    return l;
}

void cay_registry_unlink(struct cay_registry_link *l)
{
    if (!l)
        return;
    cay_web_free(l->fetcher);
    cay_arena_done(&l->arena);
    free(l);
}

/* ---- who we are ---- */

static const char *quote(struct cay_arena *a, const char *s)
{
    char *out = cay_arena_alloc(a, 3 * strlen(s) + 1), *to = out;
    for (; *s; s++)
        if ((*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || (*s >= '0' && *s <= '9') ||
            strchr("-._~", *s))
            *to++ = *s;
        else
            to += snprintf(to, 4, "%%%02X", (unsigned char)*s);
    return out;
}

static const char *basic(struct cay_arena *a, const struct cay_registry_host *h)
{
    if (!h->username || !h->password)
        return NULL;
    const char *both = cay_arena_printf(a, "%s:%s", h->username, h->password);
    char *text = cay_arena_alloc(a, 4 * ((strlen(both) + 2) / 3) + 1);
    (void)cay_str_base64(both, strlen(both), text);
    return cay_arena_printf(a, "Basic %s", text);
}

static bool is_header_value(const char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s <= 0x20 || (unsigned char)*s >= 0x7f)
            return false;
    return true;
}

/* Asks the token server that the registry named. */
static int get_token(struct cay_registry_link *l, struct cay_arena *a,
                     const struct cay_challenge *c, const struct cay_registry_host *h,
                     const char *key, struct cay_error *err)
{
    CAY_AUTO_BUF struct cay_buf text = {0};
    CAY_AUTO_INTAKE struct cay_intake in = {.size = CAY_REGISTRY_TOKEN_BYTES,
                                            .open = true,
                                            .text = &text,
                                            .step = l->watch.step,
                                            .arg = l->watch.arg};
    const char *scope =
        c->scope ? c->scope : cay_arena_printf(a, "repository:%s:pull", l->ref->repository);
    const char *url = cay_arena_printf(
        a, "%s%cscope=%s%s%s", c->realm, strchr(c->realm, '?') ? '&' : '?', quote(a, scope),
        c->service ? "&service=" : "", c->service ? quote(a, c->service) : "");
    struct cay_web_request rq = {.url = url,
                                 .authorization = basic(a, h),
                                 .connect_ms = CAY_REGISTRY_CONNECT_MS,
                                 .timeout_ms = CAY_REGISTRY_CALL_MS,
                                 .data = cay_intake_take,
                                 .go_on = cay_intake_go_on,
                                 .arg = &in};
    struct cay_web_answer got;
    const struct cay_json *json = NULL;
    cay_intake_init(&in);
    int r = cay_web_get(l->fetcher, &rq, &got, err);
    (void)l->watch.step(l->watch.arg, -(int64_t)in.got); /* it is no part of the image */
    if (r < 0)
        return cay_wrap(err, "cannot get a token for %.100s", l->ref->registry);
    if (got.status != 200 ||
        cay_json_parse(a, text.data ? text.data : "", text.len, &json, err) < 0 ||
        json->kind != CAY_JSON_OBJECT)
        return cay_fail_as(err, CAY_ERR_FORBIDDEN, "REGISTRY_DENIED",
                           "the token server of %.80s gives no token (%ld)", l->ref->registry,
                           got.status);
    const char *token = cay_json_get_str(json, "token", cay_json_get_str(json, "access_token", ""));
    int64_t seconds = cay_json_get_int(json, "expires_in", CAY_REGISTRY_TOKEN_S);
    if (!*token || !is_header_value(token))
        return cay_fail_as(err, CAY_ERR_FORBIDDEN, "REGISTRY_DENIED",
                           "the token server of %.80s gives no token", l->ref->registry);
    /* Some time is left for what it is used for. */
    cay_tokens_set(&l->registry->tokens, key, cay_arena_printf(a, "Bearer %s", token),
                   seconds > 10 && seconds < BASIC_S ? seconds - 5 : CAY_REGISTRY_TOKEN_S);
    return 0;
}

/* True when it is worth asking again. */
static int authorize(struct cay_registry_link *l, struct cay_arena *a, const char *host,
                     const char *key, const char *challenge, struct cay_error *err)
{
    const struct cay_registry_host *h = cay_registry_host_find(&l->registry->rules.hosts, host);
    struct cay_challenge c = cay_challenge_read(a, challenge);
    if (c.kind == CAY_CHALLENGE_BEARER)
        return get_token(l, a, &c, h, key, err);
    const char *value = c.kind == CAY_CHALLENGE_BASIC ? basic(a, h) : NULL;
    if (!value)
        return cay_fail_as(err, CAY_ERR_FORBIDDEN, "REGISTRY_DENIED", "%.80s wants %s", host,
                           c.kind == CAY_CHALLENGE_BASIC ? "a name and a password"
                                                         : "to know more than we can tell");
    cay_tokens_set(&l->registry->tokens, key, value, BASIC_S);
    return 0;
}

/* ---- one try ---- */

static int ask(struct cay_registry_link *l, const char *place, const struct wish *w,
               struct cay_web_answer *got, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    const char *host = cay_registry_host_of(&a, place);
    const char *key = cay_arena_printf(&a, "%s %s", place, l->ref->repository);
    struct cay_web_request rq = {
        .url = cay_arena_printf(&a, "%s/v2/%s/%s", place, l->ref->repository, w->path),
        .accept = w->accept,
        .connect_ms = l->watch.brief ? CAY_REGISTRY_BRIEF_MS : CAY_REGISTRY_CONNECT_MS,
        .timeout_ms = l->watch.brief ? CAY_REGISTRY_BRIEF_CALL_MS : w->timeout_ms,
        .data = cay_intake_take,
        .go_on = cay_intake_go_on,
        .arg = w->in};
    for (int i = 0;; i++) {
        rq.authorization = cay_tokens_get(&l->registry->tokens, &a, key);
        rq.offset = w->in->got;
        w->in->fresh = true;
        int r = cay_web_get(l->fetcher, &rq, got, err);
        if (r < 0 || got->status != 401 || i == 1)
            return r;
        cay_tokens_set(&l->registry->tokens, key, NULL, 0);
        r = authorize(l, &a, host, key, got->challenge, err);
        if (r < 0)
            return r;
    }
}

static int told(struct cay_registry_link *l, const char *place, const struct cay_web_answer *got,
                struct cay_error *err)
{
    const char *host = strstr(place, "://") + 3;
    bool denied = got->status == 401 || got->status == 403;
    if (got->status == 404)
        (void)cay_fail_as(err, CAY_ERR_NOT_FOUND, "IMAGE_NOT_FOUND", "%.60s has no %.80s", host,
                          l->ref->repository);
    else
        (void)cay_fail_as(err,
                          denied               ? CAY_ERR_FORBIDDEN
                          : got->status == 429 ? CAY_ERR_LIMIT
                          : got->status >= 500 ? CAY_ERR_UNAVAILABLE
                                               : CAY_ERR_UNPROCESSABLE,
                          denied               ? "REGISTRY_DENIED"
                          : got->status == 429 ? "REGISTRY_BUSY"
                          : got->status >= 500 ? "REGISTRY_UNREACHABLE"
                                               : "BAD_REGISTRY",
                          "%.60s answered %ld for %.60s", host, got->status, l->ref->repository);
    cay_str_copy(err->cause, sizeof err->cause, got->text);
    return err->code;
}

enum next { DONE, AGAIN, OVER };

/* What an answer, or its absence, means; err is filled unless it is DONE. */
static enum next judge(struct cay_registry_link *l, const char *place, struct wish *w, int r,
                       const struct cay_web_answer *got, struct cay_error *err)
{
    struct cay_intake *in = w->in;
    if (cay_intake_problem(in, err) < 0)
        return OVER;
    if (r < 0)
        return r == CAY_ERR_UNAVAILABLE ? AGAIN : OVER;
    if (got->status == 416 && in->got > 0) {
        cay_intake_restart(in);
        (void)told(l, place, got, err);
        return AGAIN;
    }
    if (got->status != 200 && got->status != 206) {
        (void)told(l, place, got, err);
        return got->status == 408 || got->status == 429 || got->status >= 500 ? AGAIN : OVER;
    }
    if (in->open || in->got == in->size)
        return DONE;
    (void)cay_fail_as(err, CAY_ERR_UNAVAILABLE, "REGISTRY_UNREACHABLE",
                      "%.80s ended its answer at %llu of %llu bytes", strstr(place, "://") + 3,
                      (unsigned long long)in->got, (unsigned long long)in->size);
    return AGAIN;
}

/* False when it is to give up. */
static bool nap(struct cay_registry_link *l, int tries, int64_t retry_after_ms)
{
    int64_t ms = CAY_REGISTRY_BACKOFF_MS << (tries < 10 ? tries : 10);
    if (ms < retry_after_ms)
        ms = retry_after_ms;
    if (ms > CAY_REGISTRY_BACKOFF_MAX_MS)
        ms = CAY_REGISTRY_BACKOFF_MAX_MS;
    int64_t until_ms = cay_clock_mono_ms() + ms;
    const struct timespec pause = {.tv_nsec = NAP_MS * 1000000L};
    while (cay_clock_mono_ms() < until_ms) {
        if (!l->watch.step(l->watch.arg, 0))
            return false;
        (void)nanosleep(&pause, NULL); /* cut short is fine */
    }
    return true;
}

/* Until it is here, or there is no hope in this place. */
static int insist(struct cay_registry_link *l, const char *place, struct wish *w,
                  struct cay_error *err)
{
    for (int tries = 0, all = 0;; all++) {
        struct cay_web_answer got;
        uint64_t before = w->in->got;
        int r = ask(l, place, w, &got, err);
        enum next next = judge(l, place, w, r, &got, err);
        if (next == DONE)
            cay_str_copy(w->type, sizeof w->type, got.type);
        if (next != AGAIN || l->watch.brief)
            return next == DONE ? 0 : err->code;
        /* One that says nothing at all is given less time. */
        tries = w->in->got > before ? 0 : tries + (got.status == 0 ? 2 : 1);
        if (tries >= CAY_REGISTRY_TRIES || all >= CAY_REGISTRY_TRIES_ALL)
            return err->code;
        if (!nap(l, tries, got.retry_after_ms))
            return cay_fail_as(err, CAY_ERR_CONFLICT, "CANCELLED", "it was cancelled");
    }
}

/* The same, and it is what it should be. */
static int get_from(struct cay_registry_link *l, const char *place, struct wish *w,
                    struct cay_error *err)
{
    for (int i = 0; i < WHOLE_TRIES; i++) {
        int r = insist(l, place, w, err);
        if (r < 0)
            return r;
        cay_intake_digest(w->in, w->sum);
        if (!w->digest || strcmp(w->sum, w->digest) == 0)
            return 0;
        cay_intake_restart(w->in);
    }
    return cay_fail_as(err, CAY_ERR_UNPROCESSABLE, "DIGEST_MISMATCH",
                       "%.60s sends something else than sha256:%.12s…", strstr(place, "://") + 3,
                       w->digest);
}

/* The place that answered last is asked first; of several the errors are told together. */
static int get(struct cay_registry_link *l, struct wish *w, struct cay_error *err)
{
    CAY_AUTO_BUF struct cay_buf why = {0};
    size_t first = l->place, count = l->places.count;
    for (size_t i = 0; i < count; i++) {
        size_t at = i == 0 ? first : i <= first ? i - 1 : i;
        int r = get_from(l, l->places.at[at], w, err);
        if (r == 0)
            l->place = at;
        if (r == 0 || r == CAY_ERR_CONFLICT || r == CAY_ERR_LIMIT || r == CAY_ERR_INTERNAL)
            return r;
        cay_intake_restart(w->in);
        cay_buf_addf(&why, "%s%s%s%s", i ? "; " : "", err->msg, err->cause[0] ? ": " : "",
                     err->cause);
    }
    if (count > 1) {
        cay_buf_addc(&why, 0);
        cay_str_copy(err->cause, sizeof err->cause, why.data);
    }
    return err->code;
}

/* ---- what there is ---- */

int cay_registry_manifest(struct cay_registry_link *l, const char *digest, struct cay_arena *a,
                          struct cay_registry_document *out, struct cay_error *err)
{
    CAY_AUTO_BUF struct cay_buf text = {0};
    CAY_AUTO_INTAKE struct cay_intake in = {.size = CAY_IMAGE_MANIFEST_BYTES,
                                            .open = true,
                                            .text = &text,
                                            .step = l->watch.step,
                                            .arg = l->watch.arg};
    if (!digest)
        digest = l->ref->digest;
    struct wish w = {.path = digest ? cay_arena_printf(a, "manifests/sha256:%s", digest)
                                    : cay_arena_printf(a, "manifests/%s", l->ref->tag),
                     .accept = ACCEPT,
                     .timeout_ms = CAY_REGISTRY_CALL_MS,
                     .digest = digest,
                     .in = &in};
    cay_intake_init(&in);
    int r = get(l, &w, err);
    if (r < 0)
        return r;
    (void)l->watch.step(l->watch.arg, -(int64_t)in.got); /* only layers are counted */
    *out = (struct cay_registry_document){
        .text = cay_arena_strndup(a, text.data ? text.data : "", text.len),
        .type = cay_arena_strdup(a, w.type),
        .len = text.len};
    memcpy(out->digest, w.sum, sizeof out->digest);
    return 0;
}

static int get_blob(struct cay_registry_link *l, const struct cay_descriptor *d,
                    struct cay_intake *in, int64_t timeout_ms, struct cay_error *err)
{
    char path[sizeof "blobs/sha256:" + CAY_DIGEST_HEX];
    (void)snprintf(path, sizeof path, "blobs/sha256:%s", d->digest); /* 64 digits */
    struct wish w = {.path = path, .timeout_ms = timeout_ms, .digest = d->digest, .in = in};
    in->size = d->size;
    in->step = l->watch.step;
    in->arg = l->watch.arg;
    cay_intake_init(in);
    return get(l, &w, err);
}

int cay_registry_text(struct cay_registry_link *l, const struct cay_descriptor *d,
                      struct cay_arena *a, const char **out, struct cay_error *err)
{
    CAY_AUTO_BUF struct cay_buf text = {0};
    CAY_AUTO_INTAKE struct cay_intake in = {.text = &text};
    if (d->size > CAY_IMAGE_MANIFEST_BYTES)
        return cay_fail_as(err, CAY_ERR_UNPROCESSABLE, "BAD_IMAGE",
                           "the image's configuration has %llu bytes", (unsigned long long)d->size);
    int r = get_blob(l, d, &in, CAY_REGISTRY_CALL_MS, err);
    if (r < 0)
        return r;
    (void)l->watch.step(l->watch.arg, -(int64_t)in.got); /* as above */
    *out = cay_arena_strndup(a, text.data ? text.data : "", text.len);
    return 0;
}

int cay_registry_blob(struct cay_registry_link *l, const struct cay_descriptor *d, int fd,
                      struct cay_error *err)
{
    CAY_AUTO_INTAKE struct cay_intake in = {.fd = fd, .keep_free = CAY_SHELF_FREE_BYTES};
    return get_blob(l, d, &in, CAY_REGISTRY_BLOB_MS, err);
}
