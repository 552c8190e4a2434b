/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that somebody else answers, carried by the loop.
 *
 * Two ways, each no faster than its taker: the client's body to the service, and the service's
 * answer to the client. Of either no more is held than one read. The answer may come before the
 * body's end; then nothing of the two connections is used again. A connection that was reused and
 * ended before it said a word is replaced once, by a worker; that is why only requests without a
 * body are given such a one. */
#include "http/conn.h"
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define ROUNDS 16             /* then the other connections have their turn */
#define UP_MAX (64 * CAY_KIB) /* what may wait for the service */

/* One that went to a worker is not ours to look at until it is back. */
static bool is_open(struct cay_conn *c)
{
    return !c->closed && cay_conn_is_held(c) && c->phase == CAY_PHASE_PROXY;
}

static size_t pending_up(const struct cay_relay *r)
{
    return r->up.len - r->up_at;
}

void cay_proxy_take(struct cay_conn *c, struct cay_resp *resp)
{
    struct cay_relay *r = calloc(1, sizeof *r);
    if (!r)
        abort();
    r->to = *resp->proxy;
    free(resp->proxy);
    resp->proxy = NULL;
    r->upgrade = cay_forward_is_upgrade(c->req);
    cay_forward_request(&r->to.how, c->req, &r->up);
    c->kept = resp->headers; /* they go with the answer's */
    resp->headers = (struct cay_buf){0};
    c->relay = r;
    cay_metric_add(&cay_http_proxied, 1);
}

void cay_proxy_end(struct cay_conn *c)
{
    struct cay_relay *r = c->relay;
    if (!r)
        return;
    cay_close_fd(&r->to.fd);
    if (r->to.close)
        r->to.close(r->to.ctx);
    cay_buf_done(&r->up);
    cay_buf_done(&r->head);
    free(r);
    c->relay = NULL;
    cay_metric_add(&cay_http_proxied, -1);
}

/* Before the answer's head is out the client is told why; afterwards it is cut, so that half an
 * answer is not taken for a whole one. */
static void fail(struct cay_http_server *s, struct cay_conn *c, const struct cay_error *err)
{
    if (c->relay->state == CAY_RELAY_HEAD)
        cay_conn_refuse(s, c, err);
    else
        cay_conn_close(s, c);
}

static void fail_as(struct cay_http_server *s, struct cay_conn *c, enum cay_err code,
                    const char *name, const char *why)
{
    struct cay_error err = {0};
    (void)cay_fail_as(&err, code, name, "%s", why);
    fail(s, c, &err);
}

/* ---- from the client to the service ---- */

static void add_up(struct cay_conn *c, const char *data, size_t len)
{
    struct cay_relay *r = c->relay;
    if (r->broken)
        return;
    if (c->chunked && len > 0)
        cay_buf_addf(&r->up, "%zx\r\n", len);
    cay_buf_add(&r->up, data, len);
    if (c->chunked && len > 0)
        cay_buf_adds(&r->up, "\r\n");
    if (c->chunked && r->whole)
        cay_buf_adds(&r->up, "0\r\n\r\n");
}

/* Takes of these bytes what belongs to the body. */
static int absorb(struct cay_http_server *s, struct cay_conn *c, const char *data, size_t len,
                  size_t *used_out, struct cay_error *err)
{
    struct cay_relay *r = c->relay;
    if (r->state == CAY_RELAY_TUNNEL) {
        cay_buf_add(&r->up, data, r->broken ? 0 : len);
        *used_out = len;
        return 0;
    }
    if (!c->chunked) {
        *used_out = len < c->left ? len : (size_t)c->left;
        c->left -= *used_out;
        r->whole = c->left == 0;
        add_up(c, data, *used_out);
        return 0;
    }
    s->pulled.len = 0;
    int got = cay_chunks_decode(&c->chunks, data, len, SIZE_MAX, &s->pulled, used_out, err);
    if (got < 0)
        return got;
    r->whole = got == 1;
    add_up(c, s->pulled.data, s->pulled.len);
    return 0;
}

