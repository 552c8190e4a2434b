/* SPDX-License-Identifier: Apache-2.0 */
/* The logs' directory: LOGS/<shelf>/<sandbox>/<execution>.log and .fact.
 *
 * Ids are checked for their form before they become names, so a name never leaves the directory.
 * No file is opened through a link; directories are made when their first log is. LOGS/reserve has
 * no bytes but blocks.
 *
 * A shelf is the last character of a sandbox's id. Each begins in a part of the disk of its own
 * (see cay_path_spread), so that what one sandbox's logs gave up is not passed over for most
 * others'; with a part for each sandbox the kernel would keep the tables of the whole disk in
 * memory. */
#include "log/files.h"
#include "base/clock.h"
#include "base/path.h"
#include "log/spec.h"
#include "log/writer.h"
#include "model/limits.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define DIR_SIZE (CAY_ID_SIZE + 2)
#define NAME_SIZE (DIR_SIZE + CAY_ID_SIZE + 8)
#define FACT_MAX 64
#define RESERVE "reserve"

/* Of a sandbox, below LOGS. */
struct dir_name {
    char text[DIR_SIZE];
};

static struct dir_name dir_of(const char *sandbox_id)
{
    struct dir_name d;
    (void)snprintf(d.text, sizeof d.text, "%c/%.*s", sandbox_id[strlen(sandbox_id) - 1],
                   CAY_ID_SIZE - 1, sandbox_id);
    return d;
}

static bool make_name(char out[NAME_SIZE], const char *sandbox_id, const char *exec_id,
                      const char *suffix)
{
    if (!cay_id_is_sandbox(sandbox_id) || !cay_id_is_execution(exec_id))
        return false;
    (void)snprintf(out, NAME_SIZE, "%s/%s%s", dir_of(sandbox_id).text, exec_id, suffix);
    return true;
}

static int no_execution(struct cay_error *err)
{
    return cay_fail_as(err, CAY_ERR_NOT_FOUND, "EXECUTION_NOT_FOUND", "execution not found");
}

/* The sandbox's directory, and its shelf where that is the first. */
static bool make_dir(int logs_fd, const char *sandbox_id)
{
    const struct dir_name dir = dir_of(sandbox_id);
    const char shelf[] = {dir.text[0], 0};
    if (mkdirat(logs_fd, dir.text, 0700) == 0 || errno == EEXIST)
        return true;
    return errno == ENOENT && (mkdirat(logs_fd, shelf, 0700) == 0 || errno == EEXIST) &&
           (mkdirat(logs_fd, dir.text, 0700) == 0 || errno == EEXIST);
}

static int create_file(int logs_fd, const char *sandbox_id, const char *name)
{
    const int flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    int fd = openat(logs_fd, name, flags, 0600);
    if (fd >= 0 || errno != ENOENT || !make_dir(logs_fd, sandbox_id))
        return fd;
    return openat(logs_fd, name, flags, 0600);
}

static int create(int logs_fd, const char *sandbox_id, const char *exec_id,
                  const struct cay_exec_spec *spec, int *fd_out, struct cay_error *err)
{
    char name[NAME_SIZE];
    if (!make_name(name, sandbox_id, exec_id, ".log"))
        return no_execution(err);
    CAY_AUTO_FD int fd = create_file(logs_fd, sandbox_id, name);
    if (fd < 0)
        return cay_fail_errno(err, errno == EEXIST ? CAY_ERR_CONFLICT : CAY_ERR_STORE,
                              "cannot make the log of %s", exec_id);

    CAY_AUTO_BUF struct cay_buf json = {0};
    cay_log_spec_write(spec, &json);
    struct cay_writer w;
    cay_writer_init(&w, fd, CAY_LOG_HEAD_BYTES, CAY_LOG_TAIL_BYTES);
    if (!cay_writer_record(&w, CAY_RECORD_SPEC, json.data, json.len, cay_clock_ms())) {
        int r = cay_fail_errno(err, CAY_ERR_STORE, "cannot write the log of %s", exec_id);
        (void)unlinkat(logs_fd, name, 0); /* the error that matters is on its way */
        return r;
    }
    *fd_out = cay_take_fd(&fd);
    return 0;
}

