/* SPDX-License-Identifier: Apache-2.0 */
#include "net/relay.h"
#include "model/limits.h"
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>

struct cay_pipe {
    struct cay_pipe *next;
    int fds[2];
};

enum outcome { WAIT, MORE, BROKEN, GONE };

#define ASKS 64 /* in one turn */

/* ---- pipes ---- */

static struct cay_pipe *take_pipe(struct cay_relay *r)
{
    struct cay_pipe *p = r->spare;
    if (p) {
        r->spare = p->next;
        r->spare_count--;
        return p;
    }
    if (r->pipe_count >= r->pipes_max)
        return NULL;
    p = malloc(sizeof *p);
    if (!p)
        abort();
    if (pipe2(p->fds, O_NONBLOCK | O_CLOEXEC) == 0) {
        r->pipe_count++;
        return p;
    }
    free(p);
    return NULL;
}

static void drop_pipe(struct cay_relay *r, struct cay_pipe *p)
{
    close(p->fds[0]);
    close(p->fds[1]);
    free(p);
    r->pipe_count--;
}

static void give_pipe(struct cay_relay *r, struct cay_flow *f)
{
    struct cay_pipe *p = f->pipe;
    if (!p)
        return;
    if (f->held > 0 || r->spare_count >= CAY_NET_SPARE_PIPES) {
        drop_pipe(r, p); /* never one with somebody's bytes in it */
    } else {
        p->next = r->spare;
        r->spare = p;
        r->spare_count++;
    }
    f->pipe = NULL;
    f->held = 0;
}

/* False: there are enough of them already, of others who do not read perhaps. */
static bool has_pipe(struct cay_relay *r, struct cay_flow *f)
{
    if (!f->pipe)
        f->pipe = take_pipe(r);
    return f->pipe;
}

/* ---- one direction ---- */

static enum outcome after_error(void)
{
    return errno == EAGAIN || errno == EINTR ? WAIT : BROKEN;
}

