/* SPDX-License-Identifier: Apache-2.0 */
/* WebSocket connections on the loop, for as long as they last.
 *
 * Out goes what the stream has (whole frames), pulled by pump.c as any stream is: a viewer that
 * does not read lags in the log and holds up nobody. In come bytes for a sink, which are not read
 * from the socket faster than it takes them, and messages of text, each of which goes to a worker
 * and back before anything more is read. */
#include "http/conn.h"
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define ROUNDS 64        /* frames, then the other connections have their turn */
#define READ_SIZE 16384  /* of what comes at one go */
#define PENDING_MAX 4096 /* whoever does not read its answers is not listened to */

static bool is_open(const struct cay_conn *c)
{
    return !c->closed && c->phase == CAY_PHASE_SOCKET;
}

void cay_socket_free(struct cay_conn *c)
{
    struct cay_talk *t = c->talk;
    if (!t)
        return;
    cay_close_fd(&t->is.end_fd);
    cay_close_fd(&t->is.sink_fd);
    t->is.ops->close(t->is.ctx);
    cay_ws_done(&t->decoder);
    cay_buf_done(&t->held);
    cay_buf_done(&t->reply);
    free(t);
    c->talk = NULL;
    cay_metric_add(&cay_http_sockets, -1);
}

static void say(struct cay_http_server *s, struct cay_conn *c, const struct cay_buf *frames)
{
    struct iovec iov = {frames->data, frames->len};
    if (frames->len == 0)
        return;
    if (cay_conn_pending(c) == 0)
        c->moved_ms = s->now_ms;
    if (!cay_answer_put(c, &iov, 1))
        cay_conn_close(s, c);
}

/* The last frame, and then the connection's end; what the client still says is read away. */
void cay_socket_end(struct cay_http_server *s, struct cay_conn *c, enum cay_ws_code code,
                    const char *why)
{
    CAY_AUTO_BUF struct cay_buf frame = {0};
    cay_ws_close_frame(&frame, code, why, NULL);
    say(s, c, &frame);
    if (c->closed)
        return;
    cay_pump_end(s, c);
    cay_far_forget(s, c);
    cay_socket_free(c);
    c->keep_alive = false;
    c->unread = true;
    c->moved_ms = s->now_ms;
    c->phase = CAY_PHASE_WRITE;
    cay_conn_resume(s, c);
}

/* No more goes into the sink. */
static void shut_sink(struct cay_http_server *s, struct cay_conn *c, bool whole)
{
    struct cay_talk *t = c->talk;
    if (!t->is.duplex)
        cay_far_forget(s, c);
    else if (t->is.sink_fd >= 0)
        (void)shutdown(t->is.sink_fd, SHUT_WR); /* fails when it has ended, which is as well */
    if (whole && t->is.end_fd >= 0) {
        ssize_t n = write(t->is.end_fd, "1", 1);
        (void)n; /* the pipe is empty; without a reader nobody asks */
    }
    cay_close_fd(&t->is.end_fd);
    cay_close_fd(&t->is.sink_fd);
    cay_buf_done(&t->held);
}

/* Bytes that nobody takes: said once. */
static void refuse_input(struct cay_http_server *s, struct cay_conn *c)
{
    CAY_AUTO_BUF struct cay_buf frames = {0};
    if (c->talk->refused)
        return;
    c->talk->refused = true;
    c->talk->is.ops->unwanted(c->talk->is.ctx, &frames);
    say(s, c, &frames);
}

