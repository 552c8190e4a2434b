/* SPDX-License-Identifier: Apache-2.0 */
/* The way of a request that was let in: to a connection that waits in the pool, to a new one, or,
 * while nothing listens yet, into a wait that holds no thread. The loop carries the bytes
 * (http/proxy.c). */
#include "api/preview_reach.h"
#include "base/clock.h"
#include "core/service.h"
#include <stdio.h>
#include <string.h>

struct present {
    struct cay_core *core; /* NULL: nothing is due to it */
    char sandbox_id[CAY_ID_SIZE];
};

static void leave(void *ctx)
{
    struct present *p = ctx;
    if (p->core)
        cay_core_leave(p->core, p->sandbox_id);
    cay_visit_leave(p->sandbox_id);
    free(p);
}

/* Counts it among those that are there. NULL when they are too many. */
static struct present *enter(struct cay_core *core, const char *sandbox_id)
{
    if (!cay_visit_enter(sandbox_id))
        return NULL;
    struct present *p = calloc(1, sizeof *p);
    if (!p)
        abort();
    p->core = cay_core_attend(core, sandbox_id) ? core : NULL;
    cay_str_copy(p->sandbox_id, sizeof p->sandbox_id, sandbox_id);
    return p;
}

static void keep(const struct cay_req *req, const struct cay_preview_visit *v)
{
    struct cay_visit known = {
        .port = v->to.port, .prefix = v->to.prefix, .hides_authorization = v->hides_authorization};
    cay_str_copy(known.sandbox_id, sizeof known.sandbox_id, v->sb.id);
    cay_str_copy(known.account_id, sizeof known.account_id, req->owner ? req->owner->id : "");
    cay_visit_keep(&v->key, &known);
}

static int dial(struct cay_req *req, struct cay_resp *resp, struct cay_error *err);

int cay_preview_carry(struct cay_req *req, struct cay_resp *resp, int fd, bool reused,
                      struct cay_error *err)
{
    const struct cay_preview_visit *v = req->data;
    struct cay_proxy to = {.fd = fd, .reused = reused, .again = dial};
    to.ctx = enter(req->core, v->sb.id);
    if (!to.ctx) {
        cay_close_fd(&to.fd);
        return cay_visit_refuse(err);
    }
    to.close = leave;
    (void)snprintf(to.key, sizeof to.key, "%s:%u", v->sb.id, v->to.port);
    (void)snprintf(to.how.host, sizeof to.how.host, "localhost:%u", v->to.port);
    cay_str_copy(to.how.prefix, v->to.prefix + 1, req->path);
    cay_str_copy(to.how.cookie, sizeof to.how.cookie, v->cookie);
    to.how.is_tls = v->is_tls;
    to.how.hides_authorization = v->hides_authorization;
    if (v->keeps)
        keep(req, v);
    if (v->to.prefix) /* on the API's host: whatever it is, it is not at home there */
        cay_resp_header(resp, "Content-Security-Policy", "sandbox");
    return cay_resp_proxy(resp, &to);
}

struct wait {
    struct cay_stream stream;
    struct cay_req *req; /* lives on under cay_resp_defer */
    char sandbox_id[CAY_ID_SIZE];
    int64_t until_ms;
    bool over;
};

static void look(struct cay_stream *stream)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct wait *w = (struct wait *)stream;
    const struct cay_preview_visit *v = w->req->data;
    struct cay_error err = {0};
    struct cay_sandbox sb;
    int64_t now_ms = cay_clock_mono_ms();
    int r = cay_core_previewed(w->req->core, v->sb.id, &a, &sb, &err);
    if (r == 0)
        r = cay_core_dial(w->req->core, &sb, v->to.port, &w->req->received.verdict_fd, &err);
    w->over =
        r == 0 || strcmp(cay_error_name(&err), "NOTHING_LISTENS") != 0 || now_ms >= w->until_ms;
    stream->wake_at_ms = now_ms + CAY_PREVIEW_AGAIN_MS;
}

static enum cay_pull pull(struct cay_stream *stream, struct cay_buf *out, size_t room)
{
    (void)out, (void)room;
    return ((struct wait *)stream)->over ? CAY_PULL_END : CAY_PULL_WAIT;
}

static void free_wait(struct cay_stream *stream)
{
    cay_visit_leave(((struct wait *)stream)->sandbox_id);
    free(stream);
}

static const struct cay_stream_ops wait_ops = {.pull = pull, .close = free_wait, .work = look};

static int dial(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    const struct cay_preview_visit *v = req->data;
    int fd = -1;
    int r = cay_core_dial(req->core, &v->sb, v->to.port, &fd, err);
    return r < 0 ? r : cay_preview_carry(req, resp, fd, false, err);
}

static int waited(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    int fd = cay_take_fd(&req->received.verdict_fd);
    return fd >= 0 ? cay_preview_carry(req, resp, fd, false, err)
                   : dial(req, resp, err); /* a last try, for its error */
}

/* Who waits is there as well. */
static int hold(struct cay_req *req, struct cay_resp *resp, int64_t seconds, struct cay_error *err)
{
    const struct cay_preview_visit *v = req->data;
    if (!cay_visit_enter(v->sb.id))
        return cay_visit_refuse(err);
    struct wait *w = calloc(1, sizeof *w);
    if (!w)
        abort();
    *w = (struct wait){.stream = {.ops = &wait_ops, .watch_fd = -1}, .req = req};
    cay_str_copy(w->sandbox_id, sizeof w->sandbox_id, v->sb.id);
    w->until_ms = cay_clock_mono_ms() + seconds * 1000;
    w->stream.wake_at_ms = cay_clock_mono_ms() + CAY_PREVIEW_AGAIN_MS;
    return cay_resp_defer(resp, &w->stream, waited);
}

/* How long the request may wait: its header's word, else the port's. */
static int wait_of(const struct cay_req *req, const struct cay_preview_visit *v, uint64_t *out,
                   struct cay_error *err)
{
    const char *text = cay_req_header(req, "cay-wait");
    *out = v->port->wait_s;
    if (text && !cay_str_u64(text, CAY_MAX_PORT_WAIT_S, out))
        return cay_fail_field(err, "Cay-Wait", "Cay-Wait must be from 0 to %d seconds",
                              CAY_MAX_PORT_WAIT_S);
    return 0;
}

int cay_preview_reach(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    const struct cay_preview_visit *v = req->data;
    char key[CAY_POOL_KEY];
    uint64_t wait_s;
    int r = wait_of(req, v, &wait_s, err);
    if (r < 0)
        return r;
    (void)snprintf(key, sizeof key, "%s:%u", v->sb.id, v->to.port);
    bool plain = cay_req_is_safe(req) && req->body_announced == 0 && !cay_forward_is_upgrade(req);
    int fd = plain && v->sb.state == CAY_RUNNING ? cay_pool_take(req->pool, key) : -1;
    if (fd >= 0)
        return cay_preview_carry(req, resp, fd, true, err);
    r = dial(req, resp, err);
    if (r < 0 && wait_s > 0 && strcmp(cay_error_name(err), "NOTHING_LISTENS") == 0)
        return hold(req, resp, (int64_t)wait_s, err);
    return r;
}