/* The client has said all that it will. */
static void end_of_client(struct cay_http_server *s, struct cay_conn *c)
{
    if (c->relay->state != CAY_RELAY_TUNNEL) {
        cay_conn_close(s, c);
        return;
    }
    c->relay->shut = c->relay->whole = true;
}

static bool take_kept(struct cay_http_server *s, struct cay_conn *c)
{
    struct cay_error err = {0};
    size_t used = 0;
    if (absorb(s, c, c->in.data + c->in_at, c->in.len - c->in_at, &used, &err) < 0) {
        fail(s, c, &err);
        return false;
    }
    cay_conn_used(c, used);
    return true;
}

/* One read at most; false when nothing came. */
static bool take_client(struct cay_http_server *s, struct cay_conn *c)
{
    struct cay_relay *r = c->relay;
    struct cay_error err = {0};
    size_t used = 0;
    if (r->whole || pending_up(r) >= UP_MAX)
        return false;
    cay_buf_drop(&r->up, r->up_at);
    r->up_at = 0;
    if (c->in_at < c->in.len)
        return take_kept(s, c);
    if (!c->unread)
        return false;
    ssize_t n = cay_wire_recv(&c->wire, s->scratch, CAY_HTTP_SCRATCH);
    if (n < 0 && errno == EINTR)
        return true;
    if (n < 0 && errno == EAGAIN) {
        c->unread = false;
        return false;
    }
    if (n <= 0) {
        end_of_client(s, c);
        return is_open(c);
    }
    r->moved_ms = s->now_ms;
    if (absorb(s, c, s->scratch, (size_t)n, &used, &err) < 0) {
        fail(s, c, &err);
        return false;
    }
    cay_buf_add(&c->in, s->scratch + used, (size_t)n - used); /* the next request */
    return true;
}

/* As much as he takes. */
static void flush_up(struct cay_http_server *s, struct cay_conn *c)
{
    struct cay_relay *r = c->relay;
    while (pending_up(r) > 0 && !r->broken) {
        ssize_t n =
            send(r->to.fd, r->up.data + r->up_at, pending_up(r), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n < 0) { /* it may have answered already: that is read before anything is said */
            r->broken = r->readable = true;
            break;
        }
        r->up_at += (size_t)n;
        r->connected = true;
        r->moved_ms = s->now_ms;
    }
    r->up.len = r->up_at = 0;
    if (r->shut && !r->broken) {
        (void)shutdown(r->to.fd, SHUT_WR); /* fails when he is gone, which the next read tells */
        r->broken = true;                  /* nothing more goes there */
    }
}

/* ---- from the service to the client ---- */

static int bad_answer(struct cay_error *err, const char *what)
{
    return cay_fail_as(err, CAY_ERR_PROVIDER, "BAD_ANSWER", "what listens there %s", what);
}

static void keep(struct cay_http_server *s, struct cay_conn *c)
{
    struct cay_relay *r = c->relay;
    c->spare.fd = cay_take_fd(&r->to.fd);
    c->spare.since_ms = s->now_ms;
    cay_str_copy(c->spare.key, sizeof c->spare.key, r->to.key);
}

static void finish(struct cay_http_server *s, struct cay_conn *c)
{
    struct cay_relay *r = c->relay;
    bool whole = r->whole && !r->broken && pending_up(r) == 0;
    if (!whole) {
        c->keep_alive = false;
        c->unread = true;
    }
    if (whole && r->reusable && !r->hung_up && r->to.key[0])
        keep(s, c);
    else
        cay_far_forget(s, c);
    cay_answer_forget(c);
    c->moved_ms = s->now_ms;
    c->phase = CAY_PHASE_WRITE;
    cay_conn_resume(s, c);
}

