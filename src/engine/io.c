/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/io.h"
#include "engine/hierarchy.h"
#include "model/limits.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

struct reading {
    int procs; /* the file that names all */
    pid_t first;
    struct cay_usage *sum;
};

static uint64_t figure(const char *text, const char *key)
{
    const char *at = strstr(text, key);
    return at ? strtoull(at + strlen(key), NULL, 10) : 0;
}

static void add(pid_t pid, struct cay_usage *sum)
{
    char path[32], text[512];
    snprintf(path, sizeof path, "/proc/%d/io", pid);
    if (!cay_small_read(AT_FDCWD, path, text, sizeof text))
        return; /* it has just gone */
    sum->io_read_bytes += figure(text, "\nread_bytes: ");
    sum->io_write_bytes += figure(text, "\nwrite_bytes: ");
}

/* The oldest come first. */
static int add_others(void *arg)
{
    const struct reading *r = arg;
    char text[4096];
    size_t left = 0; /* the beginning of a number whose end was not read yet */
    for (ssize_t n; (n = read(r->procs, text + left, sizeof text - 1 - left)) > 0;) {
        char *at = text, *end;
        text[left + (size_t)n] = 0;
        for (; (end = strchr(at, '\n')); at = end + 1) {
            pid_t pid = (pid_t)strtol(at, NULL, 10);
            if (pid != r->first)
                add(pid, r->sum);
        }
        left = strlen(at);
        memmove(text, at, left);
    }
    return 0;
}

/* The kernel tells of nobody who is in the midst of an exec, and a sandbox that has used up its
 * share of the processor stays there for long. So a child looks, which has our memory, and is
 * killed when it is late: what it had read until then counts. */
static void look(struct reading *r)
{
    static _Alignas(16) char stack[32768];
    int pidfd = -1;
    pid_t pid = clone(add_others, stack + sizeof stack, CLONE_VM | CLONE_PIDFD, r, &pidfd);
    if (pid < 0)
        return;
    CAY_AUTO_FD int ended = pidfd;
    if (poll(&(struct pollfd){.fd = ended, .events = POLLIN}, 1, CAY_IO_LOOK_MS) != 1)
        (void)kill(pid, SIGKILL);
    while (waitpid(pid, NULL, __WCLONE) < 0 && errno == EINTR) {
    }
}

void cay_io_read(const struct cay_cgroups *c, const char *id, pid_t first, struct cay_usage *out)
{
    add(first, out); /* its one exec is over */
    if (out->pids == 1)
        return;
    CAY_AUTO_FD int procs = cay_cgroup_open_procs(c, id);
    if (procs >= 0)
        look(&(struct reading){procs, first, out});
}
