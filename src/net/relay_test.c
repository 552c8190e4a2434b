/* SPDX-License-Identifier: Apache-2.0 */
#include "net/relay.h"
#include "tests/test.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <semaphore.h>
#include <sys/socket.h>
#include <time.h>

/* A relay between two connections, whose far ends are the test's. */
struct bench {
    struct cay_loop *loop;
    struct cay_relay relay;
    struct cay_link link;
    int left, right; /* of the one who asks, and of whom it wants */
    sem_t over;
    bool reset;
    _Atomic unsigned asked;
    int64_t idle_ms;
    unsigned pipes, pipes_seen;
    int buffer; /* of the one who is wanted, when not the usual one */
};

static struct bench *bench_of(struct cay_link *l)
{
    return (struct bench *)((char *)l - offsetof(struct bench, link));
}

static void is_over(struct cay_link *l, bool reset)
{
    struct bench *b = bench_of(l);
    b->reset = reset;
    sem_post(&b->over);
}

/* Three bytes may pass each time; before them goes what is written here. */
static bool is_asked(struct cay_link *l, struct cay_flow *f)
{
    char first;
    if (recv(l->in.fd, &first, 1, MSG_PEEK) <= 0)
        return true; /* all was taken */
    bench_of(l)->asked++;
    cay_buf_adds(&f->ahead, "<");
    f->pass = 3;
    return true;
}

/* Two ends of a TCP connection: a reset is one only there. */
static void connect_pair(int *here, int *there)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    CAY_AUTO_FD int listener = socket(AF_INET, SOCK_STREAM, 0);
    *here = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&at, len) < 0 || listen(listener, 1) < 0 ||
        getsockname(listener, (struct sockaddr *)&at, &len) < 0 ||
        connect(*here, (struct sockaddr *)&at, len) < 0)
        abort();
    *there = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
}

static void begin_in_loop(void *arg)
{
    struct bench *b = arg;
    cay_relay_init(&b->relay, b->loop, b->pipes, b->idle_ms);
    if (b->buffer)
        setsockopt(b->link.out.fd, SOL_SOCKET, SO_SNDBUF, &b->buffer, sizeof b->buffer);
    b->link.over = is_over;
    b->link.asks = is_asked;
    CHECK("begins", cay_link_begin(&b->link, &b->relay));
}

static void begin_with(struct bench *b, unsigned pipes, int buffer, bool looks, int64_t idle_ms)
{
    struct cay_error err;
    *b = (struct bench){.idle_ms = idle_ms, .pipes = pipes, .buffer = buffer};
    sem_init(&b->over, 0, 0);
    connect_pair(&b->left, &b->link.in.fd);
    connect_pair(&b->right, &b->link.out.fd);
    b->link.sent.looks = looks;
    CHECK_EQ("loop", cay_loop_open("test", &b->loop, &err), 0);
    cay_loop_ask(b->loop, begin_in_loop, b);
}

static void begin(struct bench *b, bool looks, int64_t idle_ms)
{
    begin_with(b, 2, 0, looks, idle_ms);
}

static void end_in_loop(void *arg)
{
    struct bench *b = arg;
    if (b->link.in.fd >= 0)
        cay_link_close(&b->link, false);
    cay_relay_done(&b->relay);
}

static void end(struct bench *b)
{
    cay_loop_ask(b->loop, end_in_loop, b);
    cay_loop_close(b->loop);
    cay_close_fd(&b->left);
    cay_close_fd(&b->right);
    sem_destroy(&b->over);
}

static bool wait_over(struct bench *b)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t)(test_ms(10000) / 1000);
    return sem_timedwait(&b->over, &until) == 0;
}

TEST(relay_keeps_half_a_close)
{
    struct bench b;
    char got[16] = {0};
    begin(&b, false, 60000);
    CHECK_EQ("ask", write(b.left, "ask", 3), 3);
    shutdown(b.left, SHUT_WR);
    CHECK_EQ("asked", recv(b.right, got, 3, MSG_WAITALL), 3);
    CHECK_STR("what was asked", got, "ask");
    CHECK_EQ("no more is asked", recv(b.right, got, 1, 0), 0);
    CHECK_EQ("answer", write(b.right, "answer", 6), 6);
    CHECK_EQ("answered all the same", recv(b.left, got, 6, MSG_WAITALL), 6);
    CHECK_STR("what was answered", got, "answer");
    shutdown(b.right, SHUT_WR);
    CHECK_EQ("no more is answered", recv(b.left, got, 1, 0), 0);
    CHECK("over", wait_over(&b));
    CHECK("in peace", !b.reset);
    CHECK_EQ("sent", b.link.sent.bytes, 3);
    CHECK_EQ("received", b.link.received.bytes, 6);
    end(&b);
}

