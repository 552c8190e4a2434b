/* SPDX-License-Identifier: Apache-2.0 */
/* A connection with its prepared statements. One thread at a time may use it. */
#pragma once
#include "base/error.h"
#include <sqlite3.h>
#include <stdint.h>

#define CAY_SQLITE_STATEMENTS 88

struct cay_sqlite_db {
    sqlite3 *db;
    sqlite3_stmt *statements[CAY_SQLITE_STATEMENTS];
};

/* The path is used as it is, links and all: it leads through /proc/self/fd. flags are SQLite's. */
int cay_sqlite_open(struct cay_sqlite_db *db, const char *path, int flags, struct cay_error *err);
void cay_sqlite_close(struct cay_sqlite_db *db);
int cay_sqlite_exec(struct cay_sqlite_db *db, const char *sql, struct cay_error *err);
/* Prepared on first use and kept under that number. Who steps it must reset it. */
int cay_sqlite_prepare(struct cay_sqlite_db *db, int number, const char *sql, sqlite3_stmt **out,
                       struct cay_error *err);
/* CAY_ERR_STORE, with SQLite's reason as the cause. */
int cay_sqlite_fail(struct cay_sqlite_db *db, struct cay_error *err, const char *what);
/* A statement that changes rows and gives none back: bound before, reset and unbound after. */
int cay_sqlite_run(struct cay_sqlite_db *db, sqlite3_stmt *s, struct cay_error *err);
void cay_sqlite_reset(sqlite3_stmt *s);
/* The first column of the only row. */
int cay_sqlite_int(struct cay_sqlite_db *db, const char *sql, int64_t *out, struct cay_error *err);
