/* SPDX-License-Identifier: Apache-2.0 */
#include "http/forward.h"
#include "http/parse.h"
#include "tests/test.h"
#include <string.h>

static const struct cay_forward by_host = {.host = "localhost:3000", .cookie = "cay-preview"};
static const struct cay_forward by_path = {
    .host = "localhost:3000", .cookie = "cay-preview", .prefix = "/p/sb-x/3000"};
static const struct cay_forward hiding = {
    .host = "localhost:3000", .cookie = "cay-preview", .hides_authorization = true};

static const struct {
    const char *name, *in, *want;
    const struct cay_forward *how;
} requests[] = {
    {"a header that is kept", "X-A: 1\r\n", "x-a: 1\r\n", &by_host},
    {"a client's word about itself", "X-Forwarded-For: 6.6.6.6\r\nForwarded: for=x\r\n", "",
     &by_host},
    {"what Connection names", "Connection: x-a, close\r\nX-A: 1\r\nX-B: 2\r\n", "x-b: 2\r\n",
     &by_host},
    {"but not how long the body is", "Connection: content-length\r\nContent-Length: 3\r\n",
     "content-length: 3\r\n", &by_host},
    {"of this connection only", "TE: trailers\r\nKeep-Alive: 1\r\nProxy-Authorization: x\r\n", "",
     &by_host},
    {"our cookie alone", "Cookie: cay-preview=1\r\n", "", &by_host},
    {"our cookie among others", "Cookie: a=1; cay-preview=2; b=cay-preview=3\r\n",
     "cookie: a=1; b=cay-preview=3\r\n", &by_host},
    {"a cookie that begins like ours", "Cookie: cay-preview2=2\r\n", "cookie: cay-preview2=2\r\n",
     &by_host},
    {"a token of ours", "Authorization: Bearer cay_0\r\n", "", &by_host},
    {"a sandbox's token", "Authorization: bearer  cays_0\r\n", "", &by_host},
    {"a token of its own", "Authorization: Bearer x\r\n", "authorization: Bearer x\r\n", &by_host},
    {"one that was for us", "Authorization: Bearer x\r\n", "", &hiding},
    {"its own origin", "Origin: http://h.localhost:1\r\n", "origin: http://localhost:3000\r\n",
     &by_host},
    {"another origin", "Origin: http://evil\r\n", "origin: http://evil\r\n", &by_host},
    {"an upgrade to something else", "Connection: Upgrade\r\nUpgrade: h2c\r\n", "", &by_host},
    {"what was said to us", "Cay-Token: x\r\nCay-Wait: 1\r\n", "", &by_host},
};

static void forward(const struct cay_forward *how, const char *line, const char *headers,
                    struct cay_buf *out)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    CAY_AUTO_BUF struct cay_buf text = {0};
    struct cay_error err = {0};
    struct cay_head head;
    cay_buf_addf(&text, "%s HTTP/1.1\r\nHost: h.localhost:1\r\n%s\r\n", line, headers);
    CHECK_EQ(line, cay_parse_head(&a, text.data, text.len, &head, &err), 0);
    struct cay_req req = {.arena = &a,
                          .method = head.method,
                          .path = head.path,
                          .query = head.query,
                          .host = head.host,
                          .peer = "127.0.0.1",
                          .headers = head.headers};
    cay_forward_request(how, &req, out);
    cay_buf_addc(out, 0);
}

TEST(forward_requests)
{
    static const char ours[] = "x-forwarded-for: 127.0.0.1\r\nx-forwarded-host: h.localhost:1\r\n"
                               "x-forwarded-proto: http\r\n\r\n";
    for (size_t i = 0; i < COUNT(requests); i++) {
        CAY_AUTO_BUF struct cay_buf out = {0};
        CAY_AUTO_BUF struct cay_buf want = {0};
        forward(requests[i].how, "GET /a?b", requests[i].in, &out);
        cay_buf_addf(&want, "GET /a?b HTTP/1.1\r\nhost: localhost:3000\r\n%s%s", requests[i].want,
                     ours);
        cay_buf_addc(&want, 0);
        CHECK_STR(requests[i].name, out.data, want.data);
    }
}

