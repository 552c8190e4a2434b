/* SPDX-License-Identifier: Apache-2.0 */
#include "http/toy_test.h"
#include "tests/test.h"
#include <sys/socket.h>

static struct toy toy;
static struct toy_client client;
static struct toy_answer answer;

#define HOST "Host: localhost\r\n"
#define HELLO "GET /hello HTTP/1.1\r\n" HOST "\r\n"
#define FOLLOW "GET /follow HTTP/1.1\r\n" HOST "\r\n"
#define DEFER "POST /defer?it HTTP/1.1\r\n" HOST "\r\n"

TEST(http_stream_follows_a_file)
{
    toy_init(&toy, 2);
    toy_start(&toy);
    toy_append(&toy, "one");
    toy_connect(&toy, &client);
    toy_send(&client, FOLLOW);
    toy_read_head(&client, &answer);
    CHECK_EQ("begins", answer.status, 200);
    CHECK("not to be kept", strstr(answer.head, "Cache-Control: no-store\r\n"));
    CHECK("first", toy_read_chunk(&client, &answer));
    CHECK_STR("first", answer.body, "one");
    for (int i = 0; i < 20; i++) {
        toy_append(&toy, "more");
        CHECK("wakes", toy_read_chunk(&client, &answer));
        CHECK_STR("wakes", answer.body, "more");
    }
    toy_append(&toy, "$");
    CHECK("ends", !toy_read_chunk(&client, &answer));
    toy_send(&client, HELLO);
    toy_read(&client, &answer);
    CHECK_STR("the connection goes on", answer.body, "hello");
    toy_close(&client);
    toy_stop(&toy);
}

TEST(http_stream_to_an_old_client_ends_with_the_connection)
{
    toy_init(&toy, 1);
    toy_start(&toy);
    toy_append(&toy, "all of it$");
    toy_connect(&toy, &client);
    toy_send(&client, "GET /follow HTTP/1.0\r\n" HOST "\r\n");
    toy_read_head(&client, &answer);
    CHECK("no chunks", !strstr(answer.head, "Transfer-Encoding"));
    while (client.len < 9) {
        ssize_t n = recv(client.fd, client.bytes + client.len, 100, 0);
        if (n <= 0)
            break;
        client.len += (size_t)n;
    }
    CHECK("the bytes as they are", client.len == 9 && memcmp(client.bytes, "all of it", 9) == 0);
    client.len = 0;
    CHECK("the end", toy_is_closed(&client));
    toy_close(&client);
    toy_stop(&toy);
}

TEST(http_stream_aborts_without_an_end)
{
    toy_init(&toy, 1);
    toy_start(&toy);
    toy_connect(&toy, &client);
    toy_send(&client, FOLLOW);
    toy_read_head(&client, &answer);
    toy_append(&toy, "!");
    while (toy_read_chunk(&client, &answer))
        ;
    CHECK("no last chunk, only the end", client.len == 0 && toy_is_closed(&client));
    toy_close(&client);
    toy_stop(&toy);
}

TEST(http_stream_is_kept_alive_and_closed_with_its_client)
{
    toy_init(&toy, 1);
    toy.server->times.keepalive_ms = 30;
    toy_start(&toy);
    toy_connect(&toy, &client);
    toy_send(&client, FOLLOW);
    toy_read_head(&client, &answer);
    CHECK("a sign of life", toy_read_chunk(&client, &answer));
    CHECK_STR("a sign of life", answer.body, ":\n");
    CHECK_EQ("open", toy_streams(), 1);
    toy_close(&client);
    CHECK("closed", toy_until(toy_streams, 0));
    toy_stop(&toy);
}

TEST(http_stream_has_many_readers)
{
    enum { READERS = 200 };
    static struct toy_client readers[READERS];
    toy_init(&toy, 4);
    toy_start(&toy);
    for (int i = 0; i < READERS; i++) {
        toy_connect(&toy, &readers[i]);
        toy_send(&readers[i], FOLLOW);
        toy_read_head(&readers[i], &answer);
        CHECK_EQ("begins", answer.status, 200);
    }
    for (int line = 0; line < 5; line++) {
        toy_append(&toy, "a line\n");
        for (int i = 0; i < READERS; i++) {
            CHECK("each gets it", toy_read_chunk(&readers[i], &answer));
            CHECK_STR("each gets it", answer.body, "a line\n");
        }
    }
    for (int i = 0; i < READERS / 2; i++)
        toy_close(&readers[i]);
    CHECK("half are gone", toy_until(toy_streams, READERS / 2));
    toy_append(&toy, "$");
    for (int i = READERS / 2; i < READERS; i++) {
        CHECK("the end", !toy_read_chunk(&readers[i], &answer));
        toy_close(&readers[i]);
    }
    toy_stop(&toy);
}

