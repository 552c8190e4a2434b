/* SPDX-License-Identifier: Apache-2.0 */
/* Files that a command begins with: each is in place before the next is looked at. They come on
 * stdin as struct cay_file_put, path, bytes; the request's count says how many, so that a sender
 * that vanishes between two is noticed too. */
#include "file/file.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

static enum cay_file_code early(void)
{
    return errno ? cay_file_code(errno) : CAY_FILE_INCOMPLETE;
}

static enum cay_file_code copy(struct cay_draft *d, uint64_t left)
{
    static char buf[CAY_FILE_CHUNK];
    while (left > 0) {
        size_t len = left < sizeof buf ? (size_t)left : sizeof buf;
        if (!cay_file_get(STDIN_FILENO, buf, len))
            return early();
        enum cay_file_code code = cay_draft_add(d, buf, len);
        if (code != CAY_FILE_OK)
            return code;
        left -= len;
    }
    return CAY_FILE_OK;
}

/* What stood there in another form goes: a file where a directory is wanted, and the other way. */
static void make_way(const char *path)
{
    struct stat st;
    char part[CAY_MAX_PATH + 1];
    size_t len = strlen(path);
    memcpy(part, path, len + 1);
    for (size_t at = strcspn(part, "/"); at < len; at += 1 + strcspn(part + at + 1, "/")) {
        part[at] = 0;
        if (lstat(part, &st) == 0 && !S_ISDIR(st.st_mode))
            (void)unlink(part); /* what cannot go is told by who wants its place */
        part[at] = '/';
    }
    if (lstat(path, &st) < 0 || S_ISREG(st.st_mode))
        return;
    if (S_ISDIR(st.st_mode)) {
        CAY_AUTO_FD int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0)
            (void)cay_tree_empty(fd);
    }
    (void)remove(path);
}

static enum cay_file_code put_link(const char *path, uint64_t len)
{
    char target[CAY_MAX_PATH + 1] = "";
    CAY_AUTO_PLACE struct cay_place place = {.dir_fd = -1};
    if (len < 1 || len > CAY_MAX_PATH)
        return CAY_FILE_BAD_REQUEST;
    if (!cay_file_get(STDIN_FILENO, target, (size_t)len))
        return early();
    enum cay_file_code code = cay_place_open(path, CAY_PLACE_PARENTS, &place);
    if (code != CAY_FILE_OK)
        return code;
    (void)unlinkat(place.dir_fd, place.name, 0); /* not there is fine */
    return symlinkat(target, place.dir_fd, place.name) < 0 ? cay_file_code(errno) : CAY_FILE_OK;
}

/* With its directories, as far as they are empty. */
static enum cay_file_code take_away(char *path)
{
    if (unlink(path) < 0 && errno != ENOENT && errno != ENOTDIR && errno != EISDIR)
        return cay_file_code(errno);
    for (char *slash; (slash = strrchr(path, '/')) && slash > path;) {
        *slash = 0;
        if (rmdir(path) < 0)
            break;
    }
    return CAY_FILE_OK;
}

static enum cay_file_code put_one(struct cay_file_request rq, struct cay_file_reply *reply)
{
    CAY_AUTO_DRAFT struct cay_draft draft = {.fd = -1, .place.dir_fd = -1};
    char path[CAY_MAX_PATH + 1] = "";
    struct cay_file_put head;
    if (!cay_file_get(STDIN_FILENO, &head, sizeof head))
        return early();
    if (head.path_len < 1 || head.path_len > CAY_MAX_PATH)
        return CAY_FILE_BAD_REQUEST;
    if (!cay_file_get(STDIN_FILENO, path, head.path_len))
        return early();
    if (head.mode == CAY_FILE_GONE)
        return take_away(path);
    if (head.mode)
        make_way(path);
    if (S_ISLNK(head.mode))
        return put_link(path, head.len);
    if (head.mode)
        rq.mode = CAY_FILE_MODE | (head.mode & 0777);
    rq.size = head.len;
    enum cay_file_code code = cay_draft_begin(&rq, path, &draft);
    if (code == CAY_FILE_OK)
        code = copy(&draft, head.len);
    if (code == CAY_FILE_OK)
        code = cay_draft_finish(&rq, &draft, reply);
    return code;
}

enum cay_file_code cay_file_put_all(const struct cay_file_request *rq, struct cay_file_reply *reply)
{
    enum cay_file_code code = CAY_FILE_OK;
    if (rq->count > CAY_HISTORY_FILES)
        return CAY_FILE_TOO_MANY;
    while (code == CAY_FILE_OK && reply->count < rq->count) {
        reply->count++; /* also of one that fails: it is the last, and known by this */
        code = put_one(*rq, reply);
    }
    return code;
}
