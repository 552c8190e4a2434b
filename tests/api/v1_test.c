/* SPDX-License-Identifier: Apache-2.0 */
/* /api/v1 through a real HTTP server, on the fakes. */
#include "tests/api/api.h"

static const struct {
    const char *name, *line, *body;
    int status;
    const char *code, *field;
} bad[] = {
    {"half an object", "POST /api/v1/sandbox", "{", 400, "INVALID_JSON", NULL},
    {"a list for a body", "POST /api/v1/sandbox", "[]", 400, NULL, NULL},
    {"an unknown field", "POST /api/v1/sandbox", "{\"nam\":\"x\"}", 400, "VALIDATION_ERROR", "nam"},
    {"cpu as text", "POST /api/v1/sandbox", "{\"cpuCores\":\"4\"}", 400, "VALIDATION_ERROR",
     "cpuCores"},
    {"cpu 0", "POST /api/v1/sandbox", "{\"cpuCores\":0}", 400, "VALIDATION_ERROR", "cpuCores"},
    {"cpu -1", "POST /api/v1/sandbox", "{\"cpu_cores\":-1}", 400, "VALIDATION_ERROR", "cpu_cores"},
    {"cpu 1e400", "POST /api/v1/sandbox", "{\"cpuCores\":1e400}", 400, "VALIDATION_ERROR",
     "cpuCores"},
    {"memory 1e9", "POST /api/v1/sandbox", "{\"memoryGB\":1e5}", 400, "VALIDATION_ERROR",
     "memoryGB"},
    {"memory without a unit", "POST /api/v1/sandbox", "{\"memoryLimit\":\"512\"}", 400,
     "VALIDATION_ERROR", "memoryLimit"},
    {"memory in q", "POST /api/v1/sandbox", "{\"memoryLimit\":\"512q\"}", 400, "VALIDATION_ERROR",
     "memoryLimit"},
    {"negative memory", "POST /api/v1/sandbox", "{\"memoryLimit\":\"-1m\"}", 400,
     "VALIDATION_ERROR", "memoryLimit"},
    {"labels as object", "POST /api/v1/sandbox", "{\"labels\":{}}", 400, "VALIDATION_ERROR",
     "labels"},
    {"six tags", "POST /api/v1/sandbox",
     "{\"tags\":{\"a\":\"1\",\"b\":\"1\",\"c\":\"1\",\"d\":\"1\",\"e\":\"1\",\"f\":\"1\"}}", 400,
     "VALIDATION_ERROR", "tags"},
    {"ports as text", "POST /api/v1/sandbox", "{\"ports\":\"80\"}", 400, "VALIDATION_ERROR",
     "ports"},
    {"a name with a blank", "POST /api/v1/sandbox", "{\"name\":\"a b\"}", 400, "VALIDATION_ERROR",
     "name"},
    {"negative time", "POST /api/v1/sandbox", "{\"timeoutMinutes\":-1}", 400, "VALIDATION_ERROR",
     "timeoutMinutes"},
    {"endless time", "POST /api/v1/sandbox", "{\"timeoutMinutes\":9223372036854775808}", 400,
     "VALIDATION_ERROR", "timeoutMinutes"},
    {"a graphics card", "POST /api/v1/sandbox", "{\"gpuCount\":1," SMALL "}", 400,
     "GPU_UNAVAILABLE", "gpuCount"},
    {"a source", "POST /api/v1/sandbox", "{\"source\":{\"type\":\"git\"}}", 400, "INVALID_SOURCE",
     "source.url"},
    {"a secret that is a number", "POST /api/v1/sandbox", "{\"secrets\":{\"A\":1}}", 400,
     "VALIDATION_ERROR", "secrets"},
    {"a secret without a name", "POST /api/v1/sandbox", "{\"secrets\":{\"\":\"x\"}," SMALL "}", 400,
     "VALIDATION_ERROR", "secrets"},
    {"a track nobody knows", "POST /api/v1/sandbox", "{\"track\":\"all\"}", 400, "VALIDATION_ERROR",
     "track"},
    {"ready for nothing", "POST /api/v1/sandbox", "{\"readyWhen\":{\"timeoutMs\":5}}", 400,
     "VALIDATION_ERROR", "readyWhen"},
    {"ready for both", "POST /api/v1/sandbox",
     "{\"startCommand\":\"x\",\"readyWhen\":{\"port\":5,\"logLine\":\"x\"}," SMALL "}", 400,
     "VALIDATION_ERROR", "readyWhen"},
    {"a line of nobody", "POST /api/v1/sandbox", "{\"readyWhen\":{\"logLine\":\"x\"}," SMALL "}",
     400, "VALIDATION_ERROR", "readyWhen.logLine"},
    {"an image without a command", "POST /api/v1/sandbox", "{\"startCommand\":\"image\"," SMALL "}",
     400, "VALIDATION_ERROR", "startCommand"},
    {"a user who is not there", "POST /api/v1/sandbox", "{\"user\":\"nobody-here\"," SMALL "}", 400,
     "VALIDATION_ERROR", "user"},
    {"a directory that is not there", "POST /api/v1/sandbox",
     "{\"workdir\":\"/nowhere\"," SMALL "}", 400, "VALIDATION_ERROR", "workdir"},
    {"a runtime nobody knows", "POST /api/v1/sandbox", "{\"runtime\":\"cobol\"}", 400,
     "VALIDATION_ERROR", "runtime"},
    {"a machine of its own", "POST /api/v1/sandbox", "{\"isolation\":\"vm\"}", 422,
     "ISOLATION_UNAVAILABLE", "isolation"},
    {"another provider's", "POST /api/v1/sandbox", "{\"isolation\":\"docker\"}", 422,
     "ISOLATION_UNAVAILABLE", "isolation"},
    {"a create of a version", "POST /api/v1/sandbox", "{\"executionId\":\"x\"}", 400,
     "VALIDATION_ERROR", "executionId"},
    {"a fork that waits", "POST /api/v1/sandbox/box/fork", "{\"readyWhen\":{\"port\":80}}", 400,
     "VALIDATION_ERROR", "readyWhen"},
    {"a lease of days", "POST /api/v1/sandbox", "{\"leaseSeconds\":86401}", 400, "VALIDATION_ERROR",
     "leaseSeconds"},
    {"idle at once", "POST /api/v1/sandbox", "{\"idleTimeoutMs\":5," SMALL "}", 400,
     "VALIDATION_ERROR", "idleTimeoutMs"},
    {"idle without a reason", "POST /api/v1/sandbox", "{\"idleWhen\":[]}", 400, "VALIDATION_ERROR",
     "idleWhen"},
    {"an update of nothing known", "PATCH /api/v1/sandbox/box", "{\"nam\":\"x\"}", 400,
     "VALIDATION_ERROR", "nam"},
    {"an update to six tags", "PATCH /api/v1/sandbox/box",
     "{\"tags\":{\"a\":\"1\",\"b\":\"1\",\"c\":\"1\",\"d\":\"1\",\"e\":\"1\",\"f\":\"1\"}}", 400,
     "VALIDATION_ERROR", "tags"},
    {"port 0 in an update", "PATCH /api/v1/sandbox/box", "{\"ports\":[0]}", 400, "VALIDATION_ERROR",
     "ports"},
    {"half a port", "POST /api/v1/sandbox", "{\"ports\":[22.5]}", 400, "VALIDATION_ERROR", "ports"},
    {"a port below all", "POST /api/v1/sandbox", "{\"ports\":[-1]}", 400, "VALIDATION_ERROR",
     "ports"},
    {"a port above all", "POST /api/v1/sandbox", "{\"ports\":[{\"port\":65536}]}", 400,
     "VALIDATION_ERROR", "ports.0.port"},
    {"five ports", "POST /api/v1/sandbox", "{\"ports\":[1,2,3,4,5]}", 400, "VALIDATION_ERROR",
     "ports"},
    {"a port twice", "POST /api/v1/sandbox", "{" SMALL ",\"ports\":[80,81,80]}", 400,
     "VALIDATION_ERROR", "ports"},
    {"an exposed port 0", "POST /api/v1/sandbox/box/ports", "{\"port\":0}", 400, "VALIDATION_ERROR",
     "port"},
    {"no port", "POST /api/v1/sandbox/box/ports", "{}", 400, "VALIDATION_ERROR", "port"},
    {"a long wait", "POST /api/v1/sandbox/box/ports", "{\"port\":80,\"waitSeconds\":121}", 400,
     "VALIDATION_ERROR", "waitSeconds"},
    {"a port that is not exposed", "DELETE /api/v1/sandbox/box/ports/80", NULL, 404,
     "PORT_NOT_EXPOSED", NULL},
    {"a port that is a word", "DELETE /api/v1/sandbox/box/ports/http", NULL, 400,
     "VALIDATION_ERROR", "port"},
    {"a link to what is not exposed", "POST /api/v1/sandbox/box/ports/80/link", "{}", 404,
     "PORT_NOT_EXPOSED", NULL},
    {"a link for ever", "POST /api/v1/sandbox/box/ports/80/link", "{\"expiresIn\":604801}", 400,
     "VALIDATION_ERROR", "expiresIn"},
    {"an update of secrets", "PATCH /api/v1/sandbox/box", "{\"secrets\":{\"A\":5}}", 400,
     "VALIDATION_ERROR", "secrets"},
    {"an update to an id", "PATCH /api/v1/sandbox/box", "{\"name\":\"sb-00000000000000000000\"}",
     400, "VALIDATION_ERROR", "name"},
    {"an update of nobody", "PATCH /api/v1/sandbox/none", "{\"name\":\"x\"}", 404, "NOT_FOUND",
     NULL},
    {"more time, how much", "POST /api/v1/sandbox/box/extend", "{}", 400, "VALIDATION_ERROR",
     "timeoutMs"},
    {"an image nobody has", "POST /api/v1/sandbox", "{\"image\":\"missing:1\"," SMALL "}", 404,
     "IMAGE_NOT_FOUND", NULL},
    {"page 0", "GET /api/v1/sandbox?page=0", NULL, 400, "VALIDATION_ERROR", "page"},
    {"1001 on a page", "GET /api/v1/sandbox?per_page=1001", NULL, 400, "VALIDATION_ERROR",
     "per_page"},
    {"no such status", "GET /api/v1/sandbox?status=FOO", NULL, 400, "VALIDATION_ERROR", "status"},
    {"no such sandbox", "GET /api/v1/sandbox/sb-00000000000000000000", NULL, 404, "NOT_FOUND",
     NULL},
    {"no such path", "GET /api/v1/nothing", NULL, 404, NULL, NULL},
    {"the wrong method", "PUT /api/v1/sandbox", NULL, 405, NULL, NULL},
    {"no command", "POST /api/v1/sandbox/box/exec", "{}", 400, "VALIDATION_ERROR", "command"},
    {"an empty command", "POST /api/v1/sandbox/box/exec", "{\"command\":[]}", 400,
     "VALIDATION_ERROR", "command"},
    {"an empty line", "POST /api/v1/sandbox/box/exec", "{\"command\":\"\"}", 400,
     "VALIDATION_ERROR", "command"},
    {"numbers for words", "POST /api/v1/sandbox/box/exec", "{\"command\":[1]}", 400,
     "VALIDATION_ERROR", "command"},
    {"a NUL in a word", "POST /api/v1/sandbox/box/exec", "{\"command\":[\"a\\u0000b\"]}", 400, NULL,
     NULL},
    {"a relative cwd", "POST /api/v1/sandbox/box/exec", "{\"command\":[\"a\"],\"cwd\":\"x\"}", 400,
     "VALIDATION_ERROR", "cwd"},
    {"a user it lacks", "POST /api/v1/sandbox/box/exec",
     "{\"command\":[\"a\"],\"user\":\"nobody-here\"}", 400, "VALIDATION_ERROR", "user"},
    {"no such execution", "GET /api/v1/sandbox/box/exec/exec_0000000000000000", NULL, 404,
     "EXECUTION_NOT_FOUND", NULL},
    {"an execution that climbs", "GET /api/v1/sandbox/box/exec/..%2f..%2fetc", NULL, 400, NULL,
     NULL},
    {"a grace of hours", "POST /api/v1/sandbox/box/stop", "{\"graceMs\":1e9}", 400,
     "VALIDATION_ERROR", "graceMs"},
    {"a copy elsewhere", "DELETE /api/v1/sandbox/box?sync=true", NULL, 501, "UNSUPPORTED", NULL},
};

