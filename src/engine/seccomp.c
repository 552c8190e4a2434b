/* SPDX-License-Identifier: Apache-2.0 */
/* The allow-list names what ordinary programs need: compilers, interpreters, package managers,
 * browsers, debuggers. Left out is what makes namespaces, mounts, keys, kernel programs or modules,
 * what sets clocks, what reaches parts of the kernel with a history of holes (io_uring,
 * userfaultfd, bpf, perf), and what takes from one pool of the whole host (io_setup). What is not
 * named answers ENOSYS, so that programs fall back. */
#include "engine/seccomp.h"
#include "init/proto.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

static const char *const allowed[] = {
    /* files */
    "access",
    "cachestat",
    "chdir",
    "chmod",
    "chown",
    "close",
    "close_range",
    "copy_file_range",
    "creat",
    "dup",
    "dup2",
    "dup3",
    "faccessat",
    "faccessat2",
    "fadvise64",
    "fallocate",
    "fchdir",
    "fchmod",
    "fchmodat",
    "fchmodat2",
    "fchown",
    "fchownat",
    "fcntl",
    "fdatasync",
    "fgetxattr",
    "flistxattr",
    "flock",
    "fremovexattr",
    "fsetxattr",
    "fstat",
    "fstatfs",
    "fsync",
    "ftruncate",
    "futimesat",
    "getcwd",
    "getdents",
    "getdents64",
    "getxattr",
    "inotify_add_watch",
    "inotify_init",
    "inotify_init1",
    "inotify_rm_watch",
    "lchown",
    "lgetxattr",
    "link",
    "linkat",
    "listxattr",
    "llistxattr",
    "lremovexattr",
    "lseek",
    "lsetxattr",
    "lstat",
    "mkdir",
    "mkdirat",
    "mknod",
    "mknodat",
    "newfstatat",
    "open",
    "openat",
    "openat2",
    "pread64",
    "preadv",
    "preadv2",
    "pwrite64",
    "pwritev",
    "pwritev2",
    "read",
    "readahead",
    "readlink",
    "readlinkat",
    "readv",
    "removexattr",
    "rename",
    "renameat",
    "renameat2",
    "rmdir",
    "sendfile",
    "setxattr",
    "splice",
    "stat",
    "statfs",
    "statx",
    "symlink",
    "symlinkat",
    "sync",
    "sync_file_range",
    "syncfs",
    "tee",
    "truncate",
    "umask",
    "unlink",
    "unlinkat",
    "utime",
    "utimensat",
    "utimes",
    "vmsplice",
    "write",
    "writev",
    "ustat",
    "ioprio_get",
    "ioprio_set",
    "ioctl",
    /* waiting */
    "epoll_create",
    "epoll_create1",
    "epoll_ctl",
    "epoll_ctl_old",
    "epoll_pwait",
    "epoll_pwait2",
    "epoll_wait",
    "epoll_wait_old",
    "eventfd",
    "eventfd2",
    "poll",
    "ppoll",
    "pselect6",
    "select",
    "signalfd",
    "signalfd4",
    "timerfd_create",
    "timerfd_gettime",
    "timerfd_settime",
    "pause",
    /* memory */
    "brk",
    "madvise",
    "membarrier",
    "memfd_create",
    "mincore",
    "mlock",
    "mlock2",
    "mlockall",
    "mmap",
    "mprotect",
    "mremap",
    "mseal",
    "msync",
    "munlock",
    "munlockall",
    "munmap",
    "pkey_alloc",
    "pkey_free",
    "pkey_mprotect",
    "process_madvise",
    "map_shadow_stack",
    "remap_file_pages",
    /* processes and threads */
    "arch_prctl",
    "capget",
    "capset",
    "execve",
    "execveat",
    "exit",
    "exit_group",
    "fork",
    "futex",
    "futex_requeue",
    "futex_wait",
    "futex_waitv",
    "futex_wake",
    "get_robust_list",
    "get_thread_area",
    "getcpu",
    "getegid",
    "geteuid",
    "getgid",
    "getgroups",
    "getpgid",
    "getpgrp",
    "getpid",
    "getppid",
    "getpriority",
    "getresgid",
    "getresuid",
    "getrlimit",
    "getrusage",
    "getsid",
    "gettid",
    "getuid",
    "kill",
    "pidfd_open",
    "pidfd_send_signal",
    "prctl",
    "prlimit64",
    "process_mrelease",
    "process_vm_readv",
    "process_vm_writev",
    "ptrace",
    "restart_syscall",
    "rseq",
    "rt_sigaction",
    "rt_sigpending",
    "rt_sigprocmask",
    "rt_sigqueueinfo",
    "rt_sigreturn",
    "rt_sigsuspend",
    "rt_sigtimedwait",
    "rt_tgsigqueueinfo",
    "sched_get_priority_max",
    "sched_get_priority_min",
    "sched_getaffinity",
    "sched_getattr",
    "sched_getparam",
    "sched_getscheduler",
    "sched_rr_get_interval",
    "sched_setaffinity",
    "sched_setattr",
    "sched_setparam",
    "sched_setscheduler",
    "sched_yield",
    "seccomp",
    "set_robust_list",
    "set_thread_area",
    "set_tid_address",
    "setfsgid",
    "setfsuid",
    "setgid",
    "setgroups",
    "setpgid",
    "setpriority",
    "setregid",
    "setresgid",
    "setresuid",
    "setreuid",
    "setrlimit",
    "setsid",
    "setuid",
    "sigaltstack",
    "tgkill",
    "tkill",
    "vfork",
    "wait4",
    "waitid",
    "landlock_add_rule",
    "landlock_create_ruleset",
    "landlock_restrict_self",
    "pipe",
    "pipe2",
    /* time */
    "alarm",
    "clock_getres",
    "clock_gettime",
    "clock_nanosleep",
    "getitimer",
    "gettimeofday",
    "nanosleep",
    "setitimer",
    "time",
    "timer_create",
    "timer_delete",
    "timer_getoverrun",
    "timer_gettime",
    "timer_settime",
    "times",
    /* sockets and System V, POSIX queues: all inside the sandbox's own namespaces */
    "accept",
    "accept4",
    "bind",
    "connect",
    "getpeername",
    "getsockname",
    "getsockopt",
    "listen",
    "recvfrom",
    "recvmmsg",
    "recvmsg",
    "sendmmsg",
    "sendmsg",
    "sendto",
    "setsockopt",
    "shutdown",
    "socketpair",
    "mq_getsetattr",
    "mq_notify",
    "mq_open",
    "mq_timedreceive",
    "mq_timedsend",
    "mq_unlink",
    "msgctl",
    "msgget",
    "msgrcv",
    "msgsnd",
    "semctl",
    "semget",
    "semop",
    "semtimedop",
    "shmat",
    "shmctl",
    "shmdt",
    "shmget",
    /* the machine */
    "getrandom",
    "sysinfo",
    "uname",
};

