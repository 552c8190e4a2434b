/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots and volumes: made, found, given to a sandbox, given back, removed.
 *
 * As with sandboxes the row comes before the files and says that they are being made, and the files
 * go before the row; what a crash leaves, kept_reconcile.c mends. */
#include "core/kept.h"
#include "base/clock.h"
#include "base/crash.h"
#include "base/log.h"
#include "core/image.h"
#include "core/keeper.h"
#include "core/once.h"
#include "core/state.h"
#include "core/validate.h"
#include "model/limits.h"
#include <string.h>

#define LOOK_MS 1000 /* until reconcile tries what an undo could not do */

static int at_field(int r, const char *field, struct cay_error *err)
{
    cay_str_copy(err->field, sizeof err->field, field);
    return r;
}

/* What is not ready is nobody's yet. */
static int find(struct cay_core *core, const char *account_id, enum cay_kept_kind kind,
                const char *id, struct cay_arena *a, struct cay_kept *out, struct cay_error *err)
{
    bool fits = kind == CAY_SNAPSHOT ? cay_id_is_snapshot(id) : cay_id_is_volume(id);
    int r = fits ? cay_store_kept_get(core->store, account_id, id, a, out, err) : CAY_ERR_NOT_FOUND;
    if (r == 0 && !out->ready)
        r = CAY_ERR_NOT_FOUND;
    if (r == CAY_ERR_NOT_FOUND)
        return cay_fail_as(err, r, kind == CAY_SNAPSHOT ? "SNAPSHOT_NOT_FOUND" : "VOLUME_NOT_FOUND",
                           "%s not found", cay_kept_kind_name(kind));
    if (r == CAY_ERR_FORBIDDEN)
        return cay_fail(err, r, "this %s belongs to another account", cay_kept_kind_name(kind));
    return r;
}

/* The caller's, or a team's of his. A volume that is used is not looked for so: it and its sandbox
 * have one owner. */
static int find_for(struct cay_core *core, const struct cay_account *owner, enum cay_kept_kind kind,
                    const char *id, struct cay_arena *a, struct cay_kept *out,
                    struct cay_error *err)
{
    const char *team;
    int r = find(core, owner->id, kind, id, a, out, err);
    if (r != CAY_ERR_FORBIDDEN)
        return r;
    r = cay_core_find_team(core, owner, id, a, &team, err);
    return r < 0 ? r : find(core, team, kind, id, a, out, err);
}

static int put(struct cay_core *core, struct cay_kept *kept, enum cay_durable durable,
               struct cay_error *err)
{
    kept->updated_at_ms = cay_clock_ms();
    return cay_store_kept_put(core->store, kept, durable, err);
}

int cay_core_use_snapshot(struct cay_core *core, const struct cay_account *owner,
                          struct cay_spec *spec, struct cay_arena *a, struct cay_error *err)
{
    struct cay_kept kept;
    int r = find_for(core, owner, CAY_SNAPSHOT, spec->from, a, &kept, err);
    if (r < 0)
        return at_field(r, "source", err);
    if (spec->image && !cay_image_same(core, spec->image, kept.image))
        return cay_fail_field(err, "dockerImage", "the snapshot is of image %s", kept.image);
    spec->image = kept.image;
    return 0;
}

static int in_use(const struct cay_kept *volume, struct cay_error *err)
{
    return cay_fail_as(err, CAY_ERR_CONFLICT, "VOLUME_IN_USE",
                       "sandbox %s has this volume: one writer at a time", volume->sandbox_id);
}

int cay_core_claim_volume(struct cay_core *core, const struct cay_sandbox *sb,
                          struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    CAY_AUTO_HOLD struct cay_hold hold = {0};
    struct cay_kept volume;
    int r = cay_hold_wait(&core->holds, sb->spec.volume, &hold, err);
    if (r == 0)
        r = find(core, sb->account_id, CAY_VOLUME, sb->spec.volume, &a, &volume, err);
    if (r == 0 && volume.sandbox_id[0])
        r = in_use(&volume, err);
    if (r < 0)
        return at_field(r, "volume", err);
    cay_str_copy(volume.sandbox_id, sizeof volume.sandbox_id, sb->id);
    return put(core, &volume, CAY_SOON, err);
}

int cay_core_promise_volume(struct cay_core *core, const struct cay_sandbox *sb,
                            struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_kept there;
    int r = cay_store_kept_get(core->store, sb->account_id, sb->keeps, &a, &there, err);
    if (r != CAY_ERR_NOT_FOUND)
        return r; /* the delete was begun before, and the volume may be somebody else's by now */
    struct cay_kept volume = {.kind = CAY_VOLUME,
                              .account_id = sb->account_id,
                              .name = sb->spec.name,
                              .image = sb->spec.image,
                              .created_at_ms = cay_clock_ms()};
    cay_str_copy(volume.id, sizeof volume.id, sb->keeps);
    cay_str_copy(volume.sandbox_id, sizeof volume.sandbox_id, sb->id);
    /* On the disk, and the intent with it, before the files are the volume's: after a power cut
     * they would be nobody's, and go. */
    return put(core, &volume, CAY_NOW, err);
}