TEST(v1_answers_bad_requests)
{
    struct api api;
    api_open(&api, 0);
    fixture_create(&api.f, "box", false);
    for (size_t i = 0; i < COUNT(bad); i++) {
        const char *answer = ask(&api, bad[i].line, NULL, bad[i].body);
        CHECK_EQ(bad[i].name, status_of(answer), bad[i].status);
        const struct cay_json *body = body_of(&api, answer);
        const struct cay_json *error = cay_json_get(body, "error");
        if (!error) {
            test_failed(__FILE__, __LINE__, "%s: no error in %.200s", bad[i].name, answer);
            continue;
        }
        if (bad[i].code)
            CHECK_STR(bad[i].name, cay_json_get_str(error, "code", ""), bad[i].code);
        if (bad[i].field)
            CHECK_STR(bad[i].name, cay_json_get_str(cay_json_get(error, "details"), "field", ""),
                      bad[i].field);
        CHECK_STR(bad[i].name, cay_json_get_str(body, "detail", "none"),
                  cay_json_get_str(error, "message", ""));
    }
    CHECK_EQ("only the first one is there", cay_provider_fake_count(api.f.provider), 1);
    api_close(&api);
}

TEST(v1_guards_host_origin_and_form)
{
    static const struct {
        const char *name, *headers;
        int status;
    } cases[] = {
        {"another host", "Host: evil.example\r\n", 421},
        {"another origin", "Origin: http://evil.example\r\n", 403},
        {"no origin", "Origin: null\r\n", 403},
        {"another site", "Sec-Fetch-Site: cross-site\r\n", 403},
        {"a form's text", "Content-Type: text/plain\r\n", 415},
        {"packed", "Content-Encoding: gzip\r\n", 415},
    };
    struct api api;
    api_open(&api, 0);
    for (size_t i = 0; i < COUNT(cases); i++)
        CHECK_EQ(cases[i].name,
                 status_of(ask(&api, "POST /api/v1/sandbox", cases[i].headers, "{}")),
                 cases[i].status);
    CHECK_EQ("nothing was made", cay_provider_fake_count(api.f.provider), 0);
    api_close(&api);
}

