/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "http/toy_test.h"
#include "http/tunnel_test.h"
#include "tests/test.h"
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>

static struct toy toy; /* static: the clients are too large for a stack */
static struct toy_client client, other, waits;
static struct toy_answer answer;

#define HOST "Host: localhost\r\n"
#define CHUNKED "Transfer-Encoding: chunked\r\n"
#define EXPECTS HOST "Expect: 100-continue\r\n"
#define TWO "Content-Length: 2\r\n\r\n"
#define HELLO "GET /hello HTTP/1.1\r\n" HOST "\r\n"

static const struct {
    const char *name, *request;
    int status;
    const char *body, *header; /* NULL: not looked at */
    bool closes;
} exchanges[] = {
    {"plain", HELLO, 200, "hello", "Connection: keep-alive\r\n", false},
    {"has an id", HELLO, 200, "hello", "X-Request-Id: ", false},
    {"no sniffing", HELLO, 200, "hello", "X-Content-Type-Options: nosniff\r\n", false},
    {"close", "GET /hello HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n", 200, "hello",
     "Connection: close\r\n", true},
    {"1.0", "GET /hello HTTP/1.0\r\n" HOST "Connection: keep-alive\r\n\r\n", 200, "hello",
     "Connection: close\r\n", true},
    {"2.0", "GET /hello HTTP/2.0\r\n" HOST "\r\n", 505, "HTTP_VERSION_NOT_SUPPORTED", NULL, true},
    {"fixed body", "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\nabc", 200, "abc", NULL,
     false},
    {"chunked body",
     "POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n2;x=y\r\nab\r\n1\r\nc\r\n"
     "0\r\nTrailer: t\r\n\r\n",
     200, "abc", NULL, false},
    {"a body on GET is read and not shown",
     "GET /hello HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\nabc", 200, "hello", NULL, false},
    {"too large by header", "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 10000000000\r\n\r\n",
     413, "PAYLOAD_TOO_LARGE", "Connection: close\r\n", true},
    {"too large by chunk",
     "POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\nfffffff\r\nab", 413,
     "PAYLOAD_TOO_LARGE", NULL, true},
    {"bad chunk", "POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400,
     "BAD_REQUEST", NULL, true},
    {"no host", "GET /hello HTTP/1.1\r\n\r\n", 400, "BAD_REQUEST", NULL, true},
    {"two lengths",
     "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", 400,
     "BAD_REQUEST", NULL, true},
    {"parameter", "GET /items/a%20b HTTP/1.1\r\n" HOST "\r\n", 200, "a b", "X-Item: a b\r\n",
     false},
    {"encoded line break stays in its header", "GET /items/a%0d%0aEvil:1 HTTP/1.1\r\n" HOST "\r\n",
     200, NULL, "X-Item: a  Evil:1\r\n", false},
    {"encoded slash", "GET /items/a%2fb HTTP/1.1\r\n" HOST "\r\n", 400, "INVALID_PATH", NULL,
     false},
    {"no route", "GET /nope HTTP/1.1\r\n" HOST "\r\n", 404, "ROUTE_NOT_FOUND", "X-Before: yes\r\n",
     false},
    {"no path for a stranger", "GET /nope HTTP/1.1\r\n" HOST "X-Stranger: 1\r\n\r\n", 401,
     "UNAUTHORIZED", NULL, false},
    {"wrong method", "PUT /items/1 HTTP/1.1\r\n" HOST "\r\n", 405, "METHOD_NOT_ALLOWED",
     "Allow: GET, HEAD, DELETE\r\n", false},
    {"options", "OPTIONS /hello HTTP/1.1\r\n" HOST "\r\n", 405, NULL, "Allow: GET, HEAD\r\n",
     false},
    {"options *", "OPTIONS * HTTP/1.1\r\n" HOST "\r\n", 405, NULL, "Allow: GET, HEAD, POST", false},
    {"trace", "TRACE /hello HTTP/1.1\r\n" HOST "\r\n", 405, NULL, "Allow: GET, HEAD\r\n", false},
    {"connect", "CONNECT evil:1 HTTP/1.1\r\n" HOST "\r\n", 405, NULL, "Allow: GET", false},
    {"a failed handler's headers are dropped", "GET /items/bad HTTP/1.1\r\n" HOST "\r\n", 409,
     "CONFLICT", "X-Before: yes\r\n", false},
    {"a failed handler's stream is closed", "GET /fail-late HTTP/1.1\r\n" HOST "\r\n", 409, NULL,
     NULL, false},
    {"expectation for no route", "POST /nope HTTP/1.1\r\n" EXPECTS TWO, 404, "ROUTE_NOT_FOUND",
     "Connection: close\r\n", true},
};

