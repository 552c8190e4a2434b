/* SPDX-License-Identifier: Apache-2.0 */
/* What connections say on their way out: one that stands, between two that the test has. */
#include "net/ways.h"
#include "tests/test.h"
#include <arpa/inet.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#define A "Host: a.example\r\n"
#define B "Host: b.example\r\n"
#define EVIL "Host: evil.example\r\n"
#define TOKEN "Authorization: secret\r\n"
#define GET "GET / HTTP/1.1\r\n"
#define SWITCH "Connection: Upgrade\r\nUpgrade: websocket\r\n"

static const struct cay_ports any = {1, 65535}, other_port = {81, 81};
static struct cay_name_rule names[] = {{"a.example", any}, {"b.example", any}, {"c.example", any}};
static struct cay_header_rule headers[] = {{{"a.example", any}, "Authorization", "secret"},
                                           {{"*.example", any}, "authorization", "never"},
                                           {{"c.example", any}, "X-Key", "never"},
                                           {{"b.example", other_port}, "X-Key", "never"}};

struct bench {
    struct cay_egress egress;
    struct cay_payer payer;
    struct cay_way way;
    struct cay_connection *c; /* freed when it is cut */
    int left, right;          /* the sandbox, and whom it wants */
    bool over;
};

static void connect_pair(int *here, int *there)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    struct timeval patience = {.tv_sec = 10};
    int on = 1;
    CAY_AUTO_FD int listener = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(listener, SOL_SOCKET, SO_OOBINLINE, &on, sizeof on); /* as a way's */
    *here = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&at, len) < 0 || listen(listener, 1) < 0 ||
        getsockname(listener, (struct sockaddr *)&at, &len) < 0 ||
        connect(*here, (struct sockaddr *)&at, len) < 0)
        abort();
    setsockopt(*here, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    *there = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
}

static void is_over(struct cay_link *p, bool reset)
{
    struct cay_connection *c =
        (struct cay_connection *)((char *)p - offsetof(struct cay_connection, pair));
    (void)reset;
    p->relay = NULL;
    c->pair.in.fd = c->pair.out.fd = -1;
    cay_connection_cut(c);
}

static void begin_in_loop(void *arg)
{
    struct bench *b = arg;
    struct cay_egress *e = &b->egress;
    struct cay_connection *c = b->c = calloc(1, sizeof *c);
    cay_relay_init(&e->relay, e->loop, 64, 60000);
    cay_connect_init(e);
    b->way = (struct cay_way){.egress = e, .payer = &b->payer, .connection_count = 1};
    b->way.policy = (struct cay_policy){
        .names = names, .name_count = 3, .headers = headers, .header_count = COUNT(headers)};
    b->payer.connections = e->connections = 1;
    c->way = &b->way;
    c->to = (struct cay_address){cay_address_of4(0xcb007107), 80};
    c->name = strdup("a.example");
    cay_given_add(&b->way.given, &c->to.ip, "b.example", INT64_MAX);
    c->link = &b->way.connections;
    b->way.connections = c;
    connect_pair(&b->left, &c->pair.in.fd);
    connect_pair(&b->right, &c->pair.out.fd);
    c->pair.sent.looks = true;
    c->pair.asks = cay_edge_asks;
    c->pair.over = is_over;
    CHECK("begins", cay_link_begin(&c->pair, &e->relay));
}

static void begin(struct bench *b)
{
    struct cay_error err;
    *b = (struct bench){0};
    CHECK_EQ("loop", cay_loop_open("test", &b->egress.loop, &err), 0);
    cay_loop_ask(b->egress.loop, begin_in_loop, b);
}

static void end_in_loop(void *arg)
{
    struct bench *b = arg;
    cay_way_cut(&b->way);
    cay_wishes_done(&b->way);
    cay_given_done(&b->way.given);
    cay_relay_done(&b->egress.relay);
}

static void end(struct bench *b)
{
    cay_loop_ask(b->egress.loop, end_in_loop, b);
    cay_loop_close(b->egress.loop);
    cay_close_fd(&b->left);
    cay_close_fd(&b->right);
}

static void say(int fd, const char *text)
{
    CHECK_EQ(text, send(fd, text, strlen(text), MSG_NOSIGNAL), (long long)strlen(text));
}

/* All that comes until the end; false: that was a reset. */
static bool hear(int fd, char *out, size_t size)
{
    size_t len = 0;
    ssize_t n;
    while ((n = recv(fd, out + len, size - 1 - len, 0)) > 0)
        len += (size_t)n;
    out[len] = 0;
    return n == 0;
}

