/* SPDX-License-Identifier: Apache-2.0 */
/* A file that is being written: beside its target under a name of its own, renamed when it is
 * whole. Whoever reads the target sees the old content or the new one. What `>` would not be
 * allowed to overwrite is not replaced either. */
#include "file/file.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

/* The one under way, for the signal that ends the sandbox. */
static struct cay_draft *volatile current;

static void on_term(int signal)
{
    (void)signal;
    struct cay_draft *d = current;
    if (d && d->temp[0])
        (void)unlinkat(d->place.dir_fd, d->temp, 0);
    _exit(1);
}

void cay_draft_drop(struct cay_draft *d)
{
    int saved = errno;
    if (d->temp[0])
        (void)unlinkat(d->place.dir_fd, d->temp, 0); /* gone already is as good */
    if (!d->done)
        cay_place_undo(&d->place);
    d->temp[0] = 0;
    current = NULL;
    cay_close_fd(&d->fd);
    cay_place_close(&d->place);
    errno = saved;
}

/* Is the file the one that the caller saw? */
static bool is_another(const struct cay_file_request *rq, bool existed, const struct stat *st)
{
    char etag[CAY_FILE_ETAG_SIZE];
    if (!rq->match)
        return false;
    struct cay_file_info info = cay_file_info(st);
    cay_file_etag(&info, etag);
    return !existed || (strcmp(rq->match, "*") != 0 && strcmp(rq->match, etag) != 0);
}

/* A link that is to be replaced counts as nothing: what it leads to is not ours to ask about. But
 * who names /dev/stdout does not want a file in its place. */
static enum cay_file_code pass_over_link(struct cay_draft *d)
{
    struct stat st;
    d->existed = false;
    bool leads = fstatat(d->place.dir_fd, d->place.name, &st, 0) == 0;
    return leads && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode) ? CAY_FILE_NOT_A_FILE
                                                                 : CAY_FILE_OK;
}

static enum cay_file_code look(const struct cay_file_request *rq, struct cay_draft *d)
{
    d->existed = fstatat(d->place.dir_fd, d->place.name, &d->old, AT_SYMLINK_NOFOLLOW) == 0;
    if (!d->existed && errno != ENOENT)
        return cay_file_code(errno);
    if (d->existed && S_ISLNK(d->old.st_mode) && (rq->flags & CAY_FILE_REPLACE))
        return pass_over_link(d);
    if (d->existed && S_ISDIR(d->old.st_mode))
        return cay_file_code(EISDIR);
    if (d->existed && !S_ISREG(d->old.st_mode))
        return CAY_FILE_NOT_A_FILE;
    if (d->existed && (rq->flags & CAY_FILE_NEW))
        return cay_file_code(EEXIST);
    if (is_another(rq, d->existed, &d->old))
        return CAY_FILE_CHANGED;
    if (d->existed && faccessat(d->place.dir_fd, d->place.name, W_OK, AT_EACCESS) < 0)
        return cay_file_code(errno);
    return CAY_FILE_OK;
}

static bool ends_in_slash(const char *path)
{
    size_t len = strlen(path);
    return len > 0 && path[len - 1] == '/';
}

enum cay_file_code cay_draft_begin(const struct cay_file_request *rq, const char *path,
                                   struct cay_draft *out)
{
    uint64_t random = 0;
    *out = (struct cay_draft){.fd = -1, .place.dir_fd = -1};
    if (ends_in_slash(path))
        return cay_file_code(EISDIR);
    unsigned how = rq->flags & CAY_FILE_REPLACE ? 0 : CAY_PLACE_FOLLOW;
    enum cay_file_code code = cay_place_open(path, CAY_PLACE_PARENTS | how, &out->place);
    if (code == CAY_FILE_OK)
        code = look(rq, out);
    if (code != CAY_FILE_OK)
        return code;
    out->hashing = rq->flags & CAY_FILE_HASH;
    cay_sha256_init(&out->hash);
    (void)!getrandom(&random, sizeof random, 0); /* O_EXCL finds out where it did not work */
    (void)snprintf(out->temp, sizeof out->temp, ".cay-%016llx", (unsigned long long)random);
    current = out;
    (void)signal(SIGTERM, on_term);
    out->fd = openat(out->place.dir_fd, out->temp,
                     O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (out->fd >= 0)
        return CAY_FILE_OK;
    out->temp[0] = 0; /* whoever's it is, it is not ours */
    return cay_file_code(errno);
}

enum cay_file_code cay_draft_add(struct cay_draft *d, const void *data, size_t len)
{
    if (!cay_write_all(d->fd, data, len))
        return cay_file_code(errno);
    if (d->hashing)
        cay_sha256_add(&d->hash, data, len);
    d->bytes += len;
    return CAY_FILE_OK;
}

static mode_t mode_of(const struct cay_file_request *rq, const struct cay_draft *d)
{
    if (rq->mode & CAY_FILE_MODE)
        return rq->mode & 07777;
    if (d->existed)
        return d->old.st_mode & 07777;
    mode_t mask = umask(022);
    (void)umask(mask);
    return 0666 & ~mask;
}

static enum cay_file_code put_in_place(const struct cay_file_request *rq, struct cay_draft *d)
{
    struct stat now;
    bool exists = fstatat(d->place.dir_fd, d->place.name, &now, AT_SYMLINK_NOFOLLOW) == 0;
    if (is_another(rq, exists, &now))
        return CAY_FILE_CHANGED;
    if (cay_file_rename(d->place.dir_fd, d->temp, d->place.dir_fd, d->place.name,
                        rq->flags & CAY_FILE_NEW) < 0)
        return cay_file_code(errno);
    d->temp[0] = 0;
    d->done = true;
    return CAY_FILE_OK;
}

enum cay_file_code cay_draft_finish(const struct cay_file_request *rq, struct cay_draft *d,
                                    struct cay_file_reply *reply)
{
    struct stat st;
    if (d->existed) /* only root can give it back; a user's new file is his own */
        (void)!fchown(d->fd, d->old.st_uid, d->old.st_gid);
    if (fchmod(d->fd, mode_of(rq, d)) < 0 ||
        (!(rq->flags & CAY_FILE_LOOSE) && fdatasync(d->fd) < 0) || fstat(d->fd, &st) < 0)
        return cay_file_code(errno);
    if ((uint64_t)st.st_size != d->bytes)
        return CAY_FILE_INCOMPLETE;
    enum cay_file_code code = put_in_place(rq, d);
    if (code != CAY_FILE_OK)
        return code;
    reply->info = cay_file_info(&st);
    reply->flags = d->existed ? 0 : CAY_FILE_CREATED;
    if (d->hashing) {
        cay_sha256_done(&d->hash, reply->sha256);
        reply->flags |= CAY_FILE_HAS_SHA256;
    }
    return CAY_FILE_OK;
}
