/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of snapshots and volumes against what the provider keeps, one pass, by the same rules as
 * reconcile.c: rows first, then the files; a row is mended only while nobody holds it and it is
 * still the row that was read; files without a row go only if a second reading of the rows does not
 * know them either, and outside of a start only when they have been so for a while.
 *
 * A volume that a living sandbox has, or is about to have, is left alone. */
#include "base/clock.h"
#include "base/log.h"
#include "core/kept.h"
#include "core/reconcile.h"
#include "model/limits.h"
#include <string.h>

struct cay_core_suspect {
    char id[CAY_ID_SIZE];
    int64_t since_ms; /* monotonic */
};

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int by_id(const void *a, const void *b)
{
    return strcmp(((const struct cay_kept *)a)->id, ((const struct cay_kept *)b)->id);
}

static bool is_there(const struct cay_strs *ids, const char *id)
{
    return ids->count > 0 && bsearch(&id, ids->at, ids->count, sizeof *ids->at, by_text) != NULL;
}

static bool has_row(const struct cay_kept_list *rows, const char *id)
{
    struct cay_kept key = {0};
    cay_str_copy(key.id, sizeof key.id, id);
    return rows->count > 0 && bsearch(&key, rows->at, rows->count, sizeof *rows->at, by_id) != NULL;
}

static int read_rows(struct cay_core *core, struct cay_arena *a, struct cay_kept_list *out,
                     struct cay_error *err)
{
    int r = cay_store_kept_all(core->store, a, out, err);
    if (r == 0 && out->count > 0)
        qsort(out->at, out->count, sizeof *out->at, by_id);
    return r;
}

/* Its sandbox's own operations move it; so they do when nobody can tell. */
static bool is_somebodys(struct cay_core *core, const struct cay_kept *kept, struct cay_arena *a)
{
    struct cay_sandbox sb;
    struct cay_error err = {0};
    if (kept->kind != CAY_VOLUME || !kept->sandbox_id[0])
        return false;
    int r = cay_store_get(core->store, kept->account_id, kept->sandbox_id, a, &sb, &err);
    if (r == CAY_ERR_STORE)
        cay_log_error(&err, "cannot tell whose volume %s is", kept->id);
    return r == 0 ? sb.deleted_at_ms == 0 : r != CAY_ERR_NOT_FOUND;
}

static int mend(struct cay_core *core, struct cay_kept *kept, bool there, struct cay_error *err)
{
    const char *kind = cay_kept_kind_name(kept->kind);
    if (!there) {
        cay_log_warn(kept->ready ? "the files of %s %s are gone: its record goes too"
                                 : "%s %s was never finished: its record goes",
                     kind, kept->id);
        return cay_store_kept_remove(core->store, kept->id, CAY_SOON, err);
    }
    cay_log_info("%s %s is there and nobody's", kind, kept->id);
    kept->ready = true;
    if (kept->kind == CAY_VOLUME)
        kept->sandbox_id[0] = 0;
    kept->updated_at_ms = cay_clock_ms();
    return cay_store_kept_put(core->store, kept, CAY_NOW, err);
}

static void mend_if_still_so(struct cay_core *core, const struct cay_kept *seen, bool there)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    CAY_AUTO_HOLD struct cay_hold hold = {0};
    struct cay_kept kept;
    struct cay_error err = {0};
    bool well = there && seen->ready && (seen->kind == CAY_SNAPSHOT || !seen->sandbox_id[0]);
    if (well || !cay_hold_try(&core->holds, seen->id, &hold))
        return;
    int r = cay_store_kept_get(core->store, seen->account_id, seen->id, &a, &kept, &err);
    if (r == CAY_ERR_NOT_FOUND)
        return;
    if (r == 0 && (kept.updated_at_ms != seen->updated_at_ms || is_somebodys(core, &kept, &a)))
        return;
    if (r == 0)
        r = mend(core, &kept, there, &err);
    if (r < 0)
        cay_log_error(&err, "cannot reconcile %s", seen->id);
}

/* Since when it has been without a row. */
static int64_t suspected_since(const struct cay_core *core, const char *id, int64_t now_ms)
{
    for (size_t i = 0; i < core->suspect_count; i++)
        if (strcmp(core->suspects[i].id, id) == 0)
            return core->suspects[i].since_ms;
    return now_ms;
}

