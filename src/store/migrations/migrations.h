/* SPDX-License-Identifier: Apache-2.0 */
/* The schema, step by step. A step that was released is never changed: add another. */
#pragma once
#include "store/sqlite/db.h"

extern const int cay_migrations_count; /* the version that this program knows */

/* Refuses a database of a newer version, without touching it. */
int cay_migrations_check(struct cay_sqlite_db *db, struct cay_error *err);
/* Runs the steps that are missing, each in a transaction of its own. */
int cay_migrations_run(struct cay_sqlite_db *db, struct cay_error *err);
