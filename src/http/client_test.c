/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "http/client.h"
#include "tests/test.h"
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>

/* A server that answers every connection's first bytes with what it was given, then closes. */
struct peer {
    int fd;
    const char *bytes;
    bool stay; /* does not close until the client does */
    char asked[4096];
};

static void *serve(void *arg)
{
    struct peer *p = arg;
    char sink[256];
    ssize_t n = recv(p->fd, p->asked, sizeof p->asked - 1, 0);
    p->asked[n > 0 ? n : 0] = 0;
    (void)send(p->fd, p->bytes, strlen(p->bytes), MSG_NOSIGNAL); /* the client may have left */
    while (p->stay && recv(p->fd, sink, sizeof sink, 0) > 0)
        ;
    (void)close(p->fd);
    return NULL;
}

static int ask(struct peer *p, const struct cay_client_request *req, struct cay_client_answer *out,
               struct cay_error *err)
{
    struct cay_client *c = NULL;
    pthread_t thread;
    int fds[2];
    CHECK_EQ("a pair", socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    CHECK_EQ("a client", cay_client_new("http://test:1/base/", "secret", &c, err), 0);
    cay_client_use_fd(c, fds[0]);
    p->fd = fds[1];
    CHECK_EQ("a thread", pthread_create(&thread, NULL, serve, p), 0);
    int r = cay_client_call(c, req, out, err);
    cay_client_free(c);
    (void)pthread_join(thread, NULL);
    return r;
}

#define OK "HTTP/1.1 200 OK\r\n"
#define CHUNKED OK "Transfer-Encoding: chunked\r\n\r\n"

static const struct {
    const char *name, *bytes;
    int want, status;
    const char *body;
} cases[] = {
    {"fixed", OK "Content-Length: 2\r\n\r\nhi", 0, 200, "hi"},
    {"fixed and empty", OK "Content-Length: 0\r\n\r\n", 0, 200, ""},
    {"chunked", CHUNKED "1\r\na\r\n2;x=y\r\nbc\r\n0\r\n\r\n", 0, 200, "abc"},
    {"chunked with a trailer", CHUNKED "1\r\na\r\n0\r\nX: y\r\n\r\n", 0, 200, "a"},
    {"no content", "HTTP/1.1 204 No Content\r\n\r\n", 0, 204, ""},
    {"an error with a body", "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}", 0, 404, "{}"},
    {"interim first", "HTTP/1.1 100 Continue\r\n\r\n" OK "Content-Length: 1\r\n\r\nx", 0, 200, "x"},
    {"no reason phrase", "HTTP/1.1 200\r\nContent-Length: 1\r\n\r\nx", 0, 200, "x"},
    {"bytes behind the end", OK "Content-Length: 1\r\n\r\nxyz", 0, 200, "x"},
    {"nothing", "", CAY_ERR_UNAVAILABLE, 0, NULL},
    {"half a head", OK "Content-Le", CAY_ERR_UNAVAILABLE, 0, NULL},
    {"half a body", OK "Content-Length: 5\r\n\r\nhi", CAY_ERR_UNAVAILABLE, 0, NULL},
    {"half a chunk", CHUNKED "5\r\nhi", CAY_ERR_UNAVAILABLE, 0, NULL},
    {"no last chunk", CHUNKED "2\r\nhi\r\n", CAY_ERR_UNAVAILABLE, 0, NULL},
    {"two lengths", OK "Content-Length: 2\r\nContent-Length: 2\r\n\r\nhi", CAY_ERR_PROVIDER, 0,
     NULL},
    {"length and chunked", OK "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
     CAY_ERR_PROVIDER, 0, NULL},
    {"chunked twice", OK "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
     CAY_ERR_PROVIDER, 0, NULL},
    {"gzip", OK "Transfer-Encoding: gzip, chunked\r\n\r\n", CAY_ERR_PROVIDER, 0, NULL},
    {"encoded", OK "Content-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx", CAY_ERR_PROVIDER, 0,
     NULL},
    {"chunked in 1.0", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
     CAY_ERR_PROVIDER, 0, NULL},
    {"until close", OK "\r\nhello", CAY_ERR_PROVIDER, 0, NULL},
    {"negative length", OK "Content-Length: -1\r\n\r\n", CAY_ERR_PROVIDER, 0, NULL},
    {"signed length", OK "Content-Length: +1\r\n\r\nx", CAY_ERR_PROVIDER, 0, NULL},
    {"list of lengths", OK "Content-Length: 1, 1\r\n\r\nx", CAY_ERR_PROVIDER, 0, NULL},
    {"length of 20 digits", OK "Content-Length: 18446744073709551617\r\n\r\nx", CAY_ERR_PROVIDER, 0,
     NULL},
    {"length larger than taken", OK "Content-Length: 9007199254740993\r\n\r\nx", CAY_ERR_PROVIDER,
     0, NULL},
    {"no hex", CHUNKED "x\r\n", CAY_ERR_PROVIDER, 0, NULL},
    {"an empty size", CHUNKED "\r\n", CAY_ERR_PROVIDER, 0, NULL},
    {"a blank before the size", CHUNKED " 1\r\na\r\n0\r\n\r\n", CAY_ERR_PROVIDER, 0, NULL},
    {"a size that wraps", CHUNKED "10000000000000001\r\na\r\n", CAY_ERR_PROVIDER, 0, NULL},
    {"a chunk too long", CHUNKED "1\r\nab\r\n0\r\n\r\n", CAY_ERR_PROVIDER, 0, NULL},
    {"bare line feeds", "HTTP/1.1 200 OK\nContent-Length: 1\n\nx", CAY_ERR_PROVIDER, 0, NULL},
    {"a folded header", OK "A: b\r\n c\r\nContent-Length: 1\r\n\r\nx", CAY_ERR_PROVIDER, 0, NULL},
    {"a blank before the colon", OK "Content-Length : 1\r\n\r\nx", CAY_ERR_PROVIDER, 0, NULL},
    {"a header without name", OK ": x\r\n\r\n", CAY_ERR_PROVIDER, 0, NULL},
    {"a control character", OK "A: b\x01\r\nContent-Length: 0\r\n\r\n", CAY_ERR_PROVIDER, 0, NULL},
    {"another protocol", "SSH-2.0-OpenSSH_9.2\r\n", CAY_ERR_PROVIDER, 0, NULL},
    {"another version", "HTTP/2.0 200 OK\r\n\r\n", CAY_ERR_PROVIDER, 0, NULL},
    {"no status", "HTTP/1.1 2x0 OK\r\n\r\n", CAY_ERR_PROVIDER, 0, NULL},
    {"status 600", "HTTP/1.1 600 OK\r\n\r\n", CAY_ERR_PROVIDER, 0, NULL},
    {"switched", "HTTP/1.1 101 Switching Protocols\r\n\r\n", CAY_ERR_PROVIDER, 0, NULL},
    {"a trailer that is none", CHUNKED "0\r\nnope\r\n\r\n", CAY_ERR_PROVIDER, 0, NULL},
};

TEST(client_reads_answers)
{
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct cay_error err = {0};
        struct peer p = {.bytes = cases[i].bytes};
        CAY_AUTO_ANSWER struct cay_client_answer answer = {0};
        const struct cay_client_request req = {.method = "POST", .path = "/x", .idle_ms = 5000};
        int r = ask(&p, &req, &answer, &err);
        CHECK_EQ(cases[i].name, r, cases[i].want);
        CHECK_EQ(cases[i].name, answer.status, cases[i].status);
        CHECK_STR(cases[i].name, answer.body.data, cases[i].body);
    }
}