int cay_log_create(int logs_fd, const char *sandbox_id, const char *exec_id,
                   const struct cay_exec_spec *spec, int *fd_out, struct cay_error *err)
{
    int r = create(logs_fd, sandbox_id, exec_id, spec, fd_out, err);
    if (r == CAY_ERR_HOST_FULL && unlinkat(logs_fd, RESERVE, 0) == 0)
        r = create(logs_fd, sandbox_id, exec_id, spec, fd_out, err);
    return r;
}

void cay_log_hold_reserve(int logs_fd)
{
    CAY_AUTO_FD int fd =
        openat(logs_fd, RESERVE, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0 && !cay_path_reserve(fd, CAY_LOG_RESERVE_BYTES))
        (void)unlinkat(logs_fd, RESERVE, 0); /* the next look finds an empty one otherwise */
}

int cay_log_open(int logs_fd, const char *sandbox_id, const char *exec_id, int *fd_out,
                 struct cay_error *err)
{
    char name[NAME_SIZE];
    if (!make_name(name, sandbox_id, exec_id, ".log"))
        return no_execution(err);
    int fd = openat(logs_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return no_execution(err);
    if (fd < 0)
        return cay_fail_errno(err, CAY_ERR_STORE, "cannot open the log of %s", exec_id);
    *fd_out = fd;
    return 0;
}

int cay_log_fact_write(int logs_fd, const char *sandbox_id, const char *exec_id,
                       const struct cay_log_fact *fact, struct cay_error *err)
{
    char name[NAME_SIZE], text[FACT_MAX];
    if (!make_name(name, sandbox_id, exec_id, ".fact"))
        return no_execution(err);
    if (!make_dir(logs_fd, sandbox_id))
        return cay_fail_errno(err, CAY_ERR_STORE, "cannot make the logs of %s", sandbox_id);
    int len = snprintf(text, sizeof text, "%.*s %lld%s%.*s\n", (int)sizeof fact->reason - 1,
                       fact->reason, (long long)fact->time_ms, *fact->process ? " " : "",
                       (int)sizeof fact->process - 1, fact->process);
    return cay_path_replace(logs_fd, name, text, (size_t)len, 0600, err);
}

bool cay_log_fact_read(int logs_fd, const char *sandbox_id, const char *exec_id,
                       struct cay_log_fact *out)
{
    char name[NAME_SIZE], text[FACT_MAX + 1];
    if (!make_name(name, sandbox_id, exec_id, ".fact"))
        return false;
    CAY_AUTO_FD int fd = openat(logs_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return false;
    ssize_t len = pread(fd, text, sizeof text - 1, 0);
    if (len <= 0 || text[len - 1] != '\n')
        return false;
    text[len - 1] = 0;
    struct cay_log_fact fact = {0};
    size_t word = strspn(text, "abcdefghijklmnopqrstuvwxyz_");
    if (!word || word >= sizeof fact.reason || text[word] != ' ')
        return false;
    memcpy(fact.reason, text, word);
    char *time = text + word + 1, *process = strchr(time, ' ');
    if (process)
        *process++ = 0;
    if (!cay_str_i64(time, &fact.time_ms))
        return false;
    cay_str_copy(fact.process, sizeof fact.process, process ? process : "");
    *out = fact;
    return true;
}

/* A directory for reading; NULL when there is none. */
static DIR *open_dir(int dir_fd, const char *name)
{
    int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    DIR *dir = fdopendir(fd);
    if (!dir)
        (void)close(fd); /* only read from */
    return dir;
}

static DIR *open_logs(int logs_fd, const char *sandbox_id)
{
    return open_dir(logs_fd, dir_of(sandbox_id).text);
}

static void close_dir(DIR **dir)
{
    if (*dir)
        (void)closedir(*dir); /* only read from */
}

struct entry {
    char id[CAY_ID_SIZE];
    int64_t made_ns;
    uint64_t inode;
};

/* Of two made in one tick of the clock the later has, as a rule, the higher inode. */
static int newest_first(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->made_ns != y->made_ns)
        return x->made_ns < y->made_ns ? 1 : -1;
    return (x->inode < y->inode) - (x->inode > y->inode);
}

/* Names are random, so the order is that of the files' birth (or last write where the file system
 * does not keep it). */
static bool read_entry(int dir_fd, const char *name, struct entry *out)
{
    size_t len = strlen(name);
    struct entry e = {0};
    struct statx st;
    if (!cay_str_ends(name, ".log") || len - 4 >= sizeof e.id)
        return false;
    memcpy(e.id, name, len - 4);
    if (!cay_id_is_execution(e.id) ||
        statx(dir_fd, name, AT_SYMLINK_NOFOLLOW, STATX_BTIME | STATX_MTIME | STATX_INO, &st) < 0)
        return false;
    struct statx_timestamp made = st.stx_mask & STATX_BTIME ? st.stx_btime : st.stx_mtime;
    e.made_ns = made.tv_sec * 1000000000LL + made.tv_nsec;
    e.inode = st.stx_ino;
    *out = e;
    return true;
}

/* Followers wait by inotify for IN_MODIFY, which a new mtime alone brings as well; with the other
 * time it would be another event. */
void cay_log_touch(int fd)
{
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_nsec = UTIME_NOW}};
    (void)futimens(fd, times); /* at worst they wait for their client's patience */
}