TEST(v1_creates_shows_lists_and_deletes)
{
    struct api api;
    api_open(&api, 0);
    const char *answer = ask(&api, "POST /api/v1/sandbox", NULL,
                             "{\"name\":\"my-sandbox\",\"docker_image\":\"python:3.11\","
                             "\"start_command\":\"python main.py\",\"cpu_cores\":0.5,\"memoryGB\":"
                             "0.25,\"labels\":[\"dev\"],\"environmentVars\":{\"A\":\"b\"},"
                             "\"timeoutMinutes\":0,\"guaranteed\":false,\"idempotency_key\":\"k\","
                             "\"teamId\":\"t1\",\"tags\":{\"k\":\"v\"}}");
    CHECK_EQ("created", status_of(answer), 201);
    const struct cay_json *made = body_of(&api, answer);
    CHECK_STR("running", cay_json_get_str(made, "status", ""), "RUNNING");
    CHECK_STR("image", cay_json_get_str(made, "dockerImage", ""), "python:3.11");
    CHECK_STR("start", cay_json_get_str(made, "startCommand", ""), "python main.py");
    CHECK("network", cay_json_get_bool(made, "networkEnforced", false));
    CHECK_STR("by whom", cay_json_get_str(made, "provider", ""), "fake");
    CHECK_STR("in what", cay_json_get_str(made, "isolation", ""), "native");
    CHECK_EQ("no end", cay_json_get_int(made, "timeoutMinutes", -1), 0);
    CHECK("cpu", strstr(answer, "\"cpuCores\":0.5,") != NULL);
    CHECK("memory", strstr(answer, "\"memoryGB\":0.25,") != NULL);

    const char *one = ask(&api, "GET /api/v1/sandbox/my-sandbox", NULL, NULL);
    CHECK_EQ("by its name", status_of(one), 200);
    CHECK("use", strstr(one, "\"usage\":{\"cpu\"") != NULL);
    CHECK("no end", strstr(one, "\"terminationReason\":null,\"termination\":null,") != NULL);
    CHECK("the start command ended", strstr(one, "\"startCommandExit\":{\"exitCode\":0") != NULL);

    static const struct {
        const char *name, *query;
        int total;
    } lists[] = {
        {"all", "", 1},
        {"by label", "?labels=dev", 1},
        {"by two labels", "?labels=dev&labels=x", 0},
        {"by status", "?status=RUNNING&page=1&per_page=5", 1},
        {"by another status", "?status=STOPPED", 0},
        {"by team", "?team_id=t1", 1},
        {"by another team", "?team_id=t2", 0},
        {"by tag", "?tags=k:v", 1},
        {"by another tag", "?tags=k:w", 0},
    };
    for (size_t i = 0; i < COUNT(lists); i++) {
        const char *line = cay_arena_printf(&api.f.a, "GET /api/v1/sandbox%s", lists[i].query);
        const struct cay_json *list = body_of(&api, ask(&api, line, NULL, NULL));
        CHECK_EQ(lists[i].name, cay_json_get_int(list, "total", -1), lists[i].total);
        CHECK_EQ(lists[i].name, cay_json_get(list, "sandboxes")->count, (size_t)lists[i].total);
    }
    answer = ask(&api, "GET /api/v1/sandbox", NULL, NULL);
    CHECK("both spellings", strstr(answer, "\"per_page\":50,\"perPage\":50") != NULL);
    answer = ask(&api, "POST /api/v1/sandbox/my-sandbox/stop", NULL, "{\"grace_ms\":0}");
    CHECK("stopped", strstr(answer, "\"status\":\"STOPPED\"") != NULL);
    CHECK("and why", strstr(answer, "\"terminationReason\":\"stopped\"") != NULL);
    answer = ask(&api, "POST /api/v1/sandbox/my-sandbox/start", NULL, NULL);
    CHECK("started", strstr(answer, "\"status\":\"RUNNING\"") != NULL);
    answer = ask(&api, "DELETE /api/v1/sandbox/my-sandbox", NULL, NULL);
    CHECK("gone", strstr(answer, "\"status\":\"TERMINATED\"") != NULL);
    CHECK_EQ("its name too", status_of(ask(&api, "GET /api/v1/sandbox/my-sandbox", NULL, NULL)),
             404);
    api_close(&api);
}

