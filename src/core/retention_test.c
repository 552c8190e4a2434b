/* SPDX-License-Identifier: Apache-2.0 */
#include "core/retention.h"
#include "log/files.h"
#include "tests/fixture.h"
#include "tests/test.h"
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

static int open_log(struct fixture *f, const struct cay_execution *ex)
{
    char name[80];
    (void)snprintf(name, sizeof name, "%c/%s/%s.log", LOGS_OF(ex->sandbox_id), ex->id);
    return openat(f->core->logs_fd, name, O_RDWR | O_CLOEXEC);
}

static void set_age(struct fixture *f, const struct cay_execution *ex, int64_t seconds)
{
    CAY_AUTO_FD int fd = open_log(f, ex);
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 1000000 - seconds}};
    CHECK_EQ("a log that old", futimens(fd, times), 0);
}

static bool is_there(struct fixture *f, const struct cay_execution *ex)
{
    CAY_AUTO_FD int fd = -1;
    struct cay_error err = {0};
    return cay_log_open(f->core->logs_fd, ex->sandbox_id, ex->id, &fd, &err) == 0;
}

/* Each log of the fake's takes one block of the file system. */
static int64_t weight(struct fixture *f, size_t *count)
{
    CAY_AUTO_BUF struct cay_buf logs = {0};
    int64_t bytes = 0;
    cay_log_weigh(f->core->logs_fd, &logs);
    *count = logs.len / sizeof(struct cay_log_weight);
    for (size_t i = 0; i < *count; i++)
        bytes += ((struct cay_log_weight *)(void *)logs.data)[i].bytes;
    return bytes;
}

TEST(retention_removes_the_oldest_that_ended)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_execution runs, old, middle, new, theirs;
    size_t count;
    fixture_open(&f);
    (void)fixture_create(&f, "box", false);
    CHECK_EQ("runs", fixture_exec(&f, "box", "sleep", "9", &runs, &err), 0);
    CHECK_EQ("old", fixture_exec(&f, "box", "echo", "1", &old, &err), 0);
    CHECK_EQ("middle", fixture_exec(&f, "box", "echo", "2", &middle, &err), 0);
    CHECK_EQ("new", fixture_exec(&f, "box", "echo", "3", &new, &err), 0);
    struct cay_account me = f.me;
    f.me = f.other;
    (void)fixture_create(&f, "box", false);
    CHECK_EQ("theirs", fixture_exec(&f, "box", "echo", "4", &theirs, &err), 0);
    f.me = me;
    set_age(&f, &theirs, 500);
    set_age(&f, &runs, 400);
    set_age(&f, &old, 300);
    set_age(&f, &middle, 200);
    set_age(&f, &new, 100);
    int64_t all = weight(&f, &count), one = all / 5;
    CHECK_EQ("five logs", count, 5);
    CHECK_EQ("nothing is too much", cay_retention_run(f.core, INT64_MAX, 4 * one, &err), 0);
    CHECK_EQ("all there", weight(&f, &count), all);
    CHECK_EQ("two too many", cay_retention_run(f.core, INT64_MAX, 2 * one, &err), 0);
    CHECK("what runs stays", is_there(&f, &runs));
    CHECK("the oldest is gone", !is_there(&f, &old));
    CHECK("and the next", !is_there(&f, &middle));
    CHECK("the newest stays", is_there(&f, &new));
    CHECK("another's is not counted", is_there(&f, &theirs));
    CHECK_EQ("as little as can be", cay_retention_run(f.core, INT64_MAX, 0, &err), 0);
    CHECK("what runs stays nevertheless", is_there(&f, &runs));
    CHECK("all that ended goes", !is_there(&f, &new) && !is_there(&f, &theirs));
    fixture_close(&f);
}

/* What a log takes beside what it says. */
static void set_weight(struct fixture *f, const struct cay_execution *ex, int64_t bytes)
{
    CAY_AUTO_FD int fd = open_log(f, ex);
    CHECK_EQ("a log that large", fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, bytes), 0);
}

