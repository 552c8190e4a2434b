/* SPDX-License-Identifier: Apache-2.0 */
/* GET /metrics: what was counted, by patterns and never by paths. */
#include "tests/api/api.h"

static long long value_of(const char *text, const char *series)
{
    char line[256];
    snprintf(line, sizeof line, "\n%s ", series);
    const char *at = strstr(text, line);
    return at ? atoll(at + strlen(line)) : -1;
}

TEST(metrics_count_requests_by_route)
{
    struct api api;
    api_open(&api, 0);
    fixture_create(&api.f, "box", false);
    CHECK_EQ("get", status_of(ask(&api, "GET /api/v1/sandbox/box", NULL, NULL)), 200);
    CHECK_EQ("none", status_of(ask(&api, "GET /api/v1/sandbox/nobody", NULL, NULL)), 404);
    CHECK_EQ("strange", status_of(ask(&api, "GET /secret-path/x", NULL, NULL)), 404);
    const char *text = ask(&api, "GET /metrics", NULL, NULL);
    CHECK_EQ("metrics", status_of(text), 200);
    CHECK("its type", strstr(text, "Content-Type: text/plain; version=0.0.4") != NULL);
    static const struct {
        const char *series;
        long long want;
    } cases[] = {
        {"cay_http_requests_total{route=\"/api/v1/sandbox/{id}\",method=\"GET\",status=\"2xx\"}",
         1},
        {"cay_http_requests_total{route=\"/api/v1/sandbox/{id}\",method=\"GET\",status=\"4xx\"}",
         1},
        {"cay_http_requests_total{route=\"none\",method=\"any\",status=\"4xx\"}", 1},
        {"cay_http_requests_total{route=\"/api/v1/sandbox\",method=\"POST\",status=\"2xx\"}", -1},
        {"cay_http_request_duration_seconds_count{route=\"/api/v1/sandbox/{id}\",method=\"GET\"}",
         2},
        {"cay_sandboxes{state=\"RUNNING\"}", 1},
        {"cay_sandboxes{state=\"STOPPED\"}", 0},
        {"cay_provider_up", 1},
        {"cay_http_connections", 1},
        {"cay_http_streams", 0},
        {"cay_store_queue", 0},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        CHECK_EQ(cases[i].series, value_of(text, cases[i].series), cases[i].want);
    static const char *const some[] = {
        "cay_store_commits_total",
        "cay_store_writes_total",
        "cay_http_connections_total",
        "process_threads",
        "process_open_fds",
        "process_resident_memory_bytes",
        "process_max_fds",
        "process_cpu_seconds_total",
        "process_start_time_seconds",
        "cay_operation_duration_seconds_count{operation=\"create\"}"};
    for (size_t i = 0; i < COUNT(some); i++)
        CHECK(some[i], value_of(text, some[i]) > (strstr(some[i], "cpu") ? -1 : 0));
    CHECK("no path is told", !strstr(text, "secret-path") && !strstr(text, "nobody"));
    api_close(&api);
}

TEST(metrics_count_streams_while_they_last)
{
    struct api api;
    struct cay_execution ex;
    struct cay_error err = {0};
    api_open(&api, 0);
    struct cay_sandbox sb = fixture_create(&api.f, "box", false);
    CHECK_EQ("a command", fixture_exec(&api.f, sb.id, "sleep", NULL, &ex, &err), 0);
    const char *line = cay_arena_printf(&api.f.a, "GET /api/v1/sandbox/box/exec/%s/output", ex.id);
    {
        CAY_AUTO_FD int fd = dial(&api);
        char byte;
        send_request(&api, fd, line, "Accept: text/event-stream\r\n", NULL);
        CHECK_EQ("it begins", recv(fd, &byte, 1, 0), 1);
        CHECK_EQ("one", value_of(ask(&api, "GET /metrics", NULL, NULL), "cay_http_streams"), 1);
    }
    long long left = 1;
    for (int i = 0; i < 1000 && left != 0; i++)
        left = value_of(ask(&api, "GET /metrics", NULL, NULL), "cay_http_streams");
    CHECK_EQ("none", left, 0);
    const char *text = ask(&api, "GET /metrics", NULL, NULL);
    CHECK("begun", value_of(text, "cay_executions_begun_total") > 0);
    api_close(&api);
}
