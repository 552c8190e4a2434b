/* SPDX-License-Identifier: Apache-2.0 */
/* Starting, pausing, stopping and deleting, and what a death makes of a row.
 *
 * One operation at a time per sandbox: the id is held, and the row read again once it is. Where the
 * row cannot be written the operation goes on and says so in the log, because the sandbox's own
 * state is what counts and reconcile brings the row after it; only create and delete fail by it. */
#include "base/clock.h"
#include "base/crash.h"
#include "base/log.h"
#include "core/core.h"
#include "core/kept.h"
#include "core/metrics.h"
#include "core/network.h"
#include "core/state.h"
#include "core/ticket.h"
#include "model/limits.h"
#include <string.h>

int cay_core_find(struct cay_core *core, const struct cay_account *owner, const char *id,
                  struct cay_arena *a, struct cay_sandbox *out, struct cay_error *err)
{
    const char *team;
    int r = cay_store_get(core->store, owner->id, id, a, out, err);
    if (r == CAY_ERR_FORBIDDEN) {
        r = cay_core_find_team(core, owner, id, a, &team, err);
        if (r == 0)
            r = cay_store_get(core->store, team, id, a, out, err);
    }
    if (r == CAY_ERR_NOT_FOUND)
        return cay_fail(err, r, "sandbox not found");
    if (r == CAY_ERR_FORBIDDEN)
        return cay_fail(err, r, "this sandbox belongs to another account");
    if (r == 0)
        cay_lease_renew(core, out); /* who may name it, wants it */
    return r;
}

int cay_core_find_held(struct cay_core *core, const struct cay_account *owner, const char *id,
                       struct cay_arena *a, struct cay_hold *hold, struct cay_sandbox *out,
                       struct cay_error *err)
{
    struct cay_sandbox sb;
    int r = cay_core_find(core, owner, id, a, &sb, err);
    if (r == 0)
        r = cay_hold_wait(&core->holds, sb.id, hold, err);
    if (r == 0)
        r = cay_core_find(core, owner, sb.id, a, out, err);
    return r;
}

void cay_core_note(struct cay_core *core, struct cay_sandbox *sb, enum cay_durable durable)
{
    struct cay_error err = {0};
    sb->updated_at_ms = cay_clock_ms();
    if (cay_store_update(core->store, sb, durable, &err) < 0)
        cay_log_error(&err, "cannot record that sandbox %s is %s", sb->id,
                      cay_state_name(sb->state));
}

int cay_core_get(struct cay_core *core, const struct cay_account *owner, const char *id,
                 struct cay_arena *a, struct cay_sandbox *out, struct cay_error *err)
{
    return cay_core_find(core, owner, id, a, out, err);
}

int cay_core_gone(const char *verb, const char *id, int r, struct cay_error *err)
{
    if (r == CAY_ERR_NOT_FOUND)
        return cay_fail_as(err, CAY_ERR_CONFLICT, "SANDBOX_GONE",
                           "the sandbox and its files are gone");
    return cay_wrap(err, "cannot %s sandbox %s", verb, id);
}

void cay_core_mark_started(struct cay_sandbox *sb, int64_t started_at_ms)
{
    sb->state = CAY_RUNNING;
    sb->started_at_ms = started_at_ms;
    sb->expires_at_ms = sb->spec.timeout_ms > 0 ? started_at_ms + sb->spec.timeout_ms : 0;
    sb->stopped_at_ms = 0;
    sb->has_death = false;
    sb->status_reason = NULL;
}

static void say_started(struct cay_core *core, struct cay_sandbox *sb)
{
    cay_core_mark_started(sb, cay_clock_ms());
    cay_core_note(core, sb, CAY_NOW);
    cay_crash_point("start-row-running");
    cay_core_tell(core, sb, NULL);
    cay_core_mind_start(core, sb);
}

/* It runs, with its start command; or it is down again. */
static int start_held(struct cay_core *core, struct cay_sandbox *sb, struct cay_error *err)
{
    struct cay_error ignored; /* the error that matters is why the start command failed */
    int r = cay_provider_start(core->provider, sb->id, &sb->spec, err);
    if (r < 0)
        return cay_core_gone("start", sb->id, r, err);
    cay_crash_point("start-provider-done");
    cay_oom_forget(&core->oom, sb->id);
    cay_cache_forget(&core->cache, sb->id);
    r = cay_network_up(core, sb, err);
    if (r == 0)
        r = cay_core_begin_inside(core, sb, err);
    if (r == 0)
        cay_crash_point("start-command-begun");
    if (r < 0) {
        cay_network_forget(core, sb->id);
        (void)cay_provider_stop(core->provider, sb->id, 0, &ignored);
    }
    return r;
}

