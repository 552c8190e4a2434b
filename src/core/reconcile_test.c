/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "core/keeper.h"
#include "core/reconcile.h"
#include "log/files.h"
#include "tests/fixture.h"

#define ORPHAN "sb-orphanorphanorphan00"

static int reconcile(struct fixture *f, bool at_start)
{
    struct cay_error err = {0};
    return cay_reconcile(f->core, at_start, &err);
}

static struct cay_sandbox row(struct fixture *f, const char *id)
{
    struct cay_error err = {0};
    struct cay_sandbox sb = {0};
    CHECK_EQ("the row is there", cay_core_get(f->core, &f->me, id, &f->a, &sb, &err), 0);
    return sb;
}

/* F-10, F-11: one side cannot be read, so nothing is done; the next pass works. */
TEST(reconcile_does_nothing_by_half)
{
    struct fixture f;
    fixture_open(&f);
    struct cay_sandbox sb = fixture_create(&f, "box", false);
    cay_provider_fake_add(f.provider, ORPHAN, 1);

    cay_store_fake_fail_at(f.store, 1);
    CHECK_EQ("rows unread", reconcile(&f, true), CAY_ERR_STORE);
    cay_store_fake_fail_at(f.store, 2);
    CHECK_EQ("rows unread the second time", reconcile(&f, true), CAY_ERR_STORE);
    cay_provider_fake_fail_at(f.provider, 1);
    CHECK_EQ("sandboxes unread", reconcile(&f, true), CAY_ERR_PROVIDER);
    CHECK_EQ("all are there", cay_provider_fake_count(f.provider), 2);
    CHECK_EQ("running", fixture_state(&f, sb.id), CAY_RUNNING);

    CHECK_EQ("the next pass", reconcile(&f, true), 0);
    CHECK_EQ("the orphan is gone", cay_provider_fake_count(f.provider), 1);
    CHECK("the other is not", cay_provider_fake_runs(f.provider, sb.id));
    fixture_close(&f);
}

TEST(reconcile_gives_orphans_a_grace)
{
    struct fixture f;
    fixture_open(&f);
    fixture_create(&f, "box", false);
    cay_provider_fake_add(f.provider, ORPHAN, cay_clock_ms());
    CHECK_EQ("pass", reconcile(&f, false), 0);
    CHECK_EQ("young: it stays", cay_provider_fake_count(f.provider), 2);
    CHECK_EQ("pass at start", reconcile(&f, true), 0);
    CHECK_EQ("at start there is no grace", cay_provider_fake_count(f.provider), 1);
    fixture_close(&f);
}

/* A copy may take longer than the grace; what it is for has a row, the copy has none. */
TEST(reconcile_leaves_the_volume_of_a_copy)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_sandbox gone;
    char volume[CAY_ID_SIZE];
    fixture_open(&f);
    fixture_create(&f, "before", false);
    struct cay_sandbox box = fixture_create(&f, "box", false);
    fixture_create(&f, "after", false);
    cay_id_volume(volume, box.id);
    cay_provider_fake_keep(f.provider, volume);
    CHECK_EQ("pass", reconcile(&f, true), 0);
    CHECK_EQ("it is somebody's", cay_provider_fake_kept_count(f.provider), 1);
    CHECK_EQ("delete",
             cay_core_delete(f.core, &f.me, box.id, CAY_WORKSPACE_GONE, &f.a, &gone, &err), 0);
    CHECK_EQ("pass", reconcile(&f, true), 0);
    CHECK_EQ("nobody's any more", cay_provider_fake_kept_count(f.provider), 0);
    fixture_close(&f);
}

/* F-18: an empty store beside living sandboxes is a lost store, not an order to destroy them. */
TEST(reconcile_does_not_believe_an_empty_store)
{
    struct fixture f;
    fixture_open(&f);
    cay_provider_fake_add(f.provider, ORPHAN, 1);
    CHECK_EQ("refused", reconcile(&f, true), CAY_ERR_STORE);
    CHECK_EQ("it lives", cay_provider_fake_count(f.provider), 1);
    fixture_close(&f);
}

