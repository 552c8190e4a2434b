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

static int list_by_hand(struct cay_core *core, const struct cay_core_filter *filter,
                        struct cay_arena *a, struct cay_sandbox_list *out, struct cay_error *err)
{
    struct cay_list_filter rows = filter->row;
    struct cay_sandbox_list page, found = {0};
    int64_t first = (filter->row.page - 1) * filter->row.per_page;
    found.at = cay_arena_alloc(a, (size_t)filter->row.per_page * sizeof *found.at);
    rows.page = 1;
    rows.per_page = CAY_MAX_PER_PAGE;
    do {
        int r = cay_store_list(core->store, &rows, a, &page, err);
        if (r < 0)
            return r;
        for (size_t i = 0; i < page.count; i++) {
            if (!fits(filter, &page.at[i]))
                continue;
            if (found.total >= first && (int64_t)found.count < filter->row.per_page)
                found.at[found.count++] = page.at[i];
            found.total++;
        }
    } while (page.count > 0 && rows.page++ * rows.per_page < page.total);
    *out = found;
    return 0;
}

int cay_core_list(struct cay_core *core, const struct cay_account *owner,
                  struct cay_core_filter *filter, struct cay_arena *a, struct cay_sandbox_list *out,
                  struct cay_error *err)
{
    struct cay_account as;
    int r = cay_core_as_team(core, owner, filter->team_id, CAY_ROLE_VIEWER, &as, err);
    if (r < 0)
        return r;
    filter->row.account_id = as.id;
    if (as.id == filter->team_id)
        filter->team_id = NULL; /* all that is the team's */
    if (filter->team_id || filter->tags.count > 0)
        return list_by_hand(core, filter, a, out, err);
    return cay_store_list(core->store, &filter->row, a, out, err);
}