int cay_core_begin_start(struct cay_core *core, const struct cay_account *owner, const char *id,
                         struct cay_arena *a, struct cay_sandbox *out,
                         struct cay_ticket **ticket_out, struct cay_error *err)
{
    CAY_AUTO_HOLD struct cay_hold hold = {0};
    struct cay_sandbox sb;
    struct cay_ticket *ticket = NULL;
    int64_t began_ms = cay_clock_mono_ms();
    int r = cay_core_find_held(core, owner, id, a, &hold, &sb, err);
    if (r < 0)
        return r;
    bool ran = sb.state == CAY_RUNNING, waits = !ran && cay_spec_waits(&sb.spec);
    enum cay_state before = sb.state;
    r = cay_state_apply(&sb.state, CAY_START, err);
    if (r == 0 && waits && !(ticket = cay_ticket_new(err)))
        r = err->code;
    if (r == 0 && !ran)
        r = start_held(core, &sb, err);
    if (r < 0) {
        cay_ticket_free(ticket);
        cay_ticket_free(ticket); /* nobody else knows of it */
        return r;
    }
    if (waits)
        sb.state = before;
    else if (!ran)
        say_started(core, &sb);
    *out = sb;
    *ticket_out = ticket;
    if (waits)
        cay_ready_add(core, &sb, NULL, true, began_ms, &hold, ticket);
    return 0;
}

int cay_core_start(struct cay_core *core, const struct cay_account *owner, const char *id,
                   struct cay_arena *a, struct cay_sandbox *out, struct cay_error *err)
{
    struct cay_ticket *ticket;
    int r = cay_core_begin_start(core, owner, id, a, out, &ticket, err);
    if (r < 0 || !ticket)
        return r;
    r = cay_ticket_verdict(ticket, err);
    cay_ticket_free(ticket);
    return r < 0 ? r : cay_core_find(core, owner, cay_arena_strdup(a, out->id), a, out, err);
}

/* The two ways between RUNNING and PAUSED; asking for what is already so is no error. */
static int hold_still(struct cay_core *core, const struct cay_account *owner, const char *id,
                      enum cay_event event, struct cay_arena *a, struct cay_sandbox *out,
                      struct cay_error *err)
{
    CAY_AUTO_HOLD struct cay_hold hold = {0};
    struct cay_sandbox sb;
    int r = cay_core_find_held(core, owner, id, a, &hold, &sb, err);
    if (r < 0)
        return r;
    enum cay_state before = sb.state;
    r = cay_state_apply(&sb.state, event, err);
    if (r < 0)
        return r;
    if (sb.state != before) {
        bool pauses = event == CAY_PAUSE;
        r = pauses ? cay_provider_pause(core->provider, sb.id, err)
                   : cay_provider_resume(core->provider, sb.id, err);
        if (r < 0)
            return cay_core_gone(pauses ? "pause" : "resume", sb.id, r, err);
        cay_core_note(core, &sb, CAY_NOW);
        cay_core_tell(core, &sb, NULL);
        cay_core_mind_start(core, &sb);
    }
    *out = sb;
    return 0;
}

int cay_core_pause(struct cay_core *core, const struct cay_account *owner, const char *id,
                   struct cay_arena *a, struct cay_sandbox *out, struct cay_error *err)
{
    return hold_still(core, owner, id, CAY_PAUSE, a, out, err);
}

int cay_core_resume(struct cay_core *core, const struct cay_account *owner, const char *id,
                    struct cay_arena *a, struct cay_sandbox *out, struct cay_error *err)
{
    return hold_still(core, owner, id, CAY_RESUME, a, out, err);
}

int cay_core_wake(struct cay_core *core, const struct cay_account *owner, const char *id,
                  struct cay_arena *a, struct cay_sandbox *out, struct cay_ticket **ticket_out,
                  struct cay_error *err)
{
    *ticket_out = NULL;
    int r = cay_core_find(core, owner, id, a, out, err);
    if (r == 0 && out->state == CAY_STOPPED && out->spec.persistent)
        r = cay_core_begin_start(core, owner, cay_arena_strdup(a, out->id), a, out, ticket_out,
                                 err);
    return r;
}

