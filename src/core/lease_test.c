/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "log/files.h"
#include "tests/fixture.h"
#include <stdio.h>
#include <string.h>

#define LEASE_MS 60000
#define IDLE_MS 80000

static struct cay_sandbox make(struct fixture *f, const char *name, bool persistent,
                               int64_t lease_ms, int64_t idle_ms, unsigned idle_when)
{
    struct cay_error err = {0};
    struct cay_spec spec = cay_spec_default();
    struct cay_sandbox sb = {0};
    const char *argv[] = {"sleep", "1"};
    spec.name = name;
    spec.persistent = persistent;
    spec.memory_bytes = CAY_MIN_MEMORY_BYTES;
    spec.lease_ms = lease_ms;
    spec.idle_ms = idle_ms;
    spec.idle_when = idle_when;
    spec.start = (struct cay_strs){.at = argv, .count = 2};
    CHECK_EQ(name, cay_core_create(f->core, &f->me, &spec, &f->a, &sb, &err), 0);
    cay_provider_fake_quiet(f->provider, sb.id);
    return sb;
}

/* Without cay_core_find, which would be a call. */
static struct cay_sandbox row(struct fixture *f, const char *id)
{
    struct cay_error err = {0};
    struct cay_sandbox sb = {0};
    CHECK_EQ("its row", cay_store_get(f->store, CAY_LOCAL_ACCOUNT, id, &f->a, &sb, &err), 0);
    return sb;
}

/* Looks as often as the janitor would, until that much of the future. */
static void pass(struct fixture *f, int64_t from_ms, int64_t to_ms)
{
    int64_t now_ms = cay_clock_mono_ms();
    for (int64_t ms = from_ms; ms <= to_ms; ms += 1000)
        cay_leases_tick(f->core, now_ms + ms);
}

TEST(lease_lapses_when_nobody_calls)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_sandbox out;
    fixture_open(&f);
    struct cay_sandbox once = make(&f, "once", false, LEASE_MS, 0, CAY_ACTIVE_ALL);
    struct cay_sandbox kept = make(&f, "kept", true, LEASE_MS, 0, CAY_ACTIVE_ALL);
    struct cay_sandbox free = make(&f, "free", false, 0, 0, CAY_ACTIVE_ALL);
    struct cay_sandbox still = make(&f, "still", false, LEASE_MS, 0, CAY_ACTIVE_ALL);
    CHECK_EQ("pause", cay_core_pause(f.core, &f.me, "still", &f.a, &out, &err), 0);
    pass(&f, 0, LEASE_MS - 2000);
    CHECK_EQ("not yet", row(&f, once.id).state, CAY_RUNNING);
    pass(&f, LEASE_MS - 2000, LEASE_MS + 1000);
    CHECK_EQ("gone", row(&f, once.id).state, CAY_TERMINATED);
    CHECK_STR("why", row(&f, once.id).death.reason, "lease");
    CHECK_EQ("one that is to stay rests", row(&f, kept.id).state, CAY_STOPPED);
    CHECK_STR("why", row(&f, kept.id).death.reason, "lease");
    CHECK_EQ("who has none lives", row(&f, free.id).state, CAY_RUNNING);
    CHECK_EQ("one that stands still is gone", row(&f, still.id).state, CAY_TERMINATED);
    CHECK("and nothing of it", !cay_provider_fake_runs(f.provider, once.id));
    fixture_close(&f);
}

TEST(lease_is_renewed_by_a_call_and_held_by_one_that_lasts)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_sandbox out;
    fixture_open(&f);
    struct cay_sandbox sb = make(&f, "box", false, LEASE_MS, 0, CAY_ACTIVE_ALL);
    CHECK("attend", cay_core_attend(f.core, sb.id));
    pass(&f, LEASE_MS, 3 * LEASE_MS);
    CHECK_EQ("an open call holds it", row(&f, sb.id).state, CAY_RUNNING);
    cay_core_leave(f.core, sb.id);
    int64_t left_ms = cay_clock_mono_ms();
    cay_leases_tick(f.core, left_ms + LEASE_MS - 1000);
    CHECK_EQ("its end is a call", row(&f, sb.id).state, CAY_RUNNING);
    struct timespec pause = {.tv_nsec = 20000000};
    nanosleep(&pause, NULL); /* so that the call below is later */
    CHECK_EQ("get", cay_core_get(f.core, &f.me, "box", &f.a, &out, &err), 0);
    cay_leases_tick(f.core, left_ms + LEASE_MS + 10);
    CHECK_EQ("so is a look", row(&f, sb.id).state, CAY_RUNNING);
    CHECK_EQ("a stranger", cay_core_get(f.core, &f.other, sb.id, &f.a, &out, &err),
             CAY_ERR_FORBIDDEN);
    pass(&f, LEASE_MS + 100, LEASE_MS + 1100);
    CHECK_EQ("then it lapses", row(&f, sb.id).state, CAY_TERMINATED);
    CHECK("nobody attends what is gone", !cay_core_attend(f.core, sb.id));
    fixture_close(&f);
}

