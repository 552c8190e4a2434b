/* SPDX-License-Identifier: Apache-2.0 */
/* Forks, snapshots and volumes of /api/v1, on the fakes. */
#include "base/clock.h"
#include "tests/api/api.h"

static const char *text(const struct cay_json *v, const char *key)
{
    return cay_json_get_str(v, key, "-");
}

static const struct cay_json *post(struct api *api, const char *path, const char *body, int want)
{
    const char *line = cay_arena_printf(&api->f.a, "POST /api/v1%s", path);
    const char *answer = ask(api, line, NULL, body);
    CHECK_EQ(line, status_of(answer), want);
    return body_of(api, answer);
}

static const struct cay_json *call(struct api *api, const char *method, const char *path, int want)
{
    const char *line = cay_arena_printf(&api->f.a, "%s /api/v1%s", method, path);
    const char *answer = ask(api, line, NULL, NULL);
    CHECK_EQ(line, status_of(answer), want);
    return body_of(api, answer);
}

static const char *path(struct api *api, const char *kind, const char *id, const char *tail)
{
    return cay_arena_printf(&api->f.a, "/%s/%s%s", kind, id, tail);
}

static const struct {
    const char *name, *line, *body;
    int status;
    const char *code, *field;
} bad[] = {
    {"fork of nobody", "POST /api/v1/sandbox/nobody/fork", NULL, 404, "NOT_FOUND", NULL},
    {"no fork", "POST /api/v1/sandbox/box/fork", "{\"count\":0}", 400, "VALIDATION_ERROR", "count"},
    {"too many", "POST /api/v1/sandbox/box/fork", "{\"count\":101}", 400, "VALIDATION_ERROR",
     "count"},
    {"half a fork", "POST /api/v1/sandbox/box/fork", "{\"count\":1.5}", 400, "VALIDATION_ERROR",
     "count"},
    {"an unknown field", "POST /api/v1/sandbox/box/fork", "{\"cout\":1}", 400, "VALIDATION_ERROR",
     "cout"},
    {"another image", "POST /api/v1/sandbox/box/fork", "{\"image\":\"x:1\"}", 400,
     "VALIDATION_ERROR", "dockerImage"},
    {"another source", "POST /api/v1/sandbox/box/fork",
     "{\"source\":{\"type\":\"snapshot\",\"id\":\"x\"}}", 400, "VALIDATION_ERROR", "source"},
    {"of the past", "POST /api/v1/sandbox/box/fork", "{\"executionId\":\"exec_0\"}", 404,
     "NO_HISTORY"},
    {"bad sizes", "POST /api/v1/sandbox/box/fork", "{\"cpuCores\":1000}", 400, "VALIDATION_ERROR",
     "cpuCores"},
    {"a name that is taken", "POST /api/v1/sandbox/box/fork", "{\"name\":\"box\"}", 409,
     "NAME_TAKEN", NULL},
    {"a number in a create", "POST /api/v1/sandbox", "{\"count\":2}", 400, "VALIDATION_ERROR",
     "count"},
    {"a source without a type", "POST /api/v1/sandbox", "{\"source\":{\"id\":\"x\"}}", 400,
     "VALIDATION_ERROR", "source.type"},
    {"a source of no type", "POST /api/v1/sandbox", "{\"source\":{\"type\":\"x\"}}", 400,
     "VALIDATION_ERROR", "source.type"},
    {"a snapshot without an id", "POST /api/v1/sandbox", "{\"source\":{\"type\":\"snapshot\"}}",
     400, "VALIDATION_ERROR", "source.id"},
    {"a source with more", "POST /api/v1/sandbox",
     "{\"source\":{\"type\":\"snapshot\",\"ip\":\"x\"}}", 400, "VALIDATION_ERROR", "source.ip"},
    {"a snapshot that climbs", "POST /api/v1/sandbox",
     "{\"source\":{\"type\":\"snapshot\",\"id\":\"../sb\"}}", 404, "SNAPSHOT_NOT_FOUND", "source"},
    {"nobody's volume", "POST /api/v1/sandbox", "{\"volume\":\"vo-00000000000000000000\"}", 404,
     "VOLUME_NOT_FOUND", "volume"},
    {"a volume that climbs", "POST /api/v1/sandbox", "{\"volume\":\"../../etc\"}", 404,
     "VOLUME_NOT_FOUND", "volume"},
    {"a volume that is a number", "POST /api/v1/sandbox", "{\"volume\":1}", 400, "VALIDATION_ERROR",
     "volume"},
    {"snapshot of nobody", "POST /api/v1/sandbox/nobody/snapshot", NULL, 404, "NOT_FOUND", NULL},
    {"an unknown wish", "POST /api/v1/sandbox/box/snapshot", "{\"nam\":\"x\"}", 400,
     "VALIDATION_ERROR", "nam"},
    {"no name", "POST /api/v1/sandbox/box/snapshot", "{\"name\":\"\"}", 400, "VALIDATION_ERROR",
     "name"},
    {"a name of two lines", "POST /api/v1/sandbox/box/snapshot", "{\"name\":\"a\\nb\"}", 400,
     "VALIDATION_ERROR", "name"},
    {"an end in the past", "POST /api/v1/sandbox/box/snapshot",
     "{\"expiresAt\":\"2001-01-01T00:00:00Z\"}", 400, "VALIDATION_ERROR", "expiresAt"},
    {"an end that is none", "POST /api/v1/sandbox/box/snapshot", "{\"expiresAt\":\"tomorrow\"}",
     400, "VALIDATION_ERROR", "expiresAt"},
    {"no such snapshot", "GET /api/v1/snapshots/sn-00000000000000000000", NULL, 404,
     "SNAPSHOT_NOT_FOUND", NULL},
    {"no such snapshot to remove", "DELETE /api/v1/snapshots/box", NULL, 404, "SNAPSHOT_NOT_FOUND",
     NULL},
    {"no such volume", "GET /api/v1/volumes/vo-00000000000000000000", NULL, 404, "VOLUME_NOT_FOUND",
     NULL},
    {"no such volume to remove", "DELETE /api/v1/volumes/sn-0", NULL, 404, "VOLUME_NOT_FOUND",
     NULL},
    {"page 0", "GET /api/v1/snapshots?page=0", NULL, 400, "VALIDATION_ERROR", "page"},
    {"neither kept nor not", "DELETE /api/v1/sandbox/box?preserveVolume=maybe", NULL, 400,
     "VALIDATION_ERROR", "preserveVolume"},
    {"awake or not", "GET /api/v1/sandbox/box?resume=perhaps", NULL, 400, "VALIDATION_ERROR",
     "resume"},
};

