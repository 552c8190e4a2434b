/* SPDX-License-Identifier: Apache-2.0 */
/* The tree is a stranger's: no link in it is followed, nothing but regular files is opened, and
 * depth costs memory only. The way back up is "..", and has to lead where we came from. */
#include "engine/copy.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/path.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#define CHUNK (4 << 20) /* between two looks at the clock */
#define FD_PATH 32
#define MAX_WAY_BYTES (64 << 20) /* what we remember of the way down */

/* A directory on the way down. */
struct level {
    struct level *up;
    struct stat from, to;
    struct cay_buf names; /* of directories in it, each with its NUL */
    size_t at;
};

struct copying {
    int from, to; /* where we are */
    int links;    /* every file with several names, by its inode number */
    int64_t until_ms;
    struct level *level;
    size_t way_bytes; /* of all levels and their names */
    bool cloned, copied;
    uint64_t bytes;
    char *names, *value; /* of attributes, as large as the kernel has them */
    void *buffer;        /* CHUNK bytes, once needed */
};

static void leave(struct copying *c)
{
    struct level *level = c->level;
    c->level = level->up;
    c->way_bytes -= sizeof *level + level->names.len;
    cay_buf_done(&level->names);
    free(level);
}

static void done(struct copying *c)
{
    cay_close_fd(&c->from);
    cay_close_fd(&c->to);
    while (c->level)
        leave(c);
    free(c->names);
    free(c->value);
    free(c->buffer);
}

static int late(const struct copying *c, struct cay_error *err)
{
    if (cay_clock_mono_ms() < c->until_ms)
        return 0;
    return cay_fail(err, CAY_ERR_TIMEOUT, "there is too much to copy in time");
}

/* ---- attributes ---- */

/* By this name even what is open with O_PATH has attributes, and a symlink its own. */
static void fd_path(int fd, char out[FD_PATH])
{
    snprintf(out, FD_PATH, "/proc/self/fd/%d", fd);
}

static int copy_xattrs(const struct copying *c, const char *from, const char *to,
                       struct cay_error *err)
{
    ssize_t len = listxattr(from, c->names, XATTR_LIST_MAX);
    if (len < 0 && errno != ENOTSUP)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot list the attributes of a file");
    for (char *name = c->names; len > 0 && name < c->names + len; name += strlen(name) + 1) {
        ssize_t size = getxattr(from, name, c->value, XATTR_SIZE_MAX);
        if (size < 0 && errno == ENODATA)
            continue; /* gone meanwhile */
        if (size < 0 || setxattr(to, name, c->value, (size_t)size, 0) < 0)
            return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot copy an attribute of a file");
    }
    return 0;
}

