/* SPDX-License-Identifier: Apache-2.0 */
/* From a path to a name in an opened directory. */
#include "file/file.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define LINKS_MAX 40 /* the kernel's own */

void cay_place_close(struct cay_place *p)
{
    cay_close_fd(&p->dir_fd);
}

void cay_place_undo(struct cay_place *p)
{
    char *end = p->made + strlen(p->made);
    for (bool gone = true; gone && p->made_from;) {
        while (end > p->made && end[-1] == '/')
            end--;
        *end = 0;
        gone = (size_t)(end - p->made) >= p->made_from && rmdir(p->made) == 0; /* else it is used */
        while (end > p->made && end[-1] != '/')
            end--;
    }
    p->made_from = 0;
}

enum cay_file_code cay_place_mkdir(const char *path, mode_t mode, size_t *made_from)
{
    char part[CAY_MAX_PATH + 1];
    size_t len = strlen(path), at = 0;
    *made_from = 0;
    if (len > CAY_MAX_PATH)
        return cay_file_code(ENAMETOOLONG);
    memcpy(part, path, len + 1);
    while (at < len) {
        at += strspn(path + at, "/");
        at += strcspn(path + at, "/");
        part[at] = 0;
        bool last = path[at + strspn(path + at, "/")] == 0;
        if (mkdir(part, last ? mode : 0777) == 0) {
            if (!*made_from)
                *made_from = at;
        } else if (errno != EEXIST) {
            return cay_file_code(errno);
        }
        if (at < len)
            part[at] = path[at];
    }
    struct stat st;
    if (stat(path, &st) < 0)
        return cay_file_code(errno);
    return S_ISDIR(st.st_mode) ? CAY_FILE_OK : cay_file_code(ENOTDIR);
}

static enum cay_file_code open_dir(const char *path, unsigned how, struct cay_place *p)
{
    p->dir_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (p->dir_fd >= 0)
        return CAY_FILE_OK;
    if (errno != ENOENT || !(how & CAY_PLACE_PARENTS))
        return cay_file_code(errno);
    enum cay_file_code code = cay_place_mkdir(path, 0777, &p->made_from);
    memcpy(p->made, path, strlen(path) + 1);
    if (code == CAY_FILE_OK) {
        p->dir_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        code = p->dir_fd < 0 ? cay_file_code(errno) : CAY_FILE_OK;
    }
    if (code != CAY_FILE_OK)
        cay_place_undo(p);
    return code;
}

/* Cuts "dir/name": dir ends in its slash, or is ".". */
static enum cay_file_code split(const char *path, char dir[CAY_MAX_PATH + 1], char *name)
{
    size_t len = strlen(path);
    if (len == 0)
        return cay_file_code(ENOENT);
    if (len > CAY_MAX_PATH)
        return cay_file_code(ENAMETOOLONG);
    while (len > 1 && path[len - 1] == '/')
        len--;
    size_t from = len;
    while (from > 0 && path[from - 1] != '/')
        from--;
    size_t name_len = len - from;
    if (name_len > NAME_MAX)
        return cay_file_code(ENAMETOOLONG);
    memcpy(name, path + from, name_len);
    name[name_len] = 0;
    bool dots = strcmp(name, "..") == 0 || name_len == 0;
    if (dots)
        memcpy(name, ".", 2);
    memcpy(dir, path, dots ? len : from);
    dir[dots ? len : from] = 0;
    if (!dir[0])
        memcpy(dir, ".", 2);
    return CAY_FILE_OK;
}

/* What a link at the end leads to takes its place, relative to where the link is. */
static enum cay_file_code follow(char path[CAY_MAX_PATH + 1], const char *dir,
                                 const struct cay_place *p, bool *again)
{
    char target[CAY_MAX_PATH + 1];
    *again = false;
    ssize_t n = readlinkat(p->dir_fd, p->name, target, sizeof target - 1);
    if (n < 0) /* not there, or no link */
        return CAY_FILE_OK;
    target[n] = 0;
    size_t len = target[0] == '/' ? 0 : strlen(dir);
    if (len + 1 + (size_t)n > CAY_MAX_PATH)
        return cay_file_code(ENAMETOOLONG);
    memmove(path, dir, len);
    if (len > 0 && path[len - 1] != '/')
        path[len++] = '/';
    memcpy(path + len, target, (size_t)n + 1);
    *again = true;
    return CAY_FILE_OK;
}

enum cay_file_code cay_place_open(const char *path, unsigned how, struct cay_place *out)
{
    char now[CAY_MAX_PATH + 1], dir[CAY_MAX_PATH + 1];
    *out = (struct cay_place){.dir_fd = -1};
    if (strlen(path) > CAY_MAX_PATH)
        return cay_file_code(ENAMETOOLONG);
    memcpy(now, path, strlen(path) + 1);
    for (int links = 0; links <= LINKS_MAX; links++) {
        bool again = false;
        enum cay_file_code code = split(now, dir, out->name);
        if (code == CAY_FILE_OK)
            code = open_dir(dir, how, out);
        if (code == CAY_FILE_OK && (how & CAY_PLACE_FOLLOW))
            code = follow(now, dir, out, &again);
        if (code != CAY_FILE_OK || !again)
            return code;
        cay_close_fd(&out->dir_fd);
    }
    return cay_file_code(ELOOP);
}