TEST(v1_deletes_in_bulk)
{
    struct api api;
    api_open(&api, 0);
    struct cay_sandbox one = fixture_create(&api.f, "one", false);
    fixture_create(&api.f, "two", false);
    ask(&api, "POST /api/v1/sandbox", NULL, "{\"name\":\"three\",\"labels\":[\"x\"]," SMALL "}");
    CHECK_EQ("neither ids nor labels",
             status_of(ask(&api, "DELETE /api/v1/sandbox/bulk", NULL, "{}")), 400);
    const char *body = cay_arena_printf(&api.f.a, "{\"sandbox_ids\":[\"%s\",\"nobody\"]}", one.id);
    const char *answer = ask(&api, "DELETE /api/v1/sandbox/bulk", NULL, body);
    CHECK_EQ("answered", status_of(answer), 200);
    CHECK_EQ("one", cay_json_get(body_of(&api, answer), "succeeded")->count, 1);
    CHECK("the other was not found",
          strstr(answer, "{\"id\":\"nobody\",\"code\":\"NOT_FOUND\"") != NULL);
    answer = ask(&api, "DELETE /api/v1/sandbox", NULL, "{\"labels\":[\"x\"]}");
    CHECK_EQ("by label", cay_json_get(body_of(&api, answer), "succeeded")->count, 1);
    CHECK_EQ("the second is left", cay_provider_fake_count(api.f.provider), 1);
    api_close(&api);
}

