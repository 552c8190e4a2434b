/* SPDX-License-Identifier: Apache-2.0 */
/* A new database is made under another name and renamed when it is whole, so that an empty file
 * under the right name is never one of ours. */
#include "store/sqlite/file.h"
#include "model/limits.h"
#include "store/migrations/migrations.h"
#include "store/sqlite/db.h"
#include "store/sqlite/mark.h"
#include "store/sqlite/wal.h"
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define NEW_FILE CAY_SQLITE_FILE ".new"
#define HEADER_SIZE 100 /* of every SQLite database */

struct found {
    bool db, wal, shm;
    struct cay_sqlite_mark mark;
    int64_t db_bytes, wal_bytes;
};

static void path_in(int dir_fd, const char *name, char out[CAY_SQLITE_PATH_SIZE])
{
    (void)snprintf(out, CAY_SQLITE_PATH_SIZE, "/proc/self/fd/%d/%s", dir_fd, name);
}

static int look(int dir_fd, const char *name, bool *there, int64_t *bytes, struct cay_error *err)
{
    struct stat st;
    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        if (errno == ENOENT)
            return 0;
        return cay_fail_errno(err, CAY_ERR_STORE, "cannot look for %s", name);
    }
    if (!S_ISREG(st.st_mode))
        return cay_fail(err, CAY_ERR_STORE, "%s is not a regular file", name);
    *there = true;
    *bytes = st.st_size;
    return 0;
}

static int look_all(int dir_fd, struct found *f, struct cay_error *err)
{
    int64_t ignored;
    int r = look(dir_fd, CAY_SQLITE_FILE, &f->db, &f->db_bytes, err);
    if (r == 0)
        r = look(dir_fd, CAY_SQLITE_FILE "-wal", &f->wal, &f->wal_bytes, err);
    if (r == 0)
        r = look(dir_fd, CAY_SQLITE_FILE "-shm", &f->shm, &ignored, err);
    if (r == 0)
        r = cay_sqlite_mark_read(dir_fd, &f->mark, err);
    return r;
}