TEST(forward_request_forms)
{
    static const struct {
        const char *name, *line, *headers, *want;
        const struct cay_forward *how;
    } cases[] = {
        {"the prefix is cut off", "GET /p/sb-x/3000/a", "", "GET /a HTTP/1.1\r\n", &by_path},
        {"nothing is behind it", "GET /p/sb-x/3000?q", "", "GET /?q HTTP/1.1\r\n", &by_path},
        {"it is told", "GET /p/sb-x/3000/", "", "x-forwarded-prefix: /p/sb-x/3000\r\n", &by_path},
        {"a length stays", "POST /", "Content-Length: 3\r\n", "content-length: 3\r\n", &by_host},
        {"chunks stay", "POST /", "Transfer-Encoding: chunked\r\n",
         "transfer-encoding: chunked\r\n\r\n", &by_host},
        {"a WebSocket is asked for", "GET /", "Connection: Upgrade\r\nUpgrade: websocket\r\n",
         "connection: Upgrade\r\nupgrade: websocket\r\n\r\n", &by_host},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        CAY_AUTO_BUF struct cay_buf out = {0};
        forward(cases[i].how, cases[i].line, cases[i].headers, &out);
        CHECK(cases[i].name, strstr(out.data, cases[i].want));
    }
}

#define OK "HTTP/1.1 200 OK\r\n"