/* Whoever's rows it had: one that was used knows what it does not know. */
TEST(reconcile_believes_a_store_that_was_used)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_spec spec = cay_spec_default();
    struct cay_sandbox sb;
    fixture_open(&f);
    spec.memory_bytes = CAY_MIN_MEMORY_BYTES;
    CHECK_EQ("create", cay_core_create(f.core, &f.other, &spec, &f.a, &sb, &err), 0);
    CHECK_EQ("delete",
             cay_core_delete(f.core, &f.other, sb.id, CAY_WORKSPACE_AS_IT_IS, &f.a, &sb, &err), 0);
    CHECK_EQ("forgotten", cay_store_forget(f.store, INT64_MAX, &err), 0);
    cay_provider_fake_add(f.provider, ORPHAN, 1);
    CHECK_EQ("pass", reconcile(&f, true), 0);
    CHECK_EQ("the orphan is gone", cay_provider_fake_count(f.provider), 0);
    fixture_close(&f);
}

/* A delete that was told to have failed, by a provider that was only late. */
TEST(reconcile_finds_the_volume_of_a_late_delete)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_sandbox gone;
    struct cay_kept kept = {0};
    char volume[CAY_ID_SIZE];
    fixture_open(&f);
    struct cay_sandbox sb = fixture_create(&f, "box", true);
    cay_id_volume(volume, sb.id);
    cay_provider_fake_fail_at(f.provider, 1);
    CHECK_EQ("fails", cay_core_delete(f.core, &f.me, sb.id, CAY_WORKSPACE_KEPT, &f.a, &gone, &err),
             CAY_ERR_PROVIDER);
    CHECK_EQ("as it was", fixture_state(&f, sb.id), CAY_RUNNING);
    CHECK_EQ("no volume yet", cay_core_kept(f.core, &f.me, CAY_VOLUME, volume, &f.a, &kept, &err),
             CAY_ERR_NOT_FOUND);
    CHECK_EQ("pass", reconcile(&f, true), 0);
    CHECK_EQ("late", cay_provider_destroy(f.provider, sb.id, volume, NULL, &err), 0);
    CHECK_EQ("pass", reconcile(&f, true), 0);
    CHECK_EQ("deleted",
             cay_core_delete(f.core, &f.me, sb.id, CAY_WORKSPACE_AS_IT_IS, &f.a, &gone, &err), 0);
    CHECK_EQ("pass", reconcile(&f, true), 0);
    CHECK_EQ("kept", cay_core_kept(f.core, &f.me, CAY_VOLUME, volume, &f.a, &kept, &err), 0);
    CHECK_STR("and free", kept.sandbox_id, "");
    fixture_close(&f);
}

/* A create whose undo failed, or that a crash cut: no row, no sandbox afterwards. */
TEST(reconcile_finishes_a_broken_create)
{
    struct fixture f;
    struct cay_error err = {0};
    fixture_open(&f);
    struct cay_sandbox sb = fixture_create(&f, "box", false);
    sb.state = CAY_PENDING;
    CHECK_EQ("as a crash left it", cay_store_update(f.store, &sb, CAY_NOW, &err), 0);
    CHECK_EQ("pass", reconcile(&f, true), 0);
    CHECK_EQ("no row", fixture_rows(&f), 0);
    CHECK_EQ("no sandbox", cay_provider_fake_count(f.provider), 0);
    fixture_close(&f);
}

/* The row alone reached the disk before the power went: its caller may have been told of it. */
TEST(reconcile_takes_what_a_power_cut_left_for_terminated)
{
    struct fixture f;
    struct cay_error err = {0};
    fixture_open(&f);
    struct cay_sandbox sb = fixture_create(&f, "box", false);
    sb.state = CAY_PENDING;
    CHECK_EQ("as a power cut left it", cay_store_update(f.store, &sb, CAY_NOW, &err), 0);
    f.core->booted_at_ms = sb.updated_at_ms + 1;
    CHECK_EQ("pass", reconcile(&f, true), 0);
    CHECK_EQ("terminated", fixture_state(&f, sb.id), CAY_TERMINATED);
    CHECK_STR("in words", row(&f, sb.id).death.message, "the host was restarted");
    CHECK_EQ("no sandbox", cay_provider_fake_count(f.provider), 0);
    fixture_close(&f);
}

