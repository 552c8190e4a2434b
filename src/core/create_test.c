/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fixture.h"

/* Every call of the provider and of the store fails once; each time nothing may be left (F-06,
 * F-09, and document 002 §1.3, §1.4). */
static void walk(bool in_store, const char *what)
{
    struct fixture f;
    fixture_open(&f);
    for (int n = 1;; n++) {
        struct cay_error err = {0};
        struct cay_spec spec = cay_spec_default();
        struct cay_sandbox sb;
        spec.name = "walker";
        spec.memory_bytes = CAY_MIN_MEMORY_BYTES;
        cay_strs_push(&f.a, &spec.start, "sleep");
        if (in_store)
            cay_store_fake_fail_at(f.store, n);
        else
            cay_provider_fake_fail_at(f.provider, n);
        int r = cay_core_create(f.core, &f.me, &spec, &f.a, &sb, &err);
        cay_store_fake_fail_at(f.store, 0);
        cay_provider_fake_fail_at(f.provider, 0);
        if (r == 0) {
            CHECK("at least two steps can fail", n > 2);
            CHECK_EQ(what, fixture_state(&f, "walker"), CAY_RUNNING);
            break;
        }
        CHECK_EQ(what, r, in_store ? CAY_ERR_STORE : CAY_ERR_PROVIDER);
        CHECK_EQ(what, fixture_rows(&f), 0);
        CHECK_EQ(what, cay_provider_fake_count(f.provider), 0);
        if (n > 20)
            break;
    }
    fixture_close(&f);
}

TEST(create_leaves_nothing_when_the_store_fails)
{
    walk(true, "store");
}

TEST(create_leaves_nothing_when_the_provider_fails)
{
    walk(false, "provider");
}

TEST(create_makes_up_a_name)
{
    struct fixture f;
    fixture_open(&f);
    struct cay_sandbox one = fixture_create(&f, NULL, false);
    struct cay_sandbox two = fixture_create(&f, NULL, false);
    CHECK("a name", one.spec.name && strlen(one.spec.name) > 8);
    CHECK("another name", strcmp(one.spec.name, two.spec.name) != 0);
    CHECK_EQ("found by its name", fixture_state(&f, one.spec.name), CAY_RUNNING);
    fixture_close(&f);
}

TEST(create_refuses_a_name_that_is_taken)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_spec spec = cay_spec_default();
    struct cay_sandbox sb;
    fixture_open(&f);
    fixture_create(&f, "mine", false);
    spec.name = "mine";
    spec.memory_bytes = CAY_MIN_MEMORY_BYTES;
    CHECK_EQ("taken", cay_core_create(f.core, &f.me, &spec, &f.a, &sb, &err), CAY_ERR_CONFLICT);
    CHECK_STR("its code", cay_error_name(&err), "NAME_TAKEN");
    CHECK_EQ("the first one stays", fixture_rows(&f), 1);
    CHECK_EQ("and one sandbox", cay_provider_fake_count(f.provider), 1);
    CHECK_EQ("another account may have it",
             cay_core_create(f.core, &f.other, &spec, &f.a, &sb, &err), 0);
    fixture_close(&f);
}

TEST(create_decides_who_owns)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_sandbox sb;
    fixture_open(&f);
    struct cay_sandbox mine = fixture_create(&f, "mine", false);
    static const char nobody[] = "sb-00000000000000000000";
    CHECK_EQ("a stranger", cay_core_get(f.core, &f.other, mine.id, &f.a, &sb, &err),
             CAY_ERR_FORBIDDEN);
    CHECK_EQ("a stranger deletes",
             cay_core_delete(f.core, &f.other, mine.id, CAY_WORKSPACE_AS_IT_IS, &f.a, &sb, &err),
             CAY_ERR_FORBIDDEN);
    CHECK_EQ("nobody's", cay_core_get(f.core, &f.me, nobody, &f.a, &sb, &err), CAY_ERR_NOT_FOUND);
    CHECK_STR("the sentence", err.msg, "sandbox not found");
    CHECK_EQ("still there", cay_provider_fake_count(f.provider), 1);
    fixture_close(&f);
}