/* Known, and refused as such: EPERM says it better than ENOSYS. */
static const char *const refused[] = {
    "acct",          "add_key",
    "bpf",           "chroot",
    "clock_adjtime", "clock_settime",
    "delete_module", "finit_module",
    "fsconfig",      "fsmount",
    "fsopen",        "fspick",
    "init_module",   "ioperm",
    "iopl",          "kexec_file_load",
    "kexec_load",    "keyctl",
    "mount",         "mount_setattr",
    "move_mount",    "open_by_handle_at",
    "open_tree",     "perf_event_open",
    "pivot_root",    "quotactl",
    "quotactl_fd",   "reboot",
    "request_key",   "setdomainname",
    "sethostname",   "setns",
    "settimeofday",  "swapoff",
    "swapon",        "syslog",
    "umount2",       "unshare",
    "userfaultfd",   "vhangup",
};

#define NEW_NAMESPACES                                                                             \
    (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID |  \
     CLONE_NEWNET)

/* Their arguments decide: see add_judged. */
static const char *const judged[] = {"clone", "personality", "socket"};

#define CALLS 512 /* there are fewer */
#define OTHERWISE (SECCOMP_RET_ERRNO | ENOSYS)
#define JUDGE SECCOMP_RET_TRACE /* stands for: the next program decides */

