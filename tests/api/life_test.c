/* SPDX-License-Identifier: Apache-2.0 */
/* /api/v1: creating without waiting, pausing, and what a sandbox uses. */
#include "tests/api/api.h"

/* Who waits for a command waits on while its sandbox is paused. */
TEST(v1_pauses_and_resumes)
{
    struct api api;
    api_open(&api, 0);
    struct cay_sandbox sb = fixture_create(&api.f, "box", false);
    CAY_AUTO_FD int waits = dial(&api);
    send_request(&api, waits, "POST /api/v1/sandbox/box/exec", NULL, "{\"command\":[\"sleep\"]}");
    struct cay_strs running = await_commands(&api, sb.id, 1);
    const char *answer = ask(&api, "POST /api/v1/sandbox/box/pause", NULL, NULL);
    CHECK_EQ("paused", status_of(answer), 200);
    CHECK("its state", strstr(answer, "\"status\":\"PAUSED\"") != NULL);
    answer = ask(&api, "GET /api/v1/sandbox/box", NULL, NULL);
    CHECK("it still uses", strstr(answer, "\"usage\":{\"cpu\"") != NULL);
    answer = ask(&api, "GET /api/v1/sandbox?status=PAUSED", NULL, NULL);
    CHECK_EQ("listed", cay_json_get_int(body_of(&api, answer), "total", 0), 1);
    answer = ask(&api, "POST /api/v1/sandbox/box/exec", NULL, "{\"command\":[\"say\"]}");
    CHECK_EQ("no commands", status_of(answer), 409);
    CHECK("and why", strstr(answer, "\"SANDBOX_PAUSED\"") != NULL);
    answer = ask(&api, "POST /api/v1/sandbox/box/resume", NULL, NULL);
    CHECK("goes on", strstr(answer, "\"status\":\"RUNNING\"") != NULL);
    const char *path =
        cay_arena_printf(&api.f.a, "POST /api/v1/sandbox/box/exec/%s/kill", running.at[0]);
    CHECK_EQ("kill", status_of(ask(&api, path, NULL, NULL)), 200);
    answer = receive(&api, waits);
    CHECK_EQ("who waited is answered", status_of(answer), 200);
    CHECK("with the end", strstr(answer, "\"signal\":15") != NULL);
    api_close(&api);
}

/* The next event of a stream that lasts; chunk sizes stand in the text. */
static bool next_event(int fd, const char *name, char *text, size_t size)
{
    char mark[64];
    size_t len = 0;
    snprintf(mark, sizeof mark, "event: %s\n", name);
    while (len + 1 < size && recv(fd, text + len, 1, 0) == 1) {
        text[++len] = 0;
        const char *at = strstr(text, mark);
        if (at && strstr(at, "\n\n"))
            return true;
    }
    return false;
}

