/* SPDX-License-Identifier: Apache-2.0 */
#include "http/toy_test.h"
#include "tests/test.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>

static struct toy toy;
static struct toy_client client, other;
static struct toy_answer answer;
static struct cay_ws decoder;

#define HEAD(path) "GET " path " HTTP/1.1\r\nHost: localhost\r\n"
#define UPGRADE "Upgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n"
#define VERSION "Sec-WebSocket-Version: 13\r\n"
#define KEY "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
#define TALK HEAD("/talk") UPGRADE VERSION KEY "\r\n"
#define WAIT_MS 5000

static void begin(void)
{
    toy_init(&toy, 1);
    toy_start(&toy);
    toy_connect(&toy, &client);
    decoder = (struct cay_ws){.unmasked = true};
}

static void end(void)
{
    toy_close(&client);
    toy_stop(&toy);
    cay_ws_done(&decoder);
}

static void upgrade(struct toy_client *c, const char *request)
{
    toy_send(c, request);
    toy_read_head(c, &answer);
    CHECK_EQ("upgraded", answer.status, 101);
}

static void send_frame(enum cay_ws_op op, const char *data, size_t len)
{
    CAY_AUTO_BUF struct cay_buf b = {0};
    cay_ws_frame(&b, op, data, len, (const unsigned char *)"mask");
    CHECK_EQ("sent", send(client.fd, b.data, b.len, MSG_NOSIGNAL), b.len);
}

/* The next frame as "op:bytes"; "end" when the connection ended. */
static const char *next_frame(struct toy_client *c)
{
    static char text[512];
    struct cay_ws_piece p;
    for (;;) {
        size_t used = 0;
        int r = cay_ws_decode(&decoder, c->bytes, c->len, &used, &p);
        memmove(c->bytes, c->bytes + used, c->len - used);
        c->len -= used;
        if (r < 0)
            return "broken";
        if (r == 1 && p.op == CAY_WS_CLOSE)
            (void)snprintf(text, sizeof text, "8:%d", (int)p.code);
        else if (r == 1)
            (void)snprintf(text, sizeof text, "%d:%.*s", (int)p.op, (int)p.len, p.data);
        if (r == 1)
            return text;
        ssize_t n = recv(c->fd, c->bytes + c->len, sizeof c->bytes - c->len, 0);
        if (n <= 0)
            return "end";
        c->len += (size_t)n;
    }
}

static const struct {
    const char *name, *request;
    int status;
} handshakes[] = {
    {"in order", TALK, 101},
    {"plain", HEAD("/talk") "\r\n", 400},
    {"another upgrade", HEAD("/talk") "Upgrade: h2c\r\nConnection: Upgrade\r\n" VERSION KEY "\r\n",
     400},
    {"no connection", HEAD("/talk") "Upgrade: websocket\r\n" VERSION KEY "\r\n", 400},
    {"another version", HEAD("/talk") UPGRADE "Sec-WebSocket-Version: 8\r\n" KEY "\r\n", 400},
    {"no key", HEAD("/talk") UPGRADE VERSION "\r\n", 400},
    {"a bad key", HEAD("/talk") UPGRADE VERSION "Sec-WebSocket-Key: short\r\n\r\n", 400},
    {"two keys", HEAD("/talk") UPGRADE VERSION KEY KEY "\r\n", 400},
    {"an old client", "GET /talk HTTP/1.0\r\nHost: localhost\r\n" UPGRADE VERSION KEY "\r\n", 400},
    {"a stranger", HEAD("/talk") "X-Stranger: 1\r\n" UPGRADE VERSION KEY "\r\n", 401},
    {"not after all", HEAD("/talk?late") UPGRADE VERSION KEY "\r\n", 409},
};