/* Who stops it is on the row before the provider hears of it: whoever finishes what a crash cut
 * short then knows. */
static void mark_stop(struct cay_core *core, const struct cay_sandbox *sb,
                      const struct cay_death *why)
{
    struct cay_error err = {0};
    struct cay_sandbox intent = *sb;
    intent.has_death = true;
    intent.death = *why;
    intent.updated_at_ms = cay_clock_ms();
    if (cay_store_update(core->store, &intent, CAY_SOON, &err) < 0)
        cay_log_error(&err, "cannot record who stops sandbox %s", sb->id);
    cay_crash_point("stop-row-marked");
}

int cay_core_stop_held(struct cay_core *core, struct cay_sandbox *sb, const struct cay_death *why,
                       int64_t grace_ms, struct cay_error *err)
{
    struct cay_usage usage = {0};
    struct cay_error ignored; /* figures for the record only */
    struct cay_sandbox before = *sb;
    bool was_up = sb->state == CAY_RUNNING || sb->state == CAY_PAUSED;
    int r = cay_state_apply(&sb->state, CAY_STOP, err);
    if (r < 0 || before.state == CAY_STOPPED)
        return r;
    if (was_up)
        mark_stop(core, &before, why);
    (void)cay_provider_usage(core->provider, sb->id, &usage, &ignored);
    r = cay_provider_stop(core->provider, sb->id, grace_ms, err);
    if (r < 0 && was_up)
        cay_core_note(core, &before, CAY_SOON);
    if (r < 0)
        return cay_core_gone("stop", sb->id, r, err);
    cay_crash_point("stop-provider-done");
    sb->stopped_at_ms = cay_clock_ms();
    sb->status_reason = NULL;
    if (sb->spec.persistent)
        sb->expires_at_ms = 0;
    if (was_up || !sb->has_death) { /* else it had ended before, and that is how */
        sb->has_death = true;
        sb->death = *why;
        sb->death.peak_bytes = usage.memory_peak_bytes;
        sb->death.cpu_ms = usage.cpu_us / 1000;
    }
    cay_network_down(core, sb);
    cay_core_note(core, sb, CAY_NOW);
    cay_crash_point("stop-row-written");
    cay_core_tell(core, sb, NULL);
    if (strcmp(why->reason, "stopped") != 0) /* else a request did it, and its record says so */
        cay_core_record_own(core, sb, "sandbox.stop");
    (void)cay_settle(core, sb->id, NULL); /* else summary decides when somebody asks */
    return 0;
}

int cay_core_stop(struct cay_core *core, const struct cay_account *owner, const char *id,
                  int64_t grace_ms, struct cay_arena *a, struct cay_sandbox *out,
                  struct cay_error *err)
{
    CAY_AUTO_HOLD struct cay_hold hold = {0};
    struct cay_sandbox sb;
    if (grace_ms < 0 || grace_ms > CAY_MAX_GRACE_MS)
        return cay_fail_field(err, "graceMs", "graceMs must be from 0 to %d", CAY_MAX_GRACE_MS);
    int r = cay_core_find_held(core, owner, id, a, &hold, &sb, err);
    if (r < 0)
        return r;
    struct cay_death why = {.reason = "stopped",
                            .message = cay_arena_printf(a, "stopped by account %s", owner->id)};
    if (atomic_fetch_add(&core->slow, 1) >= CAY_SLOW_MAX)
        r = cay_fail(err, CAY_ERR_UNAVAILABLE, "too many sandboxes are being stopped at once");
    else
        r = cay_core_stop_held(core, &sb, &why, grace_ms, err);
    atomic_fetch_sub(&core->slow, 1);
    if (r == 0)
        *out = sb;
    return r;
}

/* What the provider is to do with /workspace, as `destroy` wants it. */
static const char *volume_order(const struct cay_sandbox *sb)
{
    if (!sb->spec.volume)
        return sb->keeps[0] ? sb->keeps : NULL;
    return sb->keeps[0] ? NULL : "";
}

/* An end that has happened keeps its cause; what takes the rest away is told beside it. To be
 * stopped on request is no cause: then the removal is the end. */
