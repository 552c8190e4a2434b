/* SPDX-License-Identifier: Apache-2.0 */
/* Asking the Docker Engine. Connections are kept, and used by one call at a time; those to a socket
 * of this machine are made by our engine, which has the rights. */
#include "base/clock.h"
#include "base/str.h"
#include "model/limits.h"
#include "provider/docker/docker.h"
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define DIAL_MS 5000
#define SAID_MAX 120 /* of what is passed on */

static int dial(void *arg, int *fd_out, struct cay_error *err)
{
    struct cay_docker *d = arg;
    struct cay_engine_request rq = {.version = CAY_ENGINE_VERSION, .op = CAY_ENGINE_DIAL};
    int r = cay_local_call(&d->local, &rq, DIAL_MS, NULL, 0, NULL, fd_out, err);
    if (r == 0 && *fd_out < 0)
        return cay_fail(err, CAY_ERR_PROVIDER, "the engine's answer has no connection");
    return r;
}

struct cay_client *cay_docker_take(struct cay_docker *d, struct cay_error *err)
{
    struct cay_client *c = NULL;
    pthread_mutex_lock(&d->lock);
    if (d->idle_count)
        c = d->idle[--d->idle_count];
    pthread_mutex_unlock(&d->lock);
    if (c || cay_client_new(d->url, NULL, &c, err) < 0)
        return c;
    if (d->dials)
        cay_client_dial_by(c, dial, d);
    if (d->ca)
        cay_client_identify(c, d->ca, d->cert, d->key);
    return c;
}

static void give_back(struct cay_docker *d, struct cay_client *c)
{
    pthread_mutex_lock(&d->lock);
    if (d->idle_count < (int)CAY_COUNT(d->idle)) {
        d->idle[d->idle_count++] = c;
        c = NULL;
    }
    pthread_mutex_unlock(&d->lock);
    cay_client_free(c);
}

void cay_docker_close_idle(struct cay_docker *d)
{
    while (d->idle_count)
        cay_client_free(d->idle[--d->idle_count]);
}

const char *cay_docker_encode(struct cay_arena *a, const char *text)
{
    CAY_AUTO_BUF struct cay_buf out = {0};
    for (; *text; text++) {
        if (isalnum((unsigned char)*text) || strchr("-_.~", *text))
            cay_buf_addc(&out, *text);
        else
            cay_buf_addf(&out, "%%%02X", (unsigned)(unsigned char)*text);
    }
    return cay_arena_strndup(a, out.data ? out.data : "", out.len);
}

/* One that broke is called what it is here: the Engine, not a server of ours. */
static int perform(struct cay_docker *d, struct cay_client_request *rq, int64_t silence_ms,
                   int64_t wait_ms, struct cay_client_answer *out, struct cay_error *err)
{
    CAY_AUTO_BUF struct cay_buf path = {0};
    cay_buf_adds(&path, CAY_DOCKER_API);
    cay_buf_add(&path, rq->path, strlen(rq->path) + 1);
    rq->path = path.data;
    rq->idle_ms = silence_ms;
    rq->until_ms = cay_clock_mono_ms() + wait_ms;
    struct cay_client *c = cay_docker_take(d, err);
    if (!c)
        return err->code;
    int r = cay_client_call(c, rq, out, err);
    give_back(d, c);
    if (r == CAY_ERR_FORBIDDEN || r == CAY_ERR_INVALID) /* its certificate, or ours */
        r = err->code = CAY_ERR_UNAVAILABLE;
    if (r == CAY_ERR_TIMEOUT || r == CAY_ERR_UNAVAILABLE) {
        err->name = NULL;
        err->msg[strcspn(err->msg, ";")] = 0; /* what our own client's user could do about it */
    }
    return r < 0 ? cay_wrap(err, "the Docker Engine at %s does not answer", d->host) : 0;
}

static int read_json(struct cay_arena *a, struct cay_client_answer *answer,
                     struct cay_docker_answer *out, struct cay_error *err)
{
    *out = (struct cay_docker_answer){.status = answer->status};
    bool json = strncmp(answer->content_type, "application/json", 16) == 0;
    if (!json || !answer->body.len)
        return 0;
    int r = cay_json_parse(a, answer->body.data, answer->body.len, &out->json, err);
    if (r == 0)
        return 0;
    err->name = NULL;
    err->code = CAY_ERR_PROVIDER;
    return cay_wrap(err, "the Docker Engine's answer is no JSON");
}

/* Its own words; what they are about is told by the status, but for a full disk. */
static int said(struct cay_error *err, enum cay_err code, const char *why)
{
    size_t len = strlen(why);
    const char *end =
        len > SAID_MAX ? why + len - SAID_MAX : why; /* where the cause of it all is */
    const char *cut = end > why ? "…" : "";
    if (strstr(why, "no space left on device"))
        return cay_fail_as(err, CAY_ERR_LIMIT, "DISK_FULL", "Docker's disk is full: %s%s", cut,
                           end);
    return cay_fail(err, code, "the Docker Engine says: %s%s", cut, end);
}