static const struct {
    const char *what, *said, *heard;
    bool cut;
} cases[] = {
    {"a header", GET A "\r\n", GET A TOKEN "\r\n", false},
    {"in the place of its own", GET A "AUTHORIZATION: mine\r\nX: y\r\n\r\n",
     GET A "X: y\r\n" TOKEN "\r\n", false},
    {"in every request", GET A "\r\n" GET A "\r\n", GET A TOKEN "\r\n" GET A TOKEN "\r\n", false},
    {"behind a body", "PUT / HTTP/1.1\r\n" A "Content-Length: 3\r\n\r\nabc" GET A "\r\n",
     "PUT / HTTP/1.1\r\n" A "Content-Length: 3\r\n" TOKEN "\r\nabc" GET A TOKEN "\r\n", false},
    {"behind chunks",
     "PUT / HTTP/1.1\r\n" A "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX: y\r\n\r\n" GET A
     "\r\n",
     "PUT / HTTP/1.1\r\n" A "Transfer-Encoding: chunked\r\n" TOKEN
     "\r\n3\r\nabc\r\n0\r\nX: y\r\n\r\n" GET A TOKEN "\r\n",
     false},
    {"the first rule that has it", GET B "\r\n", GET B "authorization: never\r\n\r\n", false},
    {"not where the address was given for another", GET "Host: c.example\r\n\r\n",
     GET "Host: c.example\r\n\r\n", false},
    {"not where it would be told", "TRACE / HTTP/1.1\r\n" A "\r\n", "TRACE / HTTP/1.1\r\n" A "\r\n",
     false},
    {"another host", GET EVIL "\r\n", "", true},
    {"another host in the second", GET "\r\n" GET EVIL "\r\n", GET "\r\n", true},
    {"another host behind a body", "PUT / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc" GET EVIL "\r\n",
     "PUT / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", true},
    {"another host behind chunks",
     "PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n" GET EVIL "\r\n",
     "PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n", true},
    {"broken chunks", "PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n",
     "PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na", true},
    {"no HTTP behind it", GET "\r\nwhatever\r\n", GET "\r\n", true},
    {"two lengths", GET A "Content-Length: 1\r\nContent-Length: 2\r\n\r\n", "", true},
    {"HTTP/2 is not asked for", GET "Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
     GET "Connection: Upgrade\r\n\r\n", false},
    {"nor a WebSocket in a second request", GET "\r\n" GET SWITCH "\r\n",
     GET "\r\n" GET "Connection: Upgrade\r\n\r\n", false},
    {"nor a proxy", GET "\r\nCONNECT a.example:443 HTTP/1.1\r\n\r\n", GET "\r\n", true},
    {"another protocol", "EHLO x\r\n" GET EVIL "\r\n", "EHLO x\r\n" GET EVIL "\r\n", false},
    {"half a head", GET "Host: evil", "", true},
    {"half a second one", GET "\r\n" GET "Host: evil", GET "\r\n", true},
    {"a blank line more", GET "\r\n\r\n", GET "\r\n\r\n", false},
    {"half of something else", "whatever it", "whatever it", false},
    {"none of old", "GET http://evil.example/\r\n", "", true},
    {"line feeds become ends of lines",
     "PUT / HTTP/1.1\n"
     "Host: c.example\nContent-Length: 4\n\nbody" GET "Host: c.example\r\n\r\n",
     "PUT / HTTP/1.1\r\nHost: c.example\r\nContent-Length: 4\r\n\r\nbody" GET
     "Host: c.example\r\n\r\n",
     false},
    {"nothing", "", "", false},
};

TEST(edge_reads_every_request)
{
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct bench b;
        char heard[2048];
        begin(&b);
        say(b.left, cases[i].said);
        shutdown(b.left, SHUT_WR);
        bool whole = hear(b.right, heard, sizeof heard);
        CHECK_EQ(cases[i].what, !whole, cases[i].cut);
        if (!cases[i].cut) /* a reset may overtake bytes */
            CHECK_STR(cases[i].what, heard, cases[i].heard);
        else
            CHECK(cases[i].what, strncmp(heard, cases[i].heard, strlen(heard)) == 0);
        end(&b);
    }
}

/* The proxy was told one name, and asks for its address itself. */
TEST(edge_gives_a_proxy_only_what_is_for_the_name_that_it_was_told)
{
    struct bench b;
    char heard[512];
    begin(&b);
    b.c->proxied = true;
    say(b.left, GET B "\r\n" GET A "\r\n");
    shutdown(b.left, SHUT_WR);
    CHECK("whole", hear(b.right, heard, sizeof heard));
    CHECK_STR("the second alone", heard, GET B "\r\n" GET A TOKEN "\r\n");
    end(&b);
}

static void nothing(void *arg)
{
    (void)arg;
}

