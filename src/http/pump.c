/* SPDX-License-Identifier: Apache-2.0 */
/* Streams on the loop: pull, frame, send, until the socket is full, the stream has nothing more for
 * now, or it ends. A deferred answer is pulled in the same way with its output dropped, and goes to
 * a worker at its end. */
#include "http/conn.h"
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define ROUNDS 16                        /* then the other connections have their turn */
#define ROOM (CAY_HTTP_STREAM_CHUNK / 2) /* a stream may overshoot, and buffers double */
#define SIP 4096 /* enough to learn whether the source or the socket is the one that waits */
#define PULLED_MAX (256 * 1024)

void cay_pump_later(struct cay_http_server *s, struct cay_conn *c)
{
    if (c->queued)
        return;
    c->queued = true;
    c->ready_next = NULL;
    if (s->ready_first)
        s->ready_last->ready_next = c;
    else
        s->ready_first = c;
    s->ready_last = c;
}

/* What became ready meanwhile is for the next round. */
void cay_pump_ready(struct cay_http_server *s)
{
    struct cay_conn *c = s->ready_first;
    s->ready_first = NULL;
    for (struct cay_conn *next; c; c = next) {
        next = c->ready_next;
        c->queued = false;
        if (c->closed || !cay_conn_is_held(c))
            continue;
        if (c->phase == CAY_PHASE_SOCKET)
            cay_socket(s, c);
        else if (c->stream)
            cay_pump(s, c);
        else if (c->phase == CAY_PHASE_RECEIVE)
            cay_receive(s, c);
        else if (c->phase == CAY_PHASE_PROXY)
            cay_proxy(s, c);
    }
}

void cay_pump_end(struct cay_http_server *s, struct cay_conn *c)
{
    if (!c->stream)
        return;
    cay_watch_remove(s, c);
    cay_timer_remove(s, c);
    c->stream->ops->close(c->stream);
    c->stream = NULL;
    cay_metric_add(&cay_http_streams, -1);
    c->waiting = false;
}

bool cay_pump_piece(struct cay_http_server *s, struct cay_conn *c, const char *data, size_t len,
                    bool last)
{
    char size[20] = "";
    const char *tail = "";
    if (!c->raw) {
        if (len > 0)
            (void)snprintf(size, sizeof size, "%zx\r\n", len);
        tail = !last ? "\r\n" : len > 0 ? "\r\n0\r\n\r\n" : "0\r\n\r\n";
    }
    c->quiet_ms = s->now_ms;
    if (cay_conn_pending(c) == 0)
        c->moved_ms = s->now_ms;
    struct iovec iov[] = {
        {size, strlen(size)},
        {(void *)(uintptr_t)data, len},
        {(void *)(uintptr_t)tail, strlen(tail)},
    };
    return cay_answer_put(c, iov, CAY_COUNT(iov));
}

/* The stream is over: the answer ends, or its second half begins. */
static void finish(struct cay_http_server *s, struct cay_conn *c)
{
    bool deferred = c->phase == CAY_PHASE_DEFER;
    if (c->phase == CAY_PHASE_SOCKET) {
        cay_socket_end(s, c, CAY_WS_NORMAL, "");
        return;
    }
    cay_pump_end(s, c);
    if (deferred) {
        c->phase = CAY_PHASE_WHOLE;
        cay_conn_dispatch(s, c);
        return;
    }
    c->phase = CAY_PHASE_WRITE;
    cay_conn_resume(s, c);
}

static bool can_move(const struct cay_conn *c)
{
    return c->phase == CAY_PHASE_STREAM && c->raw && c->stream->is_pipe && c->stream->ops->move &&
           cay_conn_pending(c) == 0 && cay_wire_is_plain(&c->wire);
}

static enum cay_pull pull(struct cay_http_server *s, struct cay_conn *c)
{
    bool moves = can_move(c);
    enum cay_pull got = moves ? c->stream->ops->move(c->stream, c->wire.fd) : CAY_PULL_WAIT;
    if (got != CAY_PULL_WAIT)
        return got;
    s->pulled.len = 0;
    got = c->stream->ops->pull(c->stream, &s->pulled, moves ? SIP : ROOM);
    bool last = got == CAY_PULL_END;
    if (c->phase != CAY_PHASE_DEFER && (s->pulled.len > 0 || last) &&
        !cay_pump_piece(s, c, s->pulled.data, s->pulled.len, last))
        got = CAY_PULL_ABORT;
    if (s->pulled.cap > PULLED_MAX)
        cay_buf_done(&s->pulled);
    return got;
}