static const struct {
    const char *name, *field, *code;
    const char *sandbox_name, *image, *user, *workdir;
    uint32_t cpu_milli, gpu_count;
    uint64_t memory_bytes;
    int64_t timeout_ms;
} bad[] = {
    {"a name in capitals", "name", NULL, .sandbox_name = "Name"},
    {"an empty name", "name", NULL, .sandbox_name = ""},
    {"a name that climbs", "name", NULL, .sandbox_name = "../x"},
    {"an option for a name", "name", NULL, .sandbox_name = "-rf"},
    {"a word of ours", "name", NULL, .sandbox_name = "bulk"},
    {"an id for a name", "name", NULL, .sandbox_name = "sb-0123456789abcdefghij"},
    {"an image that is none", "dockerImage", NULL, .image = "$(id)"},
    {"a scope alone", "dockerImage", NULL, .image = "@"},
    {"two scopes", "dockerImage", NULL, .image = "@@a/b"},
    {"no image", "dockerImage", NULL, .image = ""},
    {"no cpu", "cpuCores", NULL, .cpu_milli = 1},
    {"much cpu", "cpuCores", NULL, .cpu_milli = 1000000},
    {"a byte of memory", "memoryGB", NULL, .memory_bytes = 1},
    {"all memory there is", "memoryGB", NULL, .memory_bytes = UINT64_MAX},
    {"a negative time", "timeoutMinutes", NULL, .timeout_ms = -1},
    {"a graphics card", "gpuCount", "GPU_UNAVAILABLE", .gpu_count = 1},
    {"pid 1's own user", "user", NULL, .user = "65535"},
    {"a relative directory", "workdir", NULL, .workdir = "tmp"},
};

TEST(create_refuses_what_cannot_be)
{
    struct fixture f;
    fixture_open(&f);
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct cay_error err = {0};
        struct cay_spec spec = cay_spec_default();
        struct cay_sandbox sb;
        spec.name = bad[i].sandbox_name;
        spec.memory_bytes = bad[i].memory_bytes ? bad[i].memory_bytes : CAY_MIN_MEMORY_BYTES;
        spec.memory_fits = false;
        if (bad[i].image)
            spec.image = bad[i].image;
        if (bad[i].cpu_milli)
            spec.cpu_milli = bad[i].cpu_milli;
        if (bad[i].timeout_ms)
            spec.timeout_ms = bad[i].timeout_ms;
        spec.gpu_count = bad[i].gpu_count;
        spec.user = bad[i].user;
        spec.workdir = bad[i].workdir;
        CHECK_EQ(bad[i].name, cay_core_create(f.core, &f.me, &spec, &f.a, &sb, &err),
                 CAY_ERR_INVALID);
        CHECK_STR(bad[i].name, err.field, bad[i].field);
        CHECK_STR(bad[i].name, cay_error_name(&err),
                  bad[i].code ? bad[i].code : "VALIDATION_ERROR");
    }
    CHECK_EQ("nothing was made", cay_provider_fake_count(f.provider), 0);
    fixture_close(&f);
}

TEST(lifecycle_stop_start_delete)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_sandbox sb;
    fixture_open(&f);
    struct cay_sandbox made = fixture_create(&f, "box", false);
    CHECK_EQ("stop", cay_core_stop(f.core, &f.me, "box", 0, &f.a, &sb, &err), 0);
    CHECK_EQ("stopped", sb.state, CAY_STOPPED);
    CHECK_STR("by request", sb.death.reason, "stopped");
    CHECK_STR("of whom", sb.death.message, "stopped by account local");
    CHECK("with what it used", sb.death.peak_bytes > 0 && sb.death.cpu_ms > 0);
    CHECK_EQ("stop again", cay_core_stop(f.core, &f.me, "box", 0, &f.a, &sb, &err), 0);
    CHECK_EQ("start", cay_core_start(f.core, &f.me, "box", &f.a, &sb, &err), 0);
    CHECK_EQ("running", fixture_state(&f, made.id), CAY_RUNNING);
    CHECK("it runs", cay_provider_fake_runs(f.provider, made.id));
    CHECK_EQ("start again", cay_core_start(f.core, &f.me, "box", &f.a, &sb, &err), 0);
    CHECK_EQ("delete",
             cay_core_delete(f.core, &f.me, "box", CAY_WORKSPACE_AS_IT_IS, &f.a, &sb, &err), 0);
    CHECK_EQ("terminated, by id", fixture_state(&f, made.id), CAY_TERMINATED);
    CHECK_STR("by whom", sb.death.message, "deleted by account local");
    CHECK("with what it used", sb.death.peak_bytes > 0 && sb.death.cpu_ms > 0);
    CHECK_EQ("nothing left", cay_provider_fake_count(f.provider), 0);
    CHECK_EQ("delete again",
             cay_core_delete(f.core, &f.me, made.id, CAY_WORKSPACE_AS_IT_IS, &f.a, &sb, &err), 0);
    CHECK_EQ("its name is free", cay_core_get(f.core, &f.me, "box", &f.a, &sb, &err),
             CAY_ERR_NOT_FOUND);
    CHECK_EQ("the dead do not start", cay_core_start(f.core, &f.me, made.id, &f.a, &sb, &err),
             CAY_ERR_CONFLICT);
    fixture_close(&f);
}

