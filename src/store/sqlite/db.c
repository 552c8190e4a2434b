/* SPDX-License-Identifier: Apache-2.0 */
/* Connections to SQLite.
 *
 * The server may not be able to walk to its data directory by name, only from a descriptor that it
 * was given: paths lead through /proc/self/fd. SQLite's own file system layer would resolve that
 * link to the name, so a copy of it is registered that leaves paths as they are. */
#include "store/sqlite/db.h"
#include "model/limits.h"
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define VFS "cay"

static int same_path(sqlite3_vfs *vfs, const char *path, int size, char *out)
{
    (void)vfs;
    size_t len = strlen(path);
    if (len >= (size_t)size)
        return SQLITE_CANTOPEN;
    memcpy(out, path, len + 1);
    return SQLITE_OK;
}

static void register_vfs(void)
{
    static sqlite3_vfs vfs;
    /* Its statistics are counted under one lock for all threads. When somebody has begun to use
     * SQLite already it is too late to switch them off, which only costs time. */
    (void)sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
    sqlite3_vfs *plain = sqlite3_vfs_find(NULL);
    if (!plain)
        return; /* every open will fail, and say that there is no such vfs */
    vfs = *plain;
    vfs.zName = VFS;
    vfs.xFullPathname = same_path;
    (void)sqlite3_vfs_register(&vfs, 0);
}

int cay_sqlite_fail(struct cay_sqlite_db *db, struct cay_error *err, const char *what)
{
    int os = db->db ? sqlite3_system_errno(db->db) : 0;
    int code = db->db ? sqlite3_errcode(db->db) : SQLITE_NOMEM;
    const char *why = db->db ? sqlite3_errmsg(db->db) : sqlite3_errstr(code);
    char text[256], os_text[64];
    (void)snprintf(text, sizeof text, "%s", why);
    (void)cay_fail_as(err, CAY_ERR_STORE, "DATABASE_ERROR", "%s", what);
    bool of_os =
        os != 0 && (code == SQLITE_IOERR || code == SQLITE_FULL || code == SQLITE_CANTOPEN);
    (void)snprintf(err->cause, sizeof err->cause, "%s%s%s", text, of_os ? ": " : "",
                   of_os ? strerror_r(os, os_text, sizeof os_text) : "");
    return CAY_ERR_STORE;
}

int cay_sqlite_open(struct cay_sqlite_db *db, const char *path, int flags, struct cay_error *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, register_vfs);
    memset(db, 0, sizeof *db);
    if (sqlite3_open_v2(path, &db->db, flags | SQLITE_OPEN_NOMUTEX, VFS) != SQLITE_OK) {
        int r = cay_sqlite_fail(db, err, "cannot open the database");
        cay_sqlite_close(db);
        return r;
    }
    (void)sqlite3_extended_result_codes(db->db, 0);
    (void)sqlite3_busy_timeout(db->db, CAY_STORE_BUSY_MS);
    return 0;
}

void cay_sqlite_close(struct cay_sqlite_db *db)
{
    for (int i = 0; i < CAY_SQLITE_STATEMENTS; i++) {
        (void)sqlite3_finalize(db->statements[i]); /* repeats the error of its last step */
        db->statements[i] = NULL;
    }
    (void)sqlite3_close(db->db); /* cannot fail: no statement is left */
    db->db = NULL;
}

int cay_sqlite_exec(struct cay_sqlite_db *db, const char *sql, struct cay_error *err)
{
    if (sqlite3_exec(db->db, sql, NULL, NULL, NULL) != SQLITE_OK)
        return cay_sqlite_fail(db, err, "the database refuses a statement");
    return 0;
}

int cay_sqlite_prepare(struct cay_sqlite_db *db, int number, const char *sql, sqlite3_stmt **out,
                       struct cay_error *err)
{
    sqlite3_stmt **s = &db->statements[number];
    if (!*s && sqlite3_prepare_v3(db->db, sql, -1, SQLITE_PREPARE_PERSISTENT, s, NULL) != SQLITE_OK)
        return cay_sqlite_fail(db, err, "the database refuses a statement");
    *out = *s;
    return 0;
}

void cay_sqlite_reset(sqlite3_stmt *s)
{
    (void)sqlite3_reset(s); /* repeats the error of the last step, which is told already */
    (void)sqlite3_clear_bindings(s);
}

int cay_sqlite_run(struct cay_sqlite_db *db, sqlite3_stmt *s, struct cay_error *err)
{
    int r = 0;
    if (sqlite3_step(s) != SQLITE_DONE)
        r = cay_sqlite_fail(db, err, "the database cannot be written");
    cay_sqlite_reset(s);
    return r;
}

int cay_sqlite_int(struct cay_sqlite_db *db, const char *sql, int64_t *out, struct cay_error *err)
{
    sqlite3_stmt *s = NULL;
    int r = 0;
    if (sqlite3_prepare_v2(db->db, sql, -1, &s, NULL) != SQLITE_OK || sqlite3_step(s) != SQLITE_ROW)
        r = cay_sqlite_fail(db, err, "the database cannot be read");
    else
        *out = sqlite3_column_int64(s, 0);
    (void)sqlite3_finalize(s);
    return r;
}