/* A sandbox whose files were gone before left no volume behind. */
static bool is_kept(struct cay_core *core, const char *id, struct cay_arena *a)
{
    struct cay_strs ids;
    struct cay_error ignored; /* reconcile asks again */
    if (cay_provider_kept(core->provider, a, &ids, &ignored) < 0)
        return true;
    for (size_t i = 0; i < ids.count; i++)
        if (strcmp(ids.at[i], id) == 0)
            return true;
    return false;
}

int cay_core_release_volume(struct cay_core *core, struct cay_sandbox *sb, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    const char *id = sb->spec.volume ? sb->spec.volume : sb->keeps;
    struct cay_kept volume;
    if (!id[0])
        return 0;
    int r = cay_store_kept_get(core->store, sb->account_id, id, &a, &volume, err);
    if (r == CAY_ERR_NOT_FOUND || r == CAY_ERR_FORBIDDEN)
        return 0; /* it never had it */
    if (r < 0 || strcmp(volume.sandbox_id, sb->id) != 0)
        return r;
    if (!volume.ready && sb->keeps[0] && !is_kept(core, id, &a))
        sb->keeps[0] = 0;
    if (!sb->keeps[0])
        return cay_store_kept_remove(core->store, id, CAY_SOON, err);
    volume.ready = true;
    volume.sandbox_id[0] = 0;
    return put(core, &volume, CAY_SOON, err);
}

struct undo {
    struct cay_core *core; /* NULL once there is nothing to undo */
    const char *id;
};

static void undo_snapshot(struct undo *u)
{
    struct cay_error err = {0}; /* the caller already has the one that matters */
    if (u->core && (cay_provider_drop(u->core->provider, u->id, &err) < 0 ||
                    cay_store_kept_remove(u->core->store, u->id, CAY_SOON, &err) < 0)) {
        cay_log_error(&err, "cannot take back snapshot %s yet", u->id);
        cay_keeper_look(u->core, LOOK_MS); /* the row stays, and names what is left */
    }
}

static int check_wish(const struct cay_snapshot_wish *wish, struct cay_error *err)
{
    int r = cay_validate_title(wish->name, err);
    if (r == 0 && wish->expires_at_ms != 0 && wish->expires_at_ms <= cay_clock_ms())
        r = cay_fail_field(err, "expiresAt", "expiresAt must be in the future");
    return r;
}

/* The steps of a snapshot whose source is shared, for a row that is filled in. */
static int make_snapshot(struct cay_core *core, struct cay_kept *kept, struct cay_error *err)
{
    CAY_AUTO_HOLD struct cay_hold hold = {0};
    CAY_CLEANUP(undo_snapshot) struct undo undo = {.id = kept->id};
    struct cay_copied copied;
    (void)cay_hold_try(&core->holds, kept->id, &hold); /* nobody else has this id */
    int r = put(core, kept, CAY_SOON, err);
    if (r < 0)
        return r;
    undo.core = core;
    cay_crash_point("snapshot-row-written");
    r = cay_provider_snapshot(core->provider, kept->sandbox_id, kept->id, &copied, err);
    if (r < 0)
        return cay_core_gone("make a snapshot of", kept->sandbox_id, r, err);
    cay_crash_point("snapshot-provider-done");
    cay_core_copy_took(core, &copied);
    kept->ready = true;
    kept->method = copied.method;
    kept->size_bytes = copied.bytes;
    kept->copied_in_ms = copied.ms;
    r = put(core, kept, CAY_NOW, err);
    if (r < 0)
        return r;
    cay_crash_point("snapshot-row-ready");
    undo.core = NULL;
    return 0;
}

/* What the same request made before, if it did; else its id is the caller's to make. */
static int find_first(struct cay_core *core, const struct cay_account *owner,
                      const char *sandbox_id, const struct cay_once *once, char id[CAY_ID_SIZE],
                      struct cay_hold *turn, struct cay_arena *a, struct cay_kept *out,
                      struct cay_error *err)
{
    struct cay_kept kept;
    struct cay_sandbox sb;
    int r = cay_core_find(core, owner, sandbox_id, a, &sb, err);
    if (r < 0)
        return r;
    cay_once_snapshot(core, sb.account_id, once, id);
    r = cay_hold_wait(&core->holds, id, turn, err);
    if (r == 0)
        r = cay_store_kept_get(core->store, sb.account_id, id, a, &kept, err);
    if (r == CAY_ERR_NOT_FOUND)
        return 0;
    if (r == 0)
        r = cay_once_same(once, kept.fingerprint, err);
    if (r < 0)
        return r;
    if (!kept.ready)
        return cay_provider_drop(core->provider, id, err); /* begun, and never finished */
    kept.replayed = true;
    *out = kept;
    return 0;
}

