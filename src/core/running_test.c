/* SPDX-License-Identifier: Apache-2.0 */
#include "core/running.h"
#include "log/files.h"
#include "tests/fixture.h"
#include <signal.h>

static void set_quota(struct fixture *f, enum cay_quota_kind kind, int64_t bound)
{
    struct cay_error err = {0};
    struct cay_quota quota = cay_quota_none();
    quota.at[kind] = bound;
    CHECK_EQ("a quota", cay_core_quota_set(f->core, f->me.id, &quota, &err), 0);
}

static int64_t used(struct fixture *f, enum cay_quota_kind kind)
{
    struct cay_error err = {0};
    struct cay_holder h;
    struct cay_quota now;
    CHECK_EQ("told", cay_core_quota(f->core, &f->me, NULL, &f->a, &h, &now, &err), 0);
    return now.at[kind];
}

static int run(struct fixture *f, const char *word, struct cay_execution *out,
               struct cay_error *err)
{
    return fixture_exec(f, "box", word, "9", out, err);
}

static void forget(struct fixture *f)
{
    cay_running_done(&f->core->running);
    f->core->running = (struct cay_running){0};
    cay_running_init(&f->core->running);
}

TEST(running_commands_are_counted)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_execution first, second, ex;
    fixture_open(&f);
    (void)fixture_create(&f, "box", true);
    CHECK_EQ("without a quota", run(&f, "sleep", &first, &err), 0);
    CHECK_EQ("it is told all the same", used(&f, CAY_QUOTA_EXECUTIONS), 1);
    set_quota(&f, CAY_QUOTA_EXECUTIONS, 2);
    CHECK_EQ("what ran before counts", run(&f, "sleep", &second, &err), 0);
    CHECK_EQ("one too many", run(&f, "sleep", &ex, &err), CAY_ERR_LIMIT);
    CHECK_STR("by name", cay_error_name(&err), "QUOTA_EXCEEDED");
    CHECK_STR("of what", err.quota, "executions");
    CHECK_EQ("limit", (int64_t)err.limit, 2);
    CHECK_EQ("used", (int64_t)err.used, 2);
    CHECK_EQ("one ends", cay_core_kill(f.core, &f.me, "box", first.id, SIGKILL, &f.a, &ex, &err),
             0);
    for (int i = 0; i < 3; i++)
        CHECK_EQ("short ones, one after the other", run(&f, "echo", &ex, &err), 0);
    CHECK_EQ("its place is free", run(&f, "sleep", &first, &err), 0);
    CHECK_EQ("and taken", run(&f, "echo", &ex, &err), CAY_ERR_LIMIT);
    forget(&f);
    CHECK_EQ("after a restart too", run(&f, "echo", &ex, &err), CAY_ERR_LIMIT);
    CHECK_EQ("told", used(&f, CAY_QUOTA_EXECUTIONS), 2);
    struct cay_sandbox sb;
    CHECK_EQ("it stops", cay_core_stop(f.core, &f.me, "box", 0, &f.a, &sb, &err), 0);
    CHECK_EQ("and starts", cay_core_start(f.core, &f.me, "box", &f.a, &sb, &err), 0);
    CHECK_EQ("with nothing running", run(&f, "echo", &ex, &err), 0);
    set_quota(&f, CAY_QUOTA_EXECUTIONS, 0);
    CHECK_EQ("none at all", run(&f, "echo", &ex, &err), CAY_ERR_LIMIT);
    fixture_close(&f);
}

TEST(running_what_never_began_does_not_count)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_execution ex;
    struct cay_exec_spec spec = {0};
    char lost[CAY_ID_SIZE];
    int fd = -1;
    fixture_open(&f);
    struct cay_sandbox sb = fixture_create(&f, "box", false);
    set_quota(&f, CAY_QUOTA_EXECUTIONS, 1);
    cay_provider_fake_fail_at(f.provider, 1);
    CHECK_EQ("it fails", run(&f, "sleep", &ex, &err), CAY_ERR_PROVIDER);
    CHECK_EQ("nothing runs", used(&f, CAY_QUOTA_EXECUTIONS), 0);
    CHECK_EQ("so one may", run(&f, "echo", &ex, &err), 0);
    cay_id_execution(lost); /* a server that was killed between log and command leaves this */
    cay_strs_push(&f.a, &spec.argv, "sleep");
    CHECK_EQ("a log", cay_log_create(f.core->logs_fd, sb.id, lost, &spec, &fd, &err), 0);
    close(fd);
    forget(&f);
    CHECK_EQ("it does not count", run(&f, "echo", &ex, &err), 0);
    fixture_close(&f);
}

TEST(running_logs_are_weighed)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_execution first, ex;
    fixture_open(&f);
    (void)fixture_create(&f, "box", false);
    set_quota(&f, CAY_QUOTA_LOG_BYTES, 1);
    CHECK_EQ("there are none yet", run(&f, "echo", &first, &err), 0);
    f.core->running.weighed_at_ms = 0; /* long ago */
    CHECK_EQ("now there is one", run(&f, "echo", &ex, &err), CAY_ERR_LIMIT);
    CHECK_STR("by name", cay_error_name(&err), "QUOTA_EXCEEDED");
    CHECK_STR("of what", err.quota, "logBytes");
    CHECK("how much", used(&f, CAY_QUOTA_LOG_BYTES) > 0);
    CHECK_EQ("it goes", cay_core_forget(f.core, &f.me, "box", first.id, &err), 0);
    f.core->running.weighed_at_ms -= CAY_LOG_WEIGH_AGAIN_MS;
    CHECK_EQ("and is not held against him", run(&f, "echo", &ex, &err), 0);
    fixture_close(&f);
}
