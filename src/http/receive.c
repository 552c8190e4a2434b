/* SPDX-License-Identifier: Apache-2.0 */
/* Streamed bodies on the loop: from the socket through the decoder into a pipe, and no faster than
 * its reader takes them. Whoever is late is cut: a client that sends nothing or next to nothing, a
 * sink that takes nothing, a verdict that does not come.
 *
 * Only a whole body gets its byte in end_fd, and gets it before the sink is closed. */
#include "http/conn.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define ROUNDS 16 /* then the other connections have their turn */
#define SIP 4096  /* enough to learn whether the client or the sink is the one that waits */

void cay_receive_begin(struct cay_http_server *s, struct cay_conn *c)
{
    struct cay_upload *u = c->upload;
    c->deadline_ms = 0;
    c->unread = true;
    u->heard_ms = u->taken_ms = u->window_ms = s->now_ms;
    u->whole = !c->chunked && c->left == 0;
    if (!cay_far_watch(s, c, u->to.sink_fd, EPOLLOUT)) {
        struct cay_error err;
        (void)cay_fail_errno(&err, CAY_ERR_INTERNAL, "cannot watch the body's sink");
        cay_conn_refuse(s, c, &err);
        return;
    }
    if (c->expects && !u->whole)
        cay_conn_go_on(s, c);
    cay_receive(s, c);
}

void cay_receive_end(struct cay_conn *c)
{
    struct cay_upload *u = c->upload;
    if (c->req) {
        cay_close_fd(&c->req->received.verdict_fd);
        cay_close_fd(&c->req->received.end_fd);
    }
    if (!u)
        return;
    cay_close_fd(&u->to.end_fd); /* first, as at a good end */
    cay_close_fd(&u->to.sink_fd);
    cay_close_fd(&u->to.verdict_fd);
    cay_buf_done(&u->held);
    free(u);
    c->upload = NULL;
}

