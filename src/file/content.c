/* SPDX-License-Identifier: Apache-2.0 */
/* The content of one file: read, written, appended to. */
#include "file/file.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/sendfile.h>

#define PIECE (1 * CAY_MIB)
#define SMALL_MAX (16 * CAY_MIB) /* that one which said it was small may turn out to be */

/* ---- READ ---- */

static enum cay_file_code open_file(const char *path, int *fd_out, struct stat *st)
{
    /* O_NONBLOCK: a pipe that somebody put there must not keep us */
    CAY_AUTO_FD int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, st) < 0)
        return cay_file_code(errno);
    if (S_ISDIR(st->st_mode))
        return cay_file_code(EISDIR);
    if (!S_ISREG(st->st_mode))
        return CAY_FILE_NOT_A_FILE;
    *fd_out = cay_take_fd(&fd);
    return CAY_FILE_OK;
}

static enum cay_file_code hash_file(int fd, struct cay_file_reply *reply)
{
    static char buf[CAY_FILE_CHUNK];
    struct cay_sha256 hash;
    off_t at = 0;
    cay_sha256_init(&hash);
    for (ssize_t n; (n = pread(fd, buf, sizeof buf, at)) != 0; at += n) {
        if (n < 0)
            return cay_file_code(errno);
        cay_sha256_add(&hash, buf, (size_t)n);
    }
    cay_sha256_done(&hash, reply->sha256);
    reply->flags |= CAY_FILE_HAS_SHA256;
    return CAY_FILE_OK;
}

/* What a small file holds is known when it has been read: those of /proc say that they are empty,
 * those of /sys that they are a page, and others may just be written. */
static enum cay_file_code read_small(int fd, struct cay_buf *out)
{
    for (;;) {
        ssize_t n = read(fd, cay_buf_room(out, CAY_FILE_CHUNK), CAY_FILE_CHUNK);
        if (n <= 0)
            return n < 0 ? cay_file_code(errno) : CAY_FILE_OK;
        out->len += (size_t)n;
        if (out->len > SMALL_MAX)
            return CAY_FILE_TOO_LARGE;
    }
}

/* A file that shrinks meanwhile leaves the promise unkept, which is how the reader learns of it. */
static void send_range(int fd, uint64_t offset, uint64_t length)
{
    off_t at = (off_t)offset;
    while (length > 0) {
        size_t want = length < PIECE ? (size_t)length : PIECE;
        ssize_t n = sendfile(STDOUT_FILENO, fd, &at, want);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return;
        length -= (uint64_t)n;
    }
}

/* The wanted part of a file of that size. A file that is another than the caller's is sent whole.
 */
static enum cay_file_code choose_range(const struct cay_file_request *rq, uint64_t size,
                                       struct cay_file_reply *reply)
{
    char etag[CAY_FILE_ETAG_SIZE];
    cay_file_etag(&reply->info, etag);
    reply->length = size;
    if ((rq->offset == 0 && rq->length == CAY_FILE_UNKNOWN) ||
        (rq->match && strcmp(rq->match, etag) != 0))
        return CAY_FILE_OK;
    if (rq->offset == CAY_FILE_UNKNOWN) { /* the last bytes */
        reply->length = rq->length < size ? rq->length : size;
        reply->offset = size - reply->length;
    } else {
        reply->offset = rq->offset < size ? rq->offset : size;
        reply->length = rq->length < size - reply->offset ? rq->length : size - reply->offset;
    }
    reply->flags |= CAY_FILE_PARTIAL;
    return reply->length == 0 ? CAY_FILE_BAD_RANGE : CAY_FILE_OK;
}

static void hash_bytes(const struct cay_buf *b, struct cay_file_reply *reply)
{
    struct cay_sha256 hash;
    cay_sha256_init(&hash);
    cay_sha256_add(&hash, b->data ? b->data : "", b->len);
    cay_sha256_done(&hash, reply->sha256);
    reply->flags |= CAY_FILE_HAS_SHA256;
}