static void remove_one(struct cay_core *core, const char *id)
{
    CAY_AUTO_HOLD struct cay_hold hold = {0};
    struct cay_error err = {0};
    if (!cay_hold_try(&core->holds, id, &hold))
        return;
    if (cay_provider_drop(core->provider, id, &err) < 0)
        cay_log_error(&err, "cannot remove %s, which has no record", id);
    else
        cay_log_warn("removed %s, which had no record", id);
}

static void remove_orphans(struct cay_core *core, const struct cay_strs *orphans, bool at_start)
{
    int64_t now_ms = cay_clock_mono_ms();
    struct cay_core_suspect *suspects = calloc(orphans->count + 1, sizeof *suspects);
    if (!suspects)
        abort();
    for (size_t i = 0; i < orphans->count; i++) {
        const char *id = orphans->at[i];
        int64_t since_ms = suspected_since(core, id, now_ms);
        if (at_start || now_ms - since_ms > CAY_ORPHAN_GRACE_MS)
            remove_one(core, id);
        cay_str_copy(suspects[i].id, sizeof suspects[i].id, id);
        suspects[i].since_ms = since_ms;
    }
    free(core->suspects);
    core->suspects = suspects;
    core->suspect_count = orphans->count;
}

/* A living sandbox's own volume is no orphan while it is copied, before its sandbox is there. It
 * has no row, but the sandbox has one, which was written before anything was made: so these are
 * read after the files. */
static int leave_out_own(struct cay_core *core, struct cay_arena *a, struct cay_strs *ids,
                         struct cay_error *err)
{
    struct cay_sandbox_list rows;
    struct cay_strs own = {0}, others = {0};
    if (ids->count == 0)
        return 0;
    int r = cay_store_all(core->store, a, &rows, err);
    for (size_t i = 0; r == 0 && i < rows.count; i++) {
        char id[CAY_ID_SIZE];
        cay_id_volume(id, rows.at[i].id);
        cay_strs_push(a, &own, cay_arena_strdup(a, id));
    }
    if (own.count > 0)
        qsort(own.at, own.count, sizeof *own.at, by_text);
    for (size_t i = 0; r == 0 && i < ids->count; i++)
        if (!is_there(&own, ids->at[i]))
            cay_strs_push(a, &others, ids->at[i]);
    if (r == 0)
        *ids = others;
    return r;
}

/* Ids of ours that are in neither reading of the rows. */
static int find_orphans(struct cay_core *core, const struct cay_strs *ids,
                        const struct cay_kept_list *rows, struct cay_arena *a, struct cay_strs *out,
                        struct cay_error *err)
{
    struct cay_kept_list again;
    struct cay_strs found = {0};
    for (size_t i = 0; i < ids->count; i++)
        if (!has_row(rows, ids->at[i]))
            cay_strs_push(a, &found, ids->at[i]);
    *out = (struct cay_strs){0};
    int r = leave_out_own(core, a, &found, err);
    if (r < 0 || found.count == 0)
        return r;
    r = read_rows(core, a, &again, err);
    if (r == 0 && again.count == 0)
        r = cay_reconcile_refuse_empty(core, "snapshots and volumes",
                                       "begin with another data directory", found.count, err);
    for (size_t i = 0; i < found.count && r == 0; i++)
        if (!has_row(&again, found.at[i]) &&
            (cay_id_is_snapshot(found.at[i]) || cay_id_is_volume(found.at[i])))
            cay_strs_push(a, out, found.at[i]);
    return r;
}

int cay_core_reconcile_kept(struct cay_core *core, bool at_start, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_kept_list rows;
    struct cay_strs ids, orphans;
    int r = read_rows(core, &a, &rows, err);
    if (r < 0)
        return cay_wrap(err, "the records of snapshots and volumes cannot be read");
    r = cay_provider_kept(core->provider, &a, &ids, err);
    if (r < 0)
        return cay_wrap(err, "the snapshots and volumes cannot be listed");
    if (ids.count > 0)
        qsort(ids.at, ids.count, sizeof *ids.at, by_text);
    for (size_t i = 0; i < rows.count; i++)
        mend_if_still_so(core, &rows.at[i], is_there(&ids, rows.at[i].id));
    r = find_orphans(core, &ids, &rows, &a, &orphans, err);
    if (r == 0)
        remove_orphans(core, &orphans, at_start);
    return r;
}