/* The row said RUNNING already; what the engine wrote of it never reached the disk. */
TEST(reconcile_knows_that_a_restart_took_what_is_gone)
{
    struct fixture f;
    struct cay_error err = {0};
    fixture_open(&f);
    struct cay_sandbox sb = fixture_create(&f, "box", false);
    CHECK_EQ("gone", cay_provider_destroy(f.provider, sb.id, NULL, NULL, &err), 0);
    f.core->booted_at_ms = cay_clock_ms() + 1;
    CHECK_EQ("pass", reconcile(&f, true), 0);
    struct cay_sandbox now = row(&f, sb.id);
    CHECK_EQ("terminated", now.state, CAY_TERMINATED);
    CHECK_STR("why", now.death.reason, "host_restart");
    CHECK_STR("in words", now.death.message, "the host was restarted");
    fixture_close(&f);
}

TEST(reconcile_leaves_what_somebody_holds)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_hold hold = {0};
    fixture_open(&f);
    struct cay_sandbox sb = fixture_create(&f, "box", false);
    sb.state = CAY_PENDING;
    CHECK_EQ("a create under way", cay_store_update(f.store, &sb, CAY_NOW, &err), 0);
    CHECK("held", cay_hold_try(&f.core->holds, sb.id, &hold));
    CHECK_EQ("pass", reconcile(&f, false), 0);
    CHECK_EQ("the row is there", fixture_rows(&f), 1);
    CHECK_EQ("the sandbox too", cay_provider_fake_count(f.provider), 1);
    cay_hold_end(&hold);
    fixture_close(&f);
}

/* A pause or resume whose row was not written: what the sandbox does is what counts. */
TEST(reconcile_follows_pause_and_resume)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_execution ex;
    fixture_open(&f);
    struct cay_sandbox sb = fixture_create(&f, "box", false);
    CHECK_EQ("pause", cay_provider_pause(f.provider, sb.id, &err), 0);
    CHECK_EQ("pass", reconcile(&f, false), 0);
    CHECK_EQ("paused", fixture_state(&f, sb.id), CAY_PAUSED);
    CHECK_EQ("pass", reconcile(&f, false), 0);
    CHECK_EQ("still", fixture_state(&f, sb.id), CAY_PAUSED);
    CHECK_EQ("resume", cay_provider_resume(f.provider, sb.id, &err), 0);
    CHECK_EQ("pass", reconcile(&f, false), 0);
    CHECK_EQ("running", fixture_state(&f, sb.id), CAY_RUNNING);
    CHECK_EQ("it takes commands", fixture_exec(&f, "box", "echo", NULL, &ex, &err), 0);
    fixture_close(&f);
}

TEST(keeper_hears_of_the_death_of_a_paused_one)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_sandbox out;
    fixture_open(&f);
    struct cay_sandbox sb = fixture_create(&f, "box", false);
    CHECK_EQ("pause", cay_core_pause(f.core, &f.me, sb.id, &f.a, &out, &err), 0);
    struct cay_provider_entry entry = {.ended_at_ms = sb.started_at_ms + 1,
                                       .death = {.reason = "signal"}};
    cay_str_copy(entry.id, sizeof entry.id, sb.id);
    CHECK("told", cay_keeper_event(f.core, &entry));
    CHECK_EQ("in error", fixture_state(&f, sb.id), CAY_ERROR);
    fixture_close(&f);
}

