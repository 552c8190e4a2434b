/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox and its row: columns for what is searched, meta_data (JSON, snake_case) for all. */
#pragma once
#include "base/arena.h"
#include "base/buf.h"
#include "model/sandbox.h"
#include "store/sqlite/db.h"

/* The columns that cay_sqlite_row_read expects, in order. */
#define CAY_SQLITE_COLUMNS                                                                         \
    "s.id, s.account_id, s.status, s.created_at, s.updated_at, s.expires_at, s.deleted_at, "       \
    "s.meta_data"

/* meta_data of a sandbox. What could not be read back is refused, so that it is never stored. */
int cay_sqlite_row_meta(const struct cay_sandbox *sb, struct cay_buf *out, struct cay_error *err);
/* The row that the statement stands on. What is read lives in a; scratch is emptied. */
int cay_sqlite_row_read(sqlite3_stmt *s, struct cay_arena *scratch, struct cay_arena *a,
                        struct cay_sandbox *out, struct cay_error *err);