static void rest(struct cay_conn *c)
{
    if (c->stream && c->stream->ops->rest)
        c->stream->ops->rest(c->stream);
}

/* A WebSocket has a pipe of its own beside the stream. */
static bool is_watched(const struct cay_conn *c)
{
    return c->watch || c->polled || (c->stream->is_pipe && c->far_fd >= 0);
}

static bool has_end(const struct cay_stream *stream)
{
    return stream->is_pipe && !stream->endless;
}

/* Ends it, and not in good order. */
static void cut(struct cay_http_server *s, struct cay_conn *c, enum cay_ws_code code)
{
    if (c->phase == CAY_PHASE_SOCKET)
        cay_socket_end(s, c, code, "");
    else
        cay_conn_close(s, c);
}

void cay_pump(struct cay_http_server *s, struct cay_conn *c)
{
    for (int round = 0; round < ROUNDS; round++) {
        if (c->begun && !cay_conn_flush(s, c))
            return;      /* the socket tells when there is room, and when the client is gone */
        c->begun = true; /* the head went with the first piece */
        enum cay_pull got = pull(s, c);
        c->waiting = got == CAY_PULL_WAIT;
        if (got == CAY_PULL_ABORT) {
            cut(s, c, CAY_WS_FAILED);
            return;
        }
        if (got == CAY_PULL_END) {
            finish(s, c);
            return;
        }
        if (!cay_conn_flush(s, c)) {
            rest(c);
            return;
        }
        if (got == CAY_PULL_WAIT && s->draining && !has_end(c->stream)) {
            cut(s, c, CAY_WS_GOING); /* without a last chunk: it must not look finished */
            return;
        }
        if (got == CAY_PULL_WAIT && c->stream->wake_at_ms > 0) {
            cay_timer_set(s, c);
            return;
        }
        if (got == CAY_PULL_WAIT && is_watched(c))
            return;
        if (got == CAY_PULL_WAIT) /* and pull again: the file may have changed just before */
            cay_watch_add(s, c);
    }
    cay_pump_later(s, c);
}

/* The event came while a worker had the connection. */
static bool is_gone(const struct cay_conn *c)
{
    struct pollfd gone = {.fd = c->wire.fd, .events = POLLRDHUP};
    return poll(&gone, 1, 0) > 0 && (gone.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

void cay_pump_back(struct cay_http_server *s, struct cay_conn *c)
{
    if (is_gone(c))
        cay_conn_close(s, c);
    else
        cay_pump(s, c);
}

void cay_pump_begin(struct cay_http_server *s, struct cay_conn *c)
{
    int unsent = CAY_HTTP_STREAM_CHUNK;
    c->deadline_ms = 0;
    c->quiet_ms = c->moved_ms = s->now_ms;
    c->begun = c->waiting = false;
    if (is_gone(c)) {
        cay_conn_close(s, c);
        return;
    }
    if (s->draining && c->phase == CAY_PHASE_DEFER) {
        finish(s, c);
        return;
    }
    /* A reader that does not read must not fill the kernel's memory instead of ours. */
    if (c->phase != CAY_PHASE_DEFER)
        (void)setsockopt(c->wire.fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
    cay_pump(s, c);
}

void cay_pump_tick(struct cay_http_server *s, struct cay_conn *c)
{
    const char *keepalive = c->stream->keepalive;
    if (c->phase != CAY_PHASE_STREAM || !c->waiting || !keepalive || cay_conn_pending(c) > 0 ||
        s->now_ms - c->quiet_ms < s->times.keepalive_ms)
        return;
    if (!cay_pump_piece(s, c, keepalive, strlen(keepalive), false))
        cay_conn_close(s, c);
}

/* What a stream has ready still goes out; one that waits, for its file or its reader, is cut. */
void cay_pump_drain(struct cay_http_server *s, struct cay_conn *c)
{
    if (c->phase == CAY_PHASE_DEFER)
        finish(s, c);
    else if (!has_end(c->stream) && (c->waiting || cay_conn_pending(c) > 0))
        cut(s, c, CAY_WS_GOING);
    else
        cay_pump(s, c);
}