TEST(v1_kept_answers_bad_requests)
{
    struct api api;
    api_open(&api, 0);
    fixture_create(&api.f, "box", false);
    for (size_t i = 0; i < COUNT(bad); i++) {
        const char *answer = ask(&api, bad[i].line, NULL, bad[i].body);
        CHECK_EQ(bad[i].name, status_of(answer), bad[i].status);
        const struct cay_json *error = cay_json_get(body_of(&api, answer), "error");
        CHECK_STR(bad[i].name, text(error, "code"), bad[i].code);
        CHECK_STR(bad[i].name, text(cay_json_get(error, "details"), "field"),
                  bad[i].field ? bad[i].field : "-");
    }
    CHECK_EQ("only the first one is there", cay_provider_fake_count(api.f.provider), 1);
    CHECK_EQ("nothing is kept", cay_provider_fake_kept_count(api.f.provider), 0);
    api_close(&api);
}

TEST(v1_forks)
{
    struct api api;
    api_open(&api, 0);
    const struct cay_json *box =
        post(&api, "/sandbox",
             "{\"name\":\"box\",\"memoryGB\":0.25,\"labels\":[\"a\"],\"env\":{\"A\":\"1\"},"
             "\"persistent\":true,\"timeoutMs\":60000}",
             201);
    const char *answer = ask(&api, "POST /api/v1/sandbox/box/fork", NULL, NULL);
    CHECK_EQ("without a body", status_of(answer), 201);
    const struct cay_json *one = body_of(&api, answer);
    CHECK_STR("from", text(one, "forkedFrom"), text(box, "id"));
    CHECK_STR("how", text(one, "forkMethod"), "copy");
    CHECK_EQ("how long", cay_json_get_int(one, "forkMs", -1), 1);
    CHECK_STR("it runs", text(one, "status"), "RUNNING");
    CHECK("its own name", strcmp(text(one, "name"), "box") != 0);
    CHECK("its own volume", strcmp(text(one, "volumeId"), text(box, "volumeId")) != 0);
    CHECK("the rest is the source's", cay_json_get_bool(one, "persistent", false) &&
                                          cay_json_get_int(one, "timeoutMs", 0) == 60000 &&
                                          strstr(answer, "[\"a\"]") &&
                                          strstr(answer, "{\"A\":\"1\"}"));
    answer = ask(&api, "POST /api/v1/sandbox/box/fork", NULL,
                 "{\"name\":\"twin\",\"env\":{\"B\":\"2\"},\"labels\":[],\"persistent\":false}");
    CHECK("with other settings", strstr(answer, "{\"B\":\"2\"}") &&
                                     strstr(answer, "\"labels\":[]") &&
                                     strstr(answer, "\"persistent\":false"));
    CHECK_STR("by name", text(body_of(&api, answer), "name"), "twin");
    const struct cay_json *many = post(&api, "/sandbox/box/fork", "{\"count\":3}", 201);
    CHECK_EQ("three", cay_json_get(many, "sandboxes")->count, 3);
    CHECK_STR("each", text(cay_json_get(many, "sandboxes")->first, "forkedFrom"), text(box, "id"));
    many = post(&api, "/sandbox/box/fork", "{\"count\":1,\"name\":\"alone\"}", 201);
    CHECK_STR("a list of one", text(cay_json_get(many, "sandboxes")->first, "name"), "alone");
    CHECK_EQ("all", cay_provider_fake_count(api.f.provider), 7);
    CHECK("not of itself", cay_json_get(box, "forkedFrom")->kind == CAY_JSON_NULL);
    api_close(&api);
}

