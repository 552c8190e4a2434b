/* SPDX-License-Identifier: Apache-2.0 */
/* Lists. What the store has columns for it filters itself; teams and tags are looked for here, over
 * all of an account's rows. */
#include "core/core.h"
#include "model/limits.h"
#include <string.h>

static bool has_tag(const struct cay_pairs *tags, const char *wanted)
{
    size_t len = strcspn(wanted, ":");
    for (size_t i = 0; i < tags->count; i++) {
        const struct cay_pair *tag = &tags->at[i];
        if (strlen(tag->key) == len && strncmp(tag->key, wanted, len) == 0 &&
            (!wanted[len] || strcmp(tag->value, wanted + len + 1) == 0))
            return true;
    }
    return false;
}

static bool fits(const struct cay_core_filter *filter, const struct cay_sandbox *sb)
{
    if (filter->team_id && (!sb->spec.team_id || strcmp(filter->team_id, sb->spec.team_id) != 0))
        return false;
    for (size_t i = 0; i < filter->tags.count; i++)
        if (!has_tag(&sb->spec.tags, filter->tags.at[i]))
            return false;
    return true;
}

/* Whose rows they are. */
static int settle(struct cay_core *core, const struct cay_account *owner,
                  struct cay_core_filter *filter, struct cay_error *err)
{
    struct cay_account as;
    int r = cay_core_as_team(core, owner, filter->team_id, CAY_ROLE_VIEWER, &as, err);
    if (r < 0)
        return r;
    filter->row.account_id = as.id;
    if (as.id == filter->team_id)
        filter->team_id = NULL; /* all that is the team's */
    return 0;
}

static int walk(struct cay_core *core, const struct cay_core_filter *filter, cay_row_visit visit,
                void *ctx, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena rows = {0};
    struct cay_list_filter asked = filter->row;
    struct cay_sandbox_list page;
    asked.page = 1;
    asked.per_page = CAY_MAX_PER_PAGE;
    do {
        cay_arena_reset(&rows);
        int r = cay_store_list(core->store, &asked, &rows, &page, err);
        if (r < 0)
            return r;
        for (size_t i = 0; i < page.count; i++)
            if (fits(filter, &page.at[i]))
                visit(ctx, &page.at[i]);
    } while (page.count > 0 && asked.page++ * asked.per_page < page.total);
    return 0;
}

int cay_core_walk(struct cay_core *core, const struct cay_account *owner,
                  struct cay_core_filter *filter, cay_row_visit visit, void *ctx,
                  struct cay_error *err)
{
    int r = settle(core, owner, filter, err);
    return r < 0 ? r : walk(core, filter, visit, ctx, err);
}

struct wanted {
    int64_t first, per_page, total;
    struct cay_arena *a;
    struct {
        char id[CAY_ID_SIZE];
    } * at; /* those of the page that is asked for */
    size_t count;
};

static void want(void *ctx, const struct cay_sandbox *sb)
{
    struct wanted *w = ctx;
    if (w->total++ < w->first || (int64_t)w->count == w->per_page)
        return;
    w->at = cay_arena_room(w->a, w->at, w->count, sizeof *w->at);
    cay_str_copy(w->at[w->count++].id, CAY_ID_SIZE, sb->id);
}

/* It may have gone on since it was found. */
static bool still_fits(const struct cay_core_filter *filter, const struct cay_sandbox *sb)
{
    const struct cay_list_filter *row = &filter->row;
    bool gone = sb->deleted_at_ms > 0 && !row->include_terminated;
    return row->has_state ? sb->state == row->state : !gone;
}

/* Only ids are kept of what is walked over: an account may have many times what one page shows. */
static int list_by_hand(struct cay_core *core, const struct cay_core_filter *filter,
                        struct cay_arena *a, struct cay_sandbox_list *out, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena ids = {0};
    struct wanted w = {.first = (filter->row.page - 1) * filter->row.per_page,
                       .per_page = filter->row.per_page,
                       .a = &ids};
    int r = walk(core, filter, want, &w, err);
    if (r < 0)
        return r;
    struct cay_sandbox_list found = {.total = w.total};
    found.at = cay_arena_alloc(a, w.count * sizeof *found.at);
    for (size_t i = 0; i < w.count; i++) {
        struct cay_sandbox *sb = &found.at[found.count];
        struct cay_error why;
        r = cay_store_get(core->store, filter->row.account_id, w.at[i].id, a, sb, &why);
        if (r < 0 && r != CAY_ERR_NOT_FOUND) {
            *err = why;
            return r;
        }
        found.count += r == 0 && still_fits(filter, sb);
    }
    *out = found;
    return 0;
}

int cay_core_list(struct cay_core *core, const struct cay_account *owner,
                  struct cay_core_filter *filter, struct cay_arena *a, struct cay_sandbox_list *out,
                  struct cay_error *err)
{
    int r = settle(core, owner, filter, err);
    if (r < 0)
        return r;
    if (filter->team_id || filter->tags.count > 0)
        return list_by_hand(core, filter, a, out, err);
    return cay_store_list(core->store, &filter->row, a, out, err);
}
