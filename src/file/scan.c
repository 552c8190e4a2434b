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
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>

/* Many small things in few writes, of which each is one's alone. */
struct out {
    size_t held;
    char data[CAY_FILE_CHUNK];
};
static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER;

static bool write_alone(const void *data, size_t len)
{
    pthread_mutex_lock(&writing);
    bool well = cay_write_all(STDOUT_FILENO, data, len);
    pthread_mutex_unlock(&writing);
    return well;
}

static bool flush(struct out *out)
{
    size_t held = out->held;
    out->held = 0;
    return held == 0 || write_alone(out->data, held);
}

static bool has_room(struct out *out, size_t len)
{
    return len <= sizeof out->data - out->held || flush(out);
}

static bool put(struct out *out, const void *data, size_t len)
{
    if (!has_room(out, len))
        return false;
    if (len > sizeof out->data)
        return write_alone(data, len);
    memcpy(out->data + out->held, data, len);
    out->held += len;
    return true;
}

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

/* No link on the way: what was seen by a walk is fetched as a walk would find it. */
static int open_below(int top_fd, const char *path, int flags, uint64_t resolve)
{
    return cay_open_beneath(top_fd, path, flags | O_NOFOLLOW,
                            RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | resolve);
}

/* ---- the walk ----
 *
 * All of its time goes to the kernel's looking at one file after the other, so a large tree is
 * looked at by several threads. They may be at the same directory: each call gives other entries.
 */

#define READERS 4 /* at most; as many as there are processors */
#define ALONE 100 /* so few files and directories are not worth a second one */

struct dir {
    struct dir *next;
    int fd; /* -1: nobody has begun */
    unsigned depth, readers;
    bool ended;
    size_t path_len;
    char path[];
};

static struct {
    int top_fd;
    atomic_uint files;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    struct dir *first; /* to be read, the newest first: so they are few */
    unsigned dirs, at_work, threads;
    enum cay_file_code code; /* anything but OK ends it */
} walk = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static struct reader {
    pthread_t thread;
    struct out out;
    char path[CAY_MAX_PATH + 1];
    _Alignas(struct dirent) char entries[CAY_FILE_CHUNK / 2];
} readers[READERS];

static void fail(enum cay_file_code code)
{
    pthread_mutex_lock(&walk.lock);
    walk.code = code;
    pthread_cond_broadcast(&walk.changed);
    pthread_mutex_unlock(&walk.lock);
}

static void add_dir(const char *path, size_t len, unsigned depth)
{
    struct dir *d = cay_file_alloc(sizeof *d + len + 1);
    memcpy(d->path, path, len);
    d->path_len = len;
    d->depth = depth;
    d->fd = -1;
    pthread_mutex_lock(&walk.lock);
    if (depth > CAY_FILE_DEPTH || ++walk.dirs > CAY_HISTORY_FILES)
        walk.code = CAY_FILE_TOO_MANY;
    d->next = walk.first;
    walk.first = d;
    pthread_cond_signal(&walk.changed);
    pthread_mutex_unlock(&walk.lock);
}

/* Under the lock. */
static void end_dir(struct dir *d)
{
    struct dir **at = &walk.first;
    while (*at != d)
        at = &(*at)->next;
    *at = d->next;
    d->ended = true;
}

static void free_dir(struct dir *d)
{
    cay_close_fd(&d->fd);
    free(d);
}

/* Under the lock: one to read on in; NULL at the end of the walk. */
static struct dir *next_dir(void)
{
    while (walk.code == CAY_FILE_OK && (walk.first || walk.at_work > 0)) {
        struct dir *d = walk.first;
        if (d && d->fd < 0)
            d->fd = open_below(walk.top_fd, d->path_len ? d->path : ".", O_RDONLY | O_DIRECTORY, 0);
        if (d && d->fd >= 0) {
            d->readers++;
            walk.at_work++;
            return d;
        }
        if (d) { /* a closed one is passed over */
            end_dir(d);
            free_dir(d);
        } else {
            pthread_cond_wait(&walk.changed, &walk.lock);
        }
    }
    return NULL;
}