static void set_names(uint32_t *actions, const char *const *names, size_t count, uint32_t action)
{
    for (size_t i = 0; i < count; i++) {
        int nr = seccomp_syscall_resolve_name(names[i]);
        if (nr >= 0 && nr < CALLS) /* else this architecture or library does not know it: ENOSYS */
            actions[nr] = action;
    }
}

static int add_judged(scmp_filter_ctx f)
{
    static const uint64_t personalities[] = {0, 8, 0x20000, 0x20008, 0xffffffff};
    static const int domains[] = {AF_UNIX, AF_INET, AF_INET6};
    int r = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
                             SCMP_A0(SCMP_CMP_MASKED_EQ, NEW_NAMESPACES, 0));

    for (size_t i = 0; r == 0 && i < CAY_COUNT(personalities); i++)
        r = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(personality), 1,
                             SCMP_A0(SCMP_CMP_EQ, personalities[i]));
    for (size_t i = 0; r == 0 && i < CAY_COUNT(domains); i++)
        r = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(socket), 1,
                             SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)domains[i]));
    /* getifaddrs and `ip` ask the routing part of netlink; the rest of it is closed. */
    if (r == 0)
        r = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(socket), 2,
                             SCMP_A0(SCMP_CMP_EQ, AF_NETLINK), SCMP_A2(SCMP_CMP_EQ, 0));
    return r;
}

/* Whoever has pid 1's uid may limit and trace it. It has it already; nobody else may take it. */
static int keep_pid1_uid(scmp_filter_ctx f)
{
    static const struct {
        int call;
        unsigned args;
    } setters[] = {{SCMP_SYS(setuid), 1}, {SCMP_SYS(setreuid), 2}, {SCMP_SYS(setresuid), 3}};
    int r = 0;
    for (size_t i = 0; i < CAY_COUNT(setters); i++)
        for (unsigned arg = 0; r == 0 && arg < setters[i].args; arg++)
            r = seccomp_rule_add(f, SCMP_ACT_ERRNO(EPERM), setters[i].call, 1,
                                 SCMP_CMP(arg, SCMP_CMP_MASKED_EQ, 0xffffffff, CAY_INIT_UID));
    return r;
}

/* ioctl looks only at the lower half of its request, so the test must, too: by mask. */
static int add_refined(scmp_filter_ctx f)
{
    static const uint64_t bad[] = {TIOCSTI, 0x541c /* TIOCLINUX */};
    int r = 0;
    for (size_t i = 0; r == 0 && i < CAY_COUNT(bad); i++)
        r = seccomp_rule_add(f, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(ioctl), 1,
                             SCMP_A1(SCMP_CMP_MASKED_EQ, 0xffffffff, bad[i]));
    return r < 0 ? r : keep_pid1_uid(f);
}

/* libseccomp writes its program to a descriptor; we keep it in memory for every sandbox to come. */
static int export_program(scmp_filter_ctx f, struct sock_fprog *out, struct cay_error *err)
{
    CAY_AUTO_FD int fd = memfd_create("seccomp", MFD_CLOEXEC);
    struct stat st;
    if (fd < 0 || seccomp_export_bpf(f, fd) < 0 || fstat(fd, &st) < 0)
        return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot export the seccomp program");
    struct sock_filter *code = malloc((size_t)st.st_size);
    if (!code || pread(fd, code, (size_t)st.st_size, 0) != st.st_size) {
        free(code);
        return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot read the seccomp program back");
    }
    *out = (struct sock_fprog){(unsigned short)((size_t)st.st_size / sizeof *code), code};
    return 0;
}

