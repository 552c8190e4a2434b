/* SPDX-License-Identifier: Apache-2.0 */
#include "base/process.h"
#include "base/attr.h"
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXITING 0x4 /* PF_EXITING, of what the kernel tells as a process's flags */

/* One number of /proc/PID/stat, by its place there as proc(5) counts; false when there is none. */
static bool read_number(pid_t pid, int place, uint64_t *out)
{
    char path[32], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    CAY_AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (n <= 0)
        return false;
    text[n] = 0;
    /* The name in parentheses, the second, may hold anything. */
    char *at = strrchr(text, ')');
    for (int i = 2; at && i < place; i++)
        at = strchr(at + 1, ' ');
    if (at)
        *out = strtoull(at + 1, NULL, 10);
    return at != NULL;
}

uint64_t cay_process_start(pid_t pid)
{
    uint64_t ticks;
    return read_number(pid, 22, &ticks) ? ticks : 0;
}

bool cay_process_ends(pid_t pid)
{
    uint64_t flags;
    return !read_number(pid, 9, &flags) || flags & EXITING;
}

void cay_process_kill(pid_t pid)
{
    if (pid > 0)
        (void)kill(pid, SIGKILL); /* ended already: nothing to do */
}
