/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/pack.h"
#include "base/buf.h"
#include "base/str.h"
#include "file/tar.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#define CHUNK (256 * 1024)

/* A file with several names, and the first of them. */
struct seen {
    ino_t ino;
    char *path;
};

struct packing {
    const struct cay_pack_sink *sink;
    struct cay_tar_entry entry; /* its path is where we are */
    struct cay_buf head;
    struct seen *seen; /* a table that is hashed by number; zeroed places are free */
    size_t seen_count, seen_size, seen_bytes;
    char *buffer;
    struct cay_error *err;
};

static void done(struct packing *p)
{
    for (size_t i = 0; i < p->seen_size; i++)
        free(p->seen[i].path);
    free(p->seen);
    free(p->buffer);
    cay_buf_done(&p->head);
}

static int failed(struct packing *p)
{
    return cay_fail_errno(p->err, CAY_ERR_PROVIDER, "cannot pack %.100s", p->entry.path);
}

/* A tree may have been made to be too much for us. */
static int too_many(struct packing *p, const char *why)
{
    return cay_fail_as(p->err, CAY_ERR_TOO_LARGE, "LAYER_TOO_LARGE", "%s: %.100s", why,
                       p->entry.path);
}

static int put(struct packing *p, const void *data, size_t len)
{
    return p->sink->put(p->sink->arg, data, len)
               ? 0
               : cay_fail(p->err, CAY_ERR_PROVIDER, "nobody takes the archive");
}

static int put_head(struct packing *p)
{
    p->head.len = 0;
    cay_tar_write(&p->entry, &p->head);
    return put(p, p->head.data, p->head.len);
}

/* ---- files with several names ---- */

static struct seen *place_of(struct seen *table, size_t size, ino_t ino)
{
    size_t at = (size_t)(ino * 0x9e3779b97f4a7c15ULL) & (size - 1);
    while (table[at].path && table[at].ino != ino)
        at = (at + 1) & (size - 1);
    return &table[at];
}

static void grow(struct packing *p)
{
    size_t size = p->seen_size ? 2 * p->seen_size : 1024;
    struct seen *more = calloc(size, sizeof *more);
    if (!more)
        abort();
    for (size_t i = 0; i < p->seen_size; i++)
        if (p->seen[i].path)
            *place_of(more, size, p->seen[i].ino) = p->seen[i];
    free(p->seen);
    p->seen = more;
    p->seen_size = size;
}

/* The name that it was packed under, or NULL: from now on this one. */
static const char *earlier(struct packing *p, ino_t ino)
{
    if (2 * p->seen_count >= p->seen_size)
        grow(p);
    struct seen *s = place_of(p->seen, p->seen_size, ino);
    if (s->path)
        return s->path;
    *s = (struct seen){ino, strdup(p->entry.path)};
    if (!s->path)
        abort();
    p->seen_count++;
    p->seen_bytes += strlen(s->path) + 1;
    return NULL;
}

/* ---- entries ---- */

static int put_data(struct packing *p, int dir, const char *name)
{
    static const char zeros[CAY_TAR_BLOCK];
    CAY_AUTO_FD int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    uint64_t size = p->entry.size;
    if (fd < 0)
        return failed(p);
    int r = put_head(p);
    for (uint64_t left = size; r == 0 && left > 0;) {
        ssize_t n = read(fd, p->buffer, left < CHUNK ? (size_t)left : CHUNK);
        if (n <= 0)
            return failed(p); /* shorter than it was: nobody writes here */
        r = put(p, p->buffer, (size_t)n);
        left -= (uint64_t)n;
    }
    return r < 0 ? r : put(p, zeros, (CAY_TAR_BLOCK - size % CAY_TAR_BLOCK) % CAY_TAR_BLOCK);
}

static int put_file(struct packing *p, int dir, const char *name, const struct stat *st)
{
    const char *first = st->st_nlink > 1 ? earlier(p, st->st_ino) : NULL;
    if (p->seen_bytes > (size_t)CAY_LAYER_WAY_BYTES)
        return too_many(p, "too many files have several names");
    if (first) {
        p->entry.type = CAY_TAR_HARD_LINK;
        cay_str_copy(p->entry.link, sizeof p->entry.link, first);
        return put_head(p);
    }
    p->entry.type = CAY_TAR_FILE;
    p->entry.size = (uint64_t)st->st_size;
    return put_data(p, dir, name);
}

static int put_link(struct packing *p, int dir, const char *name)
{
    ssize_t n = readlinkat(dir, name, p->entry.link, sizeof p->entry.link - 1);
    if (n < 0)
        return failed(p);
    p->entry.link[n] = 0;
    p->entry.type = CAY_TAR_LINK;
    return put_head(p);
}