TEST(lease_begins_anew_with_the_server)
{
    struct fixture f;
    fixture_open(&f);
    struct cay_sandbox sb = make(&f, "box", false, LEASE_MS, 0, CAY_ACTIVE_ALL);
    cay_leases_done(&f.core->leases);
    f.core->leases = (struct cay_leases){0};
    cay_leases_init(&f.core->leases);
    pass(&f, LEASE_MS, 2 * LEASE_MS);
    CHECK_EQ("forgotten", row(&f, sb.id).state, CAY_RUNNING);
    cay_leases_load(f.core);
    pass(&f, 0, LEASE_MS - 2000);
    CHECK_EQ("it has its time again", row(&f, sb.id).state, CAY_RUNNING);
    pass(&f, LEASE_MS, LEASE_MS + 1000);
    CHECK_EQ("and lapses", row(&f, sb.id).state, CAY_TERMINATED);
    fixture_close(&f);
}

TEST(idle_ends_what_does_nothing)
{
    struct fixture f;
    fixture_open(&f);
    struct cay_sandbox once = make(&f, "once", false, 0, IDLE_MS, CAY_ACTIVE_ALL);
    struct cay_sandbox kept = make(&f, "kept", true, 0, IDLE_MS, CAY_ACTIVE_ALL);
    pass(&f, 0, IDLE_MS - 2000);
    CHECK_EQ("not yet", row(&f, once.id).state, CAY_RUNNING);
    pass(&f, IDLE_MS - 2000, IDLE_MS + 12000);
    CHECK_EQ("gone", row(&f, once.id).state, CAY_TERMINATED);
    CHECK_STR("why", row(&f, once.id).death.reason, "idle");
    CHECK_EQ("one that is to stay rests", row(&f, kept.id).state, CAY_STOPPED);
    CHECK_STR("why", row(&f, kept.id).death.reason, "idle");
    fixture_close(&f);
}

/* Each kind of activity alone keeps it, and only where it counts. */
TEST(idle_is_put_off_by_what_counts)
{
    static const struct {
        const char *name;
        unsigned when;
        bool busy, writes, runs, open;
        bool lives;
    } cases[] = {
        {"it computes", CAY_ACTIVE_CPU, .busy = true, .lives = true},
        {"it computes, which does not count", CAY_ACTIVE_OUTPUT, .busy = true},
        {"it writes", CAY_ACTIVE_OUTPUT, .writes = true, .lives = true},
        {"it writes, which does not count", CAY_ACTIVE_CPU, .writes = true},
        {"a command runs", CAY_ACTIVE_COMMANDS, .runs = true, .lives = true},
        {"a command runs, which does not count", CAY_ACTIVE_CPU, .runs = true},
        {"somebody listens", CAY_ACTIVE_REQUESTS, .open = true, .lives = true},
        {"somebody listens, which does not count", CAY_ACTIVE_CPU, .open = true},
        {"its start command alone", CAY_ACTIVE_ALL},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct fixture f;
        struct cay_error err = {0};
        struct cay_execution ex;
        const char *argv[] = {"sleep", "1"};
        struct cay_exec_spec sleep = {.argv = {.at = argv, .count = 2}};
        fixture_open(&f);
        struct cay_sandbox sb = make(&f, "box", false, 0, IDLE_MS, cases[i].when);
        if (cases[i].busy)
            cay_provider_fake_busy(f.provider, sb.id);
        if (cases[i].runs)
            CHECK_EQ("exec", cay_core_exec(f.core, &f.me, "box", &sleep, &f.a, &ex, NULL, &err), 0);
        if (cases[i].open)
            CHECK("attend", cay_core_attend(f.core, sb.id));
        for (int64_t ms = 0; ms <= 3 * IDLE_MS; ms += 5000) {
            int fd = -1;
            if (cases[i].writes && row(&f, sb.id).state == CAY_RUNNING &&
                cay_log_open(f.core->logs_fd, sb.id, sb.start_exec, &fd, &err) == 0) {
                char path[64];
                snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
                int again = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
                CHECK_EQ("a byte more", write(again, "x", 1), 1);
                close(again);
                close(fd);
            }
            pass(&f, ms, ms);
        }
        CHECK_EQ(cases[i].name, row(&f, sb.id).state,
                 cases[i].lives ? CAY_RUNNING : CAY_TERMINATED);
        fixture_close(&f);
    }
}
