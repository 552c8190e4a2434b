/* SPDX-License-Identifier: Apache-2.0 */
/* A cay-init that no engine began: a container runtime did, which hands over no descriptors. What
 * an engine would have put at fixed numbers it opens by itself, before anybody else runs in here.
 *
 * It listens in its own network, where no path leads, and every process inside could connect. Who
 * is not of this pid namespace has no number in it: by that the host is told from the others. */
#include "init/init.h"
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#define HIGH_FD 100
#define BACKLOG 64
#define OPEN_FILES 1024
#define MAX_OPEN_FILES 65536

static const char *const oom_counts[] = {"/sys/fs/cgroup/memory.events",
                                         "/sys/fs/cgroup/memory/memory.oom_control"};
static const char *const pids_counts[] = {"/sys/fs/cgroup/pids.events",
                                          "/sys/fs/cgroup/pids/pids.events"};

static int listen_inside(void)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX, .sun_path = "\0" CAY_INIT_NAME};
    socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + sizeof CAY_INIT_NAME);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, len) < 0 || listen(fd, BACKLOG) < 0)
        return -1;
    return fcntl(fd, F_DUPFD_CLOEXEC, HIGH_FD);
}

/* At that number; where none of them is there, nothing is. */
static bool place(int number, const char *const *paths, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        CAY_AUTO_FD int low = open(paths[i], O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        CAY_AUTO_FD int fd = low < 0 ? -1 : fcntl(low, F_DUPFD_CLOEXEC, HIGH_FD);
        if (fd >= 0)
            return dup2(fd, number) >= 0;
    }
    return false;
}

/* A runtime may have left the daemon's own. */
static void limit_files(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) < 0)
        return;
    if (files.rlim_max > MAX_OPEN_FILES)
        files.rlim_max = MAX_OPEN_FILES;
    files.rlim_cur = files.rlim_max < OPEN_FILES ? files.rlim_max : OPEN_FILES;
    (void)setrlimit(RLIMIT_NOFILE, &files); /* only lowered: it cannot be refused */
}

int cay_alone_open(struct cay_init *in)
{
    static const char *const file = CAY_INIT_DIR "/cay-file";
    in->alone = true;
    limit_files();
    (void)syscall(SYS_close_range, 3, ~0U, 0); /* what the runtime forgot */
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int i = 0; i <= STDERR_FILENO; i++)
        if (null < 0 || dup2(null, i) < 0)
            return -1;
    (void)close(null);
    CAY_AUTO_FD int listener = listen_inside();
    if (listener < 0 || dup2(listener, CAY_INIT_LISTEN_FD) < 0 ||
        !place(CAY_INIT_FILE_FD, &file, 1))
        return -1;
    (void)place(CAY_INIT_OOM_FD, oom_counts, CAY_COUNT(oom_counts)); /* then nobody counts */
    (void)place(CAY_INIT_PIDS_FD, pids_counts, CAY_COUNT(pids_counts));
    return 0;
}

bool cay_alone_may(const struct cay_init *in, int fd)
{
    struct ucred who = {.pid = -1};
    socklen_t len = sizeof who;
    return !in->alone || (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) == 0 && who.pid == 0);
}
