/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/confine.h"
#include "base/attr.h"
#include "engine/engine.h"
#include "model/limits.h"
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/capability.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#define MAX_FILES 64

/* Root inside may own files and give them away; nothing else. */
#define CAPS (1U << CAP_CHOWN | 1U << CAP_DAC_OVERRIDE | 1U << CAP_FOWNER | 1U << CAP_FSETID)

static int take_root(const char *path, const struct cay_berth *berth, struct cay_error *err)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
                                          MOUNT_ATTR_NOEXEC,
                              .userns_fd = (uint64_t)berth->user_fd};
    if (unshare(CLONE_NEWNS) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot make a mount namespace");
    CAY_AUTO_FD int fd = open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (fd < 0 || mount_setattr(fd, "", AT_EMPTY_PATH, &attr, sizeof attr) < 0 ||
        move_mount(fd, "", AT_FDCWD, CAY_STAGE_ROOT, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot mount a new layer");
    if (chdir(CAY_STAGE_ROOT) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 ||
        umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot change the root");
    return 0;
}

int cay_confine_enter(const char *path, const struct cay_berth *berth, pid_t parent,
                      struct cay_error *err)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{CAPS, CAPS, 0}, {0}};
    int r = take_root(path, berth, err);
    if (r < 0)
        return r;
    if (setns(berth->net_fd, CLONE_NEWNET) < 0 || setns(berth->ipc_fd, CLONE_NEWIPC) < 0 ||
        setns(berth->user_fd, CLONE_NEWUSER) < 0 || setgroups(0, NULL) < 0 ||
        setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot enter the namespaces");
    for (int cap = 0; cap <= CAP_LAST_CAP; cap++)
        (void)prctl(PR_CAPBSET_DROP, cap, 0, 0, 0); /* nothing is executed here anyway */
    if (syscall(SYS_capset, &head, data) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        prctl(PR_SET_DUMPABLE, 0) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot give up rights");
    if (getppid() != parent)
        _exit(1); /* it died before it could take us with it */
    return 0;
}

static const int calls[] = {
    SCMP_SYS(brk),        SCMP_SYS(clock_gettime), SCMP_SYS(close),   SCMP_SYS(exit),
    SCMP_SYS(exit_group), SCMP_SYS(fchmod),        SCMP_SYS(fchown),  SCMP_SYS(fchownat),
    SCMP_SYS(fcntl),      SCMP_SYS(fsetxattr),     SCMP_SYS(fstat),   SCMP_SYS(fstatfs),
    SCMP_SYS(futex),      SCMP_SYS(getrandom),     SCMP_SYS(linkat),  SCMP_SYS(lseek),
    SCMP_SYS(madvise),    SCMP_SYS(mkdirat),       SCMP_SYS(mknodat), SCMP_SYS(mmap),
    SCMP_SYS(mprotect),   SCMP_SYS(mremap),        SCMP_SYS(munmap),  SCMP_SYS(newfstatat),
    SCMP_SYS(openat),     SCMP_SYS(openat2),       SCMP_SYS(pread64), SCMP_SYS(pwrite64),
    SCMP_SYS(read),       SCMP_SYS(rt_sigreturn),  SCMP_SYS(statx),   SCMP_SYS(symlinkat),
    SCMP_SYS(unlinkat),   SCMP_SYS(utimensat),     SCMP_SYS(write),
};

static int filter_calls(struct cay_error *err)
{
    scmp_filter_ctx f = seccomp_init(SCMP_ACT_KILL_PROCESS);
    int r = f ? 0 : -ENOMEM;
    for (size_t i = 0; r == 0 && i < CAY_COUNT(calls); i++)
        r = seccomp_rule_add(f, SCMP_ACT_ALLOW, calls[i], 0);
    if (r == 0)
        r = seccomp_load(f);
    seccomp_release(f);
    return r < 0 ? cay_fail(err, CAY_ERR_PROVIDER, "cannot load a filter of system calls: %d", r)
                 : 0;
}

int cay_confine_close(struct cay_error *err)
{
    const struct rlimit none = {0, 0}, files = {MAX_FILES, MAX_FILES},
                        bytes = {(rlim_t)CAY_LAYER_BYTES, (rlim_t)CAY_LAYER_BYTES},
                        memory = {(rlim_t)CAY_LAYER_MEMORY, (rlim_t)CAY_LAYER_MEMORY};
    if (setrlimit(RLIMIT_CORE, &none) < 0 || setrlimit(RLIMIT_NOFILE, &files) < 0 ||
        setrlimit(RLIMIT_FSIZE, &bytes) < 0 || setrlimit(RLIMIT_AS, &memory) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot set resource limits");
    (void)setpriority(PRIO_PROCESS, 0, 5); /* sandboxes first */
    return filter_calls(err);
}