TEST(v1_stats_once_and_as_they_change)
{
    struct api api;
    struct cay_error err = {0};
    struct cay_sandbox sb;
    char text[4096];
    static const char accept[] = "Accept: text/event-stream\r\n";
    api_open(&api, 0);
    fixture_create(&api.f, "box", false);
    const char *answer = ask(&api, "GET /api/v1/sandbox/box/stats", NULL, NULL);
    CHECK_EQ("once", status_of(answer), 200);
    CHECK("nothing to compare with", strstr(answer, "\"percent\":null") != NULL);
    static const char *const parts[] = {
        "\"cpu\":{\"usageMs\":",
        "\"limitCores\":1}",
        "\"memory\":{\"bytes\":1048576,\"peakBytes\":2097152,\"limitBytes\":67108864}",
        "\"pids\":{\"now\":1,\"limit\":512}",
        "\"disk\":{\"bytes\":null,\"limitBytes\":10000000000,\"enforcedBy\":\"none\"}",
        "\"io\":{\"readBytes\":0,\"writeBytes\":0}",
        "\"network\":{\"rxBytes\":0,\"txBytes\":0}",
    };
    for (size_t i = 0; i < COUNT(parts); i++)
        CHECK(parts[i], strstr(answer, parts[i]) != NULL);
    CHECK_EQ("too fast",
             status_of(ask(&api, "GET /api/v1/sandbox/box/stats?intervalMs=99", accept, NULL)),
             400);
    CHECK_EQ("too slow",
             status_of(ask(&api, "GET /api/v1/sandbox/box/stats?interval_ms=60001", accept, NULL)),
             400);

    CAY_AUTO_FD int fd = dial(&api);
    send_request(&api, fd, "GET /api/v1/sandbox/box/stats?intervalMs=100", accept, NULL);
    CHECK("at once", next_event(fd, "stats", text, sizeof text));
    for (int i = 0; i < 3; i++) {
        CHECK("again", next_event(fd, "stats", text, sizeof text));
        const char *percent = strstr(text, "\"percent\":");
        double value = percent ? strtod(percent + 10, NULL) : 0;
        CHECK("half a core", value > 45 && value < 55);
    }
    cay_provider_fake_fail_at(api.f.provider, 1);
    CHECK("an engine that is away for once", next_event(fd, "stats", text, sizeof text));
    CHECK_EQ("pause", cay_core_pause(api.f.core, &api.f.me, "box", &api.f.a, &sb, &err), 0);
    CHECK("paused ones are counted too", next_event(fd, "stats", text, sizeof text));
    answer = ask(&api, "GET /api/v1/sandbox/box/stats", NULL, NULL);
    CHECK("compared with the last reading", strstr(answer, "\"percent\":null") == NULL);
    CHECK_EQ("stop", cay_core_stop(api.f.core, &api.f.me, "box", 0, &api.f.a, &sb, &err), 0);
    CHECK("it ends", next_event(fd, "end", text, sizeof text));
    CHECK("and says why", strstr(text, "{\"status\":\"STOPPED\"}") != NULL);
    answer = ask(&api, "GET /api/v1/sandbox/box/stats", NULL, NULL);
    CHECK_EQ("not of what is down", status_of(answer), 409);
    CHECK("by name", strstr(answer, "SANDBOX_NOT_RUNNING") != NULL);
    api_close(&api);
}

/* Until it is made, or not. */
static const struct cay_json *made(struct api *api, const char *id)
{
    const char *line = cay_arena_printf(&api->f.a, "GET /api/v1/sandbox/%s", id);
    for (;;) {
        const struct cay_json *sb = body_of(api, ask(api, line, NULL, NULL));
        if (strcmp(cay_json_get_str(sb, "status", ""), "PENDING") != 0)
            return sb;
    }
}

TEST(v1_creates_without_waiting)
{
    struct api api;
    api_open(&api, 0);
    const char *answer = ask(&api, "POST /api/v1/sandbox?wait=false", NULL,
                             "{\"name\":\"box\"," SMALL ",\"startCommand\":[\"say\",\"hi\"]}");
    CHECK_EQ("accepted", status_of(answer), 202);
    CHECK("where it will be", strstr(answer, "Location: /api/v1/sandbox/sb-") != NULL);
    const struct cay_json *sb = body_of(&api, answer);
    CHECK_STR("not yet", cay_json_get_str(sb, "status", ""), "PENDING");
    const char *id = cay_json_get_str(sb, "id", "");
    CHECK_STR("then", cay_json_get_str(made(&api, id), "status", ""), "RUNNING");

    answer = ask(&api, "POST /api/v1/sandbox?wait=false", NULL, "{\"name\":\"box\"," SMALL "}");
    CHECK_EQ("taken", status_of(answer), 409);
    answer = ask(&api, "POST /api/v1/sandbox?wait=false", NULL, "{\"cpuCores\":0}");
    CHECK_EQ("refused at once", status_of(answer), 400);

    answer = ask(&api, "POST /api/v1/sandbox?wait=false", NULL,
                 "{\"name\":\"bad\",\"image\":\"missing:1\"," SMALL "}");
    CHECK_EQ("accepted", status_of(answer), 202);
    sb = made(&api, "bad");
    CHECK_STR("failed", cay_json_get_str(sb, "status", ""), "ERROR");
    CHECK("with the reason", strstr(cay_json_get_str(sb, "statusReason", ""), "missing:1") != NULL);
    CHECK_STR("in short", cay_json_get_str(sb, "terminationReason", ""), "error");

    answer = ask(&api, "POST /api/v1/sandbox?wait=false", NULL, "{\"name\":\"gone\"," SMALL "}");
    CHECK_EQ("accepted", status_of(answer), 202);
    CHECK_EQ("deleted, made or not",
             status_of(ask(&api, "DELETE /api/v1/sandbox/gone", NULL, NULL)), 200);
    CHECK_EQ("the first is there", cay_provider_fake_count(api.f.provider), 1);
    api_close(&api);
}

