/* SPDX-License-Identifier: Apache-2.0 */
/* What every operation of cay-file needs: whole reads and writes, codes, the reply. */
#include "file/file.h"
#include <errno.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/syscall.h>

static const struct {
    int error;
    enum cay_file_code code;
} codes[] = {
    {ENOENT, CAY_FILE_NOT_FOUND},
    {EISDIR, CAY_FILE_IS_A_DIRECTORY},
    {ENOTDIR, CAY_FILE_NOT_A_DIRECTORY},
    {ENXIO, CAY_FILE_NOT_A_FILE},
    {EACCES, CAY_FILE_PERMISSION},
    {EPERM, CAY_FILE_PERMISSION},
    {EROFS, CAY_FILE_READ_ONLY},
    {EEXIST, CAY_FILE_EXISTS},
    {ENOTEMPTY, CAY_FILE_NOT_EMPTY},
    {ENOSPC, CAY_FILE_NO_SPACE},
    {EDQUOT, CAY_FILE_NO_SPACE},
    {EFBIG, CAY_FILE_TOO_LARGE},
    {ELOOP, CAY_FILE_LOOP},
    {ENAMETOOLONG, CAY_FILE_INVALID_PATH},
    {EINVAL, CAY_FILE_INVALID_PATH},
    {EBUSY, CAY_FILE_BUSY},
    {ETXTBSY, CAY_FILE_BUSY},
    {EXDEV, CAY_FILE_CROSS_DEVICE},
};

enum cay_file_code cay_file_code(int error)
{
    errno = error;
    for (size_t i = 0; i < CAY_COUNT(codes); i++)
        if (codes[i].error == error)
            return codes[i].code;
    return CAY_FILE_FAILED;
}

struct cay_file_info cay_file_info(const struct stat *st)
{
    return (struct cay_file_info){
        .size = (uint64_t)st->st_size,
        .inode = st->st_ino,
        .mtime_ns = st->st_mtim.tv_sec * 1000000000LL + st->st_mtim.tv_nsec,
        .mode = st->st_mode,
        .uid = st->st_uid,
        .gid = st->st_gid,
        .links = (uint32_t)st->st_nlink,
    };
}

bool cay_file_get(int fd, void *data, size_t len)
{
    for (char *at = data; len > 0;) {
        ssize_t n = read(fd, at, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            errno = n < 0 ? errno : 0;
            return false;
        }
        at += n;
        len -= (size_t)n;
    }
    return true;
}

void cay_file_tell(struct cay_file_reply *reply, const char *name, size_t len)
{
    if (len >= sizeof reply->detail)
        len = sizeof reply->detail - 1;
    memcpy(reply->detail, name, len);
    reply->detail[len] = 0;
}

void cay_file_answer(struct cay_file_reply *reply, enum cay_file_code code)
{
    reply->version = CAY_FILE_VERSION;
    reply->code = code;
    if (code == CAY_FILE_OK)
        reply->error = 0;
    if (!cay_write_all(STDOUT_FILENO, reply, sizeof *reply))
        _exit(1); /* nobody reads it */
}

void *cay_file_alloc(size_t size)
{
    void *p = calloc(1, size);
    if (!p)
        abort();
    return p;
}

int cay_file_rename(int from_fd, const char *from, int to_fd, const char *to, bool only_new)
{
    return (int)syscall(SYS_renameat2, from_fd, from, to_fd, to, only_new ? RENAME_NOREPLACE : 0);
}