/* F-02: killed between destroy and the row. */
TEST(reconcile_finishes_a_broken_delete)
{
    static const char *const removals[] = {"deleted", NULL /* of a server before this one */};
    for (size_t i = 0; i < COUNT(removals); i++) {
        struct fixture f;
        struct cay_error err = {0};
        fixture_open(&f);
        struct cay_sandbox sb = fixture_create(&f, "box", false);
        sb.has_death = true;
        sb.death.reason = "deleted";
        sb.death.removal = removals[i];
        sb.death.message = "deleted by account local";
        CHECK_EQ("the intent", cay_store_update(f.store, &sb, CAY_NOW, &err), 0);
        CHECK_EQ("pass", reconcile(&f, true), 0);
        CHECK_EQ("no row lives", fixture_rows(&f), 0);
        CHECK_EQ("no sandbox", cay_provider_fake_count(f.provider), 0);
        CHECK_STR("its reason", row(&f, sb.id).death.reason, "deleted");
        CHECK_STR("by what", row(&f, sb.id).death.removal, "deleted");
        CHECK_STR("in its words", row(&f, sb.id).death.message, "deleted by account local");
        fixture_close(&f);
    }
}

static const struct {
    const char *name;
    bool persistent;
    const char *reason; /* NULL: vanished */
    enum cay_state to;
    const char *told;
    size_t left;
} ends[] = {
    {"ended by itself", false, "exited", CAY_ERROR, "exited", 1},
    {"out of memory", false, "oom", CAY_ERROR, "oom", 1},
    {"ended by itself, persistent", true, "exited", CAY_STOPPED, "exited", 1},
    {"stopped while we were away", false, "stopped", CAY_STOPPED, "stopped", 1},
    {"the host was restarted", false, "host_restart", CAY_TERMINATED, "host_restart", 0},
    {"the host was restarted, persistent", true, "host_restart", CAY_STOPPED, "host_restart", 1},
    {"being deleted", false, "deleted", CAY_TERMINATED, "deleted", 0},
    {"being deleted, persistent", true, "deleted", CAY_TERMINATED, "deleted", 0},
    {"vanished", false, NULL, CAY_TERMINATED, "error", 0},
    {"vanished, persistent", true, NULL, CAY_ERROR, "error", 0},
};

TEST(reconcile_brings_rows_after_reality)
{
    for (size_t i = 0; i < COUNT(ends); i++) {
        struct fixture f;
        fixture_open(&f);
        struct cay_sandbox sb = fixture_create(&f, "box", ends[i].persistent);
        if (ends[i].reason)
            cay_provider_fake_die(f.provider, sb.id, ends[i].reason, false);
        else
            cay_provider_fake_vanish(f.provider, sb.id);
        CHECK_EQ(ends[i].name, reconcile(&f, false), 0);
        struct cay_sandbox now = row(&f, sb.id);
        CHECK_EQ(ends[i].name, now.state, ends[i].to);
        CHECK_STR(ends[i].name, now.death.reason, ends[i].told);
        CHECK_EQ(ends[i].name, cay_provider_fake_count(f.provider), ends[i].left);
        CHECK_EQ(ends[i].name, reconcile(&f, false), 0);
        CHECK_EQ(ends[i].name, row(&f, sb.id).updated_at_ms, now.updated_at_ms);
        fixture_close(&f);
    }
}

static const struct {
    const char *name;
    bool begun; /* the crash came after the start command */
    size_t runs;
} starts[] = {
    {"killed ahead of the start command", false, 2},
    {"killed behind it", true, 2},
};