static uint32_t big_endian(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* What can be told without SQLite: is it a database, and is all of it there? Pages that the log
 * holds may be missing from the file. */
static int check_header(int dir_fd, const struct found *f, struct cay_error *err)
{
    unsigned char head[HEADER_SIZE];
    CAY_AUTO_FD int fd = openat(dir_fd, CAY_SQLITE_FILE, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return cay_fail_errno(err, CAY_ERR_STORE, "cannot open " CAY_SQLITE_FILE);
    ssize_t got = pread(fd, head, sizeof head, 0);
    if (got < 0)
        return cay_fail_errno(err, CAY_ERR_STORE, "cannot read " CAY_SQLITE_FILE);
    if (got < (ssize_t)sizeof head || memcmp(head, "SQLite format 3", 16) != 0)
        return cay_fail(err, CAY_ERR_STORE, CAY_SQLITE_FILE " is damaged: it is no database");
    int64_t page = (int64_t)head[16] << 8 | head[17], pages = big_endian(head + 28);
    if (page == 1)
        page = 65536;
    bool counted = big_endian(head + 24) == big_endian(head + 92); /* else the count is stale */
    if (counted && f->wal_bytes == 0 && f->db_bytes < page * pages)
        return cay_fail(err, CAY_ERR_STORE,
                        CAY_SQLITE_FILE " is damaged: it was cut to %lld of %lld bytes",
                        (long long)f->db_bytes, (long long)(page * pages));
    return 0;
}

static int check_found(int dir_fd, const struct found *f, struct cay_error *err)
{
    if (!f->db && !f->wal)
        return cay_fail(err, CAY_ERR_STORE,
                        CAY_SQLITE_FILE " is missing: put it back, or remove " CAY_SQLITE_MARK
                                        " to begin with an empty one");
    if (!f->db)
        return cay_fail(err, CAY_ERR_STORE,
                        CAY_SQLITE_FILE " is missing, but its log " CAY_SQLITE_FILE
                                        "-wal is there");
    if (f->db_bytes == 0)
        return cay_fail(err, CAY_ERR_STORE, CAY_SQLITE_FILE " is damaged: it is empty");
    /* SQLite makes the log before its index and removes it after: an index alone is a log lost. */
    if ((f->shm || f->mark.open) && !f->wal)
        return cay_fail(err, CAY_ERR_STORE,
                        "the log " CAY_SQLITE_FILE "-wal is missing after an unclean stop: put it "
                        "back, or remove " CAY_SQLITE_FILE "-shm and " CAY_SQLITE_MARK
                        " to go on without");
    int r = check_header(dir_fd, f, err);
    return r == 0 && f->wal ? cay_sqlite_wal_check(dir_fd, f->mark.same_boot, err) : r;
}

static int quick_check(struct cay_sqlite_db *db, struct cay_error *err)
{
    sqlite3_stmt *s = NULL;
    int r = 0;
    if (sqlite3_prepare_v2(db->db, "PRAGMA quick_check(1)", -1, &s, NULL) != SQLITE_OK ||
        sqlite3_step(s) != SQLITE_ROW) {
        r = cay_sqlite_fail(db, err, CAY_SQLITE_FILE " is damaged");
    } else if (strcmp((const char *)sqlite3_column_text(s, 0), "ok") != 0) {
        r = cay_fail(err, CAY_ERR_STORE, CAY_SQLITE_FILE " is damaged");
        (void)snprintf(err->cause, sizeof err->cause, "%s",
                       (const char *)sqlite3_column_text(s, 0));
    }
    (void)sqlite3_finalize(s);
    return r;
}

/* Without a log the file is opened as one that nobody changes, which leaves no traces; with one it
 * is opened as usual, and the log is left in its place afterwards. */
static int check_content(int dir_fd, const struct found *f, struct cay_error *err)
{
    char path[CAY_SQLITE_PATH_SIZE], uri[CAY_SQLITE_PATH_SIZE + 32];
    CAY_CLEANUP(cay_sqlite_close) struct cay_sqlite_db db = {0};
    path_in(dir_fd, CAY_SQLITE_FILE, path);
    (void)snprintf(uri, sizeof uri, "file:%s%s", path, f->wal ? "" : "?immutable=1");
    int mode = f->wal ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY;
    int r = cay_sqlite_open(&db, uri, mode | SQLITE_OPEN_URI, err);
    if (r < 0)
        return r;
    (void)sqlite3_db_config(db.db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    r = cay_migrations_check(&db, err);
    if (r == 0 && (f->wal_bytes > 0 || f->db_bytes <= CAY_STORE_CHECK_BYTES))
        r = quick_check(&db, err);
    return r;
}

static int build(int dir_fd, struct cay_error *err)
{
    char path[CAY_SQLITE_PATH_SIZE];
    int64_t ignored;
    CAY_CLEANUP(cay_sqlite_close) struct cay_sqlite_db db = {0};
    path_in(dir_fd, NEW_FILE, path);
    int r = cay_sqlite_open(&db, path, SQLITE_OPEN_READWRITE, err);
    if (r == 0)
        r = cay_sqlite_exec(&db, "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL", err);
    if (r == 0)
        r = cay_migrations_run(&db, err);
    if (r == 0)
        r = cay_sqlite_int(&db, "PRAGMA wal_checkpoint(TRUNCATE)", &ignored, err);
    return r;
}

static int create(int dir_fd, struct cay_error *err)
{
    static const char *const leftovers[] = {NEW_FILE, NEW_FILE "-wal", NEW_FILE "-shm",
                                            NEW_FILE "-journal"};
    for (size_t i = 0; i < CAY_COUNT(leftovers); i++)
        if (unlinkat(dir_fd, leftovers[i], 0) < 0 && errno != ENOENT)
            return cay_fail_errno(err, CAY_ERR_STORE, "cannot remove %s", leftovers[i]);

    CAY_AUTO_FD int fd = openat(dir_fd, NEW_FILE, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0640);
    if (fd < 0 || fchmod(fd, 0640) < 0)
        return cay_fail_errno(err, CAY_ERR_STORE, "cannot make the database");
    cay_close_fd(&fd); /* closing it later would drop SQLite's locks */
    int r = build(dir_fd, err);
    if (r < 0)
        return cay_wrap(err, "cannot make the database");
    if (renameat(dir_fd, NEW_FILE, dir_fd, CAY_SQLITE_FILE) < 0 || fsync(dir_fd) < 0)
        return cay_fail_errno(err, CAY_ERR_STORE, "cannot make the database");
    return 0;
}

int cay_sqlite_file_ready(int dir_fd, char path_out[CAY_SQLITE_PATH_SIZE], struct cay_error *err)
{
    struct found f = {0};
    int r = look_all(dir_fd, &f, err);
    if (r == 0 && !f.db && !f.wal && !f.mark.there)
        r = create(dir_fd, err);
    else if (r == 0)
        r = check_found(dir_fd, &f, err);
    if (r == 0 && f.db)
        r = check_content(dir_fd, &f, err);
    if (r == 0)
        path_in(dir_fd, CAY_SQLITE_FILE, path_out);
    return r;
}
