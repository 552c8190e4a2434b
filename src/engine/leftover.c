/* SPDX-License-Identifier: Apache-2.0 */
/* For the kernel a subvolume is more work to make, and much more to drop, than all the files of a
 * sandbox that did little: where there are quotas it ends a transaction for each one that it drops,
 * with a wait for the disk.
 *
 * The end of a memory cgroup is as costly: the kernel looks in every mounted filesystem for what
 * was counted to it, and a sandbox has five of those. */
#include "engine/leftover.h"
#include "base/path.h"
#include "engine/engine.h"
#include "engine/hierarchy.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DISKS 16
#define CGROUPS 8
#define MOST_MEMORY (1 << 20) /* in caches, say, and counted to the next one */
/* What was in it is counted until a transaction is written, and would be told of the next sandbox.
 * By the kernel's count, because what is deleted and was open until just now is in no directory. */
#define MOST_BYTES (128 << 10)
#define MOST_FILES 64
#define MOST_DEPTH 8

void cay_leftover_name(char out[CAY_LEFTOVER_NAME], unsigned n)
{
    snprintf(out, CAY_LEFTOVER_NAME, CAY_LEFTOVER "%d-%u", (int)getpid(), n);
}

void cay_leftover_prefix(char out[CAY_LEFTOVER_NAME], pid_t of)
{
    snprintf(out, CAY_LEFTOVER_NAME, CAY_LEFTOVER "%d-", (int)of);
}

bool cay_leftover_is(const char *name)
{
    return strncmp(name, CAY_LEFTOVER, strlen(CAY_LEFTOVER)) == 0;
}

/* What only the engine writes is as good for the next one: the image's settings, which are the same
 * if the image is, and the directory in which overlayfs works, once nothing is in it. */
enum lot { GOES, IS_EMPTIED, STAYS };

static enum lot lot_of(const char *name, int depth)
{
    if (depth < MOST_DEPTH)
        return GOES;
    return strcmp(name, "image") == 0 ? STAYS : strcmp(name, "work") == 0 ? IS_EMPTIED : GOES;
}

static bool empty(int at, const char *name, int depth, int *files_left);

/* Tried before it is looked at: most directories are empty. */
static bool remove_one(int dir, const char *name, int depth, int *files_left)
{
    enum lot lot = lot_of(name, depth);
    if (lot == STAYS)
        return true;
    if (--*files_left < 0)
        return false;
    if (lot == IS_EMPTIED)
        return empty(dir, name, depth - 1, files_left);
    if (unlinkat(dir, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
        return true;
    if (errno == ENOTDIR)
        return unlinkat(dir, name, 0) == 0;
    return errno == ENOTEMPTY && empty(dir, name, depth - 1, files_left) &&
           unlinkat(dir, name, AT_REMOVEDIR) == 0;
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

/* ---- cgroups ---- */

static unsigned cgroups[CAY_CG_COUNT]; /* by tree */

/* v2's cannot be named anew, and what was used of a processor can be told of one sandbox only. */
static bool is_for_all(const struct cay_cgroups *c, int tree)
{
    return !c->trees[tree].v2 && c->of[CAY_CG_CPUACCT] != tree && c->of[CAY_CG_FREEZER] != tree;
}

static bool put_cgroup(const struct cay_cgroups *c, int tree, const char *id)
{
    char name[CAY_LEFTOVER_NAME];
    struct stat st;
    int parent = c->trees[tree].parent_fd;
    if (!is_for_all(c, tree) || cgroups[tree] == CGROUPS ||
        fstatat(parent, id, &st, AT_SYMLINK_NOFOLLOW) < 0 || st.st_nlink > 2)
        return false; /* cgroups in it are somebody's, too */
    cay_leftover_name(name, cgroups[tree]);
    if (renameat(parent, id, parent, name) < 0)
        return false;
    cgroups[tree]++;
    return true;
}

static void put_back(const struct cay_cgroups *c, int tree, const char *id)
{
    char name[CAY_LEFTOVER_NAME];
    int parent = c->trees[tree].parent_fd;
    cay_leftover_name(name, --cgroups[tree]);
    (void)renameat(parent, name, parent, id);
}

/* Kills and refusals are counted for as long as there is a cgroup. And one that is named anew does
 * not refuse it when somebody is in it, as one that is removed would: a first process whose spawner
 * died may have been about to enter. By the old name nobody comes in any more. */
void cay_leftover_put_cgroups(const struct cay_cgroups *c, const char *id)
{
    char name[CAY_LEFTOVER_NAME];
    int of_pids = c->of[CAY_CG_PIDS];
    if (of_pids < 0 || !cay_cgroup_is_blank(c, id, MOST_MEMORY) || !put_cgroup(c, of_pids, id))
        return;
    cay_leftover_name(name, cgroups[of_pids] - 1);
    if (!cay_cgroup_is_empty(c, name)) {
        put_back(c, of_pids, id);
        return;
    }
    for (int i = 0; i < c->tree_count; i++)
        if (i != of_pids)
            (void)put_cgroup(c, i, id);
}

/* The most it ever had, and the limit that must not be below the other. */
static void forget_memory(int parent, const char *id)
{
    char path[CAY_CGROUP_NAME + 64];
    snprintf(path, sizeof path, "%s/memory.max_usage_in_bytes", id);
    (void)cay_small_write(parent, path, "0");
    snprintf(path, sizeof path, "%s/memory.memsw.limit_in_bytes", id);
    (void)cay_small_write(parent, path, "-1"); /* there is none where swap is not counted */
}

void cay_leftover_take_cgroups(const struct cay_cgroups *c, const char *id)
{
    char name[CAY_LEFTOVER_NAME];
    for (int i = 0; i < c->tree_count; i++) {
        if (cgroups[i] == 0)
            continue;
        cay_leftover_name(name, --cgroups[i]);
        if (renameat(c->trees[i].parent_fd, name, c->trees[i].parent_fd, id) < 0)
            (void)unlinkat(c->trees[i].parent_fd, name, AT_REMOVEDIR); /* there is one already */
        else if (c->of[CAY_CG_MEMORY] == i)
            forget_memory(c->trees[i].parent_fd, id);
    }
}

static void clear(int parent, const char *prefix, int flags)
{
    int fd = openat(parent, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    for (struct dirent *e; dir && (e = readdir(dir));)
        if (strncmp(e->d_name, prefix, strlen(prefix)) == 0)
            (void)unlinkat(parent, e->d_name, flags); /* next time, then */
    if (dir)
        closedir(dir);
    else
        cay_close_fd(&fd);
}

void cay_leftover_clear_cgroups(const struct cay_cgroups *c, const char *prefix)
{
    for (int i = 0; i < c->tree_count; i++)
        clear(c->trees[i].parent_fd, prefix, AT_REMOVEDIR);
}

void cay_leftover_clear_files(int dir_fd, const char *prefix)
{
    clear(dir_fd, prefix, 0);
}
