/* SPDX-License-Identifier: Apache-2.0 */
/* Is all of the log there? SQLite takes what it can read of a log and drops the rest in silence:
 * right after a power cut, but rows are lost when somebody damaged it. */
#pragma once
#include "base/error.h"
#include <stdbool.h>

/* Called before SQLite opens the files, which it changes. With use_index the log must hold all that
 * its index counts: it does unless the kernel's memory was lost. */
int cay_sqlite_wal_check(int dir_fd, bool use_index, struct cay_error *err);

/* Room on the disk for what the log grows to between two checkpoints, which nobody else can take: a
 * full disk does not keep rows from being written. Once, when SQLite has made the log; never fails.
 */
void cay_sqlite_wal_reserve(int dir_fd);