static int build(uint32_t otherwise, int (*fill)(scmp_filter_ctx), struct sock_fprog *out,
                 struct cay_error *err)
{
    scmp_filter_ctx f = seccomp_init(otherwise);
    if (!f)
        return cay_fail(err, CAY_ERR_INTERNAL, "cannot begin a seccomp program");
    (void)seccomp_attr_set(f, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
    (void)seccomp_attr_set(f, SCMP_FLTATR_CTL_OPTIMIZE, 2); /* a tree; slower without, not wrong */
    int r = fill(f);
    r = r < 0 ? cay_fail(err, CAY_ERR_INTERNAL, "cannot add a seccomp rule: %d", r)
              : export_program(f, out, err);
    seccomp_release(f);
    return r;
}

/* A list of what is allowed cannot say "but not with this argument", so three programs are built:
 * one that refuses by arguments, the list, and one that allows by arguments. Where one would answer
 * `on`, it goes on with the next. As one program they cost a third of what three filters would in
 * each sandbox. */
static int join(const struct sock_fprog *first, uint32_t on, const struct sock_fprog *second,
                struct sock_fprog *out, struct cay_error *err)
{
    size_t len = (size_t)first->len + second->len;
    struct sock_filter *code = calloc(len, sizeof *code);
    if (!code || len > BPF_MAXINSNS)
        return cay_fail(err, CAY_ERR_INTERNAL, "the seccomp program is too long");
    memcpy(code, first->filter, first->len * sizeof *code);
    memcpy(code + first->len, second->filter, second->len * sizeof *code);
    for (uint32_t i = 0; i < first->len; i++)
        if (code[i].code == (BPF_RET | BPF_K) && code[i].k == on)
            code[i] = (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, first->len - i - 1);
    *out = (struct sock_fprog){(unsigned short)len, code};
    return 0;
}

/* ---- the list ---- */

struct range {
    uint32_t from, action; /* up to the next one's */
};

/* A tree of comparisons over ranges of numbers. libseccomp would test every number for itself: the
 * program would be four times as long, and so would its loading into each sandbox. */
static void put_tree(struct sock_filter *out, const struct range *at, size_t count)
{
    if (count == 1) {
        *out = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, at->action);
        return;
    }
    size_t half = count / 2, left = 2 * half - 1; /* a tree of n leaves has n - 1 comparisons */
    *out = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, at[half].from, (uint8_t)left, 0);
    put_tree(out + 1, at, half);
    put_tree(out + 1 + left, at + half, count - half);
}

static int build_list(struct sock_fprog *out, struct cay_error *err)
{
    uint32_t actions[CALLS];
    struct range ranges[CALLS];
    size_t count = 0;
    for (size_t i = 0; i < CALLS; i++)
        actions[i] = OTHERWISE;
    set_names(actions, allowed, CAY_COUNT(allowed), SECCOMP_RET_ALLOW);
    set_names(actions, refused, CAY_COUNT(refused), SECCOMP_RET_ERRNO | EPERM);
    set_names(actions, judged, CAY_COUNT(judged), JUDGE);
    actions[CALLS - 1] = OTHERWISE; /* and everything above */
    for (uint32_t i = 0; i < CALLS; i++)
        if (count == 0 || ranges[count - 1].action != actions[i])
            ranges[count++] = (struct range){i, actions[i]};
    size_t len = 2 * count; /* the tree, and the load ahead of it */
    struct sock_filter *code = calloc(len, sizeof *code);
    if (!code || count > UINT8_MAX) { /* a jump reaches no further */
        free(code);
        return cay_fail(err, CAY_ERR_INTERNAL, "the list of system calls is too broken up");
    }
    code[0] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    put_tree(code + 1, ranges, count);
    *out = (struct sock_fprog){(unsigned short)len, code};
    return 0;
}

int cay_seccomp_build(struct sock_fprog *out, struct cay_error *err)
{
    struct sock_fprog refine = {0}, list = {0}, judge = {0}, both = {0};
    int r = build(SCMP_ACT_ALLOW, add_refined, &refine, err);
    if (r == 0)
        r = build_list(&list, err);
    if (r == 0)
        r = build(SCMP_ACT_ERRNO(ENOSYS), add_judged, &judge, err);
    if (r == 0)
        r = join(&list, JUDGE, &judge, &both, err);
    if (r == 0)
        r = join(&refine, SECCOMP_RET_ALLOW, &both, out, err);
    free(refine.filter);
    free(list.filter);
    free(judge.filter);
    free(both.filter);
    return r;
}
