/* SPDX-License-Identifier: Apache-2.0 */
/* Removing trees that sandboxes made: of any depth, with any names, in a process of its own.
 *
 * A tenant can nest directories deeper than any path or stack: a directory found on the way down is
 * renamed up into the tree's top and removed from there in its turn, so depth costs nothing. */
#include "base/log.h"
#include "engine/dispatcher.h"
#include "engine/trees.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

static bool is_dots(const char *name)
{
    return name[0] == '.' && (!name[1] || (name[1] == '.' && !name[2]));
}

/* Empties a directory; what is a directory itself is moved up beside it under a fresh name. */
static void flatten(int top, const char *name, unsigned *serial)
{
    int fd = openat(top, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        cay_close_fd(&fd);
        return;
    }
    (void)fchmod(fd, 0700); /* a mode of 0 does not stop root; a quota's helper it might */
    for (struct dirent *e; (e = readdir(dir));) {
        if (is_dots(e->d_name) || unlinkat(fd, e->d_name, 0) == 0)
            continue;
        if (unlinkat(fd, e->d_name, AT_REMOVEDIR) == 0)
            continue;
        char fresh[32];
        snprintf(fresh, sizeof fresh, "cay-trash-%u", (*serial)++);
        (void)renameat(fd, e->d_name, top, fresh); /* stays, and is tried again at the next start */
    }
    closedir(dir);
}

/* Each pass empties the directories that the last one moved up; none left: done. */
void cay_trash_remove(int dirfd, const char *name)
{
    unsigned serial = 0;
    flatten(dirfd, name, &serial);
    if (unlinkat(dirfd, name, AT_REMOVEDIR) == 0 && serial == 0)
        return;
    for (unsigned at = 0; at < serial; at++) {
        char fresh[32];
        snprintf(fresh, sizeof fresh, "cay-trash-%u", at);
        flatten(dirfd, fresh, &serial);
        (void)unlinkat(dirfd, fresh, AT_REMOVEDIR); /* see flatten */
    }
}

static void empty_in(int dirfd)
{
    int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    for (struct dirent *e; dir && (e = readdir(dir));)
        if (!is_dots(e->d_name) && unlinkat(dirfd, e->d_name, 0) < 0)
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
        found = !is_dots(e->d_name);
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

static void CAY_NORETURN empty(const struct cay_engine *engine)
{
    (void)prctl(PR_SET_NAME, "cay-trash");
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)setpriority(PRIO_PROCESS, 0, 10); /* never at the cost of those who wait */
    int fd = openat(engine->trash_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        bool tree = cay_id_is_sandbox(e->d_name) || cay_id_is_snapshot(e->d_name) ||
                    cay_id_is_volume(e->d_name);
        if (tree)
            empty_old(engine, e->d_name);
        else if (!is_dots(e->d_name) && unlinkat(engine->trash_fd, e->d_name, 0) < 0)
            cay_trash_remove(engine->trash_fd, e->d_name);
    }
    _exit(0);
}

/* One child for all that came in since the last look: a fork for each would cost the next caller.
 */
void cay_trash_tick(struct cay_dispatcher *d)
{
    if (!d->trash_wanted || d->trash_pid > 0)
        return;
    d->trash_wanted = false;
    pid_t pid = fork();
    if (pid == 0)
        empty(&d->engine);
    if (pid < 0)
        cay_log_warn("cannot fork to empty the trash: %s", strerror(errno));
    else
        d->trash_pid = pid;
}
