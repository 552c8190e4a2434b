/* SPDX-License-Identifier: Apache-2.0 */
/* The database's files in the data directory. */
#pragma once
#include "base/error.h"

#define CAY_SQLITE_FILE "cay.db"
#define CAY_SQLITE_PATH_SIZE 64

/* Makes the database when there is none, else looks whether the one that is there can be trusted.
 * A damaged, cut, newer or half-missing one is refused and left as it is: an empty store in its
 * place would have every living sandbox taken for an orphan. path_out leads through dir_fd. */
int cay_sqlite_file_ready(int dir_fd, char path_out[CAY_SQLITE_PATH_SIZE], struct cay_error *err);