TEST(http_server_answers)
{
    toy_init(&toy, 2);
    toy_start(&toy);
    for (size_t i = 0; i < COUNT(exchanges); i++) {
        const char *name = exchanges[i].name;
        toy_connect(&toy, &client);
        toy_send(&client, exchanges[i].request);
        toy_read(&client, &answer);
        CHECK_EQ(name, answer.status, exchanges[i].status);
        if (exchanges[i].body)
            CHECK_STR(name, answer.body, exchanges[i].body);
        if (exchanges[i].header)
            CHECK(name, strstr(answer.head, exchanges[i].header));
        if (exchanges[i].closes) {
            CHECK(name, toy_is_closed(&client));
        } else {
            toy_send(&client, HELLO);
            toy_read(&client, &answer);
            CHECK_STR(name, answer.body, "hello");
        }
        toy_close(&client);
    }
    toy_stop(&toy);
}

TEST(http_server_head_has_no_body)
{
    toy_init(&toy, 1);
    toy_start(&toy);
    toy_connect(&toy, &client);
    toy_send(&client, "HEAD /hello HTTP/1.1\r\n" HOST "\r\n" HELLO);
    toy_read_head(&client, &answer);
    CHECK("length of what GET gives", strstr(answer.head, "Content-Length: 5\r\n"));
    toy_read(&client, &answer);
    CHECK_STR("the next answer follows at once", answer.body, "hello");
    toy_send(&client, "HEAD /hello HTTP/1.1\r\n" HOST "\r\n");
    toy_read_head(&client, &answer);
    toy_send(&client, "\x7f\r\n\r\n");
    toy_read(&client, &answer);
    CHECK_EQ("what is no request is refused", answer.status, 400);
    CHECK("with a body", answer.body_len > 0);
    toy_close(&client);
    toy_stop(&toy);
}

static const struct {
    const char *name, *request, *body; /* which is sent when it is asked for */
    const char *statuses;
    bool closes;
} expectations[] = {
    {"wanted", "POST /echo HTTP/1.1\r\n" EXPECTS TWO, "ok", "100 200", false},
    {"wanted by a sink", "PUT /take?alone HTTP/1.1\r\n" EXPECTS TWO, "ok", "100 200", false},
    {"wanted in chunks", "PUT /take?alone HTTP/1.1\r\n" EXPECTS CHUNKED "\r\n",
     "2\r\nok\r\n0\r\n\r\n", "100 200", false},
    {"nothing expected", "POST /echo HTTP/1.1\r\n" HOST TWO "ok", "", "200", false},
    {"nothing expected by a sink", "PUT /take?alone HTTP/1.1\r\n" HOST TWO "ok", "", "200", false},
    {"no body", "POST /echo HTTP/1.1\r\n" EXPECTS "\r\n", "", "200", false},
    {"an empty one", "PUT /take?alone HTTP/1.1\r\n" EXPECTS "Content-Length: 0\r\n\r\n", "", "200",
     false},
    {"an old client", "PUT /take?alone HTTP/1.0\r\n" EXPECTS TWO "ok", "", "200", true},
    {"not now", "PUT /take?no HTTP/1.1\r\n" EXPECTS TWO, "ok", "409", true},
    {"not after all", "PUT /take?late HTTP/1.1\r\n" EXPECTS TWO, "ok", "409", true},
    {"a stranger", "PUT /take HTTP/1.1\r\nX-Stranger: 1\r\n" EXPECTS TWO, "ok", "401", true},
    {"no route", "PUT /nope HTTP/1.1\r\n" EXPECTS TWO, "ok", "404", true},
    {"another method", "PUT /echo HTTP/1.1\r\n" EXPECTS TWO, "ok", "405", true},
    {"too much", "POST /echo HTTP/1.1\r\n" EXPECTS "Content-Length: 10000000000\r\n\r\n", "ok",
     "413", true},
    {"another expectation", "POST /echo HTTP/1.1\r\n" HOST "Expect: 200-ok\r\n" TWO, "ok", "400",
     true},
};

