/* SPDX-License-Identifier: Apache-2.0 */
/* The one connection that writes. All jobs that wait are run in one transaction by one of those who
 * brought them, and answered when that is committed. */
#pragma once
#include "base/buf.h"
#include "store/sqlite/checkpoint.h"
#include "store/sqlite/db.h"
#include "store/store.h"
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

struct cay_sqlite_job {
    /* On whichever thread leads, inside a transaction: what a failing job did is undone. */
    int (*run)(struct cay_sqlite_db *db, struct cay_sqlite_job *job, struct cay_error *err);
    enum cay_durable durable;
    const struct cay_sandbox *sandbox;
    const struct cay_kept *kept;
    const void *row; /* of access.c */
    const char *id;
    struct cay_buf meta;
    int64_t before_ms, changed;

    struct cay_error *err; /* the rest is the writer's */
    int result;
    sem_t done;
    bool leads; /* it is its caller's turn to write */
    struct cay_sqlite_job *next;
};

struct cay_sqlite_writer {
    struct cay_sqlite_db db;
    struct cay_sqlite_checkpoint checkpoint;
    pthread_mutex_t lock;
    pthread_cond_t idle;
    struct cay_sqlite_job *first, **last;
    size_t waiting;
    bool started, busy;
    bool syncs;          /* what PRAGMA synchronous says now */
    atomic_bool failing; /* the last commit did not succeed */
};

int cay_sqlite_writer_open(struct cay_sqlite_writer *w, const char *path, struct cay_error *err);
void cay_sqlite_writer_close(struct cay_sqlite_writer *w); /* when nobody calls it any more */
/* Returns when the job is committed as durably as it wants, or failed. */
int cay_sqlite_writer_do(struct cay_sqlite_writer *w, struct cay_sqlite_job *job,
                         struct cay_error *err);
