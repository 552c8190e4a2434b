/* SPDX-License-Identifier: Apache-2.0 */
/* A look at an idle sandbox is one question to the engine, for processor time, and a listing of its
 * logs, for output. Its pid 1 is asked for running commands only when all else says that its time
 * is over: it may be slow to answer, and then the sandbox ends, so nobody waits for it twice. */
#include "core/lease.h"
#include "base/clock.h"
#include "base/log.h"
#include "core/core.h"
#include "log/files.h"
#include "model/limits.h"
#include <string.h>

#define LOOKS 256 /* at most so many in one tick */
#define PARTS 8   /* an idle time is looked at so often */
#define LOOK_MAX_MS 30000
#define BUSY_DIVISOR 100 /* a hundredth of one core is rest, more is activity */
#define GRACE_MS 2000    /* one after the other: no sandbox may hold up the rest for long */

struct cay_lease {
    struct cay_lease *next;
    char id[CAY_ID_SIZE];
    char *account_id;
    int64_t lease_ms, idle_ms;
    unsigned idle_when;
    unsigned open;                         /* calls that last */
    int64_t called_ms, active_ms, look_ms; /* monotonic: last call, last activity, next look */
    uint64_t cpu_us, log_bytes;            /* at the last look */
    int64_t looked_ms;                     /* 0: never */
};

void cay_leases_init(struct cay_leases *l)
{
    pthread_mutex_init(&l->lock, NULL);
}

static void drop(struct cay_lease **at)
{
    struct cay_lease *gone = *at;
    *at = gone->next;
    free(gone->account_id);
    free(gone);
}

void cay_leases_done(struct cay_leases *l)
{
    for (size_t i = 0; i < CAY_LEASE_BUCKETS; i++)
        while (l->buckets[i])
            drop(&l->buckets[i]);
    pthread_mutex_destroy(&l->lock);
}

/* Where it is, or where it would be. */
static struct cay_lease **find(struct cay_leases *l, const char *id)
{
    unsigned h = 2166136261u;
    for (const char *c = id; *c; c++)
        h = (h ^ (unsigned char)*c) * 16777619u;
    struct cay_lease **at = &l->buckets[h % CAY_LEASE_BUCKETS];
    while (*at && strcmp((*at)->id, id) != 0)
        at = &(*at)->next;
    return at;
}

/* One that rests has no activity; a lease it has all the same, unless it is to be kept. */
static bool is_minded(const struct cay_sandbox *sb)
{
    bool up = sb->state == CAY_RUNNING || sb->state == CAY_PAUSED;
    if (sb->deleted_at_ms || sb->state == CAY_PENDING || sb->state == CAY_PROVISIONING)
        return false;
    return (up && (sb->spec.idle_ms || sb->spec.lease_ms)) ||
           (!up && !sb->spec.persistent && sb->spec.lease_ms);
}

static int64_t look_after(int64_t idle_ms)
{
    int64_t part = idle_ms / PARTS;
    return part < LOOK_MAX_MS ? part : LOOK_MAX_MS;
}

static struct cay_lease *new_lease(const struct cay_sandbox *sb, int64_t now_ms)
{
    struct cay_lease *l = calloc(1, sizeof *l);
    char *account = strdup(sb->account_id);
    if (!l || !account)
        abort();
    *l = (struct cay_lease){.account_id = account, .called_ms = now_ms, .active_ms = now_ms};
    memcpy(l->id, sb->id, sizeof l->id);
    return l;
}

static void mind(struct cay_core *core, const struct cay_sandbox *sb, bool called)
{
    int64_t now_ms = cay_clock_mono_ms();
    bool up = sb->state == CAY_RUNNING || sb->state == CAY_PAUSED;
    pthread_mutex_lock(&core->leases.lock);
    struct cay_lease **at = find(&core->leases, sb->id);
    if (!is_minded(sb)) {
        if (*at)
            drop(at);
    } else {
        if (!*at)
            *at = new_lease(sb, now_ms);
        struct cay_lease *l = *at;
        int64_t idle_ms = up ? sb->spec.idle_ms : 0;
        if (l->idle_ms != idle_ms)
            l->look_ms = now_ms + look_after(idle_ms);
        l->idle_ms = idle_ms;
        l->idle_when = sb->spec.idle_when;
        l->lease_ms = sb->spec.lease_ms;
        if (called)
            l->called_ms = now_ms;
        if (called && l->idle_when & CAY_ACTIVE_REQUESTS)
            l->active_ms = now_ms;
    }
    pthread_mutex_unlock(&core->leases.lock);
}

