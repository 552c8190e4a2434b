/* SPDX-License-Identifier: Apache-2.0 */
/* Attempts that take more than one system call. */
#include "escape.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long sys(long result)
{
    return result < 0 ? -errno : result;
}

static long reap(long pid)
{
    if (pid == 0)
        _exit(0);
    if (pid > 0)
        waitpid((pid_t)pid, NULL, __WALL);
    return pid < 0 ? -errno : 0;
}

static long do_clone(long flag)
{
    return reap(syscall(SYS_clone, flag | SIGCHLD, 0, 0, 0, 0));
}

static long do_clone3(long flag)
{
    struct {
        uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls;
    } args = {.flags = (uint64_t)flag, .exit_signal = SIGCHLD};
    return reap(syscall(SYS_clone3, &args, sizeof(args)));
}

static long do_setns(long which)
{
    static const char *const names[] = {"mnt", "user", "net", "pid", "uts", "ipc", "cgroup"};
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/ns/%s", which >= 100 ? 1 : (int)getpid(),
             names[which % 100]);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -errno : sys(setns(fd, 0));
}

static long do_setns_pidfd(long pid)
{
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    return fd < 0 ? -errno : sys(setns(fd, CLONE_NEWNS));
}

static long vm_read_1(long unused)
{
    (void)unused;
    char byte;
    struct iovec here = {&byte, 1}, there = {(void *)0x400000, 1};
    return sys(process_vm_readv(1, &here, 1, &there, 1, 0));
}

static long pidfd_getfd_1(long unused)
{
    (void)unused;
    int fd = (int)syscall(SYS_pidfd_open, 1, 0);
    return fd < 0 ? -errno : sys(syscall(SYS_pidfd_getfd, fd, 0, 0));
}

static long file_of_1(long index)
{
    static const char *const names[] = {"environ", "mem", "maps", "auxv", "stack", "syscall", "io"};
    char path[64], byte;
    snprintf(path, sizeof(path), "/proc/1/%s", names[index]);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    return read(fd, &byte, 1) <= 0 ? -EACCES : 1; /* empty tells nothing */
}

static long link_of_1(long index)
{
    static const char *const names[] = {"root", "cwd", "exe", "fd/0", "ns/mnt", "ns/user"};
    char path[64], target[256];
    snprintf(path, sizeof(path), "/proc/1/%s", names[index]);
    return sys(readlink(path, target, sizeof(target)));
}

