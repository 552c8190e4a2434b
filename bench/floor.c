/* SPDX-License-Identifier: Apache-2.0 */
/* floor COUNT WORK CGROUP PID1 IMAGES LOWER…: the least that a sandbox costs on this kernel.
 *
 * A straight line of system calls without any care for errors, records, limits or strangers: user,
 * mount, pid, ipc, uts and cgroup namespace, a net namespace made before, an idmapped overlay of
 * the LOWER directories below IMAGES, /proc, /dev and /sys, pivot_root, no capabilities, a seccomp
 * program, a cgroup in each tree that limits something, and PID1 executed. A sandbox counts as made
 * when exec has closed the pipe, as deleted when it is reaped and its cgroups and files are out of
 * the way. */
#include "wire.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <linux/filter.h>
#include <linux/mount.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#define BASE 0x70000000U /* ids that no cay takes */
#define IDS 65536
#define MAX_TREES 4
#define REFUSED_FROM 424 /* as many calls as the floor's table has rules */
#define REFUSED 49

static struct {
    const char *name;
    int work_fd, images_fd, init_fd, null_fd, host_net_fd, host_mnt_fd;
    int trees[MAX_TREES], tree_count; /* of cgroup v1 */
    int unified_fd;                   /* -1: none */
    const char *work;
    char *overlay; /* what it is mounted with */
} host;

struct box {
    char name[32];
    int net_fd;
    pid_t pid;
};

static int must(long result, const char *what)
{
    if (result < 0)
        die("%s: %s", what, strerror(errno));
    return (int)result;
}

#define MUST(call) must((call), #call)

static void write_text(int dir, const char *path, const char *text)
{
    int fd = MUST(openat(dir, path, O_WRONLY | O_CLOEXEC));
    if (write(fd, text, strlen(text)) != (ssize_t)strlen(text))
        die("%s: %s", path, strerror(errno));
    close(fd);
}

static int new_mount(const char *type, unsigned attributes)
{
    int fs = MUST(fsopen(type, FSOPEN_CLOEXEC));
    MUST(fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0));
    int fd = MUST(fsmount(fs, FSMOUNT_CLOEXEC, attributes));
    close(fs);
    return fd;
}

static void place(int mount_fd, const char *path)
{
    MUST(move_mount(mount_fd, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH));
    close(mount_fd);
}

static int clone_mount(int dir, const char *path)
{
    return MUST(open_tree(dir, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH));
}

/* ---- once ---- */

