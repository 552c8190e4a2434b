/* SPDX-License-Identifier: Apache-2.0 */
/* A tar file from stdin into a directory. Whatever it says, nothing outside of that directory is
 * touched: every name is resolved beneath it by the kernel, links that it made itself included.
 * What is there already is replaced; only directories stay. Not atomic: what was unpacked before a
 * failure stays. */
#include "base/beneath.h"
#include "file/file.h"
#include "file/tar.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#define CLOSED_DIRS 4096 /* whose modes would keep ourselves out until the end */

struct unpack {
    const struct cay_file_request *rq;
    struct cay_file_reply *reply;
    struct cay_unsqueeze in;
    struct cay_tar tar;
    struct cay_tar_entry entry;
    int top_fd;
    bool sets_owner;
    mode_t mode_mask;
    int dir_fd; /* of the last entry: most have the same */
    char dir[CAY_MAX_PATH + 1];
    struct {
        char *path;
        mode_t mode;
        dev_t dev;
        ino_t inode;
    } closed[CLOSED_DIRS];
    size_t closed_count;
};

static int open_dir(int top_fd, const char *path)
{
    return cay_open_beneath(top_fd, path, O_PATH | O_DIRECTORY,
                            RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS);
}

static enum cay_file_code refuse(struct unpack *u, const char *why)
{
    char text[sizeof u->reply->detail];
    size_t len = strnlen(why, sizeof text - 1), room = sizeof text - len;
    memcpy(text, why, len);
    size_t name = strnlen(u->entry.path, room - 3);
    if (u->entry.path[0] && room > 3) {
        memcpy(text + len, ": ", 2);
        memcpy(text + len + 2, u->entry.path, name);
        len += 2 + name;
    }
    cay_file_tell(u->reply, text, len);
    return CAY_FILE_BAD_ARCHIVE;
}

static enum cay_file_code failed(struct unpack *u, int error)
{
    cay_file_tell(u->reply, u->entry.path, strlen(u->entry.path));
    return cay_file_code(error);
}

/* Without leading slashes, doubled ones and dots. False: it has "..", or nothing is left. */
static bool clean(char *path)
{
    char *to = path;
    for (const char *at = path; *at;) {
        at += strspn(at, "/");
        size_t len = strcspn(at, "/");
        if (len == 2 && at[0] == '.' && at[1] == '.')
            return false;
        if (len > 0 && !(len == 1 && at[0] == '.')) {
            if (to > path)
                *to++ = '/';
            memmove(to, at, len);
            to += len;
        }
        at += len;
    }
    *to = 0;
    return true;
}

/* The directory of a path beneath the top, made where it is missing, and the name in there. */
static enum cay_file_code enter(struct unpack *u, const char *path, const char **name_out)
{
    const char *slash = strrchr(path, '/');
    size_t len = slash ? (size_t)(slash - path) : 0;
    char dir[CAY_MAX_PATH + 1];
    *name_out = slash ? slash + 1 : path;
    memcpy(dir, path, len);
    dir[len] = 0;
    if (u->dir_fd >= 0 && strcmp(dir, u->dir) == 0)
        return CAY_FILE_OK;
    cay_close_fd(&u->dir_fd);
    u->dir_fd = open_dir(u->top_fd, len ? dir : ".");
    for (size_t at = 0; u->dir_fd < 0 && errno == ENOENT && at < len;) {
        at += strcspn(dir + at, "/");
        dir[at] = 0;
        char *last = strrchr(dir, '/');
        if (last)
            *last = 0;
        CAY_AUTO_FD int parent = open_dir(u->top_fd, last ? dir : ".");
        if (parent < 0 || (mkdirat(parent, last ? last + 1 : dir, 0777) < 0 && errno != EEXIST))
            return errno == EXDEV ? refuse(u, "a link leads out of the directory")
                                  : failed(u, errno);
        memcpy(dir, path, len);
        at++;
        if (at > len)
            u->dir_fd = open_dir(u->top_fd, dir);
        else
            errno = ENOENT;
    }
    if (u->dir_fd < 0)
        return errno == EXDEV ? refuse(u, "a link leads out of the directory") : failed(u, errno);
    memcpy(u->dir, dir, len + 1);
    return CAY_FILE_OK;
}

static void set_owner(const struct unpack *u, const char *name)
{
    const struct cay_tar_entry *e = &u->entry;
    if (u->sets_owner && e->uid < 65535 && e->gid < 65535)
        (void)!fchownat(u->dir_fd, name, (uid_t)e->uid, (gid_t)e->gid, AT_SYMLINK_NOFOLLOW);
}

