/* SPDX-License-Identifier: Apache-2.0 */
/* /api/v1: files, when the sandbox answers in cay-file's place: whatever it says, callers get an
 * answer or a cut connection, never what it made up. */
#include "tests/api/api.h"
#include <signal.h>

#define STAT "GET /api/v1/sandbox/box/files/stat?path=f"
#define LIST "GET /api/v1/sandbox/box/files/list?path=d"
#define READ "GET /api/v1/sandbox/box/files?path=f"
#define REPLY .version = CAY_FILE_VERSION
#define FILE_INFO .info = {.size = 3, .mode = 0100644, .uid = 1000, .gid = 1000, .inode = 7}

static const struct {
    const char *what, *line;
    struct cay_file_reply reply;
    const char *more; /* bytes behind it */
    size_t cut;       /* so many are missing at its end */
    int status;
    const char *word;
} cases[] = {
    {"good", STAT, {REPLY, FILE_INFO}, "", 0, 200, "\"size\":3"},
    {"nothing", STAT, {0}, "", sizeof(struct cay_file_reply), 502, "FILE_OPERATION_LOST"},
    {"half", STAT, {REPLY, FILE_INFO}, "", 1, 502, "FILE_OPERATION_LOST"},
    {"another version", STAT, {.version = 99, FILE_INFO}, "", 0, 502, "FILE_OPERATION_LOST"},
    {"no such code", STAT, {REPLY, .code = 1000}, "", 0, 502, "FILE_OPERATION_LOST"},
    {"a strange owner", STAT, {REPLY, .info.uid = 70000}, "", 0, 502, "FILE_OPERATION_LOST"},
    {"a link that is missing", STAT, {REPLY, .length = 100}, "x", 0, 502, "FILE_OPERATION_LOST"},
    {"an error", STAT, {REPLY, .code = CAY_FILE_NOT_FOUND}, "", 0, 404, "\"NOT_FOUND\""},
    {"an error with a word",
     STAT,
     {REPLY, .code = CAY_FILE_BAD_ARCHIVE, .detail = "\x1b[31m\"\xff"},
     "",
     0,
     400,
     "\\u001b[31m\\\""},
    {"full", STAT, {REPLY, .code = CAY_FILE_NO_SPACE}, "", 0, 507, "NO_SPACE"},
    {"no entries", LIST, {REPLY, FILE_INFO}, "", 0, 200, "\"entries\":[]"},
    {"more than may be", LIST, {REPLY, .count = CAY_FILE_PAGE + 1}, "", 0, 502, "LOST"},
    {"entries that are none", LIST, {REPLY, .count = 1}, "short", 0, 502, "LOST"},
    {"a file", READ, {REPLY, FILE_INFO, .length = 3}, "abc", 0, 200, "\r\n\r\nabc"},
    {"less than was promised", READ, {REPLY, FILE_INFO, .length = 3}, "ab", 0, 200, "\r\n\r\nab"},
    {"more than was promised",
     READ,
     {REPLY, FILE_INFO, .length = 3},
     "abcd",
     0,
     200,
     "\r\n\r\nabc"},
    {"more than it has", READ, {REPLY, FILE_INFO, .length = 4}, "abcd", 0, 502, "LOST"},
    {"no range",
     READ,
     {REPLY, FILE_INFO, .code = CAY_FILE_BAD_RANGE},
     "",
     0,
     416,
     "Content-Range: bytes */3"},
};

TEST(v1_files_believe_nothing)
{
    struct api api;
    api_open(&api, 0);
    fixture_create(&api.f, "box", false);
    for (size_t i = 0; i < COUNT(cases); i++) {
        CAY_AUTO_BUF struct cay_buf says = {0};
        cay_buf_add(&says, &cases[i].reply, sizeof cases[i].reply);
        cay_buf_adds(&says, cases[i].more);
        cay_provider_fake_file_says(api.f.provider, says.data, says.len - cases[i].cut);
        const char *answer = ask(&api, cases[i].line, NULL, NULL);
        CHECK_EQ(cases[i].what, status_of(answer), cases[i].status);
        CHECK(cases[i].what, strstr(answer, cases[i].word) != NULL);
        CHECK(cases[i].what, !strstr(answer, "\r\n\r\nabcd")); /* a request's id may hold it */
        cay_provider_fake_file_says(api.f.provider, NULL, 0);
    }
    api_close(&api);
}

