/* SPDX-License-Identifier: Apache-2.0 */
/* The bounded pool of threads that run handlers. One request wakes one thread; the answer goes out
 * from that thread, and most connections are back with the loop without its having been woken. */
#include "base/clock.h"
#include "http/conn.h"
#include <errno.h>
#include <signal.h>
#include <sys/eventfd.h>

bool cay_workers_give(struct cay_workers *w, struct cay_conn *c)
{
    (void)pthread_mutex_lock(&w->lock);
    struct cay_worker *idle = w->idle;
    bool fits = !w->closed && (idle || w->waiting < w->waiting_max);
    if (fits && idle) {
        w->idle = idle->idle_next;
        idle->job = c;
    } else if (fits) {
        c->link = NULL;
        if (w->first)
            w->last->link = c;
        else
            w->first = c;
        w->last = c;
        w->waiting++;
    }
    (void)pthread_mutex_unlock(&w->lock);
    if (fits && idle)
        (void)sem_post(&idle->wake);
    return fits;
}

/* The next request, or NULL when the pool is closed and nothing waits. */
static struct cay_conn *take(struct cay_workers *w, struct cay_worker *self)
{
    (void)pthread_mutex_lock(&w->lock);
    struct cay_conn *c = w->first;
    bool sleep = !c && !w->closed;
    if (c) {
        w->first = c->link;
        w->waiting--;
    } else if (sleep) {
        self->job = NULL;
        self->idle_next = w->idle;
        w->idle = self;
    }
    (void)pthread_mutex_unlock(&w->lock);
    if (!sleep)
        return c;
    while (sem_wait(&self->wake) < 0 && errno == EINTR)
        ;
    return self->job;
}

static void give_back(struct cay_http_server *s, struct cay_conn *c, enum cay_phase phase)
{
    c->phase = phase;
    c->link = NULL;
    (void)pthread_mutex_lock(&s->back_lock);
    bool first = !s->back_first;
    if (first)
        s->back_first = c;
    else
        s->back_last->link = c;
    s->back_last = c;
    (void)pthread_mutex_unlock(&s->back_lock);
    if (first)
        (void)eventfd_write(s->event_fd, 1); /* fails only when it is full, which wakes as well */
}

/* The way most answers go: all sent, nothing waits, and the connection is idle again. From the
 * exchange on the loop may use it, even free it. */
static void release(struct cay_http_server *s, struct cay_conn *c, int64_t now_ms)
{
    int mine = CAY_HOLD_WORKER;
    bool plain = cay_conn_pending(c) == 0 && c->keep_alive && !c->unread && c->in_at == c->in.len;
    if (!plain) {
        c->moved_ms = now_ms;
        if (c->claimed)
            c->deadline_ms = now_ms + s->times.large_ms;
        give_back(s, c, CAY_PHASE_WRITE);
        return;
    }
    c->phase = CAY_PHASE_HEAD;
    c->scanned = 0;
    c->deadline_ms = now_ms + s->times.idle_ms;
    if (!atomic_compare_exchange_strong(&c->hold, &mine, CAY_HOLD_LOOP))
        give_back(s, c, CAY_PHASE_WRITE);
}

static int run_handler(cay_handler handler, struct cay_req *req, struct cay_resp *resp,
                       struct cay_error *err)
{
    size_t headers = resp->headers.len;
    int r = handler(req, resp, err);
    if (r >= 0 && (resp->body.len > CAY_HTTP_LARGE || resp->claimed))
        r = cay_answer_weigh(req, resp, err);
    if (r < 0)
        resp->headers.len = headers; /* those of an answer that is not given */
    return r;
}

static int run_route(struct cay_http_server *s, struct cay_req *req, struct cay_resp *resp,
                     struct cay_error *err)
{
    struct cay_error no_route = {0};
    int missing = cay_conn_route(s, req, &no_route);
    int r = s->app.before ? s->app.before(req, resp, err) : 0;
    if (r < 0)
        return r;
    if (missing < 0) {
        *err = no_route;
        return missing;
    }
    return run_handler(req->route->handler, req, resp, err);
}

static void run(struct cay_http_server *s, struct cay_conn *c, struct cay_resp *resp)
{
    struct cay_error err = {0};
    cay_handler then = c->then;
    c->then = NULL;
    resp->headers = c->kept;
    c->kept = (struct cay_buf){0};
    int r = then ? run_handler(then, c->req, resp, &err) : run_route(s, c->req, resp, &err);
    if (r >= 0 && resp->kind == CAY_RESP_BYTES && resp->status == 0)
        r = cay_fail(&err, CAY_ERR_INTERNAL, "the handler gave no answer");
    bool streams = !then && c->req->route && c->req->route->body == CAY_BODY_STREAM;
    if (r >= 0 && resp->kind == CAY_RESP_RECEIVE && !streams)
        r = cay_fail(&err, CAY_ERR_INTERNAL, "the route has no streamed body");
    if (r < 0)
        cay_answer_error(s, c->req, &err, resp);
    bool later = resp->kind == CAY_RESP_DEFER; /* its second half may want it */
    bool wanted = later || resp->kind == CAY_RESP_RECEIVE || resp->kind == CAY_RESP_PROXY;
    if (c->streamed && !wanted) {
        c->keep_alive = false; /* the body is not wanted, and still on its way */
        c->unread = true;
    }
    c->streamed = c->streamed && later;
    if (atomic_load(&s->stops) > 0)
        c->keep_alive = false;
}