TEST(http_socket_handshake)
{
    begin();
    for (size_t i = 0; i < COUNT(handshakes); i++) {
        toy_connect(&toy, &client);
        toy_send(&client, handshakes[i].request);
        toy_read_head(&client, &answer);
        CHECK_EQ(handshakes[i].name, answer.status, handshakes[i].status);
        if (answer.status == 101)
            CHECK("accept",
                  strstr(answer.head, "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n") &&
                      strstr(answer.head, "\r\nConnection: Upgrade\r\n") &&
                      strstr(answer.head, "\r\nUpgrade: websocket\r\n"));
        toy_close(&client);
    }
    CHECK("nothing stays", toy_until(toy_streams, 0));
    end();
}

TEST(http_socket_talks_both_ways)
{
    char got[8] = "";
    begin();
    upgrade(&client, TALK);
    send_frame(CAY_WS_TEXT, "hello", 5);
    CHECK_STR("a worker answers", next_frame(&client), "1:hello");
    toy_append(&toy, "\x82\x03new");
    CHECK_STR("the stream", next_frame(&client), "2:new");
    for (int i = 0; i < 5; i++) {
        toy_append(&toy, "\x82\x04more");
        CHECK_STR("wakes", next_frame(&client), "2:more");
    }
    send_frame(CAY_WS_BINARY, "bytes", 5);
    send_frame(CAY_WS_PING, "p", 1);
    CHECK_STR("pong", next_frame(&client), "10:p");
    CHECK_EQ("the sink", read(toy.sink_fd, got, sizeof got), 5);
    CHECK_STR("the sink", got, "bytes");
    send_frame(CAY_WS_TEXT, "eof", 3);
    CHECK_STR("a worker answers", next_frame(&client), "1:eof");
    CHECK_EQ("the sink's end", read(toy.sink_fd, got, sizeof got), 0);
    CHECK_EQ("was meant", read(toy.end_fd, got, sizeof got), 1);
    send_frame(CAY_WS_BINARY, "more", 4);
    CHECK_STR("not any more", next_frame(&client), "1:no");
    toy_append(&toy, "\x81\x03"
                     "bye$");
    CHECK_STR("the last word", next_frame(&client), "1:bye");
    CHECK_STR("in good order", next_frame(&client), "8:1000");
    CHECK_STR("and out", next_frame(&client), "end");
    CHECK("closed", toy_until(toy_streams, 0));
    end();
}

TEST(http_socket_ends_with_its_client)
{
    char got[8];
    begin();
    for (int polite = 0; polite < 2; polite++) {
        upgrade(&client, TALK);
        send_frame(CAY_WS_BINARY, "x", 1);
        if (polite) {
            send_frame(CAY_WS_CLOSE, "\x03\xe8", 2);
            CHECK_STR("as it said", next_frame(&client), "8:1000");
        }
        toy_close(&client);
        CHECK("closed", toy_until(toy_streams, 0));
        CHECK_EQ("what came", read(toy.sink_fd, got, sizeof got), 1);
        CHECK_EQ("its end", read(toy.sink_fd, got, sizeof got), 0);
        CHECK_EQ("was not meant", read(toy.end_fd, got, sizeof got), 0);
        toy_connect(&toy, &client);
    }
    end();
}

/* Each from a client that is gone when it is read. Its kernel refuses the pong, so that what is
 * said next fails. */
static const struct {
    const char *name;
    enum cay_ws_op op;
    const char *data;
} last_words[] = {
    {"a pong", CAY_WS_PING, "p"},          {"a close", CAY_WS_CLOSE, "\x03\xe8"},
    {"a refusal", CAY_WS_BINARY, "bytes"}, {"a worker's answer", CAY_WS_TEXT, "hello"},
    {"a fault", CAY_WS_PONG + 1, "?"},
};

static int sockets(void)
{
    return (int)atomic_load(&cay_http_sockets.value);
}

static int connections(void)
{
    return (int)atomic_load(&cay_http_open.value);
}

static void expect_others_served(const char *name)
{
    toy_send(&other, HEAD("/hello") "\r\n");
    toy_read(&other, &answer);
    CHECK_STR(name, answer.body, "hello");
    CHECK(name, toy_until(toy_streams, 0));
    CHECK(name, toy_until(sockets, 0));
    CHECK(name, toy_until(connections, 1));
}