TEST(edge_waits_for_the_rest)
{
    struct bench b;
    char heard[256];
    begin(&b);
    for (const char *c = GET A "\r\n"; *c; c++) {
        say(b.left, (char[]){*c, 0});
        cay_loop_ask(b.egress.loop, nothing, NULL);
    }
    shutdown(b.left, SHUT_WR);
    CHECK("whole", hear(b.right, heard, sizeof heard));
    CHECK_STR("with its header", heard, GET A TOKEN "\r\n");
    end(&b);
}

static atomic_uint asked;

static bool ask_and_count(struct cay_link *p, struct cay_flow *f)
{
    asked++;
    return cay_edge_asks(p, f);
}

static void unheaded_in_loop(void *arg)
{
    struct bench *b = arg;
    b->way.policy.header_count = 0;
    b->c->pair.asks = ask_and_count;
}

/* Thousands of small pieces that came together are not asked about one by one: that would cost us
 * far more than who sends them. */
TEST(edge_is_not_kept_busy_by_small_pieces)
{
    static const char head[] = "PUT / HTTP/1.1\r\n" A "Transfer-Encoding: chunked\r\n\r\n";
    enum { CHUNKS = 2000, ROOM = sizeof head + CHUNKS * 6 + 6 };
    struct bench b;
    char *said = calloc(1, ROOM), *heard = calloc(1, ROOM);
    size_t len = sizeof head - 1;
    memcpy(said, head, len);
    for (int i = 0; i < CHUNKS; i++, len += 6)
        memcpy(said + len, "1\r\nx\r\n", 6);
    memcpy(said + len, "0\r\n\r\n", 6);
    begin(&b);
    cay_loop_ask(b.egress.loop, unheaded_in_loop, &b);
    asked = 0;
    say(b.left, said);
    shutdown(b.left, SHUT_WR);
    CHECK("whole", hear(b.right, heard, ROOM));
    CHECK_STR("all of it", heard, said);
    end(&b);
    CHECK("asked a few times", asked < 20);
    free(said);
    free(heard);
}

/* What was seen together passes together; and each is judged all the same. */
TEST(edge_looks_further)
{
    static const char said[] = GET A "\r\n" GET "\r\n" GET A "Content-Length: 2\r\n\r\nab"
                                     "PUT / HTTP/1.1\r\n" A "Transfer-Encoding: chunked\r\n\r\n"
                                     "1\r\na\r\n2\r\nbc\r\n0\r\n\r\n" GET B "\r\n" GET A "\r\n";
    struct bench b;
    char heard[1024];
    for (size_t cut = 0; cut < sizeof said - 1; cut += 7) {
        begin(&b);
        cay_loop_ask(b.egress.loop, unheaded_in_loop, &b);
        CHECK_EQ("a part", send(b.left, said, cut, MSG_NOSIGNAL), (long long)cut);
        cay_loop_ask(b.egress.loop, nothing, NULL);
        say(b.left, said + cut);
        shutdown(b.left, SHUT_WR);
        CHECK("whole", hear(b.right, heard, sizeof heard));
        CHECK_STR("all of it", heard, said);
        end(&b);
    }
    begin(&b);
    cay_loop_ask(b.egress.loop, unheaded_in_loop, &b);
    say(b.left, GET A "\r\n" GET A "\r\n" GET EVIL "\r\n" GET A "\r\n");
    CHECK("cut", !hear(b.right, heard, sizeof heard));
    CHECK("nothing of it", !strstr(heard, "evil"));
    end(&b);
    for (int late = 0; late < 2; late++) {
        begin(&b);
        cay_loop_ask(b.egress.loop, unheaded_in_loop, &b);
        say(b.left, GET A "\r\n" GET EVIL);
        if (late)
            CHECK("the first", recv(b.right, heard, strlen(GET A "\r\n"), MSG_WAITALL) > 0);
        shutdown(b.left, SHUT_WR);
        CHECK("cut", !hear(b.right, heard, sizeof heard));
        CHECK("nothing of half of one", !strstr(heard, "evil"));
        end(&b);
    }
}

/* Nobody sees what is behind an urgent byte until that was read. */
TEST(edge_is_not_deceived_by_urgent_bytes)
{
    struct bench b;
    char heard[256];
    begin(&b);
    CHECK_EQ("urgent", send(b.left, "GE", 2, MSG_OOB), 2);
    say(b.left, "T / HTTP/1.1\r\n" EVIL "\r\n");
    shutdown(b.left, SHUT_WR);
    CHECK("cut", !hear(b.right, heard, sizeof heard));
    CHECK_STR("nothing of it", heard, "");
    end(&b);
}

