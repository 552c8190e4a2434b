/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox's first process, from clone to cay-init.
 *
 * The child is the dispatcher's (CLONE_PARENT), so it outlives the spawner that made it. It builds
 * its tree with root's rights while the spawner makes its cgroups, puts it into them and writes
 * down who it is; waits for that; gives its rights up for good by entering its user namespace; and
 * becomes cay-init. If we die before that, the pipe it waits on ends and so does it. */
#include "base/clock.h"
#include "base/crash.h"
#include "engine/plan.h"
#include "init/proto.h"
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#define SETUP_MS 5000
#define MAX_OPEN_FILES 65536
#define HIGH_FD 100

struct pipes {
    int go[2];     /* written when the record is there */
    int status[2]; /* closed by a successful exec; else brings the error */
};

static void close_pipes(struct pipes *p)
{
    for (int i = 0; i < 2; i++) {
        cay_close_fd(&p->go[i]);
        cay_close_fd(&p->status[i]);
    }
}

/* ---- in the child ---- */

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
    CAY_AUTO_FD int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd >= 0)
        (void)!write(fd, "500", 3); /* sandboxes die before the server */
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

/* From here on the process is nobody on the host. Inside it takes pid 1's own uid now, because the
 * filter lets nobody take it later: root inside could then act on pid 1 as on itself. */