static enum outcome empty_pipe(struct cay_link *p, struct cay_flow *f, int to)
{
    while (f->held > 0) {
        ssize_t n =
            splice(f->pipe->fds[0], NULL, to, NULL, f->held, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
        if (n <= 0)
            return n < 0 ? after_error() : BROKEN;
        f->held -= (size_t)n;
        f->bytes += (uint64_t)n;
    }
    give_pipe(p->relay, f);
    return MORE;
}

static enum outcome send_ahead(struct cay_flow *f, int to)
{
    while (f->ahead_at < f->ahead.len) {
        ssize_t n = send(to, f->ahead.data + f->ahead_at, f->ahead.len - f->ahead_at,
                         MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0)
            return after_error();
        f->ahead_at += (size_t)n;
        f->bytes += (uint64_t)n;
    }
    cay_buf_done(&f->ahead);
    f->ahead_at = 0;
    return MORE;
}

/* Of what has room, how much may be taken. */
static size_t may_pass(const struct cay_flow *f, size_t room)
{
    return f->looks && f->pass < room ? (size_t)f->pass : room;
}

static void passed(struct cay_flow *f, ssize_t n)
{
    if (f->looks)
        f->pass -= (uint64_t)n;
}

/* Nothing came, or the end. */
static enum outcome after_nothing(struct cay_flow *f, ssize_t n)
{
    enum outcome how = n < 0 ? after_error() : MORE;
    f->readable = n < 0 && errno == EINTR;
    f->ended = n == 0;
    return how;
}

static enum outcome fill_pipe(struct cay_link *p, struct cay_flow *f, int from)
{
    ssize_t n = splice(from, NULL, f->pipe->fds[1], NULL, may_pass(f, CAY_NET_PIPE_BYTES),
                       SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
    if (n > 0) {
        passed(f, n);
        f->held = (size_t)n;
        f->much = n >= CAY_NET_LITTLE;
        return MORE;
    }
    enum outcome how = after_nothing(f, n);
    give_pipe(p->relay, f);
    return how;
}

/* Little is copied: a pipe's calls cost more than a few bytes do. */
static enum outcome copy_little(struct cay_flow *f, int from, int to)
{
    char bytes[CAY_NET_LITTLE];
    size_t room = may_pass(f, sizeof bytes);
    ssize_t n = recv(from, bytes, room, MSG_DONTWAIT);
    if (n <= 0)
        return after_nothing(f, n);
    f->readable = (size_t)n == room || f->last || f->urgent; /* else an event tells of more */
    passed(f, n);
    f->much = n == sizeof bytes;
    ssize_t taken = send(to, bytes, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (taken < 0 && after_error() == BROKEN)
        return BROKEN;
    taken = taken < 0 ? 0 : taken;
    f->bytes += (uint64_t)taken;
    if (taken == n)
        return MORE;
    cay_buf_add(&f->ahead, bytes + taken, (size_t)(n - taken));
    return WAIT;
}

/* What is under way already. */
static enum outcome empty(struct cay_link *p, struct cay_flow *f, int to)
{
    enum outcome how = f->ahead.len ? send_ahead(f, to) : MORE;
    return how == MORE && f->held ? empty_pipe(p, f, to) : how;
}

static enum outcome ask(struct cay_link *p, struct cay_flow *f)
{
    if (!p->asks(p, f))
        return GONE;
    if (!f->looks || f->pass > 0 || f->ahead.len > 0)
        return MORE;
    f->readable = false; /* what is there is not enough */
    return WAIT;
}

static const struct cay_flow *other_of(const struct cay_link *p, const struct cay_flow *f)
{
    return f == &p->sent ? &p->received : &p->sent;
}

/* Who has many has no more of a turn for it. */
static uint64_t turn_bytes(const struct cay_link *p)
{
    uint64_t share = CAY_NET_TURN_BYTES / (p->sharers && *p->sharers ? *p->sharers : 1);
    return share > CAY_NET_PIPE_BYTES ? share : CAY_NET_PIPE_BYTES;
}

/* MORE: it had its turn, and there may be more to do. */
static enum outcome move(struct cay_link *p, struct cay_flow *f, int from, int to)
{
    uint64_t until = f->bytes + turn_bytes(p);
    for (int asked = 0; f->bytes < until && asked < ASKS;) {
        enum outcome how = empty(p, f, to);
        if (how == MORE && f->ended) {
            if (!f->told && !other_of(p, f)->told) /* else both are closed at once */
                (void)shutdown(to, SHUT_WR);       /* who is gone already knows it */
            f->told = true;
            return WAIT;
        }
        if (how == MORE && !f->readable)
            return WAIT;
        bool asks = how == MORE && f->looks && f->pass == 0;
        asked += asks;
        if (asks)
            how = ask(p, f);
        else if (how == MORE)
            how =
                f->much && has_pipe(p->relay, f) ? fill_pipe(p, f, from) : copy_little(f, from, to);
        if (how != MORE)
            return how;
    }
    return MORE;
}

/* ---- both ---- */

void cay_socket_reset(int *fd)
{
    struct linger none = {.l_onoff = 1};
    if (*fd >= 0)
        (void)setsockopt(*fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
    cay_close_fd(fd);
}

void cay_link_close(struct cay_link *p, bool reset)
{
    cay_deadline_clear(&p->idle);
    cay_turn_clear(&p->turn);
    give_pipe(p->relay, &p->sent);
    give_pipe(p->relay, &p->received);
    cay_buf_done(&p->sent.ahead);
    cay_buf_done(&p->received.ahead);
    cay_loop_forget(p->relay->loop, &p->in);
    cay_loop_forget(p->relay->loop, &p->out);
    if (reset) {
        cay_socket_reset(&p->in.fd);
        cay_socket_reset(&p->out.fd);
    }
    cay_close_fd(&p->in.fd);
    cay_close_fd(&p->out.fd);
}

static void end(struct cay_link *p, bool reset)
{
    cay_link_close(p, reset);
    p->over(p, reset);
}

static void pump(struct cay_link *p)
{
    uint64_t before = p->sent.bytes + p->received.bytes;
    enum outcome received = MORE, sent = move(p, &p->sent, p->in.fd, p->out.fd);
    if (sent == WAIT || sent == MORE)
        received = move(p, &p->received, p->out.fd, p->in.fd);
    if (sent == GONE || received == GONE)
        return;
    if (sent == BROKEN || received == BROKEN) {
        end(p, true);
        return;
    }
    if (p->sent.told && p->received.told) {
        end(p, false);
        return;
    }
    if (sent == MORE || received == MORE)
        cay_loop_again(p->relay->loop, &p->turn);
    if (p->sent.bytes + p->received.bytes != before)
        cay_deadline_set(&p->relay->idle, &p->idle);
}

static bool has_failed(int fd)
{
    int error = 0;
    socklen_t len = sizeof error;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0 || error != 0;
}

static void ready(struct cay_link *p, struct cay_watch *w, uint32_t events)
{
    if ((events & EPOLLERR) && has_failed(w->fd)) {
        end(p, true);
        return;
    }
    struct cay_flow *f = w == &p->in ? &p->sent : &p->received;
    f->readable |= (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
    f->last |= (events & (EPOLLRDHUP | EPOLLHUP)) != 0;
    f->urgent |= (events & EPOLLPRI) != 0;
    pump(p);
}

static void in_ready(struct cay_watch *w, uint32_t events)
{
    ready((struct cay_link *)((char *)w - offsetof(struct cay_link, in)), w, events);
}

static void out_ready(struct cay_watch *w, uint32_t events)
{
    ready((struct cay_link *)((char *)w - offsetof(struct cay_link, out)), w, events);
}

static void next_turn(struct cay_turn *t)
{
    pump((struct cay_link *)((char *)t - offsetof(struct cay_link, turn)));
}

static void idle_for_long(struct cay_deadline *t)
{
    end((struct cay_link *)((char *)t - offsetof(struct cay_link, idle)), true);
}

bool cay_link_begin(struct cay_link *p, struct cay_relay *r)
{
    int on = 1;
    bool watched = p->out.ready;
    if (!cay_loop_watch(r->loop, &p->in, CAY_LINK_EVENTS))
        return false;
    if (!watched && !cay_loop_watch(r->loop, &p->out, CAY_LINK_EVENTS)) {
        cay_loop_unwatch(r->loop, &p->in);
        return false;
    }
    p->relay = r;
    p->in.ready = in_ready;
    p->out.ready = out_ready;
    p->turn.run = next_turn;
    /* what comes in small pieces goes on so */
    (void)setsockopt(p->out.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    cay_deadline_set(&r->idle, &p->idle);
    return true;
}

void cay_link_again(struct cay_link *p, struct cay_flow *f)
{
    f->readable = true;
    cay_loop_again(p->relay->loop, &p->turn);
}

void cay_relay_init(struct cay_relay *r, struct cay_loop *loop, unsigned pipes_max, int64_t idle_ms)
{
    *r = (struct cay_relay){.loop = loop, .pipes_max = pipes_max};
    cay_deadlines_init(loop, &r->idle, idle_ms, idle_for_long);
}

void cay_relay_done(struct cay_relay *r)
{
    cay_deadlines_done(r->loop, &r->idle);
    while (r->spare) {
        struct cay_pipe *p = r->spare;
        r->spare = p->next;
        drop_pipe(r, p);
    }
}