static void open_tree_of(const char *where, int *fd_out)
{
    int top = open(where, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (top < 0)
        return;
    MUST(mkdirat(top, host.name, 0755));
    *fd_out = MUST(openat(top, host.name, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    close(top);
}

static void open_cgroups(void)
{
    static const char *const v1[] = {"/sys/fs/cgroup/memory", "/sys/fs/cgroup/cpu",
                                     "/sys/fs/cgroup/pids"};
    bool v2_only = access("/sys/fs/cgroup/cgroup.procs", F_OK) == 0;
    host.unified_fd = -1;
    open_tree_of(v2_only ? "/sys/fs/cgroup" : "/sys/fs/cgroup/unified", &host.unified_fd);
    for (size_t i = 0; !v2_only && i < sizeof(v1) / sizeof(v1[0]); i++) {
        int fd = -1;
        open_tree_of(v1[i], &fd);
        if (fd >= 0)
            host.trees[host.tree_count++] = fd;
    }
}

static void make_dev(void)
{
    static const struct {
        const char *name;
        unsigned major, minor;
    } nodes[] = {{"dev/null", 1, 3},   {"dev/zero", 1, 5},    {"dev/full", 1, 7},
                 {"dev/random", 1, 8}, {"dev/urandom", 1, 9}, {"dev/tty", 5, 0}};
    place(new_mount("tmpfs", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC), "dev");
    for (size_t i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++)
        MUST(mknod(nodes[i].name, S_IFCHR | 0666, makedev(nodes[i].major, nodes[i].minor)));
    MUST(mkdir("dev/pts", 0755));
    MUST(mkdir("dev/shm", 0755));
}

/* From an empty net namespace, so that its size does not depend on the host. */
static void make_sys(void)
{
    MUST(unshare(CLONE_NEWNET));
    place(new_mount("sysfs", MOUNT_ATTR_RDONLY), "sys");
    MUST(setns(host.host_net_fd, CLONE_NEWNET));
}

static int make_net(void)
{
    struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    MUST(unshare(CLONE_NEWNET));
    int sock = MUST(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    MUST(ioctl(sock, SIOCSIFFLAGS, &lo));
    close(sock);
    int fd = MUST(open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC));
    MUST(setns(host.host_net_fd, CLONE_NEWNET));
    return fd;
}

/* All layers in one string, by names of mounts: so every kernel since 6.1 takes them. */
static void name_layers(char **lower)
{
    size_t size;
    FILE *text = open_memstream(&host.overlay, &size);
    fprintf(text, "volatile,upperdir=files/upper,workdir=files/work,lowerdir=images/%s", *lower);
    while (*++lower)
        fprintf(text, ":images/%s", *lower);
    if (fclose(text) != 0 || size >= 4096) /* the kernel would cut it there */
        die("too many layers");
}

/* What each sandbox would copy with the mount namespace, and throw away again, goes first. */
static void prepare(char **argv)
{
    static const char *const dirs[] = {"root", "images", "files", "dev", "sys", "trash"};
    host.name = argv[3];
    host.work = argv[2];
    name_layers(argv + 6);
    host.init_fd = MUST(open(argv[4], O_RDONLY | O_CLOEXEC));
    host.null_fd = MUST(open("/dev/null", O_RDWR | O_CLOEXEC));
    host.host_net_fd = MUST(open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC));
    MUST(unshare(CLONE_NEWNS));
    MUST(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL));
    host.host_mnt_fd = MUST(open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC));
    host.images_fd = MUST(open(argv[5], O_PATH | O_DIRECTORY | O_CLOEXEC));
    MUST(chdir(argv[2]));
    MUST(chmod(".", 0755)); /* a sandbox's root passes through it */
    for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++)
        MUST(mkdir(dirs[i], 0755));
    host.work_fd = MUST(open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    open_cgroups();
    make_dev();
    make_sys();
    MUST(umount2("/sys", MNT_DETACH));
    (void)umount2("/dev", MNT_DETACH); /* may be a plain directory */
}

/* ---- in the child ---- */

static void load_seccomp(void)
{
    struct sock_filter code[REFUSED + 6] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    };
    for (unsigned i = 0; i < REFUSED; i++)
        code[1 + i] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, REFUSED_FROM + i,
                                                   REFUSED - i, 0);
    code[REFUSED + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    code[REFUSED + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS);
    struct sock_fprog program = {REFUSED + 3, code};
    MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    MUST(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program));
}

static void drop_capabilities(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {0};
    MUST(syscall(SYS_capset, &head, none));
}

/* The overlay, /dev and /sys, in this order. Their coming says that cgroups and ids are set. */
static void receive_mounts(int sock, int fds[3])
{
    char byte;
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(3 * sizeof(int))];
    } control;
    struct iovec iov = {&byte, 1};
    struct msghdr m = {.msg_iov = &iov,
                       .msg_iovlen = 1,
                       .msg_control = &control,
                       .msg_controllen = sizeof(control)};
    if (recvmsg(sock, &m, MSG_CMSG_CLOEXEC) != 1)
        die("the creator died");
    memcpy(fds, CMSG_DATA(CMSG_FIRSTHDR(&m)), 3 * sizeof(int));
}