/* The body is asked for once, and only where it is wanted; the next request has its own answer. */
TEST(http_server_expect_continue)
{
    toy_init(&toy, 1);
    toy_start(&toy);
    toy_connect(&toy, &client);
    for (size_t i = 0; i < COUNT(expectations); i++) {
        char statuses[64] = "";
        size_t len = 0;
        const char *name = expectations[i].name;
        toy_send(&client, expectations[i].request);
        do {
            toy_read(&client, &answer);
            len += (size_t)snprintf(statuses + len, sizeof statuses - len, "%s%d", len ? " " : "",
                                    answer.status);
            if (answer.status == 100)
                toy_send(&client, expectations[i].body);
        } while (answer.status == 100 && len + 8 < sizeof statuses);
        CHECK_STR(name, statuses, expectations[i].statuses);
        toy_send(&client, expectations[i].closes ? "" : HELLO);
        toy_read(&client, &answer);
        CHECK_STR(name, answer.body, expectations[i].closes ? "" : "hello");
        if (expectations[i].closes) {
            toy_close(&client);
            toy_connect(&toy, &client);
        }
    }
    toy_close(&client);
    toy_stop(&toy);
}

/* Nothing is said before the handler has decided. */
TEST(http_server_asks_for_no_body_before_it_is_wanted)
{
    char byte;
    if (tunnel_identity())
        return; /* the handshake would wait for the worker, too */
    toy_init(&toy, 1);
    toy_start(&toy);
    toy_connect(&toy, &client);
    toy_send(&client, HELLO);
    toy_read(&client, &answer);
    toy_connect(&toy, &other);
    toy_send(&other, "GET /hold HTTP/1.1\r\n" HOST "\r\n");
    CHECK("the worker is busy", toy_until(toy_held, 1));
    toy_send(&client, "PUT /take?alone HTTP/1.1\r\n" EXPECTS TWO);
    toy_halt(&toy); /* its head was read */
    CHECK_EQ("not yet", recv(client.fd, &byte, 1, MSG_DONTWAIT), -1);
    toy_go_on(&toy);
    toy_release(1);
    toy_read(&client, &answer);
    CHECK_EQ("now", answer.status, 100);
    toy_send(&client, "ok");
    toy_read(&client, &answer);
    CHECK_STR("the answer", answer.body, "whole 2 ");
    toy_close(&client);
    toy_close(&other);
    toy_stop(&toy);
}

/* The last byte of `before` is urgent. */
static const struct {
    const char *name, *before, *behind, *answer;
} urgent[] = {
    {"in the head", "GET /he", "llo HTTP/1.1\r\n" HOST "\r\n", "hello"},
    {"at the head's end", "GET /hello HTTP/1.1\r\n" HOST "\r", "\n", "hello"},
    {"in the body", "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nab", "cde", "abcde"},
    {"in a chunk", "POST /echo HTTP/1.1\r\n" HOST CHUNKED "\r\n5\r\nab", "cde\r\n0\r\n\r\n",
     "abcde"},
    {"in a chunk's size", "POST /echo HTTP/1.1\r\n" HOST CHUNKED "\r\n0", "5\r\nabcde\r\n0\r\n\r\n",
     "abcde"},
};

/* The kernel ends a read in front of an urgent byte, and would keep it apart from the others. */
TEST(http_server_takes_urgent_bytes_as_others)
{
    if (tunnel_identity())
        return; /* it is not the client who sends the bytes */
    toy_init(&toy, 1);
    toy_start(&toy);
    toy_connect(&toy, &client);
    for (size_t i = 0; i < COUNT(urgent); i++) {
        for (int together = 0; together < 2; together++) {
            if (together)
                toy_halt(&toy);
            size_t len = strlen(urgent[i].before);
            CHECK_EQ("urgent", send(client.fd, urgent[i].before, len, MSG_OOB), len);
            if (!together) {
                toy_halt(&toy); /* it has read that */
                toy_go_on(&toy);
            }
            toy_send(&client, urgent[i].behind);
            if (together)
                toy_go_on(&toy);
            toy_read(&client, &answer);
            CHECK_STR(urgent[i].name, answer.body, urgent[i].answer);
        }
    }
    toy_close(&client);
    toy_stop(&toy);
}

/* Byte by byte, and many at once: the same answers in the same order. */
TEST(http_server_pipelines_in_order)
{
    static char many[64 * 1024];
    enum { REQUESTS = 300 };
    size_t len = 0;
    for (int i = 0; i < REQUESTS; i++)
        len += (size_t)snprintf(many + len, sizeof many - len,
                                "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\n%05d", i);
    toy_init(&toy, 4);
    toy_start(&toy);
    toy_connect(&toy, &client);
    toy_send(&client, many);
    for (int i = 0; i < REQUESTS; i++) {
        toy_read(&client, &answer);
        CHECK_EQ("in order", strtol(answer.body, NULL, 10), i);
    }
    for (const char *p = HELLO; *p; p++)
        CHECK_EQ("one byte", send(client.fd, p, 1, 0), 1);
    toy_read(&client, &answer);
    CHECK_STR("byte by byte", answer.body, "hello");
    CHECK("each was logged", toy_until(toy_logged, REQUESTS + 1));
    toy_close(&client);
    toy_stop(&toy);
}

