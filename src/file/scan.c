/* SPDX-License-Identifier: Apache-2.0 */
/* What history asks: which files a tree has and what tells their versions apart (SCAN), and the
 * contents of some of them (FETCH). In no order, because whoever asks sorts; so a directory is read
 * once, however large. Repositories that a tenant has in there (.git) are his own. */
#include "base/beneath.h"
#include "file/file.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

struct scan {
    char path[CAY_MAX_PATH + 1];
    size_t path_len, held;
    uint32_t count;
    char out[CAY_FILE_CHUNK];
};

static struct cay_file_seen seen(const struct stat *st, size_t path_len)
{
    return (struct cay_file_seen){
        .size = (uint64_t)st->st_size,
        .inode = st->st_ino,
        .mtime_ns = st->st_mtim.tv_sec * 1000000000LL + st->st_mtim.tv_nsec,
        .ctime_ns = st->st_ctim.tv_sec * 1000000000LL + st->st_ctim.tv_nsec,
        .mode = st->st_mode,
        .path_len = (uint32_t)path_len,
    };
}

static enum cay_file_code flush(struct scan *s)
{
    bool sent = cay_file_put(STDOUT_FILENO, s->out, s->held);
    s->held = 0;
    return sent ? CAY_FILE_OK : cay_file_code(errno);
}

static enum cay_file_code send(struct scan *s, const struct cay_file_seen *head)
{
    enum cay_file_code code = CAY_FILE_OK;
    if (s->held + sizeof *head + head->path_len > sizeof s->out)
        code = flush(s);
    memcpy(s->out + s->held, head, sizeof *head);
    memcpy(s->out + s->held + sizeof *head, s->path, head->path_len);
    s->held += sizeof *head + head->path_len;
    return code;
}

static enum cay_file_code walk(struct scan *s, int dir_fd, unsigned depth);

static enum cay_file_code look(struct scan *s, int dir_fd, const char *name, unsigned depth)
{
    struct stat st;
    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return CAY_FILE_OK; /* it went */
    if (S_ISDIR(st.st_mode)) {
        CAY_AUTO_FD int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        return fd < 0 ? CAY_FILE_OK : walk(s, fd, depth + 1); /* a closed one is passed over */
    }
    if (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))
        return CAY_FILE_OK;
    if (++s->count > CAY_HISTORY_FILES)
        return CAY_FILE_TOO_MANY;
    struct cay_file_seen head = seen(&st, s->path_len);
    return send(s, &head);
}

static void close_dir(DIR **dir)
{
    if (*dir)
        (void)closedir(*dir);
}

static bool is_left_out(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strcmp(name, ".git") == 0;
}

static enum cay_file_code walk(struct scan *s, int dir_fd, unsigned depth)
{
    enum cay_file_code code = CAY_FILE_OK;
    int again = fcntl(dir_fd, F_DUPFD_CLOEXEC, 0);
    CAY_CLEANUP(close_dir) DIR *dir = again < 0 ? NULL : fdopendir(again);
    if (!dir)
        return cay_file_code(errno);
    if (depth > CAY_FILE_DEPTH)
        return CAY_FILE_TOO_MANY;
    for (struct dirent *e; code == CAY_FILE_OK && (e = readdir(dir));) {
        size_t before = s->path_len, len = strlen(e->d_name), slash = before > 0;
        if (is_left_out(e->d_name))
            continue;
        if (before + slash + len > CAY_MAX_PATH)
            return CAY_FILE_TOO_MANY;
        s->path[before] = '/';
        memcpy(s->path + before + slash, e->d_name, len + 1);
        s->path_len += slash + len;
        code = look(s, dir_fd, e->d_name, depth);
        s->path_len = before;
    }
    return code;
}

enum cay_file_code cay_file_scan(const struct cay_file_request *rq, struct cay_file_reply *reply)
{
    static struct scan s;
    const struct cay_file_seen last = {.whole = 1};
    CAY_AUTO_FD int fd = open(rq->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return cay_file_code(errno);
    reply->length = CAY_FILE_UNKNOWN;
    cay_file_answer(reply, CAY_FILE_OK);
    enum cay_file_code code = walk(&s, fd, 1);
    s.path_len = 0;
    if (code == CAY_FILE_OK)
        code = send(&s, &last);
    if (code == CAY_FILE_OK)
        (void)flush(&s); /* without the last one it was not whole */
    return CAY_FILE_OK;
}

/* ---- FETCH ---- */

/* No link on the way: what was seen by a walk is fetched as a walk would find it. */
static int open_below(int top_fd, const char *path, int flags)
{
    return cay_open_beneath(top_fd, path, flags,
                            RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV);
}

/* As much as there is now, whatever its size was before: it may be written to meanwhile. */
static enum cay_file_code read_file(int fd, char *buf, size_t max, size_t *len_out)
{
    for (*len_out = 0; *len_out <= max;) {
        ssize_t n = read(fd, buf + *len_out, max + 1 - *len_out);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return cay_file_code(errno);
        if (n == 0)
            return CAY_FILE_OK;
        *len_out += (size_t)n;
    }
    return CAY_FILE_TOO_LARGE;
}

static enum cay_file_code fetch(int top_fd, const char *path, char *buf, size_t max,
                                struct cay_file_fetched *out)
{
    struct stat st;
    CAY_AUTO_FD int place = open_below(top_fd, path, O_PATH | O_NOFOLLOW);
    if (place < 0 || fstat(place, &st) < 0)
        return cay_file_code(errno);
    out->seen = seen(&st, 0);
    if (S_ISLNK(st.st_mode)) {
        ssize_t n = readlinkat(place, "", buf, max);
        out->len = n < 0 ? 0 : (uint64_t)n;
        return n < 0 ? cay_file_code(errno) : CAY_FILE_OK;
    }
    if (!S_ISREG(st.st_mode))
        return CAY_FILE_NOT_A_FILE;
    CAY_AUTO_FD int fd = open_below(top_fd, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return cay_file_code(errno);
    size_t len;
    enum cay_file_code code = read_file(fd, buf, max, &len);
    out->len = len;
    return code;
}

enum cay_file_code cay_file_fetch(const struct cay_file_request *rq, struct cay_file_reply *reply)
{
    const size_t max = rq->limit_bytes;
    char path[CAY_MAX_PATH + 1];
    CAY_AUTO_FD int top_fd = open(rq->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (top_fd < 0)
        return cay_file_code(errno);
    if (max > CAY_HISTORY_FILE_BYTES || rq->count > CAY_HISTORY_FILES)
        return CAY_FILE_BAD_REQUEST;
    char *buf = cay_file_alloc(max + 1);
    reply->length = CAY_FILE_UNKNOWN;
    cay_file_answer(reply, CAY_FILE_OK);
    for (uint64_t i = 0; i < rq->count; i++) {
        uint32_t len;
        if (!cay_file_get(STDIN_FILENO, &len, sizeof len) || len < 1 || len > CAY_MAX_PATH ||
            !cay_file_get(STDIN_FILENO, path, len))
            return CAY_FILE_OK; /* nobody waits for the rest */
        path[len] = 0;
        struct cay_file_fetched one = {0};
        one.code = fetch(top_fd, path, buf, max, &one);
        if (one.code != CAY_FILE_OK)
            one.len = 0;
        if (!cay_file_put(STDOUT_FILENO, &one, sizeof one) ||
            !cay_file_put(STDOUT_FILENO, buf, one.len))
            return CAY_FILE_OK;
    }
    return CAY_FILE_OK;
}
