/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/berth.h"
#include "base/log.h"
#include "base/packet.h"
#include "base/path.h"
#include "engine/network.h"
#include "engine/plan.h"
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* Ranges lie above what distributions hand out in /etc/subuid, and below 2^31. */
#define FIRST_RANGE 0x2000U
#define RANGES 16384U

void cay_berth_done(struct cay_berth *b)
{
    cay_close_fd(&b->net_fd);
    cay_close_fd(&b->ipc_fd);
    cay_close_fd(&b->user_fd);
    cay_close_fd(&b->lock_fd);
    cay_close_fd(&b->hull_fd);
}

int cay_berth_to_fds(const struct cay_berth *b, int fds[CAY_BERTH_FDS])
{
    const int all[CAY_BERTH_FDS] = {b->net_fd, b->ipc_fd, b->user_fd, b->lock_fd, b->hull_fd};
    int count = 0;
    while (count < CAY_BERTH_FDS && all[count] >= 0) {
        fds[count] = all[count];
        count++;
    }
    return count;
}

struct cay_berth cay_berth_from_fds(const int *fds, int count, uint32_t base, pid_t hull)
{
    struct cay_berth b = CAY_NO_BERTH;
    int *const all[CAY_BERTH_FDS] = {&b.net_fd, &b.ipc_fd, &b.user_fd, &b.lock_fd, &b.hull_fd};
    for (int i = 0; i < count; i++)
        *all[i] = fds[i];
    b.base = base;
    b.hull = hull;
    return b;
}

int cay_berth_open_ids(int *fd_out, struct cay_error *err)
{
    (void)mkdir("/run/cay", 0755); /* exists already, or open below tells */
    return cay_path_open_dir(AT_FDCWD, "/run/cay/ids", 0700, fd_out, err);
}

/* Several engines may run on one machine: whoever has the flock on /run/cay/ids/N has range N. The
 * descriptor goes on into pid 1, so a range is free exactly when its sandbox is dead. */
static int take_range(struct cay_berth *b, int ids_fd, struct cay_error *err)
{
    static uint32_t next;
    if (!next)
        (void)getrandom(&next, sizeof next, 0); /* engines begin far from each other */
    for (uint32_t i = 0; i < RANGES; i++) {
        char name[16];
        uint32_t n = next++ % RANGES;
        snprintf(name, sizeof name, "%u", n);
        CAY_AUTO_FD int fd =
            openat(ids_fd, name, O_RDONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0)
            return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot open /run/cay/ids/%s", name);
        if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
            b->lock_fd = cay_take_fd(&fd);
            b->base = (FIRST_RANGE + n) * CAY_BERTH_IDS;
            return 0;
        }
    }
    return cay_fail(err, CAY_ERR_HOST_BUSY, "all %u id ranges of this machine are in use", RANGES);
}

static int write_file(int dir, const char *path, const char *text)
{
    CAY_AUTO_FD int fd = openat(dir, path, O_WRONLY | O_CLOEXEC);
    return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : -1;
}

/* A host that has none of its own may have switched it off for all. Seen to be on it is not looked
 * for again: the kernel keeps what it finds on the way, for each namespace. */
static void open_ipv6(void)
{
    static bool on;
    char off = 0;
    CAY_AUTO_FD int fd =
        on ? -1 : open("/proc/sys/net/ipv6/conf/lo/disable_ipv6", O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return;
    on = read(fd, &off, 1) == 1 && off == '0';
    if (!on)
        (void)!pwrite(fd, "0", 1, 0); /* then it has none */
}

/* The net namespace belongs to the host's user namespace: nothing inside can change it. So ports
 * below 1024 and ping are opened to everyone in there. */
static int make_net(struct cay_berth *b, bool guards, struct cay_error *err)
{
    static bool told;
    struct cay_error closed;
    if (unshare(CLONE_NEWNET | CLONE_NEWIPC) < 0)
        return cay_fail_count(err, "cannot make a net namespace");
    int r = cay_network_open(err);
    if (r < 0)
        return r;
    open_ipv6();
    b->closed = cay_network_catch(guards, &closed) < 0; /* it can be lived in without a way out */
    if (b->closed && !told)
        cay_log_error(&closed, "sandboxes have no way out to the network");
    told = b->closed;
    /* the directory once: to find it takes longer with every net namespace there is */
    CAY_AUTO_FD int settings = open("/proc/sys/net/ipv4", O_PATH | O_DIRECTORY | O_CLOEXEC);
    (void)write_file(settings, "ip_unprivileged_port_start", "0");
    (void)write_file(settings, "ping_group_range", "0 2147483647");
    b->net_fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    b->ipc_fd = open("/proc/self/ns/ipc", O_RDONLY | O_CLOEXEC);
    return b->net_fd < 0 || b->ipc_fd < 0
               ? cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot open a net namespace")
               : 0;
}

static int write_map(pid_t pid, const char *which, uint32_t base)
{
    char path[64], text[64];
    snprintf(path, sizeof path, "/proc/%d/%s", pid, which);
    snprintf(text, sizeof text, "0 %u %u\n", base, CAY_BERTH_IDS);
    return write_file(AT_FDCWD, path, text);
}

/* Another effective id, with all of root's rights. */
static int act_as(uid_t uid)
{
    cap_t caps = cap_get_proc();
    int r = setresuid((uid_t)-1, uid, (uid_t)-1);
    if (r == 0 && caps)
        r = cap_set_proc(caps);
    cap_free(caps);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* a change of ids takes it away */
    return r;
}

static int wait_to_be_killed(void *parent)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (getppid() == *(pid_t *)parent)
        pause();
    return 0;
}

