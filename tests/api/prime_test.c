/* SPDX-License-Identifier: Apache-2.0 */
/* Document 003 and what its client speaks beside it: fields, states and the gateway. The
 * client itself is run by tests/e2e/test_prime.py. */
#include "tests/api/api.h"

/* The document's own example of a create, but for sizes that the test's host cannot give. */
static const char example[] =
    "{\"name\":\"my-sandbox\",\"dockerImage\":\"python:3.11\","
    "\"startCommand\":\"python main.py\",\"cpuCores\":4,\"memoryGB\":0.25,"
    "\"diskSizeGB\":50,\"gpuCount\":0,\"networkAccess\":true,"
    "\"timeoutMinutes\":60,\"environmentVars\":{\"FOO\":\"bar\"},"
    "\"labels\":[\"dev\",\"test\"]}";

static const char *const told[] = {"\"name\":\"my-sandbox\"",
                                   "\"dockerImage\":\"python:3.11\"",
                                   "\"startCommand\":\"python main.py\"",
                                   "\"cpuCores\":4,",
                                   "\"memoryGB\":0.25,",
                                   "\"diskSizeGB\":50,",
                                   "\"gpuCount\":0,",
                                   "\"networkAccess\":true",
                                   "\"status\":\"RUNNING\"",
                                   "\"timeoutMinutes\":60,",
                                   "\"environmentVars\":{\"FOO\":\"bar\"}",
                                   "\"labels\":[\"dev\",\"test\"]",
                                   "\"createdAt\":\"20",
                                   "\"startedAt\":\"20",
                                   "\"updatedAt\":\"20",
                                   "\"diskMountPath\":\"/workspace\"",
                                   "\"vm\":false"};

TEST(prime_document_to_the_letter)
{
    struct api api;
    api_open(&api, 1000);
    const char *answers[] = {ask(&api, "POST /api/v1/sandbox", NULL, example),
                             ask(&api, "GET /api/v1/sandbox/my-sandbox", NULL, NULL),
                             ask(&api, "GET /api/v1/sandbox?page=1&per_page=50", NULL, NULL)};
    for (size_t i = 0; i < COUNT(answers); i++)
        for (size_t k = 0; k < COUNT(told); k++)
            CHECK(told[k], strstr(answers[i], told[k]) != NULL);
    CHECK("one page", strstr(answers[2], "\"total\":1,\"page\":1,\"per_page\":50,") != NULL &&
                          strstr(answers[2], "\"has_next\":false") != NULL);
    static const struct {
        const char *line;
        int status;
        const char *word;
    } asks[] = {
        {"GET /api/v1/sandbox?labels=dev&labels=test&is_active=true", 200, "\"total\":1,"},
        {"GET /api/v1/sandbox?labels=dev&labels=prod", 200, "\"total\":0,"},
        {"GET /api/v1/sandbox?status=STOPPED", 200, "\"total\":0,"},
        {"GET /api/v1/sandbox?status=running", 400, "\"field\":\"status\""},
        {"GET /api/v1/sandbox?per_page=1000", 200, "\"per_page\":1000"},
        {"GET /api/v1/sandbox?per_page=1001", 400, "\"field\":\"per_page\""},
        {"GET /api/v1/sandbox?per_page=0", 400, "\"field\":\"per_page\""},
        {"GET /api/v1/sandbox?page=0", 400, "\"field\":\"page\""},
        {"GET /api/v1/sandbox?is_active=maybe", 400, "\"field\":\"is_active\""},
        {"POST /api/v1/sandbox/my-sandbox/auth-token", 200, "\"token\":\"cays_"},
        {"GET /api/v1/sandbox/my-sandbox/logs", 200, "\"logs\":\""},
        {"DELETE /api/v1/sandbox/my-sandbox", 200, "\"status\":\"TERMINATED\""},
        {"GET /api/v1/sandbox?is_active=true", 200, "\"total\":0,"},
        {"GET /api/v1/sandbox?is_active=false", 200, "\"total\":1,"},
        {"GET /api/v1/sandbox?status=TERMINATED", 200, "\"total\":1,"},
    };
    for (size_t i = 0; i < COUNT(asks); i++) {
        const char *answer = ask(&api, asks[i].line, NULL, NULL);
        CHECK_EQ(asks[i].line, status_of(answer), asks[i].status);
        CHECK(asks[i].line, strstr(answer, asks[i].word) != NULL);
        CHECK(asks[i].line, strstr(answer, "RateLimit-Limit: 1000\r\n") != NULL);
        CHECK(asks[i].line, strstr(answer, "RateLimit-Remaining: ") != NULL);
        CHECK(asks[i].line, strstr(answer, "RateLimit-Reset: ") != NULL);
    }
    api_close(&api);
}