/* An empty file; `at` is where its name begins in the path. */
static int put_marker(struct packing *p, size_t at, const char *prefix, const char *name)
{
    struct cay_tar_entry *e = &p->entry;
    char path[CAY_MAX_PATH + 1];
    int len = snprintf(path, sizeof path, "%.*s%s%s", (int)at, e->path, prefix, name);
    if (len >= (int)sizeof path)
        return cay_fail(p->err, CAY_ERR_PROVIDER, "a path is too long: %.100s", e->path);
    struct cay_tar_entry marker = {.type = CAY_TAR_FILE, .mode = 0644, .mtime = e->mtime};
    memcpy(marker.path, path, (size_t)len + 1);
    p->head.len = 0;
    cay_tar_write(&marker, &p->head);
    return put(p, p->head.data, p->head.len);
}

static bool is_opaque(int dir)
{
    char value[2];
    return fgetxattr(dir, "trusted.overlay.opaque", value, sizeof value) >= 1 && value[0] == 'y';
}

static int pack_dir(struct packing *p, int dir, size_t len, unsigned depth);

static int put_dir(struct packing *p, int dir, const char *name, size_t len, unsigned depth)
{
    CAY_AUTO_FD int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return failed(p);
    if (depth == CAY_LAYER_DEPTH || len + 2 > CAY_MAX_PATH)
        return cay_fail(p->err, CAY_ERR_PROVIDER, "directories are too deep: %.100s",
                        p->entry.path);
    p->entry.type = CAY_TAR_DIR;
    memcpy(p->entry.path + len, "/", 2);
    int r = put_head(p);
    if (r == 0 && is_opaque(fd))
        r = put_marker(p, len + 1, ".wh..wh..opq", "");
    return r < 0 ? r : pack_dir(p, fd, len + 1, depth + 1);
}

/* `at` and `len`: where the name begins and ends in the path. */
static int put_entry(struct packing *p, int dir, size_t at, size_t len, unsigned depth)
{
    char name[NAME_MAX + 1];
    struct stat st;
    memcpy(name, p->entry.path + at, len - at + 1);
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return failed(p);
    p->entry.link[0] = 0;
    p->entry.size = 0;
    p->entry.mode = st.st_mode & 07777;
    p->entry.uid = st.st_uid;
    p->entry.gid = st.st_gid;
    p->entry.mtime = st.st_mtim.tv_sec;
    switch (st.st_mode & S_IFMT) {
    case S_IFREG:
        return put_file(p, dir, name, &st);
    case S_IFDIR:
        return put_dir(p, dir, name, len, depth);
    case S_IFLNK:
        return put_link(p, dir, name);
    case S_IFCHR:
        return st.st_rdev == 0 ? put_marker(p, at, ".wh.", name) : 0;
    default:
        return 0;
    }
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names in a directory, sorted, as far as they are no more than may be remembered. */
static char **read_names(int dir, size_t *count_out, size_t *bytes_out)
{
    size_t count = 0, room = 0, bytes = 0;
    char **names = calloc(1, sizeof *names);
    int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    for (struct dirent *e; d && bytes <= (size_t)CAY_LAYER_WAY_BYTES && (e = readdir(d));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        bytes += strlen(e->d_name) + 1;
        if (count == room) {
            room = room ? 2 * room : 64;
            names = realloc(names, room * sizeof *names);
        }
        if (!names || !(names[count++] = strdup(e->d_name)))
            abort();
    }
    if (d)
        closedir(d);
    if (!names)
        abort();
    qsort(names, count, sizeof *names, by_name);
    *count_out = count;
    *bytes_out = bytes;
    return names;
}

static int pack_dir(struct packing *p, int dir, size_t at, unsigned depth)
{
    size_t count, bytes;
    char **names = read_names(dir, &count, &bytes);
    int r = bytes > (size_t)CAY_LAYER_WAY_BYTES ? too_many(p, "a directory has too many names") : 0;
    for (size_t i = 0; i < count; i++) {
        size_t len = strlen(names[i]);
        if (r == 0 && at + len > CAY_MAX_PATH)
            r = cay_fail(p->err, CAY_ERR_PROVIDER, "a path is too long: %.100s", p->entry.path);
        if (r == 0) {
            memcpy(p->entry.path + at, names[i], len + 1);
            r = put_entry(p, dir, at, at + len, depth);
        }
        free(names[i]);
    }
    free(names);
    p->entry.path[at] = 0;
    return r;
}

int cay_pack(int tree, const struct cay_pack_sink *sink, struct cay_error *err)
{
    static const char end[2 * CAY_TAR_BLOCK];
    CAY_CLEANUP(done) struct packing p = {.sink = sink, .buffer = malloc(CHUNK), .err = err};
    if (!p.buffer)
        abort();
    int r = is_opaque(tree) ? put_marker(&p, 0, ".wh..wh..opq", "") : 0;
    if (r == 0)
        r = pack_dir(&p, tree, 0, 0);
    return r < 0 ? r : put(&p, end, sizeof end);
}
