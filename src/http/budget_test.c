/* SPDX-License-Identifier: Apache-2.0 */
#include "http/budget.h"
#include "http/toy_test.h"
#include "tests/test.h"
#include <string.h>
#include <sys/socket.h>

#define HOST "Host: localhost\r\n"
#define BIG "GET /big HTTP/1.1\r\n" HOST "\r\n"
#define BIG_MIB 32
#define FIT (CAY_HTTP_LARGE_BUDGET / CAY_MIB / BIG_MIB) /* such answers, at once */

static struct toy toy;
static struct toy_client unread[FIT], client;
static struct toy_answer answer;

static int claimed_mib(void)
{
    return (int)(atomic_load(&cay_http_large.value) / CAY_MIB);
}

static void ask(struct toy_client *c, const char *request)
{
    toy_connect(&toy, c);
    toy_send(c, request);
}

static void expect(const char *name, const char *request, int status)
{
    ask(&client, request);
    toy_read_head(&client, &answer);
    CHECK_EQ(name, answer.status, status);
    toy_close(&client);
}

/* As many as fit wait to be read; who comes then is told so, and nobody else feels it. */
TEST(budget_bounds_what_nobody_reads)
{
    cay_budget_wait_ms = 20;
    toy_init(&toy, 2);
    toy_start(&toy);
    for (size_t i = 0; i < FIT; i++)
        ask(&unread[i], BIG);
    CHECK("all of it is claimed", toy_until(claimed_mib, FIT * BIG_MIB));
    ask(&client, BIG);
    toy_read(&client, &answer);
    CHECK_EQ("one more", answer.status, 503);
    CHECK_STR("why", answer.body, "TOO_MANY_LARGE_ANSWERS");
    toy_send(&client, "GET /hello HTTP/1.1\r\n" HOST "\r\n");
    toy_read(&client, &answer);
    CHECK_STR("a small one", answer.body, "hello");
    toy_close(&client);
    expect("what has done something is told",
           "POST /big HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\n", 200);
    for (size_t i = 0; i < FIT; i++)
        toy_close(&unread[i]);
    CHECK("given back", toy_until(claimed_mib, 0));
    expect("as before", BIG, 200);
    CHECK("and again", toy_until(claimed_mib, 0));
    toy_stop(&toy);
}

/* The worst case is claimed while an answer is made; what is left of it is what the body has. */
TEST(budget_is_made_to_fit)
{
    toy_init(&toy, 2);
    toy_start(&toy);
    cay_budget_wait_ms = 20;
    ask(&client, "GET /claim HTTP/1.1\r\n" HOST "\r\n");
    CHECK("it is being made", toy_until(toy_held, 1));
    CHECK("the worst case", claimed_mib() >= CAY_HTTP_LARGE_BUDGET / CAY_MIB / 2);
    ask(&unread[0], "GET /claim HTTP/1.1\r\n" HOST "\r\n");
    toy_read(&unread[0], &answer);
    CHECK_EQ("another", answer.status, 503);
    toy_close(&unread[0]);
    cay_budget_wait_ms = test_ms(10000);
    ask(&unread[0], "GET /claim HTTP/1.1\r\n" HOST "\r\n");
    CHECK("waits for room", toy_until(toy_held, 1));
    toy_release(1);
    toy_read(&client, &answer);
    CHECK_STR("it is small", answer.body, "hello");
    CHECK("then there is room", toy_until(toy_held, 1));
    toy_release(1);
    toy_read(&unread[0], &answer);
    CHECK_STR("for the next", answer.body, "hello");
    toy_close(&unread[0]);
    cay_budget_wait_ms = 20;
    CHECK_EQ("nothing is left", atomic_load(&cay_http_large.value), 0);
    toy_close(&client);
    expect("one that fails", "GET /claim?fail HTTP/1.1\r\n" HOST "\r\n", 409);
    CHECK_EQ("keeps nothing", atomic_load(&cay_http_large.value), 0);
    expect("nor does a head", "HEAD /big HTTP/1.1\r\n" HOST "\r\n", 200);
    CHECK("alone", toy_until(claimed_mib, 0));
    toy_stop(&toy);
}

static void read_all(void)
{
    size_t want = (size_t)BIG_MIB * CAY_MIB;
    toy_read_head(&client, &answer);
    for (size_t got = client.len; got < want;) {
        ssize_t n = recv(client.fd, client.bytes, sizeof client.bytes, 0);
        if (n <= 0)
            break;
        got += (size_t)n;
    }
}

static void leave(void)
{
    toy_close(&client);
}

static void drain(void)
{
    toy_stop(&toy);
}

/* Whatever becomes of an answer, its claim is given back. */
TEST(budget_ends_with_its_answer)
{
    static const struct {
        const char *name;
        int64_t write_ms, large_ms, drain_ms;
        void (*end)(void);
    } cases[] = {
        {"read", 60000, 60000, 60000, read_all},
        {"the client goes", 60000, 60000, 60000, leave},
        {"he takes nothing", 80, 60000, 60000, NULL},
        {"he takes too long", 60000, 80, 60000, NULL},
        {"the server drains", 60000, 60000, 80, drain},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        toy_init(&toy, 1);
        toy.server->times.write_ms = cases[i].write_ms;
        toy.server->times.large_ms = cases[i].large_ms;
        toy.server->times.drain_ms = cases[i].drain_ms;
        toy_start(&toy);
        ask(&client, BIG);
        CHECK(cases[i].name, toy_until(claimed_mib, BIG_MIB) || !cases[i].end);
        if (cases[i].end)
            cases[i].end();
        CHECK(cases[i].name, toy_until(claimed_mib, 0));
        toy_close(&client);
        if (cases[i].end != drain)
            toy_stop(&toy);
    }
}
