/* SPDX-License-Identifier: Apache-2.0 */
#include "http/toy_test.h"
#include "base/clock.h"
#include "http/tunnel_test.h"
#include "tests/test.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#define WAIT_MS 5000

static sem_t release_hold;
static atomic_int held, streams, logged, taken;
static int shared_fd;
static struct toy *shared;

struct file_stream {
    struct cay_stream stream;
    off_t at;
};

static enum cay_pull pull_file(struct cay_stream *s, struct cay_buf *out, size_t room)
{
    struct file_stream *f = (struct file_stream *)s;
    char *to = cay_buf_room(out, room);
    ssize_t n = pread(s->watch_fd, to, room, f->at);
    if (n <= 0)
        return CAY_PULL_WAIT;
    const char *end = memchr(to, '$', (size_t)n);
    const char *cut = memchr(to, '!', (size_t)n);
    out->len += end ? (size_t)(end - to) : (size_t)n;
    f->at += n;
    return cut ? CAY_PULL_ABORT : end ? CAY_PULL_END : CAY_PULL_MORE;
}

static enum cay_pull pull_endless(struct cay_stream *s, struct cay_buf *out, size_t room)
{
    (void)s;
    memset(cay_buf_room(out, room), 'x', room);
    out->len += room;
    return CAY_PULL_MORE;
}

static void close_stream(struct cay_stream *s)
{
    free(s);
    atomic_fetch_sub(&streams, 1);
}

static const struct cay_stream_ops file_ops = {.pull = pull_file, .close = close_stream};
static const struct cay_stream_ops endless_ops = {.pull = pull_endless, .close = close_stream};

static struct cay_stream *new_stream(const struct cay_stream_ops *ops, int fd,
                                     const char *keepalive)
{
    struct file_stream *f = calloc(1, sizeof *f);
    f->stream = (struct cay_stream){ops, fd, keepalive};
    atomic_fetch_add(&streams, 1);
    return &f->stream;
}

static int hello(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    (void)req, (void)err;
    cay_resp_text(resp, 200, "text/plain", "hello", 5);
    return 0;
}

static int echo(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    (void)err;
    cay_resp_text(resp, 200, "text/plain", req->body, req->body_len);
    return 0;
}

static int item(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    const char *id = cay_req_param(req, "id");
    cay_resp_header(resp, "X-Item", id);
    if (strcmp(id, "bad") == 0)
        return cay_fail(err, CAY_ERR_CONFLICT, "a bad item");
    cay_resp_text(resp, 200, "text/plain", id, strlen(id));
    return 0;
}

static int big(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    (void)req, (void)err;
    cay_resp_text(resp, 200, "text/plain", "", 0);
    size_t len = 32 * CAY_MIB; /* more than two sockets hold */
    memset(cay_buf_room(&resp->body, len), 'b', len);
    resp->body.len = len;
    return 0;
}

static void wait_for_release(void)
{
    atomic_fetch_add(&held, 1);
    while (sem_wait(&release_hold) < 0)
        ;
    atomic_fetch_sub(&held, 1);
}

static int hold(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    wait_for_release();
    return hello(req, resp, err);
}

/* Claims more than half of what all may have, and then needs next to nothing. */
static int claim(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    int r = cay_resp_claim(resp, CAY_HTTP_LARGE_BUDGET / 2 + 1, err);
    if (r == 0 && strcmp(req->query, "fail") == 0)
        return cay_fail(err, CAY_ERR_CONFLICT, "it does not come to that");
    return r < 0 ? r : hold(req, resp, err);
}

static int follow(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    (void)req, (void)err;
    return cay_resp_stream(resp, 200, "text/plain", new_stream(&file_ops, shared_fd, ":\n"));
}

static int endless(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    (void)req, (void)err;
    return cay_resp_stream(resp, 200, "text/plain", new_stream(&endless_ops, -1, NULL));
}

struct tick_stream {
    struct cay_stream stream;
    pthread_t loop;
    int ticks, told, until;
    bool off_loop;
};