TEST(http_socket_replies_to_nobody)
{
    begin();
    toy_connect(&toy, &other);
    toy_close(&client);
    expect_others_served("at first");
    for (size_t i = 0; i < COUNT(last_words); i++) {
        const char *data = last_words[i].data;
        toy_connect(&toy, &client);
        upgrade(&client, HEAD("/talk?deaf") UPGRADE VERSION KEY "\r\n");
        toy_halt(&toy);
        send_frame(CAY_WS_PING, "p", 1);
        send_frame(last_words[i].op, data, strlen(data));
        send_frame(CAY_WS_PING, "p", 1);
        toy_close(&client);
        toy_go_on(&toy);
        expect_others_served(last_words[i].name);
    }
    toy_close(&other);
    end();
}

/* The connection ends with a reset, as of a client that was killed. */
static void vanish(struct toy_client *c)
{
    struct linger now = {.l_onoff = 1};
    (void)setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    toy_close(c);
}

/* While a worker has its message, or the stream has something new for it. */
TEST(http_socket_outlives_no_client)
{
    toy_init(&toy, 2);
    toy_start(&toy);
    toy_connect(&toy, &other);
    for (int worker = 0; worker < 2; worker++) {
        toy_connect(&toy, &client);
        upgrade(&client, TALK);
        if (worker) {
            send_frame(CAY_WS_TEXT, "hold", 4);
            CHECK("the worker has it", toy_until(toy_held, 1));
        } else {
            toy_halt(&toy);
            toy_append(&toy, "\x82\x03new");
        }
        vanish(&client);
        if (worker)
            toy_release(1);
        else
            toy_go_on(&toy);
        expect_others_served(worker ? "a worker's answer" : "the stream");
    }
    toy_close(&other);
    toy_stop(&toy);
}

static const struct {
    const char *name, *bytes;
    size_t len;
    const char *want;
} faults[] = {
    {"unmasked", "\x81\x02hi", 4, "8:1002"},
    {"a gigabyte", "\x82\xff\0\0\0\0\x40\0\0\0mask", 14, "8:1009"},
    {"nonsense", "GET / HTTP/1.1\r\n", 16, "8:1002"},
};

TEST(http_socket_refuses)
{
    begin();
    for (size_t i = 0; i < COUNT(faults); i++) {
        toy_connect(&toy, &client);
        upgrade(&client, TALK);
        CHECK_EQ("sent", send(client.fd, faults[i].bytes, faults[i].len, 0), faults[i].len);
        CHECK_STR(faults[i].name, next_frame(&client), faults[i].want);
        CHECK_STR(faults[i].name, next_frame(&client), "end");
        toy_close(&client);
    }
    toy_connect(&toy, &client);
    upgrade(&client, HEAD("/talk?deaf") UPGRADE VERSION KEY "\r\n");
    send_frame(CAY_WS_BINARY, "x", 1);
    send_frame(CAY_WS_BINARY, "y", 1);
    send_frame(CAY_WS_TEXT, "z", 1);
    CHECK_STR("takes no bytes", next_frame(&client), "1:no");
    CHECK_STR("says so once", next_frame(&client), "1:z");
    end();
}

TEST(http_socket_pings_and_cuts_the_dead)
{
    toy_init(&toy, 1);
    toy.server->times.ws_ping_ms = 30;
    toy.server->times.ws_silence_ms = 200;
    toy_start(&toy);
    toy_connect(&toy, &client);
    decoder = (struct cay_ws){.unmasked = true};
    upgrade(&client, TALK);
    for (int i = 0; i < 10; i++) { /* for longer than silence is borne */
        CHECK_STR("ping", next_frame(&client), "9:");
        send_frame(CAY_WS_PONG, "", 0);
    }
    const char *frame = next_frame(&client);
    while (strcmp(frame, "9:") == 0)
        frame = next_frame(&client);
    CHECK_STR("silent, so dead", frame, "end");
    end();
}