static void look(struct reader *r, const struct dir *d, const char *name, size_t path_len)
{
    struct stat st;
    if (fstatat(d->fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return; /* it went */
    if (S_ISDIR(st.st_mode))
        add_dir(r->path, path_len, d->depth + 1);
    if (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))
        return;
    struct cay_file_seen head = seen(&st, path_len);
    if (atomic_fetch_add(&walk.files, 1) >= CAY_HISTORY_FILES)
        fail(CAY_FILE_TOO_MANY);
    else if (!has_room(&r->out, sizeof head + path_len) || !put(&r->out, &head, sizeof head) ||
             !put(&r->out, r->path, path_len))
        fail(CAY_FILE_FAILED);
}

static bool is_left_out(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strcmp(name, ".git") == 0;
}

static void look_at_all(struct reader *r, const struct dir *d, size_t bytes)
{
    size_t slash = d->path_len > 0, before = d->path_len + slash;
    memcpy(r->path, d->path, d->path_len);
    r->path[d->path_len] = '/';
    for (size_t at = 0; at < bytes;) {
        const struct dirent *e = (const struct dirent *)(r->entries + at);
        size_t len = strlen(e->d_name);
        at += e->d_reclen;
        if (is_left_out(e->d_name))
            continue;
        if (before + len > CAY_MAX_PATH) {
            fail(CAY_FILE_TOO_MANY);
            return;
        }
        memcpy(r->path + before, e->d_name, len + 1);
        if (e->d_type == DT_DIR)
            add_dir(r->path, before + len, d->depth + 1);
        else if (e->d_type == DT_REG || e->d_type == DT_LNK || e->d_type == DT_UNKNOWN)
            look(r, d, e->d_name, before + len);
    }
}

static void *read_dirs(void *arg);

/* Under the lock. Where none can be had, those who are there do it. */
static void get_help(void)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    while (walk.threads + 1 < READERS && (long)walk.threads + 1 < processors) {
        struct reader *r = &readers[walk.threads + 1];
        if (pthread_create(&r->thread, NULL, read_dirs, r) != 0)
            break;
        walk.threads++;
    }
}

static void *read_dirs(void *arg)
{
    struct reader *r = arg;
    pthread_mutex_lock(&walk.lock);
    for (struct dir *d; (d = next_dir());) {
        pthread_mutex_unlock(&walk.lock);
        long n = syscall(SYS_getdents64, d->fd, r->entries, sizeof r->entries);
        if (n > 0)
            look_at_all(r, d, (size_t)n);
        pthread_mutex_lock(&walk.lock);
        if (n <= 0 && !d->ended)
            end_dir(d);
        if (--d->readers == 0 && d->ended)
            free_dir(d);
        if (--walk.at_work == 0)
            pthread_cond_broadcast(&walk.changed);
        if (r == readers && walk.threads == 0 && walk.files + walk.dirs > ALONE)
            get_help();
    }
    pthread_mutex_unlock(&walk.lock);
    if (!flush(&r->out))
        fail(CAY_FILE_FAILED);
    return NULL;
}

static enum cay_file_code walk_all(int top_fd)
{
    walk.top_fd = top_fd;
    add_dir("", 0, 1);
    (void)read_dirs(readers);
    for (unsigned i = 0; i < walk.threads; i++)
        (void)pthread_join(readers[i + 1].thread, NULL); /* it ends when there is nothing to do */
    return walk.code;
}

/* ---- contents ---- */

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
    CAY_AUTO_FD int fd = open_below(top_fd, path, O_PATH, RESOLVE_NO_XDEV);
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
    CAY_AUTO_FD int fd = open_below(top_fd, path, O_RDONLY | O_NONBLOCK, RESOLVE_NO_XDEV);
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
static bool next_path(struct out *out, char path[CAY_MAX_PATH + 1])
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
        ssize_t n = flush(out) ? read(STDIN_FILENO, in.data + have, sizeof in.data - have) : 0;
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
    struct out *out = &readers[0].out;
    char path[CAY_MAX_PATH + 1], *buf = NULL;
    for (uint64_t i = 0; i < 2 * CAY_HISTORY_FILES && next_path(out, path); i++) {
        struct cay_file_fetched one = {0};
        if (!buf)
            buf = cay_file_alloc(max + 1);
        one.code = fetch(top_fd, path, buf, max, &one);
        if (one.code != CAY_FILE_OK)
            one.len = 0;
        if (!put(out, &one, sizeof one) || !put(out, buf, one.len))
            break; /* nobody waits for the rest */
    }
    free(buf);
    (void)flush(out); /* likewise */
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
    const struct cay_file_seen last = {.whole = 1};
    CAY_AUTO_FD int fd = -1;
    enum cay_file_code code = begin(rq, reply, &fd);
    if (code != CAY_FILE_OK)
        return code;
    if (walk_all(fd) != CAY_FILE_OK || !put(&readers[0].out, &last, sizeof last))
        return CAY_FILE_OK; /* without the last one it was not whole */
    return serve(fd, rq->limit_bytes);
}

enum cay_file_code cay_file_fetch(const struct cay_file_request *rq, struct cay_file_reply *reply)
{
    CAY_AUTO_FD int fd = -1;
    enum cay_file_code code = begin(rq, reply, &fd);
    return code != CAY_FILE_OK ? code : serve(fd, rq->limit_bytes);
}
