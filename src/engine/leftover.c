/* SPDX-License-Identifier: Apache-2.0 */
/* For the kernel a subvolume is more work to make, and much more to drop, than all the files of a
 * sandbox that did little: where there are quotas it ends a transaction for each one that it drops,
 * with a wait for the disk. */
#include "engine/leftover.h"
#include "base/path.h"
#include "engine/engine.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DISKS 16
/* What was in it is counted until a transaction is written, and would be told of the next sandbox.
 * By the kernel's count, because what is deleted and was open until just now is in no directory. */
#define MOST_BYTES (128 << 10)
#define MOST_FILES 64
#define MOST_DEPTH 8

void cay_leftover_name(char out[CAY_LEFTOVER_NAME], unsigned n)
{
    snprintf(out, CAY_LEFTOVER_NAME, CAY_LEFTOVER "%d-%u", (int)getpid(), n);
}

bool cay_leftover_is(const char *name)
{
    return strncmp(name, CAY_LEFTOVER, strlen(CAY_LEFTOVER)) == 0;
}

static bool empty(int at, const char *name, int depth, int *files_left);

static bool remove_one(int dir, const char *name, int depth, int *files_left)
{
    struct stat st;
    if (--*files_left < 0 || fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return false;
    bool is_dir = S_ISDIR(st.st_mode);
    if (is_dir && !empty(dir, name, depth - 1, files_left))
        return false;
    return unlinkat(dir, name, is_dir ? AT_REMOVEDIR : 0) == 0;
}

static bool empty(int at, const char *name, int depth, int *files_left)
{
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        cay_close_fd(&fd);
        return false;
    }
    bool done = depth > 0;
    for (struct dirent *e; done && (e = readdir(dir));)
        done = cay_path_is_dots(e->d_name) || remove_one(fd, e->d_name, depth, files_left);
    closedir(dir);
    return done;
}

static unsigned disks;

bool cay_leftover_put_disk(const struct cay_disk *d, const char *id)
{
    char name[CAY_LEFTOVER_NAME];
    struct cay_error ignored; /* the next engine removes it */
    uint64_t used, limit;
    int files_left = MOST_FILES;
    if (disks == DISKS || !cay_disk_usage(d, id, &used, &limit) || used > MOST_BYTES)
        return false;
    /* Its name first: nobody finds half of a snapshot, wherever this is cut. */
    cay_leftover_name(name, disks);
    if (renameat2(d->fd, id, d->fd, name, RENAME_NOREPLACE) < 0)
        return false;
    cay_engine_crash("delete-put-by", id);
    if (empty(d->fd, name, MOST_DEPTH, &files_left))
        disks++;
    else
        (void)cay_disk_remove(d, name, &ignored);
    return true;
}

bool cay_leftover_take_disk(const struct cay_disk *d, const char *id, uint64_t bytes)
{
    char name[CAY_LEFTOVER_NAME];
    struct cay_error ignored; /* then a new one is made */
    if (disks == 0)
        return false;
    cay_leftover_name(name, --disks);
    if (cay_disk_limit(d, name, bytes, &ignored) == 0 &&
        renameat2(d->fd, name, d->fd, id, RENAME_NOREPLACE) == 0)
        return true;
    (void)cay_disk_remove(d, name, &ignored); /* else the next engine does */
    return false;
}
