/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel can do: each call that the engine makes is made here once, on something that
 * nobody else sees. */
#include "cli/doctor.h"
#include "engine/network.h"
#include "engine/victim.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/btrfs.h>
#include <linux/filter.h>
#include <linux/loop.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/fsuid.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>

#ifndef BTRFS_QUOTA_CTL_ENABLE_SIMPLE_QUOTA
#define BTRFS_QUOTA_CTL_ENABLE_SIMPLE_QUOTA 4 /* Linux 6.7 */
#endif
#define IMAGE_BYTES (512 << 20) /* sparse, in memory; mkfs.xfs needs 300 MB at least */
#define STAGE "/tmp"
#define MAPPED_ROOT 1879048192U /* of cay_doctor_user_namespace */

static void try_version(const struct cay_probe *p, const struct cay_place *place,
                        struct cay_found *out)
{
    struct utsname un;
    int major = 0, minor = 0;
    (void)p, (void)place;
    if (uname(&un) < 0 || sscanf(un.release, "%d.%d", &major, &minor) != 2)
        cay_doctor_failed(out, "uname");
    else
        cay_doctor_say(out, major > 6 || (major == 6 && minor >= 1) ? CAY_FINE : CAY_LACKING, "%s",
                       un.release);
}

static void try_namespace(const struct cay_probe *p, const struct cay_place *place,
                          struct cay_found *out)
{
    (void)place;
    if (unshare((int)p->number) < 0) {
        cay_doctor_failed(out, "unshare");
        return;
    }
    int status = 0; /* of a pid namespace the first child is the proof */
    pid_t pid = fork();
    if (pid == 0)
        _exit(p->number == CLONE_NEWPID && getpid() != 1);
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
        cay_doctor_failed(out, "no process can be made in it");
    else
        cay_doctor_say(out, CAY_FINE, "%s", "");
}

static void try_clone3(const struct cay_probe *p, const struct cay_place *place,
                       struct cay_found *out)
{
    int pidfd = -1, status = 0;
    struct clone_args args = {
        .flags = CLONE_PIDFD, .pidfd = (uint64_t)(uintptr_t)&pidfd, .exit_signal = SIGCHLD};
    (void)p, (void)place;
    pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);
    if (pid == 0) {
        (void)pause();
        _exit(0);
    }
    if (pid < 0) {
        cay_doctor_failed(out, "clone3");
        return;
    }
    if (syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0) < 0) {
        cay_doctor_failed(out, "pidfd_send_signal");
        (void)kill(pid, SIGKILL);
    } else {
        cay_doctor_say(out, CAY_FINE, "%s", "");
    }
    (void)waitpid(pid, &status, 0);
}

static void try_seccomp(const struct cay_probe *p, const struct cay_place *place,
                        struct cay_found *out)
{
    struct sock_filter allow[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {.len = 1, .filter = allow};
    uint32_t action = SECCOMP_RET_KILL_PROCESS;
    (void)p, (void)place;
    if (syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) < 0)
        cay_doctor_failed(out, "processes cannot be killed by filter");
    else if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
             syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0)
        cay_doctor_failed(out, "a filter cannot be set");
    else
        cay_doctor_say(out, CAY_FINE, "%s", "");
}

/* A program in sealed memory, not readable, as every sandbox's pid 1 is. */
static void try_memory_program(const struct cay_probe *p, const struct cay_place *place,
                               struct cay_found *out)
{
    static const char script[] = "#!/bin/true\n";
    int status = 0;
    (void)p, (void)place;
    int fd = memfd_create("cay-doctor", MFD_ALLOW_SEALING); /* a script's name must last */
    if (fd < 0 || write(fd, script, sizeof script - 1) < 0 || fchmod(fd, 0755) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0) {
        cay_doctor_failed(out, "memfd_create");
        return;
    }
    pid_t pid = fork();
    if (pid == 0) {
        char *const argv[] = {(char *)(uintptr_t) "cay-doctor", NULL}, *const env[] = {NULL};
        (void)fexecve(fd, argv, env);
        _exit(errno);
    }
    (void)waitpid(pid, &status, 0);
    errno = WIFEXITED(status) ? WEXITSTATUS(status) : EIO;
    if (pid < 0 || status != 0)
        cay_doctor_failed(out, "it cannot be run (vm.memfd_noexec?)");
    else
        cay_doctor_say(out, CAY_FINE, "%s", "");
}

