/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "core/keeper.h"
#include "log/files.h"
#include "log/writer.h"
#include "model/limits.h"
#include "tests/fixture.h"
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/inotify.h>

static struct cay_execution look(struct fixture *f, const char *id, const char *exec_id)
{
    struct cay_error err = {0};
    struct cay_execution ex = {0};
    CHECK_EQ("the execution is there",
             cay_core_execution(f->core, &f->me, id, exec_id, &f->a, &ex, NULL, &err), 0);
    return ex;
}

TEST(exec_tells_the_exit_code)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_execution ex;
    fixture_open(&f);
    struct cay_sandbox sb = fixture_create(&f, "box", false);
    CHECK_EQ("exec", fixture_exec(&f, "box", "exit", "3", &ex, &err), 0);
    struct cay_execution seen = look(&f, sb.id, ex.id);
    CHECK_EQ("it ended", seen.status, CAY_EXEC_EXITED);
    CHECK_EQ("its code", seen.exit_code, 3);
    CHECK_STR("why", seen.reason, "exited");
    fixture_close(&f);
}

TEST(exec_needs_a_running_sandbox)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_execution ex;
    struct cay_execution_list list;
    struct cay_sandbox sb;
    fixture_open(&f);
    fixture_create(&f, "box", false);
    CHECK_EQ("stop", cay_core_stop(f.core, &f.me, "box", 0, &f.a, &sb, &err), 0);
    CHECK_EQ("exec", fixture_exec(&f, "box", "true", NULL, &ex, &err), CAY_ERR_CONFLICT);
    CHECK_STR("code", cay_error_name(&err), "SANDBOX_NOT_RUNNING");
    CHECK_EQ("list", cay_core_executions(f.core, &f.me, "box", 1, 10, &f.a, &list, &err), 0);
    CHECK_EQ("no log of a command that never began", list.total, 0);
    fixture_close(&f);
}

TEST(exec_leaves_no_log_when_it_fails)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_execution ex;
    struct cay_execution_list list;
    fixture_open(&f);
    fixture_create(&f, "box", false);
    cay_provider_fake_fail_at(f.provider, 1);
    CHECK_EQ("exec", fixture_exec(&f, "box", "true", NULL, &ex, &err), CAY_ERR_PROVIDER);
    CHECK_EQ("list", cay_core_executions(f.core, &f.me, "box", 1, 10, &f.a, &list, &err), 0);
    CHECK_EQ("none", list.total, 0);
    fixture_close(&f);
}

TEST(exec_runs_until_killed)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_execution ex;
    fixture_open(&f);
    struct cay_sandbox sb = fixture_create(&f, "box", false);
    CHECK_EQ("exec", fixture_exec(&f, "box", "sleep", "9", &ex, &err), 0);
    CHECK_EQ("running", look(&f, sb.id, ex.id).status, CAY_EXEC_RUNNING);
    CHECK_EQ("kill", cay_core_kill(f.core, &f.me, sb.id, ex.id, SIGTERM, &f.a, &ex, &err), 0);
    struct cay_execution seen = look(&f, sb.id, ex.id);
    CHECK_EQ("ended", seen.status, CAY_EXEC_EXITED);
    CHECK_EQ("by signal", seen.signal, SIGTERM);
    CHECK_EQ("kill again", cay_core_kill(f.core, &f.me, sb.id, ex.id, SIGTERM, &f.a, &ex, &err),
             CAY_ERR_CONFLICT);
    CHECK_STR("code", cay_error_name(&err), "EXECUTION_NOT_RUNNING");
    fixture_close(&f);
}

/* No exit record, nothing that could write one: lost, and never a success. */
TEST(exec_is_lost_with_its_sandbox)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_execution ex;
    struct cay_sandbox gone;
    fixture_open(&f);
    struct cay_sandbox sb = fixture_create(&f, "box", false);
    CHECK_EQ("exec", fixture_exec(&f, "box", "sleep", "9", &ex, &err), 0);
    CHECK("not lost yet", !cay_core_lost(f.core, sb.id, ex.id));
    CHECK_EQ("delete",
             cay_core_delete(f.core, &f.me, sb.id, CAY_WORKSPACE_AS_IT_IS, &f.a, &gone, &err), 0);
    CHECK("lost", cay_core_lost(f.core, sb.id, ex.id));
    struct cay_execution seen = look(&f, sb.id, ex.id);
    CHECK_EQ("status", seen.status, CAY_EXEC_LOST);
    CHECK_STR("reason", seen.reason, "lost");
    fixture_close(&f);
}