/* Ticks are made by `work`, off the loop, and told by `pull`. */
static enum cay_pull pull_tick(struct cay_stream *s, struct cay_buf *out, size_t room)
{
    struct tick_stream *t = (struct tick_stream *)s;
    (void)room;
    if (t->ticks == t->told) {
        t->loop = pthread_self();
        s->wake_at_ms = cay_clock_mono_ms() + 5;
        return CAY_PULL_WAIT;
    }
    t->told = t->ticks;
    cay_buf_adds(out, t->off_loop ? "tick" : "on the loop");
    return t->told == t->until ? CAY_PULL_END : CAY_PULL_MORE;
}

static void work_tick(struct cay_stream *s)
{
    struct tick_stream *t = (struct tick_stream *)s;
    t->off_loop = !pthread_equal(t->loop, pthread_self());
    if (t->until == 0) /* one that lasts */
        wait_for_release();
    t->ticks++;
}

static const struct cay_stream_ops tick_ops = {
    .pull = pull_tick, .close = close_stream, .work = work_tick};

static int tick(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct tick_stream *t = calloc(1, sizeof *t);
    uint64_t until = 0;
    (void)err;
    (void)cay_str_u64(req->query, 1000, &until); /* else one that lasts */
    t->stream = (struct cay_stream){.ops = &tick_ops, .watch_fd = -1};
    t->until = (int)until;
    atomic_fetch_add(&streams, 1);
    return cay_resp_stream(resp, 200, "text/plain", &t->stream);
}

static int deferred(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    (void)err;
    const char *text = req->data;
    cay_resp_text(resp, 200, "text/plain", text, strlen(text));
    return 0;
}

static int defer(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    (void)err;
    req->data = cay_arena_printf(req->arena, "after %s", req->query);
    return cay_resp_defer(resp, new_stream(&file_ops, shared_fd, NULL), deferred);
}

