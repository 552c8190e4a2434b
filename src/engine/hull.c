/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox's first process, from clone to cay-init.
 *
 * The child is the dispatcher's (CLONE_PARENT), so it outlives whoever made it. What is the same
 * for all it does at once, and waits for its order; with that it builds its tree, with root's
 * rights, while the spawner makes its cgroups and writes down who it is; waits for that; enters the
 * cgroups; gives its rights up for good by entering its user namespace; and becomes cay-init. If
 * whoever would give the order dies before that, the socket it waits on ends and so does it. */
#include "base/packet.h"
#include "engine/plan.h"
#include "init/proto.h"
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#define MAX_OPEN_FILES 65536
#define HIGH_FD 48 /* beyond 64 the table of descriptors is a kilobyte larger, for good */

/* What it was made with, and what it made of it. */
struct hull {
    const struct cay_kit *kit;
    const struct cay_berth *berth;
    struct cay_rootfs tree;
    struct cay_order order;
    int sock, listen_fd;
    bool cloned_into; /* its cgroup in the v2 tree */
};

static int limit_self(struct cay_error *err)
{
    struct rlimit files, none = {0, 0}, stack;
    (void)getrlimit(RLIMIT_NOFILE, &files);
    if (files.rlim_max > MAX_OPEN_FILES)
        files.rlim_max = MAX_OPEN_FILES;
    files.rlim_cur = files.rlim_max < 1024 ? files.rlim_max : 1024;
    (void)getrlimit(RLIMIT_STACK, &stack);
    stack.rlim_cur = stack.rlim_max < 8 * CAY_MIB ? stack.rlim_max : 8 * CAY_MIB;
    if (setrlimit(RLIMIT_NOFILE, &files) < 0 || setrlimit(RLIMIT_CORE, &none) < 0 ||
        setrlimit(RLIMIT_STACK, &stack) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot set resource limits");
    return 0;
}

/* pid 1's capabilities, ambient too: it is not root, and exec would take the others away. */
static int keep_caps(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    const uint32_t low = (uint32_t)CAY_INIT_CAPS, high = (uint32_t)(CAY_INIT_CAPS >> 32);
    struct __user_cap_data_struct data[2] = {{low, low, low}, {high, high, high}};
    if (syscall(SYS_capset, &head, data) < 0)
        return -1;
    for (unsigned cap = 0; cap < 64; cap++)
        if ((CAY_INIT_CAPS >> cap & 1) && prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0))
            return -1;
    return 0;
}

/* Irrevocably, and for all that comes after it; no_new_privs must be set. */
static int load_filter(const struct sock_fprog *program, struct cay_error *err)
{
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, program) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot load the seccomp program");
    return 0;
}

/* From here on the process is nobody on the host. Inside it takes pid 1's own uid now, because the
 * filter lets nobody take it later: root inside could then act on pid 1 as on itself. */
