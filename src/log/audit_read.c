/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the audit from its end, day after day, a window at a time.
 *
 * Lines are not parsed. They are ours, and a quote inside a value is escaped, so that
 * `"account":"x"` stands in a line only where it is meant. */
#include "base/clock.h"
#include "log/audit.h"
#include "log/audit_days.h"
#include "model/limits.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WINDOW (64 * 1024)
#define TIME_AT (sizeof "{\"time\":\"" - 1)
#define NEEDLE 160
#define NEEDLES 5
#define PLAIN "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:-"

struct scan {
    const struct cay_audit_filter *filter;
    char needles[NEEDLES][NEEDLE];             /* all of them, or empty */
    char action[NEEDLE], actions[NEEDLE];      /* one of both, or empty */
    char from[CAY_ISO_SIZE], to[CAY_ISO_SIZE]; /* or empty */
    struct cay_arena *a;
    struct cay_audit_page *out;
    size_t budget; /* bytes that may still be looked at */
    char *window;
};

const char *cay_audit_name(const char *day, char out[CAY_AUDIT_NAME])
{
    (void)snprintf(out, CAY_AUDIT_NAME, "%.10s.jsonl", day);
    return out;
}

static bool is_day(const char *s)
{
    for (size_t i = 0; i < CAY_AUDIT_DAY - 1; i++)
        if (i == 4 || i == 7 ? s[i] != '-' : s[i] < '0' || s[i] > '9')
            return false;
    return true;
}

static int newest_first(const void *a, const void *b)
{
    return -strcmp(*(const char *const *)a, *(const char *const *)b);
}

void cay_audit_days(int dir_fd, struct cay_arena *a, struct cay_strs *out)
{
    struct cay_strs days = {0};
    int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    for (struct dirent *d; dir && (d = readdir(dir));)
        if (is_day(d->d_name) && strcmp(d->d_name + CAY_AUDIT_DAY - 1, ".jsonl") == 0)
            cay_strs_push(a, &days, cay_arena_strndup(a, d->d_name, CAY_AUDIT_DAY - 1));
    if (dir)
        (void)closedir(dir);
    if (days.count > 0)
        qsort(days.at, days.count, sizeof *days.at, newest_first);
    *out = days;
}

static bool holds(const char *line, size_t len, const char *needle)
{
    return memmem(line, len, needle, strlen(needle)) != NULL;
}

static bool fits(const struct scan *s, const char *line, size_t len)
{
    if (len < TIME_AT + CAY_ISO_SIZE || line[0] != '{' || line[len - 1] != '}')
        return false; /* cut by a full disk or a power cut */
    const char *time = line + TIME_AT;
    if ((s->from[0] && strncmp(time, s->from, CAY_ISO_SIZE - 1) < 0) ||
        (s->to[0] && strncmp(time, s->to, CAY_ISO_SIZE - 1) >= 0))
        return false;
    for (size_t i = 0; i < NEEDLES; i++)
        if (!holds(line, len, s->needles[i]))
            return false;
    return holds(line, len, s->action) || holds(line, len, s->actions);
}

static bool is_full(const struct scan *s)
{
    return s->out->lines.count >= s->filter->limit || s->budget == 0;
}

/* From `end` backwards; returns where the next page goes on in this file. */
static uint64_t scan_file(struct scan *s, int fd, uint64_t end)
{
    while (end > 0 && !is_full(s)) {
        uint64_t begin = end > WINDOW ? end - WINDOW : 0;
        size_t len = (size_t)(end - begin);
        if (pread(fd, s->window, len, (off_t)begin) != (ssize_t)len)
            return 0;
        s->budget -= len < s->budget ? len : s->budget;
        const char *newline = begin > 0 ? memchr(s->window, '\n', len - 1) : NULL;
        size_t first = newline ? (size_t)(newline - s->window) + 1 : 0;
        size_t stop = len; /* behind the line that is looked at, its end included */
        while (stop > first && s->out->lines.count < s->filter->limit) {
            const char *before = stop > 1 ? memrchr(s->window, '\n', stop - 1) : NULL;
            size_t at =
                before && before >= s->window + first ? (size_t)(before - s->window) + 1 : first;
            size_t bare = stop - at - (s->window[stop - 1] == '\n');
            if (fits(s, s->window + at, bare))
                cay_strs_push(s->a, &s->out->lines, cay_arena_strndup(s->a, s->window + at, bare));
            stop = at;
        }
        end = begin + stop;
    }
    return end;
}

