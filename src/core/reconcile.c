/* SPDX-License-Identifier: Apache-2.0 */
/* Rows against resources, one pass.
 *
 * The rows are read first, then the resources. A row that differs from its resource is mended only
 * if nobody holds it and it is still, word for word, the row that was read before: then no
 * operation ended in between, and the difference is real. A resource without a row is removed only
 * if a second reading of the rows, after the resources, does not know it either: a row is always
 * written before its resource. */
#include "core/reconcile.h"
#include "base/clock.h"
#include "base/log.h"
#include "core/core.h"
#include "core/keeper.h"
#include "core/kept.h"
#include "core/network.h"
#include "core/state.h"
#include "log/files.h"
#include "model/limits.h"
#include <string.h>

#define RETRY_MS 5000 /* until a row that could not be mended is looked at again */

/* Entries in order of their ids; by pointer, because an entry may point into itself. */
struct index {
    const struct cay_provider_entry **at;
    size_t count;
};

static int by_entry_id(const void *a, const void *b)
{
    const struct cay_provider_entry *const *x = a, *const *y = b;
    return strcmp((*x)->id, (*y)->id);
}

static struct index make_index(struct cay_arena *a, const struct cay_provider_list *list)
{
    struct index index = {.count = list->count};
    index.at = cay_arena_alloc(a, (list->count + 1) * sizeof *index.at);
    for (size_t i = 0; i < list->count; i++)
        index.at[i] = &list->at[i];
    qsort(index.at, index.count, sizeof *index.at, by_entry_id);
    return index;
}

static int by_row_id(const void *a, const void *b)
{
    return strcmp(((const struct cay_sandbox *)a)->id, ((const struct cay_sandbox *)b)->id);
}

static const struct cay_provider_entry *find_entry(const struct index *index, const char *id)
{
    struct cay_provider_entry key = {0};
    const struct cay_provider_entry *wanted = &key;
    cay_str_copy(key.id, sizeof key.id, id);
    const struct cay_provider_entry **found =
        bsearch(&wanted, index->at, index->count, sizeof *index->at, by_entry_id);
    return found ? *found : NULL;
}

static bool has_row(const struct cay_sandbox_list *rows, const char *id)
{
    struct cay_sandbox key = {0};
    if (rows->count == 0)
        return false;
    cay_str_copy(key.id, sizeof key.id, id);
    return bsearch(&key, rows->at, rows->count, sizeof *rows->at, by_row_id) != NULL;
}

static int read_rows(struct cay_core *core, struct cay_arena *a, struct cay_sandbox_list *out,
                     struct cay_error *err)
{
    int r = cay_store_all(core->store, a, out, err);
    if (r == 0 && out->count > 0)
        qsort(out->at, out->count, sizeof *out->at, by_row_id);
    return r;
}

/* A delete that was begun, of a row that lives; an older server wrote the reason alone. */
static bool is_being_deleted(const struct cay_sandbox *sb)
{
    return sb->has_death &&
           (sb->death.removal || (sb->death.reason && strcmp(sb->death.reason, "deleted") == 0));
}

static bool was_never_finished(const struct cay_sandbox *sb)
{
    return sb->state == CAY_PENDING || sb->state == CAY_PROVISIONING;
}

/* A create that was answered and failed: its row tells so, and there is nothing else. */
static bool was_never_made(const struct cay_sandbox *sb)
{
    return sb->state == CAY_ERROR && sb->answered && sb->started_at_ms == 0;
}

static bool is_up(const struct cay_sandbox *sb)
{
    return sb->state == CAY_RUNNING || sb->state == CAY_PAUSED;
}

/* A stop that was begun. */
static bool is_being_stopped(const struct cay_sandbox *sb)
{
    return is_up(sb) && sb->has_death && !is_being_deleted(sb);
}

/* The provider takes it away already. */
static bool is_going(const struct cay_provider_entry *entry)
{
    return !entry->running && entry->death.reason && strcmp(entry->death.reason, "deleted") == 0;
}

static bool differs(const struct cay_sandbox *sb, const struct cay_provider_entry *entry)
{
    if (was_never_finished(sb) || is_being_deleted(sb))
        return true;
    if (was_never_made(sb))
        return entry != NULL;
    if (!entry) /* one in error whose files are gone already said so */
        return sb->state != CAY_ERROR || !sb->spec.persistent;
    if (entry->unknown)
        return false;
    if (is_being_stopped(sb) || is_going(entry))
        return true;
    return is_up(sb) ? !entry->running || entry->paused != (sb->state == CAY_PAUSED)
                     : entry->running;
}

