/* SPDX-License-Identifier: Apache-2.0 */
/* Passive checkpoints hold nobody up, but the log starts over only when all of it is written back
 * and no reader is in it. While writes never pause that does not happen by itself: so a second
 * checkpoint, for which writers wait, takes the little that came meanwhile. */
#include "store/sqlite/checkpoint.h"
#include "model/limits.h"
#include "store/store.h"
#include <errno.h>

/* After each commit, on the writer's thread. */
static int committed(void *arg, sqlite3 *db, const char *name, int pages)
{
    struct cay_sqlite_checkpoint *c = arg;
    (void)db, (void)name;
    (void)pthread_mutex_lock(&c->lock);
    if (pages < c->base)
        c->base = 0; /* the log has started over */
    c->pages = pages;
    cay_metric_set(&cay_store_wal_pages, pages);
    if (pages - c->base >= CAY_STORE_WAL_PAGES) {
        c->wanted = true;
        (void)pthread_cond_signal(&c->more);
    }
    /* A disk that is slower than we are would let it grow without end. The write lock is free here,
     * as the checkpoint needs it. */
    while (pages >= CAY_STORE_WAL_MAX && (c->wanted || c->running) && !c->closed)
        (void)pthread_cond_wait(&c->done, &c->lock);
    (void)pthread_mutex_unlock(&c->lock);
    return SQLITE_OK;
}

static bool wait_for_work(struct cay_sqlite_checkpoint *c)
{
    (void)pthread_mutex_lock(&c->lock);
    c->running = false;
    (void)pthread_cond_broadcast(&c->done);
    while (!c->wanted && !c->closed)
        (void)pthread_cond_wait(&c->more, &c->lock);
    bool go_on = !c->closed;
    c->wanted = false;
    c->running = true;
    c->base = c->pages;
    (void)pthread_mutex_unlock(&c->lock);
    return go_on;
}

void cay_sqlite_checkpoint_note(struct cay_sqlite_checkpoint *c, struct cay_sqlite_db *db)
{
    if (sqlite3_extended_errcode(db->db) == SQLITE_IOERR_FSYNC)
        atomic_store(&c->unsynced, true);
}

int cay_sqlite_checkpoint_mend(struct cay_sqlite_checkpoint *c, struct cay_sqlite_db *writer,
                               struct cay_error *err)
{
    if (!atomic_load(&c->unsynced))
        return 0;
    if (sqlite3_wal_checkpoint_v2(writer->db, NULL, SQLITE_CHECKPOINT_RESTART, NULL, NULL))
        return cay_sqlite_fail(writer, err, "the database cannot be written");
    atomic_store(&c->unsynced, false);
    return 0;
}

/* A failure (a full disk, a reader that stays) is met again when the log has grown on. */
static bool checkpoint(struct cay_sqlite_checkpoint *c, int mode)
{
    if (sqlite3_wal_checkpoint_v2(c->db.db, NULL, mode, NULL, NULL) == SQLITE_OK)
        return true;
    cay_sqlite_checkpoint_note(c, &c->db);
    return false;
}

static void *write_back(void *arg)
{
    struct cay_sqlite_checkpoint *c = arg;
    while (wait_for_work(c))
        if (checkpoint(c, SQLITE_CHECKPOINT_PASSIVE))
            (void)checkpoint(c, SQLITE_CHECKPOINT_RESTART);
    return NULL;
}

int cay_sqlite_checkpoint_open(struct cay_sqlite_checkpoint *c, const char *path,
                               struct cay_sqlite_db *writer, struct cay_error *err)
{
    int r = cay_sqlite_open(&c->db, path, SQLITE_OPEN_READWRITE, err);
    if (r == 0)
        r = cay_sqlite_exec(&c->db, "PRAGMA synchronous = FULL; PRAGMA cache_size = -64", err);
    if (r < 0)
        return r;
    (void)sqlite3_busy_timeout(c->db.db, CAY_STORE_RESTART_MS);
    (void)pthread_mutex_init(&c->lock, NULL); /* neither can fail on Linux */
    (void)pthread_cond_init(&c->more, NULL);
    (void)pthread_cond_init(&c->done, NULL);
    errno = pthread_create(&c->thread, NULL, write_back, c);
    if (errno != 0)
        return cay_fail_errno(err, CAY_ERR_STORE, "cannot start the checkpoint thread");
    c->started = true;
    (void)sqlite3_wal_hook(writer->db, committed, c); /* in place of the automatic checkpoint */
    return 0;
}

void cay_sqlite_checkpoint_close(struct cay_sqlite_checkpoint *c)
{
    if (c->started) {
        (void)pthread_mutex_lock(&c->lock);
        c->closed = true;
        (void)pthread_cond_signal(&c->more);
        (void)pthread_cond_broadcast(&c->done);
        (void)pthread_mutex_unlock(&c->lock);
        (void)pthread_join(c->thread, NULL);
        (void)pthread_cond_destroy(&c->more);
        (void)pthread_cond_destroy(&c->done);
        (void)pthread_mutex_destroy(&c->lock);
        c->started = false;
    }
    cay_sqlite_close(&c->db);
}