/* A user namespace needs a process to be made with; it lives until the map is written. It has our
 * memory, because a copy of it would cost more than all the rest; of that it uses its stack.
 *
 * What the kernel counts by user (inotify, timers, message queues, locked memory) is counted for
 * the owner of a user namespace as well. Were that root, one sandbox could use up what all of them
 * and the host share. So each has an owner of its own: the id that is pid 1's inside. */
static int make_user(struct cay_berth *b, struct cay_error *err)
{
    static _Alignas(16) char stack[16384];
    char path[64];
    pid_t parent = getpid();
    if (act_as(b->base + CAY_BERTH_IDS - 1) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot act as the owner of a namespace");
    pid_t pid =
        clone(wait_to_be_killed, stack + sizeof stack, CLONE_NEWUSER | CLONE_VM | SIGCHLD, &parent);
    int saved = errno;
    if (act_as(0) < 0)
        _exit(1); /* the next filler is root again */
    errno = saved;
    if (pid < 0)
        return cay_fail_count(err, "cannot make a user namespace");
    int r = 0;
    snprintf(path, sizeof path, "/proc/%d/ns/user", pid);
    if (write_map(pid, "uid_map", b->base) < 0 || write_map(pid, "gid_map", b->base) < 0)
        r = cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot map ids from %u", b->base);
    else if ((b->user_fd = open(path, O_RDONLY | O_CLOEXEC)) < 0)
        r = cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot open a user namespace");
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
    return r;
}

/* Where a process can only be moved into its cgroups. Where it can be born in them, that is faster
 * than to be moved, and it waits for its sandbox's. */
static int make_hull(const struct cay_engine *e, int sock, struct cay_berth *b,
                     struct cay_error *err)
{
    if (!cay_cgroups_move(&e->cgroups))
        return 0;
    b->hull = cay_hull_clone(e, b, -1, sock, &b->hull_fd, err);
    return b->hull < 0 ? b->hull : 0;
}

static int make(const struct cay_engine *e, int sock, struct cay_berth *b, struct cay_error *err)
{
    *b = CAY_NO_BERTH;
    int r = take_range(b, e->ids_fd, err);
    if (r == 0)
        r = make_net(b, !e->cfg->egress_allow, err);
    if (r == 0)
        r = make_user(b, err);
    if (r == 0)
        r = make_hull(e, sock, b, err);
    if (r < 0)
        cay_berth_done(b);
    return r;
}

/* What goes over the socket: this and the descriptors, or an error and none. */
struct berth_message {
    uint32_t base;
    pid_t hull;
    bool closed;
    struct cay_error err;
};

void cay_berth_serve(const struct cay_engine *e, int sock)
{
    char byte;
    cay_hull_bequeath();
    while (recv(sock, &byte, 1, 0) == 1) {
        struct berth_message m = {0};
        CAY_CLEANUP(cay_berth_done) struct cay_berth b;
        int fds[CAY_BERTH_FDS];
        (void)make(e, sock, &b, &m.err);
        m.base = b.base;
        m.hull = b.hull;
        m.closed = b.closed;
        if (cay_packet_send(sock, &m, sizeof m, NULL, 0, fds, cay_berth_to_fds(&b, fds)) < 0)
            return;
    }
}

int cay_berth_receive(int sock, struct cay_berth *out, struct cay_error *err)
{
    struct berth_message m;
    int fds[CAY_BERTH_FDS];
    int fd_count = 0;
    ssize_t n = cay_packet_recv(sock, &m, sizeof m, fds, CAY_BERTH_FDS, &fd_count);
    if (n < 0 && errno == EAGAIN)
        return cay_fail(err, CAY_ERR_UNAVAILABLE, "no berth is ready");
    if (n != sizeof m)
        return cay_fail(err, CAY_ERR_INTERNAL, "the filler of berths is gone");
    if (fd_count == 0) {
        *err = m.err;
        err->name = NULL; /* a pointer of another process */
        return err->code;
    }
    *out = cay_berth_from_fds(fds, fd_count, m.base, m.hull);
    out->closed = m.closed;
    return 0;
}