static long fds_of_1(long unused)
{
    (void)unused;
    return sys(open("/proc/1/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

static long oom_score_1(long unused)
{
    (void)unused;
    return sys(open("/proc/1/oom_score_adj", O_WRONLY | O_CLOEXEC));
}

static long do_settimeofday(long unused)
{
    (void)unused;
    struct timeval now;
    gettimeofday(&now, NULL);
    return sys(syscall(SYS_settimeofday, &now, NULL));
}

static long do_clock_settime(long unused)
{
    (void)unused;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return sys(syscall(SYS_clock_settime, CLOCK_REALTIME, &now));
}

static long raise_nofile(long unused)
{
    (void)unused;
    struct rlimit now;
    getrlimit(RLIMIT_NOFILE, &now);
    now.rlim_max += 1;
    return sys(setrlimit(RLIMIT_NOFILE, &now));
}

static long tiocsti(long request)
{
    char name[64], byte = 'x';
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (master < 0 || grantpt(master) < 0 || unlockpt(master) < 0 ||
        ptsname_r(master, name, sizeof(name)))
        return -EPERM;
    (void)setsid();
    int tty = open(name, O_RDWR);
    if (tty < 0)
        return -EPERM;
    return sys(ioctl(tty, (unsigned long)request, &byte));
}

static long int80(long number)
{
#if defined(__x86_64__)
    long result;
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(number), "b"(0), "c"(0), "d"(0) : "memory");
    return result;
#else
    (void)number;
    return -ENOSYS;
#endif
}

static long set_uid(long uid)
{
    return getuid() == (uid_t)uid ? -EPERM : sys(syscall(SYS_setresuid, uid, uid, uid));
}

/* Root inside may take any id of the sandbox, that of pid 1 included; it must not help. */
static long as_init(long what)
{
    struct rlimit none = {0, 0};
    struct sched_param param = {0};
    if (syscall(SYS_setresgid, 65535, 65535, 65535) < 0 ||
        syscall(SYS_setresuid, 65535, 65535, 65535) < 0)
        return -errno;
    if (what == 0)
        return sys(prlimit(1, RLIMIT_NOFILE, &none, NULL));
    if (what == 1)
        return sys(ptrace(PTRACE_SEIZE, 1, NULL, NULL));
    if (what == 2)
        return sys(open("/proc/1/mem", O_RDONLY | O_CLOEXEC));
    return sys(sched_setscheduler(1, SCHED_IDLE, &param));
}

static long set_groups(long unused)
{
    (void)unused;
    gid_t group = 0;
    return getuid() == 0 ? -EPERM : sys(syscall(SYS_setgroups, 1, &group));
}

static long lacks_no_new_privs(long unused)
{
    (void)unused;
    return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ? -EPERM : 1;
}

static long leaked(long unused)
{
    (void)unused;
    return inherited[0] ? 1 : -EBADF;
}

static long ok_fork(long unused)
{
    (void)unused;
    return reap(fork());
}

static long ok_trace_child(long unused)
{
    (void)unused;
    pid_t pid = fork();
    if (pid == 0) {
        long r = ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        _exit(r < 0);
    }
    int status;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EPERM;
}

/* clang-format off */
/* The way out is made of these: whoever could change them could go around it. A message of the
 * kind, with its family alone: what is allowed would only be found invalid. */
static long change_network(long type)
{
    struct {
        struct nlmsghdr head;
        struct rtmsg body; /* as long as the others' need to be */
        char room[16];
    } ask = {.head = {.nlmsg_len = sizeof ask,
                      .nlmsg_type = (uint16_t)type,
                      .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE},
             .body = {.rtm_family = AF_INET}};
    struct {
        struct nlmsghdr head;
        struct nlmsgerr body;
    } answer = {0};
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (fd < 0 || send(fd, &ask, sizeof ask, 0) < 0 || recv(fd, &answer, sizeof answer, 0) < 0)
        return -errno;
    close(fd);
    bool denied = answer.body.error == -EPERM || answer.body.error == -EACCES;
    return denied ? -EPERM : 0;
}

static long set_transparent(long level)
{
    int on = 1, fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return sys(setsockopt(fd, (int)level, level == SOL_IP ? IP_TRANSPARENT : IPV6_TRANSPARENT, &on,
                          sizeof on));
}

/* A mark may choose other rules. */
static long set_mark(long unused)
{
    int mark = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)unused;
    return sys(setsockopt(fd, SOL_SOCKET, SO_MARK, &mark, sizeof mark));
}

const struct trick tricks[] = {
    {"new_route", HIGH, change_network, RTM_NEWROUTE},
    {"del_route", HIGH, change_network, RTM_DELROUTE},
    {"new_address", HIGH, change_network, RTM_NEWADDR},
    {"new_link", HIGH, change_network, RTM_NEWLINK},
    {"new_rule", HIGH, change_network, RTM_NEWRULE},
    {"transparent4", MEDIUM, set_transparent, SOL_IP},
    {"transparent6", MEDIUM, set_transparent, SOL_IPV6},
    {"mark", MEDIUM, set_mark, 0},
    {"clone_user", HIGH, do_clone, CLONE_NEWUSER},
    {"clone_mnt", HIGH, do_clone, CLONE_NEWNS},
    {"clone_user_mnt", HIGH, do_clone, CLONE_NEWUSER | CLONE_NEWNS},
    {"clone_net", MEDIUM, do_clone, CLONE_NEWNET},
    {"clone3_user", HIGH, do_clone3, CLONE_NEWUSER},
    {"clone3_mnt", HIGH, do_clone3, CLONE_NEWNS},
    {"setns_mnt", MEDIUM, do_setns, 0},
    {"setns_user", MEDIUM, do_setns, 1},
    {"setns_net", MEDIUM, do_setns, 2},
    {"setns_cgroup", MEDIUM, do_setns, 6},
    {"setns_mnt_1", HIGH, do_setns, 100},
    {"setns_user_1", HIGH, do_setns, 101},
    {"setns_pid_1", MEDIUM, do_setns, 103},
    {"setns_pidfd_1", HIGH, do_setns_pidfd, 1},
    {"vm_read_1", HIGH, vm_read_1, 0},
    {"pidfd_getfd_1", HIGH, pidfd_getfd_1, 0},
    {"environ_1", MEDIUM, file_of_1, 0},
    {"mem_1", HIGH, file_of_1, 1},
    {"maps_1", MEDIUM, file_of_1, 2},
    {"auxv_1", LOW, file_of_1, 3},
    {"stack_1", LOW, file_of_1, 4},
    {"syscall_1", LOW, file_of_1, 5},
    {"io_1", LOW, file_of_1, 6},
    {"root_1", LOW, link_of_1, 0},
    {"cwd_1", LOW, link_of_1, 1},
    {"exe_1", LOW, link_of_1, 2},
    {"fd0_1", HIGH, link_of_1, 3},
    {"ns_mnt_1", LOW, link_of_1, 4},
    {"ns_user_1", LOW, link_of_1, 5},
    {"fds_1", HIGH, fds_of_1, 0},
    {"oom_score_1", MEDIUM, oom_score_1, 0},
    {"settimeofday", HIGH, do_settimeofday, 0},
    {"clock_settime", HIGH, do_clock_settime, 0},
    {"raise_nofile", LOW, raise_nofile, 0},
    {"tiocsti", MEDIUM, tiocsti, 0x5412},
    {"tioclinux", MEDIUM, tiocsti, 0x541c},
    {"int80_getpid", LOW, int80, 20},
    {"int80_unshare", HIGH, int80, 310},
    {"int80_mount", HIGH, int80, 21},
    {"set_uid_0", HIGH, set_uid, 0},
    {"as_init_prlimit", MEDIUM, as_init, 0},
    {"as_init_ptrace", HIGH, as_init, 1},
    {"as_init_mem", HIGH, as_init, 2},
    {"as_init_sched", MEDIUM, as_init, 3},
    {"set_groups", MEDIUM, set_groups, 0},
    {"no_new_privs", HIGH, lacks_no_new_privs, 0},
    {"leaked_descriptor", HIGH, leaked, 0},
    {"ok_fork", NONE, ok_fork, 0},
    {"ok_clone", NONE, do_clone, 0},
    {"ok_trace_child", NONE, ok_trace_child, 0},
    {0},
};
/* clang-format on */