TEST(retention_of_one_sandbox)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_execution runs, old, new, theirs;
    struct cay_sandbox sb;
    fixture_open(&f);
    (void)fixture_create(&f, "box", false);
    (void)fixture_create(&f, "other", false);
    CHECK_EQ("runs", fixture_exec(&f, "box", "sleep", "9", &runs, &err), 0);
    CHECK_EQ("old", fixture_exec(&f, "box", "echo", "1", &old, &err), 0);
    CHECK_EQ("new", fixture_exec(&f, "box", "echo", "2", &new, &err), 0);
    CHECK_EQ("theirs", fixture_exec(&f, "other", "echo", "3", &theirs, &err), 0);
    set_weight(&f, &runs, 6 * CAY_MIB);
    set_weight(&f, &old, 5 * CAY_MIB);
    set_weight(&f, &new, CAY_MIB);
    set_weight(&f, &theirs, 7 * CAY_MIB);
    set_age(&f, &theirs, 400);
    set_age(&f, &runs, 300);
    set_age(&f, &old, 200);
    set_age(&f, &new, 100);
    CHECK_EQ("all fits", cay_retention_run(f.core, 12 * CAY_MIB + CAY_KIB * 64, INT64_MAX, &err),
             0);
    CHECK("all there", is_there(&f, &old) && is_there(&f, &new));
    CHECK_EQ("too much", cay_retention_run(f.core, 8 * CAY_MIB, INT64_MAX, &err), 0);
    CHECK("the oldest is gone", !is_there(&f, &old));
    CHECK("no more than must", is_there(&f, &new) && is_there(&f, &runs));
    CHECK("another sandbox has its own", is_there(&f, &theirs));
    CHECK_EQ("what runs alone", cay_retention_run(f.core, 4 * CAY_MIB, INT64_MAX, &err), 0);
    CHECK("what runs stays", !is_there(&f, &new) && is_there(&f, &runs));
    CHECK_EQ("found", cay_core_get(f.core, &f.me, "box", &f.a, &sb, &err), 0);
    CHECK_EQ("less than twice", sb.state, CAY_RUNNING);
    CHECK_EQ("far too much", cay_retention_run(f.core, 2 * CAY_MIB, INT64_MAX, &err), 0);
    CHECK_EQ("found", cay_core_get(f.core, &f.me, "box", &f.a, &sb, &err), 0);
    CHECK_EQ("it ends", sb.state, CAY_STOPPED);
    CHECK_STR("for that", sb.death.reason, "disk");
    CHECK_STR("as it is told", sb.death.message, "stopped: the logs of its commands took 6 MiB");
    CHECK_EQ("then", cay_retention_run(f.core, 2 * CAY_MIB, INT64_MAX, &err), 0);
    CHECK("nothing is spared", !is_there(&f, &runs));
    CHECK_EQ("found", cay_core_get(f.core, &f.me, "other", &f.a, &sb, &err), 0);
    CHECK_EQ("what ended stops nobody", sb.state, CAY_RUNNING);
    fixture_close(&f);
}

TEST(retention_counts_sandboxes_that_are_gone)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_execution ex;
    struct cay_sandbox sb;
    fixture_open(&f);
    (void)fixture_create(&f, "box", false);
    CHECK_EQ("ran", fixture_exec(&f, "box", "echo", "1", &ex, &err), 0);
    CHECK_EQ("gone", cay_core_delete(f.core, &f.me, "box", CAY_WORKSPACE_AS_IT_IS, &f.a, &sb, &err),
             0);
    CHECK("its log is not", is_there(&f, &ex));
    CHECK_EQ("run", cay_retention_run(f.core, INT64_MAX, 0, &err), 0);
    CHECK("now it is", !is_there(&f, &ex));
    fixture_close(&f);
}

TEST(an_ended_execution_is_forgotten_when_asked)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_execution runs, ended;
    fixture_open(&f);
    (void)fixture_create(&f, "box", false);
    CHECK_EQ("runs", fixture_exec(&f, "box", "sleep", "9", &runs, &err), 0);
    CHECK_EQ("ended", fixture_exec(&f, "box", "echo", "1", &ended, &err), 0);
    CHECK_EQ("not another's", cay_core_forget(f.core, &f.other, ended.sandbox_id, ended.id, &err),
             CAY_ERR_FORBIDDEN);
    CHECK_EQ("not what runs", cay_core_forget(f.core, &f.me, "box", runs.id, &err),
             CAY_ERR_CONFLICT);
    CHECK_EQ("what ended", cay_core_forget(f.core, &f.me, "box", ended.id, &err), 0);
    CHECK("its log is gone", !is_there(&f, &ended) && is_there(&f, &runs));
    CHECK_EQ("once", cay_core_forget(f.core, &f.me, "box", ended.id, &err), CAY_ERR_NOT_FOUND);
    fixture_close(&f);
}