/* "2026-11-15.OFFSET" */
static int read_cursor(const char *cursor, char day[CAY_AUDIT_DAY], uint64_t *offset,
                       struct cay_error *err)
{
    if (strlen(cursor) < CAY_AUDIT_DAY + 1 || !is_day(cursor) || cursor[10] != '.' ||
        !cay_str_u64(cursor + CAY_AUDIT_DAY, INT64_MAX, offset))
        return cay_fail_field(err, "cursor", "cursor must be one that an answer gave");
    cay_str_copy(day, CAY_AUDIT_DAY, cursor);
    return 0;
}

static bool make_needle(char out[NEEDLE], const char *key, const char *value, const char *end)
{
    out[0] = 0;
    if (!value)
        return true;
    return !value[strspn(value, PLAIN)] &&
           snprintf(out, NEEDLE, "\"%s\":\"%s%s", key, value, end) < NEEDLE;
}

static void scan_days(struct scan *s, int dir_fd, const struct cay_strs *days, const char *from_day,
                      uint64_t from)
{
    char name[CAY_AUDIT_NAME];
    for (size_t i = 0; i < days->count; i++) {
        const char *day = days->at[i];
        CAY_AUTO_FD int fd = -1;
        struct stat st;
        if ((from_day[0] && strcmp(day, from_day) > 0) ||
            (s->to[0] && strncmp(day, s->to, CAY_AUDIT_DAY - 1) > 0))
            continue;
        if (s->from[0] && strncmp(day, s->from, CAY_AUDIT_DAY - 1) < 0)
            return;
        if (is_full(s)) { /* the page ended with the day before this one */
            (void)snprintf(s->out->next, CAY_AUDIT_CURSOR, "%s.%lld", day, (long long)INT64_MAX);
            return;
        }
        fd = openat(dir_fd, cay_audit_name(day, name), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0 || fstat(fd, &st) < 0)
            continue;
        uint64_t end = (uint64_t)st.st_size;
        if (strcmp(day, from_day) == 0 && from < end)
            end = from;
        end = scan_file(s, fd, end);
        if (end > 0) {
            (void)snprintf(s->out->next, CAY_AUDIT_CURSOR, "%s.%llu", day, (unsigned long long)end);
            return;
        }
    }
}

int cay_audit_read(struct cay_audit *audit, const struct cay_audit_filter *filter,
                   struct cay_arena *a, struct cay_audit_page *out, struct cay_error *err)
{
    struct cay_strs days;
    char from_day[CAY_AUDIT_DAY] = "";
    uint64_t from = 0;
    struct cay_audit_page page = {0};
    struct scan s = {.filter = filter, .a = a, .out = &page, .budget = CAY_AUDIT_SCAN};
    int r = filter->cursor ? read_cursor(filter->cursor, from_day, &from, err) : 0;
    if (r < 0)
        return r;
    if (filter->from_ms > 0)
        (void)cay_clock_iso(filter->from_ms, s.from);
    if (filter->to_ms > 0)
        (void)cay_clock_iso(filter->to_ms, s.to);
    const char *const wanted[NEEDLES][2] = {{"account", filter->account_id},
                                            {"sandbox", filter->sandbox},
                                            {"key", filter->key},
                                            {"peer", filter->peer},
                                            {"result", filter->result}};
    bool can = make_needle(s.action, "action", filter->action, "\"") &&
               make_needle(s.actions, "action", filter->action, ".");
    for (size_t i = 0; i < NEEDLES; i++)
        can = make_needle(s.needles[i], wanted[i][0], wanted[i][1], "\"") && can;
    if (can) {
        s.window = cay_arena_alloc(a, WINDOW);
        cay_audit_days(cay_audit_dir(audit), a, &days);
        scan_days(&s, cay_audit_dir(audit), &days, from_day, from);
    }
    *out = page;
    return 0;
}