/* A start of which the row knows nothing: its start command runs, and runs once. */
TEST(reconcile_finishes_a_broken_start)
{
    for (size_t i = 0; i < COUNT(starts); i++) {
        struct fixture f;
        struct cay_error err = {0};
        struct cay_sandbox sb = {0}, down = {0};
        struct cay_strs ids = {0};
        struct cay_spec spec = cay_spec_default();
        fixture_open(&f);
        spec.name = "box";
        spec.memory_bytes = CAY_MIN_MEMORY_BYTES;
        cay_strs_push(&f.a, &spec.start, "sleep");
        cay_strs_push(&f.a, &spec.start, "9");
        CHECK_EQ("create", cay_core_create(f.core, &f.me, &spec, &f.a, &sb, &err), 0);
        CHECK_EQ("stop", cay_core_stop(f.core, &f.me, "box", 0, &f.a, &down, &err), 0);
        if (starts[i].begun)
            CHECK_EQ("start", cay_core_start(f.core, &f.me, "box", &f.a, &sb, &err), 0);
        else
            CHECK_EQ("start", cay_provider_start(f.provider, sb.id, &sb.spec, &err), 0);
        CHECK_EQ("as before", cay_store_update(f.store, &down, CAY_NOW, &err), 0);
        CHECK_EQ(starts[i].name, reconcile(&f, true), 0);
        struct cay_sandbox now = row(&f, sb.id);
        CHECK_EQ(starts[i].name, now.state, CAY_RUNNING);
        CHECK(starts[i].name, now.expires_at_ms > 0 && now.stopped_at_ms == 0);
        CHECK_EQ("logs", cay_log_list(f.core->logs_fd, sb.id, &f.a, &ids, &err), 0);
        CHECK_EQ(starts[i].name, ids.count, starts[i].runs);
        CHECK(starts[i].name, strcmp(now.start_exec, down.start_exec) != 0);
        if (starts[i].begun)
            CHECK_STR(starts[i].name, now.start_exec, sb.start_exec);
        fixture_close(&f);
    }
}

TEST(keeper_looks_again_when_news_may_be_lost)
{
    struct fixture f;
    struct cay_provider_entry unheard = {0};
    fixture_open(&f);
    CHECK("taken", cay_keeper_event(f.core, &unheard));
    CHECK("a pass is due", f.core->look_at_ms > 0 && f.core->look_at_ms <= cay_clock_mono_ms());
    fixture_close(&f);
}

TEST(keeper_takes_the_news_of_a_death)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_execution ex;
    fixture_open(&f);
    struct cay_sandbox sb = fixture_create(&f, "box", false);
    CHECK_EQ("a command", fixture_exec(&f, "box", "sleep", "9", &ex, &err), 0);
    cay_provider_fake_die(f.provider, sb.id, "oom", true);
    struct cay_provider_entry *news = cay_queue_pop(f.core->events, 0);
    CHECK("news came", news != NULL);
    struct cay_hold hold = {0};
    CHECK("held", cay_hold_try(&f.core->holds, sb.id, &hold));
    CHECK("told again later while it is busy", !cay_keeper_event(f.core, news));
    cay_hold_end(&hold);
    CHECK("taken", cay_keeper_event(f.core, news));
    CHECK_EQ("in error", row(&f, sb.id).state, CAY_ERROR);
    CHECK_STR("why", row(&f, sb.id).death.reason, "oom");
    CHECK("its command is lost", cay_core_lost(f.core, sb.id, ex.id));
    free(news);
    fixture_close(&f);
}

TEST(keeper_ends_what_is_due)
{
    struct fixture f;
    fixture_open(&f);
    struct cay_sandbox once = fixture_create(&f, "once", false);
    struct cay_sandbox kept = fixture_create(&f, "kept", true);
    cay_keeper_expire(f.core, once.expires_at_ms - 1000);
    CHECK_EQ("not yet", fixture_state(&f, once.id), CAY_RUNNING);
    cay_keeper_expire(f.core, kept.expires_at_ms + 1000);
    CHECK_EQ("terminated", fixture_state(&f, once.id), CAY_TERMINATED);
    CHECK_STR("by time", row(&f, once.id).death.reason, "timeout");
    CHECK_STR("said", row(&f, once.id).death.message, "deleted by expiry");
    CHECK_EQ("stopped", fixture_state(&f, kept.id), CAY_STOPPED);
    CHECK_STR("by time", row(&f, kept.id).death.reason, "timeout");
    CHECK_STR("said", row(&f, kept.id).death.message, "stopped by expiry");
    CHECK("with what it used", row(&f, kept.id).death.peak_bytes > 0);
    CHECK_EQ("a pass leaves it so", reconcile(&f, false), 0);
    CHECK_EQ("still stopped", fixture_state(&f, kept.id), CAY_STOPPED);
    fixture_close(&f);
}

