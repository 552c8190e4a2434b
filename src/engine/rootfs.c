/* SPDX-License-Identifier: Apache-2.0 */
/* The sandbox's file tree, built in its first process's own mount namespace, a copy of the stage.
 *
 * /proc and /dev are made there before anybody asks for a sandbox; /sys is in the copy. Then order
 * matters. First the overlay: image layers and upper directory are bound with the sandbox's ids (so
 * that on disk everything stays 0-based) and stacked. Then the three are moved on top, by
 * descriptor and without following a link, before anything of the image is looked at: an image may
 * have /dev as a symlink. Last the tree becomes the root and the host's is detached.
 *
 * All of it happens with root's rights, so nothing inside can undo it: the mounts belong to the
 * host's user namespace, and files that only root may touch are closed to root inside as well. */
#include "base/beneath.h"
#include "base/mount.h"
#include "engine/hierarchy.h"
#include "engine/plan.h"
#include "engine/stage.h"
#include "model/limits.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#define NOTHING_SPECIAL (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)

/* ---- mounts by descriptor ---- */

static int clone_tree(const char *path, bool recursive, struct cay_error *err)
{
    unsigned flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | (recursive ? AT_RECURSIVE : 0);
    int fd = cay_open_tree(AT_FDCWD, path, flags);
    return fd < 0 ? cay_fail_count(err, "cannot clone the mount %s", path) : fd;
}

