/* SPDX-License-Identifier: Apache-2.0 */
/* Accounts and keys in the fake store: each call is counted, then passed on. */
#include "store/fake/fake.h"
#include "store/store.h"

static int holder_put(struct cay_store *s, const struct cay_holder *holder, struct cay_error *err)
{
    s = cay_store_fake_enter(s, err);
    return s ? cay_store_holder_put(s, holder, err) : CAY_ERR_STORE;
}

static int holder_get(struct cay_store *s, const char *id_or_name, struct cay_arena *a,
                      struct cay_holder *out, struct cay_error *err)
{
    s = cay_store_fake_enter(s, err);
    return s ? cay_store_holder_get(s, id_or_name, a, out, err) : CAY_ERR_STORE;
}

static int holder_list(struct cay_store *s, bool teams, struct cay_arena *a,
                       struct cay_holder_list *out, struct cay_error *err)
{
    s = cay_store_fake_enter(s, err);
    return s ? cay_store_holder_list(s, teams, a, out, err) : CAY_ERR_STORE;
}

static int key_add(struct cay_store *s, const struct cay_key *key, struct cay_error *err)
{
    s = cay_store_fake_enter(s, err);
    return s ? cay_store_key_add(s, key, err) : CAY_ERR_STORE;
}

static int key_mark(struct cay_store *s, const char *account_id, const char *key_id,
                    enum cay_key_time what, int64_t at_ms, struct cay_error *err)
{
    s = cay_store_fake_enter(s, err);
    return s ? cay_store_key_mark(s, account_id, key_id, what, at_ms, err) : CAY_ERR_STORE;
}

static int key_find(struct cay_store *s, const char *hash, struct cay_arena *a, struct cay_key *out,
                    struct cay_error *err)
{
    s = cay_store_fake_enter(s, err);
    return s ? cay_store_key_find(s, hash, a, out, err) : CAY_ERR_STORE;
}

static int key_list(struct cay_store *s, const char *account_id, struct cay_arena *a,
                    struct cay_key_list *out, struct cay_error *err)
{
    s = cay_store_fake_enter(s, err);
    return s ? cay_store_key_list(s, account_id, a, out, err) : CAY_ERR_STORE;
}

static int member_put(struct cay_store *s, const struct cay_member *member, struct cay_error *err)
{
    s = cay_store_fake_enter(s, err);
    return s ? cay_store_member_put(s, member, err) : CAY_ERR_STORE;
}

static int member_list(struct cay_store *s, const char *team_id, const char *account_id,
                       struct cay_arena *a, struct cay_member_list *out, struct cay_error *err)
{
    s = cay_store_fake_enter(s, err);
    return s ? cay_store_member_list(s, team_id, account_id, a, out, err) : CAY_ERR_STORE;
}

static int whose(struct cay_store *s, const char *id, struct cay_arena *a, const char **out,
                 struct cay_error *err)
{
    s = cay_store_fake_enter(s, err);
    return s ? cay_store_whose(s, id, a, out, err) : CAY_ERR_STORE;
}

static int usage(struct cay_store *s, const char *account_id, struct cay_quota *out,
                 struct cay_error *err)
{
    s = cay_store_fake_enter(s, err);
    return s ? cay_store_usage(s, account_id, out, err) : CAY_ERR_STORE;
}

const struct cay_access_ops cay_fake_access = {
    .holder_put = holder_put,
    .holder_get = holder_get,
    .holder_list = holder_list,
    .key_add = key_add,
    .key_mark = key_mark,
    .key_find = key_find,
    .key_list = key_list,
    .member_put = member_put,
    .member_list = member_list,
    .whose = whose,
    .usage = usage,
};
