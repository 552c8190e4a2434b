/* SPDX-License-Identifier: Apache-2.0 */
/* One connection on the loop: bytes become a head, a body, a request for the workers; afterwards
 * the rest of the answer goes out and the next request may come. An idle connection has no buffer:
 * all read into the loop's own, and only what is left over is kept. */
#include "http/conn.h"
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define LINGER_BYTES (16 * CAY_MIB)

void cay_conn_open(struct cay_http_server *s, int fd, const char *peer, bool is_local)
{
    struct cay_conn *c = calloc(1, sizeof *c);
    struct epoll_event ev = {.events = EPOLLIN | EPOLLPRI | EPOLLOUT | EPOLLRDHUP | EPOLLET};
    int yes = 1;
    if (!c)
        abort();
    *c = (struct cay_conn){.wire.fd = fd, .far_fd = -1, .spare.fd = -1, .next = s->conns};
    c->moved_ms = s->now_ms;
    c->deadline_ms = s->now_ms + s->times.idle_ms;
    if (s->tls && !is_local) {
        c->phase = CAY_PHASE_GREET;
        c->deadline_ms = s->now_ms + s->times.head_ms; /* for all of the handshake */
    }
    cay_str_copy(c->peer, sizeof c->peer, peer);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes); /* a unix socket has none */
    if (is_local) {
        struct ucred cred;
        socklen_t len = sizeof cred;
        c->is_local = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0;
        c->uid = c->is_local ? cred.uid : 0; /* else it is a stranger like any other */
    }
    if (s->conns)
        s->conns->prev = c;
    else
        s->oldest = c;
    s->conns = c;
    s->conn_count++;
    cay_metric_add(&cay_http_accepted, 1);
    cay_metric_add(&cay_http_open, 1);
    ev.data.ptr = c;
    if (epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0)
        cay_conn_close(s, c);
}

/* The memory goes at the end of the loop's round: events of this one may still name it. */
void cay_conn_close(struct cay_http_server *s, struct cay_conn *c)
{
    if (c->closed)
        return;
    c->closed = true;
    cay_pump_end(s, c);
    cay_proxy_let_go(s, c);
    cay_far_forget(s, c);
    cay_socket_free(c);
    cay_wire_close(&c->wire);
    cay_buf_done(&c->in);
    cay_buf_done(&c->out);
    cay_budget_set(&c->claimed, 0);
    c->in_at = c->out_at = 0;
    cay_answer_forget(c);
    if (c->prev)
        c->prev->next = c->next;
    else
        s->conns = c->next;
    if (c->next)
        c->next->prev = c->prev;
    else
        s->oldest = c->prev;
    s->conn_count--;
    cay_metric_add(&cay_http_open, -1);
    cay_metric_add(&cay_http_unmet, c->greeting); /* by a refusal, a deadline, or gone meanwhile */
    c->dead_next = s->dead;
    s->dead = c;
}

bool cay_conn_is_held(struct cay_conn *c)
{
    return atomic_load(&c->hold) == CAY_HOLD_LOOP;
}

bool cay_conn_is_idle(const struct cay_conn *c)
{
    return c->phase == CAY_PHASE_GREET || (c->phase == CAY_PHASE_HEAD && c->in_at == c->in.len);
}

bool cay_conn_flush(struct cay_http_server *s, struct cay_conn *c)
{
    while (cay_conn_pending(c) > 0) {
        struct iovec iov = {c->out.data + c->out_at, cay_conn_pending(c)};
        ssize_t n = cay_wire_send(&c->wire, &iov, 1);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return false;
        if (n < 0) {
            cay_conn_close(s, c);
            return false;
        }
        c->out_at += (size_t)n;
        c->moved_ms = s->now_ms;
    }
    cay_buf_done(&c->out);
    cay_budget_set(&c->claimed, 0);
    c->out_at = 0;
    return true;
}

/* Closing a socket with unread bytes resets it, and the client may lose the answer that told it to
 * stop sending. So the sending side is shut first, and the rest read for a moment. */
static void linger(struct cay_http_server *s, struct cay_conn *c)
{
    cay_wire_shut(&c->wire);
    cay_buf_done(&c->in);
    c->in_at = 0;
    c->phase = CAY_PHASE_LINGER;
    c->left = LINGER_BYTES;
    c->deadline_ms = s->now_ms + s->times.linger_ms;
}