static char *repeat(const char *head, const char *part, size_t times)
{
    struct cay_buf b = {0};
    cay_buf_adds(&b, head);
    for (size_t i = 0; i < times; i++)
        cay_buf_adds(&b, part);
    cay_buf_addc(&b, 0);
    return b.data;
}

TEST(client_is_bounded)
{
    static const struct {
        const char *name, *head, *part;
        size_t times;
        int want;
    } floods[] = {
        {"a long header", OK "A: ", "xxxxxxxx", 8192, CAY_ERR_PROVIDER},
        {"many headers", OK, "A: b\r\n", 200, CAY_ERR_PROVIDER},
        {"many interim answers", "", "HTTP/1.1 100 Continue\r\n\r\n", 50, CAY_ERR_PROVIDER},
        {"a long chunk line", CHUNKED "1;", "xxxxxxxx", 100, CAY_ERR_PROVIDER},
        {"an endless trailer", CHUNKED "0\r\n", "A: b\r\n", 2000, CAY_ERR_PROVIDER},
        {"a large error", "HTTP/1.1 500 Oops\r\nContent-Length: 9000000\r\n\r\n", "xxxxxxxx",
         250000, CAY_ERR_TOO_LARGE},
    };
    for (size_t i = 0; i < COUNT(floods); i++) {
        struct cay_error err = {0};
        CAY_AUTO_FREE char *bytes = repeat(floods[i].head, floods[i].part, floods[i].times);
        struct peer p = {.bytes = bytes};
        CAY_AUTO_ANSWER struct cay_client_answer answer = {0};
        const struct cay_client_request req = {.method = "GET", .path = "/", .idle_ms = 5000};
        CHECK_EQ(floods[i].name, ask(&p, &req, &answer, &err), floods[i].want);
    }
}

