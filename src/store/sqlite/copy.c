/* SPDX-License-Identifier: Apache-2.0 */
/* A read transaction holds the moment; SQLite's own backup copies the pages that it sees. */
#include "store/sqlite/copy.h"
#include "store/sqlite/file.h"
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

/* Without a log nobody has it open: then it is read as a file that nobody changes. */
int cay_sqlite_copy_open(struct cay_sqlite_copy *c, int dir_fd, struct cay_error *err)
{
    char uri[CAY_SQLITE_PATH_SIZE + 32];
    bool log = faccessat(dir_fd, CAY_SQLITE_FILE "-wal", F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    (void)snprintf(uri, sizeof uri, "file:/proc/self/fd/%d/" CAY_SQLITE_FILE "%s", dir_fd,
                   log ? "" : "?immutable=1");
    int mode = log ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY;
    int r = cay_sqlite_open(&c->db, uri, mode | SQLITE_OPEN_URI, err);
    if (r < 0)
        return r;
    (void)sqlite3_db_config(c->db.db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    return cay_sqlite_exec(&c->db, "BEGIN; SELECT 1 FROM sandboxes LIMIT 1", err);
}

int cay_sqlite_copy_write(struct cay_sqlite_copy *c, int dir_fd, struct cay_error *err)
{
    char path[CAY_SQLITE_PATH_SIZE];
    CAY_CLEANUP(cay_sqlite_close) struct cay_sqlite_db to = {0};
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d/" CAY_SQLITE_FILE, dir_fd);
    int r = cay_sqlite_open(&to, path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, err);
    if (r < 0)
        return r;
    sqlite3_backup *backup = sqlite3_backup_init(to.db, "main", c->db.db, "main");
    if (!backup)
        return cay_sqlite_fail(&to, err, "cannot copy the database");
    (void)sqlite3_backup_step(backup, -1); /* what it says is said again by finish */
    if (sqlite3_backup_finish(backup) != SQLITE_OK)
        return cay_sqlite_fail(&to, err, "cannot copy the database");
    return cay_sqlite_exec(&to, "PRAGMA journal_mode = WAL", err); /* as the store expects it */
}

void cay_sqlite_copy_close(struct cay_sqlite_copy *c)
{
    cay_sqlite_close(&c->db);
}

int cay_sqlite_copy_check(int dir_fd, struct cay_error *err)
{
    char path[CAY_SQLITE_PATH_SIZE];
    if (faccessat(dir_fd, CAY_SQLITE_FILE, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
        return cay_fail_errno(err, CAY_ERR_STORE, "there is no database");
    return cay_sqlite_file_ready(dir_fd, path, err);
}