static void read_away(struct cay_http_server *s, struct cay_conn *c)
{
    for (;;) {
        ssize_t n = cay_wire_recv(&c->wire, s->scratch, CAY_HTTP_SCRATCH);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0 || (uint64_t)n >= c->left) {
            cay_conn_close(s, c);
            return;
        }
        c->left -= (uint64_t)n;
    }
}

/* Sends what an answer left and turns to what comes after it. */
static void finish_answer(struct cay_http_server *s, struct cay_conn *c)
{
    if (!cay_conn_flush(s, c))
        return;
    if (!c->keep_alive) {
        if (c->unread || c->in_at < c->in.len) {
            linger(s, c);
            read_away(s, c);
        } else {
            cay_conn_close(s, c);
        }
        return;
    }
    c->phase = CAY_PHASE_HEAD;
    c->scanned = 0;
    c->deadline_ms = s->now_ms + s->times.idle_ms;
    cay_conn_read(s, c);
}

static void next_id(struct cay_http_server *s, char out[17])
{
    uint64_t x = s->ids += 0x9e3779b97f4a7c15; /* splitmix64: all different, none the next one's
                                                  neighbour, and no system call for each */
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    x ^= x >> 31;
    for (int i = 0; i < 16; i++)
        out[i] = "0123456789abcdef"[(x >> (4 * i)) & 15];
    out[16] = 0;
}

static struct cay_req *begin_request(struct cay_http_server *s, struct cay_conn *c)
{
    struct cay_req *req = cay_arena_alloc(&c->arena, sizeof *req);
    req->arena = &c->arena;
    req->method = req->path = req->query = req->host = req->body = "";
    req->peer = c->peer;
    req->is_tls = !cay_wire_is_plain(&c->wire);
    req->is_local = c->is_local;
    req->uid = c->uid;
    req->core = s->app.core;
    req->pool = s->pool;
    req->spare = &c->spare;
    req->began_us = s->now_us;
    req->received.verdict_fd = req->received.end_fd = -1;
    next_id(s, req->request_id);
    c->req = req;
    return req;
}

void cay_conn_refuse(struct cay_http_server *s, struct cay_conn *c, const struct cay_error *err)
{
    struct cay_resp resp = {0};
    if (!c->req) { /* it came to no head; what the one before wanted is over */
        begin_request(s, c);
        c->head_only = c->http10 = false;
    }
    cay_far_forget(s, c);
    c->keep_alive = false;
    c->unread = true;
    c->phase = CAY_PHASE_WRITE;
    c->deadline_ms = 0;
    c->moved_ms = s->now_ms;
    cay_answer_error(s, c->req, err, &resp);
    if (err->code == CAY_ERR_UNAVAILABLE)
        cay_resp_header(&resp, "Retry-After", "1");
    bool alive = cay_answer_send(c, &resp);
    if (s->app.done)
        s->app.done(c->req, resp.status, s->now_us - c->req->began_us);
    cay_answer_done(&resp);
    cay_answer_forget(c);
    if (alive)
        finish_answer(s, c);
    else
        cay_conn_close(s, c);
}

/* Only now may the rest of the loop's round forget this connection: a worker may have it. */
void cay_conn_dispatch(struct cay_http_server *s, struct cay_conn *c)
{
    if (c->phase != CAY_PHASE_GREET)
        c->deadline_ms = 0;
    atomic_store(&c->hold, CAY_HOLD_WORKER);
    if (cay_workers_give(&s->workers, c))
        return;
    struct cay_error err;
    atomic_store(&c->hold, CAY_HOLD_LOOP);
    if (c->phase == CAY_PHASE_SOCKET || c->phase == CAY_PHASE_GREET) {
        cay_conn_close(s, c);
        return;
    }
    (void)cay_fail(&err, CAY_ERR_UNAVAILABLE, "too many requests are waiting");
    cay_conn_refuse(s, c, &err);
}

void cay_conn_go_on(struct cay_http_server *s, struct cay_conn *c)
{
    static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
    struct iovec iov = {(void *)(uintptr_t)go_on, sizeof go_on - 1};
    c->moved_ms = s->now_ms;
    (void)cay_answer_put(c, &iov, 1); /* a client that is gone shows in the next read */
}

