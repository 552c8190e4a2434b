/* SPDX-License-Identifier: Apache-2.0 */
/* Writing the log back into the database, on a thread and connection of its own, so that commits
 * wait for the last bit of it only. */
#pragma once
#include "store/sqlite/db.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct cay_sqlite_checkpoint {
    struct cay_sqlite_db db;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t more, done;
    int pages; /* in the log, after the last commit */
    int base;  /* in the log, when it was last written back */
    bool wanted, running, started, closed;
    /* A sync failed. The kernel tells that once and then takes the pages for clean, so nothing in
     * the log counts as durable until all of it is written back. */
    atomic_bool unsynced;
};

/* Watches what that connection commits. */
int cay_sqlite_checkpoint_open(struct cay_sqlite_checkpoint *c, const char *path,
                               struct cay_sqlite_db *writer, struct cay_error *err);
/* Called by whoever has just failed on that connection: was it a sync? */
void cay_sqlite_checkpoint_note(struct cay_sqlite_checkpoint *c, struct cay_sqlite_db *db);
/* Ahead of a transaction, on the writer's connection: when a sync has failed, writes back the whole
 * log and lets it start over. */
int cay_sqlite_checkpoint_mend(struct cay_sqlite_checkpoint *c, struct cay_sqlite_db *writer,
                               struct cay_error *err);
void cay_sqlite_checkpoint_close(struct cay_sqlite_checkpoint *c);
