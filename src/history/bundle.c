/* SPDX-License-Identifier: Apache-2.0 */
/* All of a history as a git bundle, and as another sandbox's. */
#include "base/clock.h"
#include "base/path.h"
#include "history/inside.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static int on_piece(void *data, size_t len, void *fd)
{
    return cay_write_all(*(int *)fd, data, len) ? 0 : -1;
}

int cay_history_bundle(struct cay_history *h, int fd, struct cay_error *err)
{
    char head[160], id[CAY_COMMIT_SIZE];
    git_packbuilder *pack = NULL;
    git_revwalk *walk = NULL;
    if (!h->has_head)
        return cay_fail_as(err, CAY_ERR_NOT_FOUND, "NO_HISTORY", "there is no version yet");
    (void)git_oid_tostr(id, sizeof id, &h->head);
    int len =
        snprintf(head, sizeof head, "# v2 git bundle\n%s refs/heads/main\n%s HEAD\n\n", id, id);
    int r = git_packbuilder_new(&pack, h->repo);
    if (r == 0)
        r = git_revwalk_new(&walk, h->repo);
    if (r == 0)
        r = git_revwalk_push(walk, &h->head);
    if (r == 0)
        r = git_packbuilder_insert_walk(pack, walk);
    if (r == 0 && !cay_write_all(fd, head, (size_t)len))
        r = -1;
    if (r == 0)
        r = git_packbuilder_foreach(pack, on_piece, &fd);
    git_revwalk_free(walk);
    git_packbuilder_free(pack);
    return r < 0 ? cay_history_fail(err, "the history cannot be written") : 0;
}

/* ---- files of a history ---- */

static void close_dir(DIR **dir)
{
    if (*dir)
        (void)closedir(*dir);
}

typedef int (*on_entry)(int from_fd, const char *name, const struct stat *st, void *arg);

static int each(int from_fd, void *arg, on_entry entry)
{
    int r = 0, again = fcntl(from_fd, F_DUPFD_CLOEXEC, 0);
    CAY_CLEANUP(close_dir) DIR *dir = again < 0 ? NULL : fdopendir(again);
    if (!dir)
        return -1;
    rewinddir(dir);
    for (struct dirent *e; r == 0 && (e = readdir(dir));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        struct stat st;
        if (fstatat(from_fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
            r = entry(from_fd, e->d_name, &st, arg);
        else if (errno != ENOENT) /* somebody writes here: what went is no loss */
            r = -1;
    }
    return r;
}

static int open_below(int fd, const char *name)
{
    return openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static int remove_entry(int fd, const char *name, const struct stat *st, void *unused)
{
    bool is_dir = S_ISDIR(st->st_mode);
    if (is_dir) {
        CAY_AUTO_FD int sub = open_below(fd, name);
        if (sub < 0 || each(sub, unused, remove_entry) < 0)
            return -1;
    }
    return unlinkat(fd, name, is_dir ? AT_REMOVEDIR : 0);
}

void cay_history_remove(int dir_fd, const char *sandbox_id)
{
    struct stat st;
    if (cay_id_is_sandbox(sandbox_id) && fstatat(dir_fd, sandbox_id, &st, AT_SYMLINK_NOFOLLOW) == 0)
        (void)remove_entry(dir_fd, sandbox_id, &st, NULL); /* what stays goes at the next sweep */
}

void cay_history_sweep(int dir_fd, int64_t older_than_ms,
                       bool (*is_alive)(void *arg, const char *id), void *arg)
{
    CAY_CLEANUP(close_dir) DIR *dir = dir_fd < 0 ? NULL : fdopendir(open_below(dir_fd, "."));
    const int64_t before_s = (cay_clock_ms() - older_than_ms) / 1000;
    struct stat st;
    for (struct dirent *d; dir && (d = readdir(dir));)
        if (cay_id_is_sandbox(d->d_name) && !is_alive(arg, d->d_name) &&
            fstatat(dir_fd, d->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_mtime < before_s)
            cay_history_remove(dir_fd, d->d_name);
}

static int add_entry(int fd, const char *name, const struct stat *st, void *bytes)
{
    *(uint64_t *)bytes += (uint64_t)st->st_blocks * 512;
    CAY_AUTO_FD int sub = S_ISDIR(st->st_mode) ? open_below(fd, name) : -1;
    return sub < 0 ? 0 : each(sub, bytes, add_entry);
}

uint64_t cay_history_measure(const struct cay_history *h)
{
    uint64_t bytes = 0;
    (void)each(h->fd, &bytes, add_entry); /* what cannot be looked at takes little */
    return bytes;
}

/* What somebody is writing, or was when he was killed: it counts for nothing. */
static bool is_temporary(const char *name)
{
    const char *dot = strrchr(name, '.');
    return strcmp(name, CAY_PACK_DRAFT) == 0 || strncmp(name, "tmp_object", 10) == 0 ||
           strncmp(name, "pack_git2", 9) == 0 ||
           (dot && (strcmp(dot, ".lock") == 0 || strcmp(dot, ".tmp") == 0));
}

/* Objects never change, so both may have them; everything else is a copy. What went, or is there
 * already, is well. */
static int copy_entry(int from_fd, const char *name, const struct stat *st, void *arg)
{
    int to_fd = *(const int *)arg;
    bool lasts = strlen(name) == 38 || strncmp(name, "pack-", 5) == 0;
    if (is_temporary(name))
        return 0;
    if (S_ISDIR(st->st_mode)) {
        if (mkdirat(to_fd, name, 0700) < 0 && errno != EEXIST)
            return -1;
        CAY_AUTO_FD int to = open_below(to_fd, name);
        CAY_AUTO_FD int from = open_below(from_fd, name);
        if (from < 0 || to < 0)
            return from < 0 && errno == ENOENT ? 0 : -1;
        return each(from, &to, copy_entry);
    }
    if (lasts)
        return linkat(from_fd, name, to_fd, name, 0) < 0 && errno != ENOENT && errno != EEXIST ? -1
                                                                                               : 0;
    CAY_AUTO_FD int from = openat(from_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (from < 0 && errno == ENOENT)
        return 0;
    CAY_AUTO_FD int to = openat(to_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (to < 0 && errno == EEXIST)
        return 0;
    ssize_t n = -1;
    while (from >= 0 && to >= 0 && (n = copy_file_range(from, NULL, to, NULL, 1 << 20, 0)) > 0)
        ;
    return n < 0 ? -1 : 0;
}

int cay_history_copy(int dir_fd, const struct cay_history *from, const char *to_id,
                     struct cay_error *err)
{
    CAY_AUTO_FD int to = -1;
    int r = cay_path_open_dir(dir_fd, to_id, 0700, &to, err);
    if (r == 0 && each(from->fd, &to, copy_entry) < 0)
        r = cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot copy a history");
    if (r < 0)
        cay_history_remove(dir_fd, to_id);
    return r;
}

/* The journal first: what it names is there by then. */
int cay_history_save(int from_fd, const char *sandbox_id, int to_fd, struct cay_error *err)
{
    static const struct stat plain = {.st_mode = S_IFREG};
    CAY_AUTO_FD int from = open_below(from_fd, sandbox_id), to = -1;
    if (from < 0 && errno == ENOENT)
        return 0;
    int r = cay_path_open_dir(to_fd, sandbox_id, 0700, &to, err);
    if (r == 0 && (from < 0 || copy_entry(from, "journal", &plain, &to) < 0 ||
                   copy_entry(from, "index", &plain, &to) < 0 || each(from, &to, copy_entry) < 0))
        r = cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot copy a history");
    return r;
}