/* 100 Continue promises that the body is wanted; for a path nobody serves it is not. */
static bool wants_body(struct cay_http_server *s, struct cay_conn *c, const struct cay_route *route)
{
    if (!route) {
        c->keep_alive = false;
        c->unread = true;
        return false;
    }
    cay_conn_go_on(s, c);
    return true;
}

int cay_conn_route(const struct cay_http_server *s, struct cay_req *req, struct cay_error *err)
{
    req->route = s->app.divert ? s->app.divert(req) : NULL;
    return req->route ? 0 : cay_router_match(s->router, req, err);
}

/* NULL when there is none: the worker finds that again and answers it. */
static const struct cay_route *route_of(struct cay_http_server *s, struct cay_conn *c)
{
    struct cay_error ignored;
    struct cay_req probe = *c->req;
    return cay_conn_route(s, &probe, &ignored) < 0 ? NULL : probe.route;
}

static void begin_body(struct cay_http_server *s, struct cay_conn *c, const struct cay_head *head)
{
    struct cay_error err;
    c->phase = CAY_PHASE_BODY;
    c->deadline_ms = s->now_ms + s->times.body_ms;
    c->left = head->length;
    c->chunked = head->chunked;
    c->chunks = (struct cay_chunks){0};
    c->expects = head->expects;
    bool has_body = head->chunked || head->length > 0;
    const struct cay_route *route = has_body ? route_of(s, c) : NULL;
    c->streamed = route && route->body == CAY_BODY_STREAM;
    c->req->body_announced = head->chunked ? -1 : (int64_t)head->length;
    if (c->streamed) {
        c->phase = CAY_PHASE_WHOLE;
        return;
    }
    if (head->length > CAY_HTTP_JSON_MAX) {
        (void)cay_fail_as(&err, CAY_ERR_TOO_LARGE, "PAYLOAD_TOO_LARGE",
                          "the body is above %lld bytes", (long long)CAY_HTTP_JSON_MAX);
        cay_conn_refuse(s, c, &err);
        return;
    }
    if (!has_body || (head->expects && !wants_body(s, c, route)))
        c->phase = CAY_PHASE_WHOLE;
}

static bool method_has_body(const char *method)
{
    return strcmp(method, "POST") == 0 || strcmp(method, "PUT") == 0 ||
           strcmp(method, "PATCH") == 0 || strcmp(method, "DELETE") == 0;
}

/* Takes a head if a whole one is there; returns how many bytes it took. */
static size_t take_head(struct cay_http_server *s, struct cay_conn *c, const char *data, size_t len)
{
    struct cay_error err;
    struct cay_head head;
    if (c->scanned == 0)
        c->deadline_ms = s->now_ms + s->times.head_ms;
    int used = cay_parse_scan(data, len, &c->scanned, &err);
    if (used == 0)
        return 0;
    int r = used < 0 ? used : cay_parse_head(&c->arena, data, (size_t)used, &head, &err);
    if (r < 0) {
        cay_conn_refuse(s, c, &err);
        return 0;
    }
    c->scanned = 0;
    c->keep_alive = head.keep_alive;
    c->http10 = head.http10;
    c->head_only = strcmp(head.method, "HEAD") == 0;
    c->bodyless = !method_has_body(head.method);
    struct cay_req *req = begin_request(s, c);
    req->method = head.method;
    req->path = head.path;
    req->query = head.query;
    req->host = head.host;
    req->headers = head.headers;
    req->http10 = head.http10;
    begin_body(s, c, &head);
    return (size_t)used;
}

static size_t take_body(struct cay_http_server *s, struct cay_conn *c, const char *data, size_t len)
{
    struct cay_error err;
    size_t used = 0;
    bool whole;
    if (c->chunked) {
        int r = cay_chunks_decode(&c->chunks, data, len, CAY_HTTP_JSON_MAX, &c->body, &used, &err);
        if (r < 0) {
            cay_conn_refuse(s, c, &err);
            return 0;
        }
        whole = r == 1;
    } else {
        used = len < c->left ? len : (size_t)c->left;
        cay_buf_add(&c->body, data, used);
        c->left -= used;
        whole = c->left == 0;
    }
    if (!whole)
        return used;
    c->phase = CAY_PHASE_WHOLE;
    if (!c->bodyless) {
        cay_buf_addc(&c->body, 0); /* so that a reader who forgets the length stops */
        c->req->body = c->body.data;
        c->req->body_len = c->body.len - 1;
    }
    return used;
}