/* Writes to the sink; returns how many bytes need not be held. */
static size_t put(struct cay_http_server *s, struct cay_upload *u, const char *data, size_t len)
{
    size_t at = 0;
    while (at < len) {
        ssize_t n = write(u->to.sink_fd, data + at, len - at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return at;
        if (n < 0) {
            u->broken = true;
            return len;
        }
        at += (size_t)n;
        u->taken_ms = s->now_ms;
    }
    return at;
}

/* Decodes what came. used_out: bytes that belong to the body. */
static int absorb(struct cay_http_server *s, struct cay_conn *c, const char *data, size_t len,
                  size_t *used_out, struct cay_error *err)
{
    struct cay_upload *u = c->upload;
    if (c->chunked) {
        s->pulled.len = 0;
        int r = cay_chunks_decode(&c->chunks, data, len, SIZE_MAX, &s->pulled, used_out, err);
        if (r < 0)
            return r;
        u->whole = r == 1;
        data = s->pulled.data;
        len = s->pulled.len;
    } else {
        *used_out = len = len < c->left ? len : (size_t)c->left;
        c->left -= len;
        u->whole = c->left == 0;
    }
    size_t taken = put(s, u, data, len);
    if (taken < len)
        cay_buf_add(&u->held, data + taken, len - taken);
    u->bytes += len;
    return 0;
}

/* The bytes that came with the head, or behind it while a worker had the connection. */
static bool take_kept(struct cay_http_server *s, struct cay_conn *c)
{
    struct cay_error err;
    size_t used = 0;
    if (absorb(s, c, c->in.data + c->in_at, c->in.len - c->in_at, &used, &err) < 0) {
        cay_conn_refuse(s, c, &err);
        return false;
    }
    cay_conn_used(c, used);
    return true;
}

/* Moves bytes from the socket into the sink without looking at them; false when none could be. */
static bool move(struct cay_http_server *s, struct cay_conn *c)
{
    struct cay_upload *u = c->upload;
    size_t want = c->left < CAY_HTTP_MOVE ? (size_t)c->left : CAY_HTTP_MOVE;
    ssize_t n = splice(c->wire.fd, NULL, u->to.sink_fd, NULL, want, SPLICE_F_NONBLOCK);
    if (n <= 0)
        return false;
    c->left -= (uint64_t)n;
    u->whole = c->left == 0;
    u->bytes += (uint64_t)n;
    u->window_bytes += (uint64_t)n;
    u->heard_ms = u->taken_ms = s->now_ms;
    return true;
}

/* One recv, or what does without. False when there is nothing more for now, or the client is gone
 * or refused. */
static bool take_more(struct cay_http_server *s, struct cay_conn *c)
{
    struct cay_upload *u = c->upload;
    struct cay_error err;
    size_t used = 0;
    if (c->in_at < c->in.len)
        return take_kept(s, c);
    if (!c->unread)
        return false;
    bool moves = !c->chunked && c->left >= CAY_HTTP_SCRATCH && cay_wire_is_plain(&c->wire);
    if (moves && move(s, c))
        return true;
    ssize_t n = cay_wire_recv(&c->wire, s->scratch, moves ? SIP : CAY_HTTP_SCRATCH);
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
    u->heard_ms = s->now_ms;
    u->window_bytes += (uint64_t)n;
    if (absorb(s, c, s->scratch, (size_t)n, &used, &err) < 0) {
        cay_conn_refuse(s, c, &err);
        return false;
    }
    cay_buf_add(&c->in, s->scratch + used, (size_t)n - used); /* the next request */
    return true;
}

static void judge(struct cay_http_server *s, struct cay_conn *c)
{
    cay_far_forget(s, c);
    c->phase = CAY_PHASE_WHOLE;
    cay_conn_dispatch(s, c);
}

/* Nothing more goes into the sink: all is in it, or nobody reads it any more. */
static void finish(struct cay_http_server *s, struct cay_conn *c)
{
    struct cay_upload *u = c->upload;
    struct cay_received *received = &c->req->received;
    bool whole = u->whole && !u->broken;
    cay_far_forget(s, c);
    if (whole && u->to.end_fd >= 0) {
        ssize_t n = write(u->to.end_fd, "1", 1);
        (void)n; /* the pipe is empty; without a reader nobody asks */
    }
    cay_close_fd(&u->to.end_fd);
    cay_close_fd(&u->to.sink_fd);
    if (!whole) {
        c->keep_alive = false;
        c->unread = true;
    }
    *received = (struct cay_received){u->bytes, whole, cay_take_fd(&u->to.verdict_fd), -1};
    u->heard_ms = s->now_ms;
    c->phase = CAY_PHASE_VERDICT;
    if (received->verdict_fd < 0 || !cay_far_watch(s, c, received->verdict_fd, EPOLLIN))
        judge(s, c);
}

void cay_receive(struct cay_http_server *s, struct cay_conn *c)
{
    struct cay_upload *u = c->upload;
    for (int round = 0; round < ROUNDS; round++) {
        cay_buf_drop(&u->held, put(s, u, u->held.data, u->held.len));
        if (u->held.len > 0) {
            u->window_ms = s->now_ms; /* it is not the client who is slow */
            u->window_bytes = 0;
            return;
        }
        cay_buf_done(&u->held);
        if (u->whole || u->broken) {
            finish(s, c);
            return;
        }
        if (!take_more(s, c))
            return;
    }
    cay_pump_later(s, c);
}

void cay_receive_wake(struct cay_http_server *s, struct cay_conn *c, uint32_t events)
{
    if (c->phase == CAY_PHASE_VERDICT) {
        /* The event may be the sink's, of the same round as the socket's that brought the end. */
        struct pollfd verdict = {.fd = c->req->received.verdict_fd, .events = POLLIN};
        if (poll(&verdict, 1, 0) > 0)
            judge(s, c);
        return;
    }
    c->upload->broken |= (events & EPOLLERR) != 0;
    cay_receive(s, c);
}

static void refuse_late(struct cay_http_server *s, struct cay_conn *c, const char *why)
{
    struct cay_error err;
    (void)cay_fail(&err, CAY_ERR_TIMEOUT, "%s", why);
    cay_conn_refuse(s, c, &err);
}

void cay_receive_tick(struct cay_http_server *s, struct cay_conn *c)
{
    struct cay_upload *u = c->upload;
    if (c->phase == CAY_PHASE_VERDICT) {
        if (s->now_ms - u->heard_ms >= u->to.verdict_ms)
            refuse_late(s, c, "the body came, and no word of what became of it");
        return;
    }
    if (u->held.len > 0) {
        u->heard_ms = s->now_ms;
        if (s->now_ms - u->taken_ms >= s->times.sink_ms)
            refuse_late(s, c, "nobody took the body's bytes");
        return;
    }
    bool silent = s->now_ms - u->heard_ms >= s->times.silence_ms;
    bool over = s->now_ms - u->window_ms >= s->times.slow_ms;
    if (silent || (over && u->window_bytes < CAY_HTTP_SLOW_BYTES)) {
        cay_conn_close(s, c);
        return;
    }
    if (over) {
        u->window_ms = s->now_ms;
        u->window_bytes = 0;
    }
}
