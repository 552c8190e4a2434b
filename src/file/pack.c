/* SPDX-License-Identifier: Apache-2.0 */
/* A tree as a tar file on stdout. It is walked twice: what cannot be read is an error while an
 * answer can still be one; from the first byte on a failure can only be told by ending early. */
#include "file/file.h"
#include "file/tar.h"
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <string.h>

#define HARD_LINKS 4096 /* remembered; more of them become files of their own */

struct pack {
    const struct cay_file_request *rq;
    struct cay_file_reply *reply;
    bool sending;
    struct cay_squeeze out;
    struct cay_tar_entry entry;
    struct {
        dev_t dev;
        ino_t inode;
        char *path;
    } links[HARD_LINKS];
};

/* ---- what goes in ---- */

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool is_below(const char *path, const char *top)
{
    size_t len = strlen(top);
    while (len > 0 && top[len - 1] == '/')
        len--;
    return strncmp(path, top, len) == 0 && (len == 0 || path[len] == 0 || path[len] == '/');
}

static bool is_excepted(const struct cay_file_request *rq, const char *path)
{
    for (size_t i = 0; i < rq->except.count; i++)
        if (fnmatch(rq->except.at[i], path, 0) == 0 ||
            fnmatch(rq->except.at[i], name_of(path), 0) == 0)
            return true;
    return false;
}

/* Whether the entry goes in, and whether something below it may. */
static void choose(const struct cay_file_request *rq, const char *path, bool *in, bool *below)
{
    *in = *below = rq->only.count == 0;
    for (size_t i = 0; i < rq->only.count; i++) {
        *in |= is_below(path, rq->only.at[i]);
        *below |= *in || is_below(rq->only.at[i], path);
    }
    if (is_excepted(rq, path))
        *in = *below = false;
}

/* ---- sending ---- */

static bool put_header(struct pack *p)
{
    CAY_AUTO_BUF struct cay_buf head = {0};
    cay_tar_write(&p->entry, &head);
    return cay_squeeze_put(&p->out, head.data, head.len);
}

static bool put_file(struct pack *p, int fd)
{
    static const char zeros[CAY_TAR_BLOCK];
    uint64_t size = p->entry.size;
    return put_header(p) && cay_squeeze_file(&p->out, fd, size) &&
           cay_squeeze_put(&p->out, zeros, (CAY_TAR_BLOCK - size % CAY_TAR_BLOCK) % CAY_TAR_BLOCK);
}

/* The name under which these bytes went out before, or NULL. */
static const char *seen(struct pack *p, const struct stat *st, const char *path)
{
    size_t at = (size_t)((st->st_ino * 11400714819323198485ULL) >> 52) % HARD_LINKS;
    if (st->st_nlink < 2)
        return NULL;
    if (p->links[at].path && p->links[at].inode == st->st_ino && p->links[at].dev == st->st_dev)
        return p->links[at].path;
    if (!p->links[at].path) {
        p->links[at].dev = st->st_dev;
        p->links[at].inode = st->st_ino;
        p->links[at].path = strdup(path);
    }
    return NULL;
}

static void describe(struct pack *p, const struct stat *st, const char *path)
{
    struct cay_tar_entry *e = &p->entry;
    e->mode = st->st_mode & 07777;
    e->uid = st->st_uid;
    e->gid = st->st_gid;
    e->mtime = st->st_mtim.tv_sec;
    e->size = 0;
    e->link[0] = 0;
    memcpy(e->path, path, strlen(path) + 1);
}

/* Both leave out what went, or became something else than what was seen. */
static bool send_link(struct pack *p, int dir_fd, const char *name)
{
    struct cay_tar_entry *e = &p->entry;
    ssize_t n = readlinkat(dir_fd, name, e->link, CAY_MAX_PATH);
    e->type = CAY_TAR_LINK;
    e->link[n > 0 ? n : 0] = 0;
    return n < 0 ? errno == ENOENT || errno == EINVAL : put_header(p);
}

static bool send_file(struct pack *p, int dir_fd, const char *name)
{
    struct cay_tar_entry *e = &p->entry;
    struct stat st;
    CAY_AUTO_FD int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT || errno == ELOOP || errno == ENXIO;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return true; /* something else has taken its place */
    e->type = CAY_TAR_FILE;
    e->size = (uint64_t)st.st_size;
    return put_file(p, fd);
}

/* False: the archive cannot be finished truthfully. What kind it is says the same stat that the
 * walk goes by: a second look could call a link what is then gone into as a directory. */