static int refused(const struct cay_docker_answer *answer, struct cay_error *err)
{
    char status[16];
    enum cay_err code = answer->status == 404   ? CAY_ERR_NOT_FOUND
                        : answer->status == 409 ? CAY_ERR_CONFLICT
                                                : CAY_ERR_PROVIDER;
    (void)snprintf(status, sizeof status, "%d", answer->status);
    const char *why = cay_json_get_str(answer->json, "message", status);
    if (strstr(why, "already in use")) /* 500 with Podman */
        code = CAY_ERR_CONFLICT;
    return said(err, code, why);
}

int cay_docker_ask(struct cay_docker *d, struct cay_arena *a, const struct cay_docker_question *q,
                   struct cay_docker_answer *out, struct cay_error *err)
{
    CAY_AUTO_ANSWER struct cay_client_answer answer = {0};
    struct cay_client_request rq = {.method = q->method, .path = q->path};
    int64_t wait_ms = q->wait_ms ? q->wait_ms : CAY_DOCKER_CALL_MS;
    if (q->body) {
        rq.body = q->body->data;
        rq.body_len = q->body->len;
    }
    int r = perform(d, &rq, wait_ms, wait_ms, &answer, err);
    if (r == 0)
        r = read_json(a, &answer, out, err);
    return r == 0 && out->status >= 400 ? refused(out, err) : r;
}

int cay_docker_call(struct cay_docker *d, struct cay_arena *a, const char *method, const char *path,
                    const struct cay_buf *body, struct cay_docker_answer *out,
                    struct cay_error *err)
{
    struct cay_docker_answer ignored;
    const struct cay_docker_question q = {.method = method, .path = path, .body = body};
    return cay_docker_ask(d, a, &q, out ? out : &ignored, err);
}

int cay_docker_list(struct cay_docker *d, struct cay_arena *a, const char *path,
                    const char *filters, const struct cay_json **out, struct cay_error *err)
{
    struct cay_docker_answer answer;
    const char *whole = cay_arena_printf(a, "%s%sfilters=%s", path, strchr(path, '?') ? "&" : "?",
                                         cay_docker_encode(a, filters));
    int r = cay_docker_call(d, a, "GET", whole, NULL, &answer, err);
    if (r == 0 && (!answer.json || answer.json->kind != CAY_JSON_ARRAY))
        return cay_fail(err, CAY_ERR_PROVIDER, "Docker's answer is no list");
    if (r == 0)
        *out = answer.json->first;
    return r;
}

/* ---- bytes ---- */

static int read_more(void *arg, char *buf, size_t room, size_t *len_out, struct cay_error *err)
{
    const int *fd = arg;
    for (;;) {
        ssize_t n = read(*fd, buf, room);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot read what is sent to Docker");
        *len_out = (size_t)n;
        return 0;
    }
}

/* What lasts is answered by lines that tell of its progress, and its failure is one of them. */
static int read_progress(struct cay_arena *a, const struct cay_client_answer *answer,
                         struct cay_error *err)
{
    const char *at = answer->body.data, *end = at + answer->body.len;
    while (at && at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t len = (size_t)((stop ? stop : end) - at);
        const struct cay_json *line = NULL;
        struct cay_error ignored; /* what cannot be read tells of no failure */
        if (len && cay_json_parse(a, at, len, &line, &ignored) == 0) {
            const char *why = cay_json_get_str(line, "error", NULL);
            if (why)
                return said(err, CAY_ERR_PROVIDER, why);
        }
        at = stop ? stop + 1 : end;
    }
    return 0;
}

int cay_docker_send(struct cay_docker *d, struct cay_arena *a, const char *method, const char *path,
                    const struct cay_docker_bytes *bytes, struct cay_error *err)
{
    CAY_AUTO_ANSWER struct cay_client_answer answer = {0};
    struct cay_docker_answer read = {0};
    struct cay_client_request rq = {.method = method,
                                    .path = path,
                                    .more = bytes->more,
                                    .more_length = bytes->length,
                                    .arg = bytes->arg};
    int r = perform(d, &rq, CAY_ENGINE_COPY_MS, CAY_IMAGE_DATA_MS, &answer, err);
    if (r < 0)
        return r;
    if (answer.status < 400)
        return read_progress(a, &answer, err);
    r = read_json(a, &answer, &read, err);
    return r < 0 ? r : refused(&read, err);
}

int cay_docker_upload(struct cay_docker *d, struct cay_arena *a, const char *method,
                      const char *path, int fd, struct cay_error *err)
{
    const struct cay_docker_bytes bytes = {read_more, -1, &fd};
    return cay_docker_send(d, a, method, path, &bytes, err);
}

int cay_docker_download(struct cay_docker *d, const char *path,
                        int (*on_data)(void *arg, const char *data, size_t len,
                                       struct cay_error *err),
                        void *arg, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    CAY_AUTO_ANSWER struct cay_client_answer answer = {0};
    struct cay_docker_answer read = {0};
    struct cay_client_request rq = {
        .method = "GET", .path = path, .accept = "*/*", .on_data = on_data, .arg = arg};
    int r = perform(d, &rq, CAY_ENGINE_COPY_MS, CAY_IMAGE_DATA_MS, &answer, err);
    if (r < 0 || answer.status < 400)
        return r;
    r = read_json(&a, &answer, &read, err);
    return r < 0 ? r : refused(&read, err);
}