enum cay_file_code cay_file_read(const struct cay_file_request *rq, struct cay_file_reply *reply)
{
    CAY_AUTO_BUF struct cay_buf content = {0};
    CAY_AUTO_FD int fd = -1;
    struct stat st;
    enum cay_file_code code = open_file(rq->path, &fd, &st);
    if (code != CAY_FILE_OK)
        return code;
    const bool small = st.st_size <= CAY_FILE_CHUNK;
    if (small)
        code = read_small(fd, &content);
    if (small)
        st.st_size = (off_t)content.len;
    reply->info = cay_file_info(&st);
    if (code == CAY_FILE_OK)
        code = choose_range(rq, (uint64_t)st.st_size, reply);
    if (code == CAY_FILE_OK && (rq->flags & CAY_FILE_HASH) && small)
        hash_bytes(&content, reply);
    else if (code == CAY_FILE_OK && (rq->flags & CAY_FILE_HASH))
        code = hash_file(fd, reply);
    if (code != CAY_FILE_OK)
        return code;
    cay_file_answer(reply, CAY_FILE_OK);
    if (!small)
        send_range(fd, reply->offset, reply->length);
    else if (content.len > 0)
        (void)cay_write_all(STDOUT_FILENO, content.data + reply->offset, reply->length);
    return CAY_FILE_OK;
}

enum cay_file_code cay_file_stat(const struct cay_file_request *rq, struct cay_file_reply *reply)
{
    char target[CAY_MAX_PATH + 1];
    struct stat st;
    ssize_t len = 0;
    if (lstat(rq->path, &st) < 0)
        return cay_file_code(errno);
    reply->info = cay_file_info(&st);
    if (S_ISLNK(st.st_mode)) {
        len = readlink(rq->path, target, sizeof target);
        if (len < 0 || len > CAY_MAX_PATH)
            return cay_file_code(len < 0 ? errno : ENAMETOOLONG);
        reply->length = (uint64_t)len;
        if (stat(rq->path, &st) == 0) {
            reply->target = cay_file_info(&st);
            reply->flags |= CAY_FILE_HAS_TARGET;
        }
    }
    if (rq->flags & CAY_FILE_HASH) {
        CAY_AUTO_FD int fd = -1;
        enum cay_file_code code = open_file(rq->path, &fd, &st);
        if (code == CAY_FILE_OK)
            code = hash_file(fd, reply);
        if (code != CAY_FILE_OK)
            return code;
    }
    cay_file_answer(reply, CAY_FILE_OK);
    (void)cay_write_all(STDOUT_FILENO, target, (size_t)len); /* who does not read it is gone */
    return CAY_FILE_OK;
}

/* ---- WRITE ---- */

/* Through a pipe of our own: while the file is written its pipe is held, and whoever fills stdin's
 * must not wait for that. */
static ssize_t move_some(const int own[2], struct cay_draft *d)
{
    ssize_t got = splice(STDIN_FILENO, NULL, own[1], NULL, CAY_FILE_PIPE_BYTES, 0);
    for (ssize_t left = got; left > 0;) {
        ssize_t n = splice(own[0], NULL, d->fd, NULL, (size_t)left, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            errno = n < 0 ? errno : EIO;
            return -1;
        }
        d->bytes += (uint64_t)n;
        left -= n;
    }
    return got;
}

static ssize_t copy_some(struct cay_draft *d)
{
    static char buf[CAY_FILE_PIPE_BYTES];
    ssize_t got = read(STDIN_FILENO, buf, sizeof buf);
    return got > 0 && cay_draft_add(d, buf, (size_t)got) != CAY_FILE_OK ? -1 : got;
}

/* What need not be looked at is moved; the end of a file takes only what is written. */
static enum cay_file_code add_all(const struct cay_file_request *rq, struct cay_draft *d)
{
    int own[2];
    bool moves = !d->hashing && rq->op == CAY_FILE_WRITE && pipe2(own, O_CLOEXEC) == 0;
    if (moves) /* fewer, longer turns; where it is refused they are as usual */
        (void)fcntl(own[1], F_SETPIPE_SZ, CAY_FILE_PIPE_BYTES);
    for (;;) {
        ssize_t n = moves ? move_some(own, d) : copy_some(d);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? cay_file_code(errno) : CAY_FILE_OK;
        if (rq->limit_bytes && d->bytes > rq->limit_bytes)
            return CAY_FILE_TOO_LARGE;
    }
}

