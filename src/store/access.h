/* SPDX-License-Identifier: Apache-2.0 */
/* Records of accounts, teams, their members, and keys: the part of every store that decides who may
 * come in. The rules of store.h hold here too. */
#pragma once
#include "base/arena.h"
#include "base/error.h"
#include "model/access.h"

struct cay_store;

struct cay_holder_list {
    struct cay_holder *at;
    size_t count;
};

struct cay_key_list {
    struct cay_key *at;
    size_t count;
};

struct cay_member_list {
    struct cay_member *at;
    size_t count;
};

enum cay_key_time { CAY_KEY_USED, CAY_KEY_REVOKED };

/* All writes but of CAY_KEY_USED are on disk on return. Lists are at most CAY_MAX_HOLDERS,
 * CAY_MAX_KEYS and CAY_MAX_MEMBERS long. */
struct cay_access_ops {
    /* Makes the row, or replaces the one with that id. A name that another account has:
     * CAY_ERR_CONFLICT, "NAME_TAKEN". Who is deleted is not found any more, nor his keys, and gets
     * no sandboxes; a team takes its members along. With sandboxes that live: CAY_ERR_CONFLICT,
     * "ACCOUNT_IN_USE". */
    int (*holder_put)(struct cay_store *s, const struct cay_holder *holder, struct cay_error *err);
    /* By id, or by the name of an account. CAY_ERR_NOT_FOUND. */
    int (*holder_get)(struct cay_store *s, const char *id_or_name, struct cay_arena *a,
                      struct cay_holder *out, struct cay_error *err);
    int (*holder_list)(struct cay_store *s, bool teams, struct cay_arena *a,
                       struct cay_holder_list *out, struct cay_error *err); /* oldest first */
    int (*key_add)(struct cay_store *s, const struct cay_key *key, struct cay_error *err);
    /* CAY_ERR_NOT_FOUND. What was revoked stays revoked. */
    int (*key_mark)(struct cay_store *s, const char *account_id, const char *key_id,
                    enum cay_key_time what, int64_t at_ms, struct cay_error *err);
    /* Of a living account, also a revoked or expired key. CAY_ERR_NOT_FOUND. */
    int (*key_find)(struct cay_store *s, const char *hash, struct cay_arena *a, struct cay_key *out,
                    struct cay_error *err);
    int (*key_list)(struct cay_store *s, const char *account_id, struct cay_arena *a,
                    struct cay_key_list *out, struct cay_error *err); /* oldest first */
    /* CAY_ROLE_NONE takes him out. */
    int (*member_put)(struct cay_store *s, const struct cay_member *member, struct cay_error *err);
    /* Of a team, of an account, or the one who is both; NULL: any. */
    int (*member_list)(struct cay_store *s, const char *team_id, const char *account_id,
                       struct cay_arena *a, struct cay_member_list *out, struct cay_error *err);
    /* The account or team that a sandbox, a snapshot or a volume belongs to. CAY_ERR_NOT_FOUND. */
    int (*whose)(struct cay_store *s, const char *id, struct cay_arena *a, const char **out,
                 struct cay_error *err);
    /* What its living sandboxes have of each quota that rows can tell; 0 of the others. */
    int (*usage)(struct cay_store *s, const char *account_id, struct cay_quota *out,
                 struct cay_error *err);
};

int cay_store_holder_put(struct cay_store *s, const struct cay_holder *holder,
                         struct cay_error *err);
int cay_store_holder_get(struct cay_store *s, const char *id_or_name, struct cay_arena *a,
                         struct cay_holder *out, struct cay_error *err);
int cay_store_holder_list(struct cay_store *s, bool teams, struct cay_arena *a,
                          struct cay_holder_list *out, struct cay_error *err);
int cay_store_key_add(struct cay_store *s, const struct cay_key *key, struct cay_error *err);
int cay_store_key_mark(struct cay_store *s, const char *account_id, const char *key_id,
                       enum cay_key_time what, int64_t at_ms, struct cay_error *err);
int cay_store_key_find(struct cay_store *s, const char *hash, struct cay_arena *a,
                       struct cay_key *out, struct cay_error *err);
int cay_store_key_list(struct cay_store *s, const char *account_id, struct cay_arena *a,
                       struct cay_key_list *out, struct cay_error *err);
int cay_store_member_put(struct cay_store *s, const struct cay_member *member,
                         struct cay_error *err);
int cay_store_member_list(struct cay_store *s, const char *team_id, const char *account_id,
                          struct cay_arena *a, struct cay_member_list *out, struct cay_error *err);
int cay_store_whose(struct cay_store *s, const char *id, struct cay_arena *a, const char **out,
                    struct cay_error *err);
int cay_store_usage(struct cay_store *s, const char *account_id, struct cay_quota *out,
                    struct cay_error *err);