static int place(int mount_fd, int dir, const char *path, struct cay_error *err)
{
    if (cay_move_mount(mount_fd, "", dir, path, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return cay_fail_count(err, "cannot mount %s", path);
    return 0;
}

/* A directory or file of the tree, without following any link. */
static int open_plain(int root, const char *path, struct cay_error *err)
{
    int fd =
        cay_open_beneath(root, path, O_PATH | O_NOFOLLOW, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
    return fd < 0 ? cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot open /%s of the sandbox", path)
                  : fd;
}

static int place_in(int mount_fd, int root, const char *path, struct cay_error *err)
{
    CAY_AUTO_FD int at = open_plain(root, path, err);
    if (at < 0)
        return at;
    if (cay_move_mount(mount_fd, "", at, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
        return cay_fail_count(err, "cannot mount /%s", path);
    return 0;
}

struct option {
    const char *key, *value;
};

static int new_mount(const char *type, const struct option *options, unsigned attributes,
                     struct cay_error *err)
{
    CAY_AUTO_FD int fs = cay_fsopen(type, FSOPEN_CLOEXEC);
    if (fs < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot open filesystem type %s", type);
    for (; options && options->key; options++)
        if (cay_fsconfig(fs, FSCONFIG_SET_STRING, options->key, options->value) < 0)
            return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot set %s of %s", options->key, type);
    if (cay_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot create a %s", type);
    int fd = cay_fsmount(fs, FSMOUNT_CLOEXEC, attributes);
    return fd < 0 ? cay_fail_count(err, "cannot mount a %s", type) : fd;
}

/* ---- the overlay ---- */

/* A copy of a mount in which id 0 on disk is the sandbox's root. */
static int bind_mapped(const char *from, int user_fd, const char *to, struct cay_error *err)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP | NOTHING_SPECIAL,
                              .userns_fd = (uint64_t)user_fd};
    CAY_AUTO_FD int fd = clone_tree(from, false, err);
    if (fd < 0)
        return fd;
    if (cay_mount_setattr(fd, "", AT_EMPTY_PATH, &attr) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot map the ids of %s", from);
    return place(fd, AT_FDCWD, to, err);
}

/* Leaving fsuid 0 drops capabilities that the mount needs. */
static void set_fs_ids(uint32_t id)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct caps[2];
    (void)syscall(SYS_capget, &head, caps);
    (void)setfsuid(id);
    (void)setfsgid(id);
    (void)syscall(SYS_capset, &head, caps); /* the mount fails when this did */
}

/* By name, relative to the stage: mountinfo then shows no path of the host, and a list of layers in
 * one string is what every kernel since 6.1 takes.
 * No file in the upper points to one of a layer, whatever the host's kernel would do by itself: a
 * copy has another work directory, and a volume other layers.
 * What need not survive the host is volatile: else the end of each sandbox would wait until the
 * whole disk under it, everybody's, is written out. */
int cay_rootfs_overlay(const struct cay_image *image, bool persistent, char *out, size_t size,
                       struct cay_error *err)
{
    int len = snprintf(out, size, "lowerdir=" CAY_STAGE_LOWER "/fits/%s", image->fit);
    for (size_t i = 0; i < image->layers.count && len < (int)size; i++)
        len += snprintf(out + len, size - (size_t)len, ":" CAY_STAGE_LOWER "/layers/%s",
                        image->layers.at[i]);
    if (len < (int)size)
        len += snprintf(out + len, size - (size_t)len,
                        ",upperdir=" CAY_STAGE_UPPER "/upper,workdir=" CAY_STAGE_UPPER
                        "/work,index=off,metacopy=off,redirect_dir=nofollow%s",
                        persistent ? "" : ",volatile");
    if (len >= (int)size)
        return cay_fail(err, CAY_ERR_UNSUPPORTED, "too many layers: %zu", image->layers.count);
    return 0;
}

/* Made as the sandbox's own root: as the host's, overlayfs could not make its work directory and
 * would be read-only. */
static int mount_overlay(const struct cay_berth *berth, const struct cay_order *order,
                         struct cay_error *err)
{
    char files[64];
    snprintf(files, sizeof files, CAY_STAGE_FILES "/%s", order->request.id);
    int r = bind_mapped(CAY_STAGE_IMAGES, berth->user_fd, CAY_STAGE_LOWER, err);
    if (r == 0)
        r = bind_mapped(files, berth->user_fd, CAY_STAGE_UPPER, err);
    if (r < 0)
        return r;
    set_fs_ids(berth->base);
    r = mount("overlay", CAY_STAGE_ROOT, "overlay", MS_NOSUID | MS_NODEV, order->overlay);
    int saved = errno;
    set_fs_ids(0);
    errno = saved;
    return r < 0 ? cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot mount the overlay") : 0;
}

/* ---- /proc, /sys, /dev ---- */

/* Readable by everybody, and none of a sandbox's business. What only root may read needs no mask:
 * root inside is not the host's. */
static const char *const masked_files[] = {
    "cmdline", "config.gz", "diskstats", "interrupts", "iomem",
    "ioports", "key-users", "keys",      "partitions", "softirqs",
};
static const char *const masked_dirs[] = {
    "acpi", "bus", "driver", "fs", "irq", "scsi",
};
/* By name, below a mount that is ours: nothing of an image is in there, and no link. The old call,
 * because it takes one where the new ones take three, for each of so many; and what this kernel has
 * not is found missing before there is a cover that would have to be thrown away. */
static int mask_all(const char *const *names, size_t count, const char *with, struct cay_error *err)
{
    for (size_t i = 0; i < count; i++) {
        char path[64];
        snprintf(path, sizeof path, CAY_STAGE_BOX_PROC "/%s", names[i]);
        if (mount(with, path, NULL, MS_BIND, NULL) < 0 && errno != ENOENT)
            return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot mask /proc/%s", names[i]);
    }
    return 0;
}

/* A mount of its own on the same place, which takes no writing. */
static int close_dir(const char *path, struct cay_error *err)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | NOTHING_SPECIAL | MOUNT_ATTR_NOEXEC};
    CAY_AUTO_FD int fd = clone_tree(path, false, err);
    if (fd < 0)
        return fd;
    if (cay_mount_setattr(fd, "", AT_EMPTY_PATH, &attr) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot make %s read-only", path);
    return place(fd, AT_FDCWD, path, err);
}

/* The net namespace belongs to the host's user namespace, so root inside may bind no port below
 * 1024, and ping nobody: both are opened to everyone in there. By this very /proc, in the namespace
 * already: in one that all namespaces are looked up in, the kernel passes over each of them. */
static void open_net(void)
{
    static const char *const settings[][2] = {{"ip_unprivileged_port_start", "0"},
                                              {"ping_group_range", "0 2147483647"}};
    CAY_AUTO_FD int dir =
        open(CAY_STAGE_BOX_PROC "/sys/net/ipv4", O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (size_t i = 0; i < CAY_COUNT(settings); i++)
        (void)cay_small_write(dir, settings[i][0], settings[i][1]); /* it can be lived without */
}

/* What was looked up on the way there, the kernel would remember as long as the sandbox lives. To
 * take a filesystem's settings, be they as they were, it forgets what nobody has open. */
static void forget_lookups(int fd)
{
    CAY_AUTO_FD int fs = cay_fspick(fd, "", FSPICK_EMPTY_PATH | FSPICK_CLOEXEC);
    if (fs >= 0)
        (void)cay_fsconfig(fs, FSCONFIG_CMD_RECONFIGURE, NULL, NULL); /* it is only memory */
}

static int make_proc(int *fd_out, struct cay_error *err)
{
    CAY_AUTO_FD int fd = new_mount("proc", NULL, NOTHING_SPECIAL | MOUNT_ATTR_NOEXEC, err);
    int r = fd < 0 ? fd : place(fd, AT_FDCWD, CAY_STAGE_BOX_PROC, err);
    if (r == 0)
        r = mask_all(masked_files, CAY_COUNT(masked_files), CAY_STAGE_VOID "/file", err);
    if (r == 0)
        r = mask_all(masked_dirs, CAY_COUNT(masked_dirs), CAY_STAGE_VOID "/dir", err);
    if (r < 0)
        return r;
    open_net();
    forget_lookups(fd);
    r = close_dir(CAY_STAGE_BOX_PROC "/sys", err);
    if (r == 0)
        *fd_out = cay_take_fd(&fd);
    return r;
}

static const struct {
    const char *name;
    unsigned major, minor;
} devices[] = {{"null", 1, 3},   {"zero", 1, 5},    {"full", 1, 7},
               {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0}};
static const struct {
    const char *name, *to;
} links[] = {{"fd", "/proc/self/fd"},
             {"stdin", "/proc/self/fd/0"},
             {"stdout", "/proc/self/fd/1"},
             {"stderr", "/proc/self/fd/2"},
             {"ptmx", "pts/ptmx"}};

/* Runtimes size their heaps and thread pools by these files. They tell the sandbox's own limits in
 * cgroup v2's form, whatever the host has; the real tree is not in sight. What is the same for all
 * lies in /sys/fs/cgroup itself. The rest lies in /dev, the one tree that is each sandbox's own
 * already, and links lead there. Where nobody asked for others than the usual ones, that is a link
 * back to files that lie in /sys once for all: each file is a page of memory. */
#define LIMITS ".limits"
#define USUAL_LIMITS "fs/cgroup/.usual"
static const struct {
    const char *name, *text;
} same_limits[] = {{"cgroup.controllers", "cpu memory pids\n"}, {"memory.swap.max", "0\n"}};
static const char *const own_limits[] = {"cpu.max", "memory.max", "pids.max"};

struct limits {
    char of[CAY_COUNT(own_limits)][32];
};

static struct limits tell_limits(uint32_t cpu_milli, uint64_t memory_bytes, uint32_t pids)
{
    struct limits told = {0};
    snprintf(told.of[0], sizeof told.of[0], "%u 100000\n", cpu_milli * 100);
    snprintf(told.of[1], sizeof told.of[1], "%llu\n", (unsigned long long)memory_bytes);
    snprintf(told.of[2], sizeof told.of[2], "%u\n", pids);
    return told;
}

static struct limits usual_limits(void)
{
    return tell_limits(CAY_DEFAULT_CPU_MILLI, CAY_DEFAULT_MEMORY_BYTES, CAY_DEFAULT_PIDS);
}

static int write_text(int dir, const char *path, const char *text, struct cay_error *err)
{
    ssize_t len = (ssize_t)strlen(text);
    CAY_AUTO_FD int file = openat(dir, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0444);
    if (file < 0 || write(file, text, (size_t)len) != len)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot write %s", path);
    return 0;
}

static int link_to(const char *to, int dir, const char *path, struct cay_error *err)
{
    if (symlinkat(to, dir, path) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot link %s", path);
    return 0;
}

static int fill_limits(int dir, const struct cay_engine_request *rq, struct cay_error *err)
{
    const struct limits own = tell_limits(rq->cpu_milli, rq->memory_bytes, rq->pids),
                        usual = usual_limits();
    if (memcmp(&own, &usual, sizeof own) == 0)
        return link_to("/sys/" USUAL_LIMITS, dir, LIMITS, err);
    if (mkdirat(dir, LIMITS, 0755) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot make /dev/" LIMITS);
    int r = 0;
    for (size_t i = 0; r == 0 && i < CAY_COUNT(own_limits); i++) {
        char path[64];
        snprintf(path, sizeof path, LIMITS "/%s", own_limits[i]);
        r = write_text(dir, path, own.of[i], err);
    }
    return r;
}

static int fill_dev(int dir, struct cay_error *err)
{
    for (size_t i = 0; i < CAY_COUNT(devices); i++)
        if (mknodat(dir, devices[i].name, S_IFCHR | 0666,
                    makedev(devices[i].major, devices[i].minor)) < 0)
            return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot make /dev/%s", devices[i].name);
    for (size_t i = 0; i < CAY_COUNT(links); i++)
        if (link_to(links[i].to, dir, links[i].name, err) < 0)
            return err->code;
    if (mkdirat(dir, "pts", 0755) < 0 || mkdirat(dir, "shm", 01777) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot make directories of /dev");
    return 0;
}

static int add_terminals(uint32_t base, struct cay_error *err)
{
    char gid[16], max[16];
    snprintf(gid, sizeof gid, "%u", base + 5);
    snprintf(max, sizeof max, "%d", CAY_MAX_TERMINALS);
    const struct option options[] = {
        {"mode", "0620"}, {"ptmxmode", "0666"}, {"gid", gid}, {"max", max}, {0}};
    CAY_AUTO_FD int fd = new_mount("devpts", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, err);
    return fd < 0 ? fd : place(fd, AT_FDCWD, CAY_STAGE_DEV "/pts", err);
}

/* One tmpfs holds all that is a sandbox's own here: /dev, and /dev/shm, which is a directory of it
 * mounted again. Nodes are its own: whoever shares an inode with another can lock it, and watch who
 * opens it. */
static int make_dev(uint32_t base, int *fd_out, struct cay_error *err)
{
    static const struct option options[] = {
        {"mode", "0755"}, {"size", "64k"}, {"nr_inodes", "65536"}, {0}};
    struct mount_attr files = {.attr_set = MOUNT_ATTR_NODEV};
    CAY_AUTO_FD int fd = new_mount("tmpfs", options, MOUNT_ATTR_NOSUID, err);
    mode_t mask = umask(0); /* a node's mode is what it says */
    int r = fd < 0 ? fd : fill_dev(fd, err);
    (void)umask(mask);
    if (r == 0)
        r = place(fd, AT_FDCWD, CAY_STAGE_DEV, err);
    if (r == 0)
        r = add_terminals(base, err);
    if (r < 0)
        return r;
    CAY_AUTO_FD int memory = clone_tree(CAY_STAGE_DEV "/shm", false, err);
    if (memory < 0)
        return memory;
    if (cay_mount_setattr(memory, "", AT_EMPTY_PATH, &files) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot close /dev/shm");
    *fd_out = cay_take_fd(&fd);
    return place(memory, AT_FDCWD, CAY_STAGE_DEV "/shm", err);
}

/* As large as this sandbox's memory allows, with its limits in it, and read-only from now on. */
static int finish_dev(int fd, const struct cay_engine_request *rq, struct cay_error *err)
{
    struct mount_attr closed = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOEXEC};
    char size[32];
    uint64_t shm = rq->memory_bytes / 2;
    snprintf(size, sizeof size, "%llu",
             (unsigned long long)(shm > 2 * CAY_GIB ? 2 * CAY_GIB : (long long)shm));
    CAY_AUTO_FD int fs = cay_fspick(fd, "", FSPICK_EMPTY_PATH | FSPICK_CLOEXEC);
    if (fs < 0 || cay_fsconfig(fs, FSCONFIG_SET_STRING, "size", size) < 0 ||
        cay_fsconfig(fs, FSCONFIG_CMD_RECONFIGURE, NULL, NULL) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot set the size of /dev");
    int r = fill_limits(fd, rq, err);
    if (r == 0 && cay_mount_setattr(fd, "", AT_EMPTY_PATH, &closed) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot close /dev");
    return r;
}

/* The working directory becomes the root; what was the root is gone. */
static int change_root(struct cay_error *err)
{
    if (syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot change the root");
    return 0;
}

int cay_rootfs_prepare(struct cay_rootfs *tree, uint32_t base, struct cay_error *err)
{
    *tree = (struct cay_rootfs){-1, -1};
    int r = make_dev(base, &tree->dev_fd, err);
    return r < 0 ? r : make_proc(&tree->proc_fd, err);
}

int cay_rootfs_enter(const struct cay_rootfs *tree, const struct cay_berth *berth,
                     const struct cay_order *order, struct cay_error *err)
{
    int r = mount_overlay(berth, order, err);
    if (r < 0)
        return r;
    CAY_AUTO_FD int root = open(CAY_STAGE_ROOT, O_PATH | O_DIRECTORY | O_CLOEXEC);
    CAY_AUTO_FD int sys = open(CAY_STAGE_SYS, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0 || sys < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot open the root");
    r = place_in(tree->dev_fd, root, "dev", err);
    if (r == 0)
        r = place_in(sys, root, "sys", err);
    if (r == 0)
        r = place_in(tree->proc_fd, root, "proc", err);
    if (r == 0)
        r = finish_dev(tree->dev_fd, &order->request, err);
    if (r < 0)
        return r;
    if (faccessat(root, "", W_OK, AT_EMPTY_PATH) < 0 && errno == EROFS)
        return cay_fail(err, CAY_ERR_PROVIDER, "the overlay came up read-only");
    if (fchdir(root) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot enter the root");
    return change_root(err);
}

/* ---- the stage, once per engine ---- */

/* What masks show: a directory and a file with nothing in them. */
static int stage_void(struct cay_error *err)
{
    static const struct option options[] = {{"mode", "0555"}, {"size", "4k"}, {0}};
    struct mount_attr ro = {.attr_set = MOUNT_ATTR_RDONLY};
    CAY_AUTO_FD int fd = new_mount("tmpfs", options, NOTHING_SPECIAL | MOUNT_ATTR_NOEXEC, err);
    if (fd < 0)
        return fd;
    int file = openat(fd, "file", O_WRONLY | O_CREAT | O_CLOEXEC, 0444);
    bool made = file >= 0 && mkdirat(fd, "dir", 0555) == 0;
    cay_close_fd(&file); /* open for writing it would keep the mount from becoming read-only */
    if (!made || cay_mount_setattr(fd, "", AT_EMPTY_PATH, &ro) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot make what masks show");
    return place(fd, AT_FDCWD, CAY_STAGE_VOID, err);
}

/* /sys is what programs ask it for, and no more: the processors and memory nodes of the real one,
 * a few files as they were when we started, and every sandbox's limits. Made once, and read-only;
 * a sandbox's copy is two mounts. */
static const char *const sys_dirs[] = {
    "class",     "class/net",  "devices", "devices/system", "fs",
    "fs/cgroup", USUAL_LIMITS, "kernel",  "kernel/mm",      "kernel/mm/transparent_hugepage"};
static const char *const sys_files[] = {"kernel/mm/transparent_hugepage/enabled",
                                        "kernel/mm/transparent_hugepage/hpage_pmd_size"};

static int fill_sys_limits(int dir, struct cay_error *err)
{
    const struct limits usual = usual_limits();
    char path[128], to[64];
    int r = 0;
    for (size_t i = 0; r == 0 && i < CAY_COUNT(same_limits); i++) {
        snprintf(path, sizeof path, "fs/cgroup/%s", same_limits[i].name);
        r = write_text(dir, path, same_limits[i].text, err);
    }
    for (size_t i = 0; r == 0 && i < CAY_COUNT(own_limits); i++) {
        snprintf(path, sizeof path, "fs/cgroup/%s", own_limits[i]);
        snprintf(to, sizeof to, "/dev/" LIMITS "/%s", own_limits[i]);
        r = link_to(to, dir, path, err);
        snprintf(path, sizeof path, USUAL_LIMITS "/%s", own_limits[i]);
        if (r == 0)
            r = write_text(dir, path, usual.of[i], err);
    }
    return r;
}

static int fill_sys(int dir, int real, struct cay_error *err)
{
    char text[256];
    for (size_t i = 0; i < CAY_COUNT(sys_dirs); i++)
        if (mkdirat(dir, sys_dirs[i], 0755) < 0)
            return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot make /sys/%s", sys_dirs[i]);
    int r = fill_sys_limits(dir, err);
    for (size_t i = 0; r == 0 && i < CAY_COUNT(sys_files); i++) {
        CAY_AUTO_FD int from = openat(real, sys_files[i], O_RDONLY | O_CLOEXEC);
        ssize_t len = from < 0 ? 0 : read(from, text, sizeof text - 1);
        if (len <= 0)
            continue; /* this kernel has no such file */
        text[len] = 0;
        r = write_text(dir, sys_files[i], text, err);
    }
    return r;
}

/* A real one for the time of the copying, where roots are put later: a tree that is nowhere cannot
 * be cloned on kernels before 6.13. */
static int stage_sys(struct cay_error *err)
{
    static const struct option options[] = {{"mode", "0755"}, {"size", "1m"}, {0}};
    const unsigned closed = NOTHING_SPECIAL | MOUNT_ATTR_NOEXEC;
    struct mount_attr ro = {.attr_set = MOUNT_ATTR_RDONLY};
    CAY_AUTO_FD int fd = new_mount("tmpfs", options, closed, err);
    CAY_AUTO_FD int real = new_mount("sysfs", NULL, closed | MOUNT_ATTR_RDONLY, err);
    int r = fd < 0 || real < 0 ? err->code : place(real, AT_FDCWD, CAY_STAGE_ROOT, err);
    if (r == 0)
        r = fill_sys(fd, real, err);
    if (r < 0)
        return r;
    CAY_AUTO_FD int system = clone_tree(CAY_STAGE_ROOT "/devices/system", false, err);
    if (system < 0)
        return system;
    if (umount2(CAY_STAGE_ROOT, MNT_DETACH) < 0 ||
        cay_mount_setattr(fd, "", AT_EMPTY_PATH, &ro) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot finish /sys");
    r = place(fd, AT_FDCWD, CAY_STAGE_SYS, err);
    return r < 0 ? r : place(system, AT_FDCWD, CAY_STAGE_SYS "/devices/system", err);
}

static int bind_dir(int dir, const char *to, struct cay_error *err)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", dir);
    CAY_AUTO_FD int fd = clone_tree(path, false, err);
    return fd < 0 ? fd : place(fd, AT_FDCWD, to, err);
}

/* The stage becomes the engine's own root. Every sandbox copies this namespace and throws it away
 * again, so each mount of the host that is left out is won twice. What the engine still needs of
 * the host it has open. */
static int move_in(struct cay_error *err)
{
    CAY_AUTO_FD int proc = clone_tree("/proc", false, err);
    int r = proc < 0 ? proc : place(proc, AT_FDCWD, CAY_STAGE_PROC, err);
    return r < 0 ? r : change_root(err);
}

int cay_rootfs_stage(int engine_fd, int images_fd, int files_fd, struct cay_error *err)
{
    static const char *const dirs[] = {
        CAY_STAGE_IMAGES, CAY_STAGE_FILES, CAY_STAGE_SYS,  CAY_STAGE_VOID, CAY_STAGE_LOWER,
        CAY_STAGE_UPPER,  CAY_STAGE_ROOT,  CAY_STAGE_PROC, CAY_STAGE_DEV,  CAY_STAGE_BOX_PROC};
    static const struct option options[] = {{"mode", "0700"}, {"size", "1m"}, {0}};

    CAY_AUTO_FD int fd = new_mount("tmpfs", options, NOTHING_SPECIAL, err);
    int r = fd < 0 ? fd : place(fd, engine_fd, "stage", err);
    if (r < 0)
        return r;
    if (fchdir(engine_fd) < 0 || chdir("stage") < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot enter the stage");
    for (size_t i = 0; i < CAY_COUNT(dirs); i++)
        if (mkdir(dirs[i], 0755) < 0)
            return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot make %s on the stage", dirs[i]);
    r = bind_dir(images_fd, CAY_STAGE_IMAGES, err);
    if (r == 0)
        r = bind_dir(files_fd, CAY_STAGE_FILES, err);
    if (r == 0)
        r = stage_void(err);
    if (r == 0)
        r = stage_sys(err);
    return r < 0 ? r : move_in(err);
}
