/* SPDX-License-Identifier: Apache-2.0 */
/* For tests: /api/v1 through a real HTTP server, on the fakes. */
#pragma once
#include "api/app.h"
#include "base/json.h"
#include "tests/fixture.h"
#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>

struct api {
    struct fixture f;
    struct cay_config cfg;
    struct cay_http_server *server;
    pthread_t thread;
    unsigned port;
};

static inline void *serve(void *arg)
{
    struct cay_error err = {0};
    struct api *api = arg;
    CHECK_EQ("the server runs", cay_http_run(api->server, &err), 0);
    return NULL;
}

static inline void api_open_with(struct api *api, int64_t rate_limit, const char *auth)
{
    struct cay_error err = {0};
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof addr;
    *api = (struct api){.cfg = {.auth = auth, .rate_limit = rate_limit, .rate_seconds = 60}};
    fixture_open(&api->f);
    CHECK_EQ("keep", cay_core_keep(api->f.core, &err), 0);
    api->cfg.listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ("bind", bind(api->cfg.listen_fd, (struct sockaddr *)&addr, sizeof addr), 0);
    CHECK_EQ("listen", listen(api->cfg.listen_fd, 16), 0);
    (void)getsockname(api->cfg.listen_fd, (struct sockaddr *)&addr, &len);
    api->port = ntohs(addr.sin_port);
    snprintf(api->cfg.url, sizeof api->cfg.url, "http://127.0.0.1:%u", api->port);
    CHECK_EQ("open", cay_app_open(&api->cfg, api->f.core, &api->server, &err), 0);
    pthread_create(&api->thread, NULL, serve, api);
}

static inline void api_open(struct api *api, int64_t rate_limit)
{
    api_open_with(api, rate_limit, NULL);
}

static inline void api_close(struct api *api)
{
    cay_http_stop(api->server);
    pthread_join(api->thread, NULL);
    cay_app_close(api->server);
    close(api->cfg.listen_fd);
    fixture_close(&api->f);
}

static inline int dial(const struct api *api)
{
    struct sockaddr_in addr = {.sin_family = AF_INET,
                               .sin_port = htons((uint16_t)api->port),
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ("connect", connect(fd, (struct sockaddr *)&addr, sizeof addr), 0);
    return fd;
}

static inline void send_request(const struct api *api, int fd, const char *line,
                                const char *headers, const char *body)
{
    CAY_AUTO_BUF struct cay_buf out = {0};
    cay_buf_addf(&out, "%s HTTP/1.1\r\nConnection: close\r\n", line);
    if (!headers || !strstr(headers, "Host:"))
        cay_buf_addf(&out, "Host: 127.0.0.1:%u\r\n", api->port);
    if (headers)
        cay_buf_adds(&out, headers);
    if (body && (!headers || !strstr(headers, "Content-Type:")))
        cay_buf_adds(&out, "Content-Type: application/json\r\n");
    if (body)
        cay_buf_addf(&out, "Content-Length: %zu\r\n", strlen(body));
    cay_buf_addf(&out, "\r\n%s", body ? body : "");
    for (size_t at = 0; at < out.len;) {
        ssize_t n = send(fd, out.data + at, out.len - at, MSG_NOSIGNAL);
        if (n <= 0)
            break;
        at += (size_t)n;
    }
}

/* Chunk sizes stand in the text; the tests look for words only. */
static inline const char *receive(struct api *api, int fd)
{
    struct cay_buf in = {0};
    ssize_t n;
    while ((n = recv(fd, cay_buf_room(&in, 4096), 4096, 0)) > 0)
        in.len += (size_t)n;
    const char *text = cay_arena_strndup(&api->f.a, in.data ? in.data : "", in.len);
    cay_buf_done(&in);
    return text;
}

static inline const char *ask(struct api *api, const char *line, const char *headers,
                              const char *body)
{
    CAY_AUTO_FD int fd = dial(api);
    send_request(api, fd, line, headers, body);
    return receive(api, fd);
}

/* Until as many run in the sandbox. */
static inline struct cay_strs await_commands(struct api *api, const char *id, size_t count)
{
    struct cay_strs running = {0};
    struct cay_error err;
    while (running.count < count &&
           cay_provider_executions(api->f.provider, id, &api->f.a, &running, &err) == 0)
        sched_yield();
    return running;
}

static inline int status_of(const char *answer)
{
    return strlen(answer) > 12
               ? (answer[9] - '0') * 100 + (answer[10] - '0') * 10 + answer[11] - '0'
               : 0;
}

static inline const struct cay_json *body_of(struct api *api, const char *answer)
{
    struct cay_error err = {0};
    const struct cay_json *json = NULL;
    const char *body = strstr(answer, "\r\n\r\n");
    if (!body || cay_json_parse(&api->f.a, body + 4, strlen(body + 4), &json, &err) < 0) {
        test_failed(__FILE__, __LINE__, "no JSON in: %.300s", answer);
        cay_json_parse(&api->f.a, "{}", 2, &json, &err);
    }
    return json;
}

#define SMALL "\"memoryGB\":0.0625" /* what every host has */