TEST(prime_start_command_is_one_string)
{
    static const struct {
        const char *body, *want;
    } cases[] = {
        {"\"plain words\"", "\"plain words\""},
        {"[\"one\",\"two three\",\"\"]", "\"one 'two three' ''\""},
        {"{\"executable\":\"it's\",\"args\":[\"a=b\"]}", "\"'it'\\\\''s' a=b\""},
        {"null", "null"},
    };
    struct api api;
    api_open(&api, 0);
    for (size_t i = 0; i < COUNT(cases); i++) {
        const char *body =
            cay_arena_printf(&api.f.a, "{" SMALL ",\"start_command\":%s}", cases[i].body);
        const char *want = cay_arena_printf(&api.f.a, "\"startCommand\":%s,", cases[i].want);
        CHECK(cases[i].body, strstr(ask(&api, "POST /api/v1/sandbox", NULL, body), want) != NULL);
    }
    api_close(&api);
}

TEST(prime_names_are_titles_for_that_client_alone)
{
    struct api api;
    api_open(&api, 0);
    const char *body = "{\"name\":\"Its Box\"," SMALL "}",
               *agent = "User-Agent: prime-sandboxes/9\r\n";
    CHECK_EQ("others are told", status_of(ask(&api, "POST /api/v1/sandbox", NULL, body)), 400);
    const char *answer = ask(&api, "POST /api/v1/sandbox", agent, body);
    CHECK("made to fit", strstr(answer, "\"name\":\"its-box\"") != NULL);
    answer = ask(&api, "POST /api/v1/sandbox", agent, body);
    CHECK("told apart", strstr(answer, "\"name\":\"its-box-") != NULL);
    body = "{\"name\":\"its-box\"," SMALL "}";
    CHECK_EQ("others are told", status_of(ask(&api, "POST /api/v1/sandbox", NULL, body)), 409);
    body = "{\"name\":\"its-box\",\"memoryGB\":0.001}";
    CHECK_EQ("what else is wrong", status_of(ask(&api, "POST /api/v1/sandbox", agent, body)), 400);
    CHECK_EQ("two", cay_provider_fake_count(api.f.provider), 2);
    api_close(&api);
}

TEST(prime_user_and_directory_by_advanced_configs)
{
    struct api api;
    api_open(&api, 0);
    const char *answer =
        ask(&api, "POST /api/v1/sandbox", NULL,
            "{" SMALL ",\"advanced_configs\":{\"user\":\"root\",\"workdir\":\"/srv\","
            "\"else\":[1]}}");
    CHECK("the user", strstr(answer, "\"user\":\"root\"") != NULL);
    CHECK("the directory", strstr(answer, "\"workdir\":\"/srv\"") != NULL);
    answer = ask(&api, "POST /api/v1/sandbox", NULL,
                 "{" SMALL ",\"user\":\"me\",\"advanced_configs\":{\"user\":\"root\"}}");
    CHECK("a field of its own wins", strstr(answer, "\"user\":\"me\"") != NULL);
    api_close(&api);
}