/* A provider that does not answer has not said that a command is gone. */
TEST(exec_is_not_lost_for_want_of_an_answer)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_execution ex;
    fixture_open(&f);
    struct cay_sandbox sb = fixture_create(&f, "box", false);
    CHECK_EQ("exec", fixture_exec(&f, "box", "sleep", "9", &ex, &err), 0);
    cay_provider_fake_fail_at(f.provider, 1);
    CHECK_EQ("running", look(&f, sb.id, ex.id).status, CAY_EXEC_RUNNING);
    CHECK("nothing was written", !cay_core_lost(f.core, sb.id, ex.id));
    fixture_close(&f);
}

TEST(exec_tells_oom_from_a_kill)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_execution ex, other;
    fixture_open(&f);
    struct cay_sandbox sb = fixture_create(&f, "box", false);
    CHECK_EQ("exec", fixture_exec(&f, "box", "sleep", "9", &ex, &err), 0);
    cay_provider_fake_oom(f.provider, sb.id, ex.id);
    struct cay_execution seen = look(&f, sb.id, ex.id);
    CHECK_STR("memory ran out", seen.reason, "oom");
    CHECK_EQ("its code", seen.exit_code, 137);
    CHECK_STR("said again", look(&f, sb.id, ex.id).reason, "oom");

    CHECK_EQ("another", fixture_exec(&f, "box", "sleep", "9", &other, &err), 0);
    CHECK_EQ("is killed", cay_core_kill(f.core, &f.me, sb.id, other.id, SIGKILL, &f.a, &ex, &err),
             0);
    CHECK_STR("by us", look(&f, sb.id, other.id).reason, "killed");
    fixture_close(&f);
}

TEST(exec_fails_for_want_of_disk)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_execution early, late, good;
    fixture_open(&f);
    struct cay_sandbox sb = fixture_create(&f, "box", false);
    CHECK_EQ("exec", fixture_exec(&f, "box", "exit", "1", &early, &err), 0);
    CHECK_STR("there is room", look(&f, sb.id, early.id).reason, "exited");
    cay_provider_fake_full(f.provider, sb.id);
    CHECK_EQ("exec", fixture_exec(&f, "box", "exit", "1", &late, &err), 0);
    CHECK_STR("there is none", look(&f, sb.id, late.id).reason, "disk");
    CHECK_EQ("exec", fixture_exec(&f, "box", "exit", "0", &good, &err), 0);
    CHECK_STR("success has no cause", look(&f, sb.id, good.id).reason, "exited");
    CHECK_EQ("delete",
             cay_core_delete(f.core, &f.me, "box", CAY_WORKSPACE_AS_IT_IS, &f.a, &sb, &err), 0);
    CHECK_STR("kept when all is gone", look(&f, sb.id, late.id).reason, "disk");
    fixture_close(&f);
}

/* A minute ago, by pid 1, which saw nobody it could name. */
static void write_oom(struct fixture *f, const char *id, const char *exec_id)
{
    static const char *const argv[] = {"true"};
    CAY_AUTO_FD int fd = -1;
    struct cay_error err = {0};
    struct cay_writer w;
    struct cay_exec_spec spec = {.argv = {(const char **)argv, 1}};
    struct cay_record_exit end = {
        .reason = CAY_REASON_EXITED, .exit_code = 1, .counted = 1, .oom_kills = 1};
    CHECK_EQ("a log", cay_log_create(f->core->logs_fd, id, exec_id, &spec, &fd, &err), 0);
    cay_writer_init(&w, fd, CAY_LOG_HEAD_BYTES, CAY_LOG_TAIL_BYTES);
    CHECK("its end",
          cay_writer_record(&w, CAY_RECORD_EXIT, &end, sizeof end, cay_clock_ms() - 60000));
}

/* Whom the kernel killed is known as long as the sandbox runs. */
TEST(exec_asks_once_for_a_victim_that_nobody_can_name)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_log_fact fact;
    char exec_id[CAY_ID_SIZE];
    fixture_open(&f);
    struct cay_sandbox sb = fixture_create(&f, "box", true), down;
    cay_id_execution(exec_id);
    write_oom(&f, sb.id, exec_id);
    cay_provider_fake_fail_at(f.provider, 1);
    CHECK_STR("no answer", look(&f, sb.id, exec_id).reason, "oom");
    CHECK("is none", !cay_log_fact_read(f.core->logs_fd, sb.id, exec_id, &fact));
    CHECK_EQ("stop", cay_core_stop(f.core, &f.me, sb.id, 0, &f.a, &down, &err), 0);
    CHECK_STR("stopped", look(&f, sb.id, exec_id).reason, "oom");
    CHECK("that is known", cay_log_fact_read(f.core->logs_fd, sb.id, exec_id, &fact));
    cay_provider_fake_fail_at(f.provider, 1);
    CHECK_STR("again", look(&f, sb.id, exec_id).process, "");
    CHECK("nobody was asked", !cay_provider_fake_failed(f.provider));
    fixture_close(&f);
}

