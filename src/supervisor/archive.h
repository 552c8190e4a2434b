/* SPDX-License-Identifier: Apache-2.0 */
/* The form of a backup: a tar archive (pax, as GNU tar writes and reads it) and behind its end one
 * block of 512 bytes with the SHA-256 of all before it. docs/backup.md says what is in it. */
#pragma once
#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"

#define CAY_ARCHIVE_FORMAT "cay-backup"
#define CAY_ARCHIVE_VERSION 1
#define CAY_ARCHIVE_MANIFEST "manifest.json"
#define CAY_ARCHIVE_TREES "trees/"

/* What is to go in: names, a NUL behind each, in a directory; of trees, as the engine names copies.
 */
struct cay_archive {
    int plain_fd, trees_fd;              /* directories */
    const struct cay_buf *plain, *trees; /* names in them */
};

int cay_archive_write(const struct cay_archive *what, int out, struct cay_error *err);
/* Is every byte as it was written? CAY_ERR_INVALID */
int cay_archive_check(int file, struct cay_error *err);
/* Text of its first member. */
int cay_archive_manifest(int file, struct cay_arena *a, char **out, struct cay_error *err);
/* All of it, as it was: owners, attributes, links, holes. `trees` is where trees go, in `to`. */
int cay_archive_read(int file, int to, const char *trees, struct cay_error *err);