static int attach_loop(int file_fd, char *path, size_t size)
{
    struct loop_config config = {.fd = (uint32_t)file_fd};
    config.info.lo_flags = LO_FLAGS_AUTOCLEAR; /* free again when we close it */
    CAY_AUTO_FD int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
    for (int tries = 0; control >= 0 && tries < 16; tries++) {
        int n = ioctl(control, LOOP_CTL_GET_FREE);
        (void)snprintf(path, size, "/dev/loop%d", n);
        CAY_AUTO_FD int fd = n < 0 ? -1 : open(path, O_RDWR | O_CLOEXEC);
        if (fd >= 0 && ioctl(fd, LOOP_CONFIGURE, &config) == 0)
            return cay_take_fd(&fd);
        if (errno != EBUSY)
            return -1;
    }
    return -1;
}

static int open_image(void)
{
    CAY_AUTO_FD int fd = memfd_create("cay-doctor", MFD_CLOEXEC);
    return fd < 0 || ftruncate(fd, IMAGE_BYTES) < 0 ? -1 : cay_take_fd(&fd);
}

static void try_loop(const struct cay_probe *p, const struct cay_place *place,
                     struct cay_found *out)
{
    char path[32];
    (void)p, (void)place;
    CAY_AUTO_FD int image = open_image();
    CAY_AUTO_FD int loop = image < 0 ? -1 : attach_loop(image, path, sizeof path);
    if (loop < 0)
        cay_doctor_failed(out, "/dev/loop-control");
    else
        cay_doctor_say(out, CAY_FINE, "%s", "");
}

struct filesystem {
    const char *name, *mkfs;
    const char *option; /* of the mount; NULL none */
};

static const struct filesystem btrfs = {"btrfs", "mkfs.btrfs", NULL};
static const struct filesystem xfs = {"xfs", "mkfs.xfs", "prjquota"};

static bool format(const struct filesystem *which, const char *device)
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        (void)dup2(null, 0), (void)dup2(null, 1), (void)dup2(null, 2);
        (void)setenv("PATH", "/usr/sbin:/sbin:/usr/bin:/bin", 1);
        execlp(which->mkfs, which->mkfs, "-q", "-K", "-f", device, (char *)NULL);
        _exit(127);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

/* In memory, and mounted nowhere; -1 when the row has been told why there is none. */
static int open_filesystem(const struct filesystem *which, struct cay_found *out)
{
    char device[32];
    CAY_AUTO_FD int fs = fsopen(which->name, FSOPEN_CLOEXEC);
    if (fs < 0) {
        cay_doctor_failed(out, "not in this kernel");
        return -1;
    }
    CAY_AUTO_FD int image = open_image();
    CAY_AUTO_FD int loop = image < 0 ? -1 : attach_loop(image, device, sizeof device);
    if (loop < 0 || !format(which, device)) {
        cay_doctor_say(out, CAY_UNTRIED, "%s is there; needs %s and loop devices", which->name,
                       which->mkfs);
        return -1;
    }
    CAY_AUTO_FD int mounted = -1;
    if (fsconfig(fs, FSCONFIG_SET_STRING, "source", device, 0) == 0 &&
        (!which->option || fsconfig(fs, FSCONFIG_SET_FLAG, which->option, NULL, 0) == 0) &&
        fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) == 0)
        mounted = fsmount(fs, FSMOUNT_CLOEXEC, 0);
    if (mounted < 0)
        cay_doctor_failed(out, which->option ? which->option : "mount");
    return cay_take_fd(&mounted);
}

static void try_btrfs(const struct cay_probe *p, const struct cay_place *place,
                      struct cay_found *out)
{
    struct btrfs_ioctl_quota_ctl_args args = {.cmd = BTRFS_QUOTA_CTL_ENABLE_SIMPLE_QUOTA};
    (void)p, (void)place;
    CAY_AUTO_FD int mounted = open_filesystem(&btrfs, out);
    if (mounted < 0)
        return;
    CAY_AUTO_FD int dir = openat(mounted, ".", O_RDONLY | O_CLOEXEC);
    if (dir < 0)
        cay_doctor_failed(out, "open");
    else if (ioctl(dir, BTRFS_IOC_QUOTA_CTL, &args) < 0)
        cay_doctor_failed(out, "simple quotas");
    else
        cay_doctor_say(out, CAY_FINE, "%s", "");
}

