/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever the store refuses, the caller hears it or the log tells it (document 002 §10.5). */
#include "base/clock.h"
#include "core/keeper.h"
#include "core/kept.h"
#include "core/lease.h"
#include "core/reconcile.h"
#include "tests/fixture.h"
#include <sys/mman.h>

#define REFUSAL "the fake store fails as told"
#define LOG_MAX 65536

/* ---- what is logged meanwhile ---- */

struct ear {
    int log_fd, stderr_fd;
};

static struct ear listen_up(void)
{
    struct ear ear = {.log_fd = memfd_create("log", MFD_CLOEXEC), .stderr_fd = dup(STDERR_FILENO)};
    CHECK("the log is ours", dup2(ear.log_fd, STDERR_FILENO) == STDERR_FILENO);
    return ear;
}

static const char *heard(struct ear *ear)
{
    static char text[LOG_MAX];
    (void)dup2(ear->stderr_fd, STDERR_FILENO);
    ssize_t len = pread(ear->log_fd, text, sizeof text - 1, 0);
    text[len > 0 ? len : 0] = 0;
    cay_close_fd(&ear->log_fd);
    cay_close_fd(&ear->stderr_fd);
    return text;
}

static int count(const char *text, const char *word)
{
    int n = 0;
    for (const char *p = text; (p = strstr(p, word)); p += strlen(word))
        n++;
    return n;
}

/* ---- what can fail ---- */

static int make(struct fixture *f, const struct cay_sandbox *box, struct cay_error *err)
{
    (void)box;
    struct cay_spec spec = cay_spec_default();
    struct cay_sandbox sb;
    spec.name = "another";
    spec.memory_bytes = CAY_MIN_MEMORY_BYTES;
    return cay_core_create(f->core, &f->me, &spec, &f->a, &sb, err);
}

static int begin(struct fixture *f, const struct cay_sandbox *box, struct cay_error *err)
{
    (void)box;
    struct cay_spec spec = cay_spec_default();
    struct cay_sandbox sb;
    spec.memory_bytes = CAY_MIN_MEMORY_BYTES;
    spec.volume = "vo-00000000000000000000"; /* nobody's: the row is taken back */
    return cay_core_begin_create(f->core, &f->me, &spec, &f->a, &sb, NULL, err);
}

static int copy(struct fixture *f, const struct cay_sandbox *box, struct cay_error *err)
{
    struct cay_sandbox_list made;
    struct cay_spec spec = cay_spec_fork(&box->spec);
    return cay_core_fork(f->core, &f->me, box->id, &spec, 1, &f->a, &made, err);
}

static int snapshot(struct fixture *f, const struct cay_sandbox *box, struct cay_error *err)
{
    struct cay_kept kept;
    struct cay_snapshot_wish wish = {.name = "s"};
    return cay_core_snapshot(f->core, &f->me, box->id, &wish, &f->a, &kept, err);
}

static int pause_it(struct fixture *f, const struct cay_sandbox *box, struct cay_error *err)
{
    struct cay_sandbox sb;
    return cay_core_pause(f->core, &f->me, box->id, &f->a, &sb, err);
}

static int stop(struct fixture *f, const struct cay_sandbox *box, struct cay_error *err)
{
    struct cay_sandbox sb;
    return cay_core_stop(f->core, &f->me, box->id, 0, &f->a, &sb, err);
}

static int drop(struct fixture *f, const struct cay_sandbox *box, struct cay_error *err)
{
    struct cay_sandbox sb;
    return cay_core_delete(f->core, &f->me, box->id, CAY_WORKSPACE_KEPT, &f->a, &sb, err);
}

static int extend(struct fixture *f, const struct cay_sandbox *box, struct cay_error *err)
{
    struct cay_sandbox sb;
    int64_t more_ms = 7200000;
    return cay_core_extend(f->core, &f->me, box->id, &more_ms, NULL, &f->a, &sb, err);
}

/* By a stranger: that he may not is no answer when nobody could look whether he may. */
static int look(struct fixture *f, const struct cay_sandbox *box, struct cay_error *err)
{
    struct cay_sandbox sb;
    return cay_core_get(f->core, &f->other, box->id, &f->a, &sb, err);
}

static int die(struct fixture *f, const struct cay_sandbox *box, struct cay_error *err)
{
    struct cay_provider_entry entry = {.ended_at_ms = INT64_MAX, .death.reason = "signal"};
    (void)err;
    cay_str_copy(entry.id, sizeof entry.id, box->id);
    CHECK("it is looked at", cay_keeper_event(f->core, &entry));
    return 0;
}