void cay_lease_renew(struct cay_core *core, const struct cay_sandbox *sb)
{
    if (sb->spec.idle_ms || sb->spec.lease_ms)
        mind(core, sb, true);
}

void cay_leases_load(struct cay_core *core)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_sandbox_list rows;
    struct cay_error err = {0};
    if (cay_store_all(core->store, &a, &rows, &err) < 0) {
        cay_log_error(&err, "cannot look for leases");
        return;
    }
    for (size_t i = 0; i < rows.count; i++)
        if (rows.at[i].spec.idle_ms || rows.at[i].spec.lease_ms)
            mind(core, &rows.at[i], false);
}

bool cay_core_attend(struct cay_core *core, const char *sandbox_id)
{
    pthread_mutex_lock(&core->leases.lock);
    struct cay_lease *l = *find(&core->leases, sandbox_id);
    if (l)
        l->open++;
    pthread_mutex_unlock(&core->leases.lock);
    return l != NULL;
}

void cay_core_leave(struct cay_core *core, const char *sandbox_id)
{
    int64_t now_ms = cay_clock_mono_ms();
    pthread_mutex_lock(&core->leases.lock);
    struct cay_lease *l = *find(&core->leases, sandbox_id);
    if (l && l->open > 0) {
        l->open--;
        l->called_ms = now_ms;
        if (l->idle_when & CAY_ACTIVE_REQUESTS)
            l->active_ms = now_ms;
    }
    pthread_mutex_unlock(&core->leases.lock);
}

static bool is_lapsed(const struct cay_lease *l, int64_t now_ms)
{
    return l->lease_ms > 0 && l->open == 0 && now_ms - l->called_ms >= l->lease_ms;
}

static bool is_idle(const struct cay_lease *l, int64_t now_ms)
{
    bool called = l->open > 0 && l->idle_when & CAY_ACTIVE_REQUESTS;
    return l->idle_ms > 0 && !called && now_ms - l->active_ms >= l->idle_ms;
}

/* What became of it since it was copied; false when it is gone. */
static bool look_again(struct cay_core *core, struct cay_lease *l)
{
    pthread_mutex_lock(&core->leases.lock);
    struct cay_lease *now = *find(&core->leases, l->id);
    if (now) {
        l->called_ms = now->called_ms;
        l->active_ms = now->active_ms;
        l->open = now->open;
        l->lease_ms = now->lease_ms;
        l->idle_ms = now->idle_ms;
    }
    pthread_mutex_unlock(&core->leases.lock);
    return now != NULL;
}

static bool runs_commands(struct cay_core *core, const struct cay_sandbox *sb, struct cay_arena *a)
{
    struct cay_strs running = {0};
    struct cay_error ignored; /* who does not answer does nothing for anybody */
    if (sb->state != CAY_RUNNING ||
        cay_provider_executions(core->provider, sb->id, a, &running, &ignored) < 0)
        return false;
    for (size_t i = 0; i < running.count; i++)
        if (strcmp(running.at[i], sb->start_exec) != 0)
            return true;
    return false;
}

static int end_row(struct cay_core *core, struct cay_sandbox *sb, const char *reason,
                   struct cay_arena *a, struct cay_error *err)
{
    bool lease = strcmp(reason, "lease") == 0;
    if (!sb->spec.persistent)
        return cay_core_delete_held(
            core, sb, reason, lease ? "deleted: nobody renewed its lease" : "deleted: it was idle",
            a, err);
    struct cay_death why = {.reason = reason,
                            .message = lease ? "stopped: nobody renewed its lease"
                                             : "stopped: it was idle"};
    return cay_core_stop_held(core, sb, &why, GRACE_MS, err);
}

static void put_active(struct cay_core *core, const char *id, int64_t now_ms)
{
    pthread_mutex_lock(&core->leases.lock);
    struct cay_lease *l = *find(&core->leases, id);
    if (l)
        l->active_ms = now_ms;
    pthread_mutex_unlock(&core->leases.lock);
}