/* For disks where btrfs has no such quotas: who has those does not need it. */
static void try_xfs(const struct cay_probe *p, const struct cay_place *place, struct cay_found *out)
{
    struct cay_found other = {0};
    CAY_AUTO_FD int mounted = open_filesystem(&xfs, out);
    if (mounted >= 0) {
        cay_doctor_say(out, CAY_FINE, "%s", "");
        return;
    }
    try_btrfs(p, place, &other);
    if (other.verdict == CAY_FINE)
        cay_doctor_say(out, CAY_NOTED, "not here, nor needed: btrfs has simple ones");
}

/* A filesystem in memory over a directory that everybody has, in a mount namespace of our own, and
 * a copy of that mount with its ids mapped; -1 when the row has been told why there is none. Before
 * Linux 6.3 the ids of tmpfs cannot be mapped, but those of btrfs can. */
static int map_stage(int user_fd, struct cay_found *out)
{
    if (user_fd < 0) {
        cay_doctor_failed(out, "a user namespace with ids");
        return -1;
    }
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("tmpfs", STAGE, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755") < 0) {
        cay_doctor_failed(out, "mount");
        return -1;
    }
    CAY_AUTO_FD int mapped = cay_doctor_map(AT_FDCWD, STAGE, user_fd);
    if (mapped < 0 && errno == EINVAL) {
        CAY_AUTO_FD int other = open_filesystem(&btrfs, out);
        if (other < 0) {
            cay_doctor_say(out, CAY_UNTRIED, "before Linux 6.3 only with btrfs, which is not here");
            return -1;
        }
        if (move_mount(other, "", AT_FDCWD, STAGE, MOVE_MOUNT_F_EMPTY_PATH) == 0)
            mapped = cay_doctor_map(AT_FDCWD, STAGE, user_fd);
    }
    if (mapped < 0)
        cay_doctor_failed(out, "open_tree, mount_setattr");
    return cay_take_fd(&mapped);
}

static void try_mapped(const struct cay_probe *p, const struct cay_place *place,
                       struct cay_found *out)
{
    struct stat st;
    (void)p, (void)place;
    CAY_AUTO_FD int user = cay_doctor_user_namespace();
    CAY_AUTO_FD int mapped = map_stage(user, out);
    if (mapped < 0)
        return;
    if (fstat(mapped, &st) < 0 || st.st_uid != MAPPED_ROOT)
        cay_doctor_say(out, CAY_LACKING, "ids stay as they are");
    else
        cay_doctor_say(out, CAY_FINE, "%s", "");
}

/* As the sandbox's root, with all rights kept: see engine/rootfs.c. */
static int mount_overlay(void)
{
    cap_t caps = cap_get_proc();
    (void)setfsuid(MAPPED_ROOT);
    (void)setfsgid(MAPPED_ROOT);
    (void)cap_set_proc(caps); /* the mount fails when this did */
    cap_free(caps);
    return mount("overlay", STAGE "/root", "overlay", MS_NOSUID | MS_NODEV,
                 "lowerdir=" STAGE "/mapped/lower,upperdir=" STAGE "/mapped/upper,"
                 "workdir=" STAGE "/mapped/work,volatile");
}

static bool make_layers(void)
{
    static const char *const dirs[] = {"root", "mapped", "lower", "upper", "work"};
    char path[64];
    for (size_t i = 0; i < CAY_COUNT(dirs); i++) {
        (void)snprintf(path, sizeof path, STAGE "/%s", dirs[i]);
        if (mkdir(path, 0755) < 0)
            return false;
    }
    return true;
}

static void try_overlay(const struct cay_probe *p, const struct cay_place *place,
                        struct cay_found *out)
{
    (void)p, (void)place;
    CAY_AUTO_FD int user = cay_doctor_user_namespace();
    CAY_AUTO_FD int mapped = map_stage(user, out);
    if (mapped < 0)
        return;
    if (!make_layers() ||
        move_mount(mapped, "", AT_FDCWD, STAGE "/mapped", MOVE_MOUNT_F_EMPTY_PATH) < 0)
        cay_doctor_failed(out, "its layers");
    else if (mount_overlay() < 0)
        cay_doctor_failed(out, "mount");
    else if (mkdir(STAGE "/root/made", 0755) < 0) /* it may have come up read-only */
        cay_doctor_failed(out, "it cannot be written");
    else
        cay_doctor_say(out, CAY_FINE, "%s", "");
}

