/* SPDX-License-Identifier: Apache-2.0 */
/* Files of our own: whole writes, by rename, relative to a directory's descriptor. */
#pragma once
#include "base/arena.h"
#include "base/error.h"
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* mkdirat that takes an existing directory as success, opened O_DIRECTORY|O_NOFOLLOW|O_CLOEXEC. */
int cay_path_open_dir(int dirfd, const char *name, mode_t mode, int *fd_out, struct cay_error *err);
/* Each directory made in there begins in a part of the disk with room, as ext4 does it for those in
 * its root. An ext4 without a journal takes no inode again for minutes, and looks past each for
 * every new file: beside many files that were just removed this takes longer than all the rest.
 * Filesystems that do not know the flag need none. */
void cay_path_spread(int dirfd);
/* Blocks for so many bytes of a file, which stays as long as it is. False: they were not to be had,
 * or would be a good part of what is left. */
bool cay_path_reserve(int fd, uint64_t bytes);
/* "." or "..", which every directory has. */
static inline bool cay_path_is_dots(const char *name)
{
    return name[0] == '.' && (!name[1] || (name[1] == '.' && !name[2]));
}
/* Reads a regular file of at most max bytes; the text is terminated. len_out may be NULL.
 * Missing: CAY_ERR_NOT_FOUND. */
int cay_path_read(int dirfd, const char *name, size_t max, struct cay_arena *a, char **out,
                  size_t *len_out, struct cay_error *err);
/* Written beside and renamed over: a reader sees the old file or the new one, whole.
 * It does not wait for the disk. */
int cay_path_replace(int dirfd, const char *name, const void *data, size_t len, mode_t mode,
                     struct cay_error *err);
/* The same, and on the disk on return: a power cut leaves the old file or the new one, too. */
int cay_path_store(int dirfd, const char *name, const void *data, size_t len, mode_t mode,
                   struct cay_error *err);