static int give_up_rights(const struct cay_plan *plan, struct cay_error *err)
{
    const gid_t group = CAY_INIT_UID;
    if (setns(plan->berth.user_fd, CLONE_NEWUSER) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot enter the user namespace");
    if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0 || setgroups(1, &group) < 0 ||
        setresgid(group, group, group) < 0 ||
        setresuid(CAY_INIT_UID, CAY_INIT_UID, CAY_INIT_UID) < 0 || keep_caps() < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot take pid 1's ids");
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot set no_new_privs");
    return cay_seccomp_load(&plan->engine->seccomp, err);
}

/* All that needs no cgroup. */
static int build(const struct cay_plan *plan, struct cay_error *err)
{
    const struct cay_engine_request *rq = plan->request;
    if (setns(plan->berth.net_fd, CLONE_NEWNET) < 0 || setns(plan->berth.ipc_fd, CLONE_NEWIPC) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot enter the namespaces");
    if (sethostname(rq->hostname, strlen(rq->hostname)) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot set the host name");
    int r = cay_rootfs_enter(plan, err);
    return r < 0 ? r : limit_self(err);
}

/* In its cgroups and on record. Only now the cgroup namespace: made before, the host's paths would
 * show in /proc/self/cgroup. */
static int wait_for_go(int go_fd, struct cay_error *err)
{
    char go;
    if (read(go_fd, &go, 1) != 1)
        return cay_fail(err, CAY_ERR_PROVIDER, "the spawner gave up");
    if (unshare(CLONE_NEWCGROUP) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot make a cgroup namespace");
    return 0;
}

/* Out of the way of the numbers that pid 1 gets fixed things at. */
static int raise_fd(int fd)
{
    return fcntl(fd, F_DUPFD_CLOEXEC, HIGH_FD);
}

/* What the kernel counts is pid 1's to read; where nobody counts, nothing is at those numbers. */
static int hand_over_counts(const struct cay_plan *plan)
{
    int oom, pids;
    cay_cgroup_open_counts(&plan->engine->cgroups, plan->request->id, &oom, &pids);
    oom = raise_fd(oom);
    pids = raise_fd(pids);
    if ((oom >= 0 && dup2(oom, CAY_INIT_OOM_FD) < 0) ||
        (pids >= 0 && dup2(pids, CAY_INIT_PIDS_FD) < 0))
        return -1;
    return 0;
}

/* 0-2 become /dev/null, then what pid 1 gets at fixed numbers; the rest goes with exec. */
static int arrange_descriptors(const struct cay_plan *plan, struct cay_error *err)
{
    int null = raise_fd(open("/dev/null", O_RDWR | O_CLOEXEC));
    int listener = raise_fd(plan->listen_fd), lock = raise_fd(plan->berth.lock_fd);
    int file = raise_fd(plan->engine->file_fd);
    if (dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0 ||
        dup2(listener, CAY_INIT_LISTEN_FD) < 0 || dup2(lock, CAY_INIT_LOCK_FD) < 0 ||
        dup2(file, CAY_INIT_FILE_FD) < 0 || hand_over_counts(plan) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot arrange descriptors");
    return 0;
}

static void CAY_NORETURN child(const struct cay_plan *plan, struct pipes *p)
{
    static const char *const env[] = {NULL};
    char file_bytes[24];
    const char *const argv[] = {"cay-init", file_bytes, NULL};
    struct cay_error err;
    sigset_t none;

    cay_close_fd(&p->go[1]);
    cay_close_fd(&p->status[0]);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    (void)prctl(PR_SET_PDEATHSIG, 0);

    snprintf(file_bytes, sizeof file_bytes, "%llu", (unsigned long long)plan->request->disk_bytes);
    int init = raise_fd(plan->engine->init_fd);
    int r = build(plan, &err);
    if (r == 0)
        r = wait_for_go(p->go[0], &err);
    if (r == 0)
        r = give_up_rights(plan, &err);
    if (r == 0)
        r = arrange_descriptors(plan, &err);
    if (r == 0) {
        (void)syscall(SYS_execveat, init, "", argv, env, AT_EMPTY_PATH);
        cay_fail_errno(&err, CAY_ERR_PROVIDER, "cannot start cay-init");
    }
    err.name = NULL;
    (void)!write(p->status[1], &err, sizeof err);
    _exit(1);
}

/* ---- in the spawner ---- */

static int open_pipes(struct pipes *p, struct cay_error *err)
{
    CAY_CLEANUP(close_pipes) struct pipes low = {{-1, -1}, {-1, -1}};
    if (pipe2(low.go, O_CLOEXEC) < 0 || pipe2(low.status, O_CLOEXEC) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot make a pipe");
    *p = (struct pipes){{raise_fd(low.go[0]), raise_fd(low.go[1])},
                        {raise_fd(low.status[0]), raise_fd(low.status[1])}};
    if (p->go[0] < 0 || p->go[1] < 0 || p->status[0] < 0 || p->status[1] < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot move a pipe");
    return 0;
}

/* EOF: cay-init runs. Bytes: the error that stopped it. */
static int wait_for_exec(struct pipes *p, struct cay_error *err)
{
    struct cay_error told;
    struct pollfd fd = {.fd = p->status[0], .events = POLLIN};
    cay_close_fd(&p->status[1]);
    int r = poll(&fd, 1, SETUP_MS);
    if (r <= 0)
        return cay_fail(err, CAY_ERR_TIMEOUT, "the sandbox was not set up in %d ms", SETUP_MS);
    ssize_t n = read(p->status[0], &told, sizeof told);
    if (n == 0)
        return 0;
    if (n != sizeof told)
        return cay_fail(err, CAY_ERR_PROVIDER, "the sandbox's first process died in its set-up");
    told.name = NULL;
    *err = told;
    return told.code;
}

static int enclose(const struct cay_plan *plan, pid_t pid, bool v2_too, struct cay_error *err)
{
    const struct cay_engine_request *rq = plan->request;
    const struct cay_cgroup_limits limits = {rq->memory_bytes, rq->cpu_milli, rq->pids};
    int r = cay_cgroup_make(&plan->engine->cgroups, rq->id, &limits, err);
    if (r < 0)
        return r;
    cay_engine_crash("create-cgroup-made", rq->id);
    return cay_cgroup_enter(&plan->engine->cgroups, rq->id, pid, v2_too, err);
}

int cay_sandbox_spawn(const struct cay_plan *plan,
                      int (*record)(void *arg, pid_t pid, struct cay_error *err), void *arg,
                      struct cay_error *err)
{
    CAY_CLEANUP(close_pipes) struct pipes p = {{-1, -1}, {-1, -1}};
    int r = open_pipes(&p, err);
    if (r < 0)
        return r;
    CAY_AUTO_FD int v2 = cay_cgroup_clone_fd(&plan->engine->cgroups, plan->request->id);
    struct clone_args args = {
        .flags = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWUTS | CLONE_PARENT |
                 (v2 >= 0 ? CLONE_INTO_CGROUP : 0),
        .cgroup = v2 >= 0 ? (uint64_t)v2 : 0,
    };
    pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);
    if (pid == 0)
        child(plan, &p);
    if (pid < 0)
        return cay_fail_errno(err, errno == EAGAIN ? CAY_ERR_LIMIT : CAY_ERR_PROVIDER,
                              "cannot clone the sandbox's first process");
    cay_engine_crash("create-cloned", plan->request->id);
    cay_close_fd(&p.go[0]);
    r = enclose(plan, pid, v2 < 0, err);
    if (r == 0)
        r = record(arg, pid, err);
    if (r == 0) {
        cay_engine_crash("create-recorded", plan->request->id);
        (void)!write(p.go[1], "g", 1); /* a dead child shows in its status */
        r = wait_for_exec(&p, err);
    }
    if (r < 0)
        (void)kill(pid, SIGKILL); /* our parent reaps it */
    return r;
}
