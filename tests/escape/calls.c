/* SPDX-License-Identifier: Apache-2.0 */
/* Attempts that are one system call, as data. */
#include "escape.h"
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/reboot.h>
#include <sched.h>
#include <stdint.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define P(pointer) (long)(pointer)
#define X32 0x40000000
#ifndef AF_SMC
#define AF_SMC 43
#endif

static char scratch[256], zeros[256];
static uint64_t timex[64] = {1}; /* set the offset, to nothing; written to by the kernel */
static uint64_t aio[1];
static const uint64_t ones[32] = {1};
static const uint32_t all_ones[6] = {~0U, ~0U, ~0U, ~0U, ~0U, ~0U};
static const uint32_t bpf_array[32] = {2, 4, 4, 1}; /* type, key, value, entries */
static const uint32_t perf_attr[32] = {1, 128};     /* a software event, size */
static const uint32_t handle[4] = {8, 1, 2, 0};     /* bytes, type, inode of the root */
static const uint32_t cap_head[2] = {_LINUX_CAPABILITY_VERSION_3, 0};

/* clang-format off */
const struct call calls[] = {
    {"unshare_user", HIGH, SYS_unshare, {CLONE_NEWUSER}},
    {"unshare_mnt", HIGH, SYS_unshare, {CLONE_NEWNS}},
    {"unshare_pid", MEDIUM, SYS_unshare, {CLONE_NEWPID}},
    {"unshare_net", MEDIUM, SYS_unshare, {CLONE_NEWNET}},
    {"unshare_uts", LOW, SYS_unshare, {CLONE_NEWUTS}},
    {"unshare_ipc", MEDIUM, SYS_unshare, {CLONE_NEWIPC}},
    {"unshare_cgroup", MEDIUM, SYS_unshare, {CLONE_NEWCGROUP}},
    {"unshare_time", LOW, SYS_unshare, {0x80}},
    {"unshare_user_net", HIGH, SYS_unshare, {CLONE_NEWUSER | CLONE_NEWNET}},
    {"mount_tmpfs", HIGH, SYS_mount, {P("none"), P("/tmp"), P("tmpfs")}},
    {"mount_proc", HIGH, SYS_mount, {P("proc"), P("/proc"), P("proc")}},
    {"mount_bind", HIGH, SYS_mount, {P("/"), P("/mnt"), 0, MS_BIND | MS_REC}},
    {"mount_remount", HIGH, SYS_mount, {0, P("/proc/sys"), 0, MS_REMOUNT | MS_BIND}},
    {"umount_kcore", HIGH, SYS_umount2, {P("/proc/kcore"), MNT_DETACH}},
    {"umount_sys", HIGH, SYS_umount2, {P("/sys"), MNT_DETACH}},
    {"fsopen", HIGH, SYS_fsopen, {P("tmpfs")}},
    {"open_tree", HIGH, SYS_open_tree, {AT_FDCWD, P("/"), 1}},
    {"move_mount", HIGH, SYS_move_mount, {AT_FDCWD, P("/dev/shm"), AT_FDCWD, P("/tmp")}},
    {"mount_setattr", HIGH, SYS_mount_setattr, {AT_FDCWD, P("/proc/sys"), 0, P(zeros), 32}},
    {"pivot_root", HIGH, SYS_pivot_root, {P("/tmp"), P("/tmp")}},
    {"chroot", HIGH, SYS_chroot, {P("/tmp")}},
    {"ptrace_attach_1", HIGH, SYS_ptrace, {PTRACE_ATTACH, 1}},
    {"ptrace_seize_1", HIGH, SYS_ptrace, {PTRACE_SEIZE, 1}},
    {"prlimit_1", MEDIUM, SYS_prlimit64, {1, RLIMIT_NOFILE, P(zeros)}},
    {"sched_1", MEDIUM, SYS_sched_setscheduler, {1, SCHED_IDLE, P(zeros)}},
    {"affinity_1", MEDIUM, SYS_sched_setaffinity, {1, 8, P(ones)}},
    {"nice_1", MEDIUM, SYS_setpriority, {PRIO_PROCESS, 1, 19}},
    {"migrate_1", MEDIUM, SYS_migrate_pages, {1, 64, P(ones), P(ones)}},
    {"keyctl", MEDIUM, SYS_keyctl, {0, -3, 1}},
    {"add_key", MEDIUM, SYS_add_key, {P("user"), P("probe"), P("x"), 1, -3}},
    {"request_key", MEDIUM, SYS_request_key, {P("user"), P("probe")}},
    {"bpf_map", HIGH, SYS_bpf, {0, P(bpf_array), 64}},
    {"bpf_prog", HIGH, SYS_bpf, {5, P(zeros), 64}},
    {"io_uring", HIGH, SYS_io_uring_setup, {4, P(zeros)}},
    {"aio", MEDIUM, SYS_io_setup, {1, P(aio)}},
    {"userfaultfd", MEDIUM, SYS_userfaultfd, {0}},
    {"userfaultfd_user", MEDIUM, SYS_userfaultfd, {1}},
    {"perf", HIGH, SYS_perf_event_open, {P(perf_attr), 0, -1, -1}},
    {"open_by_handle", HIGH, SYS_open_by_handle_at, {AT_FDCWD, P(handle)}},
    {"fanotify", MEDIUM, SYS_fanotify_init, {0}},
    {"kexec", HIGH, SYS_kexec_load, {0}},
    {"kexec_file", HIGH, SYS_kexec_file_load, {-1, -1}},
    {"init_module", HIGH, SYS_init_module, {P(""), 0, P("")}},
    {"finit_module", HIGH, SYS_finit_module, {-1, P("")}},
    {"delete_module", HIGH, SYS_delete_module, {P("no_such_module"), O_NONBLOCK}},
    {"reboot", HIGH, SYS_reboot, {LINUX_REBOOT_MAGIC1, LINUX_REBOOT_MAGIC2, LINUX_REBOOT_CMD_CAD_OFF}},
    {"swapon", HIGH, SYS_swapon, {P("/tmp/no-such")}},
    {"swapoff", HIGH, SYS_swapoff, {P("/tmp/no-such")}},
    {"adjtimex", HIGH, SYS_adjtimex, {P(timex)}},
    {"sethostname", MEDIUM, SYS_sethostname, {P("probe"), 5}},
    {"setdomainname", MEDIUM, SYS_setdomainname, {P("probe"), 5}},
    {"acct", MEDIUM, SYS_acct, {0}},
    {"quotactl", MEDIUM, SYS_quotactl, {0x80000100, P("/dev/null")}},
    {"iopl", HIGH, SYS_iopl, {3}},
    {"ioperm", HIGH, SYS_ioperm, {0x80, 1, 1}},
    {"syslog", MEDIUM, SYS_syslog, {3, P(scratch), 64}},
    {"vhangup", LOW, SYS_vhangup, {0}},
    {"lookup_dcookie", LOW, SYS_lookup_dcookie, {1, P(scratch), 64}},
    {"mknod_char", HIGH, SYS_mknod, {P("/tmp/node-c"), S_IFCHR | 0600, 0x10b}},
    {"mknod_block", HIGH, SYS_mknod, {P("/tmp/node-b"), S_IFBLK | 0600, 0x800}},
    {"realtime", MEDIUM, SYS_sched_setscheduler, {0, SCHED_FIFO, P(ones)}},
    {"nice_up", LOW, SYS_setpriority, {PRIO_PROCESS, 0, -10}},
    {"kcmp_1", LOW, SYS_kcmp, {1, 1, 0}},
    {"packet_raw", HIGH, SYS_socket, {AF_PACKET, SOCK_RAW, 0x0300}},
    {"packet_dgram", MEDIUM, SYS_socket, {AF_PACKET, SOCK_DGRAM, 0x0300}},
    {"inet_raw", MEDIUM, SYS_socket, {AF_INET, SOCK_RAW, 1}},
    {"inet6_raw", MEDIUM, SYS_socket, {AF_INET6, SOCK_RAW, 58}},
    {"netlink_netfilter", HIGH, SYS_socket, {AF_NETLINK, SOCK_RAW, 12}},
    {"netlink_xfrm", MEDIUM, SYS_socket, {AF_NETLINK, SOCK_RAW, 6}},
    {"netlink_audit", MEDIUM, SYS_socket, {AF_NETLINK, SOCK_RAW, 9}},
    {"netlink_uevent", MEDIUM, SYS_socket, {AF_NETLINK, SOCK_RAW, 15}},
    {"alg", LOW, SYS_socket, {AF_ALG, SOCK_SEQPACKET, 0}},
    {"vsock", MEDIUM, SYS_socket, {AF_VSOCK, SOCK_STREAM, 0}},
    {"key", MEDIUM, SYS_socket, {AF_KEY, SOCK_RAW, 2}},
    {"tipc", LOW, SYS_socket, {AF_TIPC, SOCK_RAW, 0}},
    {"can", LOW, SYS_socket, {AF_CAN, SOCK_RAW, 1}},
    {"xdp", MEDIUM, SYS_socket, {AF_XDP, SOCK_RAW, 0}},
    {"bluetooth", MEDIUM, SYS_socket, {AF_BLUETOOTH, SOCK_RAW, 1}},
    {"rds", LOW, SYS_socket, {AF_RDS, SOCK_SEQPACKET, 0}},
    {"kcm", LOW, SYS_socket, {AF_KCM, SOCK_DGRAM, 0}},
    {"qipcrtr", LOW, SYS_socket, {AF_QIPCRTR, SOCK_DGRAM, 0}},
    {"smc", LOW, SYS_socket, {AF_SMC, SOCK_STREAM, 0}},
    {"x32_getpid", LOW, X32 | 39, {0}},
    {"x32_unshare", HIGH, X32 | 272, {CLONE_NEWUSER}},
    {"x32_ptrace", HIGH, X32 | 521, {PTRACE_ATTACH, 1}},
    {"unknown_call", LOW, 1000, {0}},
    {"set_caps", HIGH, SYS_capset, {P(cap_head), P(all_ones)}},
    {"set_uid_beyond", MEDIUM, SYS_setresuid, {65536, 65536, 65536}},
    {"ok_unix", NONE, SYS_socket, {AF_UNIX, SOCK_STREAM, 0}},
    {"ok_tcp", NONE, SYS_socket, {AF_INET, SOCK_STREAM, 0}},
    {"ok_udp", NONE, SYS_socket, {AF_INET, SOCK_DGRAM, 0}},
    {"ok_netlink_route", NONE, SYS_socket, {AF_NETLINK, SOCK_RAW, 0}},
    {"ok_memfd", NONE, SYS_memfd_create, {P("ok")}},
    {"ok_epoll", NONE, SYS_epoll_create1, {0}},
    {"ok_inotify", NONE, SYS_inotify_init1, {0}},
    {"ok_eventfd", NONE, SYS_eventfd2, {0}},
    {"ok_pidfd", NONE, SYS_pidfd_open, {1}},
    {"ok_getrandom", NONE, SYS_getrandom, {P(scratch), 8}},
    {0},
};
/* clang-format on */
