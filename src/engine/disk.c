/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/disk.h"
#include "base/id.h"
#include "base/log.h"
#include "base/path.h"
#include "base/str.h"
#include "engine/loop.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/btrfs.h>
#include <linux/btrfs_tree.h>
#include <linux/loop.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>

#define MIB (1ULL << 20)
#define GIB (1ULL << 30)
#define COMMIT_S "5" /* as ext4's; also how soon what was deleted is free again */
#define IMAGE "disk.img"
#define IMAGE_NEW "disk.img.new"
/* Of the filesystem's trees. Each sandbox's disk has one of its own, which lies in memory and is
 * seldom larger than this. */
#define NODE_BYTES 8192
#define MIN_IMAGE_BYTES (512 * MIB)
#define FIRST_IMAGE_BYTES (8 * GIB)
#define MIN_STEP_BYTES (1 * GIB)
#define MAX_STEP_BYTES (16 * GIB)
#define FLOOR_BYTES (16 * MIB)       /* below it nothing new is made */
#define HOST_RESERVE_BYTES (2 * GIB) /* the host keeps so much, and a step more */

#ifndef BTRFS_QUOTA_CTL_ENABLE_SIMPLE_QUOTA
#define BTRFS_QUOTA_CTL_ENABLE_SIMPLE_QUOTA 4 /* Linux 6.7 */
#endif

/* ---- rules of growth ---- */

uint64_t cay_disk_first_bytes(uint64_t host_free_bytes)
{
    uint64_t size = host_free_bytes / 4 / MIB * MIB;
    if (size < MIN_IMAGE_BYTES)
        return 0;
    return size > FIRST_IMAGE_BYTES ? FIRST_IMAGE_BYTES : size;
}

uint64_t cay_disk_step_bytes(uint64_t size_bytes, uint64_t inside_free_bytes,
                             uint64_t host_free_bytes)
{
    uint64_t most = (size_bytes + host_free_bytes) / 5 * 4;
    uint64_t step = size_bytes / 2 / MIB * MIB;
    if (inside_free_bytes >= size_bytes / 4 && inside_free_bytes >= 2 * GIB)
        return 0;
    if (step > MAX_STEP_BYTES)
        step = MAX_STEP_BYTES;
    if (step < MIN_STEP_BYTES)
        step = MIN_STEP_BYTES;
    while (step > MIN_STEP_BYTES &&
           (host_free_bytes < 2 * step + HOST_RESERVE_BYTES || size_bytes + step > most))
        step = step / 2 < MIN_STEP_BYTES ? MIN_STEP_BYTES : step / 2;
    bool fits = host_free_bytes >= 2 * step + HOST_RESERVE_BYTES && size_bytes + step <= most;
    return fits ? step : 0;
}

uint64_t cay_disk_reach_bytes(uint64_t size_bytes, uint64_t host_free_bytes)
{
    uint64_t reach = 0, step;
    while ((step = cay_disk_step_bytes(size_bytes + reach, 0, host_free_bytes - reach)) > 0)
        reach += step;
    return reach;
}

