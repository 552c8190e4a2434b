/* SPDX-License-Identifier: Apache-2.0 */
/* The one event loop: accepts, gives each event to its connection, takes connections back from the
 * workers, and once a second looks who is late. */
#include "base/clock.h"
#include "http/conn.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#define EVENTS 256
#define ACCEPTS 64          /* at one go */
#define ACCEPT_PAUSE_MS 100 /* when descriptors are out */
#define IDLE_CLOSED 64      /* at each such pause, to win some back */
#define POLL_MS 100         /* streams that no watch wakes */
#define DRAIN_TICK_MS 20

static void set_accepting(struct cay_http_server *s, bool on)
{
    struct epoll_event ev = {.events = on ? EPOLLIN : 0, .data.ptr = &s->listen_fd};
    if (s->accepting != on)
        (void)epoll_ctl(s->epoll_fd, EPOLL_CTL_MOD, s->listen_fd, &ev); /* it is in the set */
    ev.data.ptr = &s->local_fd;
    if (s->accepting != on && s->local_fd > 0)
        (void)epoll_ctl(s->epoll_fd, EPOLL_CTL_MOD, s->local_fd, &ev);
    s->accepting = on;
}

/* Without descriptors or room every accept fails at once and the listener stays ready: without a
 * pause the loop would spin. Who came since the last one is no idler: his request may lie there. */
static void pause_accepting(struct cay_http_server *s)
{
    int closed = 0;
    set_accepting(s, false);
    s->accept_at_ms = s->now_ms + ACCEPT_PAUSE_MS;
    for (struct cay_conn *c = s->oldest, *newer; c && closed < IDLE_CLOSED; c = newer) {
        newer = c->prev;
        if (!cay_conn_is_held(c) || !cay_conn_is_idle(c) ||
            s->now_ms - c->moved_ms < ACCEPT_PAUSE_MS)
            continue;
        cay_conn_close(s, c);
        closed++;
    }
}

static void name_peer(const struct sockaddr_storage *addr, char *out, size_t size)
{
    char text[INET6_ADDRSTRLEN] = "unix";
    if (addr->ss_family == AF_INET)
        (void)inet_ntop(AF_INET, &((const struct sockaddr_in *)addr)->sin_addr, text, sizeof text);
    if (addr->ss_family == AF_INET6)
        (void)inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)addr)->sin6_addr, text,
                        sizeof text);
    bool mapped = strncmp(text, "::ffff:", 7) == 0 && strchr(text, '.');
    cay_str_copy(out, size, mapped ? text + 7 : text);
}

static void accept_some(struct cay_http_server *s, int listen_fd)
{
    for (int i = 0; i < ACCEPTS; i++) {
        struct sockaddr_storage addr = {.ss_family = AF_UNSPEC};
        socklen_t len = sizeof addr;
        char peer[INET6_ADDRSTRLEN];
        if (s->conn_count >= s->conn_max) {
            pause_accepting(s);
            return;
        }
        int fd = accept4(listen_fd, (struct sockaddr *)&addr, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
                pause_accepting(s);
            else if (errno == ECONNABORTED || errno == EINTR)
                continue;
            return;
        }
        name_peer(&addr, peer, sizeof peer);
        cay_conn_open(s, fd, peer, listen_fd == s->local_fd);
    }
}

