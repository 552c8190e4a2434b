/* SPDX-License-Identifier: Apache-2.0 */
#include "store/access.h"
#include "store/store.h"
#include <stdatomic.h>

/* For cay_store_version; what failed is counted as well: it may be there all the same. */
static int changed(struct cay_store *s, int r)
{
    atomic_fetch_add(&s->access_changes, 1);
    return r;
}

int cay_store_holder_put(struct cay_store *s, const struct cay_holder *holder,
                         struct cay_error *err)
{
    return changed(s, s->ops->access->holder_put(s, holder, err));
}

int cay_store_holder_get(struct cay_store *s, const char *id_or_name, struct cay_arena *a,
                         struct cay_holder *out, struct cay_error *err)
{
    return s->ops->access->holder_get(s, id_or_name, a, out, err);
}

int cay_store_holder_list(struct cay_store *s, bool teams, struct cay_arena *a,
                          struct cay_holder_list *out, struct cay_error *err)
{
    return s->ops->access->holder_list(s, teams, a, out, err);
}

int cay_store_key_add(struct cay_store *s, const struct cay_key *key, struct cay_error *err)
{
    return s->ops->access->key_add(s, key, err);
}

int cay_store_key_mark(struct cay_store *s, const char *account_id, const char *key_id,
                       enum cay_key_time what, int64_t at_ms, struct cay_error *err)
{
    int r = s->ops->access->key_mark(s, account_id, key_id, what, at_ms, err);
    return what == CAY_KEY_USED ? r : changed(s, r);
}

int cay_store_key_find(struct cay_store *s, const char *hash, struct cay_arena *a,
                       struct cay_key *out, struct cay_error *err)
{
    return s->ops->access->key_find(s, hash, a, out, err);
}

int cay_store_key_list(struct cay_store *s, const char *account_id, struct cay_arena *a,
                       struct cay_key_list *out, struct cay_error *err)
{
    return s->ops->access->key_list(s, account_id, a, out, err);
}

int cay_store_member_put(struct cay_store *s, const struct cay_member *member,
                         struct cay_error *err)
{
    return changed(s, s->ops->access->member_put(s, member, err));
}

int cay_store_member_list(struct cay_store *s, const char *team_id, const char *account_id,
                          struct cay_arena *a, struct cay_member_list *out, struct cay_error *err)
{
    return s->ops->access->member_list(s, team_id, account_id, a, out, err);
}

int cay_store_whose(struct cay_store *s, const char *id, struct cay_arena *a, const char **out,
                    struct cay_error *err)
{
    return s->ops->access->whose(s, id, a, out, err);
}

int cay_store_usage(struct cay_store *s, const char *account_id, struct cay_quota *out,
                    struct cay_error *err)
{
    return s->ops->access->usage(s, account_id, out, err);
}
