/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets made in a sandbox's net namespace, for the server: who holds one speaks from in there,
 * and needs no right to do so. */
#include "engine/socket.h"
#include "base/log.h"
#include "engine/dispatcher.h"
#include "engine/network.h"
#include "init/proto.h"
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#define BACKLOG 256 /* connections that wait for the server's next look */

void cay_sockets_close(struct cay_sockets *s)
{
    for (int i = 0; i < s->count; i++)
        cay_close_fd(&s->fds[i]);
    s->count = 0;
}

static int add(struct cay_sockets *out, int family, int type)
{
    int fd = socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0)
        out->fds[out->count++] = fd;
    return fd;
}

static bool make_tcp4(struct cay_sockets *out)
{
    return add(out, AF_INET, SOCK_STREAM) >= 0;
}

static bool make_tcp6(struct cay_sockets *out)
{
    return add(out, AF_INET6, SOCK_STREAM) >= 0;
}

/* For both families at once, and for any address: that is what `transparent` allows. */
static int add_catcher(struct cay_sockets *out, int type)
{
    struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htons(CAY_NET_PORT)};
    int on = 1, off = 0;
    int fd = add(out, AF_INET6, type);
    /* What is urgent is a byte like the others, from the first connection on: else what is said
     * could be hidden behind such a byte. */
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_OOBINLINE, &on, sizeof on) < 0 ||
        setsockopt(fd, SOL_IPV6, IPV6_V6ONLY, &off, sizeof off) < 0 ||
        setsockopt(fd, SOL_IPV6, IPV6_TRANSPARENT, &on, sizeof on) < 0 ||
        setsockopt(fd, SOL_IP, IP_TRANSPARENT, &on, sizeof on) < 0 ||
        setsockopt(fd, SOL_IPV6, IPV6_RECVPKTINFO, &on, sizeof on) < 0 ||
        bind(fd, (struct sockaddr *)&any, sizeof any) < 0)
        return -1;
    return fd;
}

static bool make_out(struct cay_sockets *out)
{
    int tcp = add_catcher(out, SOCK_STREAM);
    return tcp >= 0 && listen(tcp, BACKLOG) == 0 && add_catcher(out, SOCK_DGRAM) >= 0;
}

/* A pid 1 that was made by somebody else waits at a name in its network, where no path leads. */
static bool make_pid1(struct cay_sockets *out)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX, .sun_path = "\0" CAY_INIT_NAME};
    socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + sizeof CAY_INIT_NAME);
    int fd = add(out, AF_UNIX, SOCK_SEQPACKET);
    return fd >= 0 && connect(fd, (struct sockaddr *)&to, len) == 0;
}

/* As filler.c and rootfs.c set them. Where one fails, something is refused that need not be. */
static void set_switches(void)
{
    static const struct {
        const char *path, *value;
    } switches[] = {
        {"/proc/sys/net/ipv6/conf/all/disable_ipv6", "0"},
        {"/proc/sys/net/ipv6/conf/lo/disable_ipv6", "0"},
        {"/proc/sys/net/ipv4/ip_unprivileged_port_start", "0"},
        {"/proc/sys/net/ipv4/ping_group_range", "0 2147483647"},
    };
    for (size_t i = 0; i < CAY_COUNT(switches); i++) {
        CAY_AUTO_FD int fd = open(switches[i].path, O_WRONLY | O_CLOEXEC);
        if (fd >= 0)
            (void)!write(fd, switches[i].value, strlen(switches[i].value));
    }
}

/* Its network is made as those of our own are. */
static bool settle(struct cay_sockets *out, bool guards)
{
    struct cay_error err;
    CAY_AUTO_FD int sock = -1;
    set_switches();
    if (cay_network_open(&sock, &err) < 0 || cay_network_catch(sock, guards, &err) < 0)
        cay_log_error(&err, "a sandbox has no way out to the network");
    return make_pid1(out);
}

static bool make_guarded(struct cay_sockets *out)
{
    return settle(out, true);
}

static bool make_unguarded(struct cay_sockets *out)
{
    return settle(out, false);
}

static bool (*const kinds[])(struct cay_sockets *out) = {
    [CAY_SOCKET_TCP4] = make_tcp4,       [CAY_SOCKET_TCP6] = make_tcp6,
    [CAY_SOCKET_OUT] = make_out,         [CAY_SOCKET_PID1] = make_pid1,
    [CAY_SOCKET_GUARDED] = make_guarded, [CAY_SOCKET_UNGUARDED] = make_unguarded,
};

/* The dispatcher is one thread, so nothing else of it runs while it is in there. Out again it must
 * come: an engine that cannot is of no use, and the next one is where it should be. */
int cay_sockets_make(pid_t pid, uint32_t kind, struct cay_sockets *out, struct cay_error *err)
{
    static int home = -1;
    if (kind >= CAY_COUNT(kinds) || !kinds[kind])
        return cay_fail(err, CAY_ERR_INVALID, "no kind of socket %u", kind);
    if (home < 0)
        home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    /* not by its name in /proc, which the kernel would remember as long as the sandbox lives */
    CAY_AUTO_FD int there = (int)syscall(SYS_pidfd_open, pid, 0);
    if (home < 0 || there < 0 || setns(there, CLONE_NEWNET) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot enter the sandbox's network");
    bool made = kinds[kind](out);
    int saved = errno;
    if (setns(home, CLONE_NEWNET) < 0)
        abort();
    errno = saved;
    return made ? 0 : cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot make a socket inside");
}

/* An adopted one is not our child: it may be gone, and its number another's. Not as long as its
 * pidfd says nothing, which is asked when we have been there. */
int cay_sockets_of(const struct cay_box *box, uint32_t kind, struct cay_sockets *out,
                   struct cay_error *err)
{
    struct pollfd end = {.fd = box->source.fd, .events = POLLIN};
    struct cay_sockets made = {0};
    int r = cay_sockets_make(box->record.pid, kind, &made, err);
    if (r == 0 && poll(&end, 1, 0) != 0)
        r = cay_fail_as(err, CAY_ERR_CONFLICT, "SANDBOX_NOT_RUNNING", "sandbox is not running");
    if (r < 0) {
        cay_sockets_close(&made);
        return r;
    }
    memcpy(out->fds + out->count, made.fds, (size_t)made.count * sizeof *made.fds);
    out->count += made.count;
    return 0;
}

void cay_socket_answer(struct cay_dispatcher *d, struct cay_box *box, struct cay_pending *p)
{
    struct cay_error err;
    CAY_CLEANUP(cay_sockets_close) struct cay_sockets s = {0};
    int r = cay_sockets_of(box, p->request.socket, &s, &err);
    cay_dispatcher_answer_fds(d, p, r < 0 ? &err : NULL, NULL, 0, s.fds, s.count);
}