static void end(struct cay_core *core, struct cay_lease *l, int64_t now_ms)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    CAY_AUTO_HOLD struct cay_hold hold = {0};
    struct cay_sandbox sb;
    struct cay_error err = {0};
    if (!cay_hold_try(&core->holds, l->id, &hold))
        return; /* somebody is at it: the next tick */
    int r = cay_store_get(core->store, l->account_id, l->id, &a, &sb, &err);
    if (r == CAY_ERR_NOT_FOUND) {
        sb = (struct cay_sandbox){.deleted_at_ms = 1};
        memcpy(sb.id, l->id, sizeof sb.id);
        r = 0;
    }
    if (r == 0)
        mind(core, &sb, false);
    if (r == 0 && (!look_again(core, l) || (!is_lapsed(l, now_ms) && !is_idle(l, now_ms))))
        return;
    const char *reason = is_lapsed(l, now_ms) ? "lease" : "idle";
    if (r == 0 && *reason == 'i' && l->idle_when & CAY_ACTIVE_COMMANDS &&
        runs_commands(core, &sb, &a)) {
        put_active(core, l->id, now_ms);
        return;
    }
    if (r == 0)
        r = end_row(core, &sb, reason, &a, &err);
    if (r < 0) {
        cay_log_error(&err, "cannot end sandbox %s (%s)", l->id, reason);
        return;
    }
    mind(core, &sb, false);
    cay_log_info("sandbox %s ended: %s", l->id, reason);
}

/* False when it cannot be told: it is on its way down, or the engine is away. */
static bool has_computed(struct cay_core *core, struct cay_lease *l, int64_t now_ms)
{
    struct cay_usage usage;
    struct cay_error ignored;
    if (cay_provider_usage(core->provider, l->id, &usage, &ignored) < 0)
        return false;
    uint64_t since_us = (uint64_t)(now_ms - l->looked_ms) * 1000;
    bool more = l->looked_ms > 0 && usage.cpu_us > l->cpu_us &&
                usage.cpu_us - l->cpu_us > since_us / BUSY_DIVISOR;
    l->cpu_us = usage.cpu_us;
    return more;
}

static bool has_written(struct cay_core *core, struct cay_lease *l)
{
    uint64_t bytes = cay_log_written(core->logs_fd, l->id);
    bool more = l->looked_ms > 0 && bytes > l->log_bytes;
    l->log_bytes = bytes;
    return more;
}

/* Into the lease itself, if it is still there. */
static void keep_look(struct cay_core *core, const struct cay_lease *l, bool active, int64_t now_ms)
{
    pthread_mutex_lock(&core->leases.lock);
    struct cay_lease *to = *find(&core->leases, l->id);
    if (to) {
        to->cpu_us = l->cpu_us;
        to->log_bytes = l->log_bytes;
        to->looked_ms = now_ms;
        to->look_ms = now_ms + look_after(to->idle_ms);
        if (active)
            to->active_ms = now_ms;
    }
    pthread_mutex_unlock(&core->leases.lock);
}

static void look(struct cay_core *core, struct cay_lease *l, int64_t now_ms)
{
    bool active = false;
    if (l->idle_ms > 0) {
        if (l->idle_when & CAY_ACTIVE_CPU)
            active = has_computed(core, l, now_ms);
        if (l->idle_when & CAY_ACTIVE_OUTPUT)
            active = has_written(core, l) || active;
        keep_look(core, l, active, now_ms);
    }
    if (look_again(core, l) && (is_lapsed(l, now_ms) || is_idle(l, now_ms)))
        end(core, l, now_ms);
}

/* Copies of those whose turn it is. */
static size_t take_due(struct cay_leases *leases, int64_t now_ms, struct cay_arena *a,
                       struct cay_lease due[LOOKS])
{
    size_t count = 0;
    pthread_mutex_lock(&leases->lock);
    for (size_t i = 0; i < CAY_LEASE_BUCKETS && count < LOOKS; i++) {
        unsigned bucket = (leases->first + i) % CAY_LEASE_BUCKETS;
        for (struct cay_lease *l = leases->buckets[bucket]; l && count < LOOKS; l = l->next)
            if (is_lapsed(l, now_ms) || (l->idle_ms > 0 && now_ms >= l->look_ms)) {
                due[count] = *l;
                due[count++].account_id = cay_arena_strdup(a, l->account_id);
            }
        if (count == LOOKS)
            leases->first = bucket;
    }
    pthread_mutex_unlock(&leases->lock);
    return count;
}

void cay_leases_tick(struct cay_core *core, int64_t now_ms)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_lease *due = cay_arena_alloc(&a, LOOKS * sizeof *due);
    size_t count = take_due(&core->leases, now_ms, &a, due);
    for (size_t i = 0; i < count; i++)
        look(core, &due[i], now_ms);
}
