/* SPDX-License-Identifier: Apache-2.0 */
/* Telling what happened to a sandbox, once its row says so.
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
    return cay_path_open_dir(data_fd, "events", 0700, &core->events_fd, err);
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