static void on_event(struct cay_http_server *s, struct cay_conn *c, uint32_t events)
{
    if (c->closed)
        return;
    for (int hold = atomic_load(&c->hold); hold != CAY_HOLD_LOOP;)
        if (hold == CAY_HOLD_NEWS || atomic_compare_exchange_weak(&c->hold, &hold, CAY_HOLD_NEWS))
            return;
    if (c->phase == CAY_PHASE_PROXY) {
        cay_proxy_event(s, c, events);
        return;
    }
    bool gone = events & (EPOLLHUP | EPOLLERR);
    bool follows = c->phase == CAY_PHASE_STREAM || c->phase == CAY_PHASE_DEFER ||
                   c->phase == CAY_PHASE_VERDICT;
    if (gone || (follows && (events & EPOLLRDHUP))) {
        cay_conn_close(s, c);
        return;
    }
    if (c->phase == CAY_PHASE_SOCKET) {
        cay_socket_event(s, c, events);
        return;
    }
    if (follows) {
        c->unread |= events & EPOLLIN;
        if (cay_conn_pending(c) > 0 && cay_conn_flush(s, c) && c->stream)
            cay_pump(s, c); /* in front of a verdict it was a 100 that had found no room */
        return;
    }
    if (events & (EPOLLRDHUP | EPOLLPRI) || c->phase == CAY_PHASE_GREET)
        c->unread = true; /* no other event tells of the end, of what is behind an urgent byte, at
                             which a read ends, or of what the handshake needs */
    if (c->phase == CAY_PHASE_WRITE || c->phase == CAY_PHASE_RECEIVE)
        c->unread |= events & EPOLLIN;
    cay_conn_resume(s, c);
}

/* The pipe of a connection has news. It may have been taken out of the set in this same round. */
static void on_far_event(struct cay_http_server *s, struct cay_conn *c, uint32_t events)
{
    if (c->closed || !cay_conn_is_held(c) || c->far_fd < 0)
        return;
    if (c->talk)
        cay_socket_wake(s, c, events);
    else if (c->stream)
        cay_pump(s, c);
    else if (c->upload)
        cay_receive_wake(s, c, events);
    else if (c->relay)
        cay_proxy_wake(s, c, events);
    else if (c->spare.fd >= 0 && events & ~(uint32_t)EPOLLOUT)
        cay_proxy_drop(s, c);
}

static void take_back(struct cay_http_server *s)
{
    eventfd_t count;
    (void)eventfd_read(s->event_fd, &count); /* empty when another event brought us here */
    (void)pthread_mutex_lock(&s->back_lock);
    struct cay_conn *c = s->back_first;
    s->back_first = NULL;
    (void)pthread_mutex_unlock(&s->back_lock);
    for (struct cay_conn *next; c; c = next) {
        next = c->link;
        c->unread |= atomic_exchange(&c->hold, CAY_HOLD_LOOP) == CAY_HOLD_NEWS;
        bool follows = c->phase == CAY_PHASE_STREAM || c->phase == CAY_PHASE_DEFER;
        bool worked = c->working;
        c->working = false;
        s->at_work -= worked;
        if (follows && worked)
            cay_pump_back(s, c);
        else if (follows)
            cay_pump_begin(s, c);
        else if (c->phase == CAY_PHASE_RECEIVE)
            cay_receive_begin(s, c);
        else if (c->phase == CAY_PHASE_SOCKET)
            cay_socket_back(s, c);
        else if (c->phase == CAY_PHASE_PROXY)
            cay_proxy_begin(s, c);
        else
            cay_conn_resume(s, c);
    }
}

static void check(struct cay_http_server *s, struct cay_conn *c)
{
    bool late = c->deadline_ms > 0 && s->now_ms >= c->deadline_ms;
    bool stuck = cay_conn_pending(c) > 0 && s->now_ms - c->moved_ms >= s->times.write_ms;
    bool unwanted = s->draining && cay_conn_is_idle(c);
    if (late || stuck || unwanted)
        cay_conn_close(s, c);
    else if (c->talk)
        cay_socket_tick(s, c);
    else if (c->stream)
        cay_pump_tick(s, c);
    else if (c->upload)
        cay_receive_tick(s, c);
    else if (c->relay)
        cay_proxy_tick(s, c);
    else if (c->spare.fd >= 0 && s->now_ms - c->spare.since_ms >= CAY_PROXY_POOL_MS)
        cay_proxy_drop(s, c);
}

static void tick(struct cay_http_server *s)
{
    s->tick_at_ms = s->now_ms + (s->draining ? DRAIN_TICK_MS : s->times.tick_ms);
    for (struct cay_conn *c = s->conns, *next; c; c = next) {
        next = c->next;
        if (cay_conn_is_held(c))
            check(s, c);
    }
    cay_pool_sweep(s->pool, s->now_ms);
}