static void become_sandbox(const struct box *box, int sock)
{
    static char *argv[] = {"pid1", NULL}, *env[] = {NULL};
    int fds[3];
    receive_mounts(sock, fds);
    MUST(setresgid(0, 0, 0)); /* of the host until now, and so nobody in here */
    MUST(setresuid(0, 0, 0));
    MUST(unshare(CLONE_NEWCGROUP));
    MUST(sethostname(box->name, strlen(box->name)));
    MUST(fchdir(fds[0]));
    place(fds[1], "dev");
    place(fds[2], "sys");
    place(new_mount("devpts", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC), "dev/pts");
    place(new_mount("tmpfs", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV), "dev/shm");
    place(new_mount("proc", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC), "proc");
    MUST(syscall(SYS_pivot_root, ".", "."));
    MUST(umount2(".", MNT_DETACH));
    MUST(chdir("/"));
    for (int i = 0; i < 3; i++)
        MUST(dup2(host.null_fd, i));
    drop_capabilities();
    MUST(prctl(PR_SET_PDEATHSIG, SIGKILL));
    load_seccomp();
    MUST(syscall(SYS_execveat, host.init_fd, "", argv, env, AT_EMPTY_PATH));
}

/* ---- creating ---- */

/* Away from id 0, and with the capabilities that this takes away. */
static void set_fs_ids(unsigned id)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    MUST(syscall(SYS_capget, &head, data));
    (void)setfsuid(id);
    (void)setfsgid(id);
    MUST(syscall(SYS_capset, &head, data));
}

static int clone_mapped(int dir, const char *path, int user_fd)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (uint64_t)user_fd};
    int fd = clone_mount(dir, path);
    MUST(mount_setattr(fd, "", AT_EMPTY_PATH, &attr, sizeof(attr)));
    return fd;
}

/* In the sandbox's mount namespace: the copies below go with what pivot_root leaves there. */
static int mount_overlay(const struct box *box, int user_fd)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/ns/mnt", box->pid);
    int mnt_fd = MUST(open(path, O_RDONLY | O_CLOEXEC));
    int files = clone_mapped(host.work_fd, box->name, user_fd);
    int images = clone_mapped(host.images_fd, "", user_fd);
    MUST(setns(mnt_fd, CLONE_NEWNS));
    MUST(chdir(host.work));
    place(files, "files");
    place(images, "images");
    set_fs_ids(BASE);
    MUST(mount("overlay", "root", "overlay", MS_NOSUID | MS_NODEV, host.overlay));
    set_fs_ids(0);
    int fd = MUST(open("root", O_PATH | O_DIRECTORY | O_CLOEXEC));
    MUST(setns(host.host_mnt_fd, CLONE_NEWNS));
    MUST(fchdir(host.work_fd));
    close(mnt_fd);
    return fd;
}