TEST(v1_exec_waits_streams_and_detaches)
{
    struct api api;
    api_open(&api, 0);
    fixture_create(&api.f, "box", false);
    const char *answer =
        ask(&api, "POST /api/v1/sandbox/box/exec", NULL, "{\"command\":[\"say\",\"h\u00e9llo\"]}");
    CHECK_EQ("waits", status_of(answer), 200);
    const struct cay_json *result = body_of(&api, answer);
    CHECK_EQ("code", cay_json_get_int(result, "exitCode", -1), 0);
    CHECK_STR("output", cay_json_get_str(result, "stdout", ""), "say h\u00e9llo\n");
    CHECK_STR("reason", cay_json_get_str(result, "reason", ""), "exited");
    const char *eid = cay_json_get_str(result, "id", "");

    answer = ask(&api, "POST /api/v1/sandbox/box/exec", NULL, "{\"command\":[\"exit\",\"7\"]}");
    CHECK_EQ("its code", cay_json_get_int(body_of(&api, answer), "exitCode", -1), 7);

    answer = ask(&api, "POST /api/v1/sandbox/box/exec", "Accept: text/event-stream\r\n",
                 "{\"command\":[\"say\",\"hi\"]}");
    CHECK("an event", strstr(answer, "event: stdout\ndata: {\"data\":\"say\"}\n\n") != NULL);
    CHECK("the last one", strstr(answer, "event: exit\ndata: {\"id\":\"exec_") != NULL);
    CHECK("with the code",
          strstr(answer, "\"exitCode\":0,\"signal\":null,\"reason\":\"exited\"") != NULL);

    answer = ask(&api, "POST /api/v1/sandbox/box/exec", "Accept: application/x-ndjson\r\n",
                 "{\"command\":[\"say\",\"hi\"]}");
    CHECK("start", strstr(answer, "{\"type\":\"start\",") != NULL);
    CHECK("end", strstr(answer, "{\"type\":\"exit\",") != NULL);

    const char *path = cay_arena_printf(&api.f.a, "GET /api/v1/sandbox/box/exec/%s/output", eid);
    answer = ask(&api, path, NULL, NULL);
    CHECK("as it came", strstr(answer, "llo") != NULL && strstr(answer, "text/plain") != NULL);
    answer = ask(&api, path, "Accept: text/event-stream\r\nLast-Event-ID: 3\r\n", NULL);
    CHECK_EQ("a place where no record begins", status_of(answer), 400);

    answer = ask(&api, "POST /api/v1/sandbox/box/exec", NULL,
                 "{\"command\":[\"sleep\"],\"detach\":true}");
    CHECK_EQ("detached", status_of(answer), 202);
    eid = cay_json_get_str(body_of(&api, answer), "id", "");
    path = cay_arena_printf(&api.f.a, "POST /api/v1/sandbox/box/exec/%s/kill", eid);
    answer = ask(&api, path, NULL, "{\"signal\":\"SIGINT\"}");
    CHECK_EQ("killed", cay_json_get_int(body_of(&api, answer), "signal", 0), 2);
    CHECK_EQ("killed again", status_of(ask(&api, path, NULL, NULL)), 409);
    CHECK_EQ("no such signal", status_of(ask(&api, path, NULL, "{\"signal\":\"SIGFOO\"}")), 400);
    answer = ask(&api, "GET /api/v1/sandbox/box/exec?per_page=2", NULL, NULL);
    CHECK_EQ("listed", cay_json_get_int(body_of(&api, answer), "total", 0), 5);
    api_close(&api);
}

