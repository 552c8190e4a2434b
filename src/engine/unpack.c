/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/unpack.h"
#include "base/beneath.h"
#include "base/buf.h"
#include "file/tar.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#define MAX_ID 65535              /* what a sandbox's ids are mapped for */
#define MAX_XATTRS 64             /* of one entry */
#define LOOK_BYTES (64 * CAY_MIB) /* written between two looks at the free space */
#define CHUNK (256 * 1024)

#define WHITEOUT ".wh."
#define WHITEOUT_META ".wh..wh." /* aufs' own files */
#define OPAQUE ".wh..wh..opq"

struct unpacking {
    struct cay_blob *in;
    struct cay_tar tar;
    int root, marks_fd;
    int parent; /* the directory that was used last, or -1 */
    char parent_path[CAY_MAX_PATH + 1];
    struct cay_buf dirs;   /* mtime and path of each, for the end */
    struct cay_buf xattrs; /* of the entry that comes: name, NUL, length, value */
    unsigned xattr_count;
    uint64_t looked, mark_bytes;
    char *buffer;
    struct cay_unpack_counts counts;
    struct cay_error *err;
};

static int refuse(struct unpacking *u, const char *path, const char *why)
{
    return cay_fail_as(u->err, CAY_ERR_UNPROCESSABLE, "BAD_LAYER", "%s: %.100s", why, path);
}

static int failed(struct unpacking *u, const char *path)
{
    if (errno == ENOSPC || errno == EDQUOT)
        return cay_fail_as(u->err, CAY_ERR_LIMIT, "IMAGE_STORE_FULL", "the image store is full");
    int r = cay_fail_errno(u->err, CAY_ERR_UNPROCESSABLE, "cannot make %.100s", path);
    u->err->name = "BAD_LAYER";
    return r;
}

/* ---- names ---- */

/* Without blanks in the path: no leading slash, no dots, no empty parts. Empty: the root. */
static int clean(struct unpacking *u, const char *path, char out[CAY_MAX_PATH + 1])
{
    size_t len = 0, depth = 0;
    for (const char *at = path; *at;) {
        size_t n = strcspn(at, "/");
        if (n == 2 && at[0] == '.' && at[1] == '.')
            return refuse(u, path, "a name leads out of the layer");
        if (n > NAME_MAX)
            return refuse(u, path, "a name is too long");
        if (n > 0 && !(n == 1 && at[0] == '.')) {
            if (++depth > CAY_LAYER_DEPTH)
                return refuse(u, path, "directories are too deep");
            if (len)
                out[len++] = '/';
            memcpy(out + len, at, n);
            len += n;
        }
        at += n;
        at += *at == '/';
    }
    out[len] = 0;
    return 0;
}