/* What a fork has of its source may be more than the host has left by now. */
TEST(v1_fork_on_a_fuller_disk)
{
    struct api api;
    api_open(&api, 0);
    (void)post(&api, "/sandbox", "{\"name\":\"box\",\"diskSizeGB\":6}", 201);
    cay_provider_fake_set_room(api.f.provider, 2000000000);
    const struct cay_json *fork = post(&api, "/sandbox/box/fork", NULL, 201);
    const struct cay_json *size = cay_json_get(fork, "diskSizeGB");
    CHECK_STR("as much as there is", size ? size->text : "-", "2");
    fork = post(&api, "/sandbox/box/fork", "{\"diskSizeGB\":6}", 400);
    CHECK_STR("asked for", text(cay_json_get(cay_json_get(fork, "error"), "details"), "field"),
              "diskSizeGB");
    api_close(&api);
}

TEST(v1_snapshots)
{
    struct api api;
    char end[CAY_ISO_SIZE];
    api_open(&api, 0);
    const struct cay_json *box = post(
        &api, "/sandbox", "{\"name\":\"box\",\"memoryGB\":0.25,\"image\":\"python:3.11\"}", 201);
    (void)post(&api, "/sandbox/box/exec", "{\"command\":[\"write\",\"then\"]}", 200);
    const char *body = cay_arena_printf(&api.f.a, "{\"name\":\"before it\",\"expiresAt\":\"%s\"}",
                                        cay_clock_iso(cay_clock_ms() + 3600000, end));
    const struct cay_json *made = post(&api, "/sandbox/box/snapshot", body, 201);
    const char *id = text(made, "id");
    CHECK("an id", cay_id_is_snapshot(id));
    CHECK_STR("of", text(made, "sandboxId"), text(box, "id"));
    CHECK_STR("name", text(made, "name"), "before it");
    CHECK_STR("how", text(made, "method"), "copy");
    CHECK_STR("until", text(made, "expiresAt"), end);
    CHECK("size", cay_json_get_int(made, "sizeBytes", 0) > 0);
    (void)post(&api, "/sandbox/box/snapshot", NULL, 201);
    const struct cay_json *list = call(&api, "GET", "/snapshots?per_page=1", 200);
    CHECK_EQ("two", cay_json_get_int(list, "total", 0), 2);
    CHECK("more", cay_json_get_bool(list, "has_next", false));
    CHECK("newest first", strcmp(text(cay_json_get(list, "snapshots")->first, "id"), id) != 0);
    list = call(&api, "GET",
                cay_arena_printf(&api.f.a, "/snapshots?sandbox_id=%s", text(box, "id")), 200);
    CHECK_EQ("of one sandbox", cay_json_get_int(list, "total", 0), 2);
    list = call(&api, "GET", "/snapshots?sandbox_id=nobody", 200);
    CHECK_EQ("of none", cay_json_get_int(list, "total", -1), 0);
    CHECK_STR("one", text(call(&api, "GET", path(&api, "snapshots", id, ""), 200), "id"), id);
    (void)call(&api, "DELETE", "/sandbox/box", 200);

    body = cay_arena_printf(
        &api.f.a, "{\"memoryGB\":0.25,\"source\":{\"type\":\"snapshot\",\"snapshotId\":\"%s\"}}",
        id);
    const struct cay_json *from = post(&api, "/sandbox", body, 201);
    CHECK_STR("its image", text(from, "dockerImage"), "python:3.11");
    CHECK_STR("its source", text(cay_json_get(from, "source"), "id"), id);
    const struct cay_json *said = post(&api, path(&api, "sandbox", text(from, "id"), "/exec"),
                                       "{\"command\":[\"read\"]}", 200);
    CHECK_STR("its files", text(said, "stdout"), "then then\n");
    CHECK_STR("removed", text(call(&api, "DELETE", path(&api, "snapshots", id, ""), 200), "status"),
              "DELETED");
    (void)call(&api, "GET", path(&api, "snapshots", id, ""), 404);
    api_close(&api);
}