static bool send_entry(struct pack *p, int dir_fd, const char *name, const char *path,
                       const struct stat *st)
{
    struct cay_tar_entry *e = &p->entry;
    describe(p, st, path);
    if (S_ISDIR(st->st_mode)) {
        e->type = CAY_TAR_DIR;
        size_t len = strlen(e->path);
        if (len < CAY_MAX_PATH)
            memcpy(e->path + len, "/", 2);
        return put_header(p);
    }
    if (S_ISLNK(st->st_mode))
        return send_link(p, dir_fd, name);
    const char *first = seen(p, st, path);
    if (first) {
        e->type = CAY_TAR_HARD_LINK;
        memcpy(e->link, first, strlen(first) + 1);
        return put_header(p);
    }
    return send_file(p, dir_fd, name);
}

/* ---- both walks ---- */

static enum cay_file_code refuse(struct pack *p, const char *path, int error)
{
    cay_file_tell(p->reply, path, strlen(path));
    return cay_file_code(error);
}

static enum cay_file_code visit(struct cay_tree *t, int dir_fd, const char *name,
                                const struct stat *st, bool *skip)
{
    struct pack *p = t->arg;
    bool in, below;
    choose(p->rq, t->path, &in, &below);
    *skip = !below;
    if (!in || (!S_ISREG(st->st_mode) && !S_ISDIR(st->st_mode) && !S_ISLNK(st->st_mode)))
        return CAY_FILE_OK;
    if (!p->sending) {
        if (S_ISREG(st->st_mode) && faccessat(dir_fd, name, R_OK, AT_EACCESS) < 0 &&
            errno != ENOENT)
            return refuse(p, t->path, errno);
        return CAY_FILE_OK;
    }
    return send_entry(p, dir_fd, name, t->path, st) ? CAY_FILE_OK : CAY_FILE_FAILED;
}

static enum cay_file_code closed(struct cay_tree *t, int error)
{
    return refuse(t->arg, t->path, error);
}

static enum cay_file_code walk(struct pack *p, int dir_fd)
{
    struct cay_tree *t = cay_file_alloc(sizeof *t);
    *t = (struct cay_tree){.visit = visit, .closed = closed, .arg = p, .depth_max = CAY_FILE_DEPTH};
    enum cay_file_code code = cay_tree_walk(t, dir_fd, NULL);
    free(t);
    return code;
}

static bool finish(struct pack *p)
{
    static const char zeros[2 * CAY_TAR_BLOCK];
    return cay_squeeze_put(&p->out, zeros, sizeof zeros) && cay_squeeze_end(&p->out) &&
           cay_write_all(CAY_FILE_COMMIT_FD, "1", 1);
}

/* One file alone is an archive with its name in it. */
static enum cay_file_code pack_one(struct pack *p, const struct cay_place *place,
                                   const struct stat *st)
{
    if (!S_ISREG(st->st_mode) && !S_ISLNK(st->st_mode))
        return CAY_FILE_NOT_A_FILE;
    if (S_ISREG(st->st_mode) && faccessat(place->dir_fd, place->name, R_OK, AT_EACCESS) < 0)
        return cay_file_code(errno);
    cay_file_answer(p->reply, CAY_FILE_OK);
    if (send_entry(p, place->dir_fd, place->name, place->name, st))
        (void)finish(p); /* or nobody reads it */
    return CAY_FILE_OK;
}

enum cay_file_code cay_file_pack(const struct cay_file_request *rq, struct cay_file_reply *reply)
{
    struct pack *p = cay_file_alloc(sizeof *p);
    CAY_AUTO_PLACE struct cay_place place;
    struct stat st;
    p->rq = rq;
    p->reply = reply;
    enum cay_file_code code = cay_place_open(rq->path, CAY_PLACE_FOLLOW, &place);
    if (code != CAY_FILE_OK)
        return code;
    if (fstatat(place.dir_fd, place.name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return cay_file_code(errno);
    reply->info = cay_file_info(&st);
    reply->length = CAY_FILE_UNKNOWN;
    if (!cay_squeeze_open(&p->out, rq->flags & CAY_FILE_GZIP))
        return cay_file_code(ENOMEM);
    if (!S_ISDIR(st.st_mode))
        return pack_one(p, &place, &st);
    CAY_AUTO_FD int fd =
        openat(place.dir_fd, place.name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return cay_file_code(errno);
    code = walk(p, fd);
    if (code != CAY_FILE_OK)
        return code;
    cay_file_answer(reply, CAY_FILE_OK);
    p->sending = true;
    if (walk(p, fd) == CAY_FILE_OK)
        (void)finish(p);
    return CAY_FILE_OK;
}
