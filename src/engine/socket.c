/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets made in a sandbox's net namespace, for the server: who holds one speaks from in there,
 * and needs no right to do so. */
#include "engine/dispatcher.h"
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

static const struct {
    int family, type;
} kinds[] = {
    [CAY_SOCKET_TCP4] = {AF_INET, SOCK_STREAM},
    [CAY_SOCKET_TCP6] = {AF_INET6, SOCK_STREAM},
};

/* The dispatcher is one thread, so nothing else of it runs while it is in there. Out again it must
 * come: an engine that cannot is of no use, and the next one is where it should be. */
static int make_inside(pid_t pid, uint32_t kind, int *fd_out, struct cay_error *err)
{
    static int home = -1;
    char path[32];
    if (home < 0)
        home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    snprintf(path, sizeof path, "/proc/%d/ns/net", pid);
    CAY_AUTO_FD int there = open(path, O_RDONLY | O_CLOEXEC);
    if (home < 0 || there < 0 || setns(there, CLONE_NEWNET) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot enter the sandbox's network");
    int fd = socket(kinds[kind].family, kinds[kind].type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int saved = errno;
    if (setns(home, CLONE_NEWNET) < 0)
        abort();
    errno = saved;
    if (fd < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot make a socket inside");
    *fd_out = fd;
    return 0;
}

void cay_socket_answer(struct cay_dispatcher *d, struct cay_box *box, struct cay_pending *p)
{
    struct cay_error err;
    CAY_AUTO_FD int fd = -1;
    uint32_t kind = p->request.socket;
    int r = kind >= CAY_COUNT(kinds) || !kinds[kind].family
                ? cay_fail(&err, CAY_ERR_INVALID, "no kind of socket %u", kind)
                : make_inside(box->record.pid, kind, &fd, &err);
    cay_dispatcher_answer(d, p, r < 0 ? &err : NULL, NULL, 0, fd);
}