static void set_time(const struct unpack *u, const char *name)
{
    const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = u->entry.mtime}};
    (void)utimensat(u->dir_fd, name, times, AT_SYMLINK_NOFOLLOW); /* a wrong time harms nobody */
}

/* ---- the kinds of members ---- */

static bool is_zero(const char *data, size_t len)
{
    return len > 0 && data[0] == 0 && memcmp(data, data + 1, len - 1) == 0;
}

/* Zeros become holes, so that a file that was sparse is so again. */
static enum cay_file_code put_data(struct unpack *u, int fd)
{
    static char buf[CAY_FILE_CHUNK];
    uint64_t left = u->entry.size;
    while (left > 0) {
        size_t n = left < sizeof buf ? (size_t)left : sizeof buf;
        if (!cay_tar_read(&u->tar, buf, n))
            return refuse(u, "it ends in the middle");
        bool ok = is_zero(buf, n) ? lseek(fd, (off_t)n, SEEK_CUR) >= 0 : cay_write_all(fd, buf, n);
        if (!ok)
            return failed(u, errno);
        left -= n;
    }
    return ftruncate(fd, (off_t)u->entry.size) < 0 ? failed(u, errno) : CAY_FILE_OK;
}

static enum cay_file_code make_file(struct unpack *u, const char *name)
{
    const struct cay_tar_entry *e = &u->entry;
    u->reply->bytes += e->size;
    if (u->rq->limit_bytes && u->reply->bytes > u->rq->limit_bytes) {
        cay_file_tell(u->reply, e->path, strlen(e->path));
        return CAY_FILE_TOO_LARGE;
    }
    if (unlinkat(u->dir_fd, name, 0) < 0 && errno != ENOENT)
        return failed(u, errno);
    CAY_AUTO_FD int fd =
        openat(u->dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return failed(u, errno);
    enum cay_file_code code = put_data(u, fd);
    if (code != CAY_FILE_OK) {
        int saved = errno;
        (void)unlinkat(u->dir_fd, name, 0); /* half of a file is none */
        errno = saved;
        return code;
    }
    set_owner(u, name);
    if (fchmod(fd, e->mode) < 0)
        return failed(u, errno);
    set_time(u, name);
    return CAY_FILE_OK;
}

/* To be given its own mode at the end. By then links that lie on the way to it may lead elsewhere,
 * so the path alone does not say which directory it was. */
static void close_later(struct unpack *u, int fd)
{
    struct stat st;
    if (u->closed_count >= CLOSED_DIRS || fstat(fd, &st) < 0)
        return;
    u->closed[u->closed_count].path = strdup(u->entry.path);
    u->closed[u->closed_count].mode = u->entry.mode;
    u->closed[u->closed_count].dev = st.st_dev;
    u->closed[u->closed_count++].inode = st.st_ino;
}

static enum cay_file_code make_dir(struct unpack *u, const char *name)
{
    const struct cay_tar_entry *e = &u->entry;
    const mode_t open_mode = e->mode | 0700;
    struct stat st;
    if (mkdirat(u->dir_fd, name, open_mode) < 0) {
        if (errno != EEXIST || fstatat(u->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            return failed(u, errno);
        if (S_ISDIR(st.st_mode))
            return CAY_FILE_OK; /* it stays as it is */
        if (unlinkat(u->dir_fd, name, 0) < 0 || mkdirat(u->dir_fd, name, open_mode) < 0)
            return failed(u, errno);
    }
    /* Never by name: chmod follows links. Before it has another owner it is open to us. */
    CAY_AUTO_FD int fd = openat(u->dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno != EACCES) /* one that was there and is closed to us keeps its mode */
        return failed(u, errno);
    set_owner(u, name);
    if (fd >= 0)
        (void)fchmod(fd, open_mode); /* umask had its say, and what lies above 0777 */
    if (fd >= 0 && e->mode != open_mode)
        close_later(u, fd);
    return CAY_FILE_OK;
}

static enum cay_file_code make_link(struct unpack *u, const char *name)
{
    if (unlinkat(u->dir_fd, name, 0) < 0 && errno != ENOENT)
        return failed(u, errno);
    if (symlinkat(u->entry.link, u->dir_fd, name) < 0)
        return failed(u, errno);
    set_owner(u, name);
    set_time(u, name);
    return CAY_FILE_OK;
}

/* To something beneath the top only, and never to what a link leads to. */
static enum cay_file_code make_hard_link(struct unpack *u, const char *name)
{
    char *target = u->entry.link;
    if (!clean(target) || !target[0])
        return refuse(u, "a hard link leads out of the directory");
    char *slash = strrchr(target, '/');
    if (slash)
        *slash = 0;
    CAY_AUTO_FD int from = open_dir(u->top_fd, slash ? target : ".");
    if (from < 0)
        return refuse(u, "a hard link leads nowhere");
    const char *old = slash ? slash + 1 : target;
    struct stat a, b;
    if (fstatat(from, old, &a, AT_SYMLINK_NOFOLLOW) < 0)
        return refuse(u, "a hard link leads nowhere");
    if (fstatat(u->dir_fd, name, &b, AT_SYMLINK_NOFOLLOW) == 0 && a.st_ino == b.st_ino &&
        a.st_dev == b.st_dev)
        return CAY_FILE_OK;
    if (unlinkat(u->dir_fd, name, 0) < 0 && errno != ENOENT)
        return failed(u, errno);
    return linkat(from, old, u->dir_fd, name, 0) < 0 ? failed(u, errno) : CAY_FILE_OK;
}

static enum cay_file_code make(struct unpack *u)
{
    struct cay_tar_entry *e = &u->entry;
    const char *name;
    e->mode &= u->mode_mask;
    if (!clean(e->path))
        return refuse(u, "a name leads out of the directory");
    if (e->type == CAY_TAR_OTHER) {
        u->reply->skipped++;
        return CAY_FILE_OK;
    }
    if (!e->path[0]) /* the directory itself */
        return e->type == CAY_TAR_DIR ? CAY_FILE_OK : refuse(u, "a member has no name");
    if (++u->reply->count > CAY_FILE_ARCHIVE_ENTRIES)
        return CAY_FILE_TOO_MANY;
    enum cay_file_code code = enter(u, e->path, &name);
    if (code != CAY_FILE_OK)
        return code;
    switch (e->type) {
    case CAY_TAR_FILE:
        return make_file(u, name);
    case CAY_TAR_DIR:
        return make_dir(u, name);
    case CAY_TAR_LINK:
        return make_link(u, name);
    default:
        return make_hard_link(u, name);
    }
}

/* Deepest first: from there on they may be closed to ourselves. What is not the directory that we
 * made stays as it is. */
static void close_dirs(struct unpack *u)
{
    struct stat st;
    while (u->closed_count > 0) {
        u->closed_count--;
        CAY_AUTO_FD int fd = cay_open_beneath(u->top_fd, u->closed[u->closed_count].path,
                                              O_RDONLY | O_DIRECTORY | O_NOFOLLOW,
                                              RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS);
        if (fd >= 0 && fstat(fd, &st) == 0 && st.st_dev == u->closed[u->closed_count].dev &&
            st.st_ino == u->closed[u->closed_count].inode)
            (void)fchmod(fd, u->closed[u->closed_count].mode);
    }
}

static enum cay_file_code open_top(struct unpack *u)
{
    const char *path = u->rq->path;
    bool replace = u->rq->flags & CAY_FILE_REPLACE;
    struct stat st;
    size_t made_from;
    if (replace && lstat(path, &st) == 0 && S_ISLNK(st.st_mode) && unlink(path) < 0)
        return cay_file_code(errno);
    enum cay_file_code code = cay_place_mkdir(path, 0777, &made_from);
    if (code != CAY_FILE_OK)
        return code;
    u->top_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC | (replace ? O_NOFOLLOW : 0));
    if (u->top_fd < 0 || fstat(u->top_fd, &st) < 0)
        return cay_file_code(errno);
    u->reply->info = cay_file_info(&st);
    return CAY_FILE_OK;
}

enum cay_file_code cay_file_unpack(const struct cay_file_request *rq, struct cay_file_reply *reply)
{
    struct unpack *u = cay_file_alloc(sizeof *u);
    int got = 1;
    u->rq = rq;
    u->reply = reply;
    u->dir_fd = -1;
    bool plain = rq->flags & CAY_FILE_PLAIN;
    u->sets_owner = geteuid() == 0 && !plain;
    u->mode_mask = plain ? 0777 : 07777;
    (void)umask(umask(0) & 077); /* what we make we can enter */
    enum cay_file_code code = open_top(u);
    if (code != CAY_FILE_OK)
        return code;
    if (!cay_unsqueeze_open(&u->in))
        return cay_file_code(ENOMEM);
    u->tar = (struct cay_tar){.get = cay_unsqueeze_get, .arg = &u->in};
    while (code == CAY_FILE_OK && (got = cay_tar_next(&u->tar, &u->entry)) > 0)
        code = make(u);
    if (got < 0)
        code = refuse(u, u->tar.why);
    close_dirs(u);
    cay_close_fd(&u->dir_fd);
    if (code == CAY_FILE_OK)
        cay_unsqueeze_drain(&u->in);
    return code;
}
