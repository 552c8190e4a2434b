/* SPDX-License-Identifier: Apache-2.0 */
/* Telling what happened to a sandbox, once its row says so; and the record of who did what.
 *
 * An event is written after the row is committed: what is told is so. A server that dies between
 * the two leaves one untold; whoever must know all reads the rows. */
#include "log/events.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/path.h"
#include "core/core.h"

int cay_core_open_records(struct cay_core *core, int data_fd, struct cay_error *err)
{
    CAY_AUTO_FD int dir = -1;
    int r = cay_path_open_dir(data_fd, "events", 0700, &core->events_fd, err);
    if (r == 0)
        r = cay_path_open_dir(data_fd, "audit", 0700, &dir, err);
    return r < 0 ? r : cay_audit_open(cay_take_fd(&dir), &core->audit, err);
}

void cay_core_record(struct cay_core *core, const struct cay_audit_entry *e)
{
    struct cay_error err = {0};
    if (core->audit && cay_audit_add(core->audit, e, &err) < 0)
        cay_log_error(&err, "no record of %s by %s on %s, status %d", e->action, e->account_id,
                      e->sandbox ? e->sandbox : "-", e->status);
}

void cay_core_record_own(struct cay_core *core, const struct cay_sandbox *sb, const char *action)
{
    struct cay_audit_entry e = {.account_id = sb->account_id,
                                .action = action,
                                .sandbox = sb->id,
                                .object = sb->has_death ? sb->death.reason : NULL};
    cay_core_record(core, &e);
}

int cay_core_records(struct cay_core *core, const struct cay_audit_filter *filter,
                     struct cay_arena *a, struct cay_audit_page *out, struct cay_error *err)
{
    return cay_audit_read(core->audit, filter, a, out, err);
}

int cay_core_events(struct cay_core *core, const struct cay_account *owner, int *fd_out,
                    struct cay_error *err)
{
    return cay_events_open(core->events_fd, owner->id, fd_out, err);
}

static void append(struct cay_core *core, struct cay_event *e)
{
    struct cay_error err = {0};
    e->time_ms = cay_clock_ms();
    if (core->events_fd >= 0 && cay_events_append(core->events_fd, e, &err) < 0)
        cay_log_error(&err, "nobody is told that sandbox %s is %s", e->sandbox_id, e->status);
}

void cay_core_tell(struct cay_core *core, const struct cay_sandbox *sb, const char *type)
{
    static const char *const words[CAY_STATES] = {
        [CAY_PENDING] = "pending",       [CAY_PROVISIONING] = "provisioning",
        [CAY_RUNNING] = "running",       [CAY_PAUSED] = "paused",
        [CAY_STOPPED] = "stopped",       [CAY_ERROR] = "error",
        [CAY_TERMINATED] = "terminated",
    };
    struct cay_event e = {.type = type ? type : words[sb->state],
                          .account_id = sb->account_id,
                          .sandbox_id = sb->id,
                          .name = sb->spec.name,
                          .status = cay_state_name(sb->state),
                          .from = sb->spec.from};
    if (sb->has_death) {
        e.reason = sb->death.reason;
        e.message = sb->death.message;
    }
    append(core, &e);
}

void cay_core_tell_snapshot(struct cay_core *core, const struct cay_sandbox *sb, const char *id)
{
    struct cay_event e = {.type = "snapshot",
                          .account_id = sb->account_id,
                          .sandbox_id = sb->id,
                          .name = sb->spec.name,
                          .status = cay_state_name(sb->state),
                          .snapshot_id = id};
    append(core, &e);
}
