/* SPDX-License-Identifier: Apache-2.0 */
/* The store in SQLite: one writer, a pool of readers. */
#pragma once
#include "model/limits.h"
#include "store/sqlite/syncer.h"
#include "store/sqlite/writer.h"
#include "store/store.h"

struct cay_sqlite_reader {
    struct cay_sqlite_db db;
    struct cay_arena scratch;
    struct cay_sqlite_reader *next; /* in the pool */
};

struct cay_sqlite_store {
    struct cay_store store;
    int dir_fd;
    bool marked; /* as in use */
    char path[64];
    struct cay_sqlite_writer writer;
    struct cay_sqlite_syncer syncer;

    pthread_mutex_t lock; /* of the pool */
    pthread_cond_t back;
    struct cay_sqlite_reader readers[CAY_STORE_READERS], *idle;
    size_t opened; /* readers are opened when they are first needed */
};

/* A connection to read with, for the time of one call; waits when all are in use. */
int cay_sqlite_borrow(struct cay_sqlite_store *s, struct cay_sqlite_reader **out,
                      struct cay_error *err);
void cay_sqlite_give_back(struct cay_sqlite_store *s, struct cay_sqlite_reader *r);

/* The entries of store.h, by file. */
int cay_sqlite_insert(struct cay_store *s, const struct cay_sandbox *sb, enum cay_durable durable,
                      struct cay_error *err);
int cay_sqlite_update(struct cay_store *s, const struct cay_sandbox *sb, enum cay_durable durable,
                      struct cay_error *err);
int cay_sqlite_remove(struct cay_store *s, const char *id, enum cay_durable durable,
                      struct cay_error *err);
int cay_sqlite_forget(struct cay_store *s, int64_t before_ms, struct cay_error *err);
int cay_sqlite_probe(struct cay_sqlite_store *s, struct cay_error *err); /* can it be written? */
int cay_sqlite_get(struct cay_store *s, const char *account_id, const char *id_or_name,
                   struct cay_arena *a, struct cay_sandbox *out, struct cay_error *err);
int cay_sqlite_list(struct cay_store *s, const struct cay_list_filter *filter, struct cay_arena *a,
                    struct cay_sandbox_list *out, struct cay_error *err);
int cay_sqlite_all(struct cay_store *s, struct cay_arena *a, struct cay_sandbox_list *out,
                   struct cay_error *err);
int cay_sqlite_due(struct cay_store *s, int64_t now_ms, struct cay_arena *a,
                   struct cay_sandbox_list *out, struct cay_error *err);
int cay_sqlite_count(struct cay_store *s, int64_t by_state[CAY_STATES], struct cay_error *err);
int cay_sqlite_was_used(struct cay_store *s, bool *out, struct cay_error *err);
int cay_sqlite_kept_put(struct cay_store *s, const struct cay_kept *kept, enum cay_durable durable,
                        struct cay_error *err);
int cay_sqlite_kept_remove(struct cay_store *s, const char *id, enum cay_durable durable,
                           struct cay_error *err);
int cay_sqlite_kept_get(struct cay_store *s, const char *account_id, const char *id,
                        struct cay_arena *a, struct cay_kept *out, struct cay_error *err);
int cay_sqlite_kept_list(struct cay_store *s, const struct cay_kept_filter *filter,
                         struct cay_arena *a, struct cay_kept_list *out, struct cay_error *err);
int cay_sqlite_kept_all(struct cay_store *s, struct cay_arena *a, struct cay_kept_list *out,
                        struct cay_error *err);
int cay_sqlite_kept_due(struct cay_store *s, int64_t now_ms, struct cay_arena *a,
                        struct cay_kept_list *out, struct cay_error *err);

extern const struct cay_access_ops cay_sqlite_access; /* access.c */
/* Inside the transaction of an insert or an update: may the account have this one, and so large? */
int cay_sqlite_check_quota(struct cay_sqlite_db *db, const struct cay_sandbox *sb,
                           struct cay_error *err);
/* That the quota leaves room for one more snapshot; its size is not known before it is made. */
int cay_sqlite_check_room(struct cay_sqlite_db *db, const char *account_id, struct cay_error *err);

/* All rows that the statement gives; resets it. */
int cay_sqlite_rows(struct cay_sqlite_reader *r, sqlite3_stmt *s, struct cay_arena *a,
                    struct cay_sandbox_list *out, struct cay_error *err);

/* Numbers of the readers' statements; list.c takes those from CAY_SQLITE_LIST on,
 * kept.c and access.c those from CAY_SQLITE_KEPT and _ACCESS on, of the writer too. */
enum {
    CAY_SQLITE_BY_ID,
    CAY_SQLITE_BY_NAME,
    CAY_SQLITE_OWNER,
    CAY_SQLITE_ALL,
    CAY_SQLITE_DUE,
    CAY_SQLITE_COUNT,
    CAY_SQLITE_TALLY,
    CAY_SQLITE_LIST = 8,
    CAY_SQLITE_KEPT = 56,
    CAY_SQLITE_ACCESS = 64,
};