TEST(lifecycle_pause_and_resume)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_sandbox sb;
    struct cay_execution ex, seen;
    fixture_open(&f);
    struct cay_sandbox made = fixture_create(&f, "box", false);
    CHECK_EQ("a command", fixture_exec(&f, "box", "sleep", NULL, &ex, &err), 0);
    CHECK_EQ("pause", cay_core_pause(f.core, &f.me, "box", &f.a, &sb, &err), 0);
    CHECK_EQ("paused", fixture_state(&f, made.id), CAY_PAUSED);
    CHECK_EQ("pause again", cay_core_pause(f.core, &f.me, "box", &f.a, &sb, &err), 0);

    CHECK_EQ("exec", fixture_exec(&f, "box", "echo", NULL, &seen, &err), CAY_ERR_CONFLICT);
    CHECK_STR("by name", cay_error_name(&err), "SANDBOX_PAUSED");
    CHECK_EQ("kill", cay_core_kill(f.core, &f.me, "box", ex.id, 9, &f.a, &seen, &err),
             CAY_ERR_CONFLICT);
    CHECK_STR("by name", cay_error_name(&err), "SANDBOX_PAUSED");
    CHECK_EQ("start", cay_core_start(f.core, &f.me, "box", &f.a, &sb, &err), CAY_ERR_CONFLICT);
    CHECK_STR("by name", cay_error_name(&err), "SANDBOX_PAUSED");
    cay_provider_fake_fail_at(f.provider, 1); /* pid 1 must not be asked: it would not answer */
    CHECK_EQ("the command is told of",
             cay_core_execution(f.core, &f.me, "box", ex.id, &f.a, &seen, NULL, &err), 0);
    CHECK_EQ("as running", seen.status, CAY_EXEC_RUNNING);
    CHECK("without a call", !cay_provider_fake_failed(f.provider));

    CHECK_EQ("resume fails", cay_core_resume(f.core, &f.me, "box", &f.a, &sb, &err),
             CAY_ERR_PROVIDER);
    CHECK_EQ("still paused", fixture_state(&f, made.id), CAY_PAUSED);
    CHECK_EQ("resume", cay_core_resume(f.core, &f.me, "box", &f.a, &sb, &err), 0);
    CHECK_EQ("running", fixture_state(&f, made.id), CAY_RUNNING);
    CHECK_EQ("resume again", cay_core_resume(f.core, &f.me, "box", &f.a, &sb, &err), 0);
    CHECK_EQ("kill works", cay_core_kill(f.core, &f.me, "box", ex.id, 9, &f.a, &seen, &err), 0);

    CHECK_EQ("pause", cay_core_pause(f.core, &f.me, "box", &f.a, &sb, &err), 0);
    CHECK_EQ("stop", cay_core_stop(f.core, &f.me, "box", 0, &f.a, &sb, &err), 0);
    CHECK_EQ("resuming what is stopped", cay_core_resume(f.core, &f.me, "box", &f.a, &sb, &err),
             CAY_ERR_CONFLICT);
    CHECK_EQ("start", cay_core_start(f.core, &f.me, "box", &f.a, &sb, &err), 0);
    CHECK_EQ("it is awake", fixture_exec(&f, "box", "echo", NULL, &seen, &err), 0);
    CHECK_EQ("pause", cay_core_pause(f.core, &f.me, "box", &f.a, &sb, &err), 0);
    CHECK_EQ("delete",
             cay_core_delete(f.core, &f.me, "box", CAY_WORKSPACE_AS_IT_IS, &f.a, &sb, &err), 0);
    CHECK_EQ("nothing left", cay_provider_fake_count(f.provider), 0);
    fixture_close(&f);
}

/* F-12: destroy fails, the row stays as it was, and the next try works. */
TEST(delete_keeps_the_row_when_destroy_fails)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_sandbox sb;
    fixture_open(&f);
    struct cay_sandbox made = fixture_create(&f, "box", false);
    cay_provider_fake_fail_at(f.provider, 1);
    CHECK_EQ("delete fails",
             cay_core_delete(f.core, &f.me, "box", CAY_WORKSPACE_AS_IT_IS, &f.a, &sb, &err),
             CAY_ERR_PROVIDER);
    CHECK_EQ("the row stays", fixture_state(&f, made.id), CAY_RUNNING);
    CHECK_EQ("the sandbox too", cay_provider_fake_count(f.provider), 1);
    CHECK_EQ("the next one works",
             cay_core_delete(f.core, &f.me, "box", CAY_WORKSPACE_AS_IT_IS, &f.a, &sb, &err), 0);
    CHECK_EQ("gone", cay_provider_fake_count(f.provider), 0);
    fixture_close(&f);
}

TEST(delete_fails_when_its_intent_cannot_be_written)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_sandbox sb;
    fixture_open(&f);
    fixture_create(&f, "box", false);
    cay_store_fake_fail_at(f.store, 3); /* two reads come first */
    CHECK_EQ("delete fails",
             cay_core_delete(f.core, &f.me, "box", CAY_WORKSPACE_AS_IT_IS, &f.a, &sb, &err),
             CAY_ERR_STORE);
    CHECK_EQ("nothing was destroyed", cay_provider_fake_count(f.provider), 1);
    fixture_close(&f);
}