static int gather(void *arg, const char *data, size_t len, struct cay_error *err)
{
    if (memchr(data, '!', len))
        return cay_fail(err, CAY_ERR_LIMIT, "enough");
    cay_buf_add(arg, data, len);
    return 0;
}

TEST(client_streams)
{
    static const struct {
        const char *name, *bytes;
        int want;
        const char *streamed, *body;
    } streams[] = {
        {"bytes of a good answer", CHUNKED "2\r\nab\r\n1\r\nc\r\n0\r\n\r\n", 0, "abc", ""},
        {"an error is collected", "HTTP/1.1 409 No\r\nContent-Length: 2\r\n\r\n{}", 0, "", "{}"},
        {"the reader may end it", CHUNKED "2\r\nab\r\n", CAY_ERR_UNAVAILABLE, "ab", NULL},
        {"the reader ends it", CHUNKED "2\r\na!\r\n", CAY_ERR_LIMIT, "", NULL},
    };
    for (size_t i = 0; i < COUNT(streams); i++) {
        struct cay_error err = {0};
        CAY_AUTO_BUF struct cay_buf got = {0};
        struct peer p = {.bytes = streams[i].bytes};
        CAY_AUTO_ANSWER struct cay_client_answer answer = {0};
        const struct cay_client_request req = {
            .method = "GET", .path = "/", .idle_ms = 5000, .on_data = gather, .arg = &got};
        CHECK_EQ(streams[i].name, ask(&p, &req, &answer, &err), streams[i].want);
        cay_buf_addc(&got, 0);
        CHECK_STR(streams[i].name, got.data, streams[i].streamed);
        CHECK_STR(streams[i].name, answer.body.data, streams[i].body);
    }
}

