/* SPDX-License-Identifier: Apache-2.0 */
/* A copy of the database as it is at one moment, whoever writes to it, by another process. */
#pragma once
#include "store/sqlite/db.h"

struct cay_sqlite_copy {
    struct cay_sqlite_db db;
};

/* The moment is now, and stays until the copy is closed; nothing of the database is changed. */
int cay_sqlite_copy_open(struct cay_sqlite_copy *c, int dir_fd, struct cay_error *err);
/* As cay.db in that directory, which has none. */
int cay_sqlite_copy_write(struct cay_sqlite_copy *c, int dir_fd, struct cay_error *err);
void cay_sqlite_copy_close(struct cay_sqlite_copy *c);
/* Is the database in that directory whole, and of a schema that we know? Leaves no traces. */
int cay_sqlite_copy_check(int dir_fd, struct cay_error *err);