static struct cay_death removed(const struct cay_sandbox *sb, const char *reason,
                                const char *message, struct cay_arena *a)
{
    struct cay_death death = {.reason = reason, .removal = reason, .message = message};
    if (!sb->has_death || !sb->death.reason)
        return death;
    if (sb->death.removal) /* begun before, and cut short */
        return sb->death;
    const char *cause = sb->death.message ? sb->death.message : sb->death.reason;
    death = sb->death;
    death.removal = reason;
    death.message = cay_arena_printf(a, "%s; it had ended before: %s", message, cause);
    if (strcmp(death.reason, "stopped") == 0)
        death.reason = reason;
    return death;
}

/* The intent is on the row before anything is taken away, so that a crash between the two is
 * finished by reconcile as what it was: a delete, with or without the volume. */
static int delete_keeping(struct cay_core *core, struct cay_sandbox *sb, const char *keeps,
                          const struct cay_death *death, struct cay_error *err)
{
    struct cay_sandbox before = *sb;
    struct cay_usage used = {0};
    int r = cay_state_apply(&sb->state, CAY_DELETE, err);
    if (r < 0 || before.state == CAY_TERMINATED)
        return r;
    cay_str_copy(sb->keeps, sizeof sb->keeps, keeps);
    struct cay_sandbox intent = *sb;
    intent.state = before.state;
    intent.has_death = true;
    intent.death = *death;
    intent.updated_at_ms = cay_clock_ms();
    r = cay_store_update(core->store, &intent, CAY_SOON, err);
    if (r < 0)
        return r;
    uint64_t wish = cay_store_sync_begin(core->store); /* the intent must survive, not the result */
    cay_crash_point("delete-row-marked");
    r = sb->keeps[0] && !sb->spec.volume ? cay_core_promise_volume(core, sb, err) : 0;
    if (r == 0)
        r = cay_provider_destroy(core->provider, sb->id, volume_order(sb), &used, err);
    if (r < 0 && r != CAY_ERR_NOT_FOUND) {
        /* The promise stays: a provider that was only late may still make the volume, and reconcile
         * decides by what there is once the sandbox is gone. */
        cay_core_note(core, &before, CAY_SOON);
        return cay_wrap(err, "cannot destroy sandbox %s", sb->id);
    }
    cay_crash_point("delete-provider-done");
    r = cay_core_release_volume(core, sb, err);
    if (r < 0)
        return r;
    sb->has_death = true;
    sb->death = *death;
    if (sb->death.peak_bytes == 0) { /* else it had ended before, and these are of that end */
        sb->death.peak_bytes = used.memory_peak_bytes;
        sb->death.cpu_ms = used.cpu_us / 1000;
    }
    cay_network_down(core, sb);
    cay_network_forget(core, sb->id);
    sb->deleted_at_ms = sb->updated_at_ms = cay_clock_ms();
    if (!sb->stopped_at_ms)
        sb->stopped_at_ms = sb->deleted_at_ms;
    cay_oom_forget(&core->oom, sb->id);
    (void)cay_settle(core, sb->id, NULL); /* else summary decides when somebody asks */
    r = cay_store_update(core->store, sb, CAY_SOON, err);
    if (r == 0)
        r = cay_store_sync_end(core->store, wish, err);
    if (r < 0)
        return r;
    cay_crash_point("delete-row-gone");
    cay_history_forget(core, sb->id);
    cay_core_tell(core, sb, NULL);
    return 0;
}

int cay_core_delete_held(struct cay_core *core, struct cay_sandbox *sb, const char *reason,
                         const char *message, struct cay_arena *a, struct cay_error *err)
{
    char keeps[CAY_ID_SIZE];
    const struct cay_death death = removed(sb, reason, message, a);
    cay_str_copy(keeps, sizeof keeps, sb->keeps);
    int r = delete_keeping(core, sb, keeps, &death, err);
    if (r == 0)
        cay_core_record_own(core, sb, "sandbox.delete");
    return r;
}

