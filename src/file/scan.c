/* SPDX-License-Identifier: Apache-2.0 */
/* What history asks: which files a tree has and what tells their versions apart (SCAN), and the
 * contents of some of them (SCAN goes on with those, FETCH has nothing before). In no order,
 * because whoever asks sorts; so a directory is read once, however large. Repositories that a
 * tenant has in there (.git) are his own. */
#include "base/beneath.h"
#include "file/file.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

/* Many small things in few writes. */
static struct {
    size_t held;
    char data[CAY_FILE_CHUNK];
} out;

static bool flush(void)
{
    size_t held = out.held;
    out.held = 0;
    return cay_write_all(STDOUT_FILENO, out.data, held);
}

static bool put(const void *data, size_t len)
{
    if (len > sizeof out.data - out.held && !flush())
        return false;
    if (len > sizeof out.data)
        return cay_write_all(STDOUT_FILENO, data, len);
    memcpy(out.data + out.held, data, len);
    out.held += len;
    return true;
}

struct scan {
    char path[CAY_MAX_PATH + 1];
    size_t path_len;
    uint32_t count;
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
    return put(&head, sizeof head) && put(s->path, s->path_len) ? CAY_FILE_OK
                                                                : cay_file_code(errno);
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

/* ---- contents ---- */

/* No link on the way: what was seen by a walk is fetched as a walk would find it. */
static int open_below(int top_fd, const char *path, int flags)
{
    return cay_open_beneath(top_fd, path, flags | O_NOFOLLOW,
                            RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV);
}

/* As much as there is now, whatever its size was before: it may be written to meanwhile. */
static enum cay_file_code read_file(int fd, char *buf, size_t max, size_t *len_out)
{
    for (*len_out = 0; *len_out <= max;) {
        size_t room = max + 1 - *len_out;
        ssize_t n = read(fd, buf + *len_out, room);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return cay_file_code(errno);
        *len_out += (size_t)n;
        if ((size_t)n < room)
            return CAY_FILE_OK; /* of a file, that was its end */
    }
    return CAY_FILE_TOO_LARGE;
}

static enum cay_file_code fetch_link(int top_fd, const char *path, char *buf, size_t max,
                                     struct cay_file_fetched *one)
{
    struct stat st;
    CAY_AUTO_FD int fd = open_below(top_fd, path, O_PATH);
    ssize_t n = fd < 0 || fstat(fd, &st) < 0 ? -1 : readlinkat(fd, "", buf, max);
    if (n < 0)
        return cay_file_code(errno);
    one->seen = seen(&st, 0);
    one->len = (uint64_t)n;
    return CAY_FILE_OK;
}

static enum cay_file_code fetch(int top_fd, const char *path, char *buf, size_t max,
                                struct cay_file_fetched *one)
{
    struct stat st;
    size_t len = 0;
    CAY_AUTO_FD int fd = open_below(top_fd, path, O_RDONLY | O_NONBLOCK);
    if (fd < 0 && errno == ELOOP)
        return fetch_link(top_fd, path, buf, max, one);
    if (fd < 0 || fstat(fd, &st) < 0)
        return cay_file_code(errno);
    if (!S_ISREG(st.st_mode))
        return CAY_FILE_NOT_A_FILE;
    one->seen = seen(&st, 0);
    enum cay_file_code code = read_file(fd, buf, max, &len);
    one->len = len;
    return code;
}

/* The next path that is asked for; false: none is. What was held back goes before it is waited
 * for. */
static bool next_path(char path[CAY_MAX_PATH + 1])
{
    static struct {
        size_t at, len;
        char data[CAY_FILE_CHUNK];
    } in;
    uint32_t want = 0;
    for (;;) {
        size_t have = in.len - in.at;
        if (have >= sizeof want)
            memcpy(&want, in.data + in.at, sizeof want);
        if (have >= sizeof want && (want < 1 || want > CAY_MAX_PATH))
            return false;
        if (have >= sizeof want && have - sizeof want >= want)
            break;
        memmove(in.data, in.data + in.at, have);
        in.at = 0;
        in.len = have;
        ssize_t n = flush() ? read(STDIN_FILENO, in.data + have, sizeof in.data - have) : 0;
        if (n == 0 || (n < 0 && errno != EINTR))
            return false;
        in.len += n > 0 ? (size_t)n : 0;
    }
    memcpy(path, in.data + in.at + sizeof want, want);
    path[want] = 0;
    in.at += sizeof want + want;
    return true;
}

/* As long as somebody asks. */
static enum cay_file_code serve(int top_fd, size_t max)
{
    char path[CAY_MAX_PATH + 1], *buf = NULL;
    for (uint64_t i = 0; i < 2 * CAY_HISTORY_FILES && next_path(path); i++) {
        struct cay_file_fetched one = {0};
        if (!buf)
            buf = cay_file_alloc(max + 1);
        one.code = fetch(top_fd, path, buf, max, &one);
        if (one.code != CAY_FILE_OK)
            one.len = 0;
        if (!put(&one, sizeof one) || !put(buf, one.len))
            break; /* nobody waits for the rest */
    }
    free(buf);
    (void)flush(); /* likewise */
    return CAY_FILE_OK;
}

static enum cay_file_code begin(const struct cay_file_request *rq, struct cay_file_reply *reply,
                                int *fd)
{
    *fd = open(rq->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*fd < 0)
        return cay_file_code(errno);
    if (rq->limit_bytes > CAY_HISTORY_FILE_BYTES)
        return CAY_FILE_BAD_REQUEST;
    reply->length = CAY_FILE_UNKNOWN;
    cay_file_answer(reply, CAY_FILE_OK);
    return CAY_FILE_OK;
}

enum cay_file_code cay_file_scan(const struct cay_file_request *rq, struct cay_file_reply *reply)
{
    static struct scan s;
    const struct cay_file_seen last = {.whole = 1};
    CAY_AUTO_FD int fd = -1;
    enum cay_file_code code = begin(rq, reply, &fd);
    if (code != CAY_FILE_OK)
        return code;
    if (walk(&s, fd, 1) != CAY_FILE_OK || !put(&last, sizeof last))
        return CAY_FILE_OK; /* without the last one it was not whole */
    return serve(fd, rq->limit_bytes);
}

enum cay_file_code cay_file_fetch(const struct cay_file_request *rq, struct cay_file_reply *reply)
{
    CAY_AUTO_FD int fd = -1;
    enum cay_file_code code = begin(rq, reply, &fd);
    return code != CAY_FILE_OK ? code : serve(fd, rq->limit_bytes);
}