static int give_up_rights(const struct hull *h, struct cay_error *err)
{
    const gid_t group = CAY_INIT_UID;
    if (setns(h->berth->user_fd, CLONE_NEWUSER) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot enter the user namespace");
    if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0 || setgroups(1, &group) < 0 ||
        setresgid(group, group, group) < 0 ||
        setresuid(CAY_INIT_UID, CAY_INIT_UID, CAY_INIT_UID) < 0 || keep_caps() < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot take pid 1's ids");
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot set no_new_privs");
    return load_filter(&h->kit->seccomp, err);
}

/* Out of the way of the numbers that pid 1 gets fixed things at. */
static int raise_fd(int fd)
{
    return fcntl(fd, F_DUPFD_CLOEXEC, HIGH_FD);
}

/* What the kernel counts is pid 1's to read; where nobody counts, nothing is at those numbers. */
static int hand_over_counts(const struct hull *h)
{
    int oom, pids;
    cay_cgroup_open_counts(&h->kit->cgroups, h->order.request.id, &oom, &pids);
    oom = raise_fd(oom);
    pids = raise_fd(pids);
    if ((oom >= 0 && dup2(oom, CAY_INIT_OOM_FD) < 0) ||
        (pids >= 0 && dup2(pids, CAY_INIT_PIDS_FD) < 0))
        return -1;
    return 0;
}

/* 0-2 become /dev/null, then what pid 1 gets at fixed numbers; the rest goes with exec. */
static int arrange_descriptors(const struct hull *h, struct cay_error *err)
{
    int null = raise_fd(open("/dev/null", O_RDWR | O_CLOEXEC));
    int listener = raise_fd(h->listen_fd), lock = raise_fd(h->berth->lock_fd);
    int file = raise_fd(h->kit->file_fd);
    if (dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0 ||
        dup2(listener, CAY_INIT_LISTEN_FD) < 0 || dup2(lock, CAY_INIT_LOCK_FD) < 0 ||
        dup2(file, CAY_INIT_FILE_FD) < 0 || hand_over_counts(h) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot arrange descriptors");
    return 0;
}

/* Whatever needs no order. */
static int prepare(struct hull *h, struct cay_error *err)
{
    const struct cay_berth *b = h->berth;
    if (setns(b->net_fd, CLONE_NEWNET) < 0 || setns(b->ipc_fd, CLONE_NEWIPC) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot enter the namespaces");
    int r = limit_self(err);
    return r < 0 ? r : cay_rootfs_prepare(&h->tree, b->base, err);
}

/* All that needs no cgroup. */
static int build(struct hull *h, struct cay_error *err)
{
    const char *name = h->order.request.hostname;
    if (sethostname(name, strlen(name)) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot set the host name");
    return cay_rootfs_enter(&h->tree, h->berth, &h->order, err);
}

static int gave_up(struct cay_error *err)
{
    return cay_fail(err, CAY_ERR_PROVIDER, "the spawner gave up");
}

/* Its cgroups are there, and it is on record. Only in them the cgroup namespace: made before, the
 * host's paths would show in /proc/self/cgroup. */
static int wait_for_go(const struct hull *h, struct cay_error *err)
{
    char go;
    if (cay_packet_recv(h->sock, &go, 1, NULL, 0, NULL) != 1)
        return gave_up(err);
    int r = cay_cgroup_enter(&h->kit->cgroups, h->order.request.id, !h->cloned_into, err);
    if (r < 0)
        return r;
    /* Whoever let us go may have died since, and what we entered be the next one's of our name.
     * From now on we are found in it: a spawner that dies later is no matter. */
    if (recv(h->sock, &go, 1, MSG_PEEK | MSG_DONTWAIT) == 0)
        return gave_up(err);
    if (unshare(CLONE_NEWCGROUP) < 0)
        return cay_fail_count(err, "cannot make a cgroup namespace");
    return 0;
}

static int become_init(struct hull *h, struct cay_error *err)
{
    static const char *const env[] = {NULL};
    char file_bytes[24];
    const char *const argv[] = {"cay-init", file_bytes, NULL};
    snprintf(file_bytes, sizeof file_bytes, "%llu",
             (unsigned long long)h->order.request.disk_bytes);
    int init = raise_fd(h->kit->init_fd);
    int r = build(h, err);
    if (r == 0)
        r = wait_for_go(h, err);
    if (r == 0)
        r = give_up_rights(h, err);
    if (r == 0)
        r = arrange_descriptors(h, err);
    if (r < 0)
        return r;
    (void)syscall(SYS_execveat, init, "", argv, env, AT_EMPTY_PATH);
    return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot start cay-init");
}

static void CAY_NORETURN live(struct hull *h)
{
    struct cay_error err;
    sigset_t none;
    char rest;
    int fd_count;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    (void)prctl(PR_SET_PDEATHSIG, 0);
    (void)prctl(PR_SET_NAME, "cay-hull");
    h->sock = raise_fd(h->sock);
    int r = prepare(h, &err);
    ssize_t n = cay_packet_recv(h->sock, &h->order, sizeof h->order, &h->listen_fd, 1, &fd_count);
    if (n != sizeof h->order || fd_count != 1)
        _exit(0); /* nobody wants it any more */
    if (r == 0)
        r = become_init(h, &err);
    err.name = NULL; /* a pointer of this process */
    (void)cay_packet_send(h->sock, &err, sizeof err, NULL, 0, NULL, 0);
    /* Until it was read: what lies unread on our side would take it away. */
    while (cay_packet_recv(h->sock, &rest, 1, NULL, 0, NULL) > 0)
        ;
    _exit(1);
}

/* Sandboxes die before the server. First processes are born with it: to find its own file would
 * cost each more, and the kernel would remember that file as long as the sandbox lives. Whoever
 * clones them dies before the server as well, and there will be another. */
void cay_hull_be_expendable(void)
{
    CAY_AUTO_FD int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    (void)!write(fd, "500", 3); /* not the most important of all things */
}

pid_t cay_hull_clone(const struct cay_kit *kit, const struct cay_berth *b, int cgroup_fd,
                     int other_fd, int *sock_out, struct cay_error *err)
{
    static struct hull h;
    int pair[2];
    struct clone_args args = {
        .flags = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWUTS | CLONE_PARENT |
                 (cgroup_fd >= 0 ? CLONE_INTO_CGROUP : 0),
        .cgroup = cgroup_fd >= 0 ? (uint64_t)cgroup_fd : 0,
    };
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot make a socket pair");
    pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);
    if (pid == 0) {
        close(pair[0]);
        cay_close_fd(&other_fd);
        h = (struct hull){.kit = kit,
                          .berth = b,
                          .sock = pair[1],
                          .listen_fd = -1,
                          .cloned_into = cgroup_fd >= 0};
        live(&h);
    }
    int saved = errno;
    close(pair[1]);
    if (pid < 0) {
        close(pair[0]);
        errno = saved;
        return cay_fail_count(err, "cannot clone a sandbox's first process");
    }
    *sock_out = pair[0];
    return pid;
}