TEST(prime_statuses)
{
    struct api api;
    api_open(&api, 0);
    struct cay_sandbox up = fixture_create(&api.f, "up", false);
    struct cay_sandbox down = fixture_create(&api.f, "down", true);
    struct cay_sandbox dead = fixture_create(&api.f, "dead", false);
    struct cay_error err = {0};
    struct cay_sandbox out;
    CHECK_EQ("stops", cay_core_stop(api.f.core, &api.f.me, "down", 0, &api.f.a, &out, &err), 0);
    cay_provider_fake_die(api.f.provider, dead.id, "oom", true);
    while (fixture_state(&api.f, dead.id) == CAY_RUNNING)
        (void)sched_yield();
    const char *body = cay_arena_printf(
        &api.f.a, "{\"sandbox_ids\":[\"%s\",\"%s\",\"%s\",\"sb-none\"]}", up.id, down.id, dead.id);
    const char *answer = ask(&api, "POST /api/v1/sandbox/status:batchGet", NULL, body);
    const struct {
        const char *id, *status, *type;
    } want[] = {{up.id, "RUNNING", "null"},
                {down.id, "PAUSED", "null"}, /* the client knows no STOPPED */
                {dead.id, "ERROR", "\"OOM_KILLED\""}};
    for (size_t i = 0; i < COUNT(want); i++)
        CHECK(want[i].status,
              strstr(answer, cay_arena_printf(&api.f.a,
                                              "{\"sandbox_id\":\"%s\",\"status\":\"%s\","
                                              "\"error_type\":%s,",
                                              want[i].id, want[i].status, want[i].type)) != NULL);
    CHECK("who is unknown",
          strstr(answer, "\"errors\":[{\"sandbox_id\":\"sb-none\",\"code\":\"NOT_FOUND\"") != NULL);
    answer = ask(&api, "GET /api/v1/sandbox/dead/error-context", NULL, NULL);
    CHECK("the context",
          strstr(answer, "{\"status\":\"ERROR\",\"errorType\":\"OOM_KILLED\",") != NULL);
    answer = ask(&api, "POST /api/v1/sandbox/status:batchGet", NULL, "{\"sandbox_ids\":[]}");
    CHECK_EQ("none", status_of(answer), 400);
    struct cay_buf many = {0};
    for (int i = 0; i < 101; i++)
        cay_buf_addf(&many, "%s\"sb-%d\"", i ? "," : "{\"sandbox_ids\":[", i);
    cay_buf_add(&many, "]}", sizeof "]}");
    answer = ask(&api, "POST /api/v1/sandbox/status:batchGet", NULL, many.data);
    CHECK_EQ("too many", status_of(answer), 400);
    cay_buf_done(&many);
    api_close(&api);
}

#define FORM "Content-Type: multipart/form-data; boundary=XX\r\n"
#define REPLY .version = CAY_FILE_VERSION
#define OF_SIZE(n) .info = {.size = (n), .mode = 0100644, .uid = 1000, .gid = 1000, .inode = 7}

static const struct {
    const char *what, *line, *headers, *body;
    struct cay_file_reply reply; /* what the sandbox says to a question about files */
    const char *more;
    int status;
    const char *word;
} calls[] = {
    {"no sandbox",
     "POST /gateway/local/sb-none/exec",
     NULL,
     "{\"command\":\"true\"}",
     {0},
     "",
     502,
     "{\"error\":\"sandbox_not_found\","},
    {"no such operation",
     "POST /gateway/local/box/what",
     NULL,
     "{}",
     {0},
     "",
     404,
     "ROUTE_NOT_FOUND"},
    {"no command",
     "POST /gateway/local/box/exec",
     NULL,
     "{}",
     {0},
     "",
     400,
     "\"field\":\"command\""},
    {"a command",
     "POST /gateway/local/box/exec",
     NULL,
     "{\"command\":\"true\",\"working_dir\":null,\"env\":{},\"sandbox_id\":\"x\",\"timeout\":5,"
     "\"new_field\":[1]}",
     {0},
     "",
     200,
     "\"stdout\":"},
    {"a relative directory",
     "POST /gateway/local/box/exec",
     NULL,
     "{\"command\":\"true\",\"working_dir\":\"a\"}",
     {0},
     "",
     400,
     "\"field\":\"working_dir\""},
    {"a time of nothing",
     "POST /gateway/local/box/exec",
     NULL,
     "{\"command\":\"true\",\"timeout\":0}",
     {0},
     "",
     400,
     "\"field\":\"timeout\""},
    {"no form",
     "POST /gateway/local/box/upload?path=/a",
     NULL,
     "{}",
     {0},
     "",
     415,
     "multipart/form-data"},
    {"no path", "GET /gateway/local/box/download", NULL, NULL, {0}, "", 400, "\"field\":\"path\""},
    {"an upload",
     "POST /gateway/local/box/upload?path=/a",
     FORM,
     "--XX--",
     {REPLY, OF_SIZE(3), .count = 0},
     "",
     200,
     "{\"success\":true,\"path\":\"/a\",\"size\":3,"},
    {"a download",
     "GET /gateway/local/box/download?path=/a",
     NULL,
     NULL,
     {REPLY, OF_SIZE(3), .length = 3},
     "abc",
     200,
     "\r\n\r\nabc"},
    {"no file",
     "GET /gateway/local/box/read-file?path=/a",
     NULL,
     NULL,
     {REPLY, .code = CAY_FILE_NOT_FOUND},
     "",
     404,
     "NOT_FOUND"},
    {"a text",
     "GET /gateway/local/box/read-file?path=/a",
     NULL,
     NULL,
     {REPLY, OF_SIZE(5), .length = 5},
     "a\"\xff\n\xc3",
     200,
     "{\"size\":5,\"total_size\":5,\"offset\":0,\"truncated\":false,"
     "\"content\":\"a\\\"\xEF\xBF\xBD\\n\xEF\xBF\xBD\"}"},
    {"a part",
     "GET /gateway/local/box/read-file?path=/a&offset=-3&length=2",
     NULL,
     NULL,
     {REPLY, OF_SIZE(5), .flags = CAY_FILE_PARTIAL, .offset = 2, .length = 3},
     "cde",
     200,
     "{\"size\":2,\"total_size\":5,\"offset\":2,\"truncated\":true,\"content\":\"cd\"}"},
    {"nothing there",
     "GET /gateway/local/box/read-file?path=/a&offset=5",
     NULL,
     NULL,
     {REPLY, OF_SIZE(5), .code = CAY_FILE_BAD_RANGE, .offset = 5},
     "",
     200,
     "{\"size\":0,\"total_size\":5,\"offset\":5,\"truncated\":true,\"content\":\"\"}"},
    {"too much",
     "GET /gateway/local/box/read-file?path=/a",
     NULL,
     NULL,
     {REPLY, OF_SIZE(CAY_FILE_TEXT_MAX + 1), .length = CAY_FILE_TEXT_MAX + 1},
     "a",
     413,
     "TOO_LARGE"},
    {"no number",
     "GET /gateway/local/box/read-file?path=/a&offset=x",
     NULL,
     NULL,
     {0},
     "",
     400,
     "\"field\":\"offset\""},
    {"less than was promised",
     "GET /gateway/local/box/read-file?path=/a",
     NULL,
     NULL,
     {REPLY, OF_SIZE(5), .length = 5},
     "abc",
     200,
     "\"content\":\"abc"},
    {"an invented answer",
     "GET /gateway/local/box/read-file?path=/a",
     NULL,
     NULL,
     {.version = 9},
     "",
     502,
     "FILE_OPERATION_LOST"},
};

