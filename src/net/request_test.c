/* SPDX-License-Identifier: Apache-2.0 */
#include "net/request.h"
#include "tests/test.h"

#define GET "GET / HTTP/1.1\r\nHost: a.example\r\n"

static const struct {
    const char *what, *text;
    enum cay_request_result want;
    struct cay_request r; /* but its length, which is all of the text, and its host */
} cases[] = {
    {"no body", GET "\r\n", CAY_REQUEST_WHOLE, {0}},
    {"a length", GET "Content-Length: 12\r\n\r\n", CAY_REQUEST_WHOLE, {.length = 12}},
    {"chunks", GET "transfer-encoding: Chunked\r\n\r\n", CAY_REQUEST_WHOLE, {.chunked = true}},
    {"a WebSocket",
     GET "Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\r\n",
     CAY_REQUEST_WHOLE,
     {.upgrades = true, .websocket = true}},
    {"HTTP/2",
     GET "Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
     CAY_REQUEST_WHOLE,
     {.upgrades = true}},
    {"two protocols",
     GET "Connection: Upgrade\r\nUpgrade: websocket\r\nUpgrade: h2c\r\n\r\n",
     CAY_REQUEST_WHOLE,
     {.upgrades = true}},
    {"CONNECT",
     "CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n",
     CAY_REQUEST_WHOLE,
     {.connects = true}},
    {"TRACE", "TRACE / HTTP/1.1\r\nHost: a.example\r\n\r\n", CAY_REQUEST_WHOLE, {.echoes = true}},
    {"another scheme",
     "GET https://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n",
     CAY_REQUEST_WHOLE,
     {0}},
    {"not whole", GET "Content-Length: 12\r\n", CAY_REQUEST_MORE, {0}},
    {"two lengths", GET "Content-Length: 1\r\nContent-Length: 1\r\n\r\n", CAY_REQUEST_BAD, {0}},
    {"a list of lengths", GET "Content-Length: 1, 1\r\n\r\n", CAY_REQUEST_BAD, {0}},
    {"a length with a sign", GET "Content-Length: +1\r\n\r\n", CAY_REQUEST_BAD, {0}},
    {"no length", GET "Content-Length:\r\n\r\n", CAY_REQUEST_BAD, {0}},
    {"a length beyond all",
     GET "Content-Length: 99999999999999999999\r\n\r\n",
     CAY_REQUEST_BAD,
     {0}},
    {"length and chunks",
     GET "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
     CAY_REQUEST_BAD,
     {0}},
    {"chunks twice",
     GET "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
     CAY_REQUEST_BAD,
     {0}},
    {"another coding", GET "Transfer-Encoding: gzip, chunked\r\n\r\n", CAY_REQUEST_BAD, {0}},
    {"chunks of old",
     "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
     CAY_REQUEST_BAD,
     {0}},
    {"a WebSocket with a body",
     GET "Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 1\r\n\r\n",
     CAY_REQUEST_BAD,
     {0}},
    {"a lone CR", GET "X: a\rHost: b.example\r\n\r\n", CAY_REQUEST_BAD, {0}},
    {"a blank in a name", GET "X y: a\r\n\r\n", CAY_REQUEST_BAD, {0}},
    {"no colon", GET "X\r\n\r\n", CAY_REQUEST_BAD, {0}},
    {"a target of its own", "GET x HTTP/1.1\r\nHost: a.example\r\n\r\n", CAY_REQUEST_BAD, {0}},
    {"two targets", "GET / / HTTP/1.1\r\nHost: a.example\r\n\r\n", CAY_REQUEST_BAD, {0}},
    {"a version to come", "GET / HTTP/1.2\r\nHost: a.example\r\n\r\n", CAY_REQUEST_BAD, {0}},
    {"HTTP/2 at once", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", CAY_REQUEST_NOT, {0}},
    {"HTTP/2 that is none", "PRI * HTTP/2.0\r\nHost: a.example\r\n\r\n", CAY_REQUEST_BAD, {0}},
    {"another protocol", "QUIT now\r\n", CAY_REQUEST_NOT, {0}},
    {"a key of another protocol", "GET key\r\n", CAY_REQUEST_NOT, {0}},
    {"line feeds alone",
     "GET / HTTP/1.1\r\nHost: a.example\n\r\n",
     CAY_REQUEST_WHOLE,
     {.loose = true}},
    {"a line feed alone, first",
     "GET / HTTP/1.1\nHost: a.example\r\n\r\n",
     CAY_REQUEST_WHOLE,
     {.loose = true}},
    {"a line feed alone, last",
     "GET / HTTP/1.1\r\nHost: a.example\r\n\n",
     CAY_REQUEST_WHOLE,
     {.loose = true}},
    {"letters that are not ASCII",
     "GET /\xc3\xa0 HTTP/1.1\r\nHost: a.example\r\n\r\n",
     CAY_REQUEST_WHOLE,
     {0}},
    {"a host behind a port",
     "GET / HTTP/1.1\r\nHost: a.example:80@b.example\r\n\r\n",
     CAY_REQUEST_BAD,
     {0}},
    {"the same in the target",
     "GET http://a.example:x@b.example/ HTTP/1.1\r\n\r\n",
     CAY_REQUEST_BAD,
     {0}},
    {"no version", "GET http://a.example/\r\n", CAY_REQUEST_BAD, {0}},
    {"no version, and a host", "GET /\r\nHost: a.example\r\n\r\n", CAY_REQUEST_BAD, {0}},
    {"a blank before it", " GET / HTTP/1.1\r\nHost: a.example\r\n\r\n", CAY_REQUEST_BAD, {0}},
    {"a blank that only some know",
     "GET\x1c/ HTTP/1.1\r\nHost: a.example\r\n\r\n",
     CAY_REQUEST_BAD,
     {0}},
    {"another one", "GET\xa0/ HTTP/1.1\r\nHost: a.example\r\n\r\n", CAY_REQUEST_BAD, {0}},
    {"a method that is no word", "G@T / HTTP/1.1\r\nHost: a.example\r\n\r\n", CAY_REQUEST_BAD, {0}},
    {"a long method",
     "ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFGHIJKLMNOPQRSTUVWXYZ / HTTP/1.1\r\nHost: a.example\r\n\r\n",
     CAY_REQUEST_WHOLE,
     {0}},
};

TEST(request_is_read_strictly)
{
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct cay_request r = {0};
        const char *what = cases[i].what;
        const struct cay_request *want = &cases[i].r;
        size_t len = strlen(cases[i].text);
        CHECK_EQ(what, cay_request_read(cases[i].text, len, false, &r), cases[i].want);
        if (cases[i].want != CAY_REQUEST_WHOLE)
            continue;
        CHECK_EQ(what, r.len, len);
        CHECK_STR(what, r.host, "a.example");
        CHECK_EQ(what, r.length, want->length);
        CHECK_EQ(what, r.chunked, want->chunked);
        CHECK_EQ(what, r.connects, want->connects);
        CHECK_EQ(what, r.upgrades, want->upgrades);
        CHECK_EQ(what, r.websocket, want->websocket);
        CHECK_EQ(what, r.echoes, want->echoes);
        CHECK_EQ(what, r.loose, want->loose);
    }
}