static size_t consume(struct cay_http_server *s, struct cay_conn *c, const char *data, size_t len)
{
    size_t used = 0;
    if (c->phase == CAY_PHASE_HEAD)
        used = take_head(s, c, data, len);
    if (c->phase == CAY_PHASE_BODY)
        used += take_body(s, c, data + used, len - used);
    return used;
}

static bool is_reading(const struct cay_conn *c)
{
    return !c->closed && (c->phase == CAY_PHASE_HEAD || c->phase == CAY_PHASE_BODY);
}

void cay_conn_used(struct cay_conn *c, size_t len)
{
    c->in_at += len;
    if (c->in_at == c->in.len) {
        cay_buf_done(&c->in);
        c->in_at = 0;
    }
}

static void consume_kept(struct cay_http_server *s, struct cay_conn *c)
{
    if (c->in_at == c->in.len)
        return;
    size_t used = consume(s, c, c->in.data + c->in_at, c->in.len - c->in_at);
    if (!is_reading(c) && c->phase != CAY_PHASE_WHOLE)
        return; /* refused: what is kept is not looked at again */
    cay_conn_used(c, used);
}

/* One recv, and what becomes of it. False when there is nothing more to read for now. */
static bool read_once(struct cay_http_server *s, struct cay_conn *c)
{
    ssize_t n = cay_wire_recv(&c->wire, s->scratch, CAY_HTTP_SCRATCH);
    if (n < 0 && errno == EINTR)
        return true;
    if (n < 0 && errno == EAGAIN) {
        c->unread = false;
        return false;
    }
    if (n <= 0) {
        cay_conn_close(s, c);
        return false;
    }
    bool more = n == CAY_HTTP_SCRATCH || c->unread || c->wire.more;
    if (c->in_at < c->in.len) {
        cay_buf_drop(&c->in, c->in_at);
        c->in_at = 0;
        cay_buf_add(&c->in, s->scratch, (size_t)n);
        consume_kept(s, c);
    } else {
        size_t used = consume(s, c, s->scratch, (size_t)n);
        if (is_reading(c) || c->phase == CAY_PHASE_WHOLE)
            cay_buf_add(&c->in, s->scratch + used, (size_t)n - used);
    }
    if (!c->closed && c->phase != CAY_PHASE_LINGER)
        c->unread |= more;
    return more;
}

/* True when it needs no worker and is on its way. */
static bool pass_on(struct cay_http_server *s, struct cay_conn *c)
{
    struct cay_resp resp = {0};
    bool passes = s->app.recall && !c->streamed && s->app.recall(c->req, &resp);
    cay_proxy_let_go(s, c); /* it asked for another */
    if (!passes) {
        cay_far_forget(s, c);
        return false;
    }
    cay_metric_add(&cay_http_recalled, 1);
    cay_proxy_take(c, &resp);
    cay_answer_done(&resp);
    c->phase = CAY_PHASE_PROXY;
    cay_proxy_begin(s, c);
    return true;
}

void cay_conn_read(struct cay_http_server *s, struct cay_conn *c)
{
    bool more = true;
    consume_kept(s, c);
    while (more && is_reading(c))
        more = read_once(s, c);
    if (!c->closed && c->phase == CAY_PHASE_WHOLE && !pass_on(s, c))
        cay_conn_dispatch(s, c);
}

void cay_conn_resume(struct cay_http_server *s, struct cay_conn *c)
{
    switch (c->phase) {
    case CAY_PHASE_GREET:
        cay_greet(s, c);
        break;
    case CAY_PHASE_HEAD:
    case CAY_PHASE_BODY:
    case CAY_PHASE_WHOLE:
        cay_conn_read(s, c);
        break;
    case CAY_PHASE_WRITE:
        finish_answer(s, c);
        break;
    case CAY_PHASE_STREAM:
    case CAY_PHASE_DEFER:
        cay_pump(s, c);
        break;
    case CAY_PHASE_RECEIVE:
        cay_receive(s, c);
        break;
    case CAY_PHASE_VERDICT:
        break;
    case CAY_PHASE_SOCKET:
        cay_socket(s, c);
        break;
    case CAY_PHASE_PROXY:
        cay_proxy(s, c);
        break;
    case CAY_PHASE_LINGER:
        read_away(s, c);
        break;
    case CAY_PHASE_CLOSE:
        cay_conn_close(s, c);
        break;
    }
}