/* How the client finds the body's end. */
static void begin_body(struct cay_conn *c, const struct cay_forward_answer *a)
{
    struct cay_relay *r = c->relay;
    bool none = c->head_only || a->status == 204 || a->status == 304;
    r->left = a->length;
    r->reusable = a->keep_alive && (none || a->has_length || a->chunked);
    c->raw = a->has_length || c->http10;
    if (a->has_length && a->status != 204 && a->status != 304)
        cay_buf_addf(&c->out, "content-length: %llu\r\n", (unsigned long long)a->length);
    else if (!none && !c->raw)
        cay_buf_adds(&c->out, "transfer-encoding: chunked\r\n");
    if (!a->has_length && c->http10)
        c->keep_alive = false;
    if (none || (a->has_length && a->length == 0))
        r->state = CAY_RELAY_DONE;
    else
        r->state = a->has_length ? CAY_RELAY_FIXED
                   : a->chunked  ? CAY_RELAY_CHUNKED
                                 : CAY_RELAY_TO_END;
}

static void begin_answer(struct cay_http_server *s, struct cay_conn *c,
                         const struct cay_forward_answer *a, const struct cay_buf *head)
{
    struct cay_relay *r = c->relay;
    cay_buf_add(&c->out, head->data, head->len);
    cay_buf_add(&c->out, c->kept.data, c->kept.len);
    if (s->draining)
        c->keep_alive = false;
    if (a->status == 101) {
        r->state = CAY_RELAY_TUNNEL;
        r->whole = false; /* what comes is no longer a request */
        c->keep_alive = false;
        c->raw = true;
        cay_buf_adds(&c->out, "connection: Upgrade\r\nupgrade: websocket\r\n\r\n");
    } else {
        begin_body(c, a);
        cay_buf_addf(&c->out, "connection: %s\r\n\r\n", c->keep_alive ? "keep-alive" : "close");
    }
    c->moved_ms = s->now_ms;
    r->status = a->status;
}

/* Looks for a whole head; bytes of it that lie in r->head count with these. Returns how many of
 * these were used, or a code. */
static int take_head(struct cay_http_server *s, struct cay_conn *c, const char *data, size_t len,
                     struct cay_error *err)
{
    CAY_AUTO_BUF struct cay_buf lines = {0};
    struct cay_relay *r = c->relay;
    struct cay_forward_answer a;
    size_t before = r->head.len;
    if (before > 0) {
        cay_buf_add(&r->head, data, len);
        data = r->head.data;
        len = r->head.len;
    }
    int used = cay_parse_scan(data, len, &r->scanned, err);
    if (used < 0)
        return bad_answer(err, "gave no HTTP that can be trusted");
    if (used == 0) {
        if (before == 0)
            cay_buf_add(&r->head, data, len);
        return (int)(len - before);
    }
    int failed = cay_forward_answer(&r->to.how, data, (size_t)used, r->upgrade, &a, &lines, err);
    cay_buf_done(&r->head);
    r->scanned = 0;
    if (failed < 0)
        return failed;
    if (a.status >= 200 || a.status == 101)
        begin_answer(s, c, &a, &lines);
    else if (++r->interim > CAY_PROXY_INTERIM)
        return bad_answer(err, "has too many interim answers");
    return used - (int)before;
}

/* Passes on bytes of the body. 1: the client takes more, 0: it is gone, or a code. */
static int take_body(struct cay_http_server *s, struct cay_conn *c, const char *data, size_t len,
                     struct cay_error *err)
{
    struct cay_relay *r = c->relay;
    size_t used = len;
    bool last = false;
    if (r->state == CAY_RELAY_FIXED) {
        used = len < r->left ? len : (size_t)r->left;
        r->left -= used;
        last = r->left == 0;
        r->reusable = r->reusable && used == len; /* it said more than its answer */
        len = used;
    } else if (r->state == CAY_RELAY_CHUNKED) {
        s->pulled.len = 0;
        int got = cay_chunks_decode(&r->chunks, data, len, SIZE_MAX, &s->pulled, &used, err);
        if (got < 0)
            return bad_answer(err, "gave a body in broken chunks");
        last = got == 1;
        r->reusable = r->reusable && (!last || used == len);
        data = s->pulled.data;
        len = s->pulled.len;
    }
    if ((len > 0 || last) && !cay_pump_piece(s, c, data, len, last))
        return 0;
    if (last)
        r->state = CAY_RELAY_DONE;
    return 1;
}