/* Document 001's way of asking, and what a host has not. */
TEST(v1_counts_resources)
{
    static const struct {
        const char *name, *body, *says; /* in the answer */
        int status;
    } asks[] = {
        {"a core brings 2048 MB", "{\"resources\":{\"vcpus\":0.5}}", "\"memoryGB\":1,", 201},
        {"by its other name", "{\"cpuCores\":0.5}", "\"memoryGB\":1,", 201},
        {"as it was said", "{\"memoryGB\":0.3}", "\"memoryGB\":0.3,", 201},
        {"as far as there is any", "{\"cpuCores\":64}", "\"cpuCores\":64,", 201},
        {"cores alone", "{\"resources\":{\"vcpus\":0.25}}", "\"cpuCores\":0.25,", 201},
        {"unless memory is named", "{\"resources\":{\"vcpus\":2},\"memoryGB\":0.25}",
         "\"memoryGB\":0.25,", 201},
        {"in the other way", "{\"resources\":{\"vcpus\":2},\"memory_limit\":\"128m\"}",
         "\"memoryGB\":0.125,", 201},
        {"no core", "{\"resources\":{\"vcpus\":0}}", "\"field\":\"resources.vcpus\"", 400},
        {"cores whose memory is not there", "{\"resources\":{\"vcpus\":64}}",
         "\"field\":\"resources.vcpus\"", 400},
        {"with how many there may be", "{\"resources\":{\"vcpus\":64}}",
         "has 5120 MiB for sandboxes: at most 2.5", 400},
        {"as many", "{\"resources\":{\"vcpus\":2.5}}", "\"memoryGB\":5,", 201},
        {"more, with memory named", "{\"resources\":{\"vcpus\":64}," SMALL "}", "\"cpuCores\":64,",
         201},
        {"each by its own name", "{\"resources\":{\"vcpus\":2},\"cpuCores\":4}",
         "\"cpuCores\":4,\"memoryGB\":4,", 201},
        {"memory of cores alone", "{\"cpuCores\":64}", "\"memoryGB\":5,", 201},
        {"65 cores", "{\"resources\":{\"vcpus\":65}}", "0.1 and 64", 400},
        {"unknown resources", "{\"resources\":{\"ram\":1}}", "\"field\":\"resources.ram\"", 400},
        {"more memory than there is", "{\"memoryGB\":900000000}", "to this host's", 400},
        {"beyond all bounds", "{\"memoryGB\":1e300}", "to this host's", 400},
        {"negative disk", "{\"diskSizeGB\":-1}", "at least 0.1", 400},
        {"memory by its other name", "{\"memoryLimit\":\"999999g\"}", "to this host's", 400},
        {"more disk than is free", "{\"diskSizeGB\":51," SMALL "}", "the 50.0 that", 400},
        {"all that is free", "{\"diskSizeGB\":50," SMALL "}", "\"diskSizeGB\":50,", 201},
        {"graphics cards", "{\"gpuCount\":2," SMALL "}", "\"GPU_UNAVAILABLE\"", 400},
        {"many", "{\"gpuCount\":1025," SMALL "}", "\"GPU_UNAVAILABLE\"", 400},
        {"as many as can be said", "{\"gpuCount\":9007199254740992," SMALL "}",
         "\"GPU_UNAVAILABLE\"", 400},
        {"less than none", "{\"gpuCount\":-1," SMALL "}", "\"VALIDATION_ERROR\"", 400},
    };
    struct api api;
    api_open(&api, 0);
    api.f.core->host_memory_bytes = 5 * CAY_GIB;
    cay_provider_fake_set_room(api.f.provider, 50000000000);
    for (size_t i = 0; i < COUNT(asks); i++) {
        const char *answer = ask(&api, "POST /api/v1/sandbox", NULL, asks[i].body);
        CHECK_EQ(asks[i].name, status_of(answer), asks[i].status);
        if (!strstr(answer, asks[i].says))
            test_failed(__FILE__, __LINE__, "%s: %.600s", asks[i].name, answer);
    }
    cay_provider_fake_set_room(api.f.provider, 3000000000);
    const char *answer = ask(&api, "POST /api/v1/sandbox", NULL, "{" SMALL "}");
    CHECK("a default that fits", strstr(answer, "\"diskSizeGB\":3,") != NULL);
    api_close(&api);
}

/* What a host of 1 GiB and 3 GB is asked for is refused, also where it is what others get unasked.
 */