int cay_core_delete(struct cay_core *core, const struct cay_account *owner, const char *id,
                    enum cay_workspace workspace, struct cay_arena *a, struct cay_sandbox *out,
                    struct cay_error *err)
{
    CAY_CLEANUP(cay_ready_cancel_end) struct cay_ready_cancel cancel = {0};
    CAY_AUTO_HOLD struct cay_hold hold = {0};
    struct cay_sandbox sb;
    char keeps[CAY_ID_SIZE] = "";
    int64_t began_us = cay_clock_mono_us();
    int r = cay_core_find(core, owner, id, a, &sb, err);
    if (r == 0) {
        cay_ready_cancel(core, sb.id, &cancel);
        r = cay_core_find_held(core, owner, id, a, &hold, &sb, err);
    }
    if (r < 0)
        return r;
    if (workspace == CAY_WORKSPACE_AS_IT_IS || (workspace == CAY_WORKSPACE_KEPT && sb.keeps[0]))
        cay_str_copy(keeps, sizeof keeps, sb.keeps);
    else if (workspace == CAY_WORKSPACE_KEPT)
        cay_id_volume(keeps, sb.id);
    const char *by = cay_arena_printf(a, "deleted by account %s", owner->id);
    const struct cay_death death = removed(&sb, "deleted", by, a);
    r = delete_keeping(core, &sb, keeps, &death, err);
    if (r < 0)
        return r;
    cay_core_took(CAY_TOOK_DELETE, began_us);
    *out = sb;
    return 0;
}

/* Nothing inside can end pid 1. So who was killed was killed from outside, and who ended by itself
 * has a fault. */
static const char *why_down(const struct cay_death *death)
{
    if (death->message)
        return death->message;
    if (strcmp(death->reason, "oom") == 0)
        return "the sandbox's first process was killed for want of memory";
    if (strcmp(death->reason, "signal") == 0)
        return "the sandbox's first process was killed from outside";
    if (strcmp(death->reason, "host_restart") == 0)
        return CAY_HOST_RESTARTED;
    if (strcmp(death->reason, "stopped") == 0)
        return "stopped";
    if (strcmp(death->reason, "deleted") == 0)
        return "a deletion that was cut short is finished";
    if (death->has_signal)
        return "engine fault: the sandbox's first process crashed";
    if (death->has_exit)
        return "engine fault: the sandbox's first process ended by itself";
    return "the sandbox's first process is gone, and nobody saw how it ended";
}

/* One that we stopped has on its row who wanted it. */
static void note_death(struct cay_sandbox *sb, const struct cay_death *death)
{
    struct cay_death wanted = sb->death;
    bool ours = sb->has_death && strcmp(death->reason, "stopped") == 0;
    sb->has_death = true;
    sb->death = *death;
    sb->death.message = why_down(death);
    if (!ours)
        return;
    sb->death = wanted;
    sb->death.peak_bytes = death->peak_bytes;
    sb->death.cpu_ms = death->cpu_ms;
}

/* A persistent one rests until it is started again; one that was stopped is stopped; one that a
 * restart of the host took is terminated, and so is one that the provider is taking away: whoever
 * asked for that may have been told that nobody answered. Any other is left to be looked at, in
 * error. */
int cay_core_died_held(struct cay_core *core, struct cay_sandbox *sb, const struct cay_death *death,
                       int64_t ended_at_ms, struct cay_arena *a, struct cay_error *err)
{
    bool by_host = strcmp(death->reason, "host_restart") == 0;
    bool rests = sb->spec.persistent || strcmp(death->reason, "stopped") == 0;
    bool goes = strcmp(death->reason, "deleted") == 0;
    if (goes || (by_host && !rests))
        return cay_core_delete_held(core, sb, death->reason, why_down(death), a, err);
    int r = cay_state_apply(&sb->state, rests ? CAY_REST : CAY_DIE, err);
    if (r < 0)
        return r;
    note_death(sb, death);
    cay_network_down(core, sb);
    sb->status_reason = rests ? NULL : sb->death.message;
    sb->stopped_at_ms = ended_at_ms ? ended_at_ms : cay_clock_ms();
    if (sb->spec.persistent)
        sb->expires_at_ms = 0;
    sb->updated_at_ms = cay_clock_ms();
    r = cay_store_update(core->store, sb, CAY_NOW, err);
    if (r == 0) {
        cay_core_tell(core, sb, NULL);
        cay_core_record_own(core, sb, "sandbox.end");
    }
    (void)cay_settle(core, sb->id, NULL); /* else summary decides when somebody asks */
    return r;
}
