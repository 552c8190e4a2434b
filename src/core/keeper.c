/* SPDX-License-Identifier: Apache-2.0 */
/* Deaths, expiry, reconcile and retention, each in its time.
 *
 * Expiry is by the wall clock, because it must outlive a restart. A wall clock that goes more than
 * five minutes ahead of or behind the monotonic one has been set: then every sandbox's end is moved
 * by as much, and nothing expires for a minute. */
#include "core/keeper.h"
#include "base/clock.h"
#include "base/log.h"
#include "core/kept.h"
#include "core/metrics.h"
#include "core/reconcile.h"
#include "core/retention.h"
#include "log/events.h"
#include "log/files.h"
#include "model/limits.h"
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>

#define TICK_MS 1000
#define JUMP_MS (5 * 60 * 1000)
#define PAUSE_MS (60 * 1000)
#define SWEEP_MS (10 * 60 * 1000)
#define RETRY_MS 20
#define RECONCILE_AGAIN_MS 5000 /* after a pass that could not read both sides */
#define EXPIRY_GRACE_MS 2000    /* one after the other: no sandbox may hold up the rest for long */

static bool find_row(struct cay_core *core, const char *id, struct cay_arena *a,
                     struct cay_sandbox *out, struct cay_error *err)
{
    struct cay_sandbox_list rows;
    if (cay_store_all(core->store, a, &rows, err) < 0) {
        cay_log_error(err, "cannot look up sandbox %s", id);
        return false;
    }
    for (size_t i = 0; i < rows.count; i++)
        if (strcmp(rows.at[i].id, id) == 0) {
            *out = rows.at[i];
            return true;
        }
    return false;
}

void cay_keeper_look(struct cay_core *core, int64_t after_ms)
{
    int64_t at_ms = cay_clock_mono_ms() + after_ms;
    pthread_mutex_lock(&core->lock);
    if (core->look_at_ms == 0 || at_ms < core->look_at_ms)
        core->look_at_ms = at_ms;
    pthread_cond_broadcast(&core->wake);
    pthread_mutex_unlock(&core->lock);
}

/* Under the lock. */
static bool look_is_due(const struct cay_core *core)
{
    return core->look_at_ms > 0 && core->look_at_ms <= cay_clock_mono_ms();
}

static bool take_look(struct cay_core *core)
{
    pthread_mutex_lock(&core->lock);
    bool due = look_is_due(core);
    if (due)
        core->look_at_ms = 0;
    pthread_mutex_unlock(&core->lock);
    return due;
}

bool cay_keeper_event(struct cay_core *core, const struct cay_provider_entry *entry)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    CAY_AUTO_HOLD struct cay_hold hold = {0};
    struct cay_sandbox sb;
    struct cay_error err = {0};
    struct cay_death death = entry->death;
    if (!entry->id[0]) {
        cay_keeper_look(core, 0);
        return true;
    }
    if (!death.reason)
        death.reason = "error";
    if (strcmp(death.reason, "stopped") == 0 || strcmp(death.reason, "deleted") == 0)
        return true; /* whoever asked for it writes the row */
    if (!cay_hold_try(&core->holds, entry->id, &hold))
        return false;
    if (!find_row(core, entry->id, &a, &sb, &err))
        return true;
    if ((sb.state != CAY_RUNNING && sb.state != CAY_PAUSED) ||
        entry->ended_at_ms < sb.started_at_ms)
        return true; /* old news */
    if (cay_core_died_held(core, &sb, &death, entry->ended_at_ms, &a, &err) < 0)
        cay_log_error(&err, "cannot record the end of sandbox %s", sb.id);
    else
        cay_log_warn("sandbox %s ended: %s", sb.id, death.reason);
    return true;
}

static void *events_main(void *arg)
{
    struct cay_core *core = arg;
    struct timespec pause = {.tv_nsec = RETRY_MS * 1000000L};
    struct cay_provider_entry *entry;
    while ((entry = cay_queue_pop(core->events, -1)) != NULL) {
        bool busy = !cay_keeper_event(core, entry);
        if (busy)
            (void)nanosleep(&pause, NULL); /* being early is harmless */
        if (!busy || !cay_queue_push(core->events, entry))
            free(entry); /* a full queue: reconcile finds it */
    }
    return NULL;
}

static void expire(struct cay_core *core, const struct cay_sandbox *due, int64_t now_ms)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    CAY_AUTO_HOLD struct cay_hold hold = {0};
    struct cay_sandbox sb;
    struct cay_error err = {0};
    if (cay_shift_is_due(core, due->id) || !cay_hold_try(&core->holds, due->id, &hold))
        return; /* the next tick */
    int r = cay_store_get(core->store, due->account_id, due->id, &a, &sb, &err);
    if (r == 0 && (sb.expires_at_ms == 0 || sb.expires_at_ms > now_ms || sb.deleted_at_ms))
        return;
    if (r == 0 && sb.spec.persistent) {
        struct cay_death why = {.reason = "timeout", .message = "stopped by expiry"};
        r = cay_core_stop_held(core, &sb, &why, EXPIRY_GRACE_MS, &err);
    } else if (r == 0) {
        r = cay_core_delete_held(core, &sb, "timeout", "deleted by expiry", &a, &err);
    }
    if (r < 0)
        cay_log_error(&err, "cannot end sandbox %s, whose time is over", due->id);
    else
        cay_log_info("sandbox %s ended: its time is over", due->id);
}