static void send_mounts(int sock, const int fds[3])
{
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(3 * sizeof(int))];
    } control = {.head = {CMSG_LEN(3 * sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
    struct iovec iov = {"g", 1};
    struct msghdr m = {.msg_iov = &iov,
                       .msg_iovlen = 1,
                       .msg_control = &control,
                       .msg_controllen = sizeof(control)};
    memcpy(CMSG_DATA(&control.head), fds, 3 * sizeof(int));
    MUST(sendmsg(sock, &m, MSG_NOSIGNAL));
    for (int i = 0; i < 3; i++)
        close(fds[i]);
}

/* A cgroup in every tree, and the child in each: in v2's from its birth on. */
static pid_t clone_child(const struct box *box)
{
    struct clone_args args = {.flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWUTS |
                                       CLONE_NEWIPC,
                              .exit_signal = SIGCHLD};
    int into = -1;
    for (int i = 0; i < host.tree_count; i++)
        MUST(mkdirat(host.trees[i], box->name, 0755));
    if (host.unified_fd >= 0) {
        MUST(mkdirat(host.unified_fd, box->name, 0755));
        into = MUST(openat(host.unified_fd, box->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t)into;
    }
    MUST(setns(box->net_fd, CLONE_NEWNET));
    pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
    if (pid != 0) {
        MUST(pid);
        MUST(setns(host.host_net_fd, CLONE_NEWNET));
        close(into);
    }
    return pid;
}

static void admit(const struct box *box)
{
    char path[64], text[64];
    snprintf(text, sizeof(text), "0 %u %d", BASE, IDS);
    snprintf(path, sizeof(path), "/proc/%d/uid_map", box->pid);
    write_text(AT_FDCWD, path, text);
    snprintf(path, sizeof(path), "/proc/%d/gid_map", box->pid);
    write_text(AT_FDCWD, path, text);
    snprintf(path, sizeof(path), "%s/cgroup.procs", box->name);
    snprintf(text, sizeof(text), "%d", box->pid);
    for (int i = 0; i < host.tree_count; i++)
        write_text(host.trees[i], path, text);
}

static void make_dirs(const struct box *box)
{
    char path[64];
    MUST(mkdirat(host.work_fd, box->name, 0755));
    snprintf(path, sizeof(path), "%s/upper", box->name);
    MUST(mkdirat(host.work_fd, path, 0755));
    snprintf(path, sizeof(path), "%s/work", box->name);
    MUST(mkdirat(host.work_fd, path, 0755));
}

static void create(struct box *box)
{
    int status[2], pair[2];
    char path[64], byte;
    make_dirs(box);
    MUST(pipe2(status, O_CLOEXEC));
    MUST(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
    box->pid = clone_child(box);
    if (box->pid == 0) {
        close(pair[0]); /* held here, the creator's death would not be seen */
        become_sandbox(box, pair[1]);
    }
    close(status[1]);
    close(pair[1]);
    admit(box);
    snprintf(path, sizeof(path), "/proc/%d/ns/user", box->pid);
    int user_fd = MUST(open(path, O_RDONLY | O_CLOEXEC));
    const int fds[3] = {mount_overlay(box, user_fd), clone_mount(host.work_fd, "dev"),
                        clone_mount(host.work_fd, "sys")};
    send_mounts(pair[0], fds);
    close(user_fd);
    close(pair[0]);
    if (read(status[0], &byte, 1) != 0) /* its end is exec's, or the child's */
        die("read: %s", strerror(errno));
    close(status[0]);
}

static void destroy(struct box *box)
{
    char path[64];
    MUST(kill(box->pid, SIGKILL));
    MUST(waitpid(box->pid, NULL, 0));
    for (int i = 0; i < host.tree_count; i++)
        MUST(unlinkat(host.trees[i], box->name, AT_REMOVEDIR));
    if (host.unified_fd >= 0)
        MUST(unlinkat(host.unified_fd, box->name, AT_REMOVEDIR));
    snprintf(path, sizeof(path), "trash/%s", box->name);
    MUST(renameat(host.work_fd, box->name, host.work_fd, path));
}

static void remove_tree_of(int fd)
{
    char path[64];
    snprintf(path, sizeof(path), "../%s", host.name);
    MUST(unlinkat(fd, path, AT_REMOVEDIR));
}

static void clear_away(void)
{
    for (int i = 0; i < host.tree_count; i++)
        remove_tree_of(host.trees[i]);
    if (host.unified_fd >= 0)
        remove_tree_of(host.unified_fd);
}

static void check(const struct box *box)
{
    if (waitpid(box->pid, NULL, WNOHANG) != 0)
        die("a sandbox died in its set-up");
}

int main(int argc, char **argv)
{
    size_t count = argc > 6 ? strtoul(argv[1], NULL, 10) : 0;
    if (count < 1)
        die("usage: floor COUNT WORK CGROUP PID1 IMAGES LOWER…");
    uint64_t *up = calloc(count, sizeof(*up)), *down = calloc(count, sizeof(*down));
    struct box *boxes = calloc(count, sizeof(*boxes));
    if (!up || !down || !boxes)
        die("out of memory");
    prepare(argv);
    for (size_t i = 0; i < count; i++) {
        boxes[i].net_fd = make_net();
        snprintf(boxes[i].name, sizeof(boxes[i].name), "box-%zu", i);
    }
    for (size_t i = 0; i < count; i++) {
        uint64_t began = now_ns();
        create(&boxes[i]);
        uint64_t made = now_ns();
        check(&boxes[i]);
        uint64_t ended = now_ns();
        destroy(&boxes[i]);
        up[i] = made - began;
        down[i] = now_ns() - ended;
        close(boxes[i].net_fd);
    }
    clear_away();
    print_pair(up, down, count);
    free(boxes);
    free(down);
    free(up);
    return 0;
}