static void give(struct cay_http_server *s, struct cay_conn *c, const char *data, size_t len)
{
    struct cay_talk *t = c->talk;
    size_t at = 0;
    while (t->is.sink_fd >= 0 && at < len) {
        ssize_t n = write(t->is.sink_fd, data + at, len - at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            break;
        if (n < 0)
            shut_sink(s, c, false);
        else
            at += (size_t)n;
    }
    if (t->is.sink_fd < 0)
        refuse_input(s, c);
    else if (at < len)
        cay_buf_add(&t->held, data + at, len - at);
}

/* True when the sink took what was held. */
static bool give_held(struct cay_http_server *s, struct cay_conn *c)
{
    struct cay_talk *t = c->talk;
    if (t->held.len == 0)
        return true;
    struct cay_buf held = t->held;
    t->held = (struct cay_buf){0};
    give(s, c, held.data, held.len);
    cay_buf_done(&held);
    return is_open(c) && t->held.len == 0;
}

/* One recv behind what is kept. False when there is nothing for now, or the client is gone. */
static bool fill(struct cay_http_server *s, struct cay_conn *c)
{
    cay_buf_drop(&c->in, c->in_at);
    c->in_at = 0;
    if (!c->unread) {
        if (c->in.len == 0)
            cay_buf_done(&c->in);
        return false;
    }
    ssize_t n = cay_wire_recv(&c->wire, cay_buf_room(&c->in, READ_SIZE), READ_SIZE);
    if (n < 0 && errno == EINTR)
        return true;
    if (n < 0 && errno == EAGAIN) {
        c->unread = false;
        return true; /* comes back here, and gives the buffer away */
    }
    if (n <= 0) {
        cay_conn_close(s, c);
        return false;
    }
    c->in.len += (size_t)n;
    c->talk->heard_ms = s->now_ms;
    return true;
}

/* False when this round is over: somebody else has the connection, or nobody. */
static bool take(struct cay_http_server *s, struct cay_conn *c, const struct cay_ws_piece *piece)
{
    CAY_AUTO_BUF struct cay_buf frame = {0};
    switch (piece->op) {
    case CAY_WS_BINARY:
        c->talk->active_ms = s->now_ms;
        give(s, c, piece->data, piece->len);
        return is_open(c);
    case CAY_WS_TEXT:
        c->talk->active_ms = s->now_ms;
        c->talk->message = *piece;
        cay_conn_dispatch(s, c);
        return false;
    case CAY_WS_PING:
        cay_ws_frame(&frame, CAY_WS_PONG, piece->data, piece->len, NULL);
        say(s, c, &frame);
        return is_open(c);
    case CAY_WS_CLOSE:
        cay_socket_end(s, c, piece->code, "");
        return false;
    default:
        return true;
    }
}

static void read_frames(struct cay_http_server *s, struct cay_conn *c)
{
    for (int round = 0; round < ROUNDS; round++) {
        struct cay_ws_piece piece;
        size_t used = 0;
        if (!give_held(s, c) || cay_conn_pending(c) > PENDING_MAX)
            return; /* the sink, or the socket, tells when there is room */
        int r = cay_ws_decode(&c->talk->decoder, c->in.data + c->in_at, c->in.len - c->in_at, &used,
                              &piece);
        c->in_at += used;
        if (r < 0) {
            cay_socket_end(s, c, (enum cay_ws_code) - r, "");
            return;
        }
        if (r == 0 ? !fill(s, c) : !take(s, c, &piece))
            return;
    }
    cay_pump_later(s, c);
}

void cay_socket(struct cay_http_server *s, struct cay_conn *c)
{
    cay_pump(s, c);
    if (is_open(c))
        read_frames(s, c);
}

void cay_socket_event(struct cay_http_server *s, struct cay_conn *c, uint32_t events)
{
    c->unread |= (events & (EPOLLIN | EPOLLRDHUP)) != 0;
    if (c->talk->held.len > 0 && events & EPOLLRDHUP) {
        cay_conn_close(s, c); /* nothing is read that could tell of its end */
        return;
    }
    cay_socket(s, c);
}

void cay_socket_wake(struct cay_http_server *s, struct cay_conn *c, uint32_t events)
{
    if (events & EPOLLERR)
        shut_sink(s, c, false);
    if (c->talk->is.duplex)
        cay_pump(s, c);
    if (is_open(c))
        read_frames(s, c);
}

/* Back from the worker that made it, or that had a message. */
void cay_socket_back(struct cay_http_server *s, struct cay_conn *c)
{
    struct cay_talk *t = c->talk;
    if (!t->begun) {
        t->begun = true;
        t->heard_ms = t->active_ms = t->pinged_ms = s->now_ms;
        c->unread = true;
        bool both = t->is.duplex;
        if (t->is.sink_fd >= 0 && !cay_far_watch(s, c, both ? c->stream->watch_fd : t->is.sink_fd,
                                                 both ? EPOLLIN | EPOLLOUT : EPOLLOUT)) {
            cay_conn_close(s, c);
            return;
        }
        cay_pump_begin(s, c);
    } else {
        if (t->next == CAY_SOCKET_END_INPUT)
            shut_sink(s, c, true);
        CAY_AUTO_BUF struct cay_buf reply = t->reply;
        t->reply = (struct cay_buf){0};
        say(s, c, &reply); /* who is gone is freed with all that is t's */
    }
    if (is_open(c))
        cay_socket(s, c);
}

void cay_socket_work(struct cay_conn *c)
{
    struct cay_talk *t = c->talk;
    t->next = t->is.ops->text(t->is.ctx, t->message.data, t->message.len, &t->reply);
}

void cay_socket_tick(struct cay_http_server *s, struct cay_conn *c)
{
    CAY_AUTO_BUF struct cay_buf frame = {0};
    struct cay_talk *t = c->talk;
    int64_t now = s->now_ms;
    if (t->held.len > 0)
        t->heard_ms = now; /* it is we who do not listen */
    if (now - t->heard_ms >= s->times.ws_silence_ms) {
        cay_conn_close(s, c);
        return;
    }
    if (now - t->active_ms >= CAY_WS_IDLE_MS && now - c->quiet_ms >= CAY_WS_IDLE_MS) {
        cay_socket_end(s, c, CAY_WS_GOING, "idle");
        return;
    }
    if (now - t->pinged_ms < s->times.ws_ping_ms || cay_conn_pending(c) > 0)
        return;
    t->pinged_ms = now;
    cay_ws_frame(&frame, CAY_WS_PING, "", 0, NULL);
    say(s, c, &frame);
}