static void make_pipe(int *ours, int *theirs, bool ours_reads)
{
    int ends[2];
    CHECK_EQ("pipe", pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    cay_close_fd(ours);
    *ours = ends[!ours_reads];
    *theirs = ends[ours_reads];
}

static int took(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    char word[16] = "", text[96];
    (void)err;
    if (req->received.verdict_fd >= 0 && read(req->received.verdict_fd, word, sizeof word - 1) < 0)
        word[0] = '?';
    (void)snprintf(text, sizeof text, "%s %llu %s", req->received.whole ? "whole" : "part",
                   (unsigned long long)req->received.bytes, word);
    cay_resp_text(resp, 200, "text/plain", text, strlen(text));
    return 0;
}

/* With a query of "alone" nobody is asked for a verdict. */
static int take_body(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct cay_receive to = {.end_fd = -1, .verdict_fd = -1, .verdict_ms = 1000};
    if (strcmp(req->query, "no") == 0)
        return cay_fail(err, CAY_ERR_CONFLICT, "not now");
    make_pipe(&shared->sink_fd, &to.sink_fd, true);
    make_pipe(&shared->end_fd, &to.end_fd, true);
    if (strcmp(req->query, "alone") != 0)
        make_pipe(&shared->verdict_fd, &to.verdict_fd, false);
    cay_resp_header(resp, "X-Taken", "yes");
    int r = cay_resp_receive(resp, &to, took);
    atomic_fetch_add(&taken, 1);
    return strcmp(req->query, "late") == 0 ? cay_fail(err, CAY_ERR_CONFLICT, "not after all") : r;
}

/* The query is the length; without one, chunks. */
static int give(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    int source, end = -1;
    (void)err;
    make_pipe(&shared->source_fd, &source, false);
    int64_t length = req->query[0] ? strtoll(req->query, NULL, 10) : -1;
    if (length < 0)
        make_pipe(&shared->end_fd, &end, false);
    int r = cay_resp_fd(resp, 200, "text/plain", source, length, end);
    atomic_fetch_add(&taken, 1);
    return r;
}

static enum cay_socket_next hear(void *ctx, const char *text, size_t len, struct cay_buf *out)
{
    (void)ctx;
    if (len == 4 && memcmp(text, "hold", 4) == 0)
        wait_for_release();
    cay_ws_frame(out, CAY_WS_TEXT, text, len, NULL);
    return len == 3 && memcmp(text, "eof", 3) == 0 ? CAY_SOCKET_END_INPUT : CAY_SOCKET_ON;
}

static void unwanted(void *ctx, struct cay_buf *out)
{
    (void)ctx;
    cay_ws_frame(out, CAY_WS_TEXT, "no", 2, NULL);
}

static void close_socket(void *ctx)
{
    (void)ctx;
    atomic_fetch_sub(&streams, 1);
}

/* What is in the file goes out as it is; '$' ends it. With a query of "deaf" no bytes are taken. */
static int talk(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    static const struct cay_socket_ops ops = {hear, unwanted, close_socket};
    struct cay_socket socket = {.ops = &ops, .sink_fd = -1, .end_fd = -1};
    int r = cay_req_check_socket(req, resp, err);
    if (r < 0)
        return r;
    if (strcmp(req->query, "deaf") != 0) {
        make_pipe(&shared->sink_fd, &socket.sink_fd, true);
        make_pipe(&shared->end_fd, &socket.end_fd, true);
    }
    socket.stream = new_stream(&file_ops, shared_fd, NULL);
    atomic_fetch_add(&streams, 1);
    atomic_fetch_add(&taken, 1);
    r = cay_resp_socket(req, resp, &socket);
    return strcmp(req->query, "late") == 0 ? cay_fail(err, CAY_ERR_CONFLICT, "not after all") : r;
}

static int fail_late(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    (void)follow(req, resp, err);
    return cay_fail(err, CAY_ERR_CONFLICT, "not after all");
}

static const struct cay_route routes[] = {
    {"GET", "/hello", CAY_SCOPE_NONE, hello},
    {"POST", "/echo", CAY_SCOPE_NONE, echo},
    {"GET", "/items/{id}", CAY_SCOPE_NONE, item},
    {"DELETE", "/items/{id}", CAY_SCOPE_NONE, item},
    {"GET", "/big", CAY_SCOPE_NONE, big},
    {"POST", "/big", CAY_SCOPE_NONE, big},
    {"GET", "/claim", CAY_SCOPE_NONE, claim},
    {"GET", "/hold", CAY_SCOPE_NONE, hold},
    {"GET", "/follow", CAY_SCOPE_NONE, follow},
    {"GET", "/endless", CAY_SCOPE_NONE, endless},
    {"POST", "/defer", CAY_SCOPE_NONE, defer},
    {"GET", "/tick", CAY_SCOPE_NONE, tick},
    {"GET", "/fail-late", CAY_SCOPE_NONE, fail_late},
    {"PUT", "/take", CAY_SCOPE_NONE, take_body, CAY_BODY_STREAM},
    {"PUT", "/take-plain", CAY_SCOPE_NONE, take_body},
    {"GET", "/give", CAY_SCOPE_NONE, give},
    {"GET", "/talk", CAY_SCOPE_NONE, talk},
    {0},
};
static const struct cay_route *const tables[] = {routes, NULL};

static int before(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    cay_resp_header(resp, "X-Before", "yes");
    if (cay_req_header(req, "x-stranger"))
        return cay_fail(err, CAY_ERR_UNAUTHORIZED, "who are you");
    return 0;
}

static void error(const struct cay_req *req, const struct cay_error *err, struct cay_resp *resp)
{
    static const int statuses[] = {
        [-CAY_ERR_INVALID] = 400,     [-CAY_ERR_NOT_FOUND] = 404,    [-CAY_ERR_CONFLICT] = 409,
        [-CAY_ERR_TOO_LARGE] = 413,   [-CAY_ERR_UNAUTHORIZED] = 401, [-CAY_ERR_UNSUPPORTED] = 505,
        [-CAY_ERR_UNAVAILABLE] = 503, [-CAY_ERR_METHOD] = 405,       [-CAY_ERR_MISDIRECTED] = 421,
        [-CAY_ERR_TIMEOUT] = 504,     [-CAY_ERR_INTERNAL] = 500,
    };
    (void)req;
    const char *name = cay_error_name(err);
    cay_resp_text(resp, statuses[-err->code], "text/plain", name, strlen(name));
}

static void done(const struct cay_req *req, int status, int64_t took_us)
{
    (void)req, (void)status, (void)took_us;
    atomic_fetch_add(&logged, 1);
}

static void listen_anywhere(struct toy *t)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    t->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ("bind", bind(t->listen_fd, (struct sockaddr *)&at, sizeof at), 0);
    CHECK_EQ("listen", listen(t->listen_fd, 512), 0);
    (void)getsockname(t->listen_fd, (struct sockaddr *)&at, &len);
    t->port = ntohs(at.sin_port);
}

