/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/path.h"
#include "core/core.h"
#include "core/once.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define DIRECTORY "batches"
#define NAME_SIZE (CAY_ID_SIZE + sizeof DIRECTORY + 1)

_Static_assert(CAY_BATCH_HEAD == CAY_FINGERPRINT_SIZE, "a fingerprint and a newline");

static void make_name(char out[NAME_SIZE], const char *id)
{
    (void)snprintf(out, NAME_SIZE, DIRECTORY "/%s", id);
}

/* A request without a key is not asked for again: it has none. */
static void print_head(const struct cay_once *once, char out[CAY_BATCH_HEAD])
{
    memset(out, '-', CAY_BATCH_HEAD);
    if (once)
        memcpy(out, once->fingerprint, strlen(once->fingerprint));
    out[CAY_BATCH_HEAD - 1] = '\n';
}

static bool is_whole(int fd)
{
    struct stat st;
    char last = 1;
    return fstat(fd, &st) == 0 && st.st_size > CAY_BATCH_HEAD &&
           pread(fd, &last, 1, st.st_size - 1) == 1 && last == 0;
}

int cay_batch_file_find(struct cay_core *core, const char *id, const struct cay_once *once,
                        bool *whole, int *fd_out, struct cay_error *err)
{
    char name[NAME_SIZE], head[CAY_BATCH_HEAD];
    make_name(name, id);
    CAY_AUTO_FD int fd = openat(core->logs_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return cay_fail_errno(err, errno == ENOENT ? CAY_ERR_NOT_FOUND : CAY_ERR_STORE,
                              "cannot open the batch");
    if (pread(fd, head, sizeof head, 0) != sizeof head)
        return cay_fail(err, CAY_ERR_NOT_FOUND, "the batch was not begun");
    head[sizeof head - 1] = 0;
    int r = cay_once_same(once, head, err);
    if (r < 0)
        return r;
    *whole = is_whole(fd);
    *fd_out = cay_take_fd(&fd);
    return 0;
}

int cay_batch_file_create(struct cay_core *core, const char *id, const struct cay_once *once,
                          int *write_fd_out, int *read_fd_out, struct cay_error *err)
{
    char name[NAME_SIZE], head[CAY_BATCH_HEAD];
    const int flags = O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC;
    make_name(name, id);
    print_head(once, head);
    if (mkdirat(core->logs_fd, DIRECTORY, 0700) < 0 && errno != EEXIST)
        return cay_fail_errno(err, CAY_ERR_STORE, "cannot make the directory of batches");
    CAY_AUTO_FD int fd = openat(core->logs_fd, name, flags, 0600);
    CAY_AUTO_FD int reader =
        fd < 0 ? -1 : openat(core->logs_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (reader < 0 || pwrite(fd, head, sizeof head, 0) != sizeof head) {
        int r = cay_fail_errno(err, CAY_ERR_STORE, "cannot make the file of a batch");
        (void)unlinkat(core->logs_fd, name, 0); /* the error that matters is on its way */
        return r;
    }
    *write_fd_out = cay_take_fd(&fd);
    *read_fd_out = cay_take_fd(&reader);
    return 0;
}

/* Under the batch's lock. */
static bool append(struct cay_batch *b, const char *data, size_t len)
{
    size_t at = 0;
    while (at < len) {
        ssize_t n = pwrite(b->fd, data + at, len - at, (off_t)(b->len + at));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        at += (size_t)n;
    }
    if (at < len) {
        (void)!ftruncate(b->fd, (off_t)b->len); /* what stays is written over */
        return false;
    }
    b->len += len;
    return true;
}

void cay_batch_file_add(struct cay_batch *b, const struct cay_buf *line)
{
    pthread_mutex_lock(&b->lock);
    if (!append(b, line->data, line->len))
        b->lost++;
    pthread_mutex_unlock(&b->lock);
}

bool cay_batch_file_end(struct cay_batch *b)
{
    pthread_mutex_lock(&b->lock);
    bool done = append(b, "", 1);
    pthread_mutex_unlock(&b->lock);
    return done;
}

void cay_batch_file_remove(struct cay_core *core, const char *id)
{
    char name[NAME_SIZE];
    make_name(name, id);
    (void)unlinkat(core->logs_fd, name, 0); /* gone already is fine; else the next start meets it */
}

static DIR *open_directory(struct cay_core *core)
{
    int fd = openat(core->logs_fd, DIRECTORY, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (fd >= 0 && !dir)
        (void)close(fd); /* only read from */
    return dir;
}

int cay_batch_file_cut(struct cay_core *core, struct cay_arena *a, struct cay_strs *out,
                       struct cay_error *err)
{
    DIR *dir = open_directory(core);
    struct cay_strs found = {0};
    if (!dir && errno != ENOENT)
        return cay_fail_errno(err, CAY_ERR_STORE, "cannot list batches");
    for (struct dirent *d; dir && (d = readdir(dir));) {
        if (!cay_id_is_batch(d->d_name))
            continue;
        CAY_AUTO_FD int fd = openat(dirfd(dir), d->d_name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0 && !is_whole(fd))
            cay_strs_push(a, &found, cay_arena_strdup(a, d->d_name));
    }
    if (dir)
        (void)closedir(dir); /* as above */
    *out = found;
    return 0;
}

bool cay_batch_file_is_cut(struct cay_core *core, const char *id)
{
    char name[NAME_SIZE];
    make_name(name, id);
    CAY_AUTO_FD int fd = openat(core->logs_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    return fd >= 0 && !is_whole(fd);
}

void cay_batch_file_sweep(struct cay_core *core, int64_t older_than_ms)
{
    DIR *dir = open_directory(core);
    const int64_t now_ms = cay_clock_ms();
    for (struct dirent *d; dir && (d = readdir(dir));) {
        struct stat st;
        if (!cay_id_is_batch(d->d_name) ||
            fstatat(dirfd(dir), d->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
            st.st_mtim.tv_sec * 1000LL >= now_ms - older_than_ms ||
            cay_core_batch_runs(core, d->d_name))
            continue;
        (void)unlinkat(dirfd(dir), d->d_name, 0); /* what stays, the next sweep meets */
    }
    if (dir)
        (void)closedir(dir); /* as above */
}