/* For us alone, as root may use what is reserved for root: the smaller figure. */
static uint64_t free_bytes(int fd)
{
    struct statfs fs;
    return fstatfs(fd, &fs) < 0 ? 0 : (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize;
}

static bool is_on(int fd, unsigned long magic)
{
    struct statfs fs;
    return fstatfs(fd, &fs) == 0 && (unsigned long)fs.f_type == magic;
}

/* ---- the image ---- */

static int run_mkfs(int engine_fd, struct cay_error *err)
{
    int status = 0;
    char node[24];
    long page = sysconf(_SC_PAGESIZE); /* none may be smaller */
    snprintf(node, sizeof node, "%ld", page > NODE_BYTES ? page : NODE_BYTES);
    pid_t pid = fork();
    if (pid == 0) {
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (fchdir(engine_fd) < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0)
            _exit(126);
        (void)setenv("PATH", "/usr/sbin:/sbin:/usr/bin:/bin", 1);
        execlp("mkfs.btrfs", "mkfs.btrfs", "-q", "-K", "-L", "cay", "-m", "single", "-d", "single",
               "-n", node, IMAGE_NEW, (char *)NULL);
        _exit(errno == ENOENT ? 127 : 126);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot run mkfs.btrfs");
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
        return cay_fail(err, CAY_ERR_UNSUPPORTED, "mkfs.btrfs is not installed (btrfs-progs)");
    return status == 0 ? 0
                       : cay_fail(err, CAY_ERR_PROVIDER, "mkfs.btrfs failed: status %d", status);
}

/* Under another name until it is whole. */
static int make_image(int engine_fd, struct cay_error *err)
{
    uint64_t size = cay_disk_first_bytes(free_bytes(engine_fd));
    if (is_on(engine_fd, TMPFS_MAGIC))
        return cay_fail(err, CAY_ERR_UNSUPPORTED, "the data directory is in memory");
    if (size == 0)
        return cay_fail(err, CAY_ERR_UNSUPPORTED,
                        "the data directory's filesystem has less than 2 GiB left");
    (void)unlinkat(engine_fd, IMAGE_NEW, 0); /* of an engine that died here */
    CAY_AUTO_FD int fd = openat(engine_fd, IMAGE_NEW, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot make " IMAGE_NEW);
    int r = 0;
    if (fallocate(fd, 0, 0, (off_t)size) < 0)
        r = cay_fail_errno(err, CAY_ERR_UNSUPPORTED, "cannot reserve %llu MiB for the disk image",
                           (unsigned long long)(size / MIB));
    if (r == 0)
        r = run_mkfs(engine_fd, err);
    if (r == 0 && (fsync(fd) < 0 || renameat(engine_fd, IMAGE_NEW, engine_fd, IMAGE) < 0 ||
                   fsync(engine_fd) < 0))
        r = cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot finish the disk image");
    if (r < 0)
        (void)unlinkat(engine_fd, IMAGE_NEW, 0); /* the next start removes it as well */
    return r;
}

/* No discard: the kernel would punch holes into the image, and it would be sparse. */
static int mount_image(int engine_fd, const char *device, struct cay_error *err)
{
    CAY_AUTO_FD int fs = fsopen("btrfs", FSOPEN_CLOEXEC);
    if (fs < 0)
        return cay_fail_errno(err, CAY_ERR_UNSUPPORTED, "this kernel has no btrfs");
    if (fsconfig(fs, FSCONFIG_SET_STRING, "source", device, 0) < 0 ||
        fsconfig(fs, FSCONFIG_SET_FLAG, "nodiscard", NULL, 0) < 0 ||
        fsconfig(fs, FSCONFIG_SET_STRING, "commit", COMMIT_S, 0) < 0 ||
        fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot mount the disk image");
    CAY_AUTO_FD int fd =
        fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOATIME);
    if (fd < 0 || move_mount(fd, "", engine_fd, "disk", MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot mount the disk image");
    return 0;
}

/* An earlier engine may have died between growing the file and what is in it. */
static int adapt(const struct cay_disk *d, struct cay_error *err)
{
    struct btrfs_ioctl_vol_args args = {.name = "max"};
    if (ioctl(d->loop_fd, LOOP_SET_CAPACITY) < 0 || ioctl(d->fd, BTRFS_IOC_RESIZE, &args) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot grow the disk");
    return 0;
}

static int open_image(struct cay_disk *d, int engine_fd, struct cay_error *err)
{
    char device[64];
    d->image_fd = openat(engine_fd, IMAGE, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (d->image_fd < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot open " IMAGE);
    int r = cay_loop_attach(d->image_fd, &d->loop_fd, device, sizeof device, err);
    if (r == 0)
        r = mount_image(engine_fd, device, err);
    if (r == 0)
        r = cay_path_open_dir(engine_fd, "disk", 0700, &d->fd, err);
    if (r == 0)
        (void)fchmod(d->fd, 0700); /* nobody else sees it anyway */
    return r < 0 ? r : adapt(d, err);
}

uint64_t cay_disk_room(const struct cay_disk *d, int files_fd)
{
    struct stat st;
    uint64_t room = free_bytes(files_fd);
    if (d->loop_fd >= 0 && fstat(d->image_fd, &st) == 0)
        room += cay_disk_reach_bytes((uint64_t)st.st_size, free_bytes(d->image_fd));
    return room;
}

int cay_disk_check(int files_fd, int records_fd, struct cay_error *err)
{
    if (free_bytes(files_fd) < FLOOR_BYTES)
        return cay_fail(err, CAY_ERR_HOST_FULL, "the disk of the sandboxes is full");
    if (free_bytes(records_fd) < FLOOR_BYTES)
        return cay_fail(err, CAY_ERR_HOST_FULL, "the disk of the data directory is full");
    return 0;
}

uint64_t cay_disk_wants(const struct cay_disk *d)
{
    struct stat st;
    if (d->loop_fd < 0 || fstat(d->image_fd, &st) < 0)
        return 0;
    return cay_disk_step_bytes((uint64_t)st.st_size, free_bytes(d->fd), free_bytes(d->image_fd));
}

int cay_disk_grow(const struct cay_disk *d, uint64_t step_bytes, struct cay_error *err)
{
    struct stat st;
    if (fstat(d->image_fd, &st) < 0 ||
        fallocate(d->image_fd, 0, st.st_size, (off_t)step_bytes) < 0 || fsync(d->image_fd) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot grow the disk image");
    return adapt(d, err);
}

/* ---- one sandbox ---- */

int cay_disk_limit(const struct cay_disk *d, const char *id, uint64_t bytes, struct cay_error *err)
{
    struct btrfs_ioctl_qgroup_limit_args args = {
        .lim = {.flags = BTRFS_QGROUP_LIMIT_MAX_RFER, .max_rfer = bytes}};
    CAY_AUTO_FD int fd = openat(d->fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    /* Without a qgroup named it is that of the subvolume itself. */
    if (fd < 0 || ioctl(fd, BTRFS_IOC_QGROUP_LIMIT, &args) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot limit the disk of %s", id);
    return 0;
}

int cay_disk_make(const struct cay_disk *d, const char *id, uint64_t bytes, struct cay_error *err)
{
    struct btrfs_qgroup_inherit inherit = {
        .flags = BTRFS_QGROUP_INHERIT_SET_LIMITS,
        .lim = {.flags = BTRFS_QGROUP_LIMIT_MAX_RFER, .max_rfer = bytes}};
    struct btrfs_ioctl_vol_args_v2 args = {
        .flags = BTRFS_SUBVOL_QGROUP_INHERIT, .size = sizeof inherit, .qgroup_inherit = &inherit};
    cay_str_copy(args.name, sizeof args.name, id);
    if (ioctl(d->fd, BTRFS_IOC_SUBVOL_CREATE_V2, &args) == 0)
        return 0;
    if (errno == EEXIST)
        return cay_disk_limit(d, id, bytes, err);
    return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot make the disk of %s", id);
}

int cay_disk_snapshot(const struct cay_disk *d, int from_fd, const char *name,
                      struct cay_error *err)
{
    struct btrfs_ioctl_vol_args_v2 args = {.fd = from_fd};
    cay_str_copy(args.name, sizeof args.name, name);
    if (ioctl(d->fd, BTRFS_IOC_SNAP_CREATE_V2, &args) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot make a snapshot");
    return 0;
}

int cay_disk_remove(const struct cay_disk *d, const char *id, struct cay_error *err)
{
    struct btrfs_ioctl_vol_args args = {0};
    cay_str_copy(args.name, sizeof args.name, id);
    if (ioctl(d->fd, BTRFS_IOC_SNAP_DESTROY, &args) < 0 && errno != ENOENT)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot remove the disk of %s", id);
    return 0;
}

/* ---- what a sandbox takes ---- */

static uint64_t read_number(int dir, const char *path)
{
    char text[32] = "";
    CAY_AUTO_FD int fd = dir < 0 ? -1 : openat(dir, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    return n > 0 ? strtoull(text, NULL, 10) : 0;
}

uint64_t cay_disk_inherited(int tree_fd)
{
    return read_number(tree_fd, CAY_DISK_INHERITED);
}

static uint64_t group_number(const struct cay_disk *d, uint64_t subvolume, const char *name)
{
    char path[64];
    snprintf(path, sizeof path, "0_%llu/%s", (unsigned long long)subvolume, name);
    return read_number(d->groups_fd, path);
}

bool cay_disk_usage(const struct cay_disk *d, const char *id, uint64_t *used_out,
                    uint64_t *limit_out)
{
    struct btrfs_ioctl_ino_lookup_args own = {.objectid = BTRFS_FIRST_FREE_OBJECTID};
    CAY_AUTO_FD int fd =
        d->fd < 0 ? -1 : openat(d->fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || d->groups_fd < 0 || ioctl(fd, BTRFS_IOC_INO_LOOKUP, &own) < 0)
        return false;
    uint64_t inherited = cay_disk_inherited(fd);
    uint64_t limit = group_number(d, own.treeid, "max_referenced");
    /* What is written but not yet placed on the disk is reserved. */
    *used_out = inherited + group_number(d, own.treeid, "referenced") +
                group_number(d, own.treeid, "rsv_data");
    *limit_out = limit ? inherited + limit : 0;
    return true;
}

/* ---- what is left over ---- */

static bool is_gone(const struct cay_disk *d, uint64_t subvolume)
{
    struct btrfs_ioctl_ino_lookup_args root = {.treeid = subvolume,
                                               .objectid = BTRFS_FIRST_FREE_OBJECTID};
    return ioctl(d->fd, BTRFS_IOC_INO_LOOKUP, &root) < 0 && errno == ENOENT;
}

void cay_disk_sweep(const struct cay_disk *d)
{
    struct btrfs_ioctl_search_args args = {
        .key = {.tree_id = BTRFS_QUOTA_TREE_OBJECTID,
                .min_type = BTRFS_QGROUP_INFO_KEY,
                .max_type = BTRFS_QGROUP_INFO_KEY,
                .min_offset = BTRFS_FIRST_FREE_OBJECTID,
                .max_offset = (1ULL << 48) - 1, /* level 0: subvolumes' own */
                .max_transid = UINT64_MAX,
                .nr_items = 4096}};
    while (d->fd >= 0 && ioctl(d->fd, BTRFS_IOC_TREE_SEARCH, &args) == 0 && args.key.nr_items > 0) {
        const char *at = args.buf;
        bool settled = false;
        struct btrfs_ioctl_search_header h = {0};
        for (uint32_t i = 0; i < args.key.nr_items; i++, at += sizeof h + h.len) {
            struct btrfs_qgroup_info_item info = {0};
            memcpy(&h, at, sizeof h);
            memcpy(&info, at + sizeof h, h.len < sizeof info ? h.len : sizeof info);
            /* A copy still holds some of its bytes, and they are counted here until it goes. Not
             * every kernel refuses to remove it then, and later fails to count them back. */
            if (info.rfer)
                continue;
            struct btrfs_ioctl_qgroup_create_args gone = {.create = 0, .qgroupid = h.offset};
            if (!is_gone(d, h.offset))
                continue;
            /* Or it is just being made, and would be left without its limit: the group comes first,
             * in the same transaction, whose end is waited for. */
            if (!settled)
                (void)ioctl(d->fd, BTRFS_IOC_SYNC); /* where it fails nothing is written any more */
            settled = true;
            if (is_gone(d, h.offset))
                (void)ioctl(d->fd, BTRFS_IOC_QGROUP_CREATE, &gone); /* still counted: next time */
        }
        args.key.min_offset = h.offset + 1;
        args.key.nr_items = 4096;
    }
}

/* ---- opening ---- */

/* What was made without a disk has its files in a plain directory, and could not be started from
 * here. */
static bool has_sandboxes(int files_fd)
{
    bool found = false;
    int fd = openat(files_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    for (struct dirent *e; !found && dir && (e = readdir(dir));)
        found = cay_id_is_sandbox(e->d_name) || cay_id_is_snapshot(e->d_name) ||
                cay_id_is_volume(e->d_name);
    if (dir)
        closedir(dir);
    return found;
}

static int enable_quota(const struct cay_disk *d, struct cay_error *err)
{
    struct btrfs_ioctl_quota_ctl_args args = {.cmd = BTRFS_QUOTA_CTL_ENABLE_SIMPLE_QUOTA};
    if (ioctl(d->fd, BTRFS_IOC_QUOTA_CTL, &args) < 0 && errno != EEXIST)
        return cay_fail_errno(err, CAY_ERR_UNSUPPORTED,
                              "btrfs here has no simple quotas (Linux 6.7 or newer has)");
    return 0;
}

/* By name, so before the engine leaves the host's root. */
static void open_groups(struct cay_disk *d)
{
    struct btrfs_ioctl_fs_info_args fs;
    char path[80] = "/sys/fs/btrfs/";
    if (ioctl(d->fd, BTRFS_IOC_FS_INFO, &fs) < 0)
        return;
    size_t len = strlen(path);
    for (size_t i = 0; i < sizeof fs.fsid; i++)
        len += (size_t)snprintf(path + len, sizeof path - len, "%s%02x",
                                i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", fs.fsid[i]);
    cay_str_copy(path + len, sizeof path - len, "/qgroups");
    d->groups_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static void give_up(struct cay_disk *d)
{
    cay_close_fd(&d->fd);
    cay_close_fd(&d->loop_fd);
    cay_close_fd(&d->image_fd);
    d->kind = "none";
    cay_log_warn("no disk limit: %s%s%s", d->none.msg, *d->none.cause ? ": " : "", d->none.cause);
}

static int open_any(struct cay_disk *d, int engine_fd, bool *had_image)
{
    *had_image = faccessat(engine_fd, IMAGE, F_OK, 0) == 0;
    if (mkdirat(engine_fd, "disk", 0700) < 0 && errno != EEXIST)
        return cay_fail_errno(&d->none, CAY_ERR_PROVIDER, "cannot make engine/disk");
    if (!*had_image && is_on(engine_fd, BTRFS_SUPER_MAGIC)) {
        d->kind = "btrfs";
        return cay_path_open_dir(engine_fd, "disk", 0700, &d->fd, &d->none);
    }
    d->kind = "loop-btrfs";
    int r = *had_image ? 0 : make_image(engine_fd, &d->none);
    return r < 0 ? r : open_image(d, engine_fd, &d->none);
}

int cay_disk_open(struct cay_disk *d, int engine_fd, int *files_fd, struct cay_error *err)
{
    bool had_image;
    *d =
        (struct cay_disk){.kind = "none", .fd = -1, .image_fd = -1, .loop_fd = -1, .groups_fd = -1};
    if (faccessat(engine_fd, IMAGE, F_OK, 0) < 0 && has_sandboxes(*files_fd)) {
        cay_fail(&d->none, CAY_ERR_CONFLICT, "sandboxes made without a disk limit are still there");
        give_up(d);
        return 0;
    }
    int r = open_any(d, engine_fd, &had_image);
    if (r == 0)
        r = enable_quota(d, &d->none);
    if (r < 0 && had_image) {
        *err = d->none;
        return cay_wrap(err, "the sandboxes' disk image cannot be used");
    }
    if (r < 0) {
        /* Left there it would be taken for one with sandboxes in it. The mount goes with the host's
         * root. */
        (void)unlinkat(engine_fd, IMAGE, 0);
        give_up(d);
        return 0;
    }
    cay_close_fd(files_fd);
    *files_fd = fcntl(d->fd, F_DUPFD_CLOEXEC, 0);
    if (*files_fd < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot open the sandboxes' disk");
    open_groups(d);
    cay_disk_sweep(d);
    return 0;
}