/* Some servers take the end for the end of the head. */
TEST(request_that_ends_too_early)
{
    static const struct {
        const char *text;
        enum cay_request_result want;
    } ends[] = {
        {"\r\n", CAY_REQUEST_MORE},
        {"QUIT", CAY_REQUEST_NOT},
        {"GET", CAY_REQUEST_NOT},
        {"PRI * HT", CAY_REQUEST_NOT},
        {"GET /", CAY_REQUEST_BAD},
        {"GET http://a.example", CAY_REQUEST_BAD},
        {"GET / HTTP/1.1", CAY_REQUEST_BAD},
        {GET, CAY_REQUEST_BAD},
        {GET "\r\n", CAY_REQUEST_WHOLE},
    };
    for (size_t i = 0; i < COUNT(ends); i++) {
        struct cay_request r;
        CHECK_EQ(ends[i].text, cay_request_read(ends[i].text, strlen(ends[i].text), true, &r),
                 ends[i].want);
    }
}

static const struct {
    const char *what, *text;
    bool first;
    enum cay_request_result want;
    size_t len;
    uint64_t size;
} chunks[] = {
    {"the first", "1f\r\n", true, CAY_REQUEST_WHOLE, 4, 31},
    {"another", "\r\nA;x=y\r\nabc", false, CAY_REQUEST_WHOLE, 9, 10},
    {"the last", "\r\n0\r\n", false, CAY_REQUEST_WHOLE, 5, 0},
    {"nothing", "", true, CAY_REQUEST_MORE, 0, 0},
    {"half an end", "\r", false, CAY_REQUEST_MORE, 0, 0},
    {"half a size", "\r\n1", false, CAY_REQUEST_MORE, 0, 0},
    {"more than was said", "x\r\n1\r\n", false, CAY_REQUEST_BAD, 0, 0},
    {"a blank", "1 \r\n", true, CAY_REQUEST_BAD, 0, 0},
    {"a line feed alone", "1\n", true, CAY_REQUEST_BAD, 0, 0},
    {"no number", "x\r\n", true, CAY_REQUEST_BAD, 0, 0},
    {"hex as in C", "0x1\r\n", true, CAY_REQUEST_BAD, 0, 0},
    {"too many digits", "00000000000000001\r\n", true, CAY_REQUEST_BAD, 0, 0},
    {"an odd extension", "1;a\rb\r\n", true, CAY_REQUEST_BAD, 0, 0},
};

