/* SPDX-License-Identifier: Apache-2.0 */
/* Records of sandboxes, snapshots and volumes; access.h has those of accounts. One implementation
 * per database; callers never touch `ops`.
 *
 * Any thread may call any entry. Failures are CAY_ERR_STORE unless the entry says otherwise. What
 * is read is copied into the caller's arena. Who remembers for a moment what follows from a row
 * looks at cay_store_version; there is no other cache above this interface. */
#pragma once
#include "base/arena.h"
#include "base/error.h"
#include "base/metrics.h"
#include "model/config.h"
#include "model/kept.h"
#include "model/sandbox.h"
#include "store/access.h"

#define CAY_STORE_CHANGES 256

struct cay_store {
    const struct cay_store_ops *ops; /* first member of every store's own struct */
    /* Counted here, for all of them alike: see cay_store_version. */
    _Atomic uint64_t changes[CAY_STORE_CHANGES], access_changes;
};

/* Does the caller wait until the disk has it? Intents do not, answers do. */
enum cay_durable {
    CAY_SOON, /* visible to every reader on return; on disk with the next sync */
    CAY_NOW,  /* on disk on return; many callers share one sync */
};

struct cay_list_filter {
    const char *account_id; /* never NULL */
    const char *name;       /* or NULL */
    bool has_state;
    enum cay_state state;
    bool include_terminated;
    struct cay_strs labels; /* must have all */
    int64_t page, per_page; /* from 1 */
};

struct cay_sandbox_list {
    struct cay_sandbox *at;
    size_t count;
    int64_t total; /* of the filter, over all pages */
};

struct cay_kept_filter {
    const char *account_id; /* never NULL */
    enum cay_kept_kind kind;
    const char *sandbox_id; /* or NULL */
    int64_t page, per_page; /* from 1 */
};

struct cay_kept_list {
    struct cay_kept *at;
    size_t count;
    int64_t total; /* of the filter, over all pages */
};

struct cay_store_ops {
    const char *name;
    int (*open)(const struct cay_config *cfg, struct cay_store **out, struct cay_error *err);
    void (*close)(struct cay_store *s);
    /* Answers with something a person can read ("3.40.1, WAL"), or fails: for health. */
    int (*check)(struct cay_store *s, char *version, size_t size, struct cay_error *err);
    const struct cay_access_ops *access; /* see access.h */
    /* Optional. What is visible now goes to the disk while the caller does something else; `end`
     * waits for it. For an intent whose result can be found again: then only the intent must be
     * there after a power cut. */
    uint64_t (*sync_begin)(struct cay_store *s);
    int (*sync_end)(struct cay_store *s, uint64_t wish, struct cay_error *err);
    /* A name that a living sandbox of the account has: CAY_ERR_CONFLICT, "NAME_TAKEN". More than
     * the account's quota: CAY_ERR_LIMIT, "QUOTA_EXCEEDED"; all that live count, also stopped. */
    int (*insert)(struct cay_store *s, const struct cay_sandbox *sb, enum cay_durable durable,
                  struct cay_error *err);
    /* Every mutable column and meta_data of the row, in one statement. CAY_ERR_NOT_FOUND; and as
     * above when it grows beyond the quota. */
    int (*update)(struct cay_store *s, const struct cay_sandbox *sb, enum cay_durable durable,
                  struct cay_error *err);
    /* The row of a create that failed: as if it had never been. Gone already is no error. */
    int (*remove)(struct cay_store *s, const char *id, enum cay_durable durable,
                  struct cay_error *err);
    /* By id (also a terminated one's), or by the name of a living one. CAY_ERR_NOT_FOUND, and
     * CAY_ERR_FORBIDDEN when the id is another account's. */
    int (*get)(struct cay_store *s, const char *account_id, const char *id_or_name,
               struct cay_arena *a, struct cay_sandbox *out, struct cay_error *err);
    /* Newest first: by creation time, then by sequence. */
    int (*list)(struct cay_store *s, const struct cay_list_filter *filter, struct cay_arena *a,
                struct cay_sandbox_list *out, struct cay_error *err);
    /* Across accounts, living ones only: for reconcile and expiry. */
    int (*all)(struct cay_store *s, struct cay_arena *a, struct cay_sandbox_list *out,
               struct cay_error *err);
    /* Across accounts, living, with expires_at_ms in (0, now_ms]; at most 256. */
    int (*due)(struct cay_store *s, int64_t now_ms, struct cay_arena *a,
               struct cay_sandbox_list *out, struct cay_error *err);
    /* Across accounts: how many living ones there are in each state. */
    int (*count)(struct cay_store *s, int64_t by_state[CAY_STATES], struct cay_error *err);
    /* Across accounts: has it ever had a row? One that was forgotten or removed counts. */
    int (*was_used)(struct cay_store *s, bool *out, struct cay_error *err);
    /* Forgets terminated rows that were deleted before that time. */
    int (*forget)(struct cay_store *s, int64_t before_ms, struct cay_error *err);

