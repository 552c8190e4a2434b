/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "http/toy_test.h"
#include "http/tunnel_test.h"
#include "tests/test.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

static struct toy toy;
static struct toy_client client, other;
static struct toy_answer answer;

#define HOST "Host: localhost\r\n"
#define HELLO "GET /hello HTTP/1.1\r\n" HOST "\r\n"
#define CHUNKED "Transfer-Encoding: chunked\r\n"
#define WAIT_MS 5000

static void begin(void)
{
    toy_init(&toy, 1);
    toy_start(&toy);
    toy_connect(&toy, &client);
}

static void end(void)
{
    toy_close(&client);
    toy_stop(&toy);
}

static bool wait_for(int fd, short events)
{
    struct pollfd p = {.fd = fd, .events = events};
    return poll(&p, 1, WAIT_MS) > 0;
}

/* Reads until `len` bytes came or the end. */
static size_t read_some(int fd, char *out, size_t len)
{
    size_t at = 0;
    while (at < len && wait_for(fd, POLLIN)) {
        ssize_t n = read(fd, out + at, len - at);
        if (n == 0 || (n < 0 && errno != EAGAIN))
            break;
        at += n > 0 ? (size_t)n : 0;
    }
    return at;
}

/* What the sink's reader does: all of it, then the byte behind. */
static void expect_sink(const char *what, const char *bytes, bool whole)
{
    char got[256], mark = 0;
    size_t len = read_some(toy.sink_fd, got, sizeof got);
    CHECK_EQ(what, len, strlen(bytes));
    CHECK(what, memcmp(got, bytes, strlen(bytes)) == 0);
    CHECK_EQ(what, read(toy.end_fd, &mark, 1), whole);
}

static void say(const char *verdict)
{
    CHECK_EQ("verdict", write(toy.verdict_fd, verdict, strlen(verdict)), strlen(verdict));
}

static const struct {
    const char *name, *request, *body, *answer;
} wholes[] = {
    {"fixed", "PUT /take HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nbytes", "bytes",
     "whole 5 fine"},
    {"chunked",
     "PUT /take HTTP/1.1\r\n" HOST CHUNKED "\r\n3;x=y\r\nbyt\r\n2\r\nes\r\n0\r\nT: t\r\n\r\n",
     "bytes", "whole 5 fine"},
    {"empty", "PUT /take HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\n", "", "whole 0 fine"},
    {"none", "PUT /take HTTP/1.1\r\n" HOST "\r\n", "", "whole 0 fine"},
    {"empty chunked", "PUT /take HTTP/1.1\r\n" HOST CHUNKED "\r\n0\r\n\r\n", "", "whole 0 fine"},
};

TEST(http_receive_gives_the_body_to_a_sink)
{
    begin();
    for (size_t i = 0; i < COUNT(wholes); i++) {
        toy_send(&client, wholes[i].request);
        CHECK(wholes[i].name, toy_until(toy_taken, (int)i + 1));
        expect_sink(wholes[i].name, wholes[i].body, true);
        say("fine");
        toy_read(&client, &answer);
        CHECK_STR(wholes[i].name, answer.body, wholes[i].answer);
        CHECK(wholes[i].name, strstr(answer.head, "X-Taken: yes\r\n"));
        CHECK(wholes[i].name, strstr(answer.head, "Connection: keep-alive\r\n"));
    }
    end();
}

TEST(http_receive_leaves_the_next_request_alone)
{
    begin();
    toy_send(&client, "PUT /take?alone HTTP/1.1\r\n" HOST "Content-Length: 2\r\n\r\nab" HELLO
                      "PUT /take?alone HTTP/1.1\r\n" HOST CHUNKED "\r\n2\r\nab\r\n0\r\n\r\n" HELLO);
    for (int i = 0; i < 2; i++) {
        toy_read(&client, &answer);
        CHECK_STR("without a verdict", answer.body, "whole 2 ");
        toy_read(&client, &answer);
        CHECK_STR("the next one", answer.body, "hello");
    }
    end();
}