TEST(edge_reads_a_slow_head_to_its_end)
{
    struct bench b;
    char head[4096], heard[4096 + 64];
    size_t len = (size_t)snprintf(head, sizeof head, GET A);
    while (len < sizeof head - 64)
        len += (size_t)snprintf(head + len, sizeof head - len, "X: y\r\n");
    begin(&b);
    for (size_t i = 0; i < len; i += 100) {
        CHECK("a part", send(b.left, head + i, len - i < 100 ? len - i : 100, MSG_NOSIGNAL) > 0);
        cay_loop_ask(b.egress.loop, nothing, NULL);
    }
    say(b.left, "\r\n");
    shutdown(b.left, SHUT_WR);
    CHECK("whole", hear(b.right, heard, sizeof heard));
    CHECK("with its header", strstr(heard, TOKEN "\r\n"));
    end(&b);
}

static const struct {
    const char *what, *asked, *passed, *answer;
    const char *then, *heard;
    bool cut;
} leaving[] = {
    {"a WebSocket", GET A SWITCH "\r\n", GET A SWITCH TOKEN "\r\n", "HTTP/1.1 101 Yes\r\n\r\n",
     GET EVIL "\r\n", GET EVIL "\r\n", false},
    {"a WebSocket that is refused", GET A SWITCH "\r\n", GET A SWITCH TOKEN "\r\n",
     "HTTP/1.1 400 No\r\n\r\n", GET EVIL "\r\n", "", true},
    {"the next request", GET A SWITCH "\r\n", GET A SWITCH TOKEN "\r\n", "HTTP/1.1 200 No\r\n\r\n",
     GET A "\r\n", GET A TOKEN "\r\n", false},
    {"a proxy", "CONNECT a.example:443 HTTP/1.1\r\n" A "\r\n",
     "CONNECT a.example:443 HTTP/1.1\r\n" A "\r\n", "HTTP/1.0 200 Yes\r\n\r\n", GET EVIL "\r\n",
     GET EVIL "\r\n", false},
    {"a proxy that refuses", "CONNECT a.example:443 HTTP/1.1\r\n" A "\r\n",
     "CONNECT a.example:443 HTTP/1.1\r\n" A "\r\n", "HTTP/1.1 403 No\r\n\r\n", GET EVIL "\r\n", "",
     true},
};

TEST(edge_lets_go_after_a_yes)
{
    for (size_t i = 0; i < COUNT(leaving); i++) {
        struct bench b;
        char heard[512] = {0};
        const char *what = leaving[i].what;
        size_t passed = strlen(leaving[i].passed), answered = strlen(leaving[i].answer);
        begin(&b);
        say(b.left, leaving[i].asked);
        CHECK_EQ(what, recv(b.right, heard, passed, MSG_WAITALL), (long long)passed);
        CHECK_STR(what, heard, leaving[i].passed);
        say(b.right, leaving[i].answer);
        CHECK_EQ(what, recv(b.left, heard, answered, MSG_WAITALL), (long long)answered);
        say(b.left, leaving[i].then);
        shutdown(b.left, SHUT_WR);
        CHECK_EQ(what, !hear(b.right, heard, sizeof heard), leaving[i].cut);
        CHECK_STR(what, heard, leaving[i].heard);
        end(&b);
    }
}

static void change_in_loop(void *arg)
{
    struct bench *b = arg;
    cay_way_judge_again(&b->way);
    b->over = !b->way.connections;
}

static bool survives(struct bench *b)
{
    cay_loop_ask(b->egress.loop, change_in_loop, b);
    return !b->over;
}

static void unlook_in_loop(void *arg)
{
    struct bench *b = arg;
    b->c->pair.sent.looks = false;
}

/* A policy that lists names comes while a connection stands that nobody looked at. */
TEST(edge_cuts_what_nobody_looked_at)
{
    struct bench b;
    char got[8];
    begin(&b);
    cay_loop_ask(b.egress.loop, unlook_in_loop, &b);
    CHECK("it said nothing yet", survives(&b));
    CHECK("and is looked at from now on", b.c->pair.sent.looks);
    say(b.left, GET EVIL "\r\n");
    CHECK("so it is cut", !hear(b.right, got, sizeof got));
    end(&b);

    begin(&b);
    cay_loop_ask(b.egress.loop, unlook_in_loop, &b);
    say(b.left, "x");
    CHECK_EQ("it said something", recv(b.right, got, 1, 0), 1);
    CHECK("so it is cut", !survives(&b));
    end(&b);
}

/* What was given for ten minutes is allowed for as long as the connection stands. */
TEST(edge_keeps_what_is_still_allowed)
{
    struct bench b;
    char heard[256];
    begin(&b);
    b.way.policy.names = &names[0];
    b.way.policy.name_count = 1;
    CHECK("its name is allowed", survives(&b));
    say(b.left, "\x16\3\1\0\4\2\0\0\0");
    shutdown(b.left, SHUT_WR);
    CHECK("heard", hear(b.right, heard, sizeof heard));
    CHECK("one that was looked at", survives(&b));
    b.way.policy.names = &names[2];
    CHECK("its name is not", !survives(&b));
    end(&b);
}