TEST(oom_counts_only_what_came_after)
{
    struct cay_oom o;
    cay_oom_init(&o);
    CHECK_EQ("unknown", cay_oom_before(&o, "a", 100), 0);
    cay_oom_saw(&o, "a", 2, 50);
    cay_oom_saw(&o, "a", 3, 150);
    CHECK_EQ("before all", cay_oom_before(&o, "a", 40), 0);
    CHECK_EQ("after the first", cay_oom_before(&o, "a", 100), 2);
    CHECK_EQ("after both", cay_oom_before(&o, "a", 200), 3);
    cay_oom_forget(&o, "a");
    CHECK_EQ("forgotten", cay_oom_before(&o, "a", 200), 0);
    cay_oom_done(&o);
}

static const struct {
    const char *name, *field;
    const char *word;
    size_t word_len, words;
    const char *cwd, *user, *env_key;
} bad[] = {
    {"no command", "command", .word = NULL},
    {"an empty command", "command", .word = "", .words = 1},
    {"an argument of 200 kB", "command", .word_len = 200000, .words = 1},
    {"3 MB of arguments", "command", .word_len = 100000, .words = 30},
    {"5,000 arguments", "command", .word_len = 1, .words = 5000},
    {"a relative directory", "cwd", .word = "true", .words = 1, .cwd = "tmp"},
    {"an option for a user", "user", .word = "true", .words = 1, .user = "-x"},
    {"a variable with =", "env", .word = "true", .words = 1, .env_key = "A=B"},
    {"a variable without a name", "env", .word = "true", .words = 1, .env_key = ""},
};

TEST(exec_refuses_what_cannot_be)
{
    struct fixture f;
    fixture_open(&f);
    fixture_create(&f, "box", false);
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct cay_error err = {0};
        struct cay_execution ex;
        struct cay_exec_spec spec = {.cwd = bad[i].cwd, .user = bad[i].user};
        char *word = cay_arena_alloc(&f.a, bad[i].word_len + 1);
        memset(word, 'x', bad[i].word_len);
        for (size_t k = 0; k < bad[i].words; k++)
            cay_strs_push(&f.a, &spec.argv, bad[i].word ? bad[i].word : word);
        if (bad[i].env_key)
            cay_pairs_set(&f.a, &spec.env, bad[i].env_key, "1");
        CHECK_EQ(bad[i].name, cay_core_exec(f.core, &f.me, "box", &spec, &f.a, &ex, NULL, &err),
                 CAY_ERR_INVALID);
        CHECK_STR(bad[i].name, err.field, bad[i].field);
    }
    fixture_close(&f);
}

/* As when the disk is full at a sandbox's end: whoever waits is woken once there is room. */
TEST(exec_that_is_lost_is_recorded_in_the_end)
{
    struct cay_error err = {0};
    struct cay_execution ex;
    struct cay_sandbox out;
    char fact[2 * CAY_ID_SIZE + 16], dir[CAY_ID_SIZE + 32], events[4096];
    CAY_AUTO_FD int watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    struct pollfd news = {.fd = watch, .events = POLLIN};
    struct fixture f;
    fixture_open(&f);
    struct cay_sandbox sb = fixture_create(&f, "box", false);
    CHECK_EQ("a command", fixture_exec(&f, "box", "sleep", "1", &ex, &err), 0);
    (void)snprintf(fact, sizeof fact, "%c/%s/%s.fact", LOGS_OF(sb.id), ex.id);
    (void)snprintf(dir, sizeof dir, "/proc/self/fd/%d/%c/%s", f.core->logs_fd, LOGS_OF(sb.id));
    CHECK_EQ("in its place", mkdirat(f.core->logs_fd, fact, 0700), 0);
    CHECK("a watch", inotify_add_watch(watch, dir, IN_DELETE) >= 0);
    CHECK_EQ("a thread", cay_settler_start(f.core, &err), 0);
    CHECK_EQ("delete",
             cay_core_delete(f.core, &f.me, sb.id, CAY_WORKSPACE_AS_IT_IS, &f.a, &out, &err), 0);
    CHECK("what was to be recorded is taken back", poll(&news, 1, 20000) > 0);
    CHECK("not recorded", !cay_core_lost(f.core, sb.id, ex.id));
    (void)inotify_add_watch(watch, dir, IN_MODIFY);
    (void)!read(watch, events, sizeof events);
    CHECK_EQ("there is room", unlinkat(f.core->logs_fd, fact, AT_REMOVEDIR), 0);
    bool lost = false;
    while (!lost && poll(&news, 1, 20000) > 0) {
        (void)!read(watch, events, sizeof events);
        lost = cay_core_lost(f.core, sb.id, ex.id);
    }
    CHECK("lost", lost);
    fixture_close(&f);
}