void cay_keeper_expire(struct cay_core *core, int64_t now_ms)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_sandbox_list due;
    struct cay_error err = {0};
    if (cay_store_due(core->store, now_ms, &a, &due, &err) < 0) {
        cay_log_error(&err, "cannot read what is due");
        return;
    }
    for (int stops = 0; stops < 2; stops++) /* what only needs a kill goes first */
        for (size_t i = 0; i < due.count; i++)
            if (due.at[i].spec.persistent == (stops == 1))
                expire(core, &due.at[i], now_ms);
}

/* The row says of it what the execution itself says. */
static int death_of_start(struct cay_core *core, const struct cay_sandbox *sb, struct cay_arena *a,
                          struct cay_death *out, struct cay_error *err)
{
    CAY_AUTO_FD int fd = -1;
    struct cay_execution ex;
    char cause[CAY_CAUSE_SIZE];
    int r = cay_log_open(core->logs_fd, sb->id, sb->start_exec, &fd, err);
    if (r == 0)
        r = cay_core_summary(core, sb, sb->start_exec, fd, a, &ex, err);
    if (r < 0)
        return r;
    bool more = cay_core_cause(&ex, cause);
    *out =
        (struct cay_death){.reason = ex.reason,
                           .has_exit = true,
                           .has_signal = ex.signal != 0,
                           .exit_code = ex.exit_code,
                           .signal = ex.signal,
                           .message = cay_arena_printf(a, "stopped by its start command's end%s%s",
                                                       more ? ": " : "", more ? cause : "")};
    return 0;
}

static void end_with_start(struct cay_core *core, const struct cay_sandbox *seen)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    CAY_AUTO_HOLD struct cay_hold hold = {0};
    struct cay_sandbox sb;
    struct cay_death why;
    struct cay_error err = {0};
    if (!cay_hold_try(&core->holds, seen->id, &hold))
        return; /* the next tick */
    int r = cay_store_get(core->store, seen->account_id, seen->id, &a, &sb, &err);
    if (r == 0 && (sb.state != CAY_RUNNING || strcmp(sb.start_exec, seen->start_exec) != 0))
        return; /* another run of it */
    if (r == 0)
        r = death_of_start(core, &sb, &a, &why, &err);
    if (r == 0)
        r = cay_core_stop_held(core, &sb, &why, EXPIRY_GRACE_MS, &err);
    if (r < 0)
        cay_log_error(&err, "cannot end sandbox %s, whose start command ended", seen->id);
    else
        cay_log_info("sandbox %s ended with its start command", seen->id);
}

void cay_keeper_end_with_start(struct cay_core *core)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_sandbox_list rows;
    struct cay_record_exit end;
    struct cay_error err = {0};
    if (!atomic_exchange(&core->start_ends, false))
        return;
    if (cay_store_all(core->store, &a, &rows, &err) < 0) {
        atomic_store(&core->start_ends, true);
        cay_log_error(&err, "cannot look for start commands that ended");
        return;
    }
    for (size_t i = 0; i < rows.count; i++) {
        const struct cay_sandbox *sb = &rows.at[i];
        if (sb->state != CAY_RUNNING || !sb->spec.stop_when_start_ends)
            continue;
        atomic_store(&core->start_ends, true);
        if (cay_core_start_exit(core, sb, &end))
            end_with_start(core, sb);
    }
}

static bool is_alive(void *arg, const char *id)
{
    const struct cay_sandbox_list *rows = arg;
    for (size_t i = 0; i < rows->count; i++)
        if (strcmp(rows->at[i].id, id) == 0)
            return true;
    return false;
}

static void sweep(struct cay_core *core)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_sandbox_list rows;
    struct cay_error err = {0};
    int64_t before_ms = cay_clock_ms() - CAY_LOG_RETENTION_MS;
    int r = cay_store_all(core->store, &a, &rows, &err);
    if (r == 0) {
        cay_log_sweep(core->logs_fd, CAY_LOG_RETENTION_MS, is_alive, &rows);
        cay_history_sweep(core->historian.dir_fd, CAY_HISTORY_SWEEP_MS, is_alive, &rows);
        cay_events_trim(core->events_fd, cay_clock_ms() - CAY_EVENTS_RETENTION_MS);
        r = cay_store_forget(core->store, before_ms, &err);
    }
    cay_batch_file_sweep(core, CAY_LOG_RETENTION_MS);
    if (r < 0)
        cay_log_error(&err, "cannot forget what is old");
}

/* How long until the next pass. */
static int64_t reconcile(struct cay_core *core, bool at_start)
{
    struct cay_error err = {0};
    cay_log_hold_reserve(core->logs_fd);
    int r = cay_reconcile(core, at_start, &err);
    if (r < 0)
        cay_log_error(&err, "cannot reconcile; nothing was done");
    pthread_mutex_lock(&core->lock);
    cay_str_copy(core->trouble, sizeof core->trouble, r < 0 ? err.msg : "");
    core->trouble_in_store = r == CAY_ERR_STORE;
    pthread_mutex_unlock(&core->lock);
    return r < 0 ? RECONCILE_AGAIN_MS : CAY_RECONCILE_MS;
}