/* In this order: a change of owner takes modes and capabilities away, and all change times. */
static int copy_attributes(const struct copying *c, int from, int to, const struct stat *st,
                           struct cay_error *err)
{
    char a[FD_PATH], b[FD_PATH];
    const struct timespec times[2] = {st->st_atim, st->st_mtim};
    fd_path(from, a);
    fd_path(to, b);
    if (fchownat(to, "", st->st_uid, st->st_gid, AT_EMPTY_PATH) < 0 ||
        (!S_ISLNK(st->st_mode) && chmod(b, st->st_mode & 07777) < 0))
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot copy the owner of a file");
    int r = copy_xattrs(c, a, b, err);
    if (r == 0 && utimensat(AT_FDCWD, b, times, 0) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot copy the times of a file");
    return r;
}

/* ---- data ---- */

/* One chunk at most; returns what it moved. */
static ssize_t move_chunk(struct copying *c, int from, int to, off_t at, size_t len)
{
    loff_t in = at, out = at;
    ssize_t n = copy_file_range(from, &in, to, &out, len, 0);
    if (n > 0 || (n < 0 && (errno == ENOSPC || errno == EDQUOT || errno == EIO)))
        return n;
    if (!c->buffer)
        c->buffer = malloc(CHUNK);
    n = c->buffer ? pread(from, c->buffer, len, at) : -1;
    return n <= 0 ? n : pwrite(to, c->buffer, (size_t)n, at);
}

static int copy_range(struct copying *c, int from, int to, off_t at, off_t end,
                      struct cay_error *err)
{
    while (at < end) {
        size_t len = end - at < CHUNK ? (size_t)(end - at) : CHUNK;
        ssize_t n = move_chunk(c, from, to, at, len);
        if (n < 0)
            return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot copy a file");
        if (n == 0)
            return 0; /* it has become shorter */
        at += n;
        int r = late(c, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static int copy_data(struct copying *c, int from, int to, off_t size, struct cay_error *err)
{
    if (size > 0 && !c->copied && ioctl(to, FICLONE, from) == 0) {
        c->cloned = true;
        return 0;
    }
    if (ftruncate(to, size) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot copy a file");
    c->copied |= size > 0;
    for (off_t at = 0; at < size;) {
        off_t data = lseek(from, at, SEEK_DATA);
        if (data < 0 && errno == ENXIO)
            return 0; /* a hole to the end */
        if (data < 0)
            data = at; /* a filesystem that knows no holes */
        off_t hole = lseek(from, data, SEEK_HOLE);
        if (hole < 0 || hole > size)
            hole = size;
        int r = copy_range(c, from, to, data, hole, err);
        if (r < 0)
            return r;
        at = hole;
    }
    return 0;
}

/* ---- one entry ---- */

static int copy_regular(struct copying *c, int file, const char *name, const struct stat *st,
                        struct cay_error *err)
{
    char path[FD_PATH];
    fd_path(file, path); /* no other file by now: `file` holds it */
    CAY_AUTO_FD int from = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* waits for no lease */
    CAY_AUTO_FD int to =
        openat(c->to, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (from < 0 || to < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot open a file to copy");
    c->bytes += (uint64_t)st->st_blocks * 512;
    int r = copy_data(c, from, to, st->st_size, err);
    return r < 0 ? r : copy_attributes(c, file, to, st, err);
}

static int make_special(struct copying *c, int file, const char *name, const struct stat *st)
{
    if (!S_ISLNK(st->st_mode))
        return mknodat(c->to, name, st->st_mode & ~07777U, st->st_rdev);
    char to[4096];
    ssize_t n = readlinkat(file, "", to, sizeof to - 1);
    if (n < 0)
        return -1;
    to[n] = 0;
    return symlinkat(to, c->to, name);
}

static int copy_special(struct copying *c, int file, const char *name, const struct stat *st,
                        struct cay_error *err)
{
    if (make_special(c, file, name, st) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot copy a special file");
    CAY_AUTO_FD int to = openat(c->to, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (to < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot copy a special file");
    return copy_attributes(c, file, to, st, err);
}

/* Pipes, and of devices the whiteouts: a sandbox cannot make others. */
static bool is_copied(const struct stat *st)
{
    return S_ISREG(st->st_mode) || S_ISLNK(st->st_mode) || S_ISFIFO(st->st_mode) ||
           (S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0));
}

static int copy_file(struct copying *c, int file, const char *name, const struct stat *st,
                     struct cay_error *err)
{
    char key[32];
    snprintf(key, sizeof key, "%llu", (unsigned long long)st->st_ino);
    if (!is_copied(st))
        return 0;
    if (st->st_nlink > 1 && linkat(c->links, key, c->to, name, 0) == 0)
        return 0;
    int r = S_ISREG(st->st_mode) ? copy_regular(c, file, name, st, err)
                                 : copy_special(c, file, name, st, err);
    if (r < 0 || st->st_nlink == 1)
        return r;
    (void)unlinkat(c->links, key,
                   0); /* a file that takes no more names: the next ones share this */
    if (linkat(c->to, name, c->links, key, 0) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot keep a hard link");
    return 0;
}

static int copy_entry(struct copying *c, const char *name, struct cay_error *err)
{
    struct stat st;
    CAY_AUTO_FD int file = openat(c->from, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (file < 0 && errno == ENOENT)
        return 0; /* gone meanwhile */
    if (file < 0 || fstat(file, &st) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot look at a file");
    if (!S_ISDIR(st.st_mode))
        return copy_file(c, file, name, &st, err);
    size_t len = strlen(name) + 1;
    c->way_bytes += len;
    if (c->way_bytes > MAX_WAY_BYTES)
        return cay_fail(err, CAY_ERR_TOO_LARGE, "there are too many directories to copy");
    cay_buf_add(&c->level->names, name, len);
    return 0;
}

/* ---- directories ---- */

/* Where we are now becomes the level that is worked on; all in it that is no directory is copied.
 */
static int enter(struct copying *c, struct cay_error *err)
{
    struct level *level = calloc(1, sizeof *level);
    if (!level)
        return cay_fail(err, CAY_ERR_PROVIDER, "no memory to go deeper");
    level->up = c->level;
    c->level = level;
    c->way_bytes += sizeof *level;
    int fd = openat(c->from, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir || fstat(c->from, &level->from) < 0 || fstat(c->to, &level->to) < 0) {
        int r = cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot read a directory");
        dir ? (void)closedir(dir) : cay_close_fd(&fd);
        return r;
    }
    int r = 0;
    errno = 0;
    for (struct dirent *e; r == 0 && (e = readdir(dir)); errno = 0)
        if (!cay_path_is_dots(e->d_name)) {
            r = copy_entry(c, e->d_name, err);
            r = r < 0 ? r : late(c, err);
        }
    if (r == 0 && errno)
        r = cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot read a directory");
    closedir(dir);
    return r;
}

static int go_down(struct copying *c, const char *name, struct cay_error *err)
{
    CAY_AUTO_FD int from = openat(c->from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (from < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP))
        return 0; /* another thing meanwhile, or nothing */
    if (from < 0 || mkdirat(c->to, name, 0700) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot make a directory");
    CAY_AUTO_FD int to = openat(c->to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (to < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot open a directory");
    cay_close_fd(&c->from);
    cay_close_fd(&c->to);
    c->from = cay_take_fd(&from);
    c->to = cay_take_fd(&to);
    return enter(c, err);
}

static bool is_same(int fd, const struct stat *st)
{
    struct stat now;
    return fd >= 0 && fstat(fd, &now) == 0 && now.st_dev == st->st_dev && now.st_ino == st->st_ino;
}

static int go_up(struct copying *c, struct cay_error *err)
{
    struct level *level = c->level;
    int r = copy_attributes(c, c->from, c->to, &level->from, err);
    if (r < 0 || !level->up)
        return r;
    CAY_AUTO_FD int from = openat(c->from, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CAY_AUTO_FD int to = openat(c->to, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (!is_same(from, &level->up->from) || !is_same(to, &level->up->to))
        return cay_fail(err, CAY_ERR_CONFLICT, "a directory was moved while it was copied");
    cay_close_fd(&c->from);
    cay_close_fd(&c->to);
    c->from = cay_take_fd(&from);
    c->to = cay_take_fd(&to);
    return 0;
}

/* Each of these names would be one too many in the copy. */
static int drop_links(int links, struct cay_error *err)
{
    int fd = openat(links, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    int r = dir ? 0 : cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot list hard links");
    for (struct dirent *e; r == 0 && (e = readdir(dir));)
        if (!cay_path_is_dots(e->d_name) && unlinkat(links, e->d_name, 0) < 0)
            r = cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot remove a hard link");
    if (dir)
        closedir(dir);
    return r;
}

int cay_copy_tree(int from, int to, int links, int64_t until_ms, const char **method_out,
                  uint64_t *bytes_out, struct cay_error *err)
{
    CAY_CLEANUP(done)
    struct copying c = {.from = fcntl(from, F_DUPFD_CLOEXEC, 0),
                        .to = fcntl(to, F_DUPFD_CLOEXEC, 0),
                        .links = links,
                        .until_ms = until_ms,
                        .names = malloc(XATTR_LIST_MAX),
                        .value = malloc(XATTR_SIZE_MAX)};
    if (c.from < 0 || c.to < 0 || !c.names || !c.value)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot open a tree");
    int r = enter(&c, err);
    while (r == 0 && c.level) {
        struct level *level = c.level;
        if (level->at < level->names.len) {
            const char *name = level->names.data + level->at;
            level->at += strlen(name) + 1;
            r = go_down(&c, name, err);
        } else {
            r = go_up(&c, err);
            if (r == 0)
                leave(&c);
        }
    }
    if (r == 0)
        r = drop_links(links, err);
    if (r < 0)
        return r;
    *method_out = c.cloned && !c.copied ? "reflink" : "copy";
    *bytes_out = c.bytes;
    return 0;
}