TEST(keeper_ends_what_ends_with_its_start)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_sandbox sb;
    fixture_open(&f);
    struct cay_spec spec = cay_spec_default();
    spec.name = "box";
    spec.stop_when_start_ends = true;
    cay_strs_push(&f.a, &spec.start, "exit");
    cay_strs_push(&f.a, &spec.start, "3");
    CHECK_EQ("create", cay_core_create(f.core, &f.me, &spec, &f.a, &sb, &err), 0);
    cay_keeper_end_with_start(f.core);
    struct cay_death death = row(&f, sb.id).death;
    CHECK_STR("how", death.reason, "exited");
    CHECK_EQ("its code", death.exit_code, 3);
    CHECK_STR("by what", death.message, "stopped by its start command's end");
    CHECK("with what it used", death.peak_bytes > 0 && death.cpu_ms > 0);
    CHECK_EQ("delete",
             cay_core_delete(f.core, &f.me, "box", CAY_WORKSPACE_AS_IT_IS, &f.a, &sb, &err), 0);
    CHECK_STR("both are told", row(&f, sb.id).death.message,
              "deleted by account local; it had ended before: stopped by its start command's end");
    CHECK("the figures stay", row(&f, sb.id).death.peak_bytes > 0);
    fixture_close(&f);
}

#define LEASE_MS 60000

static void by_account(struct fixture *f, struct cay_sandbox *sb)
{
    struct cay_error err = {0};
    CHECK_EQ("delete",
             cay_core_delete(f->core, &f->me, sb->id, CAY_WORKSPACE_AS_IT_IS, &f->a, sb, &err), 0);
}

static void by_time(struct fixture *f, struct cay_sandbox *sb)
{
    cay_keeper_expire(f->core, sb->expires_at_ms + 1000);
}

static void by_lease(struct fixture *f, struct cay_sandbox *sb)
{
    struct cay_error err = {0};
    sb->spec.lease_ms = LEASE_MS;
    CHECK_EQ("a lease", cay_store_update(f->store, sb, CAY_NOW, &err), 0);
    cay_leases_load(f->core);
    cay_leases_tick(f->core, cay_clock_mono_ms() + LEASE_MS);
}

static void by_nobody(struct fixture *f, struct cay_sandbox *sb)
{
    cay_provider_fake_vanish(f->provider, sb->id);
    CHECK_EQ("pass", reconcile(f, false), 0);
}

static void by_two_servers(struct fixture *f, struct cay_sandbox *sb)
{
    struct cay_error err = {0};
    sb->death.removal = "deleted"; /* a delete that a crash cut */
    sb->death.message = "deleted by account x; it had ended before: y";
    CHECK_EQ("the intent", cay_store_update(f->store, sb, CAY_NOW, &err), 0);
    CHECK_EQ("pass", reconcile(f, true), 0);
}

#define BEFORE "; it had ended before: the sandbox's first process was killed for want of memory"

static const struct {
    const char *name;
    void (*remove)(struct fixture *f, struct cay_sandbox *sb);
    const char *removal, *message;
} removals[] = {
    {"by an account", by_account, "deleted", "deleted by account local" BEFORE},
    {"by expiry", by_time, "timeout", "deleted by expiry" BEFORE},
    {"by its lease", by_lease, "lease", "deleted: nobody renewed its lease" BEFORE},
    {"behind our back", by_nobody, "error", "the sandbox is gone" BEFORE},
    {"by the next server", by_two_servers, "deleted",
     "deleted by account x; it had ended before: y"},
};

TEST(removal_keeps_the_cause)
{
    for (size_t i = 0; i < COUNT(removals); i++) {
        struct fixture f;
        fixture_open(&f);
        struct cay_sandbox sb = fixture_create(&f, "box", false);
        cay_provider_fake_die(f.provider, sb.id, "oom", false);
        CHECK_EQ(removals[i].name, reconcile(&f, false), 0);
        sb = row(&f, sb.id);
        CHECK_STR(removals[i].name, sb.death.removal, NULL);
        removals[i].remove(&f, &sb);
        sb = row(&f, sb.id);
        CHECK_EQ(removals[i].name, sb.state, CAY_TERMINATED);
        CHECK_STR(removals[i].name, sb.death.reason, "oom");
        CHECK_STR(removals[i].name, sb.death.removal, removals[i].removal);
        CHECK_STR(removals[i].name, sb.death.message, removals[i].message);
        fixture_close(&f);
    }
}