    /* Snapshots and volumes. Makes the row, or replaces the one with that id. */
    int (*kept_put)(struct cay_store *s, const struct cay_kept *kept, enum cay_durable durable,
                    struct cay_error *err);
    /* Gone already is no error. */
    int (*kept_remove)(struct cay_store *s, const char *id, enum cay_durable durable,
                       struct cay_error *err);
    /* CAY_ERR_NOT_FOUND, and CAY_ERR_FORBIDDEN when the id is another account's. */
    int (*kept_get)(struct cay_store *s, const char *account_id, const char *id,
                    struct cay_arena *a, struct cay_kept *out, struct cay_error *err);
    /* What is ready, newest first. */
    int (*kept_list)(struct cay_store *s, const struct cay_kept_filter *filter, struct cay_arena *a,
                     struct cay_kept_list *out, struct cay_error *err);
    /* Across accounts, what is not ready as well: for reconcile. */
    int (*kept_all)(struct cay_store *s, struct cay_arena *a, struct cay_kept_list *out,
                    struct cay_error *err);
    /* Across accounts, with expires_at_ms in (0, now_ms]; at most 256. */
    int (*kept_due)(struct cay_store *s, int64_t now_ms, struct cay_arena *a,
                    struct cay_kept_list *out, struct cay_error *err);
};

int cay_store_open(const char *name, const struct cay_config *cfg, struct cay_store **out,
                   struct cay_error *err);
void cay_store_close(struct cay_store *s);
int cay_store_check(struct cay_store *s, char *version, size_t size, struct cay_error *err);
/* It grows when this sandbox's row was written, or anything in access.h but the use of a key; at
 * times for another's. Whoever asks before he reads, and finds it the same later, has read what is
 * still so. Costs no look at the database. */
uint64_t cay_store_version(struct cay_store *s, const char *id);
uint64_t cay_store_sync_begin(struct cay_store *s);
int cay_store_sync_end(struct cay_store *s, uint64_t wish, struct cay_error *err);
int cay_store_insert(struct cay_store *s, const struct cay_sandbox *sb, enum cay_durable durable,
                     struct cay_error *err);
int cay_store_update(struct cay_store *s, const struct cay_sandbox *sb, enum cay_durable durable,
                     struct cay_error *err);
int cay_store_remove(struct cay_store *s, const char *id, enum cay_durable durable,
                     struct cay_error *err);
int cay_store_get(struct cay_store *s, const char *account_id, const char *id_or_name,
                  struct cay_arena *a, struct cay_sandbox *out, struct cay_error *err);
int cay_store_list(struct cay_store *s, const struct cay_list_filter *filter, struct cay_arena *a,
                   struct cay_sandbox_list *out, struct cay_error *err);
int cay_store_all(struct cay_store *s, struct cay_arena *a, struct cay_sandbox_list *out,
                  struct cay_error *err);
int cay_store_due(struct cay_store *s, int64_t now_ms, struct cay_arena *a,
                  struct cay_sandbox_list *out, struct cay_error *err);
int cay_store_count(struct cay_store *s, int64_t by_state[CAY_STATES], struct cay_error *err);
int cay_store_was_used(struct cay_store *s, bool *out, struct cay_error *err);
int cay_store_forget(struct cay_store *s, int64_t before_ms, struct cay_error *err);
int cay_store_kept_put(struct cay_store *s, const struct cay_kept *kept, enum cay_durable durable,
                       struct cay_error *err);
int cay_store_kept_remove(struct cay_store *s, const char *id, enum cay_durable durable,
                          struct cay_error *err);
int cay_store_kept_get(struct cay_store *s, const char *account_id, const char *id,
                       struct cay_arena *a, struct cay_kept *out, struct cay_error *err);
int cay_store_kept_list(struct cay_store *s, const struct cay_kept_filter *filter,
                        struct cay_arena *a, struct cay_kept_list *out, struct cay_error *err);
int cay_store_kept_all(struct cay_store *s, struct cay_arena *a, struct cay_kept_list *out,
                       struct cay_error *err);
int cay_store_kept_due(struct cay_store *s, int64_t now_ms, struct cay_arena *a,
                       struct cay_kept_list *out, struct cay_error *err);

/* What the stores of this process count. */
extern struct cay_metric cay_store_commits, cay_store_syncs, cay_store_writes, cay_store_failures,
    cay_store_waiting, cay_store_wal_pages;

extern const struct cay_store_ops cay_store_sqlite, cay_store_fake;