static int write_down(struct cay_core *core, struct cay_sandbox *sb, struct cay_error *err)
{
    sb->updated_at_ms = cay_clock_ms();
    int r = cay_store_update(core->store, sb, CAY_NOW, err);
    if (r == 0)
        cay_core_tell(core, sb, NULL);
    return r;
}

static int mend_gone(struct cay_core *core, struct cay_sandbox *sb, struct cay_arena *a,
                     struct cay_error *err)
{
    const char *why = "the sandbox is gone";
    if (!sb->spec.persistent)
        return cay_core_delete_held(core, sb, "error", why, a, err);
    sb->has_death = true;
    sb->death = (struct cay_death){.reason = "error", .message = why};
    /* STOPPED would promise files that a start could find */
    int r = cay_state_apply(&sb->state, CAY_DIE, err);
    if (r < 0)
        return r;
    sb->status_reason = "the sandbox and its files are gone";
    sb->expires_at_ms = 0;
    return write_down(core, sb, err);
}

/* The start command of the present run, if it was begun. While the row says that the sandbox is
 * down nobody else can run a command in it, so what began since the sandbox started is that. */
static int find_start(struct cay_core *core, struct cay_sandbox *sb,
                      const struct cay_provider_entry *entry, bool *found_out,
                      struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    CAY_AUTO_FD int fd = -1;
    struct cay_strs ids;
    struct cay_execution ex = {0};
    struct cay_error ignored; /* a log that cannot be read is none */
    int r = cay_log_list(core->logs_fd, sb->id, &a, &ids, err);
    if (r < 0)
        return r;
    *found_out = ids.count > 0 && strcmp(ids.at[0], sb->start_exec) != 0 && /* the last run's */
                 cay_log_open(core->logs_fd, sb->id, ids.at[0], &fd, &ignored) == 0 &&
                 cay_core_summary(core, sb, ids.at[0], fd, &a, &ex, &ignored) == 0 &&
                 ex.started_at_ms >= entry->started_at_ms && ex.status != CAY_EXEC_LOST;
    if (*found_out)
        cay_str_copy(sb->start_exec, sizeof sb->start_exec, ids.at[0]);
    return 0;
}

/* A start that a crash cut short, or whose row could not be written. */
static int finish_start(struct cay_core *core, struct cay_sandbox *sb,
                        const struct cay_provider_entry *entry, struct cay_error *err)
{
    struct cay_error ignored; /* the error that matters is why the start command failed */
    bool found = false;
    int r = find_start(core, sb, entry, &found, err);
    if (r < 0)
        return r;
    if (!found && cay_core_run_start(core, sb, err) < 0) {
        (void)cay_provider_stop(core->provider, sb->id, 0, &ignored);
        return cay_wrap(err, "cannot run the start command");
    }
    cay_core_mark_started(sb, entry->started_at_ms);
    return write_down(core, sb, err);
}

/* A pause or a resume that a crash cut short, or whose row could not be written: what is, is. */
static int mend_pause(struct cay_core *core, struct cay_sandbox *sb,
                      const struct cay_provider_entry *entry, struct cay_error *err)
{
    int r = cay_state_apply(&sb->state, entry->paused ? CAY_PAUSE : CAY_RESUME, err);
    if (r < 0)
        return r;
    return write_down(core, sb, err);
}

/* What its caller was told may not have reached the disk beside the row itself: it is taken for one
 * that ran. */
static bool went_with_host(const struct cay_core *core, const struct cay_sandbox *sb)
{
    return !sb->spec.persistent && sb->updated_at_ms < core->booted_at_ms;
}

static int mend_row(struct cay_core *core, struct cay_sandbox *sb,
                    const struct cay_provider_entry *entry, struct cay_arena *a,
                    struct cay_error *err)
{
    if (is_being_deleted(sb)) {
        if (!sb->death.removal)
            sb->death.removal = sb->death.reason;
        return cay_core_delete_held(core, sb, sb->death.removal, sb->death.message, a, err);
    }
    if (was_never_finished(sb) && !sb->answered && went_with_host(core, sb))
        return cay_core_delete_held(core, sb, "host_restart", CAY_HOST_RESTARTED, a, err);
    if (was_never_finished(sb))
        return cay_core_undo_create(core, sb, "the server ended before the sandbox was made", err);
    if (was_never_made(sb))
        return cay_provider_destroy(core->provider, sb->id, NULL, NULL, err);
    if (!entry && is_up(sb) && went_with_host(core, sb)) /* so did the engine's record of it */
        return cay_core_delete_held(core, sb, "host_restart", CAY_HOST_RESTARTED, a, err);
    if (!entry)
        return mend_gone(core, sb, a, err);
    if (!entry->running) {
        struct cay_death death = entry->death;
        if (!death.reason)
            death.reason = "error";
        return cay_core_died_held(core, sb, &death, entry->ended_at_ms, a, err);
    }
    if (is_being_stopped(sb)) {
        struct cay_death why = sb->death;
        return cay_core_stop_held(core, sb, &why, CAY_DEFAULT_GRACE_MS, err);
    }
    return is_up(sb) ? mend_pause(core, sb, entry, err) : finish_start(core, sb, entry, err);
}

