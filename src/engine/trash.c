/* SPDX-License-Identifier: Apache-2.0 */
/* Removing trees that sandboxes made: of any depth, with any names, in a process of its own.
 *
 * A tenant can nest directories deeper than any path or stack, so only the directory that we are in
 * is open, and the way back is "..": nobody else moves anything here. Nothing is renamed or
 * written, because a tree that is full to its quota would refuse that. */
#include "base/log.h"
#include "base/path.h"
#include "engine/dispatcher.h"
#include "engine/leftover.h"
#include "engine/trees.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define SAME_TRIES 8 /* while it is read, a directory may hide what is left of it */

/* Removes what can be removed at once. Returns the first directory that has something in it, -1
 * when nothing is left, -2 when something is that cannot go. */
static int empty_here(int at)
{
    int found = -1;
    int fd = openat(at, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        cay_close_fd(&fd);
        return -2;
    }
    for (struct dirent *e; found == -1 && (e = readdir(dir));) {
        if (cay_path_is_dots(e->d_name) || unlinkat(at, e->d_name, 0) == 0 ||
            unlinkat(at, e->d_name, AT_REMOVEDIR) == 0)
            continue;
        found = openat(at, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (found < 0)
            found = -2;
    }
    closedir(dir);
    return found;
}

/* One that was emptied and is found again does not want to go. */
static bool is_again(int fd, ino_t *last, int *times)
{
    struct stat st = {0};
    (void)fstat(fd, &st);
    *times = st.st_ino == *last ? *times + 1 : 0;
    *last = st.st_ino;
    return *times > SAME_TRIES;
}

/* What cannot be removed stays, and is tried again at the next start. */
void cay_trash_remove(int dirfd, const char *name)
{
    ino_t last = 0;
    int times = 0;
    CAY_AUTO_FD int at = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    for (size_t depth = 0; at >= 0;) {
        int next = empty_here(at);
        bool down = next >= 0;
        if (next == -2 || (down && is_again(next, &last, &times)) || (!down && depth == 0)) {
            cay_close_fd(&next);
            break;
        }
        if (!down)
            next = openat(at, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        cay_close_fd(&at);
        at = next;
        depth = down ? depth + 1 : depth - 1;
    }
    (void)unlinkat(dirfd, name, AT_REMOVEDIR); /* see above */
}

static void empty_in(int dirfd)
{
    int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    for (struct dirent *e; dir && (e = readdir(dir));)
        if (!cay_path_is_dots(e->d_name) && unlinkat(dirfd, e->d_name, 0) < 0)
            cay_trash_remove(dirfd, e->d_name);
    if (dir)
        closedir(dir);
}

static bool is_empty(int dirfd)
{
    bool found = false;
    int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    for (struct dirent *e; !found && dir && (e = readdir(dir));)
        found = !cay_path_is_dots(e->d_name);
    if (dir)
        closedir(dir);
    return !found;
}

/* Rubbish in a tree that stays. It cannot be moved out where the tree is a subvolume. */
static void empty_old(const struct cay_engine *engine, const char *id)
{
    char path[64];
    snprintf(path, sizeof path, "%.32s/" CAY_TREE_OLD, id);
    CAY_AUTO_FD int fd =
        openat(engine->files_fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0)
        empty_in(fd);
    (void)unlinkat(engine->trash_fd, id, 0);
    if (fd < 0 || is_empty(fd))
        return;
    /* More came meanwhile: it is for the next of us. */
    CAY_AUTO_FD int again = openat(engine->trash_fd, id, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
}

static void clear_after(const struct cay_engine *engine, pid_t spawner)
{
    char prefix[CAY_LEFTOVER_NAME];
    cay_leftover_prefix(prefix, spawner);
    cay_trees_clear(engine, prefix);
    cay_leftover_clear_cgroups(&engine->kit.cgroups, prefix);
    cay_leftover_clear_files(engine->records_fd, prefix);
}

static void CAY_NORETURN empty(const struct cay_dispatcher *d, bool backups)
{
    const struct cay_engine *engine = &d->engine;
    (void)setpriority(PRIO_PROCESS, 0, 10); /* never at the cost of those who wait */
    for (int i = 0; i < d->gone_count; i++)
        clear_after(engine, d->gone[i]);
    if (backups)
        cay_trees_clear(engine, CAY_TREE_NEW CAY_TREE_BACKUP);
    int fd = openat(engine->trash_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        bool tree = cay_id_is_sandbox(e->d_name) || cay_id_is_snapshot(e->d_name) ||
                    cay_id_is_volume(e->d_name);
        if (tree)
            empty_old(engine, e->d_name);
        else if (!cay_path_is_dots(e->d_name) && unlinkat(engine->trash_fd, e->d_name, 0) < 0)
            cay_trash_remove(engine->trash_fd, e->d_name);
    }
    if (engine->disk.trash_fd >= 0)
        empty_in(engine->disk.trash_fd);
    _exit(0);
}

/* One child for all that came in since the last look: a fork for each would cost the next caller.
 */
void cay_trash_tick(struct cay_dispatcher *d)
{
    if (!d->trash_wanted || d->trash_pid > 0)
        return;
    bool backups = cay_backup_clears(d);
    pid_t pid = cay_jobs_fork(d, "cay-trash");
    if (pid == 0)
        empty(d, backups);
    d->trash_wanted = pid < 0; /* else what is there now would wait for more to come */
    if (pid < 0) {
        cay_log_warn("cannot fork to empty the trash: %s", strerror(errno));
    } else {
        d->trash_pid = pid;
        d->gone_count = 0;
        d->backup.clearing = backups;
        d->backup.rubbish &= !backups;
    }
}
