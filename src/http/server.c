/* SPDX-License-Identifier: Apache-2.0 */
/* Making and ending a server; what runs in between is loop.c. */
#include "http/server.h"
#include "http/conn.h"
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/random.h>
#include <sys/socket.h>

struct cay_metric cay_http_accepted = {.name = "cay_http_connections_total",
                                       .help = "Connections accepted."};
struct cay_metric cay_http_open = {
    .name = "cay_http_connections", .help = "Connections that are open.", .goes_down = true};
struct cay_metric cay_http_streams = {
    .name = "cay_http_streams",
    .help = "Answers that last: streams, and those who wait for an end.",
    .goes_down = true};
struct cay_metric cay_http_sockets = {
    .name = "cay_http_websockets", .help = "WebSockets that are open.", .goes_down = true};

struct cay_metric cay_http_unmet = {.name = "cay_tls_handshakes_failed_total",
                                    .help = "Connections that came to no terms under TLS."};

struct cay_metric cay_http_proxied = {.name = "cay_http_proxied",
                                      .help = "Requests that sandboxes are answering.",
                                      .goes_down = true};

struct cay_metric cay_http_recalled = {
    .name = "cay_http_recalled_total",
    .help = "Requests to sandboxes that a decision made just before let pass."};

struct cay_metric *const cay_http_metrics[] = {
    &cay_http_accepted, &cay_http_open,    &cay_http_streams,
    &cay_http_sockets,  &cay_http_proxied, &cay_http_recalled,
    &cay_http_unmet,    &cay_http_large,   NULL,
};

static const struct cay_http_times default_times = {
    .head_ms = CAY_HTTP_HEAD_MS,
    .body_ms = CAY_HTTP_BODY_MS,
    .idle_ms = CAY_HTTP_IDLE_MS,
    .write_ms = CAY_HTTP_WRITE_MS,
    .keepalive_ms = CAY_HTTP_KEEPALIVE_MS,
    .drain_ms = CAY_HTTP_DRAIN_MS,
    .linger_ms = 2000,
    .large_ms = CAY_HTTP_LARGE_MS,
    .silence_ms = CAY_HTTP_SILENCE_MS,
    .slow_ms = CAY_HTTP_SLOW_MS,
    .sink_ms = CAY_HTTP_SINK_MS,
    .ws_ping_ms = CAY_WS_PING_MS,
    .ws_silence_ms = CAY_WS_SILENCE_MS,
    .connect_ms = CAY_PROXY_CONNECT_MS,
    .proxy_body_ms = CAY_PROXY_BODY_MS,
    .proxy_idle_ms = CAY_PROXY_IDLE_MS,
    .tick_ms = 1000,
};

static int add(struct cay_http_server *s, int *fd, uint32_t events, struct cay_error *err)
{
    struct epoll_event ev = {.events = events, .data.ptr = fd};
    if (*fd < 0 || epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, *fd, &ev) < 0)
        return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot set up the event loop");
    return 0;
}

/* What is urgent is a byte like the others, from the first one on: its place is in the request. */
static int listen_on(struct cay_http_server *s, int *fd, struct cay_error *err)
{
    int flags = fcntl(*fd, F_GETFL), on = 1;
    if (flags < 0 || fcntl(*fd, F_SETFL, flags | O_NONBLOCK) < 0 ||
        setsockopt(*fd, SOL_SOCKET, SO_OOBINLINE, &on, sizeof on) < 0)
        return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot use the listening socket");
    return add(s, fd, 0, err);
}

static int open_loop(struct cay_http_server *s, struct cay_error *err)
{
    s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    s->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    s->inotify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    int r = listen_on(s, &s->listen_fd, err);
    if (r == 0 && s->local_fd > 0)
        r = listen_on(s, &s->local_fd, err);
    if (r == 0 && s->news_fd > 0)
        r = add(s, &s->news_fd, EPOLLIN, err);
    if (r == 0)
        r = add(s, &s->event_fd, EPOLLIN, err);
    if (r == 0)
        r = add(s, &s->inotify_fd, EPOLLIN, err);
    if (r == 0)
        r = cay_pool_new(&s->pool, err);
    if (r == 0) {
        s->pool_fd = cay_pool_fd(s->pool);
        r = add(s, &s->pool_fd, EPOLLIN, err);
    }
    return r;
}

int cay_http_new(const struct cay_http_app *app, int listen_fd, struct cay_http_server **out,
                 struct cay_error *err)
{
    struct cay_http_server *s = calloc(1, sizeof *s);
    if (!s)
        abort();
    *s = (struct cay_http_server){.app = *app, .times = default_times, .listen_fd = listen_fd};
    s->epoll_fd = s->event_fd = s->inotify_fd = -1;
    s->local_fd = app->local_fd;
    s->news_fd = app->news_fd;
    s->conn_max = CAY_HTTP_CONNECTIONS;
    s->workers.waiting_max = CAY_HTTP_QUEUE;
    s->scratch = malloc(CAY_HTTP_SCRATCH);
    if (!s->scratch)
        abort();
    (void)pthread_mutex_init(&s->back_lock, NULL); /* cannot fail on Linux */
    (void)pthread_mutex_init(&s->workers.lock, NULL);
    if (getrandom(&s->ids, sizeof s->ids, 0) < 0)
        s->ids = (uintptr_t)s; /* request ids must differ, they need not be secret */
    int r = cay_router_new(app->tables, &s->router, err);
    if (r == 0 && app->tls_fd > 0)
        r = cay_tls_server_from(app->tls_fd, &s->tls, err);
    if (r == 0)
        r = open_loop(s, err);
    if (r < 0) {
        cay_http_free(s);
        return r;
    }
    *out = s;
    return 0;
}

/* Async-signal-safe: an atomic and a write. */
void cay_http_stop(struct cay_http_server *s)
{
    uint64_t one = 1;
    atomic_fetch_add(&s->stops, 1);
    ssize_t n = write(s->event_fd, &one, sizeof one);
    (void)n; /* fails only when it is full, which wakes as well */
}

static void free_conns(struct cay_http_server *s)
{
    while (s->conns)
        cay_conn_close(s, s->conns);
    for (struct cay_conn *c = s->dead, *next; c; c = next) {
        next = c->dead_next;
        free(c);
    }
}

void cay_http_free(struct cay_http_server *s)
{
    if (!s)
        return;
    atomic_store(&s->stops, 2); /* what still waits for a worker is not begun */
    cay_workers_stop(&s->workers);
    free_conns(s);
    cay_pool_free(s->pool);
    cay_router_free(s->router);
    cay_tls_free(s->tls);
    cay_buf_done(&s->pulled);
    free(s->timers.at);
    cay_close_fd(&s->inotify_fd);
    cay_close_fd(&s->event_fd);
    cay_close_fd(&s->epoll_fd);
    (void)pthread_mutex_destroy(&s->workers.lock);
    (void)pthread_mutex_destroy(&s->back_lock);
    free(s->scratch);
    free(s);
}