/* The end of the data is the end of the file only if its sender says so. */
static enum cay_file_code check_whole(const struct cay_file_request *rq, uint64_t bytes)
{
    char commit;
    if (rq->size != CAY_FILE_UNKNOWN && bytes != rq->size)
        return CAY_FILE_INCOMPLETE;
    if ((rq->flags & CAY_FILE_COMMIT) && !cay_file_get(CAY_FILE_COMMIT_FD, &commit, 1))
        return CAY_FILE_INCOMPLETE;
    return CAY_FILE_OK;
}

enum cay_file_code cay_file_write(const struct cay_file_request *rq, struct cay_file_reply *reply)
{
    CAY_AUTO_DRAFT struct cay_draft d;
    enum cay_file_code code = cay_draft_begin(rq, rq->path, &d);
    if (code == CAY_FILE_OK)
        code = add_all(rq, &d);
    if (code == CAY_FILE_OK)
        code = check_whole(rq, d.bytes);
    return code == CAY_FILE_OK ? cay_draft_finish(rq, &d, reply) : code;
}

/* ---- APPEND ---- */

/* A place that may not exist yet, and must not be made when the data does not come. */
static enum cay_file_code open_end(const struct cay_file_request *rq, struct cay_place *p,
                                   struct cay_draft *d)
{
    enum cay_file_code code = cay_place_open(rq->path, CAY_PLACE_PARENTS | CAY_PLACE_FOLLOW, p);
    if (code != CAY_FILE_OK)
        return code;
    const int how = O_WRONLY | O_APPEND | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC;
    const mode_t mode = rq->mode & CAY_FILE_MODE ? rq->mode & 07777 : 0666;
    d->fd = openat(p->dir_fd, p->name, how);
    if (d->fd < 0 && errno == ENOENT) {
        d->fd = openat(p->dir_fd, p->name, how | O_CREAT | O_EXCL, mode);
        d->existed = false;
    }
    if (d->fd < 0 || fstat(d->fd, &d->old) < 0)
        return cay_file_code(errno);
    return S_ISREG(d->old.st_mode) ? CAY_FILE_OK : CAY_FILE_NOT_A_FILE;
}

/* What was appended goes, unless others have appended since. */
static void take_back(const struct cay_place *p, const struct cay_draft *d)
{
    struct stat now;
    if (d->fd < 0 || fstat(d->fd, &now) < 0 ||
        (uint64_t)now.st_size != (uint64_t)d->old.st_size + d->bytes)
        return;
    (void)!ftruncate(d->fd, d->old.st_size);
    if (!d->existed && d->old.st_size == 0)
        (void)unlinkat(p->dir_fd, p->name, 0);
}

enum cay_file_code cay_file_append(const struct cay_file_request *rq, struct cay_file_reply *reply)
{
    CAY_AUTO_PLACE struct cay_place p;
    struct cay_draft d = {.fd = -1, .existed = true, .place.dir_fd = -1};
    CAY_AUTO_FD int fd = -1;
    struct stat st;
    enum cay_file_code code = open_end(rq, &p, &d);
    fd = d.fd;
    if (code == CAY_FILE_OK)
        code = add_all(rq, &d);
    if (code == CAY_FILE_OK)
        code = check_whole(rq, d.bytes);
    if (code == CAY_FILE_OK && (fdatasync(fd) < 0 || fstat(fd, &st) < 0))
        code = cay_file_code(errno);
    if (code != CAY_FILE_OK) {
        int saved = errno;
        take_back(&p, &d);
        cay_place_undo(&p);
        errno = saved;
        return code;
    }
    reply->info = cay_file_info(&st);
    reply->flags = d.existed ? 0 : CAY_FILE_CREATED;
    return CAY_FILE_OK;
}