TEST(http_server_head_limits)
{
    static char large[40 * 1024];
    toy_init(&toy, 1);
    toy_start(&toy);
    (void)snprintf(large, sizeof large, "GET /hello HTTP/1.1\r\nX: %033000d", 0);
    toy_connect(&toy, &client);
    toy_send(&client, large);
    toy_read(&client, &answer);
    CHECK_STR("bytes", answer.body, "HEADERS_TOO_LARGE");
    CHECK("ends", toy_is_closed(&client));
    toy_close(&client);
    toy_stop(&toy);
}

/* The client shuts its side after the request: it still gets its answer, and then the end. */
TEST(http_server_answers_a_half_closed_client)
{
    toy_init(&toy, 1);
    toy_start(&toy);
    toy_connect(&toy, &client);
    toy_send(&client, HELLO);
    (void)shutdown(client.fd, SHUT_WR);
    toy_read(&client, &answer);
    CHECK_STR("answer", answer.body, "hello");
    CHECK("end", toy_is_closed(&client));
    toy_close(&client);
    toy_stop(&toy);
}

static const struct {
    const char *name, *bytes;
} slow_ones[] = {
    {"no byte", ""},
    {"half a head", "GET /hello HT"},
    {"half a body", "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 9\r\n\r\nabc"},
    {"idle after an answer", HELLO},
};

TEST(http_server_cuts_the_slow)
{
    toy_init(&toy, 1);
    toy.server->times.head_ms = toy.server->times.body_ms = toy.server->times.idle_ms = 60;
    toy_start(&toy);
    for (size_t i = 0; i < COUNT(slow_ones); i++) {
        int64_t began = cay_clock_mono_ms();
        toy_connect(&toy, &client);
        toy_send(&client, slow_ones[i].bytes);
        if (strcmp(slow_ones[i].bytes, HELLO) == 0)
            toy_read(&client, &answer);
        CHECK(slow_ones[i].name, toy_is_closed(&client));
        CHECK(slow_ones[i].name, cay_clock_mono_ms() - began < 3000);
        toy_close(&client);
    }
    toy_stop(&toy);
}

TEST(http_server_cuts_a_reader_that_does_not_read)
{
    toy_init(&toy, 1);
    toy.server->times.write_ms = 80;
    toy_start(&toy);
    toy_connect(&toy, &client);
    toy_connect(&toy, &other);
    toy_send(&client, "GET /big HTTP/1.1\r\n" HOST "\r\n");
    toy_send(&other, "GET /endless HTTP/1.1\r\n" HOST "\r\n");
    CHECK("the stream opens", toy_until(toy_streams, 1));
    CHECK("and is cut", toy_until(toy_streams, 0));
    toy_read(&client, &answer);
    CHECK("the answer is not whole", answer.body_len < 32 * CAY_MIB);
    toy_close(&client);
    toy_close(&other);
    toy_stop(&toy);
}

/* A large answer that the socket takes in pieces arrives whole. */
TEST(http_server_sends_what_does_not_fit_at_once)
{
    toy_init(&toy, 1);
    toy_start(&toy);
    toy_connect(&toy, &client);
    toy_send(&client, "GET /big HTTP/1.1\r\n" HOST "\r\n" HELLO);
    toy_read_head(&client, &answer);
    size_t got = client.len, want = 32 * CAY_MIB;
    for (client.len = 0; got < want;) {
        size_t left = want - got, room = sizeof client.bytes;
        ssize_t n = recv(client.fd, client.bytes, left < room ? left : room, 0);
        if (n <= 0)
            break;
        got += (size_t)n;
    }
    CHECK_EQ("all of it", got, want);
    toy_read(&client, &answer);
    CHECK_STR("and the next one", answer.body, "hello");
    toy_close(&client);
    toy_stop(&toy);
}

TEST(http_server_says_503_when_the_queue_is_full)
{
    if (tunnel_identity())
        return; /* a handshake is a worker's too, and there is no way yet to say anything */
    toy_init(&toy, 1);
    toy.server->workers.waiting_max = 1;
    toy_start(&toy);
    toy_connect(&toy, &client);
    toy_send(&client, "GET /hold HTTP/1.1\r\n" HOST "\r\n");
    CHECK("the worker is busy", toy_until(toy_held, 1));
    toy_connect(&toy, &waits);
    toy_send(&waits, HELLO);
    toy_connect(&toy, &other);
    toy_send(&other, HELLO);
    toy_read(&other, &answer);
    CHECK_EQ("refused", answer.status, 503);
    CHECK("told when", strstr(answer.head, "Retry-After: 1\r\n"));
    toy_release(1);
    toy_read(&client, &answer);
    CHECK_STR("the first is answered", answer.body, "hello");
    toy_read(&waits, &answer);
    CHECK_STR("and the one that waits", answer.body, "hello");
    toy_close(&client);
    toy_close(&waits);
    toy_close(&other);
    toy_stop(&toy);
}

