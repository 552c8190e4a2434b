/* SPDX-License-Identifier: Apache-2.0 */
/* Walking a tree in order and in bounded memory, however many entries a directory has: the smallest
 * names behind the last one are picked out, a batch at a time. */
#include "base/path.h"
#include "file/file.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define BATCH 1024
#define HELD_MAX 128 /* directories that one removal holds open */

struct batch {
    char *names[BATCH];
    size_t count;
    bool more;
};

static void free_batch(struct batch **b)
{
    for (size_t i = 0; *b && i < (*b)->count; i++)
        free((*b)->names[i]);
    free(*b);
}

static void insert(struct batch *b, const char *name)
{
    size_t low = 0, high = b->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (strcmp(b->names[middle], name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == BATCH) {
        b->more = true;
        return;
    }
    if (b->count == BATCH) {
        free(b->names[--b->count]);
        b->more = true;
    }
    memmove(b->names + low + 1, b->names + low, (b->count - low) * sizeof *b->names);
    b->names[low] = strdup(name);
    if (!b->names[low])
        abort();
    b->count++;
}

/* The first names behind `after`. */
static enum cay_file_code fill(DIR *dir, const char *after, struct batch *b)
{
    rewinddir(dir);
    errno = 0;
    for (struct dirent *e; (e = readdir(dir));)
        if (!cay_path_is_dots(e->d_name) && strcmp(e->d_name, after) > 0)
            insert(b, e->d_name);
    return errno ? cay_file_code(errno) : CAY_FILE_OK;
}

static void close_dir(DIR **dir)
{
    if (*dir)
        (void)closedir(*dir);
}

static enum cay_file_code walk(struct cay_tree *t, int dir_fd, unsigned depth, const char *after);

static enum cay_file_code descend(struct cay_tree *t, int dir_fd, const char *name, unsigned depth,
                                  const char *after)
{
    CAY_AUTO_FD int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP))
        return CAY_FILE_OK; /* it went, or became something else */
    if (fd < 0)
        return t->closed ? t->closed(t, errno) : CAY_FILE_OK;
    return walk(t, fd, depth, after);
}

/* Puts a name behind the path; the length to go back to, or 0 when it does not fit. */
static bool push(struct cay_tree *t, const char *name, size_t *before)
{
    size_t len = strlen(name), slash = t->path_len > 0;
    *before = t->path_len;
    if (t->path_len + slash + len > CAY_MAX_PATH)
        return false;
    if (slash)
        t->path[t->path_len++] = '/';
    memcpy(t->path + t->path_len, name, len + 1);
    t->path_len += len;
    return true;
}

static void pop(struct cay_tree *t, size_t before)
{
    t->path_len = before;
    t->path[before] = 0;
}

static enum cay_file_code visit(struct cay_tree *t, int dir_fd, const char *name, unsigned depth)
{
    struct stat st;
    size_t before;
    bool skip = false;
    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? CAY_FILE_OK : cay_file_code(errno);
    if (!push(t, name, &before))
        return CAY_FILE_TOO_MANY;
    enum cay_file_code code = t->visit(t, dir_fd, name, &st, &skip);
    if (code == CAY_FILE_OK && !t->stop && !skip && S_ISDIR(st.st_mode) && depth < t->depth_max)
        code = descend(t, dir_fd, name, depth + 1, NULL);
    pop(t, before);
    return code;
}

/* The entry that `after` begins with was visited before; what it holds perhaps not yet. */
static enum cay_file_code resume(struct cay_tree *t, int dir_fd, unsigned depth, const char *after,
                                 char first[NAME_MAX + 1])
{
    size_t len = strcspn(after, "/"), before;
    if (len > NAME_MAX)
        return CAY_FILE_INVALID_PATH;
    memcpy(first, after, len);
    first[len] = 0;
    if (depth >= t->depth_max || !push(t, first, &before))
        return CAY_FILE_OK;
    enum cay_file_code code =
        descend(t, dir_fd, first, depth + 1, after[len] ? after + len + 1 : NULL);
    pop(t, before);
    return code;
}

static enum cay_file_code walk(struct cay_tree *t, int dir_fd, unsigned depth, const char *after)
{
    char last[NAME_MAX + 1] = "";
    enum cay_file_code code = CAY_FILE_OK;
    if (depth > CAY_FILE_DEPTH)
        return CAY_FILE_TOO_MANY;
    if (after && *after)
        code = resume(t, dir_fd, depth, after, last);
    int again = fcntl(dir_fd, F_DUPFD_CLOEXEC, 0);
    CAY_CLEANUP(close_dir) DIR *dir = again < 0 ? NULL : fdopendir(again);
    if (!dir)
        return cay_file_code(errno);
    for (bool more = true; more && code == CAY_FILE_OK && !t->stop;) {
        CAY_CLEANUP(free_batch) struct batch *b = cay_file_alloc(sizeof *b);
        code = fill(dir, last, b);
        more = b->more;
        for (size_t i = 0; i < b->count && code == CAY_FILE_OK && !t->stop; i++)
            code = visit(t, dir_fd, b->names[i], depth);
        if (b->count > 0)
            memcpy(last, b->names[b->count - 1], strlen(b->names[b->count - 1]) + 1);
    }
    return code;
}

enum cay_file_code cay_tree_walk(struct cay_tree *t, int dir_fd, const char *after)
{
    return walk(t, dir_fd, 1, after);
}

/* ---- removing ---- */

struct removal {
    int top_fd;
    unsigned serial;
    bool moved; /* something was moved up: another pass is needed */
    enum cay_file_code first;
    int error;
};

static void note(struct removal *r)
{
    if (r->first == CAY_FILE_OK) {
        r->error = errno;
        r->first = cay_file_code(errno);
    }
}

static void empty(struct removal *r, int dir_fd, unsigned depth);

static void remove_dir(struct removal *r, int dir_fd, const char *name, unsigned depth)
{
    char fresh[32];
    if (unlinkat(dir_fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
        return;
    if (errno != ENOTEMPTY && errno != EEXIST) {
        note(r);
        return;
    }
    if (depth >= HELD_MAX) { /* deeper than we may hold directories: up to the top with it */
        (void)snprintf(fresh, sizeof fresh, ".cay-remove-%u", r->serial++);
        if (renameat(dir_fd, name, r->top_fd, fresh) < 0)
            note(r);
        else
            r->moved = true;
        return;
    }
    CAY_AUTO_FD int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        note(r);
        return;
    }
    empty(r, fd, depth + 1);
    if (unlinkat(dir_fd, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
        note(r);
}

static void empty(struct removal *r, int dir_fd, unsigned depth)
{
    int again = fcntl(dir_fd, F_DUPFD_CLOEXEC, 0);
    CAY_CLEANUP(close_dir) DIR *dir = again < 0 ? NULL : fdopendir(again);
    if (!dir) {
        note(r);
        return;
    }
    rewinddir(dir); /* the descriptor was perhaps read before */
    for (struct dirent *e; (e = readdir(dir));) {
        if (cay_path_is_dots(e->d_name) || unlinkat(dir_fd, e->d_name, 0) == 0 || errno == ENOENT)
            continue;
        if (errno == EISDIR || errno == EPERM)
            remove_dir(r, dir_fd, e->d_name, depth);
        else
            note(r);
    }
}

enum cay_file_code cay_tree_empty(int dir_fd)
{
    struct removal r = {.top_fd = dir_fd};
    do {
        r.moved = false;
        empty(&r, dir_fd, 0);
    } while (r.moved && r.first == CAY_FILE_OK);
    errno = r.error;
    return r.first;
}