/* As every sandbox's network is made, in a namespace that goes with this trial. */
static void try_network(const struct cay_probe *p, const struct cay_place *place,
                        struct cay_found *out)
{
    CAY_AUTO_FD int sock = -1;
    struct cay_error err;
    (void)p, (void)place;
    if (unshare(CLONE_NEWNET) < 0)
        cay_doctor_failed(out, "unshare");
    else if (cay_network_open(&sock, &err) < 0 || cay_network_catch(sock, true, &err) < 0)
        cay_doctor_say(out, CAY_LACKING, "%s: %s", err.msg, err.cause);
    else
        cay_doctor_say(out, CAY_FINE, "%s", "");
}

static void try_io(const struct cay_probe *p, const struct cay_place *place, struct cay_found *out)
{
    (void)p, (void)place;
    if (access("/proc/self/io", R_OK) < 0)
        cay_doctor_failed(out, "/proc/self/io");
    else
        cay_doctor_say(out, CAY_FINE, "%s", "");
}

static void try_log(const struct cay_probe *p, const struct cay_place *place, struct cay_found *out)
{
    CAY_AUTO_FD int fd = cay_kernel_log_open();
    (void)p, (void)place;
    if (fd < 0)
        cay_doctor_failed(out, "/dev/kmsg");
    else
        cay_doctor_say(out, CAY_FINE, "%s", "");
}

#define NS_LOST "sandboxes cannot be made"
#define NS_FIX "use a kernel with this namespace; inside a container: let it make namespaces"
#define USER_FIX NS_FIX "; inside a chroot: nobody can make one there, make it a root of its own"

#define NO_IMAGE "no disk limit, unless the data directory is on btrfs, or on XFS with prjquota"

const struct cay_probe cay_doctor_kernel[] = {
    {"kernel", false, false, try_version, "nobody tried a kernel older than 6.1",
     "use Linux 6.1 or newer", 0, NULL},
    {"user namespace", true, true, try_namespace, NS_LOST, USER_FIX, CLONE_NEWUSER, NULL},
    {"mount namespace", true, true, try_namespace, NS_LOST, NS_FIX, CLONE_NEWNS, NULL},
    {"pid namespace", true, true, try_namespace, NS_LOST, NS_FIX, CLONE_NEWPID, NULL},
    {"net namespace", true, true, try_namespace, NS_LOST, NS_FIX, CLONE_NEWNET, NULL},
    {"ipc namespace", true, true, try_namespace, NS_LOST, NS_FIX, CLONE_NEWIPC, NULL},
    {"uts namespace", true, true, try_namespace, NS_LOST, NS_FIX, CLONE_NEWUTS, NULL},
    {"cgroup namespace", true, true, try_namespace, NS_LOST, NS_FIX, CLONE_NEWCGROUP, NULL},
    {"clone3 and pidfd", true, false, try_clone3, NS_LOST, "use Linux 6.1 or newer", 0, NULL},
    {"seccomp", true, false, try_seccomp, NS_LOST, "use a kernel with CONFIG_SECCOMP_FILTER", 0,
     NULL},
    {"program in memory", true, false, try_memory_program, NS_LOST, "set vm.memfd_noexec to 0", 0,
     NULL},
    {"idmapped mounts", true, true, try_mapped, NS_LOST, "use Linux 6.1 or newer", 0, NULL},
    {"overlayfs, mapped", true, true, try_overlay, NS_LOST,
     "modprobe overlay; use Linux 6.1 or newer", 0, NULL},
    {"loop devices", false, true, try_loop, NO_IMAGE, "modprobe loop; allow /dev/loop-control", 0,
     NULL},
    {"btrfs, simple quotas", false, true, try_btrfs,
     "snapshots and forks copy files; disks are limited by XFS alone",
     "modprobe btrfs; use Linux 6.7 or newer", 0, NULL},
    {"XFS, project quotas", false, true, try_xfs, "no disk limit where btrfs has no simple quotas",
     "apt install xfsprogs; use a kernel with CONFIG_XFS_QUOTA (Debian's has it)", 0, NULL},
    {"nftables", false, true, try_network, "sandboxes have no way out to the network",
     "modprobe nft_tproxy nft_reject_inet", 0, NULL},
    {"I/O accounting", false, false, try_io, "nobody counts what is read and written",
     "use a kernel with CONFIG_TASK_IO_ACCOUNTING", 0, NULL},
    {"kernel log", false, false, try_log,
     "who is killed for want of memory below a command has no name in its answer",
     "inside a container: give it /dev/kmsg and CAP_SYSLOG", 0, NULL},
    {0},
};
