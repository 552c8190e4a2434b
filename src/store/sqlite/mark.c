/* SPDX-License-Identifier: Apache-2.0 */
/* One line: "closed", or "open" and the boot it was opened in. Anything else, as a power cut may
 * leave it, says only that there was a database. */
#include "store/sqlite/mark.h"
#include "base/path.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define LINE_SIZE 64

static ssize_t read_line(int dir_fd, const char *name, char out[LINE_SIZE])
{
    CAY_AUTO_FD int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return -1;
    ssize_t len = read(fd, out, LINE_SIZE - 1);
    out[len > 0 ? len : 0] = 0;
    out[strcspn(out, "\n")] = 0;
    return len;
}

static void make_open(char out[LINE_SIZE])
{
    char boot[LINE_SIZE];
    if (read_line(AT_FDCWD, "/proc/sys/kernel/random/boot_id", boot) <= 0)
        boot[0] = 0;
    (void)snprintf(out, LINE_SIZE, "open %.40s", boot);
}

int cay_sqlite_mark_read(int dir_fd, struct cay_sqlite_mark *out, struct cay_error *err)
{
    char line[LINE_SIZE], now[LINE_SIZE];
    if (read_line(dir_fd, CAY_SQLITE_MARK, line) < 0) {
        if (errno != ENOENT)
            return cay_fail_errno(err, CAY_ERR_STORE, "cannot read " CAY_SQLITE_MARK);
        *out = (struct cay_sqlite_mark){0};
        return 0;
    }
    make_open(now);
    *out = (struct cay_sqlite_mark){.there = true, .open = strncmp(line, "open ", 5) == 0};
    out->same_boot = out->open && strlen(now) > strlen("open ") && strcmp(line, now) == 0;
    return 0;
}

static bool write_mark(int dir_fd, const char *line)
{
    struct cay_error ignored; /* see the header */
    char text[LINE_SIZE + 1];
    int len = snprintf(text, sizeof text, "%s\n", line);
    return cay_path_replace(dir_fd, CAY_SQLITE_MARK, text, (size_t)len, 0640, &ignored) == 0;
}

void cay_sqlite_mark_open(int dir_fd)
{
    char line[LINE_SIZE];
    make_open(line);
    if (write_mark(dir_fd, line))
        (void)fsync(dir_fd); /* the log's name as well, so that it cannot go by a power cut */
}

void cay_sqlite_mark_closed(int dir_fd)
{
    if (!write_mark(dir_fd, "closed"))
        (void)unlinkat(dir_fd, CAY_SQLITE_MARK, 0); /* "open" would be a lie, and a refusal */
}
