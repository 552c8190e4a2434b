/* SPDX-License-Identifier: Apache-2.0 */
/* Asking the Docker Engine. Connections are kept, and used by one call at a time; those to a socket
 * of this machine are made by our engine, which has the rights. */
#include "base/str.h"
#include "model/limits.h"
#include "provider/docker/docker.h"
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define DIAL_MS 5000

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
    return c;
}

void cay_docker_give_back(struct cay_docker *d, struct cay_client *c)
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
static int perform(struct cay_docker *d, struct cay_client_request *rq,
                   struct cay_client_answer *out, struct cay_error *err)
{
    CAY_AUTO_BUF struct cay_buf path = {0};
    cay_buf_adds(&path, CAY_DOCKER_API);
    cay_buf_add(&path, rq->path, strlen(rq->path) + 1);
    rq->path = path.data;
    if (!rq->idle_ms)
        rq->idle_ms = CAY_DOCKER_CALL_MS;
    struct cay_client *c = cay_docker_take(d, err);
    if (!c)
        return err->code;
    int r = cay_client_call(c, rq, out, err);
    cay_docker_give_back(d, c);
    if (r == CAY_ERR_TIMEOUT || r == CAY_ERR_UNAVAILABLE)
        err->name = NULL;
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

int cay_docker_ask(struct cay_docker *d, struct cay_arena *a, const char *method, const char *path,
                   const struct cay_buf *body, struct cay_docker_answer *out, struct cay_error *err)
{
    CAY_AUTO_ANSWER struct cay_client_answer answer = {0};
    struct cay_client_request rq = {.method = method, .path = path};
    if (body) {
        rq.body = body->data;
        rq.body_len = body->len;
    }
    int r = perform(d, &rq, &answer, err);
    return r < 0 ? r : read_json(a, &answer, out, err);
}

int cay_docker_refused(const struct cay_docker_answer *answer, struct cay_error *err)
{
    const char *why = answer->json ? cay_json_get_str(answer->json, "message", "") : "";
    enum cay_err code = answer->status == 404   ? CAY_ERR_NOT_FOUND
                        : answer->status == 409 ? CAY_ERR_CONFLICT
                                                : CAY_ERR_PROVIDER;
    return cay_fail(err, code, "the Docker Engine says %d: %s", answer->status, why);
}

int cay_docker_call(struct cay_docker *d, struct cay_arena *a, const char *method, const char *path,
                    const struct cay_buf *body, struct cay_docker_answer *out,
                    struct cay_error *err)
{
    struct cay_docker_answer ignored;
    int r = cay_docker_ask(d, a, method, path, body, out ? out : &ignored, err);
    if (r == 0 && (out ? out : &ignored)->status >= 400)
        return cay_docker_refused(out ? out : &ignored, err);
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

int cay_docker_upload(struct cay_docker *d, struct cay_arena *a, const char *method,
                      const char *path, int fd, int64_t size, struct cay_error *err)
{
    CAY_AUTO_ANSWER struct cay_client_answer answer = {0};
    struct cay_docker_answer read = {0};
    struct cay_client_request rq = {.method = method,
                                    .path = path,
                                    .more = read_more,
                                    .more_length = size,
                                    .arg = &fd,
                                    .idle_ms = CAY_ENGINE_COPY_MS};
    int r = perform(d, &rq, &answer, err);
    if (r < 0 || answer.status < 400)
        return r;
    r = read_json(a, &answer, &read, err);
    return r < 0 ? r : cay_docker_refused(&read, err);
}

int cay_docker_download(struct cay_docker *d, const char *path,
                        int (*on_data)(void *arg, const char *data, size_t len,
                                       struct cay_error *err),
                        void *arg, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    CAY_AUTO_ANSWER struct cay_client_answer answer = {0};
    struct cay_docker_answer read = {0};
    struct cay_client_request rq = {.method = "GET",
                                    .path = path,
                                    .accept = "*/*",
                                    .on_data = on_data,
                                    .arg = arg,
                                    .idle_ms = CAY_ENGINE_COPY_MS};
    int r = perform(d, &rq, &answer, err);
    if (r < 0 || answer.status < 400)
        return r;
    r = read_json(&a, &answer, &read, err);
    return r < 0 ? r : cay_docker_refused(&read, err);
}