TEST(http_stream_is_woken_by_time)
{
    enum { READERS = 40 };
    static struct toy_client readers[READERS];
    toy_init(&toy, 2);
    toy_start(&toy);
    for (int i = 0; i < READERS; i++) {
        toy_connect(&toy, &readers[i]);
        toy_send(&readers[i], "GET /tick?5 HTTP/1.1\r\n" HOST "\r\n");
    }
    for (int i = 0; i < READERS; i++) {
        toy_read_head(&readers[i], &answer);
        for (int n = 0; n < 5; n++) {
            CHECK("each tick", toy_read_chunk(&readers[i], &answer));
            CHECK_STR("off the loop", answer.body, "tick");
        }
        CHECK("the end", !toy_read_chunk(&readers[i], &answer));
        toy_send(&readers[i], HELLO);
        toy_read(&readers[i], &answer);
        CHECK_STR("the connection goes on", answer.body, "hello");
        toy_close(&readers[i]);
    }
    toy_stop(&toy);
}

/* Work that hangs holds up other streams' work, and no request. */
TEST(http_stream_work_is_bounded)
{
    enum { READERS = 3 * CAY_HTTP_STREAMS_AT_WORK };
    static struct toy_client readers[READERS];
    toy_init(&toy, CAY_HTTP_STREAMS_AT_WORK + 1);
    toy_start(&toy);
    for (int i = 0; i < READERS; i++) {
        toy_connect(&toy, &readers[i]);
        toy_send(&readers[i], "GET /tick?0 HTTP/1.1\r\n" HOST "\r\n");
    }
    CHECK("as many as may", toy_until(toy_held, CAY_HTTP_STREAMS_AT_WORK));
    CHECK("the others wait", toy_until(toy_streams, READERS));
    toy_connect(&toy, &client);
    toy_send(&client, HELLO);
    toy_read(&client, &answer);
    CHECK_STR("requests are answered", answer.body, "hello");
    CHECK_EQ("still no more", toy_held(), CAY_HTTP_STREAMS_AT_WORK);
    for (int i = 0; i < READERS; i++) /* clients go while workers have their streams */
        toy_close(&readers[i]);
    toy_close(&client);
    toy_release(READERS);
    CHECK("all are closed", toy_until(toy_streams, 0));
    toy_stop(&toy);
}

TEST(http_deferred_is_answered_at_the_end)
{
    toy_init(&toy, 1);
    toy_start(&toy);
    toy_connect(&toy, &client);
    toy_send(&client, DEFER);
    CHECK("waits without a worker", toy_until(toy_streams, 1));
    toy_append(&toy, "dropped");
    toy_append(&toy, "$");
    toy_read(&client, &answer);
    CHECK_STR("by the second half", answer.body, "after it");
    toy_send(&client, DEFER);
    toy_read(&client, &answer);
    CHECK_STR("one that is over already", answer.body, "after it");
    toy_close(&client);
    toy_stop(&toy);
}

TEST(http_deferred_is_dropped_with_its_client)
{
    toy_init(&toy, 1);
    toy_start(&toy);
    toy_connect(&toy, &client);
    toy_send(&client, DEFER);
    CHECK("waits", toy_until(toy_streams, 1));
    toy_close(&client);
    CHECK("closed", toy_until(toy_streams, 0));
    CHECK_EQ("no answer was made", toy_logged(), 0);
    toy_stop(&toy);
}

/* F-41: deferred answers are given at once, streams are cut and do not look finished. */
TEST(http_drain_ends_what_lasts)
{
    static struct toy_client stream;
    toy_init(&toy, 1);
    toy_start(&toy);
    toy_connect(&toy, &client);
    toy_connect(&toy, &stream);
    toy_send(&client, DEFER);
    toy_send(&stream, FOLLOW);
    CHECK("both wait", toy_until(toy_streams, 2));
    toy_read_head(&stream, &answer);
    toy_stop(&toy);
    toy_read(&client, &answer);
    CHECK_STR("answered", answer.body, "after it");
    CHECK("cut", toy_is_closed(&stream));
    toy_close(&client);
    toy_close(&stream);
}