static void mend_if_still_so(struct cay_core *core, const struct cay_sandbox *seen,
                             const struct cay_provider_entry *entry)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    CAY_AUTO_HOLD struct cay_hold hold = {0};
    struct cay_sandbox sb;
    struct cay_error err = {0};
    if (!cay_hold_try(&core->holds, seen->id, &hold))
        return;
    int r = cay_store_get(core->store, seen->account_id, seen->id, &a, &sb, &err);
    if (r == CAY_ERR_NOT_FOUND)
        return;
    if (r == 0 && (sb.updated_at_ms != seen->updated_at_ms || sb.state != seen->state))
        return;
    if (r == 0)
        r = mend_row(core, &sb, entry, &a, &err);
    if (r < 0) {
        cay_log_error(&err, "cannot reconcile sandbox %s", seen->id);
        cay_keeper_look(core, RETRY_MS);
        return;
    }
    cay_log_info("sandbox %s was %s and is now %s", seen->id, cay_state_name(seen->state),
                 was_never_finished(&sb) ? "removed" : cay_state_name(sb.state));
}

int cay_reconcile_refuse_empty(struct cay_core *core, const char *what, const char *instead,
                               size_t count, struct cay_error *err)
{
    bool used = false;
    int r = cay_store_was_used(core->store, &used, err);
    if (r < 0 || used)
        return r;
    return cay_fail_as(err, CAY_ERR_STORE, "STORE_EMPTY",
                       "%zu %s exist and the store knows none: put the store back, or %s", count,
                       what, instead);
}

static bool is_old(const struct cay_provider_entry *entry)
{
    int64_t since = entry->running ? entry->started_at_ms : entry->ended_at_ms;
    return cay_clock_ms() - since > CAY_ORPHAN_GRACE_MS;
}

static int remove_orphans(struct cay_core *core, const struct cay_provider_list *list,
                          const struct cay_sandbox_list *rows, bool at_start, struct cay_arena *a,
                          struct cay_error *err)
{
    size_t orphans = 0;
    struct cay_sandbox_list again;
    for (size_t i = 0; i < list->count; i++)
        orphans += !has_row(rows, list->at[i].id);
    if (orphans == 0)
        return 0;
    int r = read_rows(core, a, &again, err);
    if (r == 0 && again.count == 0)
        r = cay_reconcile_refuse_empty(core, "sandboxes", "end them with `cay down`", orphans, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < list->count; i++) {
        CAY_AUTO_HOLD struct cay_hold hold = {0};
        const struct cay_provider_entry *entry = &list->at[i];
        struct cay_error why = {0};
        if (!cay_id_is_sandbox(entry->id) || has_row(&again, entry->id) ||
            (!at_start && !is_old(entry)) || !cay_hold_try(&core->holds, entry->id, &hold))
            continue;
        if (cay_provider_destroy(core->provider, entry->id, NULL, NULL, &why) < 0)
            cay_log_error(&why, "cannot remove sandbox %s, which has no record", entry->id);
        else
            cay_log_warn("removed sandbox %s, which had no record", entry->id);
        (void)cay_settle(core, entry->id, NULL); /* else summary decides when somebody asks */
    }
    return 0;
}

int cay_reconcile(struct cay_core *core, bool at_start, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_sandbox_list rows;
    struct cay_provider_list list;
    int r = read_rows(core, &a, &rows, err);
    if (r < 0)
        return cay_wrap(err, "the records cannot be read");
    r = cay_provider_list(core->provider, &a, &list, err);
    if (r < 0)
        return cay_wrap(err, "the sandboxes cannot be listed");
    struct index index = make_index(&a, &list);
    for (size_t i = 0; i < rows.count; i++) {
        const struct cay_provider_entry *entry = find_entry(&index, rows.at[i].id);
        if (differs(&rows.at[i], entry))
            mend_if_still_so(core, &rows.at[i], entry);
    }
    cay_network_reconcile(core, &rows);
    r = remove_orphans(core, &list, &rows, at_start, &a, err);
    return r < 0 ? r : cay_core_reconcile_kept(core, at_start, err);
}