static int expire(struct fixture *f, const struct cay_sandbox *box, struct cay_error *err)
{
    (void)box, (void)err;
    cay_keeper_expire(f->core, cay_clock_ms() + CAY_MAX_TIMEOUT_MS);
    cay_core_expire_kept(f->core, INT64_MAX);
    return 0;
}

static int shift(struct fixture *f, const struct cay_sandbox *box, struct cay_error *err)
{
    (void)box, (void)err;
    cay_keeper_shift(f->core, 3600000);
    return 0;
}

static int mind(struct fixture *f, const struct cay_sandbox *box, struct cay_error *err)
{
    (void)box, (void)err;
    cay_leases_load(f->core);
    atomic_store(&f->core->start_ends, true);
    cay_keeper_end_with_start(f->core);
    return 0;
}

static int reconcile(struct fixture *f, const struct cay_sandbox *box, struct cay_error *err)
{
    (void)box;
    return cay_reconcile(f->core, true, err);
}

typedef int (*try_fn)(struct fixture *f, const struct cay_sandbox *box, struct cay_error *err);

static const struct {
    const char *name;
    try_fn run;
} tries[] = {
    {"create", make},     {"create without waiting", begin},
    {"fork", copy},       {"snapshot", snapshot},
    {"pause", pause_it},  {"stop", stop},
    {"delete", drop},     {"extend", extend},
    {"a stranger", look}, {"a death", die},
    {"expiry", expire},   {"a clock that is set", shift},
    {"leases", mind},     {"reconcile", reconcile},
};

/* The n-th call and all after it fail, for every n. */
static void walk(const char *name, try_fn run)
{
    for (int n = 1, failed = 1; failed > 0; n++) {
        struct fixture f;
        struct cay_error err = {0};
        fixture_open(&f);
        struct cay_sandbox box = fixture_create(&f, "box", false);
        struct ear ear = listen_up();
        cay_store_fake_fail_from(f.store, n);
        int r = run(&f, &box, &err);
        cay_store_fake_fail_at(f.store, 0);
        const char *log = heard(&ear);
        failed = cay_store_fake_failures(f.store);
        CHECK(name, n > 1 || failed > 0);
        if (count(log, REFUSAL) + (r == CAY_ERR_STORE) < failed)
            test_failed(__FILE__, __LINE__, "%s, from call %d: %d failed, result %d, told is %s",
                        name, n, failed, r, log);
        fixture_close(&f);
    }
}

TEST(told_is_every_failure_of_the_store)
{
    for (size_t i = 0; i < COUNT(tries); i++)
        walk(tries[i].name, tries[i].run);
}

/* Document 002 §3.3: a status that cannot be written is told, and the operation goes on. */
TEST(told_is_a_status_that_cannot_be_written)
{
    static const struct {
        const char *name, *state;
        try_fn run;
        int call; /* found, and found again once it is held; a stop is marked before */
        enum cay_state later;
    } cases[] = {{"mark of a stop", "who stops", stop, 3, CAY_STOPPED},
                 {"stop", "STOPPED", stop, 4, CAY_STOPPED},
                 {"pause", "PAUSED", pause_it, 3, CAY_PAUSED}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct fixture f;
        struct cay_error err = {0};
        fixture_open(&f);
        struct cay_sandbox box = fixture_create(&f, "box", true);
        struct ear ear = listen_up();
        cay_store_fake_fail_at(f.store, cases[i].call);
        int r = cases[i].run(&f, &box, &err);
        const char *log = heard(&ear);
        CHECK_EQ(cases[i].name, r, 0);
        CHECK_EQ("one write failed", cay_store_fake_failures(f.store), 1);
        CHECK("why", strstr(log, REFUSAL) != NULL);
        CHECK("whose", strstr(log, box.id) != NULL);
        CHECK("what", strstr(log, cases[i].state) != NULL);
        CHECK_EQ("the row is late", fixture_state(&f, box.id), i == 0 ? CAY_STOPPED : CAY_RUNNING);
        CHECK_EQ("reconcile", cay_reconcile(f.core, false, &err), 0);
        CHECK_EQ("brings it after", fixture_state(&f, box.id), cases[i].later);
        fixture_close(&f);
    }
}