/* Whoever waits for a command hears the truth when the sandbox goes first. */
TEST(v1_exec_ends_with_its_sandbox)
{
    struct api api;
    struct cay_error err = {0};
    struct cay_sandbox gone;
    api_open(&api, 0);
    struct cay_sandbox sb = fixture_create(&api.f, "box", false);
    CAY_AUTO_FD int waits = dial(&api), follows = dial(&api);
    send_request(&api, waits, "POST /api/v1/sandbox/box/exec", NULL, "{\"command\":[\"sleep\"]}");
    send_request(&api, follows, "POST /api/v1/sandbox/box/exec", "Accept: text/event-stream\r\n",
                 "{\"command\":[\"sleep\"]}");
    (void)await_commands(&api, sb.id, 2);
    CHECK_EQ("delete",
             cay_core_delete(api.f.core, &api.f.me, sb.id, CAY_WORKSPACE_AS_IT_IS, &api.f.a, &gone,
                             &err),
             0);
    const char *answer = receive(&api, waits);
    CHECK_EQ("the one that waits", status_of(answer), 409);
    CHECK("is told why", strstr(answer, "EXEC_LOST") != NULL);
    answer = receive(&api, follows);
    CHECK("the stream ends with it",
          strstr(answer,
                 "\"status\":\"lost\",\"exitCode\":null,\"signal\":null,\"reason\":\"lost\"") !=
              NULL);
    api_close(&api);
}