struct times {         /* monotonic; when each is next */
    int64_t offset_ms; /* of the wall clock against the monotonic one */
    int64_t expiry, reconcile, sweep;
    uint64_t free_bytes; /* the most that were free beside the logs since they were looked at */
};

static uint64_t free_bytes(const struct cay_core *core)
{
    struct statvfs fs;
    return fstatvfs(core->logs_fd, &fs) < 0 ? 0 : (uint64_t)fs.f_bfree * fs.f_frsize;
}

/* Has the disk lost as much as one sandbox's logs may take? Whoever writes that fast is not to have
 * the time until the next pass. */
static bool logs_are_due(const struct cay_core *core, struct times *t)
{
    uint64_t now = free_bytes(core);
    if (now > t->free_bytes)
        t->free_bytes = now;
    return t->free_bytes - now > (uint64_t)core->log_bytes;
}

/* Less than one of them may have needs no closer look. */
static void mind_logs(struct cay_core *core, struct times *t)
{
    struct cay_error err = {0};
    t->free_bytes = free_bytes(core);
    int64_t bytes = cay_log_bytes(core->logs_fd);
    cay_metric_set(&cay_core_log_bytes, bytes);
    if ((bytes > core->log_bytes || bytes > CAY_LOG_ACCOUNT_BYTES) &&
        cay_retention_run(core, core->log_bytes, CAY_LOG_ACCOUNT_BYTES, &err) < 0)
        cay_log_error(&err, "cannot look after the logs' size");
}

static void tick(struct cay_core *core, struct times *t)
{
    int64_t mono = cay_clock_mono_ms(), wall = cay_clock_ms();
    int64_t jump = wall - mono - t->offset_ms;
    t->offset_ms = wall - mono;
    bool was_set = jump > JUMP_MS || jump < -JUMP_MS;
    cay_keeper_shift(core, was_set ? jump : 0);
    if (was_set) {
        t->expiry = mono + PAUSE_MS;
        if (t->sweep < t->expiry)
            t->sweep = t->expiry;
    }
    if (mono >= t->expiry) {
        cay_keeper_expire(core, wall);
        cay_core_expire_kept(core, wall);
    }
    cay_leases_tick(core, mono);
    if (take_look(core) || mono >= t->reconcile) {
        int64_t pause_ms = reconcile(core, false);
        t->reconcile = cay_clock_mono_ms() + pause_ms;
        mind_logs(core, t);
        atomic_store(&core->start_ends, true); /* it may have found one */
        cay_leases_load(core);
    } else if (logs_are_due(core, t)) {
        mind_logs(core, t);
    }
    cay_keeper_end_with_start(core);
    if (mono >= t->sweep) {
        sweep(core);
        t->sweep = cay_clock_mono_ms() + SWEEP_MS;
    }
}

static bool wait_tick(struct cay_core *core)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += TICK_MS / 1000;
    pthread_mutex_lock(&core->lock);
    int late = 0;
    while (!core->closing && !look_is_due(core) && late == 0)
        late = pthread_cond_timedwait(&core->wake, &core->lock, &until);
    bool go_on = !core->closing;
    pthread_mutex_unlock(&core->lock);
    return go_on;
}

static void *janitor_main(void *arg)
{
    struct cay_core *core = arg;
    int64_t mono = cay_clock_mono_ms();
    struct times t = {.offset_ms = cay_clock_ms() - mono,
                      .reconcile = mono + core->first_pause_ms,
                      .sweep = mono + PAUSE_MS,
                      .free_bytes = free_bytes(core)};
    while (wait_tick(core))
        tick(core, &t);
    return NULL;
}

int cay_keeper_start(struct cay_core *core, struct cay_error *err)
{
    int r = cay_settler_start(core, err);
    if (r < 0)
        return r;
    core->first_pause_ms = reconcile(core, true);
    atomic_store(&core->start_ends, true);
    cay_leases_load(core);
    if (pthread_create(&core->events_thread, NULL, events_main, core) != 0)
        return cay_fail(err, CAY_ERR_INTERNAL, "cannot start a thread");
    if (pthread_create(&core->janitor_thread, NULL, janitor_main, core) != 0) {
        cay_queue_close(core->events);
        pthread_join(core->events_thread, NULL);
        return cay_fail(err, CAY_ERR_INTERNAL, "cannot start a thread");
    }
    core->kept = true;
    return 0;
}

void cay_keeper_stop(struct cay_core *core)
{
    pthread_mutex_lock(&core->lock);
    core->closing = true;
    pthread_cond_broadcast(&core->wake);
    pthread_mutex_unlock(&core->lock);
    cay_queue_close(core->events);
    if (!core->kept)
        return;
    pthread_join(core->events_thread, NULL);
    pthread_join(core->janitor_thread, NULL);
}