int cay_core_snapshot(struct cay_core *core, const struct cay_account *owner, const char *id,
                      const struct cay_snapshot_wish *wish, struct cay_arena *a,
                      struct cay_kept *out, struct cay_error *err)
{
    CAY_AUTO_COPY struct cay_core *copies = NULL;
    CAY_AUTO_HOLD struct cay_hold turn = {0}, hold = {0};
    struct cay_sandbox sb;
    struct cay_kept kept = {.kind = CAY_SNAPSHOT};
    int r = 0;
    cay_id_snapshot(kept.id);
    if (wish->once)
        r = find_first(core, owner, id, wish->once, kept.id, &turn, a, &kept, err);
    if (kept.replayed)
        *out = kept;
    if (r < 0 || kept.replayed)
        return r;
    r = check_wish(wish, err);
    if (r == 0)
        r = cay_core_copy_begin(core, &copies, err);
    if (r == 0)
        r = cay_core_share(core, owner, id, a, &hold, &sb, err);
    if (r < 0)
        return r;
    kept.account_id = sb.account_id;
    kept.name = wish->name;
    kept.image = sb.spec.image;
    kept.created_at_ms = cay_clock_ms();
    kept.expires_at_ms = wish->expires_at_ms;
    kept.fingerprint = wish->once ? wish->once->fingerprint : NULL;
    cay_str_copy(kept.sandbox_id, sizeof kept.sandbox_id, sb.id);
    r = make_snapshot(core, &kept, err);
    if (r < 0)
        return r;
    cay_core_tell_snapshot(core, &sb, kept.id);
    *out = kept;
    return 0;
}

int cay_core_kept(struct cay_core *core, const struct cay_account *owner, enum cay_kept_kind kind,
                  const char *id, struct cay_arena *a, struct cay_kept *out, struct cay_error *err)
{
    return find_for(core, owner, kind, id, a, out, err);
}

int cay_core_kept_list(struct cay_core *core, const struct cay_account *owner,
                       struct cay_kept_filter *filter, struct cay_arena *a,
                       struct cay_kept_list *out, struct cay_error *err)
{
    filter->account_id = owner->id;
    return cay_store_kept_list(core->store, filter, a, out, err);
}

/* For an id that the caller holds. */
static int drop(struct cay_core *core, const char *account_id, enum cay_kept_kind kind,
                const char *id, struct cay_arena *a, struct cay_kept *out, struct cay_error *err)
{
    int r = find(core, account_id, kind, id, a, out, err);
    if (r == 0 && kind == CAY_VOLUME && out->sandbox_id[0])
        r = in_use(out, err);
    if (r < 0)
        return r;
    r = cay_provider_drop(core->provider, id, err);
    if (r < 0)
        return cay_wrap(err, "cannot remove %s %s", cay_kept_kind_name(kind), id);
    return cay_store_kept_remove(core->store, id, CAY_NOW, err);
}

int cay_core_kept_delete(struct cay_core *core, const struct cay_account *owner,
                         enum cay_kept_kind kind, const char *id, struct cay_arena *a,
                         struct cay_kept *out, struct cay_error *err)
{
    CAY_AUTO_HOLD struct cay_hold hold = {0};
    int r = find_for(core, owner, kind, id, a, out, err);
    if (r == 0)
        r = cay_hold_wait(&core->holds, id, &hold, err); /* who makes a sandbox of it goes first */
    return r < 0 ? r : drop(core, out->account_id, kind, id, a, out, err);
}

void cay_core_expire_kept(struct cay_core *core, int64_t now_ms)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_kept_list due;
    struct cay_kept gone;
    struct cay_error err = {0};
    if (cay_store_kept_due(core->store, now_ms, &a, &due, &err) < 0) {
        cay_log_error(&err, "cannot read which snapshots are due");
        return;
    }
    for (size_t i = 0; i < due.count; i++) {
        CAY_AUTO_HOLD struct cay_hold hold = {0};
        const struct cay_kept *kept = &due.at[i];
        if (!cay_hold_try(&core->holds, kept->id, &hold))
            continue; /* the next tick: nobody waits here */
        int r = drop(core, kept->account_id, kept->kind, kept->id, &a, &gone, &err);
        if (r == 0)
            cay_log_info("%s %s removed: its time is over", cay_kept_kind_name(kept->kind),
                         kept->id);
        else if (r != CAY_ERR_NOT_FOUND && r != CAY_ERR_CONFLICT) /* it went, or is in use */
            cay_log_error(&err, "cannot remove %s, whose time is over", kept->id);
    }
}
