/* SPDX-License-Identifier: Apache-2.0 */
/* Writing the audit, and its days. */
#include "log/audit.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "log/audit_days.h"
#include "model/limits.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TEXT_MAX 1024 /* of one field */
#define DAY_MS (24 * 60 * 60 * 1000LL)

struct cay_audit {
    int dir_fd;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t wake;
    int fd; /* of today's file */
    char day[CAY_AUDIT_DAY];
    bool dirty, closing, running;
    pthread_t thread;
};

int cay_audit_dir(const struct cay_audit *audit)
{
    return audit->dir_fd;
}

static void day_of(int64_t time_ms, char out[CAY_AUDIT_DAY])
{
    char iso[CAY_ISO_SIZE];
    cay_str_copy(out, CAY_AUDIT_DAY, cay_clock_iso(time_ms, iso));
}

/* A clock that was set wrong must not cost the audit: a day goes only when a new one has come, so
 * that there are never fewer, and none goes when the clock has leapt over CAY_AUDIT_GAP_DAYS. */
static void forget_oldest(struct cay_audit *audit, int64_t now_ms)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_strs days;
    char keep_from[CAY_AUDIT_DAY], leapt[CAY_AUDIT_DAY], name[CAY_AUDIT_NAME];
    size_t before = 0; /* the newest day that is over; later ones are a wrong clock's */
    day_of(now_ms - CAY_AUDIT_DAYS * DAY_MS, keep_from);
    day_of(now_ms - CAY_AUDIT_GAP_DAYS * DAY_MS, leapt);
    cay_audit_days(audit->dir_fd, &a, &days);
    while (before < days.count && strcmp(days.at[before], audit->day) >= 0)
        before++;
    if (before == days.count || strcmp(days.at[before], leapt) < 0)
        return;
    const char *oldest = days.at[days.count - 1];
    if (strcmp(oldest, keep_from) < 0)
        (void)unlinkat(audit->dir_fd, cay_audit_name(oldest, name), 0); /* or next time */
}

/* Today's file; the one of yesterday is on the disk before it is let go. */
static int turn_day(struct cay_audit *audit, int64_t now_ms, struct cay_error *err)
{
    char day[CAY_AUDIT_DAY], name[CAY_AUDIT_NAME];
    day_of(now_ms, day);
    if (audit->fd >= 0 && strcmp(day, audit->day) == 0)
        return 0;
    const int how = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW;
    int fd = openat(audit->dir_fd, cay_audit_name(day, name), how | O_EXCL, 0600);
    bool is_new = fd >= 0;
    if (!is_new && errno == EEXIST)
        fd = openat(audit->dir_fd, name, how, 0600);
    if (fd < 0)
        return cay_fail_errno(err, CAY_ERR_STORE, "cannot open the audit of %s", day);
    if (audit->fd >= 0)
        (void)fdatasync(audit->fd); /* what fails here failed before, and was told */
    cay_close_fd(&audit->fd);
    audit->fd = fd;
    cay_str_copy(audit->day, sizeof audit->day, day);
    (void)fsync(audit->dir_fd); /* the file's name */
    if (is_new)
        forget_oldest(audit, now_ms);
    return 0;
}

static void wait_ms(struct cay_audit *audit, int64_t ms)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += ms * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    int r = 0;
    while (!audit->closing && r == 0)
        r = pthread_cond_timedwait(&audit->wake, &audit->lock, &until);
}

static void *sync_main(void *arg)
{
    struct cay_audit *audit = arg;
    (void)pthread_mutex_lock(&audit->lock);
    for (;;) {
        while (!audit->dirty && !audit->closing)
            (void)pthread_cond_wait(&audit->wake, &audit->lock);
        if (!audit->dirty)
            break;
        wait_ms(audit, CAY_AUDIT_SYNC_MS);
        audit->dirty = false;
        CAY_AUTO_FD int fd = fcntl(audit->fd, F_DUPFD_CLOEXEC, 3);
        (void)pthread_mutex_unlock(&audit->lock);
        struct cay_error err = {0};
        if (fd >= 0 && fdatasync(fd) < 0) {
            (void)cay_fail_errno(&err, CAY_ERR_STORE, "the disk did not take it");
            cay_log_error(&err, "the audit may have lost lines");
        }
        (void)pthread_mutex_lock(&audit->lock);
    }
    (void)pthread_mutex_unlock(&audit->lock);
    return NULL;
}

