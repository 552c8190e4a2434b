/* SPDX-License-Identifier: Apache-2.0 */
/* Names in directories: listed, made, moved, removed. */
#include "file/file.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

/* ---- LIST ---- */

struct page {
    struct cay_buf entries;
    uint64_t count, max;
    bool more;
};

static enum cay_file_code add_entry(struct cay_tree *t, int dir_fd, const char *name,
                                    const struct stat *st, bool *skip)
{
    struct page *page = t->arg;
    char link[CAY_MAX_PATH];
    (void)skip;
    if (page->count == page->max || page->entries.len > CAY_FILE_PAGE_BYTES) {
        page->more = t->stop = true;
        return CAY_FILE_OK;
    }
    ssize_t n = S_ISLNK(st->st_mode) ? readlinkat(dir_fd, name, link, sizeof link) : 0;
    struct cay_file_entry e = {.info = cay_file_info(st),
                               .path_len = (uint16_t)t->path_len,
                               .link_len = n > 0 ? (uint16_t)n : 0};
    cay_buf_add(&page->entries, &e, sizeof e);
    cay_buf_add(&page->entries, t->path, e.path_len);
    cay_buf_add(&page->entries, link, e.link_len);
    page->count++;
    return CAY_FILE_OK;
}

enum cay_file_code cay_file_list(const struct cay_file_request *rq, struct cay_file_reply *reply)
{
    struct page page = {.max = rq->count && rq->count < CAY_FILE_PAGE ? rq->count : CAY_FILE_PAGE};
    struct cay_tree *t = cay_file_alloc(sizeof *t);
    struct stat st;
    CAY_AUTO_FD int fd = open(rq->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return cay_file_code(errno);
    *t = (struct cay_tree){
        .visit = add_entry, .arg = &page, .depth_max = rq->depth ? (unsigned)rq->depth : 1};
    enum cay_file_code code = cay_tree_walk(t, fd, rq->after);
    free(t);
    if (code != CAY_FILE_OK)
        return code;
    reply->info = cay_file_info(&st);
    reply->count = (uint32_t)page.count;
    reply->flags = page.more ? CAY_FILE_MORE : 0;
    reply->length = page.entries.len;
    cay_file_answer(reply, CAY_FILE_OK);
    (void)cay_write_all(STDOUT_FILENO, page.entries.data, page.entries.len); /* or nobody reads */
    return CAY_FILE_OK;
}

/* ---- MKDIR ---- */

enum cay_file_code cay_file_mkdir(const struct cay_file_request *rq, struct cay_file_reply *reply)
{
    const bool given = rq->mode & CAY_FILE_MODE;
    const mode_t mode = given ? rq->mode & 07777 : 0777;
    size_t len = strlen(rq->path), made_from = 0;
    struct stat st;
    enum cay_file_code code = CAY_FILE_OK;
    while (len > 1 && rq->path[len - 1] == '/')
        len--;
    bool existed = lstat(rq->path, &st) == 0;
    if (rq->flags & CAY_FILE_PARENTS)
        code = cay_place_mkdir(rq->path, mode, &made_from);
    else if (mkdir(rq->path, mode) < 0)
        code = cay_file_code(errno);
    if (code == CAY_FILE_NOT_A_DIRECTORY && existed && made_from == 0 && !S_ISDIR(st.st_mode))
        return cay_file_code(EEXIST); /* it is there and is something else */
    if (code == CAY_FILE_OK && !existed && given && chmod(rq->path, mode) < 0) /* not umask's */
        code = cay_file_code(errno);
    if (code == CAY_FILE_OK && stat(rq->path, &st) < 0)
        code = cay_file_code(errno);
    if (code != CAY_FILE_OK && made_from) {
        struct cay_place made = {.dir_fd = -1, .made_from = made_from};
        int saved = errno;
        memcpy(made.made, rq->path, len);
        cay_place_undo(&made);
        errno = saved;
    }
    if (code == CAY_FILE_OK) {
        reply->info = cay_file_info(&st);
        reply->flags = existed ? 0 : CAY_FILE_CREATED;
    }
    return code;
}

/* ---- MOVE ---- */

/* To another file system: a file is copied beside its target first, so that nobody sees half of
 * it; a link is made again. A directory would be neither quick nor whole. */
static enum cay_file_code copy_file(const struct cay_file_request *rq, const struct cay_place *from,
                                    const struct stat *st, struct cay_file_reply *reply)
{
    static char buf[CAY_FILE_CHUNK];
    CAY_AUTO_DRAFT struct cay_draft d = {.fd = -1, .place.dir_fd = -1};
    CAY_AUTO_FD int fd =
        openat(from->dir_fd, from->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct cay_file_request write = *rq;
    if (fd < 0)
        return cay_file_code(errno);
    if (faccessat(from->dir_fd, ".", W_OK, AT_EACCESS) < 0)
        return cay_file_code(errno); /* or it could not be removed afterwards */
    write.mode = CAY_FILE_MODE | (st->st_mode & 07777);
    enum cay_file_code code = cay_draft_begin(&write, rq->to, &d);
    for (ssize_t n = 1; code == CAY_FILE_OK && n > 0;) {
        n = read(fd, buf, sizeof buf);
        code = n < 0 ? cay_file_code(errno) : cay_draft_add(&d, buf, (size_t)n);
    }
    const struct timespec times[2] = {st->st_atim, st->st_mtim};
    if (code == CAY_FILE_OK) {
        (void)futimens(d.fd, times); /* as mv does; a refusal harms nobody */
        (void)!fchown(d.fd, st->st_uid, st->st_gid);
        code = cay_draft_finish(&write, &d, reply);
    }
    if (code == CAY_FILE_OK && unlinkat(from->dir_fd, from->name, 0) < 0)
        code = cay_file_code(errno);
    return code;
}

static enum cay_file_code copy_link(const struct cay_file_request *rq, const struct cay_place *from,
                                    const struct cay_place *to)
{
    char target[CAY_MAX_PATH + 1], temp[32];
    ssize_t n = readlinkat(from->dir_fd, from->name, target, sizeof target - 1);
    if (n < 0)
        return cay_file_code(errno);
    target[n] = 0;
    (void)snprintf(temp, sizeof temp, ".cay-link-%d", (int)getpid());
    if (symlinkat(target, to->dir_fd, temp) < 0)
        return cay_file_code(errno);
    if (cay_file_rename(to->dir_fd, temp, to->dir_fd, to->name, rq->flags & CAY_FILE_NEW) < 0) {
        enum cay_file_code code = cay_file_code(errno);
        (void)unlinkat(to->dir_fd, temp, 0);
        return code;
    }
    return unlinkat(from->dir_fd, from->name, 0) < 0 ? cay_file_code(errno) : CAY_FILE_OK;
}

static enum cay_file_code move_across(const struct cay_file_request *rq,
                                      const struct cay_place *from, const struct cay_place *to,
                                      struct cay_file_reply *reply)
{
    struct stat st;
    if (fstatat(from->dir_fd, from->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return cay_file_code(errno);
    if (S_ISREG(st.st_mode))
        return copy_file(rq, from, &st, reply);
    if (S_ISLNK(st.st_mode))
        return copy_link(rq, from, to);
    return CAY_FILE_CROSS_DEVICE;
}

enum cay_file_code cay_file_move(const struct cay_file_request *rq, struct cay_file_reply *reply)
{
    CAY_AUTO_PLACE struct cay_place from, to = {.dir_fd = -1};
    struct stat st;
    enum cay_file_code code = cay_place_open(rq->path, 0, &from);
    if (code == CAY_FILE_OK && fstatat(from.dir_fd, from.name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        code = cay_file_code(errno); /* before directories are made for it */
    if (code == CAY_FILE_OK)
        code = cay_place_open(rq->to, CAY_PLACE_PARENTS, &to);
    if (code != CAY_FILE_OK)
        return code;
    if (cay_file_rename(from.dir_fd, from.name, to.dir_fd, to.name, rq->flags & CAY_FILE_NEW) < 0) {
        code = errno == EXDEV ? move_across(rq, &from, &to, reply) : cay_file_code(errno);
        if (code != CAY_FILE_OK) {
            int saved = errno;
            cay_place_undo(&to);
            errno = saved;
            return code;
        }
    }
    reply->flags = 0;
    if (fstatat(to.dir_fd, to.name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        reply->info = cay_file_info(&st);
    return CAY_FILE_OK;
}

/* ---- REMOVE ---- */

enum cay_file_code cay_file_remove(const struct cay_file_request *rq, struct cay_file_reply *reply)
{
    CAY_AUTO_PLACE struct cay_place p;
    struct stat st;
    size_t len = strlen(rq->path);
    enum cay_file_code code = cay_place_open(rq->path, 0, &p);
    if (code != CAY_FILE_OK)
        return code;
    if (fstatat(p.dir_fd, p.name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return cay_file_code(errno);
    reply->info = cay_file_info(&st);
    if (!S_ISDIR(st.st_mode)) {
        if (len > 0 && rq->path[len - 1] == '/')
            return cay_file_code(ENOTDIR);
        return unlinkat(p.dir_fd, p.name, 0) < 0 ? cay_file_code(errno) : CAY_FILE_OK;
    }
    if (strcmp(p.name, ".") == 0)
        return cay_file_code(EINVAL);
    if (unlinkat(p.dir_fd, p.name, AT_REMOVEDIR) == 0)
        return CAY_FILE_OK;
    if (errno != ENOTEMPTY && errno != EEXIST)
        return cay_file_code(errno);
    if (!(rq->flags & CAY_FILE_RECURSIVE))
        return cay_file_code(ENOTEMPTY);
    CAY_AUTO_FD int fd = openat(p.dir_fd, p.name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return cay_file_code(errno);
    code = cay_tree_empty(fd);
    if (code != CAY_FILE_OK)
        return code;
    return unlinkat(p.dir_fd, p.name, AT_REMOVEDIR) < 0 ? cay_file_code(errno) : CAY_FILE_OK;
}