TEST(prime_gateway)
{
    struct api api;
    api_open(&api, 0);
    fixture_create(&api.f, "box", false);
    for (size_t i = 0; i < COUNT(calls); i++) {
        CAY_AUTO_BUF struct cay_buf says = {0};
        cay_buf_add(&says, &calls[i].reply, sizeof calls[i].reply);
        cay_buf_adds(&says, calls[i].more);
        cay_provider_fake_file_says(api.f.provider, says.data, says.len);
        const char *answer = ask(&api, calls[i].line, calls[i].headers, calls[i].body);
        CHECK_EQ(calls[i].what, status_of(answer), calls[i].status);
        CHECK(calls[i].what, strstr(answer, calls[i].word) != NULL);
        cay_provider_fake_file_says(api.f.provider, NULL, 0);
    }
    struct cay_error err = {0};
    struct cay_sandbox out;
    CHECK_EQ("stops", cay_core_stop(api.f.core, &api.f.me, "box", 0, &api.f.a, &out, &err), 0);
    const char *answer = ask(&api, "POST /gateway/local/box/exec", NULL, "{\"command\":\"true\"}");
    CHECK_EQ("not running", status_of(answer), 409);
    api_close(&api);
}

/* A token of a sandbox that is gone still says whose it was. */
TEST(prime_gateway_of_the_gone)
{
    struct api api;
    struct cay_error err = {0};
    struct cay_sandbox_token token = {0};
    struct cay_sandbox out;
    api_open_with(&api, 0, "keys");
    struct cay_sandbox sb = fixture_create(&api.f, "box", false);
    CHECK_EQ("a token",
             cay_core_sandbox_token(api.f.core, &api.f.me, sb.id, &api.f.a, &token, &err), 0);
    const char *line = cay_arena_printf(&api.f.a, "POST /gateway/local/%s/exec", sb.id);
    const char *bearer = cay_arena_printf(&api.f.a, "Authorization: Bearer %s\r\n", token.token);
    CHECK_EQ("opens", status_of(ask(&api, line, bearer, "{\"command\":\"true\"}")), 200);
    CHECK_EQ(
        "delete",
        cay_core_delete(api.f.core, &api.f.me, sb.id, CAY_WORKSPACE_AS_IT_IS, &api.f.a, &out, &err),
        0);
    CHECK_EQ("gone", status_of(ask(&api, line, bearer, "{\"command\":\"true\"}")), 409);
    const char *get = cay_arena_printf(&api.f.a, "GET /api/v1/sandbox/%s", sb.id);
    CHECK_EQ("elsewhere it opens nothing", status_of(ask(&api, get, bearer, NULL)), 401);
    api_close(&api);
}
