/* SPDX-License-Identifier: Apache-2.0 */
#include "log/events.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/str.h"
#include "model/limits.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME_SIZE 96
#define CHUNK (16 * 1024)
#define TEXT_MAX 256
#define LINE_MAX_BYTES (16 * 1024) /* no line of ours is longer */
#define TIME_KEY "\"time\":\""

/* Ids of accounts are ours, and of these characters; what is not is no name for a file. */
static bool make_name(char out[NAME_SIZE], const char *account_id)
{
    size_t len = strspn(account_id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                    "0123456789-_");
    return len > 0 && !account_id[len] &&
           snprintf(out, NAME_SIZE, "%s.jsonl", account_id) < NAME_SIZE;
}

static int open_file(int events_fd, const char *account_id, int flags, int *fd_out,
                     struct cay_error *err)
{
    char name[NAME_SIZE];
    if (!make_name(name, account_id))
        return cay_fail(err, CAY_ERR_INTERNAL, "account %.40s cannot have events", account_id);
    int fd = openat(events_fd, name, flags | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return cay_fail_errno(err, CAY_ERR_STORE, "cannot open the events of %s", account_id);
    *fd_out = fd;
    return 0;
}

int cay_events_open(int events_fd, const char *account_id, int *fd_out, struct cay_error *err)
{
    return open_file(events_fd, account_id, O_RDONLY, fd_out, err);
}

static void put(struct cay_json_writer *w, const char *key, const char *value)
{
    if (value)
        cay_jw_strn(w, key, value, strnlen(value, TEXT_MAX)); /* so that a line has a bound */
}

int cay_events_append(int events_fd, const struct cay_event *e, struct cay_error *err)
{
    CAY_AUTO_BUF struct cay_buf line = {0};
    CAY_AUTO_FD int fd = -1;
    struct cay_json_writer w = {.buf = &line};
    int r = open_file(events_fd, e->account_id, O_WRONLY | O_APPEND, &fd, err);
    if (r < 0)
        return r;
    cay_jw_object(&w, NULL);
    put(&w, "type", e->type);
    cay_jw_time(&w, "time", e->time_ms);
    put(&w, "sandboxId", e->sandbox_id);
    put(&w, "name", e->name);
    put(&w, "status", e->status);
    put(&w, "reason", e->reason);
    put(&w, "message", e->message);
    put(&w, "from", e->from);
    put(&w, "snapshotId", e->snapshot_id);
    cay_jw_object_end(&w);
    cay_buf_addc(&line, '\n');
    ssize_t n = write(fd, line.data, line.len);
    if (n < 0 || (size_t)n < line.len) { /* half a line would spoil the next one */
        if (n > 0)
            n = write(fd, "\n", 1);
        return cay_fail_errno(err, CAY_ERR_STORE, "cannot write an event of %s", e->account_id);
    }
    return 0;
}

bool cay_events_may_resume(int fd, uint64_t offset)
{
    struct stat st;
    char last;
    if (offset == 0)
        return true;
    if (fstat(fd, &st) < 0 || offset > (uint64_t)st.st_size)
        return false;
    return pread(fd, &last, 1, (off_t)offset - 1) == 1 && (last == '\n' || last == 0);
}

static bool fill(struct cay_events_reader *r)
{
    cay_buf_drop(&r->chunk, r->at);
    r->at = 0;
    off_t from = (off_t)(r->offset + r->chunk.len);
    ssize_t n = pread(r->fd, cay_buf_room(&r->chunk, CHUNK), CHUNK, from);
    if (n > 0)
        r->chunk.len += (size_t)n;
    return n > 0;
}

/* From a place that is gone to the first whole line behind it, or to the end. */
static void skip_hole(struct cay_events_reader *r)
{
    off_t data = lseek(r->fd, (off_t)r->offset, SEEK_DATA);
    off_t end = lseek(r->fd, 0, SEEK_END);
    r->chunk.len = r->at = 0;
    if (data < 0 || data >= end) {
        r->offset = end > (off_t)r->offset ? (uint64_t)end : r->offset;
        return;
    }
    for (r->offset = (uint64_t)data; fill(r); r->offset += r->at) {
        const char *text = r->chunk.data;
        const char *newline = memchr(text, '\n', r->chunk.len);
        r->at = newline ? (size_t)(newline - text) + 1 : r->chunk.len;
        if (newline && (r->at == r->chunk.len || text[r->at] != 0)) {
            r->offset += r->at;
            return;
        }
    }
}

/* A place that was never written to the end, or that makes no line of ours. */
static bool is_ours(const char *line, size_t len)
{
    return len > 2 && line[0] == '{' && line[len - 1] == '}' && !memchr(line, 0, len);
}

enum cay_events_got cay_events_next(struct cay_events_reader *r, const char **line, size_t *len)
{
    for (;;) {
        const char *text = r->chunk.data ? r->chunk.data + r->at : "";
        size_t left = r->chunk.len - r->at;
        const char *newline = left > 0 ? memchr(text, '\n', left) : NULL;
        if (left > 0 && text[0] == 0) {
            skip_hole(r);
            return CAY_EVENTS_GAP;
        }
        if (newline) {
            *line = text;
            *len = (size_t)(newline - text);
            r->at += *len + 1;
            r->offset += *len + 1;
            if (is_ours(*line, *len))
                return CAY_EVENTS_LINE;
        } else if (left >= LINE_MAX_BYTES) { /* whatever it is, it is none of ours */
            r->at += left;
            r->offset += left;
        } else if (!fill(r)) {
            return CAY_EVENTS_END;
        }
    }
}

void cay_events_reader_done(struct cay_events_reader *r)
{
    cay_buf_done(&r->chunk);
}

/* When the first whole line in this block was written; INT64_MAX when there is none. */
static int64_t first_time(int fd, off_t block)
{
    char text[LINE_MAX_BYTES + 1];
    char iso[CAY_ISO_SIZE];
    int64_t time_ms;
    ssize_t n = pread(fd, text, sizeof text - 1, block);
    if (n <= 0)
        return INT64_MAX;
    const char *newline = memchr(text, '\n', (size_t)n);
    size_t at = newline ? (size_t)(newline - text) + 1 : (size_t)n;
    const char *key = memmem(text + at, (size_t)n - at, TIME_KEY, strlen(TIME_KEY));
    if (!key || key + strlen(TIME_KEY) + CAY_ISO_SIZE > text + n)
        return INT64_MAX;
    cay_str_copy(iso, sizeof iso, key + strlen(TIME_KEY));
    return cay_clock_parse(iso, &time_ms) ? time_ms : INT64_MAX;
}

/* Whole blocks only: a block is old when the next one begins old. */
static void trim(int fd, int64_t before_ms)
{
    struct stat st;
    off_t data = lseek(fd, 0, SEEK_DATA);
    if (data < 0 || fstat(fd, &st) < 0)
        return;
    off_t first = data - data % CAY_EVENTS_BLOCK, upto = first;
    off_t last = st.st_size - st.st_size % CAY_EVENTS_BLOCK;
    if (st.st_mtim.tv_sec * 1000LL < before_ms)
        upto = last; /* the rest of a file that nobody writes to any more is less than a block */
    while (upto < last && (st.st_size - upto > CAY_EVENTS_BYTES ||
                           first_time(fd, upto + CAY_EVENTS_BLOCK) < before_ms))
        upto += CAY_EVENTS_BLOCK;
    if (upto > first) /* where a file system cannot, it is tried again and the file grows on */
        (void)fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, upto);
}

void cay_events_trim(int events_fd, int64_t before_ms)
{
    int dup_fd = openat(events_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = dup_fd < 0 ? NULL : fdopendir(dup_fd);
    if (!dir)
        return;
    for (struct dirent *d; (d = readdir(dir));) {
        CAY_AUTO_FD int fd = -1;
        if (!cay_str_ends(d->d_name, ".jsonl"))
            continue;
        fd = openat(events_fd, d->d_name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
        if (fd >= 0)
            trim(fd, before_ms);
    }
    (void)closedir(dir);
}