static const struct {
    const char *name, *in, *want; /* NULL: refused */
    const struct cay_forward *how;
} answers[] = {
    {"a plain one", OK "X-A: 1\r\nContent-Length: 3\r\n", OK "x-a: 1\r\n", &by_host},
    {"words are kept", "HTTP/1.1 299 Odd words\r\n", "HTTP/1.1 299 Odd words\r\n", &by_host},
    {"without words", "HTTP/1.1 200\r\n", "HTTP/1.1 200\r\n", &by_host},
    {"an old one", "HTTP/1.0 200 OK\r\n", OK, &by_host},
    {"what reaches beyond",
     OK "Strict-Transport-Security: x\r\nClear-Site-Data: x\r\nAlt-Svc: x\r\n"
        "Service-Worker-Allowed: /\r\n",
     OK, &by_host},
    {"of the connection", OK "Connection: close, X-A\r\nX-A: 1\r\nKeep-Alive: 5\r\n", OK, &by_host},
    {"a cookie's domain", OK "Set-Cookie: a=1; domain=x; Path=/\r\n",
     OK "set-cookie: a=1; Path=/\r\n", &by_host},
    {"a domain without a value", OK "Set-Cookie: a=1;Domain\r\n", OK "set-cookie: a=1\r\n",
     &by_host},
    {"a domain as a value", OK "Set-Cookie: a=domain\r\n", OK "set-cookie: a=domain\r\n", &by_host},
    {"a domain behind a tab", OK "Set-Cookie: a=1;\tDomain\t=x; Secure\r\n",
     OK "set-cookie: a=1; Secure\r\n", &by_host},
    {"a cookie in our name, with blanks", OK "Set-Cookie: cay-preview\t =1\r\n", OK, &by_host},
    {"a cookie that comes back as ours", OK "Set-Cookie: =cay-preview=1\r\n", OK, &by_host},
    {"a cookie that begins like ours", OK "Set-Cookie: cay-preview2=1\r\n",
     OK "set-cookie: cay-preview2=1\r\n", &by_host},
    {"a cookie in our name", OK "Set-Cookie: cay-preview=1\r\n", OK, &by_host},
    {"cookies below the path", OK "Set-Cookie: a=1; Path=/\r\n",
     OK "set-cookie: a=1; Path=/p/sb-x/3000/\r\n", &by_path},
    {"a way that it believes in", OK "Location: http://localhost:3000/a\r\n", OK "location: /a\r\n",
     &by_host},
    {"the root of it", OK "Location: http://localhost:3000\r\n", OK "location: /\r\n", &by_host},
    {"another's way", OK "Location: http://localhost:30001/a\r\n",
     OK "location: http://localhost:30001/a\r\n", &by_host},
    {"a way below the path", OK "Location: /a\r\n", OK "location: /p/sb-x/3000/a\r\n", &by_path},
    {"another host's way", OK "Location: //evil/a\r\n", OK "location: //evil/a\r\n", &by_path},
    {"two lengths", OK "Content-Length: 3\r\nContent-Length: 3\r\n", NULL, &by_host},
    {"a list of lengths", OK "Content-Length: 3, 3\r\n", NULL, &by_host},
    {"a length with a sign", OK "Content-Length: +3\r\n", NULL, &by_host},
    {"length beside chunks", OK "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", NULL,
     &by_host},
    {"chunks twice", OK "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", NULL,
     &by_host},
    {"another coding", OK "Transfer-Encoding: gzip\r\n", NULL, &by_host},
    {"chunks of an old one", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n", NULL, &by_host},
    {"a folded line", OK "X-A: 1\r\n b\r\n", NULL, &by_host},
    {"a blank before the colon", OK "X-A : 1\r\n", NULL, &by_host},
    {"no colon", OK "X-A\r\n", NULL, &by_host},
    {"a control character", OK "X-A: \x01\r\n", NULL, &by_host},
    {"a lone CR", OK "X-A: 1\rX-B: 2\r\n", NULL, &by_host},
    {"another version", "HTTP/2 200\r\n", NULL, &by_host},
    {"a short status", "HTTP/1.1 20\r\n", NULL, &by_host},
    {"a long status", "HTTP/1.1 2000\r\n", NULL, &by_host},
    {"an upgrade nobody asked for", "HTTP/1.1 101 x\r\n", NULL, &by_host},
    {"an interim one with a body", "HTTP/1.1 103 x\r\nContent-Length: 1\r\n", NULL, &by_host},
};

TEST(forward_answers)
{
    for (size_t i = 0; i < COUNT(answers); i++) {
        CAY_AUTO_BUF struct cay_buf in = {0};
        CAY_AUTO_BUF struct cay_buf out = {0};
        struct cay_forward_answer a;
        struct cay_error err = {0};
        cay_buf_addf(&in, "%s\r\n", answers[i].in);
        int r = cay_forward_answer(answers[i].how, in.data, in.len, false, &a, &out, &err);
        CHECK_EQ(answers[i].name, r, answers[i].want ? 0 : CAY_ERR_PROVIDER);
        cay_buf_addc(&out, 0);
        CHECK_STR(answers[i].name, out.data, answers[i].want ? answers[i].want : "");
    }
}

TEST(forward_finds_the_end_of_the_body)
{
    static const struct {
        const char *name, *in;
        bool keep_alive, has_length, chunked;
        uint64_t length;
    } cases[] = {
        {"by length", OK "Content-Length: 7\r\n\r\n", true, true, false, 7},
        {"by chunks", OK "Transfer-Encoding: Chunked\r\n\r\n", true, false, true, 0},
        {"with the connection", OK "Connection: Close\r\n\r\n", false, false, false, 0},
        {"an old one closes", "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\n", false, true, false,
         1},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        CAY_AUTO_BUF struct cay_buf out = {0};
        struct cay_forward_answer a = {0};
        struct cay_error err = {0};
        CHECK_EQ(
            cases[i].name,
            cay_forward_answer(&by_host, cases[i].in, strlen(cases[i].in), false, &a, &out, &err),
            0);
        CHECK_EQ(cases[i].name, a.keep_alive, cases[i].keep_alive);
        CHECK_EQ(cases[i].name, a.has_length, cases[i].has_length);
        CHECK_EQ(cases[i].name, a.chunked, cases[i].chunked);
        CHECK_EQ(cases[i].name, a.length, cases[i].length);
    }
}