TEST(v1_gives_what_was_asked_for_or_nothing)
{
    static const struct {
        const char *path, *body, *says;
        int status;
    } asks[] = {
        {"POST /api/v1/sandbox", "{\"name\":\"box\"}", "\"memoryGB\":1,\"diskSizeGB\":3,", 201},
        {"POST /api/v1/sandbox", "{\"cpuCores\":1}", "\"memoryGB\":1,", 201},
        {"POST /api/v1/sandbox", "{\"memoryGB\":2}", "\"field\":\"memoryGB\"", 400},
        {"POST /api/v1/sandbox", "{\"memoryLimit\":\"2g\"}", "\"field\":\"memoryGB\"", 400},
        {"POST /api/v1/sandbox", "{\"diskSizeGB\":10}", "\"field\":\"diskSizeGB\"", 400},
        {"POST /api/v1/sandbox", "{\"resources\":{\"vcpus\":1}}", "at most 0.5", 400},
        {"POST /api/v1/sandbox/box/fork", "{}", "\"memoryGB\":1,\"diskSizeGB\":3,", 201},
        {"POST /api/v1/sandbox/box/fork", "{\"cpuCores\":4}", "\"memoryGB\":1,", 201},
        {"POST /api/v1/sandbox/box/fork", "{\"memoryGB\":2}", "\"field\":\"memoryGB\"", 400},
        {"POST /api/v1/sandbox/box/fork", "{\"diskSizeGB\":10}", "\"field\":\"diskSizeGB\"", 400},
        {"POST /api/v1/sandbox/box/fork", "{\"resources\":{\"vcpus\":1}}", "at most 0.5", 400},
        {"POST /api/sandbox", "{}", "\"status\":\"created\"", 201},
        {"POST /api/sandbox", "{\"memoryLimit\":\"2g\"}", "\"field\":\"memoryGB\"", 400},
    };
    struct api api;
    api_open(&api, 0);
    api.f.core->host_memory_bytes = CAY_GIB;
    cay_provider_fake_set_room(api.f.provider, 3000000000);
    for (size_t i = 0; i < COUNT(asks); i++) {
        const char *answer = ask(&api, asks[i].path, NULL, asks[i].body);
        CHECK_EQ(asks[i].body, status_of(answer), asks[i].status);
        if (!strstr(answer, asks[i].says))
            test_failed(__FILE__, __LINE__, "%s: %.600s", asks[i].body, answer);
    }
    api_close(&api);
}

TEST(v1_changes_sizes)
{
    static const struct {
        const char *body, *says;
        int status;
    } asks[] = {
        {"{\"resources\":{\"vcpus\":2}}", "\"cpuCores\":2,\"memoryGB\":4,", 200},
        {"{\"resources\":{\"vcpus\":3}}", "\"field\":\"resources.vcpus\"", 400},
        {"{\"resources\":{\"vcpus\":3}}", "5120 MiB for sandboxes: at most 2.5", 400},
        {"{\"resources\":{\"vcpus\":3,\"memoryGB\":1}}", "\"cpuCores\":3,\"memoryGB\":1,", 200},
        {"{\"resources\":{\"vcpus\":1},\"memoryLimit\":\"2g\"}", "\"memoryGB\":2,", 200},
        {"{\"resources\":{\"vcpus\":1,\"cpuCores\":0.5}}", "\"cpuCores\":0.5,\"memoryGB\":2,", 200},
        {"{\"cpuCores\":8}", "\"cpuCores\":8,\"memoryGB\":2,", 200},
        {"{\"memoryGB\":6}", "\"field\":\"memoryGB\"", 400},
    };
    struct api api;
    api_open(&api, 0);
    api.f.core->host_memory_bytes = 5 * CAY_GIB;
    CHECK_EQ("there", status_of(ask(&api, "POST /api/v1/sandbox", NULL, "{\"name\":\"box\"}")),
             201);
    for (size_t i = 0; i < COUNT(asks); i++) {
        const char *answer = ask(&api, "PATCH /api/v1/sandbox/box", NULL, asks[i].body);
        CHECK_EQ(asks[i].body, status_of(answer), asks[i].status);
        if (!strstr(answer, asks[i].says))
            test_failed(__FILE__, __LINE__, "%s: %.600s", asks[i].body, answer);
    }
    api.f.core->host_memory_bytes = CAY_GIB; /* it has more, of a day when the host gave more */
    const char *answer = ask(&api, "PATCH /api/v1/sandbox/box", NULL, "{\"labels\":[\"x\"]}");
    CHECK_EQ("other things", status_of(answer), 200);
    api_close(&api);
}
