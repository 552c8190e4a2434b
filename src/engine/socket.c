/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets made in a sandbox's net namespace, for the server: who holds one speaks from in there,
 * and needs no right to do so. */
#include "base/packet.h"
#include "engine/dispatcher.h"
#include "engine/network.h"
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#define BACKLOG 256 /* connections that wait for the server's next look */

struct sockets {
    int fds[CAY_PACKET_FDS];
    int count;
};

static void close_all(struct sockets *s)
{
    for (int i = 0; i < s->count; i++)
        cay_close_fd(&s->fds[i]);
    s->count = 0;
}

static int add(struct sockets *out, int family, int type)
{
    int fd = socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0)
        out->fds[out->count++] = fd;
    return fd;
}

static bool make_tcp4(struct sockets *out)
{
    return add(out, AF_INET, SOCK_STREAM) >= 0;
}

static bool make_tcp6(struct sockets *out)
{
    return add(out, AF_INET6, SOCK_STREAM) >= 0;
}

/* For both families at once, and for any address: that is what `transparent` allows. */
static int add_catcher(struct sockets *out, int type)
{
    struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htons(CAY_NET_PORT)};
    int on = 1, off = 0;
    int fd = add(out, AF_INET6, type);
    if (fd < 0 || setsockopt(fd, SOL_IPV6, IPV6_V6ONLY, &off, sizeof off) < 0 ||
        setsockopt(fd, SOL_IPV6, IPV6_TRANSPARENT, &on, sizeof on) < 0 ||
        setsockopt(fd, SOL_IP, IP_TRANSPARENT, &on, sizeof on) < 0 ||
        setsockopt(fd, SOL_IPV6, IPV6_RECVPKTINFO, &on, sizeof on) < 0 ||
        bind(fd, (struct sockaddr *)&any, sizeof any) < 0)
        return -1;
    return fd;
}

static bool make_out(struct sockets *out)
{
    int tcp = add_catcher(out, SOCK_STREAM);
    return tcp >= 0 && listen(tcp, BACKLOG) == 0 && add_catcher(out, SOCK_DGRAM) >= 0;
}

static bool (*const kinds[])(struct sockets *out) = {
    [CAY_SOCKET_TCP4] = make_tcp4,
    [CAY_SOCKET_TCP6] = make_tcp6,
    [CAY_SOCKET_OUT] = make_out,
};

/* The dispatcher is one thread, so nothing else of it runs while it is in there. Out again it must
 * come: an engine that cannot is of no use, and the next one is where it should be. */
static int make_inside(pid_t pid, uint32_t kind, struct sockets *out, struct cay_error *err)
{
    static int home = -1;
    char path[32];
    if (home < 0)
        home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    snprintf(path, sizeof path, "/proc/%d/ns/net", pid);
    CAY_AUTO_FD int there = open(path, O_RDONLY | O_CLOEXEC);
    if (home < 0 || there < 0 || setns(there, CLONE_NEWNET) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot enter the sandbox's network");
    bool made = kinds[kind](out);
    int saved = errno;
    if (setns(home, CLONE_NEWNET) < 0)
        abort();
    errno = saved;
    return made ? 0 : cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot make a socket inside");
}

void cay_socket_answer(struct cay_dispatcher *d, struct cay_box *box, struct cay_pending *p)
{
    struct cay_error err;
    CAY_CLEANUP(close_all) struct sockets s = {0};
    uint32_t kind = p->request.socket;
    int r = kind >= CAY_COUNT(kinds) || !kinds[kind]
                ? cay_fail(&err, CAY_ERR_INVALID, "no kind of socket %u", kind)
                : make_inside(box->record.pid, kind, &s, &err);
    cay_dispatcher_answer_fds(d, p, r < 0 ? &err : NULL, NULL, 0, s.fds, r < 0 ? 0 : s.count);
}