TEST(request_in_chunks)
{
    for (size_t i = 0; i < COUNT(chunks); i++) {
        size_t len = 0;
        uint64_t size = 0;
        const char *what = chunks[i].what;
        CHECK_EQ(
            what,
            cay_request_chunk(chunks[i].text, strlen(chunks[i].text), chunks[i].first, &len, &size),
            chunks[i].want);
        CHECK_EQ(what, len, chunks[i].len);
        CHECK_EQ(what, size, chunks[i].size);
    }
}

TEST(request_trailer_has_an_end)
{
    static const struct {
        const char *what, *text;
        enum cay_request_result want;
        size_t len;
    } trailers[] = {
        {"none", "\r\nGET", CAY_REQUEST_WHOLE, 2},
        {"one", "A: b\r\n\r\nGET", CAY_REQUEST_WHOLE, 8},
        {"half", "A: b\r\n", CAY_REQUEST_MORE, 0},
        {"no header", "GET / HTTP/1.1\r\n\r\n", CAY_REQUEST_BAD, 0},
        {"a line feed alone", "\nGET", CAY_REQUEST_BAD, 0},
    };
    for (size_t i = 0; i < COUNT(trailers); i++) {
        size_t len = 0;
        CHECK_EQ(trailers[i].what,
                 cay_request_trailer(trailers[i].text, strlen(trailers[i].text), &len),
                 trailers[i].want);
        CHECK_EQ(trailers[i].what, len, trailers[i].len);
    }
}

TEST(request_is_written_with_other_lines)
{
    CAY_AUTO_BUF struct cay_buf out = {0};
    static const char head[] = "\r\nGET / HTTP/1.1\r\nhost: a.example\nAUTHORIZATION: mine\r\n"
                               "X: y\r\nupgrade: h2c\r\nHTTP2-Settings: x\r\n\r\nrest";
    const struct cay_header_rule token = {.name = "Authorization", .value = "theirs"};
    const struct cay_header_rule *add[] = {&token};
    struct cay_request r;
    CHECK_EQ("read", cay_request_read(head, strlen(head), false, &r), CAY_REQUEST_WHOLE);
    cay_request_write(head, &r, false, add, 1, &out);
    cay_buf_addc(&out, 0);
    CHECK_STR("written", out.data,
              "GET / HTTP/1.1\r\nhost: a.example\r\nX: y\r\nAuthorization: theirs\r\n\r\n");
}

TEST(request_headers_that_can_be_set)
{
    static const char *const good[] = {"Authorization", "x-api-key", "Cookie", "A"};
    static const char *const bad[] = {"",      "a b",     "a:",      "Host",       "content-LENGTH",
                                      "a\r\n", "Upgrade", "Trailer", "Proxy-Auth", "connection"};
    for (size_t i = 0; i < COUNT(good); i++)
        CHECK(good[i], cay_request_may_set(good[i]));
    for (size_t i = 0; i < COUNT(bad); i++)
        CHECK(bad[i], !cay_request_may_set(bad[i]));
}