int cay_audit_open(int dir_fd, struct cay_audit **out, struct cay_error *err)
{
    pthread_condattr_t attr;
    struct cay_audit *audit = calloc(1, sizeof *audit);
    if (!audit)
        abort();
    audit->dir_fd = dir_fd;
    audit->fd = -1;
    (void)pthread_mutex_init(&audit->lock, NULL); /* these cannot fail on Linux */
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&audit->wake, &attr);
    (void)pthread_condattr_destroy(&attr);
    int r = turn_day(audit, cay_clock_ms(), err);
    if (r == 0) {
        errno = pthread_create(&audit->thread, NULL, sync_main, audit);
        audit->running = errno == 0;
        if (!audit->running)
            r = cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot start the audit's thread");
    }
    if (r < 0) {
        cay_audit_close(audit);
        return r;
    }
    *out = audit;
    return 0;
}

void cay_audit_close(struct cay_audit *audit)
{
    if (!audit)
        return;
    (void)pthread_mutex_lock(&audit->lock);
    audit->closing = true;
    (void)pthread_cond_signal(&audit->wake);
    (void)pthread_mutex_unlock(&audit->lock);
    if (audit->running)
        (void)pthread_join(audit->thread, NULL);
    cay_close_fd(&audit->fd);
    cay_close_fd(&audit->dir_fd);
    (void)pthread_cond_destroy(&audit->wake);
    (void)pthread_mutex_destroy(&audit->lock);
    free(audit);
}

static void put(struct cay_json_writer *w, const char *key, const char *value)
{
    if (value)
        cay_jw_strn(w, key, value, strnlen(value, TEXT_MAX));
}

static const char *result_of(int status)
{
    return status < 400 ? "ok" : status < 500 ? "refused" : "failed";
}

static void shape(struct cay_buf *line, const struct cay_audit_entry *e, int64_t now_ms)
{
    struct cay_json_writer w = {.buf = line};
    cay_jw_object(&w, NULL);
    cay_jw_time(&w, "time", now_ms);
    put(&w, "account", e->account_id);
    put(&w, "key", e->key_id);
    put(&w, "peer", e->peer ? e->peer : "server");
    put(&w, "action", e->action);
    put(&w, "sandbox", e->sandbox);
    put(&w, "object", e->object);
    cay_jw_str(&w, "result", result_of(e->status));
    if (e->status > 0)
        cay_jw_int(&w, "status", e->status);
    put(&w, "request", e->request);
    cay_jw_object_end(&w);
    cay_buf_addc(line, '\n');
}

int cay_audit_add(struct cay_audit *audit, const struct cay_audit_entry *e, struct cay_error *err)
{
    CAY_AUTO_BUF struct cay_buf line = {0};
    (void)pthread_mutex_lock(&audit->lock);
    int64_t now_ms = cay_clock_ms(); /* under the lock, so that lines stand in their order */
    shape(&line, e, now_ms);
    int r = turn_day(audit, now_ms, err);
    ssize_t n = r < 0 ? 0 : write(audit->fd, line.data, line.len);
    if (r == 0 && n < (ssize_t)line.len) {
        r = cay_fail_errno(err, CAY_ERR_STORE, "cannot write to the audit");
        if (n > 0 && write(audit->fd, "\n", 1) < 0) /* half a line would spoil the next one */
            n = 0;
    }
    if (!audit->dirty)
        (void)pthread_cond_signal(&audit->wake);
    audit->dirty = audit->fd >= 0;
    (void)pthread_mutex_unlock(&audit->lock);
    return r;
}
