/* SPDX-License-Identifier: Apache-2.0 */
/* A small file beside the database that remembers what the database's own files cannot tell once
 * they are gone: that there was one, and whether it was in use. */
#pragma once
#include "base/error.h"
#include <stdbool.h>

#define CAY_SQLITE_MARK "cay.db.mark"

struct cay_sqlite_mark {
    bool there;
    bool open;      /* not closed since it was opened last: its log must be there */
    bool same_boot; /* then nothing that was written is lost with the kernel's memory */
};

int cay_sqlite_mark_read(int dir_fd, struct cay_sqlite_mark *out, struct cay_error *err);
/* Whoever cannot write it goes without: it must not keep a server with a full disk from its rows.
 * `open` is told once the log is there, `closed` before it goes. */
void cay_sqlite_mark_open(int dir_fd);
void cay_sqlite_mark_closed(int dir_fd);