/* What the service said; s->scratch has it. False when the connection is gone. */
static bool feed(struct cay_http_server *s, struct cay_conn *c, const char *data, size_t len)
{
    struct cay_relay *r = c->relay;
    struct cay_error err = {0};
    int got = 1;
    size_t head_at = c->out.len;
    bool began = false;
    while (len > 0 && r->state == CAY_RELAY_HEAD && got > 0) {
        got = take_head(s, c, data, len, &err);
        if (got <= 0)
            break;
        data += got;
        len -= (size_t)got;
        began = r->state != CAY_RELAY_HEAD;
    }
    if (got > 0 && len > 0 && r->state == CAY_RELAY_DONE)
        r->reusable = false; /* it said more than its answer */
    else if (got > 0 && len > 0 && r->state != CAY_RELAY_HEAD)
        got = take_body(s, c, data, len, &err);
    if (got < 0 && began) { /* nothing of it is out yet, so the truth can be told */
        c->out.len = head_at;
        r->state = CAY_RELAY_HEAD;
    } else if (began && s->app.done)
        s->app.done(c->req, r->status, s->now_us - c->req->began_us);
    if (got < 0)
        fail(s, c, &err);
    else if (got == 0)
        cay_conn_close(s, c);
    return is_open(c);
}

/* He was asked on a connection that had ended by then: a worker finds another. */
static void try_again(struct cay_http_server *s, struct cay_conn *c)
{
    c->then = c->relay->to.again;
    cay_far_forget(s, c);
    cay_proxy_end(c);
    c->phase = CAY_PHASE_WHOLE;
    cay_conn_dispatch(s, c);
}

static void end_of_service(struct cay_http_server *s, struct cay_conn *c, bool in_order)
{
    struct cay_relay *r = c->relay;
    bool unheard = r->state == CAY_RELAY_HEAD && r->head.len == 0 && r->interim == 0;
    r->reusable = false;
    if (unheard && r->to.reused && r->to.again)
        try_again(s, c);
    else if (r->state == CAY_RELAY_HEAD)
        fail_as(s, c, CAY_ERR_PROVIDER, r->connected ? "NO_ANSWER" : "NOTHING_LISTENS",
                r->connected ? "what listens there ended the connection without an answer"
                             : "nothing listens on this port of the sandbox");
    else if (r->state == CAY_RELAY_TUNNEL && in_order)
        r->ended = true;
    else if (r->state == CAY_RELAY_TO_END && in_order && cay_pump_piece(s, c, "", 0, true))
        r->state = CAY_RELAY_DONE;
    else
        cay_conn_close(s, c);
}

/* One read at most; false when nothing came. */
static bool take_service(struct cay_http_server *s, struct cay_conn *c)
{
    struct cay_relay *r = c->relay;
    if (!r->readable || r->ended || cay_conn_pending(c) > 0)
        return false;
    ssize_t n = recv(r->to.fd, s->scratch, CAY_HTTP_SCRATCH, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR)
        return true;
    if (n < 0 && errno == EAGAIN) {
        r->readable = false;
        return false;
    }
    if (n <= 0) {
        end_of_service(s, c, n == 0);
        return is_open(c);
    }
    r->connected = true; /* readable stays: an end behind these bytes is told of once */
    r->moved_ms = s->now_ms;
    if (!feed(s, c, s->scratch, (size_t)n))
        return false;
    if (r->state == CAY_RELAY_DONE && n == CAY_HTTP_SCRATCH)
        r->reusable = false; /* there may be more, of which nothing would tell */
    return true;
}

/* ---- both ---- */

static bool is_over(struct cay_http_server *s, struct cay_conn *c)
{
    struct cay_relay *r = c->relay;
    if (r->state == CAY_RELAY_DONE) {
        finish(s, c);
        return true;
    }
    if (r->state == CAY_RELAY_TUNNEL && r->ended && cay_conn_pending(c) == 0) {
        if (r->whole) {
            cay_conn_close(s, c);
            return true;
        }
        cay_wire_shut(&c->wire); /* the other way may go on */
    }
    return false;
}