TEST(http_receive_asks_for_the_body_when_it_is_wanted)
{
    begin();
    toy_send(&client,
             "PUT /take HTTP/1.1\r\n" HOST "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    toy_read_head(&client, &answer);
    CHECK_EQ("go on", answer.status, 100);
    CHECK_EQ("after the handler", toy_taken(), 1);
    toy_send(&client, "ok");
    expect_sink("the body", "ok", true);
    say("ok");
    toy_read(&client, &answer);
    CHECK_STR("the answer", answer.body, "whole 2 ok");
    toy_send(&client,
             "PUT /take?no HTTP/1.1\r\n" HOST "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    toy_read(&client, &answer);
    CHECK_EQ("not wanted", answer.status, 409);
    CHECK("ends", toy_is_closed(&client));
    end();
}

static const struct {
    const char *name, *request;
    int status;
} refusals[] = {
    {"before the body", "PUT /take?no HTTP/1.1\r\n" HOST "Content-Length: 1000000\r\n\r\nab", 409},
    {"with open ends", "PUT /take?late HTTP/1.1\r\n" HOST "Content-Length: 10\r\n\r\nab", 409},
    {"a route without", "PUT /take-plain HTTP/1.1\r\n" HOST "Content-Length: 2\r\n\r\nab", 500},
    {"a broken chunk", "PUT /take HTTP/1.1\r\n" HOST CHUNKED "\r\n2\r\nabcd\r\n", 400},
    {"a late one", "PUT /take HTTP/1.1\r\n" HOST CHUNKED "\r\n2\r\nab\r\nx", 400},
};

TEST(http_receive_refuses)
{
    begin();
    for (size_t i = 0; i < COUNT(refusals); i++) {
        const char *name = refusals[i].name;
        toy_connect(&toy, &client);
        toy_send(&client, refusals[i].request);
        toy_read(&client, &answer);
        CHECK_EQ(name, answer.status, refusals[i].status);
        if (refusals[i].status != 500) {
            CHECK(name, strstr(answer.head, "Connection: close\r\n"));
            CHECK(name, toy_is_closed(&client));
        }
        if (refusals[i].status == 400)
            expect_sink(name, "", false);
        toy_close(&client);
    }
    end();
}

TEST(http_receive_marks_no_half_body_as_whole)
{
    begin();
    toy_send(&client, "PUT /take HTTP/1.1\r\n" HOST "Content-Length: 10\r\n\r\nhalf");
    CHECK("taken", toy_until(toy_taken, 1));
    toy_close(&client);
    expect_sink("fixed", "half", false);
    toy_connect(&toy, &client);
    toy_send(&client, "PUT /take HTTP/1.1\r\n" HOST CHUNKED "\r\n4\r\nhalf\r\n");
    CHECK("taken", toy_until(toy_taken, 2));
    toy_close(&client);
    expect_sink("chunked", "half", false);
    CHECK_EQ("nobody is answered", toy_logged(), 0);
    end();
}

/* Bytes whose place can be told: none lost, doubled or swapped goes unnoticed. */
static void number(char *block, size_t len, size_t at)
{
    for (size_t i = 0; i < len; i++)
        block[i] = (char)((at + i) * 2654435761u >> 16);
}

static bool is_numbered(const char *block, size_t len, size_t at)
{
    size_t i = 0;
    while (i < len && block[i] == (char)((at + i) * 2654435761u >> 16))
        i++;
    return i == len;
}

/* A full pipe stops the socket, and nothing is lost when it goes on. */
TEST(http_receive_is_held_up_by_its_sink)
{
    enum { BODY = 24 * 1024 * 1024 };
    static char block[64 * 1024];
    size_t sent = 0, got = 0;
    bool right = true;
    begin();
    toy_send(&client, "PUT /take HTTP/1.1\r\n" HOST "Content-Length: 25165824\r\n\r\n");
    CHECK("taken", toy_until(toy_taken, 1));
    (void)fcntl(client.fd, F_SETFL, O_NONBLOCK);
    struct pollfd p = {.fd = client.fd, .events = POLLOUT};
    while (sent < BODY && poll(&p, 1, 200) > 0) {
        number(block, sizeof block, sent);
        ssize_t n = send(client.fd, block, sizeof block, MSG_NOSIGNAL);
        sent += n > 0 ? (size_t)n : 0;
    }
    CHECK("stopped", sent < BODY);
    while (got < BODY && wait_for(toy.sink_fd, POLLIN)) {
        ssize_t n = read(toy.sink_fd, block, sizeof block);
        right &= n <= 0 || is_numbered(block, (size_t)n, got);
        got += n > 0 ? (size_t)n : 0;
        size_t more = BODY - sent < sizeof block ? BODY - sent : sizeof block;
        number(block, more, sent);
        n = more > 0 ? send(client.fd, block, more, MSG_NOSIGNAL) : 0;
        sent += n > 0 ? (size_t)n : 0;
    }
    CHECK_EQ("all of it", got, BODY);
    CHECK("in order", right);
    (void)fcntl(client.fd, F_SETFL, 0);
    say("ok");
    toy_read(&client, &answer);
    CHECK_STR("told", answer.body, "whole 25165824 ok");
    end();
}

/* So many bytes of the body, numbered; the last is urgent. */
static void send_urgent(size_t len, size_t at)
{
    static char block[16 * 1024];
    number(block, len, at);
    CHECK_EQ("urgent", send(client.fd, block, len, MSG_OOB), len);
}

/* An urgent byte is one of the body, also where that is moved without being looked at. */
TEST(http_receive_keeps_urgent_bytes_in_their_place)
{
    enum { PART = 8 * 1024, PARTS = 16 };
    static char got[4 * PART];
    static const char *const framings[] = {"Content-Length: 131072\r\n\r\n",
                                           CHUNKED "\r\n20000\r\n"};
    if (tunnel_identity())
        return; /* it is not the client who sends the bytes */
    begin();
    for (size_t i = 0; i < COUNT(framings); i++) {
        toy_send(&client, "PUT /take HTTP/1.1\r\n" HOST);
        toy_send(&client, framings[i]);
        CHECK("taken", toy_until(toy_taken, (int)i + 1));
        for (size_t at = 0; at < PARTS * PART; at += sizeof got) {
            toy_halt(&toy); /* two come at once, the others as they come */
            send_urgent(PART, at);
            send_urgent(PART, at + PART);
            toy_go_on(&toy);
            CHECK_EQ("comes", read_some(toy.sink_fd, got, 2 * PART), 2 * PART);
            send_urgent(PART, at + 2 * PART);
            send_urgent(PART, at + 3 * PART);
            CHECK_EQ("comes", read_some(toy.sink_fd, got + 2 * PART, 2 * PART), 2 * PART);
            CHECK("in order", is_numbered(got, sizeof got, at));
        }
        toy_send(&client, i == 0 ? "" : "\r\n0\r\n\r\n");
        expect_sink("nothing more", "", true);
        say("ok");
        toy_read(&client, &answer);
        CHECK_STR(framings[i], answer.body, "whole 131072 ok");
    }
    end();
}

/* Room in the sink and the body's end, in one round of the loop, are not yet a verdict. */
TEST(http_receive_waits_for_the_verdict)
{
    enum { SINK = 64 * 1024, MOST = SINK + SINK / 2 };
    static char block[MOST];
    int held = 0;
    begin();
    toy_send(&client, "PUT /take HTTP/1.1\r\n" HOST CHUNKED "\r\n18000\r\n");
    CHECK("taken", toy_until(toy_taken, 1));
    CHECK_EQ("more than the sink holds", send(client.fd, block, MOST, MSG_NOSIGNAL), MOST);
    while (ioctl(toy.sink_fd, FIONREAD, &held) == 0 && held < SINK)
        sched_yield();
    toy_halt(&toy);
    toy_send(&client, "\r\n0\r\n\r\n");
    CHECK_EQ("room", read(toy.sink_fd, block, SINK), SINK);
    toy_go_on(&toy);
    CHECK_EQ("all comes", read_some(toy.sink_fd, block, MOST), MOST - SINK);
    struct pollfd early = {.fd = client.fd, .events = POLLIN};
    CHECK_EQ("no answer before the word", poll(&early, 1, 50), 0);
    say("ok");
    toy_read(&client, &answer);
    CHECK_STR("told", answer.body, "whole 98304 ok");
    end();
}

TEST(http_receive_ends_with_its_sink)
{
    begin();
    toy_send(&client, "PUT /take HTTP/1.1\r\n" HOST "Content-Length: 100\r\n\r\nsome");
    CHECK("taken", toy_until(toy_taken, 1));
    say("full");
    cay_close_fd(&toy.sink_fd);
    toy_read(&client, &answer);
    CHECK_STR("with the reason", answer.body, "part 4 full");
    CHECK("the rest is not wanted", strstr(answer.head, "Connection: close\r\n"));
    end();
}

/* Also where the body is so large that it is moved without being looked at. */
TEST(http_receive_of_much_ends_with_its_sink_or_its_client)
{
    static char block[64 * 1024];
    for (int sink = 0; sink < 2; sink++) {
        begin();
        toy_send(&client, "PUT /take HTTP/1.1\r\n" HOST "Content-Length: 10000000\r\n\r\n");
        CHECK("taken", toy_until(toy_taken, 1));
        CHECK_EQ("some", send(client.fd, "some", 4, MSG_NOSIGNAL), 4);
        CHECK_EQ("comes", read_some(toy.sink_fd, block, 4), 4);
        if (sink) {
            say("full");
            cay_close_fd(&toy.sink_fd);
            /* By then the server may have noticed, answered and hung up. */
            (void)!send(client.fd, block, 1000, MSG_NOSIGNAL);
            toy_read(&client, &answer);
            CHECK("with the reason", strstr(answer.body, " full"));
            CHECK("not whole", strncmp(answer.body, "part ", 5) == 0);
        } else {
            toy_close(&client);
            CHECK_EQ("the end", read_some(toy.sink_fd, block, 1), 0);
            CHECK_EQ("is not whole", read(toy.end_fd, block, 1), 0);
        }
        end();
    }
}

/* Places in a chunked body at which a client may fall silent; `body` is what the sink has then. */
static const struct {
    const char *name, *before, *body, *behind;
} pauses[] = {
    {"in front of all", "", "", "5\r\nbytes\r\n0\r\n\r\n"},
    {"in a size", "0", "", "5\r\nbytes\r\n0\r\n\r\n"},
    {"in an extension", "5;x", "", "=y\r\nbytes\r\n0\r\n\r\n"},
    {"in a size's end", "5\r", "", "\nbytes\r\n0\r\n\r\n"},
    {"in front of the data", "5\r\n", "", "bytes\r\n0\r\n\r\n"},
    {"in the data", "5\r\nby", "by", "tes\r\n0\r\n\r\n"},
    {"behind the data", "5\r\nbytes", "bytes", "\r\n0\r\n\r\n"},
    {"in its end", "5\r\nbytes\r", "bytes", "\n0\r\n\r\n"},
    {"between two", "3\r\nbyt\r\n", "byt", "2\r\nes\r\n0\r\n\r\n"},
    {"in the last size", "5\r\nbytes\r\n0", "bytes", "\r\n\r\n"},
    {"in a trailer", "5\r\nbytes\r\n0\r\nT:", "bytes", " t\r\n\r\n"},
    {"in the last end", "5\r\nbytes\r\n0\r\n\r", "bytes", "\n"},
};

/* In one go: the silence begins behind all of it. */
static void send_until_pause(const char *before)
{
    char request[256];
    (void)snprintf(request, sizeof request, "PUT /take HTTP/1.1\r\n" HOST CHUNKED "\r\n%s", before);
    toy_send(&client, request);
}

/* Waits for as long as a head may take, and until the loop has seen to all that came before. */
static void outlast_a_head(void)
{
    toy_connect(&toy, &other);
    toy_send(&other, "GET /hello HT");
    CHECK("the other is cut", toy_is_closed(&other));
    toy_close(&other);
}

/* A pause is no end, however short the times are that others have. */
TEST(http_receive_goes_on_behind_a_pause)
{
    toy_init(&toy, 1);
    toy.server->times.head_ms = toy.server->times.body_ms = (int64_t)test_ms(100);
    toy_start(&toy);
    toy_connect(&toy, &client);
    for (size_t i = 0; i < COUNT(pauses); i++) {
        const char *name = pauses[i].name;
        send_until_pause(pauses[i].before);
        CHECK(name, toy_until(toy_taken, (int)i + 1));
        outlast_a_head();
        toy_send(&client, pauses[i].behind);
        expect_sink(name, "bytes", true);
        say("fine");
        toy_read(&client, &answer);
        CHECK_STR(name, answer.body, "whole 5 fine");
    }
    toy_send(&client, HELLO);
    toy_read(&client, &answer);
    CHECK_STR("the next one", answer.body, "hello");
    end();
}

/* Wherever the client falls silent for good: it is cut, and what came is not taken for all. */
TEST(http_receive_cuts_a_pause_that_does_not_end)
{
    toy_init(&toy, 1);
    toy.server->times.silence_ms = (int64_t)test_ms(100);
    toy_start(&toy);
    for (size_t i = 0; i < COUNT(pauses); i++) {
        const char *name = pauses[i].name;
        toy_connect(&toy, &client);
        send_until_pause(pauses[i].before);
        CHECK(name, toy_is_closed(&client));
        CHECK_EQ(name, toy_taken(), i + 1);
        expect_sink(name, pauses[i].body, false);
        toy_close(&client);
    }
    CHECK_EQ("nobody is answered", toy_logged(), 0);
    toy_connect(&toy, &client);
    end();
}

static void expect_cut(const char *what, const char *request, int status)
{
    toy_start(&toy);
    toy_connect(&toy, &client);
    toy_send(&client, request);
    if (status > 0) {
        toy_read(&client, &answer);
        CHECK_EQ(what, answer.status, status);
    }
    CHECK(what, toy_is_closed(&client));
    end();
}

#define TAKE_100 "PUT /take HTTP/1.1\r\n" HOST "Content-Length: 100\r\n\r\n"

TEST(http_receive_cuts_who_is_late)
{
    toy_init(&toy, 1);
    toy.server->times.silence_ms = (int64_t)test_ms(100);
    expect_cut("a silent client", TAKE_100 "a", 0);
    toy_init(&toy, 1);
    toy.server->times.slow_ms = 50;
    expect_cut("a slow client", TAKE_100 "a", 0);
    toy_init(&toy, 1);
    expect_cut("no verdict", "PUT /take HTTP/1.1\r\n" HOST "Content-Length: 1\r\n\r\na", 504);
}

TEST(http_receive_cuts_a_sink_that_is_stuck)
{
    static char block[1024 * 1024];
    toy_init(&toy, 1);
    toy.server->times.sink_ms = 50;
    toy.server->times.silence_ms = 30; /* it is not the client's silence */
    toy_start(&toy);
    toy_connect(&toy, &client);
    toy_send(&client, "PUT /take HTTP/1.1\r\n" HOST "Content-Length: 1048576\r\n\r\n");
    (void)send(client.fd, block, sizeof block, MSG_NOSIGNAL);
    toy_read(&client, &answer);
    CHECK_EQ("told", answer.status, 504);
    end();
}

TEST(http_receive_is_cut_by_the_end_of_the_server)
{
    toy_init(&toy, 1);
    toy.server->times.drain_ms = 50;
    toy_start(&toy);
    toy_connect(&toy, &client);
    toy_send(&client, TAKE_100 "a");
    CHECK("taken", toy_until(toy_taken, 1));
    int sink = fcntl(toy.sink_fd, F_DUPFD_CLOEXEC, 3), mark = fcntl(toy.end_fd, F_DUPFD_CLOEXEC, 3);
    char byte[2];
    end();
    CHECK_EQ("what came", read_some(sink, byte, 2), 1);
    CHECK_EQ("is not whole", read(mark, byte, 1), 0);
    (void)close(sink);
    (void)close(mark);
}

static void give(const char *bytes)
{
    CHECK_EQ("give", write(toy.source_fd, bytes, strlen(bytes)), strlen(bytes));
}

TEST(http_descriptor_is_an_answer_of_known_length)
{
    begin();
    toy_send(&client, "GET /give?10 HTTP/1.1\r\n" HOST "\r\n" HELLO);
    toy_read_head(&client, &answer);
    CHECK("length", strstr(answer.head, "Content-Length: 10\r\n"));
    give("01234");
    CHECK("woken by the pipe", wait_for(client.fd, POLLIN));
    give("56789 and more");
    char got[11] = "";
    for (size_t at = 0; at < 10;) {
        ssize_t n = client.len ? 0 : recv(client.fd, got + at, 10 - at, 0);
        CHECK("comes", n > 0);
        if (n <= 0)
            break;
        at += (size_t)n;
    }
    CHECK_STR("no more than that", got, "0123456789");
    toy_read(&client, &answer);
    CHECK_STR("the next one", answer.body, "hello");
    toy_send(&client, "HEAD /give?10 HTTP/1.1\r\n" HOST "\r\n" HELLO);
    toy_read_head(&client, &answer);
    CHECK("as GET", strstr(answer.head, "Content-Length: 10\r\n"));
    toy_read(&client, &answer);
    CHECK_STR("and nothing else", answer.body, "hello");
    toy_send(&client, "GET /give?0 HTTP/1.1\r\n" HOST "\r\n" HELLO);
    toy_read(&client, &answer);
    CHECK_EQ("nothing", answer.status, 200);
    toy_read(&client, &answer);
    CHECK_STR("the next one", answer.body, "hello");
    end();
}

/* A client that does not read stops the pipe, and nothing is lost when it goes on. */
TEST(http_descriptor_is_held_up_by_its_client)
{
    enum { BODY = 24 * 1024 * 1024 };
    static char block[64 * 1024];
    size_t given = 0, got = 0;
    bool right = true;
    begin();
    toy_send(&client, "GET /give?25165824 HTTP/1.1\r\n" HOST "\r\n" HELLO);
    toy_read_head(&client, &answer);
    (void)fcntl(toy.source_fd, F_SETFL, O_NONBLOCK);
    struct pollfd p = {.fd = toy.source_fd, .events = POLLOUT};
    while (given < BODY && poll(&p, 1, 200) > 0) {
        number(block, sizeof block, given);
        ssize_t n = write(toy.source_fd, block, sizeof block);
        given += n > 0 ? (size_t)n : 0;
    }
    CHECK("stopped", given < BODY);
    while (got < BODY && wait_for(client.fd, POLLIN)) {
        size_t left = BODY - got < sizeof block ? BODY - got : sizeof block;
        ssize_t n = recv(client.fd, block, left, 0);
        right &= n > 0 && is_numbered(block, (size_t)n, got);
        got += n > 0 ? (size_t)n : 0;
        size_t more = BODY - given < sizeof block ? BODY - given : sizeof block;
        number(block, more, given);
        n = more > 0 ? write(toy.source_fd, block, more) : 0;
        given += n > 0 ? (size_t)n : 0;
    }
    CHECK_EQ("all of it", got, BODY);
    CHECK("in order", right);
    toy_read(&client, &answer);
    CHECK_STR("the next one", answer.body, "hello");
    end();
}

TEST(http_descriptor_that_has_less_cuts_the_answer)
{
    begin();
    toy_send(&client, "GET /give?10 HTTP/1.1\r\n" HOST "\r\n");
    toy_read_head(&client, &answer);
    give("01234");
    cay_close_fd(&toy.source_fd);
    char got[11];
    CHECK_EQ("what there was", read_some(client.fd, got, sizeof got), 5);
    end();
}

TEST(http_descriptor_in_chunks_ends_when_its_writer_says_so)
{
    begin();
    for (int whole = 1; whole >= 0; whole--) {
        toy_send(&client, "GET /give HTTP/1.1\r\n" HOST "\r\n");
        toy_read_head(&client, &answer);
        CHECK("chunks", strstr(answer.head, CHUNKED));
        give("some");
        CHECK("comes", toy_read_chunk(&client, &answer));
        CHECK_STR("comes", answer.body, "some");
        if (whole)
            CHECK_EQ("said", write(toy.end_fd, "1", 1), 1);
        cay_close_fd(&toy.source_fd);
        CHECK("the last", !toy_read_chunk(&client, &answer));
        if (!whole) {
            CHECK("cut", toy_is_closed(&client));
            continue;
        }
        toy_send(&client, HELLO);
        toy_read(&client, &answer);
        CHECK_STR("goes on", answer.body, "hello");
    }
    end();
}

TEST(http_descriptor_is_closed_with_its_client)
{
    begin();
    toy_send(&client, "GET /give HTTP/1.1\r\n" HOST "\r\n");
    toy_read_head(&client, &answer);
    toy_close(&client);
    CHECK("its writer is told", wait_for(toy.source_fd, POLLERR));
    end();
}