void toy_init(struct toy *t, int workers)
{
    const char *identity = tunnel_identity();
    CAY_AUTO_FD int fd = identity ? open(identity, O_RDONLY | O_CLOEXEC) : -1;
    toy_init_tls(t, workers, fd, 0);
    t->tunnelled = identity != NULL;
}

void toy_init_tls(struct toy *t, int workers, int tls_fd, int news_fd)
{
    char path[128];
    struct cay_error err;
    *t = (struct toy){.result = -1};
    t->sink_fd = t->end_fd = t->verdict_fd = t->source_fd = -1;
    shared = t;
    (void)signal(SIGPIPE, SIG_IGN);
    atomic_store(&taken, 0);
    listen_anywhere(t);
    (void)snprintf(path, sizeof path, "%s/log", test_dir());
    t->file_fd = shared_fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
    (void)sem_init(&release_hold, 0, 0);
    atomic_store(&logged, 0);
    struct cay_http_app app = {.tables = tables, .before = before, .error = error, .done = done};
    app.workers = workers;
    app.tls_fd = tls_fd;
    app.news_fd = news_fd;
    CHECK_EQ("new", cay_http_new(&app, t->listen_fd, &t->server, &err), 0);
    t->server->times.tick_ms = 20;
}

static void *run(void *arg)
{
    struct toy *t = arg;
    struct cay_error err;
    t->tid = gettid();
    t->result = cay_http_run(t->server, &err);
    return NULL;
}

void toy_start(struct toy *t)
{
    CHECK_EQ("thread", pthread_create(&t->thread, NULL, run, t), 0);
}

void toy_stop(struct toy *t)
{
    cay_http_stop(t->server);
    (void)pthread_join(t->thread, NULL);
    CHECK_EQ("run ended well", t->result, 0);
    cay_http_free(t->server);
    CHECK_EQ("no stream stays open", atomic_load(&streams), 0);
    cay_close_fd(&t->listen_fd);
    cay_close_fd(&t->file_fd);
    cay_close_fd(&t->sink_fd);
    cay_close_fd(&t->end_fd);
    cay_close_fd(&t->verdict_fd);
    cay_close_fd(&t->source_fd);
}

void toy_append(struct toy *t, const char *text)
{
    CHECK_EQ("append", write(t->file_fd, text, strlen(text)), strlen(text));
}

void toy_release(int requests)
{
    while (requests-- > 0)
        (void)sem_post(&release_hold);
}

/* As the kernel tells it: the call that the loop is in, and its first argument. */
static bool waits_for_lock(const struct toy *t)
{
    char path[64], text[64] = "", *at;
    (void)snprintf(path, sizeof path, "/proc/self/task/%d/syscall", (int)t->tid);
    CAY_AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    return read(fd, text, sizeof text - 1) > 0 && strtol(text, &at, 10) == SYS_futex &&
           strtoull(at, NULL, 16) == (uintptr_t)&t->server->back_lock;
}

void toy_halt(struct toy *t)
{
    struct pollfd seen = {.fd = t->server->event_fd, .events = POLLIN};
    for (;;) {
        (void)pthread_mutex_lock(&t->server->back_lock);
        (void)eventfd_write(t->server->event_fd, 1);
        while (poll(&seen, 1, 0) > 0 && !waits_for_lock(t))
            sched_yield();
        if (poll(&seen, 1, 0) == 0)
            return;
        /* It came here for something older, and has not seen what came since. */
        (void)pthread_mutex_unlock(&t->server->back_lock);
        sched_yield();
    }
}