int cay_log_list(int logs_fd, const char *sandbox_id, struct cay_arena *a, struct cay_strs *out,
                 struct cay_error *err)
{
    if (!cay_id_is_sandbox(sandbox_id))
        return no_execution(err);
    CAY_CLEANUP(close_dir) DIR *dir = open_logs(logs_fd, sandbox_id);
    if (!dir && errno != ENOENT)
        return cay_fail_errno(err, CAY_ERR_STORE, "cannot list the executions of %s", sandbox_id);

    CAY_AUTO_BUF struct cay_buf found = {0};
    for (struct dirent *d; dir && (d = readdir(dir));) {
        struct entry e;
        if (read_entry(dirfd(dir), d->d_name, &e))
            cay_buf_add(&found, &e, sizeof e);
    }
    struct entry *entries = (struct entry *)(void *)found.data;
    struct cay_strs list = {.count = found.len / sizeof *entries};
    if (list.count) {
        qsort(entries, list.count, sizeof *entries, newest_first);
        list.at = cay_arena_alloc(a, list.count * sizeof *list.at);
    }
    for (size_t i = 0; i < list.count; i++)
        list.at[i] = cay_arena_strdup(a, entries[i].id);
    *out = list;
    return 0;
}

uint64_t cay_log_written(int logs_fd, const char *sandbox_id)
{
    uint64_t sum = 0;
    struct stat st;
    if (!cay_id_is_sandbox(sandbox_id))
        return 0;
    CAY_CLEANUP(close_dir) DIR *dir = open_logs(logs_fd, sandbox_id);
    for (struct dirent *d; dir && (d = readdir(dir));)
        if (cay_str_ends(d->d_name, ".log") &&
            fstatat(dirfd(dir), d->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
            sum += (uint64_t)st.st_size;
    return sum;
}

void cay_log_remove(int logs_fd, const char *sandbox_id, const char *exec_id)
{
    char name[NAME_SIZE];
    if (make_name(name, sandbox_id, exec_id, ".log"))
        (void)unlinkat(logs_fd, name, 0); /* gone already is fine; else the sweep finds it */
    if (make_name(name, sandbox_id, exec_id, ".fact"))
        (void)unlinkat(logs_fd, name, 0);
}

void cay_log_remove_all(int logs_fd, const char *sandbox_id)
{
    if (!cay_id_is_sandbox(sandbox_id))
        return;
    CAY_CLEANUP(close_dir) DIR *dir = open_logs(logs_fd, sandbox_id);
    if (!dir)
        return;
    for (struct dirent *d; (d = readdir(dir));)
        if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0)
            (void)unlinkat(dirfd(dir), d->d_name, 0); /* what stays, the next sweep meets */
    (void)unlinkat(logs_fd, dir_of(sandbox_id).text, AT_REMOVEDIR);
}

static bool is_shelf(const char *name)
{
    return name[0] && !name[1] && strcmp(name, ".") != 0;
}

/* Everybody who has logs. */
static void each_sandbox(int logs_fd, void (*visit)(int logs_fd, const char *id, void *arg),
                         void *arg)
{
    CAY_CLEANUP(close_dir) DIR *all = open_dir(logs_fd, ".");
    for (struct dirent *s; all && (s = readdir(all));) {
        CAY_CLEANUP(close_dir)
        DIR *shelf = is_shelf(s->d_name) ? open_dir(logs_fd, s->d_name) : NULL;
        for (struct dirent *d; shelf && (d = readdir(shelf));)
            if (cay_id_is_sandbox(d->d_name))
                visit(logs_fd, d->d_name, arg);
    }
}

/* When the sandbox's logs were last written; INT64_MAX when that cannot be told. */
static int64_t last_write_ms(int logs_fd, const char *sandbox_id)
{
    CAY_CLEANUP(close_dir) DIR *dir = open_logs(logs_fd, sandbox_id);
    struct stat st;
    if (!dir || fstat(dirfd(dir), &st) < 0)
        return INT64_MAX;
    int64_t newest = st.st_mtim.tv_sec * 1000LL + st.st_mtim.tv_nsec / 1000000;
    for (struct dirent *d; (d = readdir(dir));) {
        if (fstatat(dirfd(dir), d->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
            continue;
        int64_t at = st.st_mtim.tv_sec * 1000LL + st.st_mtim.tv_nsec / 1000000;
        if (at > newest)
            newest = at;
    }
    return newest;
}

struct sweep {
    int64_t before_ms;
    bool (*is_alive)(void *arg, const char *id);
    void *arg;
};

static void sweep_one(int logs_fd, const char *id, void *arg)
{
    const struct sweep *s = arg;
    if (!s->is_alive(s->arg, id) && last_write_ms(logs_fd, id) < s->before_ms)
        cay_log_remove_all(logs_fd, id);
}

void cay_log_sweep(int logs_fd, int64_t older_than_ms, bool (*is_alive)(void *arg, const char *id),
                   void *arg)
{
    struct sweep s = {cay_clock_ms() - older_than_ms, is_alive, arg};
    each_sandbox(logs_fd, sweep_one, &s);
}

static void add_blocks(int logs_fd, const char *id, void *arg)
{
    int64_t *blocks = arg;
    struct stat st;
    CAY_CLEANUP(close_dir) DIR *dir = open_logs(logs_fd, id);
    for (struct dirent *f; dir && (f = readdir(dir));)
        if (fstatat(dirfd(dir), f->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
            *blocks += st.st_blocks;
}

int64_t cay_log_bytes(int logs_fd)
{
    int64_t blocks = 0;
    each_sandbox(logs_fd, add_blocks, &blocks);
    return blocks * 512;
}

static void weigh_one(int logs_fd, const char *sandbox_id, void *arg)
{
    struct cay_buf *out = arg;
    CAY_CLEANUP(close_dir) DIR *dir = open_logs(logs_fd, sandbox_id);
    for (struct dirent *d; dir && (d = readdir(dir));) {
        struct cay_log_weight w = {0};
        size_t len = strlen(d->d_name);
        struct stat st;
        if (!cay_str_ends(d->d_name, ".log") || len - 4 >= sizeof w.exec_id ||
            fstatat(dirfd(dir), d->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        cay_str_copy(w.sandbox_id, sizeof w.sandbox_id, sandbox_id);
        memcpy(w.exec_id, d->d_name, len - 4);
        w.written_ms = st.st_mtim.tv_sec * 1000LL + st.st_mtim.tv_nsec / 1000000;
        w.bytes = st.st_blocks * 512;
        if (cay_id_is_execution(w.exec_id))
            cay_buf_add(out, &w, sizeof w);
    }
}

void cay_log_weigh(int logs_fd, struct cay_buf *out)
{
    each_sandbox(logs_fd, weigh_one, out);
}

/* Into a directory that is there already: an older program ran in between. */
static void merge(int logs_fd, const char *sandbox_id)
{
    CAY_CLEANUP(close_dir) DIR *from = open_dir(logs_fd, sandbox_id);
    CAY_CLEANUP(close_dir) DIR *to = open_logs(logs_fd, sandbox_id);
    for (struct dirent *d; from && to && (d = readdir(from));)
        if (!cay_path_is_dots(d->d_name))
            (void)renameat(dirfd(from), d->d_name, dirfd(to), d->d_name); /* the next start again */
    (void)unlinkat(logs_fd, sandbox_id, AT_REMOVEDIR);
}

void cay_log_shelve(int logs_fd)
{
    cay_path_spread(logs_fd);
    CAY_CLEANUP(close_dir) DIR *all = open_dir(logs_fd, ".");
    for (struct dirent *d; all && (d = readdir(all));)
        if (cay_id_is_sandbox(d->d_name) && make_dir(logs_fd, d->d_name) &&
            renameat(logs_fd, d->d_name, logs_fd, dir_of(d->d_name).text) < 0)
            merge(logs_fd, d->d_name);
}
