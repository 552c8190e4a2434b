/* SPDX-License-Identifier: Apache-2.0 */
/* Previews through a real HTTP server, on the fakes: nobody is inside a fake, so a service of this
 * process stands in for the sandbox's. */
#include "api/visits.h"
#include "tests/api/api.h"

struct service {
    int listen_fd;
    unsigned port;
    pthread_t thread;
    const char *says; /* to each who has asked, then it closes */
    size_t cut;       /* after so many bytes it waits for the reader to have them */
    char heard[4096]; /* by the last one */
};

static void *attend(void *arg)
{
    struct service *v = arg;
    for (int fd; (fd = accept4(v->listen_fd, NULL, NULL, SOCK_CLOEXEC)) >= 0; close(fd)) {
        ssize_t n = recv(fd, v->heard, sizeof v->heard - 1, 0);
        v->heard[n > 0 ? n : 0] = 0;
        size_t len = strlen(v->says), first = v->cut < len ? v->cut : len;
        (void)!send(fd, v->says, first, MSG_NOSIGNAL);
        for (size_t i = first; i < len; i++) { /* byte by byte: where they are cut never matters */
            struct timespec moment = {.tv_nsec = 200000};
            (void)nanosleep(&moment, NULL);
            (void)!send(fd, v->says + i, 1, MSG_NOSIGNAL);
        }
    }
    return NULL;
}

static void service_open(struct service *v)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof addr;
    *v = (struct service){.listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), .says = ""};
    CHECK_EQ("bind", bind(v->listen_fd, (struct sockaddr *)&addr, sizeof addr), 0);
    CHECK_EQ("listen", listen(v->listen_fd, 16), 0);
    (void)getsockname(v->listen_fd, (struct sockaddr *)&addr, &len);
    v->port = ntohs(addr.sin_port);
    pthread_create(&v->thread, NULL, attend, v);
}

static void service_close(struct service *v)
{
    shutdown(v->listen_fd, SHUT_RDWR);
    pthread_join(v->thread, NULL);
    close(v->listen_fd);
}

#define OK "HTTP/1.1 200 OK\r\n"

static const struct {
    const char *name, *says;
    int status;
    const char *body; /* as it comes, or NULL */
} answers[] = {
    {"by length", OK "Content-Length: 3\r\n\r\nabc", 200, "abc"},
    {"more than it said", OK "Content-Length: 3\r\n\r\nabcdef", 200, "abc"},
    {"in chunks", OK "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", 200,
     "3\r\nabc\r\n0\r\n\r\n"},
    {"extensions and trailers go",
     OK "Transfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n0\r\nX: y\r\n\r\n", 200,
     "3\r\nabc\r\n0\r\n\r\n"},
    {"to the end", OK "\r\nabc", 200, "3\r\nabc\r\n0\r\n\r\n"},
    {"no content", "HTTP/1.1 204 x\r\n\r\n", 204, ""},
    {"not modified", "HTTP/1.1 304 x\r\nContent-Length: 7\r\n\r\n", 304, ""},
    {"after an interim one", "HTTP/1.1 103 x\r\nLink: a\r\n\r\n" OK "Content-Length: 1\r\n\r\na",
     200, "a"},
    {"two lengths", OK "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", 502, NULL},
    {"no HTTP at all", "220 mail\r\n\r\n", 502, NULL},
    {"nothing", "", 502, NULL},
    {"half a head", OK "X-A", 502, NULL},
    {"an upgrade nobody asked for", "HTTP/1.1 101 x\r\n\r\n", 502, NULL},
};

static void visit(struct api *api, struct service *v, const char *headers, size_t i)
{
    const char *answer = ask(api, "GET /a", headers, NULL);
    const char *body = strstr(answer, "\r\n\r\n");
    CHECK_EQ(answers[i].name, status_of(answer), answers[i].status);
    if (answers[i].body)
        CHECK_STR(answers[i].name, body ? body + 4 : "", answers[i].body);
    CHECK(answers[i].name, strstr(v->heard, "GET /a HTTP/1.1\r\nhost: localhost:"));
}