void cay_proxy(struct cay_http_server *s, struct cay_conn *c)
{
    for (int round = 0; round < ROUNDS; round++) {
        bool moved = take_client(s, c);
        if (!is_open(c))
            return;
        size_t before = pending_up(c->relay);
        flush_up(s, c);
        moved = moved || pending_up(c->relay) < before;
        if (!cay_conn_flush(s, c) && c->closed)
            return;
        moved = take_service(s, c) || moved;
        if (!is_open(c) || is_over(s, c))
            return;
        if (!moved) {
            (void)cay_conn_flush(s, c); /* what was queued, as far as it goes now */
            return;
        }
    }
    cay_pump_later(s, c);
}

void cay_proxy_begin(struct cay_http_server *s, struct cay_conn *c)
{
    struct cay_relay *r = c->relay;
    struct pollfd gone = {.fd = c->wire.fd, .events = POLLRDHUP};
    c->deadline_ms = 0;
    r->moved_ms = s->now_ms;
    r->whole = !c->chunked && c->left == 0;
    if (r->whole && c->unread && poll(&gone, 1, 0) > 0) {
        cay_conn_close(s, c);
        return;
    }
    c->unread = c->unread || !r->whole;
    flush_up(s, c);
    if (c->far_fd != r->to.fd && !cay_far_watch(s, c, r->to.fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP)) {
        fail_as(s, c, CAY_ERR_INTERNAL, NULL, "cannot watch the connection");
        return;
    }
    if (c->expects && !r->whole)
        cay_conn_go_on(s, c);
    c->expects = false;
    cay_proxy(s, c);
}

void cay_proxy_event(struct cay_http_server *s, struct cay_conn *c, uint32_t events)
{
    struct cay_relay *r = c->relay;
    bool tunnel = r->state == CAY_RELAY_TUNNEL;
    bool left = events & EPOLLRDHUP && r->whole;
    c->unread |= (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP)) != 0;
    if (events & EPOLLERR || (!tunnel && (left || events & EPOLLHUP)))
        cay_conn_close(s, c); /* nobody is there to be answered */
    else
        cay_proxy(s, c);
}

void cay_proxy_let_go(struct cay_http_server *s, struct cay_conn *c)
{
    if (c->spare.fd < 0)
        return;
    cay_far_forget(s, c);
    cay_pool_give(s->pool, c->spare.key, cay_take_fd(&c->spare.fd), s->now_ms);
}

/* It says something unasked, has ended, or will soon. */
void cay_proxy_drop(struct cay_http_server *s, struct cay_conn *c)
{
    cay_far_forget(s, c);
    cay_close_fd(&c->spare.fd);
}

void cay_proxy_wake(struct cay_http_server *s, struct cay_conn *c, uint32_t events)
{
    c->relay->hung_up |= (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
    c->relay->readable |= (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
    c->relay->connected |= (events & (EPOLLOUT | EPOLLERR)) == EPOLLOUT;
    cay_proxy(s, c);
}

void cay_proxy_tick(struct cay_http_server *s, struct cay_conn *c)
{
    struct cay_relay *r = c->relay;
    int64_t quiet_ms = s->now_ms - r->moved_ms;
    bool tunnel = r->state == CAY_RELAY_TUNNEL;
    if (!r->connected && quiet_ms >= s->times.connect_ms)
        fail_as(s, c, CAY_ERR_TIMEOUT, NULL, "what listens there takes no connection");
    else if (!tunnel && !r->whole && pending_up(r) == 0 && quiet_ms >= s->times.proxy_body_ms)
        cay_conn_close(s, c);
    else if (quiet_ms >= (tunnel ? CAY_PROXY_TUNNEL_MS : s->times.proxy_idle_ms))
        fail_as(s, c, CAY_ERR_TIMEOUT, NULL, "what listens there gave no answer in time");
}

/* What has an end may come to it; what has none is cut, so that it does not look finished. */
void cay_proxy_drain(struct cay_http_server *s, struct cay_conn *c)
{
    enum cay_relay_state state = c->relay->state;
    if (state == CAY_RELAY_TUNNEL || state == CAY_RELAY_CHUNKED || state == CAY_RELAY_TO_END)
        cay_conn_close(s, c);
}