static void log_done(struct cay_http_server *s, const struct cay_conn *c, int status,
                     int64_t now_us)
{
    if (s->app.done)
        s->app.done(c->req, status, now_us - c->req->began_us);
}

static void answer_stream(struct cay_http_server *s, struct cay_conn *c, struct cay_resp *resp)
{
    c->raw = c->http10 || resp->counted;
    if (resp->kind == CAY_RESP_SOCKET) {
        c->raw = true;
        c->talk = calloc(1, sizeof *c->talk);
        if (!c->talk)
            abort();
        cay_metric_add(&cay_http_sockets, 1);
        c->talk->is = resp->socket;
        resp->socket.ops = NULL;
    }
    if (c->http10)
        c->keep_alive = false;
    cay_answer_begin(c, resp);
    log_done(s, c, resp->status, cay_clock_mono_us());
    if (!c->head_only) {
        cay_metric_add(&cay_http_streams, 1);
        c->stream = resp->stream;
        resp->stream = NULL;
    }
    cay_answer_done(resp);
    cay_answer_forget(c); /* a stream may last for days */
    give_back(s, c, c->head_only ? CAY_PHASE_WRITE : c->talk ? CAY_PHASE_SOCKET : CAY_PHASE_STREAM);
}

/* What comes later: the request stays, and with it the headers that are set already. */
static void answer_later(struct cay_http_server *s, struct cay_conn *c, struct cay_resp *resp)
{
    enum cay_phase phase = CAY_PHASE_DEFER;
    c->then = resp->then;
    c->kept = resp->headers;
    resp->headers = (struct cay_buf){0};
    if (resp->kind == CAY_RESP_RECEIVE) {
        phase = CAY_PHASE_RECEIVE;
        c->upload = calloc(1, sizeof *c->upload);
        if (!c->upload)
            abort();
        c->upload->to = resp->receive;
        resp->receives = false;
    } else {
        cay_metric_add(&cay_http_streams, 1);
        c->stream = resp->stream;
        resp->stream = NULL;
    }
    cay_answer_done(resp);
    give_back(s, c, phase);
}

static void work(struct cay_http_server *s, struct cay_conn *c)
{
    struct cay_resp resp = {0};
    if (atomic_load(&s->stops) > 1) {
        give_back(s, c, CAY_PHASE_CLOSE);
        return;
    }
    if (c->phase == CAY_PHASE_GREET) {
        give_back(s, c, cay_greet_work(s, c));
        return;
    }
    if (c->working) {
        c->stream->ops->work(c->stream);
        give_back(s, c, c->phase);
        return;
    }
    if (c->talk) {
        cay_socket_work(c);
        give_back(s, c, CAY_PHASE_SOCKET);
        return;
    }
    run(s, c, &resp);
    if (resp.kind == CAY_RESP_STREAM || resp.kind == CAY_RESP_SOCKET) {
        answer_stream(s, c, &resp);
        return;
    }
    if (resp.kind == CAY_RESP_DEFER || resp.kind == CAY_RESP_RECEIVE) {
        answer_later(s, c, &resp);
        return;
    }
    if (resp.kind == CAY_RESP_PROXY) {
        cay_proxy_take(c, &resp);
        cay_answer_done(&resp);
        give_back(s, c, CAY_PHASE_PROXY);
        return;
    }
    bool alive = cay_answer_send(c, &resp);
    int64_t now_us = cay_clock_mono_us();
    log_done(s, c, resp.status, now_us);
    cay_answer_done(&resp);
    cay_answer_forget(c);
    if (alive)
        release(s, c, now_us / 1000);
    else
        give_back(s, c, CAY_PHASE_CLOSE);
}

static void *worker_main(void *arg)
{
    struct cay_worker *self = arg;
    struct cay_http_server *s = self->server;
    for (struct cay_conn *c; (c = take(&s->workers, self));)
        work(s, c);
    return NULL;
}

int cay_workers_start(struct cay_http_server *s, struct cay_error *err)
{
    struct cay_workers *w = &s->workers;
    sigset_t all, before;
    int count = s->app.workers > 0 ? s->app.workers : 1;
    w->all = calloc((size_t)count, sizeof *w->all);
    if (!w->all)
        abort();
    (void)sigfillset(&all); /* signals belong to the thread that runs the loop */
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int r = 0;
    while (r == 0 && w->started < count) {
        struct cay_worker *self = &w->all[w->started];
        self->server = s;
        (void)sem_init(&self->wake, 0, 0);
        r = pthread_create(&self->thread, NULL, worker_main, self);
        w->started += r == 0;
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = r;
    return r == 0 ? 0 : cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot start the workers");
}

void cay_workers_stop(struct cay_workers *w)
{
    (void)pthread_mutex_lock(&w->lock);
    w->closed = true;
    struct cay_worker *idle = w->idle;
    w->idle = NULL;
    (void)pthread_mutex_unlock(&w->lock);
    for (struct cay_worker *next; idle; idle = next) {
        next = idle->idle_next; /* a woken one may be gone, but its memory stays */
        (void)sem_post(&idle->wake);
    }
    for (int i = 0; i < w->started; i++) {
        (void)pthread_join(w->all[i].thread, NULL);
        (void)sem_destroy(&w->all[i].wake);
    }
    free(w->all);
    w->all = NULL;
    w->started = 0;
}