/* On drain an execution that goes on is answered with its id. */
TEST(v1_exec_goes_on_without_the_server)
{
    struct api api;
    api_open(&api, 0);
    struct cay_sandbox sb = fixture_create(&api.f, "box", false);
    CAY_AUTO_FD int waits = dial(&api);
    send_request(&api, waits, "POST /api/v1/sandbox/box/exec", NULL, "{\"command\":[\"sleep\"]}");
    (void)await_commands(&api, sb.id, 1);
    cay_http_stop(api.server);
    const char *answer = receive(&api, waits);
    CHECK_EQ("accepted", status_of(answer), 202);
    CHECK("it runs", strstr(answer, "\"status\":\"running\"") != NULL);
    pthread_join(api.thread, NULL);
    cay_app_close(api.server);
    close(api.cfg.listen_fd);
    fixture_close(&api.f);
}

TEST(v1_logs_of_the_start_command)
{
    struct api api;
    api_open(&api, 0);
    ask(&api, "POST /api/v1/sandbox", NULL,
        "{\"name\":\"box\"," SMALL ",\"startCommand\":[\"one\\ntwo\\nthree\"]}");
    const struct cay_json *logs =
        body_of(&api, ask(&api, "GET /api/v1/sandbox/box/logs", NULL, NULL));
    CHECK_STR("all", cay_json_get_str(logs, "logs", ""), "one\ntwo\nthree\n");
    logs = body_of(&api, ask(&api, "GET /api/v1/sandbox/box/logs?tail=2", NULL, NULL));
    CHECK_STR("two lines", cay_json_get_str(logs, "logs", ""), "two\nthree\n");
    logs = body_of(&api, ask(&api, "GET /api/v1/sandbox/box/logs?tail=0", NULL, NULL));
    CHECK_STR("none", cay_json_get_str(logs, "logs", "x"), "");
    const char *answer = ask(&api, "GET /api/v1/sandbox/box/logs?tail=1&follow=true", NULL, NULL);
    CHECK("followed", strstr(answer, "data: {\"data\":\"three\"}") != NULL);
    CHECK("not more", strstr(answer, "two") == NULL);
    CHECK("to its end", strstr(answer, "event: exit") != NULL);
    api_close(&api);
}

TEST(v1_health_says_what_is_wrong)
{
    struct api api;
    api_open(&api, 0);
    const char *answer = ask(&api, "GET /api/v1/health", NULL, NULL);
    CHECK_EQ("well", status_of(answer), 200);
    CHECK("by name", strstr(answer, "\"status\":\"healthy\"") != NULL);
    cay_provider_fake_fail_at(api.f.provider, 1);
    answer = ask(&api, "GET /api/v1/health", NULL, NULL);
    CHECK_EQ("unwell", status_of(answer), 503);
    CHECK("what to do", strstr(answer, "\"fix\":") != NULL);
    api_close(&api);
}

TEST(v1_limits_the_rate)
{
    struct api api;
    api_open(&api, 3);
    const char *answer = NULL;
    for (int i = 0; i < 4; i++)
        answer = ask(&api, "GET /api/v1/sandbox", "X-Forwarded-For: 9.9.9.9\r\n", NULL);
    CHECK_EQ("one too many", status_of(answer), 429);
    CHECK("when to come back", strstr(answer, "Retry-After: ") != NULL);
    CHECK("how many", strstr(answer, "RateLimit-Limit: 3") != NULL);
    CHECK("none left", strstr(answer, "RateLimit-Remaining: 0") != NULL);
    api_close(&api);
}