TEST(v1_volumes)
{
    struct api api;
    api_open(&api, 0);
    const struct cay_json *box = post(&api, "/sandbox", "{\"name\":\"box\"," SMALL "}", 201);
    (void)post(&api, "/sandbox/box/exec", "{\"command\":[\"write\",\"work\"]}", 200);
    CHECK_EQ("none yet", cay_json_get_int(call(&api, "GET", "/volumes", 200), "total", -1), 0);
    const struct cay_json *gone = call(&api, "DELETE", "/sandbox/box?preserveVolume=true", 200);
    const char *id = text(gone, "volumeId");
    CHECK_STR("as it was told", id, text(box, "volumeId"));
    const struct cay_json *list = call(&api, "GET", "/volumes", 200);
    CHECK_EQ("one", cay_json_get_int(list, "total", -1), 1);
    CHECK_STR("that one", text(cay_json_get(list, "volumes")->first, "id"), id);
    const struct cay_json *volume = call(&api, "GET", path(&api, "volumes", id, ""), 200);
    CHECK_STR("whose it was", text(volume, "name"), "box");
    CHECK("free", !cay_json_get_bool(volume, "inUse", true));

    const char *body = cay_arena_printf(&api.f.a, "{\"volume\":\"%s\"," SMALL "}", id);
    const struct cay_json *user = post(&api, "/sandbox", body, 201);
    CHECK_STR("it has it", text(user, "volumeId"), id);
    volume = call(&api, "GET", path(&api, "volumes", id, ""), 200);
    CHECK_STR("who has it", text(volume, "sandboxId"), text(user, "id"));
    const char *answer = ask(&api, "POST /api/v1/sandbox", NULL, body);
    CHECK_EQ("one writer", status_of(answer), 409);
    CHECK("by name", strstr(answer, "VOLUME_IN_USE") && strstr(answer, text(user, "id")) &&
                         strstr(answer, "one writer at a time"));
    (void)call(&api, "DELETE", path(&api, "volumes", id, ""), 409);
    gone = call(&api, "DELETE", path(&api, "sandbox", text(user, "id"), ""), 200);
    CHECK_STR("given back", text(gone, "volumeId"), id);
    user = post(&api, "/sandbox?wait=false", body, 202);
    (void)post(&api, "/sandbox?wait=false", body, 409);
    while (
        strcmp(text(call(&api, "GET", path(&api, "sandbox", text(user, "id"), ""), 200), "status"),
               "RUNNING") != 0)
        sched_yield();
    const struct cay_json *said = post(&api, path(&api, "sandbox", text(user, "id"), "/exec"),
                                       "{\"command\":[\"read\"]}", 200);
    CHECK_STR("its files", text(said, "stdout"), " work\n");
    gone = call(&api, "DELETE", path(&api, "sandbox", text(user, "id"), "?preserve_volume=false"),
                200);
    CHECK_STR("gone too", text(gone, "volumeId"), "-");
    (void)call(&api, "GET", path(&api, "volumes", id, ""), 404);
    CHECK_EQ("nothing is left", cay_provider_fake_kept_count(api.f.provider), 0);
    api_close(&api);
}

TEST(v1_get_wakes_what_rests)
{
    struct api api;
    api_open(&api, 0);
    fixture_create(&api.f, "rests", true);
    fixture_create(&api.f, "stopped", false);
    (void)post(&api, "/sandbox/rests/stop", "{\"graceMs\":0}", 200);
    (void)post(&api, "/sandbox/stopped/stop", "{\"graceMs\":0}", 200);
    CHECK_STR("plain", text(call(&api, "GET", "/sandbox/rests", 200), "status"), "STOPPED");
    CHECK_STR("wakes", text(call(&api, "GET", "/sandbox/rests?resume=true", 200), "status"),
              "RUNNING");
    CHECK_STR("not that", text(call(&api, "GET", "/sandbox/stopped?resume=true", 200), "status"),
              "STOPPED");
    api_close(&api);
}