TEST(preview_passes_what_can_be_trusted)
{
    struct api api;
    struct service v;
    char host[128];
    api_open(&api, 0);
    service_open(&v);
    struct cay_sandbox sb = fixture_create(&api.f, "box", false);
    const char *expose = cay_arena_printf(&api.f.a, "{\"port\":%u}", v.port);
    CHECK_EQ("expose", status_of(ask(&api, "POST /api/v1/sandbox/box/ports", NULL, expose)), 201);
    snprintf(host, sizeof host, "Host: %u-%s.localhost:%u\r\n", v.port, sb.id, api.port);
    for (size_t i = 0; i < COUNT(answers); i++) {
        v.says = answers[i].says;
        v.cut = SIZE_MAX;
        visit(&api, &v, host, i);
        bool slowly = answers[i].body && !strstr(answers[i].body, "\r\n") &&
                      !strstr(answers[i].says, "abcdef");
        if (slowly) {
            v.cut = 0;
            visit(&api, &v, host, i);
        }
    }
    service_close(&v);
    const char *gone = ask(&api, "GET /", host, NULL);
    CHECK_EQ("nobody is there", status_of(gone), 502);
    CHECK("and it says so", strstr(gone, "NOTHING_LISTENS"));
    api_close(&api);
}

/* Half an answer must not look like a whole one. */
TEST(preview_cuts_what_is_cut)
{
    static const char *const halves[] = {OK "Content-Length: 9\r\n\r\nabc",
                                         OK "Transfer-Encoding: chunked\r\n\r\n9\r\nabc"};
    struct api api;
    struct service v;
    char host[128];
    api_open(&api, 0);
    service_open(&v);
    struct cay_sandbox sb = fixture_create(&api.f, "box", false);
    const char *expose = cay_arena_printf(&api.f.a, "{\"port\":%u}", v.port);
    CHECK_EQ("expose", status_of(ask(&api, "POST /api/v1/sandbox/box/ports", NULL, expose)), 201);
    snprintf(host, sizeof host, "Host: %u-%s.localhost:%u\r\n", v.port, sb.id, api.port);
    for (size_t i = 0; i < COUNT(halves); i++) {
        v.says = halves[i];
        v.cut = SIZE_MAX;
        const char *answer = ask(&api, "GET /", host, NULL);
        CHECK_EQ(halves[i], status_of(answer), 200);
        CHECK("without an end", !strstr(answer, "0\r\n\r\n") && strstr(answer, "abc"));
    }
    service_close(&v);
    api_close(&api);
}

TEST(preview_has_room_for_so_many)
{
    struct api api;
    struct service v;
    char host[128];
    api_open(&api, 0);
    service_open(&v);
    v.says = OK "Content-Length: 1\r\n\r\na";
    v.cut = SIZE_MAX;
    struct cay_sandbox sb = fixture_create(&api.f, "box", false);
    const char *expose = cay_arena_printf(&api.f.a, "{\"port\":%u}", v.port);
    CHECK_EQ("expose", status_of(ask(&api, "POST /api/v1/sandbox/box/ports", NULL, expose)), 201);
    snprintf(host, sizeof host, "Host: %u-%s.localhost:%u\r\n", v.port, sb.id, api.port);
    int others = 0;
    while (cay_visit_enter(sb.id))
        others++;
    const char *full = ask(&api, "GET /", host, NULL);
    CHECK_EQ("beside too many", status_of(full), 429);
    CHECK("and it says so", strstr(full, "TOO_MANY_VISITS"));
    const char *tunnel =
        cay_arena_printf(&api.f.a, "GET /api/v1/sandbox/box/ports/%u/tunnel", v.port);
    full = ask(&api, tunnel,
               "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
               "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
               NULL);
    CHECK("tunnels too", status_of(full) == 429 && strstr(full, "TOO_MANY_VISITS"));
    (void)ask(&api, "POST /api/v1/sandbox/box/ports", NULL, "{\"port\":1}"); /* nobody's */
    full = ask(
        &api, "GET /",
        cay_arena_printf(&api.f.a, "Host: 1-%s.localhost:%u\r\nCay-Wait: 1\r\n", sb.id, api.port),
        NULL);
    CHECK("and who waits", status_of(full) == 429 && strstr(full, "TOO_MANY_VISITS"));
    cay_visit_leave(sb.id);
    CHECK_EQ("one has left", status_of(ask(&api, "GET /", host, NULL)), 200);
    while (--others > 0)
        cay_visit_leave(sb.id);
    service_close(&v);
    api_close(&api);
}