/* Links in it are followed as the sandbox would, with this tree as the root. */
static int open_dir(const struct unpacking *u, const char *path)
{
    return cay_open_beneath(u->root, *path ? path : ".", O_RDONLY | O_DIRECTORY,
                            RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
}

static void forget_parent(struct unpacking *u)
{
    cay_close_fd(&u->parent);
}

static int add_entry(struct unpacking *u)
{
    if (++u->counts.entries <= CAY_LAYER_ENTRIES)
        return 0;
    return cay_fail_as(u->err, CAY_ERR_TOO_LARGE, "LAYER_TOO_LARGE",
                       "the layer has more than %d entries", CAY_LAYER_ENTRIES);
}

static int note(struct unpacking *u, enum cay_unpack_mark mark, const char *dir, size_t len)
{
    char text[CAY_MAX_PATH + 2] = {(char)mark};
    u->mark_bytes += len + 2;
    if (u->mark_bytes > (uint64_t)CAY_LAYER_MARK_BYTES) /* they are held in memory */
        return cay_fail_as(u->err, CAY_ERR_TOO_LARGE, "LAYER_TOO_LARGE",
                           "the layer has too many directories to mark");
    memcpy(text + 1, dir, len);
    text[len + 1] = 0;
    return write(u->marks_fd, text, len + 2) == (ssize_t)len + 2 ? 0 : failed(u, text + 1);
}

static bool is_whiteout(int dir, const char *name)
{
    struct stat st;
    return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISCHR(st.st_mode);
}

/* A directory in the place of a whiteout hides what lower layers have there. `path` with `len` is
 * the whole of it. */
static int make_dir(struct unpacking *u, int dir, const char *name, const char *path, size_t len)
{
    if (mkdirat(dir, name, 0755) == 0)
        return 0;
    if (errno != EEXIST || !is_whiteout(dir, name))
        return failed(u, path);
    if (unlinkat(dir, name, 0) < 0 || mkdirat(dir, name, 0755) < 0)
        return failed(u, path);
    return note(u, CAY_UNPACK_OPAQUE, path, len);
}

/* Directories that no entry named before. */
static int make_dirs(struct unpacking *u, char *path)
{
    CAY_AUTO_FD int at = open_dir(u, "");
    for (char *from = path; at >= 0 && *from;) {
        size_t n = strcspn(from, "/"), len = (size_t)(from - path) + n;
        char end = path[len];
        path[len] = 0;
        int next = open_dir(u, path);
        int r = 0;
        if (next < 0 && (errno == ENOENT || errno == ENOTDIR)) {
            r = make_dir(u, at, from, path, len);
            r = r < 0 ? r : note(u, CAY_UNPACK_IMPLIED, path, len);
            r = r < 0 ? r : add_entry(u);
            next = r < 0 ? -1 : open_dir(u, path);
        }
        if (r == 0 && next < 0)
            r = failed(u, path);
        path[len] = end;
        if (r < 0)
            return r;
        cay_close_fd(&at);
        at = next;
        from += n + (end == '/');
    }
    return at < 0 ? failed(u, path) : 0;
}

/* The directory that holds the entry, in u->parent, and its last name. */
static int enter(struct unpacking *u, const char *path, const char **name_out)
{
    char dir[CAY_MAX_PATH + 1];
    const char *slash = strrchr(path, '/');
    size_t len = slash ? (size_t)(slash - path) : 0;
    *name_out = slash ? slash + 1 : path;
    if (u->parent >= 0 && strlen(u->parent_path) == len && memcmp(u->parent_path, path, len) == 0)
        return 0;
    memcpy(dir, path, len);
    dir[len] = 0;
    forget_parent(u);
    u->parent = open_dir(u, dir);
    if (u->parent < 0 && (errno == ENOENT || errno == ENOTDIR)) {
        int r = make_dirs(u, dir);
        if (r < 0)
            return r;
        u->parent = open_dir(u, dir);
    }
    if (u->parent < 0)
        return failed(u, path);
    memcpy(u->parent_path, dir, len + 1);
    return 0;
}

/* The entry is there already: the later one counts. */
static int make_room(struct unpacking *u, const char *name, const char *path)
{
    if (unlinkat(u->parent, name, 0) == 0 || unlinkat(u->parent, name, AT_REMOVEDIR) == 0)
        return 0;
    return refuse(u, path, "something takes the place of a directory that is not empty");
}

/* ---- attributes ---- */

static void take_xattr(void *arg, const char *name, const char *value, size_t len)
{
    /* Capabilities of files are dropped: nothing here gains rights by being run. What overlayfs
     * reads has no business in a tar. */
    struct unpacking *u = arg;
    if (strncmp(name, "user.", 5) != 0 || strncmp(name, "user.overlay.", 13) == 0 ||
        u->xattr_count == MAX_XATTRS)
        return;
    u->xattr_count++;
    cay_buf_add(&u->xattrs, name, strlen(name) + 1);
    cay_buf_add(&u->xattrs, &len, sizeof len);
    cay_buf_add(&u->xattrs, value, len);
}

static int set_xattrs(struct unpacking *u, int fd, const char *path)
{
    for (size_t at = 0; at < u->xattrs.len;) {
        const char *name = u->xattrs.data + at;
        size_t len;
        at += strlen(name) + 1;
        memcpy(&len, u->xattrs.data + at, sizeof len);
        at += sizeof len;
        if (fsetxattr(fd, name, u->xattrs.data + at, len, 0) < 0 && errno != ENOTSUP)
            return failed(u, path);
        at += len;
    }
    return 0;
}

/* In this order: a change of owner takes modes away, and all of it changes times. */
static int set_attributes(struct unpacking *u, int fd, const struct cay_tar_entry *e)
{
    const struct timespec times[2] = {{.tv_sec = e->mtime}, {.tv_sec = e->mtime}};
    if (fchown(fd, (uid_t)e->uid, (gid_t)e->gid) < 0 || fchmod(fd, e->mode) < 0)
        return failed(u, e->path);
    int r = set_xattrs(u, fd, e->path);
    if (r == 0 && futimens(fd, times) < 0)
        r = failed(u, e->path);
    return r;
}

/* What comes later changes the time of a directory, so they are set again at the end. */
static int note_dir(struct unpacking *u, const char *path, int64_t mtime)
{
    cay_buf_add(&u->dirs, &mtime, sizeof mtime);
    cay_buf_add(&u->dirs, path, strlen(path) + 1);
    return u->dirs.len > (size_t)CAY_LAYER_WAY_BYTES
               ? cay_fail_as(u->err, CAY_ERR_TOO_LARGE, "LAYER_TOO_LARGE",
                             "the layer has too many directories")
               : 0;
}

static void set_dir_times(struct unpacking *u)
{
    for (size_t at = 0; at < u->dirs.len;) {
        int64_t mtime;
        memcpy(&mtime, u->dirs.data + at, sizeof mtime);
        const char *path = u->dirs.data + at + sizeof mtime;
        const struct timespec times[2] = {{.tv_sec = mtime}, {.tv_sec = mtime}};
        CAY_AUTO_FD int fd = open_dir(u, path);
        if (fd >= 0)
            (void)futimens(fd, times); /* replaced since then, or not worth failing for */
        at += sizeof mtime + strlen(path) + 1;
    }
}

/* ---- entries ---- */

static int look_at_space(struct unpacking *u)
{
    struct statvfs st;
    if (u->counts.bytes - u->looked < (uint64_t)LOOK_BYTES)
        return 0;
    u->looked = u->counts.bytes;
    if (fstatvfs(u->root, &st) < 0 ||
        (uint64_t)st.f_bavail * st.f_frsize < (uint64_t)CAY_SHELF_FREE_BYTES)
        return cay_fail_as(u->err, CAY_ERR_LIMIT, "IMAGE_STORE_FULL",
                           "less than %lld bytes are free in the image store",
                           (long long)CAY_SHELF_FREE_BYTES);
    return 0;
}

static int cut_short(struct unpacking *u)
{
    int r = cay_blob_error(u->in, u->err);
    return r < 0 ? r : refuse(u, u->tar.why ? u->tar.why : "it ends in the middle", "no tar file");
}

static int put_file(struct unpacking *u, const struct cay_tar_entry *e, const char *name)
{
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    CAY_AUTO_FD int fd = openat(u->parent, name, flags, 0600);
    if (fd < 0 && errno == EEXIST) {
        int r = make_room(u, name, e->path);
        if (r < 0)
            return r;
        fd = openat(u->parent, name, flags, 0600);
    }
    if (fd < 0)
        return failed(u, e->path);
    for (uint64_t left = e->size; left > 0;) {
        size_t n = left < CHUNK ? (size_t)left : CHUNK;
        if (!cay_tar_read(&u->tar, u->buffer, n))
            return cut_short(u);
        if (!cay_write_all(fd, u->buffer, n))
            return failed(u, e->path);
        left -= n;
        u->counts.bytes += n;
        int r = look_at_space(u);
        if (r < 0)
            return r;
    }
    return set_attributes(u, fd, e);
}

static int put_dir(struct unpacking *u, const struct cay_tar_entry *e, const char *name)
{
    struct stat st;
    int r = 0;
    bool there = fstatat(u->parent, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
    if (there && !S_ISDIR(st.st_mode) && !S_ISCHR(st.st_mode)) {
        r = make_room(u, name, e->path);
        there = false;
    }
    if (r == 0 && there && S_ISDIR(st.st_mode))
        r = note(u, CAY_UNPACK_NAMED, e->path, strlen(e->path));
    else if (r == 0)
        r = make_dir(u, u->parent, name, e->path, strlen(e->path));
    if (r < 0)
        return r;
    CAY_AUTO_FD int fd = openat(u->parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return failed(u, e->path);
    r = set_attributes(u, fd, e);
    return r < 0 ? r : note_dir(u, e->path, e->mtime);
}

static int put_link(struct unpacking *u, const struct cay_tar_entry *e, const char *name)
{
    const struct timespec times[2] = {{.tv_sec = e->mtime}, {.tv_sec = e->mtime}};
    int r = symlinkat(e->link, u->parent, name);
    if (r < 0 && errno == EEXIST) {
        r = make_room(u, name, e->path);
        if (r < 0)
            return r;
        r = symlinkat(e->link, u->parent, name);
    }
    if (r < 0 || fchownat(u->parent, name, (uid_t)e->uid, (gid_t)e->gid, AT_SYMLINK_NOFOLLOW) < 0 ||
        utimensat(u->parent, name, times, AT_SYMLINK_NOFOLLOW) < 0)
        return failed(u, e->path);
    return 0;
}

/* To a file of this very layer: whatever it says is looked for in this tree. */
static int put_hard_link(struct unpacking *u, const struct cay_tar_entry *e, const char *name)
{
    char target[CAY_MAX_PATH + 1], dir[CAY_MAX_PATH + 1];
    struct stat st;
    int r = clean(u, e->link, target);
    if (r < 0)
        return r;
    const char *slash = strrchr(target, '/');
    snprintf(dir, sizeof dir, "%.*s", slash ? (int)(slash - target) : 0, target);
    const char *from = slash ? slash + 1 : target;
    CAY_AUTO_FD int at = open_dir(u, dir);
    if (at < 0 || !*from || fstatat(at, from, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
        S_ISDIR(st.st_mode) || S_ISCHR(st.st_mode))
        return refuse(u, e->path, "a hard link to what is not in the layer");
    r = linkat(at, from, u->parent, name, 0);
    if (r < 0 && errno == EEXIST && strcmp(target, e->path) != 0) {
        r = make_room(u, name, e->path);
        if (r < 0)
            return r;
        r = linkat(at, from, u->parent, name, 0);
    }
    return r < 0 ? failed(u, e->path) : 0;
}

/* What a lower layer has under that name is gone, what this one has is not. */
static int put_whiteout(struct unpacking *u, const struct cay_tar_entry *e, const char *name)
{
    struct stat st;
    size_t dir_len = (size_t)(name - e->path);
    if (strcmp(name, OPAQUE) == 0)
        return note(u, CAY_UNPACK_OPAQUE, e->path, dir_len ? dir_len - 1 : 0);
    if (strncmp(name, WHITEOUT_META, strlen(WHITEOUT_META)) == 0)
        return 0;
    const char *hidden = name + strlen(WHITEOUT);
    if (!*hidden || strcmp(hidden, ".") == 0 || strcmp(hidden, "..") == 0)
        return refuse(u, e->path, "a whiteout of nothing");
    if (mknodat(u->parent, hidden, S_IFCHR, makedev(0, 0)) == 0)
        return 0;
    if (errno != EEXIST || fstatat(u->parent, hidden, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return failed(u, e->path);
    if (!S_ISDIR(st.st_mode))
        return 0;
    char path[CAY_MAX_PATH + 1];
    int len = snprintf(path, sizeof path, "%.*s%s", (int)dir_len, e->path, hidden);
    return note(u, CAY_UNPACK_OPAQUE, path, (size_t)len);
}

static int put_root(struct unpacking *u, const struct cay_tar_entry *e)
{
    if (e->type != CAY_TAR_DIR)
        return refuse(u, "/", "the root is no directory");
    CAY_AUTO_FD int fd = open_dir(u, "");
    if (fd < 0)
        return failed(u, "/");
    int r = set_attributes(u, fd, e);
    return r < 0 ? r : note_dir(u, "", e->mtime);
}

static int put(struct unpacking *u, struct cay_tar_entry *e)
{
    const char *name;
    char path[CAY_MAX_PATH + 1];
    int r = clean(u, e->path, path);
    if (r == 0)
        r = add_entry(u);
    if (r < 0)
        return r;
    if (e->uid > MAX_ID || e->gid > MAX_ID)
        return refuse(u, e->path, "an owner above 65535");
    memcpy(e->path, path, strlen(path) + 1);
    if (e->type == CAY_TAR_OTHER) {
        u->counts.dropped++;
        return 0;
    }
    if (!*path)
        return put_root(u, e);
    r = enter(u, path, &name);
    if (r < 0)
        return r;
    name = e->path + (name - path);
    if (strncmp(name, WHITEOUT, strlen(WHITEOUT)) == 0)
        return put_whiteout(u, e, name);
    switch (e->type) {
    case CAY_TAR_DIR:
        return put_dir(u, e, name);
    case CAY_TAR_LINK:
        return put_link(u, e, name);
    case CAY_TAR_HARD_LINK:
        return put_hard_link(u, e, name);
    default:
        return put_file(u, e, name);
    }
}

static bool get(void *arg, void *data, size_t len)
{
    return cay_blob_get(((struct unpacking *)arg)->in, data, len);
}

static void done(struct unpacking *u)
{
    forget_parent(u);
    cay_buf_done(&u->dirs);
    cay_buf_done(&u->xattrs);
    free(u->buffer);
}

int cay_unpack(struct cay_blob *in, int root, int marks_fd, struct cay_unpack_counts *out,
               struct cay_error *err)
{
    static struct cay_tar_entry entry; /* large */
    CAY_CLEANUP(done)
    struct unpacking u = {.in = in,
                          .root = root,
                          .marks_fd = marks_fd,
                          .parent = -1,
                          .buffer = malloc(CHUNK),
                          .err = err};
    u.tar = (struct cay_tar){.get = get, .arg = &u, .xattr = take_xattr};
    if (!u.buffer)
        abort();
    for (;;) {
        u.xattrs.len = 0;
        u.xattr_count = 0;
        int r = cay_tar_next(&u.tar, &entry);
        if (r < 0)
            return cut_short(&u);
        if (r == 0)
            break;
        r = put(&u, &entry);
        if (r < 0)
            return r;
    }
    set_dir_times(&u);
    *out = u.counts;
    return 0;
}
