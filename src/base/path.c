/* SPDX-License-Identifier: Apache-2.0 */
#include "base/path.h"
#include "base/buf.h"
#include "base/id.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#define RESERVE_PART 4

int cay_path_open_dir(int dirfd, const char *name, mode_t mode, int *fd_out, struct cay_error *err)
{
    if (mkdirat(dirfd, name, mode) < 0 && errno != EEXIST)
        return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot make the directory %s", name);
    int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot open the directory %s", name);
    *fd_out = fd;
    return 0;
}

void cay_path_spread(int dirfd)
{
    int flags = 0;
    if (ioctl(dirfd, FS_IOC_GETFLAGS, &flags) < 0 || flags & FS_TOPDIR_FL)
        return;
    flags |= FS_TOPDIR_FL;
    (void)ioctl(dirfd, FS_IOC_SETFLAGS, &flags); /* it only takes longer */
}

bool cay_path_reserve(int fd, uint64_t bytes)
{
    struct statvfs fs;
    return fd >= 0 && fstatvfs(fd, &fs) == 0 &&
           (uint64_t)fs.f_bavail * fs.f_frsize / RESERVE_PART >= bytes &&
           fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, (off_t)bytes) == 0;
}

static int read_whole(int fd, const char *name, char *text, size_t size, size_t *len_out,
                      struct cay_error *err)
{
    size_t len = 0;
    while (len < size) {
        ssize_t got = read(fd, text + len, size - len);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot read %s", name);
        if (got == 0)
            break;
        len += (size_t)got;
    }
    if (len_out)
        *len_out = len;
    return 0;
}

int cay_path_read(int dirfd, const char *name, size_t max, struct cay_arena *a, char **out,
                  size_t *len_out, struct cay_error *err)
{
    struct stat st;
    /* O_NONBLOCK: a pipe in the file's place must not hold us up before fstat tells. */
    CAY_AUTO_FD int fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return cay_fail(err, CAY_ERR_NOT_FOUND, "there is no file %s", name);
    if (fd < 0 || fstat(fd, &st) < 0)
        return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot open %s", name);
    if (!S_ISREG(st.st_mode))
        return cay_fail(err, CAY_ERR_INTERNAL, "%s is not a regular file", name);
    if (st.st_size < 0 || (uintmax_t)st.st_size > max)
        return cay_fail(err, CAY_ERR_TOO_LARGE, "%s is larger than %zu bytes", name, max);

    size_t len = 0;
    char *text = cay_arena_alloc(a, (size_t)st.st_size + 1); /* zeroed: terminated */
    int r = read_whole(fd, name, text, (size_t)st.st_size, &len, err);
    if (r < 0)
        return r;
    *out = text;
    if (len_out)
        *len_out = len;
    return 0;
}

static int replace(int dirfd, const char *name, const void *data, size_t len, mode_t mode,
                   bool durable, struct cay_error *err)
{
    char beside[PATH_MAX], suffix[9];
    const char *slash = strrchr(name, '/'), *last = slash ? slash + 1 : name;
    cay_id_hex(suffix, 8);
    /* Hidden: should we die, nobody who lists the directory takes it for one of those in there. */
    if ((size_t)snprintf(beside, sizeof beside, "%.*s.%s.%s.tmp", (int)(last - name), name, last,
                         suffix) >= sizeof beside)
        return cay_fail(err, CAY_ERR_INTERNAL, "the path %s is too long", name);

    CAY_AUTO_FD int fd = openat(dirfd, beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot make %s", beside);
    if (!cay_write_all(fd, data, len) || fchmod(fd, mode) < 0 || (durable && fsync(fd) < 0) ||
        renameat(dirfd, beside, dirfd, name) < 0) {
        int r = cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot write %s", name);
        (void)unlinkat(dirfd, beside, 0); /* the error that matters is told already */
        return r;
    }
    if (durable && fsync(dirfd) < 0)
        return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot write %s to the disk", name);
    return 0;
}

int cay_path_replace(int dirfd, const char *name, const void *data, size_t len, mode_t mode,
                     struct cay_error *err)
{
    return replace(dirfd, name, data, len, mode, false, err);
}

int cay_path_store(int dirfd, const char *name, const void *data, size_t len, mode_t mode,
                   struct cay_error *err)
{
    return replace(dirfd, name, data, len, mode, true, err);
}
