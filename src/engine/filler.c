/* SPDX-License-Identifier: Apache-2.0 */
/* cay-berth: the program that makes berths, one for each byte that comes on its socket, and ends
 * with its peer.
 *
 * Every hull begins as a copy of whoever makes it and throws that away when it becomes cay-init. So
 * this is static and small: of the engine's own memory the kernel would copy ten times as much. The
 * engine executes it from sealed memory, in its own mount namespace and on the stage, with the
 * socket's number as its one argument; the first message is the kit. */
#include "base/log.h"
#include "base/str.h"
#include "engine/berth.h"
#include "engine/hierarchy.h"
#include "engine/kit.h"
#include "engine/network.h"
#include "engine/plan.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* Ranges lie above what distributions hand out in /etc/subuid, and below 2^31. */
#define FIRST_RANGE 0x2000U
#define RANGES 16384U

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

/* It belongs to the host's user namespace: nothing inside can change it. */
static int make_net(struct cay_berth *b, bool guards, struct cay_error *err)
{
    static bool told;
    struct cay_error closed;
    CAY_AUTO_FD int sock = -1;
    if (unshare(CLONE_NEWNET | CLONE_NEWIPC) < 0)
        return cay_fail_count(err, "cannot make a net namespace");
    int r = cay_network_open(&sock, err);
    if (r < 0)
        return r;
    open_ipv6();
    /* It can be lived in without a way out. */
    b->closed = cay_network_catch(sock, guards, &closed) < 0;
    if (b->closed && !told)
        cay_log_error(&closed, "sandboxes have no way out to the network");
    told = b->closed;
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
    return cay_small_write(AT_FDCWD, path, text);
}

static struct __user_cap_data_struct rights[2]; /* root's, as we began with them */

static int rights_call(long call)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    return (int)syscall(call, &head, rights);
}

/* Another effective id, with all of root's rights. */
static int act_as(uid_t uid)
{
    int r = setresuid((uid_t)-1, uid, (uid_t)-1);
    if (r == 0)
        r = rights_call(SYS_capset);
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
static int make_hull(const struct cay_kit *kit, int sock, struct cay_berth *b,
                     struct cay_error *err)
{
    if (!cay_cgroups_move(&kit->cgroups))
        return 0;
    b->hull = cay_hull_clone(kit, b, -1, sock, &b->hull_fd, err);
    return b->hull < 0 ? b->hull : 0;
}

static int make(const struct cay_kit *kit, int sock, struct cay_berth *b, struct cay_error *err)
{
    *b = CAY_NO_BERTH;
    int r = take_range(b, kit->ids_fd, err);
    if (r == 0)
        r = make_net(b, kit->guards, err);
    if (r == 0)
        r = make_user(b, err);
    if (r == 0)
        r = make_hull(kit, sock, b, err);
    if (r < 0)
        cay_berth_done(b);
    return r;
}

static void serve(const struct cay_kit *kit, int sock)
{
    char byte;
    while (recv(sock, &byte, 1, 0) == 1) {
        struct cay_error err = {0};
        CAY_CLEANUP(cay_berth_done) struct cay_berth b;
        (void)make(kit, sock, &b, &err);
        if (cay_berth_send(sock, &b, &err) < 0)
            return;
    }
}

int main(int argc, char **argv)
{
    uint64_t number;
    (void)prctl(PR_SET_NAME, "cay-berths"); /* or it would be called after its descriptor */
    cay_log_init("engine");
    if (argc != 2 || !cay_str_u64(argv[1], INT_MAX, &number))
        return 2;
    /* The lowest that is free, and no hull's: a high one makes the table of descriptors large. */
    int sock = fcntl((int)number, F_DUPFD_CLOEXEC, 0);
    (void)close((int)number);
    const struct cay_kit *kit = cay_kit_receive(sock);
    if (!kit || rights_call(SYS_capget) < 0)
        return 1;
    cay_hull_be_expendable();
    serve(kit, sock);
    return 0;
}
