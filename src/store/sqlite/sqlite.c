/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing the store, its pool of readers, and its health. */
#include "store/sqlite/sqlite.h"
#include "store/sqlite/file.h"
#include "store/sqlite/mark.h"
#include "store/sqlite/wal.h"
#include <fcntl.h>
#include <stdio.h>

static int open_reader(struct cay_sqlite_store *s, struct cay_sqlite_reader *r,
                       struct cay_error *err)
{
    int e = cay_sqlite_open(&r->db, s->path, SQLITE_OPEN_READWRITE, err);
    if (e == 0)
        e = cay_sqlite_exec(&r->db, "PRAGMA query_only = ON; PRAGMA cache_size = -512", err);
    if (e < 0)
        cay_sqlite_close(&r->db);
    return e;
}

int cay_sqlite_borrow(struct cay_sqlite_store *s, struct cay_sqlite_reader **out,
                      struct cay_error *err)
{
    (void)pthread_mutex_lock(&s->lock);
    while (!s->idle && s->opened == CAY_COUNT(s->readers))
        (void)pthread_cond_wait(&s->back, &s->lock);
    struct cay_sqlite_reader *r = s->idle;
    if (r)
        s->idle = r->next;
    else
        r = &s->readers[s->opened++];
    (void)pthread_mutex_unlock(&s->lock);

    int e = r->db.db ? 0 : open_reader(s, r, err);
    if (e < 0) {
        cay_sqlite_give_back(s, r); /* closed as it is: the next one tries again */
        return e;
    }
    *out = r;
    return 0;
}

void cay_sqlite_give_back(struct cay_sqlite_store *s, struct cay_sqlite_reader *r)
{
    (void)pthread_mutex_lock(&s->lock);
    r->next = s->idle;
    s->idle = r;
    (void)pthread_cond_signal(&s->back);
    (void)pthread_mutex_unlock(&s->lock);
}

static void close_store(struct cay_store *store)
{
    struct cay_sqlite_store *s = (struct cay_sqlite_store *)store;
    if (s->marked)
        cay_sqlite_mark_closed(s->dir_fd);
    for (size_t i = 0; i < s->opened; i++) {
        cay_sqlite_close(&s->readers[i].db);
        cay_arena_done(&s->readers[i].scratch);
    }
    cay_sqlite_syncer_close(&s->syncer);
    cay_sqlite_writer_close(&s->writer);
    (void)pthread_cond_destroy(&s->back);
    (void)pthread_mutex_destroy(&s->lock);
    cay_close_fd(&s->dir_fd);
    free(s);
}

static int open_dir(const struct cay_config *cfg, int *fd_out, struct cay_error *err)
{
    const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
    int fd = cfg->data_fd >= 0 ? openat(cfg->data_fd, ".", flags) : open(cfg->data, flags);
    if (fd < 0)
        return cay_fail_errno(err, CAY_ERR_STORE, "cannot open the data directory");
    *fd_out = fd;
    return 0;
}

static int open_store(const struct cay_config *cfg, struct cay_store **out, struct cay_error *err)
{
    struct cay_sqlite_store *s = calloc(1, sizeof *s);
    if (!s)
        abort();
    s->store.ops = &cay_store_sqlite;
    s->dir_fd = -1;
    (void)pthread_mutex_init(&s->lock, NULL); /* neither can fail on Linux */
    (void)pthread_cond_init(&s->back, NULL);

    int r = open_dir(cfg, &s->dir_fd, err);
    if (r == 0)
        r = cay_sqlite_file_ready(s->dir_fd, s->path, err);
    if (r == 0)
        r = cay_sqlite_writer_open(&s->writer, s->path, err);
    if (r == 0)
        r = cay_sqlite_syncer_open(&s->syncer, s->dir_fd, &s->writer.checkpoint, err);
    if (r < 0) {
        close_store(&s->store);
        return r;
    }
    cay_sqlite_wal_reserve(s->dir_fd);
    cay_sqlite_mark_open(s->dir_fd);
    s->marked = true;
    *out = &s->store;
    return 0;
}

/* Reads always; writes only when the last commit failed, to see whether that is over. */
static int check(struct cay_store *store, char *version, size_t size, struct cay_error *err)
{
    struct cay_sqlite_store *s = (struct cay_sqlite_store *)store;
    struct cay_sqlite_reader *r;
    int64_t ignored;
    int e = cay_sqlite_borrow(s, &r, err);
    if (e < 0)
        return e;
    e = cay_sqlite_int(&r->db, "SELECT count(*) FROM (SELECT 1 FROM sandboxes LIMIT 1)", &ignored,
                       err);
    cay_sqlite_give_back(s, r);
    if (e == 0 && atomic_load(&s->writer.failing))
        e = cay_sqlite_probe(s, err);
    if (e == 0)
        (void)snprintf(version, size, "%s, WAL", sqlite3_libversion());
    return e;
}

static uint64_t sync_begin(struct cay_store *store)
{
    return cay_sqlite_syncer_begin(&((struct cay_sqlite_store *)store)->syncer);
}

static int sync_end(struct cay_store *store, uint64_t wish, struct cay_error *err)
{
    return cay_sqlite_syncer_end(&((struct cay_sqlite_store *)store)->syncer, wish, err);
}

const struct cay_store_ops cay_store_sqlite = {
    .name = "sqlite",
    .open = open_store,
    .close = close_store,
    .check = check,
    .sync_begin = sync_begin,
    .sync_end = sync_end,
    .access = &cay_sqlite_access,
    .insert = cay_sqlite_insert,
    .update = cay_sqlite_update,
    .remove = cay_sqlite_remove,
    .get = cay_sqlite_get,
    .list = cay_sqlite_list,
    .all = cay_sqlite_all,
    .due = cay_sqlite_due,
    .count = cay_sqlite_count,
    .was_used = cay_sqlite_was_used,
    .forget = cay_sqlite_forget,
    .kept_put = cay_sqlite_kept_put,
    .kept_remove = cay_sqlite_kept_remove,
    .kept_get = cay_sqlite_kept_get,
    .kept_list = cay_sqlite_kept_list,
    .kept_all = cay_sqlite_kept_all,
    .kept_due = cay_sqlite_kept_due,
};