TEST(client_asks_as_told)
{
    struct cay_error err = {0};
    struct peer p = {.bytes = OK "Content-Length: 0\r\n\r\n"};
    CAY_AUTO_ANSWER struct cay_client_answer answer = {0};
    struct cay_client_request req = {
        .method = "POST", .path = "/a?b=c", .body = "{}", .body_len = 2, .last_event_id = "7"};
    CHECK_EQ("asked", ask(&p, &req, &answer, &err), 0);
    CHECK("line", strstr(p.asked, "POST /base/a?b=c HTTP/1.1\r\nHost: test:1\r\n") == p.asked);
    CHECK("token", strstr(p.asked, "\r\nAuthorization: Bearer secret\r\n"));
    CHECK("event", strstr(p.asked, "\r\nLast-Event-ID: 7\r\n"));
    CHECK("body", strstr(p.asked, "\r\nContent-Length: 2\r\n\r\n{}"));
    req.path = "/a b\r\nX: y";
    struct peer other = {.bytes = ""};
    CHECK_EQ("no line break gets in", ask(&other, &req, &answer, &err), CAY_ERR_INVALID);
    CHECK_STR("nothing was sent", other.asked, "");
}

TEST(client_waits_no_longer_than_told)
{
    struct cay_error err = {0};
    struct cay_client_answer answer = {0};
    struct cay_client_request req = {.method = "GET", .path = "/", .idle_ms = 20};
    struct peer p = {.bytes = OK, .stay = true};
    CHECK_EQ("silence", ask(&p, &req, &answer, &err), CAY_ERR_TIMEOUT);
    req.idle_ms = 60000;
    req.until_ms = cay_clock_mono_ms() + 20;
    CHECK_EQ("the deadline", ask(&p, &req, &answer, &err), CAY_ERR_TIMEOUT);
}

TEST(client_can_be_interrupted)
{
    struct cay_error err = {0};
    struct cay_client *c = NULL;
    struct cay_client_answer answer = {0};
    const struct cay_client_request req = {.method = "GET", .path = "/"};
    int fds[2], wake[2];
    CHECK_EQ("a pair", socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    CHECK_EQ("a pipe", pipe(wake), 0);
    CHECK_EQ("a client", cay_client_new("http://test", NULL, &c, &err), 0);
    cay_client_use_fd(c, fds[0]);
    cay_client_interrupt_on(c, wake[0]);
    CHECK_EQ("a byte", write(wake[1], "x", 1), 1);
    CHECK_EQ("interrupted", cay_client_call(c, &req, &answer, &err), CAY_ERR_CONFLICT);
    cay_client_free(c);
    (void)close(fds[1]);
    (void)close(wake[0]);
    (void)close(wake[1]);
}

TEST(client_urls)
{
    static const struct {
        const char *url;
        int want;
    } urls[] = {
        {"http://127.0.0.1:3000", 0},
        {"http://localhost", 0},
        {"http://[::1]:3000/", 0},
        {"HTTP://host:1/a/b", 0},
        {"https://host", 0},
        {"HTTPS://host:1/a", 0},
        {"https://", CAY_ERR_INVALID},
        {"httpss://host", CAY_ERR_INVALID},
        {"", CAY_ERR_INVALID},
        {"host:3000", CAY_ERR_INVALID},
        {"http://", CAY_ERR_INVALID},
        {"http://:3000", CAY_ERR_INVALID},
        {"http://host:", CAY_ERR_INVALID},
        {"http://host:0", CAY_ERR_INVALID},
        {"http://host:65536", CAY_ERR_INVALID},
        {"http://host:3000x", CAY_ERR_INVALID},
        {"http://user:secret@host", CAY_ERR_INVALID},
        {"http://[::1", CAY_ERR_INVALID},
        {"http://[::1]x", CAY_ERR_INVALID},
        {"http://host/?q", CAY_ERR_INVALID},
        {"http://ho st", CAY_ERR_INVALID},
        {"http://host\r\nX: y", CAY_ERR_INVALID},
    };
    for (size_t i = 0; i < COUNT(urls); i++) {
        struct cay_error err = {0};
        struct cay_client *c = NULL;
        CHECK_EQ(urls[i].url, cay_client_new(urls[i].url, NULL, &c, &err), urls[i].want);
        cay_client_free(c);
    }
}