/* The sink is full: its writer stands still, the others and the stream do not. */
TEST(http_socket_is_held_up_by_its_sink)
{
    static char block[64 * 1024];
    size_t sent = 0, got = 0;
    begin();
    upgrade(&client, TALK);
    (void)fcntl(client.fd, F_SETFL, O_NONBLOCK);
    CAY_AUTO_BUF struct cay_buf frame = {0};
    cay_ws_frame(&frame, CAY_WS_BINARY, block, sizeof block, (const unsigned char *)"mask");
    struct pollfd p = {.fd = client.fd, .events = POLLOUT};
    size_t part = 0;
    while (sent < 64 * sizeof block * 8 && poll(&p, 1, 200) > 0) {
        ssize_t n = send(client.fd, frame.data + part, frame.len - part, MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN)
            break; /* it does not stand any more, which shows below */
        part = n > 0 ? (part + (size_t)n) % frame.len : part;
        sent += n > 0 ? (size_t)n : 0;
    }
    CHECK("stopped", sent < 64 * sizeof block * 8);
    (void)fcntl(client.fd, F_SETFL, 0);
    toy_append(&toy, "\x82\x02hi");
    CHECK_STR("the stream goes on", next_frame(&client), "2:hi");
    toy_connect(&toy, &other);
    toy_send(&other, HEAD("/hello") "\r\n");
    toy_read(&other, &answer);
    CHECK_EQ("and so do others", answer.status, 200);
    toy_close(&other);
    while (part > 0) { /* ends the frame under way, as there is room */
        struct pollfd in = {.fd = toy.sink_fd, .events = POLLIN};
        ssize_t n = poll(&in, 1, WAIT_MS) > 0 ? read(toy.sink_fd, block, sizeof block) : 0;
        got += n > 0 ? (size_t)n : 0;
        n = send(client.fd, frame.data + part, frame.len - part, MSG_DONTWAIT | MSG_NOSIGNAL);
        part = n > 0 ? (part + (size_t)n) % frame.len : part;
        sent += n > 0 ? (size_t)n : 0;
    }
    size_t want = sent / frame.len * sizeof block;
    while (got < want) {
        struct pollfd in = {.fd = toy.sink_fd, .events = POLLIN};
        ssize_t n = poll(&in, 1, WAIT_MS) > 0 ? read(toy.sink_fd, block, sizeof block) : 0;
        if (n <= 0)
            break;
        got += (size_t)n;
    }
    CHECK_EQ("all of it", got, want);
    end();
}

TEST(http_socket_drain_says_goodbye)
{
    begin();
    upgrade(&client, TALK);
    toy_stop(&toy);
    CHECK_STR("come again", next_frame(&client), "8:1001");
    toy_close(&client);
    cay_ws_done(&decoder);
}

/* Pings whose pongs nobody reads must not pile up. */
TEST(http_socket_flood_of_pings_is_bounded)
{
    begin();
    toy.server->times.write_ms = 200;
    upgrade(&client, TALK);
    CAY_AUTO_BUF struct cay_buf frames = {0};
    while (frames.len < 60000)
        cay_ws_frame(&frames, CAY_WS_PING, "0123456789", 10, (const unsigned char *)"mask");
    (void)fcntl(client.fd, F_SETFL, O_NONBLOCK);
    size_t sent = 0, part = 0;
    struct pollfd p = {.fd = client.fd, .events = POLLOUT};
    while (sent < 200 * CAY_MIB && poll(&p, 1, 10000) > 0) {
        ssize_t n = send(client.fd, frames.data + part, frames.len - part, MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN)
            break;
        part = n > 0 ? (part + (size_t)n) % frames.len : part;
        sent += n > 0 ? (size_t)n : 0;
    }
    CHECK("not listened to for ever", sent < 200 * CAY_MIB);
    CHECK("and cut", toy_until(toy_streams, 0));
    end();
}
