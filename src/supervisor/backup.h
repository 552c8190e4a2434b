/* SPDX-License-Identifier: Apache-2.0 */
/* A data directory as one file, and back. Root's only. */
#pragma once
#include "base/error.h"

struct cay_backup_told {
    size_t sandboxes, snapshots, volumes; /* whose files are in it */
};

/* A copy of one moment, whether or not a server runs on it. "-" is stdout; any other file is
 * written beside and renamed when it is whole. */
int cay_backup(const char *data_dir, const char *file, struct cay_backup_told *out,
               struct cay_error *err);
/* Into a directory that is empty or not there; nothing is in place until all is there and
 * verified. `user` is whom the server will run as, or NULL. A server that is started on it finds
 * what it would after its host was restarted. */
int cay_restore(const char *file, const char *data_dir, const char *user,
                struct cay_backup_told *out, struct cay_error *err);