void toy_go_on(struct toy *t)
{
    (void)pthread_mutex_unlock(&t->server->back_lock);
}

int toy_taken(void)
{
    return atomic_load(&taken);
}

int toy_held(void)
{
    return atomic_load(&held);
}

int toy_streams(void)
{
    return atomic_load(&streams);
}

int toy_logged(void)
{
    return atomic_load(&logged);
}

bool toy_until(int (*what)(void), int want)
{
    int64_t until = cay_clock_mono_ms() + WAIT_MS;
    while (what() != want && cay_clock_mono_ms() < until)
        (void)usleep(1000);
    return what() == want;
}

void toy_connect(struct toy *t, struct toy_client *c)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval patience = {.tv_sec = WAIT_MS / 1000};
    at.sin_port = htons((uint16_t)t->port);
    c->len = 0;
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ("connect", connect(c->fd, (struct sockaddr *)&at, sizeof at), 0);
    if (t->tunnelled)
        c->fd = tunnel_open(c->fd);
    (void)setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    (void)setsockopt(c->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
}

void toy_send(struct toy_client *c, const char *bytes)
{
    (void)send(c->fd, bytes, strlen(bytes), MSG_NOSIGNAL); /* a refused one shows in the answer */
}

static bool fill(struct toy_client *c)
{
    ssize_t n = recv(c->fd, c->bytes + c->len, sizeof c->bytes - 1 - c->len, 0);
    if (n <= 0)
        return false;
    c->len += (size_t)n;
    return true;
}

static void eat(struct toy_client *c, size_t len)
{
    memmove(c->bytes, c->bytes + len, c->len - len);
    c->len -= len;
}

void toy_read_head(struct toy_client *c, struct toy_answer *out)
{
    char *end;
    out->status = 0;
    out->body_len = 0;
    out->head[0] = out->body[0] = 0;
    while (c->bytes[c->len] = 0, !(end = strstr(c->bytes, "\r\n\r\n")))
        if (!fill(c))
            return;
    size_t len = (size_t)(end - c->bytes) + 4;
    (void)snprintf(out->head, sizeof out->head, "%.*s", (int)len, c->bytes);
    eat(c, len);
    (void)sscanf(out->head, "HTTP/1.1 %d", &out->status);
}

static bool take(struct toy_client *c, struct toy_answer *out, size_t len)
{
    while (c->len < len)
        if (!fill(c))
            return false;
    memcpy(out->body + out->body_len, c->bytes, len);
    out->body_len += len;
    out->body[out->body_len] = 0;
    eat(c, len);
    return true;
}

bool toy_read_chunk(struct toy_client *c, struct toy_answer *out)
{
    char *end;
    out->body_len = 0;
    out->body[0] = 0;
    while (c->bytes[c->len] = 0, !(end = strstr(c->bytes, "\r\n")))
        if (!fill(c))
            return false;
    size_t size = strtoul(c->bytes, NULL, 16);
    eat(c, (size_t)(end - c->bytes) + 2);
    if (size + 2 >= sizeof out->body || !take(c, out, size + 2))
        return false;
    out->body_len -= 2;
    CHECK("a chunk ends with CR LF", memcmp(out->body + out->body_len, "\r\n", 2) == 0);
    out->body[out->body_len] = 0;
    return size > 0;
}

void toy_read(struct toy_client *c, struct toy_answer *out)
{
    toy_read_head(c, out);
    const char *length = strstr(out->head, "Content-Length: ");
    if (length && !take(c, out, strtoul(length + 16, NULL, 10)))
        out->status = 0;
}

bool toy_is_closed(struct toy_client *c)
{
    return c->len == 0 && recv(c->fd, c->bytes, 1, 0) <= 0;
}

void toy_close(struct toy_client *c)
{
    cay_close_fd(&c->fd);
}