/* F-41: what is under way is answered, the idle are closed, and the loop ends. */
TEST(http_server_drains)
{
    toy_init(&toy, 2);
    toy_start(&toy);
    toy_connect(&toy, &client);
    toy_connect(&toy, &other);
    toy_send(&other, HELLO);
    toy_read(&other, &answer);
    toy_send(&client, "GET /hold HTTP/1.1\r\n" HOST "\r\n");
    CHECK("one is under way", toy_until(toy_held, 1));
    cay_http_stop(toy.server);
    CHECK("the idle one ends", toy_is_closed(&other));
    toy_release(1);
    toy_read(&client, &answer);
    CHECK_EQ("the other is answered", answer.status, 200);
    CHECK("and told", strstr(answer.head, "Connection: close\r\n"));
    (void)pthread_join(toy.thread, NULL);
    CHECK_EQ("well", toy.result, 0);
    cay_http_free(toy.server);
    cay_close_fd(&toy.listen_fd);
    cay_close_fd(&toy.file_fd);
    toy_close(&client);
    toy_close(&other);
}

TEST(http_server_ends_at_once_when_stopped_twice)
{
    toy_init(&toy, 1);
    toy_start(&toy);
    toy_connect(&toy, &client);
    toy_send(&client, "GET /hold HTTP/1.1\r\n" HOST "\r\n");
    CHECK("one is under way", toy_until(toy_held, 1));
    int64_t began = cay_clock_mono_ms();
    cay_http_stop(toy.server);
    cay_http_stop(toy.server);
    (void)pthread_join(toy.thread, NULL);
    CHECK("at once", cay_clock_mono_ms() - began < 3000);
    toy_release(1);
    cay_http_free(toy.server);
    cay_close_fd(&toy.listen_fd);
    cay_close_fd(&toy.file_fd);
    toy_close(&client);
}

/* F-23. Idle connections give their descriptors back, and the server recovers. */
TEST(http_server_survives_without_descriptors)
{
    enum { IDLE = 40 };
    static struct toy_client idle[IDLE]; /* only their sockets are used */
    struct rlimit before, tight;
    (void)getrlimit(RLIMIT_NOFILE, &before);
    toy_init(&toy, 1);
    toy_start(&toy);
    for (int i = 0; i < IDLE; i++)
        toy_connect(&toy, &idle[i]);
    toy_send(&idle[IDLE - 1], HELLO);
    toy_read(&idle[IDLE - 1], &answer);
    CHECK_EQ("all are accepted", answer.status, 200);
    toy_connect(&toy, &client);
    tight = before;
    tight.rlim_cur = (rlim_t)client.fd + 1; /* that one is in the backlog: no accept succeeds */
    (void)setrlimit(RLIMIT_NOFILE, &tight);
    toy_send(&client, HELLO);
    toy_read(&client, &answer);
    CHECK_STR("answered in the end", answer.body, "hello");
    (void)setrlimit(RLIMIT_NOFILE, &before);
    for (int i = 0; i < IDLE; i++)
        toy_close(&idle[i]);
    toy_close(&client);
    toy_stop(&toy);
}

/* The one that took the last descriptor is not closed with the idle ones. */
TEST(http_server_answers_who_came_last)
{
    enum { FILLED = 64 };
    int filled[FILLED];
    struct rlimit before, tight;
    (void)getrlimit(RLIMIT_NOFILE, &before);
    toy_init(&toy, 1);
    toy_start(&toy);
    for (int i = 0; i < FILLED; i++) /* so that those that follow are in a row */
        filled[i] = dup(STDERR_FILENO);
    tight = before;
    tight.rlim_cur = (rlim_t)filled[FILLED - 1] + 1 + (toy.tunnelled ? 4 : 2);
    (void)setrlimit(RLIMIT_NOFILE, &tight);
    toy_connect(&toy, &client);
    toy_send(&client, HELLO);
    toy_read(&client, &answer);
    CHECK_STR("answered", answer.body, "hello");
    (void)setrlimit(RLIMIT_NOFILE, &before);
    for (int i = 0; i < FILLED; i++)
        cay_close_fd(&filled[i]);
    toy_close(&client);
    toy_stop(&toy);
}
