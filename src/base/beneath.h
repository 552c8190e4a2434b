/* SPDX-License-Identifier: Apache-2.0 */
/* Opening what a stranger named, below a directory that he cannot leave. */
#pragma once
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CAY_BENEATH_TRIES 1000 /* each is a walk of one path */

/* openat2 with these RESOLVE_ flags, O_CLOEXEC. The kernel answers EAGAIN where it walked a ".."
 * while anything was renamed or mounted anywhere on the machine: that says nothing of the path. */
static inline int cay_open_beneath(int dir, const char *path, int flags, uint64_t resolve)
{
    struct open_how how = {.flags = (uint64_t)(flags | O_CLOEXEC), .resolve = resolve};
    int fd = -1;
    for (int i = 0; i < CAY_BENEATH_TRIES; i++) {
        fd = (int)syscall(SYS_openat2, dir, path, &how, sizeof how);
        if (fd >= 0 || errno != EAGAIN)
            break;
    }
    return fd;
}
