/* SPDX-License-Identifier: Apache-2.0 */
/* What a commit without a sync left in the log is in the page cache; whoever syncs the same file
 * brings it to the disk, on whatever descriptor. One sync serves all who asked before it began. */
#include "store/sqlite/syncer.h"
#include "store/sqlite/file.h"
#include "store/store.h"
#include <errno.h>
#include <fcntl.h>

static bool sync_log(struct cay_sqlite_syncer *y)
{
    if (y->log_fd < 0)
        y->log_fd = openat(y->dir_fd, CAY_SQLITE_FILE "-wal", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    return y->log_fd >= 0 && fdatasync(y->log_fd) == 0;
}

static void *serve(void *arg)
{
    struct cay_sqlite_syncer *y = arg;
    (void)pthread_mutex_lock(&y->lock);
    for (;;) {
        while (y->wanted == y->finished && !y->closed)
            (void)pthread_cond_wait(&y->more, &y->lock);
        if (y->closed)
            break;
        uint64_t upto = y->wanted;
        (void)pthread_mutex_unlock(&y->lock);
        /* The kernel tells of a failure once: what is asked for behind it is no more on the disk
         * than what was asked for before. */
        bool good = sync_log(y) && !atomic_load(&y->checkpoint->unsynced);
        (void)pthread_mutex_lock(&y->lock);
        cay_metric_add(&cay_store_syncs, good);
        if (!good) {
            atomic_store(&y->checkpoint->unsynced, true);
            if (y->failed_upto == 0) /* some of an earlier range may not have looked yet */
                y->failed_from = y->finished + 1;
            y->failed_upto = upto;
        }
        y->finished = upto;
        (void)pthread_cond_broadcast(&y->done);
    }
    (void)pthread_mutex_unlock(&y->lock);
    return NULL;
}

int cay_sqlite_syncer_open(struct cay_sqlite_syncer *y, int dir_fd,
                           struct cay_sqlite_checkpoint *checkpoint, struct cay_error *err)
{
    *y = (struct cay_sqlite_syncer){.dir_fd = dir_fd, .log_fd = -1, .checkpoint = checkpoint};
    (void)pthread_mutex_init(&y->lock, NULL); /* none of these can fail on Linux */
    (void)pthread_cond_init(&y->more, NULL);
    (void)pthread_cond_init(&y->done, NULL);
    errno = pthread_create(&y->thread, NULL, serve, y);
    if (errno != 0)
        return cay_fail_errno(err, CAY_ERR_STORE, "cannot start the thread that syncs");
    y->started = true;
    return 0;
}

void cay_sqlite_syncer_close(struct cay_sqlite_syncer *y)
{
    if (!y->started)
        return;
    (void)pthread_mutex_lock(&y->lock);
    y->closed = true;
    (void)pthread_cond_signal(&y->more);
    (void)pthread_mutex_unlock(&y->lock);
    (void)pthread_join(y->thread, NULL);
    (void)pthread_cond_destroy(&y->done);
    (void)pthread_cond_destroy(&y->more);
    (void)pthread_mutex_destroy(&y->lock);
    cay_close_fd(&y->log_fd);
    y->started = false;
}

uint64_t cay_sqlite_syncer_begin(struct cay_sqlite_syncer *y)
{
    (void)pthread_mutex_lock(&y->lock);
    uint64_t wish = ++y->wanted;
    (void)pthread_cond_signal(&y->more);
    (void)pthread_mutex_unlock(&y->lock);
    return wish;
}

int cay_sqlite_syncer_end(struct cay_sqlite_syncer *y, uint64_t wish, struct cay_error *err)
{
    (void)pthread_mutex_lock(&y->lock);
    while (y->finished < wish && !y->closed)
        (void)pthread_cond_wait(&y->done, &y->lock);
    bool good = y->finished >= wish && (wish < y->failed_from || wish > y->failed_upto);
    (void)pthread_mutex_unlock(&y->lock);
    return good ? 0 : cay_fail(err, CAY_ERR_STORE, "the database cannot be written to the disk");
}