/* F-32: the clock is set a day ahead; nobody loses a minute. */
TEST(keeper_moves_ends_with_the_clock)
{
    const int64_t day_ms = 24 * 60 * 60 * 1000LL;
    struct fixture f;
    fixture_open(&f);
    struct cay_sandbox sb = fixture_create(&f, "box", false), endless = {0};
    struct cay_spec spec = cay_spec_default();
    struct cay_error err = {0};
    spec.timeout_ms = 0;
    spec.memory_bytes = CAY_MIN_MEMORY_BYTES;
    CHECK_EQ("create", cay_core_create(f.core, &f.me, &spec, &f.a, &endless, &err), 0);
    cay_keeper_shift(f.core, day_ms);
    CHECK_EQ("moved", row(&f, sb.id).expires_at_ms, sb.expires_at_ms + day_ms);
    CHECK_EQ("no end", row(&f, endless.id).expires_at_ms, 0);
    CHECK_EQ("up as long as it was", row(&f, endless.id).started_at_ms,
             endless.started_at_ms + day_ms);
    cay_keeper_expire(f.core, cay_clock_ms() + day_ms);
    CHECK_EQ("it lives", fixture_state(&f, sb.id), CAY_RUNNING);
    fixture_close(&f);
}

/* A row that somebody is at, or that cannot be read or written, is moved later, and once. */
TEST(keeper_moves_every_end_before_it_expires)
{
    const int64_t day_ms = 24 * 60 * 60 * 1000LL;
    struct cay_hold hold = {0};
    struct fixture f;
    fixture_open(&f);
    struct cay_sandbox sb = fixture_create(&f, "box", false);
    struct cay_sandbox held = fixture_create(&f, "held", false);
    CHECK("somebody is at it", cay_hold_try(&f.core->holds, held.id, &hold));
    for (int i = 0; i < 3; i++) { /* the rows are not read; the row is not; it is not written */
        cay_store_fake_fail_at(f.store, i == 0 ? 1 : 2);
        cay_keeper_shift(f.core, i == 0 ? day_ms : 0);
        CHECK_EQ("it failed", cay_store_fake_failures(f.store), i + 1);
        CHECK_EQ("not moved", row(&f, sb.id).expires_at_ms, sb.expires_at_ms);
        cay_keeper_expire(f.core, cay_clock_ms() + day_ms);
        CHECK_EQ("it lives", fixture_state(&f, sb.id), CAY_RUNNING);
    }
    cay_store_fake_fail_at(f.store, 0);
    cay_keeper_shift(f.core, 0);
    CHECK_EQ("moved", row(&f, sb.id).expires_at_ms, sb.expires_at_ms + day_ms);
    cay_keeper_shift(f.core, day_ms);
    CHECK_EQ("moved again", row(&f, sb.id).expires_at_ms, sb.expires_at_ms + 2 * day_ms);
    cay_hold_end(&hold);
    cay_keeper_expire(f.core, cay_clock_ms() + 2 * day_ms);
    CHECK_EQ("who was held lives", fixture_state(&f, held.id), CAY_RUNNING);
    cay_keeper_shift(f.core, 0);
    CHECK_EQ("by both", row(&f, held.id).expires_at_ms, held.expires_at_ms + 2 * day_ms);
    CHECK_EQ("its start too", row(&f, held.id).started_at_ms, held.started_at_ms + 2 * day_ms);
    cay_keeper_shift(f.core, 0);
    CHECK_EQ("once", row(&f, held.id).expires_at_ms, held.expires_at_ms + 2 * day_ms);
    cay_keeper_expire(f.core, cay_clock_ms() + 4 * day_ms);
    CHECK_EQ("in its time it ends", cay_provider_fake_count(f.provider), 0);
    fixture_close(&f);
}