static void poll_streams(struct cay_http_server *s)
{
    s->poll_at_ms = s->now_ms + POLL_MS;
    for (struct cay_conn *c = s->conns; c; c = c->next)
        if (cay_conn_is_held(c) && c->polled)
            cay_pump_later(s, c);
}

static void begin_drain(struct cay_http_server *s)
{
    s->draining = true;
    s->drain_until_ms = s->now_ms + s->times.drain_ms;
    s->tick_at_ms = s->now_ms;
    set_accepting(s, false);
    for (struct cay_conn *c = s->conns, *next; c; c = next) {
        next = c->next;
        if (!cay_conn_is_held(c))
            continue;
        if (c->stream)
            cay_pump_drain(s, c);
        else if (c->relay)
            cay_proxy_drain(s, c);
        else if (cay_conn_is_idle(c))
            cay_conn_read(s, c); /* a request that lies there came before the end */
    }
}

static void free_dead(struct cay_http_server *s)
{
    struct cay_conn **at = &s->dead;
    while (*at) {
        struct cay_conn *c = *at;
        if (c->queued) { /* the ready list still has it */
            at = &c->dead_next;
            continue;
        }
        *at = c->dead_next;
        free(c);
    }
}

static int wait_ms(const struct cay_http_server *s)
{
    if (s->ready_first)
        return 0;
    int64_t until = s->tick_at_ms;
    if (s->polled > 0 && s->poll_at_ms < until)
        until = s->poll_at_ms;
    if (cay_timers_next_ms(s) < until)
        until = cay_timers_next_ms(s);
    if (!s->accepting && !s->draining && s->accept_at_ms < until)
        until = s->accept_at_ms;
    return until > s->now_ms ? (int)(until - s->now_ms) : 0;
}

static void set_now(struct cay_http_server *s)
{
    s->now_us = cay_clock_mono_us();
    s->now_ms = s->now_us / 1000;
}

static void handle(struct cay_http_server *s, const struct epoll_event *ev)
{
    struct cay_conn *far = cay_far_of(ev->data.ptr);
    if (far)
        on_far_event(s, far, ev->events);
    else if (ev->data.ptr == &s->listen_fd)
        accept_some(s, s->listen_fd);
    else if (ev->data.ptr == &s->local_fd)
        accept_some(s, s->local_fd);
    else if (ev->data.ptr == &s->event_fd)
        take_back(s);
    else if (ev->data.ptr == &s->news_fd)
        cay_greet_renew(s);
    else if (ev->data.ptr == &s->pool_fd)
        cay_pool_sweep(s->pool, s->now_ms);
    else if (ev->data.ptr == &s->inotify_fd)
        cay_watch_read(s);
    else
        on_event(s, ev->data.ptr, ev->events);
}

static void look_after(struct cay_http_server *s)
{
    cay_pump_ready(s);
    if (atomic_load(&s->stops) > 0 && !s->draining)
        begin_drain(s);
    if (!s->accepting && !s->draining && s->now_ms >= s->accept_at_ms)
        set_accepting(s, true);
    if (s->polled > 0 && s->now_ms >= s->poll_at_ms)
        poll_streams(s);
    cay_timers_run(s);
    if (s->now_ms >= s->tick_at_ms)
        tick(s);
    free_dead(s);
}

static bool is_over(struct cay_http_server *s)
{
    return atomic_load(&s->stops) > 1 ||
           (s->draining && (s->conn_count == 0 || s->now_ms >= s->drain_until_ms));
}

int cay_http_run(struct cay_http_server *s, struct cay_error *err)
{
    struct epoll_event events[EVENTS];
    int r = cay_workers_start(s, err);
    if (r < 0)
        return r;
    set_now(s);
    s->tick_at_ms = s->now_ms + s->times.tick_ms;
    set_accepting(s, true);
    while (!is_over(s)) {
        int n = epoll_wait(s->epoll_fd, events, EVENTS, wait_ms(s));
        if (n < 0 && errno != EINTR)
            return cay_fail_errno(err, CAY_ERR_INTERNAL, "the event loop failed");
        set_now(s);
        for (int i = 0; i < n; i++)
            handle(s, &events[i]);
        look_after(s);
    }
    return 0;
}