TEST(relay_keeps_a_reset)
{
    struct bench b;
    char got;
    begin(&b, false, 60000);
    CHECK_EQ("ask", write(b.left, "x", 1), 1);
    CHECK_EQ("asked", recv(b.right, &got, 1, 0), 1);
    cay_socket_reset(&b.right);
    CHECK_EQ("the other side is reset", recv(b.left, &got, 1, 0), -1);
    CHECK_EQ("with that error", errno, ECONNRESET);
    CHECK("over", wait_over(&b));
    CHECK("by reset", b.reset);
    end(&b);
}

/* What the loop's thread has now: it is no other's to look at. */
static void count_pipes(void *arg)
{
    struct bench *b = arg;
    b->pipes_seen = b->relay.pipe_count;
}

/* More than all buffers between take: who writes must wait, and nothing is lost, doubled or out of
 * its place. All bytes are those of one long row. */
static void fill_slowly_read(size_t piece, int buffer, unsigned pipes)
{
    enum { SIZE = 64 << 20, ROW = 251, ROOM = 1 << 20 };
    struct bench b;
    char *chunk = calloc(1, ROOM + ROW);
    bool same = true;
    for (size_t i = 0; i < ROOM + ROW; i++)
        chunk[i] = (char)(i % ROW);
    begin_with(&b, pipes, buffer, false, 60000);
    fcntl(b.left, F_SETFL, O_NONBLOCK);
    size_t sent = 0, got = 0;
    struct pollfd p = {.fd = b.left, .events = POLLOUT};
    while (sent < SIZE && poll(&p, 1, 500) == 1) {
        ssize_t n = write(b.left, chunk + sent % ROW, piece);
        sent += n > 0 ? (size_t)n : 0;
        if (buffer) /* it has taken this before the next comes: little at a time */
            cay_loop_ask(b.loop, count_pipes, &b);
    }
    cay_loop_ask(b.loop, count_pipes, &b);
    CHECK("it was stopped", sent < SIZE);
    CHECK("with no more pipes than there may be", b.pipes_seen <= pipes);
    shutdown(b.left, SHUT_WR);
    for (ssize_t n; (n = read(b.right, chunk, ROOM)) > 0; got += (size_t)n)
        for (ssize_t i = 0; i < n; i++)
            same = same && chunk[i] == (char)((got + (size_t)i) % ROW);
    CHECK_EQ("all arrived", got, sent);
    CHECK("as it was sent", same);
    end(&b);
    free(chunk);
}

TEST(relay_waits_for_a_slow_reader)
{
    fill_slowly_read(1 << 20, 0, 1);
    fill_slowly_read(1 << 20, 0, 0);
    fill_slowly_read(3000, 4096, 1);
    fill_slowly_read(100, 4096, 1);
}

TEST(relay_asks_before_more_passes)
{
    struct bench b;
    char got[16] = {0};
    begin(&b, true, 60000);
    CHECK_EQ("who is wanted speaks first", write(b.right, "hi", 2), 2);
    CHECK_EQ("and is heard", recv(b.left, got, 2, MSG_WAITALL), 2);
    CHECK_EQ("nobody was asked", b.asked, 0);
    CHECK_EQ("ask", write(b.left, "abcdefg", 7), 7);
    CHECK_EQ("passed on", recv(b.right, got, 10, MSG_WAITALL), 10);
    CHECK_STR("piece by piece", got, "<abc<def<g");
    CHECK_EQ("after asking", b.asked, 3);
    CHECK_EQ("the rest of a piece", write(b.left, "hi", 2), 2);
    CHECK_EQ("passes", recv(b.right, got, 2, MSG_WAITALL), 2);
    CHECK_EQ("without", b.asked, 3);
    end(&b);
}

TEST(relay_ends_what_is_idle)
{
    struct bench b;
    char got;
    begin(&b, false, 20);
    CHECK("over", wait_over(&b));
    CHECK_EQ("reset", recv(b.left, &got, 1, 0), -1);
    end(&b);
}
