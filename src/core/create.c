/* SPDX-License-Identifier: Apache-2.0 */
/* Creating a sandbox: the row first, then the provider, then the start command, then the row again.
 *
 * A crash between two steps must leave something that names what to mend, so the row is written
 * before anything exists (PENDING) and says RUNNING only when the sandbox runs. A failure on the
 * way takes back what was made, in reverse; what even that cannot take back, reconcile.c finds. */
#include "base/clock.h"
#include "base/crash.h"
#include "core/core.h"
#include "core/keeper.h"
#include "core/validate.h"
#include "log/files.h"
#include "model/limits.h"
#include <string.h>

#define NAME_TRIES 4
#define LOOK_MS 1000 /* until reconcile tries what an undo could not do */

struct undo {
    struct cay_core *core; /* NULL once there is nothing to undo */
    const char *id;
    bool in_store, in_provider;
};

static void undo_create(struct undo *u)
{
    struct cay_error ignored; /* the caller already has the error that matters */
    if (!u->core)
        return;
    if (u->in_provider && cay_provider_destroy(u->core->provider, u->id, NULL, &ignored) < 0) {
        cay_keeper_look(u->core, LOOK_MS); /* the row stays, and names what is left */
        return;
    }
    cay_log_remove_all(u->core->logs_fd, u->id);
    if (u->in_store && cay_store_remove(u->core->store, u->id, CAY_SOON, &ignored) < 0)
        cay_keeper_look(u->core, LOOK_MS);
}

static const char *make_name(struct cay_arena *a)
{
    static const char *const how[] = {"amber", "brave",  "calm",  "clear", "coral", "early",
                                      "fair",  "gentle", "green", "high",  "keen",  "late",
                                      "mild",  "quiet",  "sunny", "warm"};
    static const char *const what[] = {"bay",   "beach", "breeze", "cape", "cove", "dune",
                                       "gull",  "inlet", "island", "palm", "reef", "sand",
                                       "shell", "shoal", "tide",   "wave"};
    char hex[9];
    cay_id_hex(hex, 8);
    return cay_arena_printf(a, "%s-%s-%s", how[hex[0] % CAY_COUNT(how)],
                            what[hex[1] % CAY_COUNT(what)], hex + 2);
}

static struct cay_sandbox new_row(struct cay_core *core, const struct cay_account *owner,
                                  const struct cay_spec *spec)
{
    struct cay_sandbox sb = {
        .account_id = owner->id, .spec = *spec, .state = CAY_PENDING, .server = core->server};
    cay_id_sandbox(sb.id);
    sb.created_at_ms = sb.updated_at_ms = cay_clock_ms();
    if (spec->timeout_ms > 0)
        sb.expires_at_ms = sb.created_at_ms + spec->timeout_ms;
    return sb;
}

/* A name that was made up may be taken; then another one is. */
static int insert_row(struct cay_core *core, struct cay_arena *a, struct cay_sandbox *sb,
                      struct cay_error *err)
{
    if (sb->spec.name)
        return cay_store_insert(core->store, sb, CAY_SOON, err);
    int r = 0;
    for (int i = 0; i < NAME_TRIES; i++) {
        sb->spec.name = make_name(a);
        r = cay_store_insert(core->store, sb, CAY_SOON, err);
        if (r != CAY_ERR_CONFLICT)
            break;
    }
    return r;
}

int cay_core_create(struct cay_core *core, const struct cay_account *owner,
                    const struct cay_spec *spec, struct cay_arena *a, struct cay_sandbox *out,
                    struct cay_error *err)
{
    int64_t began_ms = cay_clock_mono_ms();
    struct cay_spec wanted = *spec;
    if (wanted.memory_bytes == CAY_DEFAULT_MEMORY_BYTES &&
        wanted.memory_bytes > core->host_memory_bytes)
        wanted.memory_bytes = core->host_memory_bytes; /* a small host has smaller defaults */
    int r = cay_validate_spec(&wanted, core->host_memory_bytes, err);
    if (r < 0)
        return r;

    struct cay_sandbox sb = new_row(core, owner, &wanted);
    CAY_AUTO_HOLD struct cay_hold hold = {0};
    CAY_CLEANUP(undo_create) struct undo undo = {.core = core, .id = sb.id};
    (void)cay_hold_try(&core->holds, sb.id, &hold); /* nobody else knows this id */

    r = insert_row(core, a, &sb, err);
    if (r < 0)
        return r;
    undo.in_store = true;
    cay_crash_point("create-row-written");

    undo.in_provider = true; /* also when create fails half way */
    r = cay_provider_create(core->provider, sb.id, &sb.spec, &sb.copied, err);
    if (r < 0)
        return cay_wrap(err, "cannot create a sandbox from image %s", sb.spec.image);
    sb.started_at_ms = cay_clock_ms();
    cay_crash_point("create-provider-done");

    r = cay_core_run_start(core, &sb, err);
    if (r < 0)
        return cay_wrap(err, "cannot run the start command");
    if (sb.start_exec[0])
        cay_crash_point("create-start-command");

    sb.state = CAY_RUNNING;
    sb.created_in_ms = cay_clock_mono_ms() - began_ms;
    sb.updated_at_ms = cay_clock_ms();
    r = cay_store_update(core->store, &sb, CAY_NOW, err);
    if (r < 0)
        return r;

    cay_crash_point("create-row-running");
    undo.core = NULL;
    cay_core_mind_start(core, &sb);
    *out = sb;
    return 0;
}