TEST(v1_files_need_a_sandbox_that_runs)
{
    static const char *const lines[] = {STAT, LIST, READ, "DELETE /api/v1/sandbox/box/files?path=f",
                                        "PUT /api/v1/sandbox/box/files?path=f"};
    struct api api;
    api_open(&api, 0);
    for (size_t i = 0; i < COUNT(lines); i++)
        CHECK_EQ(lines[i], status_of(ask(&api, lines[i], NULL, NULL)), 404);
    fixture_create(&api.f, "box", true);
    cay_provider_fake_fail_at(api.f.provider, 1);
    CHECK_EQ("a provider that fails", status_of(ask(&api, STAT, NULL, NULL)), 502);
    CHECK_EQ("paused", status_of(ask(&api, "POST /api/v1/sandbox/box/pause", NULL, NULL)), 200);
    for (size_t i = 0; i < COUNT(lines); i++)
        CHECK_EQ(lines[i], status_of(ask(&api, lines[i], NULL, NULL)), 409);
    api_close(&api);
}

/* Whoever waits to be asked for a body is asked when it is wanted, and not before. */
TEST(v1_bodies_are_asked_for_when_they_are_wanted)
{
    static const char *const lines[] = {
        "PUT /api/v1/sandbox/none/files?path=f", "PUT /api/v1/sandbox/none/files/archive?path=d",
        "POST /api/v1/sandbox/none/exec/exec_0123456789abcdef/stdin",
        "POST /api/v1/sandbox/box/exec/exec_0123456789abcdef/stdin"};
    static const char expects[] = "Expect: 100-continue\r\nContent-Type: x/y\r\n";
    struct cay_file_reply good = {REPLY, FILE_INFO};
    struct api api;
    (void)signal(SIGPIPE, SIG_IGN); /* as the server has it: the fake reads nothing */
    api_open(&api, 0);
    fixture_create(&api.f, "box", false);
    for (size_t i = 0; i < COUNT(lines); i++) {
        const char *answer = ask(&api, lines[i], expects, "abc");
        CHECK_EQ(lines[i], status_of(answer), 404);
        CHECK(lines[i], !strstr(answer, "100 Continue"));
    }
    cay_provider_fake_file_says(api.f.provider, &good, sizeof good);
    const char *answer = ask(&api, "PUT /api/v1/sandbox/box/files?path=f", expects, "abc");
    const char *next = strstr(answer, "\r\n\r\n");
    CHECK_EQ("wanted", status_of(answer), 100);
    CHECK("and taken", next && strncmp(next, "\r\n\r\nHTTP/1.1 20", 14) == 0);
    cay_provider_fake_file_says(api.f.provider, NULL, 0);
    api_close(&api);
}

TEST(v1_files_bound_what_goes_in)
{
    struct api api;
    char body[6000], headers[3000];
    int n = snprintf(body, sizeof body, "{\"path\":\"d\",\"to\":\"%05000d\"}", 0);
    CHECK("fits", n > 5000 && n < (int)sizeof body);
    snprintf(headers, sizeof headers, "If-Match: %0*d\r\n", CAY_FILE_MATCH_BYTES + 1, 0);
    api_open(&api, 0);
    fixture_create(&api.f, "box", false);
    const char *answer = ask(&api, "POST /api/v1/sandbox/box/files/mkdir", NULL, body);
    CHECK_EQ("also what is not used", status_of(answer), 400);
    CHECK("by its name", strstr(answer, "\"field\":\"to\"") != NULL);
    answer = ask(&api, "PUT /api/v1/sandbox/box/files?path=f", headers, "x");
    CHECK_EQ("a header", status_of(answer), 400);
    CHECK("by its name", strstr(answer, "\"field\":\"If-Match\"") != NULL);
    api_close(&api);
}
