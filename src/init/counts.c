/* SPDX-License-Identifier: Apache-2.0 */
/* What the host lets pid 1 know of why processes end: two counters of the kernel, by descriptors
 * that came with it; and the name of who ended, from /proc, which is the host's mount and not the
 * tenant's. */
#include "init/init.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

static bool take_over(int fd)
{
    return fcntl(fd, F_SETFD, FD_CLOEXEC) == 0;
}

bool cay_counts_take_over(void)
{
    bool oom = take_over(CAY_INIT_OOM_FD), pids = take_over(CAY_INIT_PIDS_FD);
    return oom && pids;
}

/* The number behind a key at the beginning of a line. */
static uint32_t count(int fd, const char *key)
{
    char text[256];
    size_t len = strlen(key);
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = 0;
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, len) == 0 && line[len] == ' ')
            return (uint32_t)strtoul(line + len + 1, NULL, 10);
    }
    return 0;
}

struct cay_counts cay_counts_now(const struct cay_init *in)
{
    if (!in->has_counts)
        return (struct cay_counts){0};
    return (struct cay_counts){count(CAY_INIT_OOM_FD, "oom_kill"), count(CAY_INIT_PIDS_FD, "max")};
}

void cay_counts_name(pid_t pid, char out[16])
{
    char path[32] = "/proc/", digits[12];
    size_t n = 0;
    char *at = path + 6;
    for (pid_t rest = pid; rest > 0; rest /= 10)
        digits[n++] = (char)('0' + rest % 10);
    while (n > 0)
        *at++ = digits[--n];
    memcpy(at, "/comm", 6);
    CAY_AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t got = fd < 0 ? -1 : read(fd, out, 15);
    if (got > 0 && out[got - 1] == '\n')
        got--;
    out[got > 0 ? got : 0] = 0;
}
