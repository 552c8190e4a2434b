/* SPDX-License-Identifier: Apache-2.0 */
/* A disk on btrfs: each tree is a subvolume with a simple quota, and copied as it is at one moment.
 */
#include "base/str.h"
#include "engine/disk.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/btrfs.h>
#include <linux/btrfs_tree.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define BTRFS_MARK "_BHRfS_M" /* of its superblock */
#define LACK "btrfs here has no simple quotas (Linux 6.7 or newer has)"
#define COMMIT_S "5" /* as ext4's; also how soon what was deleted is free again */
/* Of the filesystem's trees. Each sandbox's disk has one of its own, which lies in memory and is
 * seldom larger than this. */
#define NODE_BYTES 8192

#ifndef BTRFS_QUOTA_CTL_ENABLE_SIMPLE_QUOTA
#define BTRFS_QUOTA_CTL_ENABLE_SIMPLE_QUOTA 4 /* Linux 6.7 */
#endif

/* ---- the filesystem ---- */

static int format(int engine_fd, const char *image, struct cay_error *err)
{
    char node[24];
    long page = sysconf(_SC_PAGESIZE); /* none may be smaller */
    snprintf(node, sizeof node, "%ld", page > NODE_BYTES ? page : NODE_BYTES);
    const char *const argv[] = {"mkfs.btrfs", "-q",     "-K", "-L", "cay", "-m", "single",
                                "-d",         "single", "-n", node, image, NULL};
    return cay_disk_run(engine_fd, argv, "btrfs-progs", err);
}

static int enable_quota(const struct cay_disk *d, struct cay_error *err)
{
    struct btrfs_ioctl_quota_ctl_args args = {.cmd = BTRFS_QUOTA_CTL_ENABLE_SIMPLE_QUOTA};
    if (ioctl(d->fd, BTRFS_IOC_QUOTA_CTL, &args) < 0 && errno != EEXIST)
        return cay_fail_errno(err, CAY_ERR_UNSUPPORTED, LACK);
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

static int open_quota(struct cay_disk *d, struct cay_error *err)
{
    int r = enable_quota(d, err);
    if (r == 0)
        open_groups(d);
    return r;
}

static int adapt(const struct cay_disk *d, struct cay_error *err)
{
    struct btrfs_ioctl_vol_args args = {.name = "max"};
    if (ioctl(d->fd, BTRFS_IOC_RESIZE, &args) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot grow the disk");
    return 0;
}

/* ---- one tree ---- */

static int open_tree(const struct cay_disk *d, const char *id)
{
    return openat(d->fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static uint64_t read_number(int dir, const char *path)
{
    char text[32] = "";
    CAY_AUTO_FD int fd = dir < 0 ? -1 : openat(dir, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    return n > 0 ? strtoull(text, NULL, 10) : 0;
}

/* Bytes that a copy began with; 0 for a tree that is none. */
static uint64_t inherited_bytes(int tree_fd)
{
    return read_number(tree_fd, CAY_DISK_INHERITED);
}

static int limit(const struct cay_disk *d, const char *id, uint64_t bytes, struct cay_error *err)
{
    struct btrfs_ioctl_qgroup_limit_args args = {
        .lim = {.flags = BTRFS_QGROUP_LIMIT_MAX_RFER, .max_rfer = bytes}};
    CAY_AUTO_FD int fd = open_tree(d, id);
    uint64_t inherited = inherited_bytes(fd);
    if (bytes != CAY_DISK_NO_LIMIT)
        args.lim.max_rfer =
            bytes > inherited + CAY_DISK_LEAST_BYTES ? bytes - inherited : CAY_DISK_LEAST_BYTES;
    /* Without a qgroup named it is that of the subvolume itself. */
    if (fd < 0 || ioctl(fd, BTRFS_IOC_QGROUP_LIMIT, &args) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot limit the disk of %s", id);
    return 0;
}

static int make(const struct cay_disk *d, const char *id, uint64_t bytes, struct cay_error *err)
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
        return limit(d, id, bytes, err);
    return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot make the disk of %s", id);
}

static int snapshot(const struct cay_disk *d, int from_fd, const char *name, struct cay_error *err)
{
    struct btrfs_ioctl_vol_args_v2 args = {.fd = from_fd};
    cay_str_copy(args.name, sizeof args.name, name);
    if (ioctl(d->fd, BTRFS_IOC_SNAP_CREATE_V2, &args) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot make a snapshot");
    return 0;
}

static int remove_tree(const struct cay_disk *d, const char *id, struct cay_error *err)
{
    struct btrfs_ioctl_vol_args args = {0};
    cay_str_copy(args.name, sizeof args.name, id);
    if (ioctl(d->fd, BTRFS_IOC_SNAP_DESTROY, &args) < 0 && errno != ENOENT)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot remove the disk of %s", id);
    return 0;
}

static uint64_t group_number(const struct cay_disk *d, uint64_t subvolume, const char *name)
{
    char path[64];
    snprintf(path, sizeof path, "0_%llu/%s", (unsigned long long)subvolume, name);
    return read_number(d->groups_fd, path);
}

static bool usage(const struct cay_disk *d, const char *id, uint64_t *used_out, uint64_t *limit_out)
{
    struct btrfs_ioctl_ino_lookup_args own = {.objectid = BTRFS_FIRST_FREE_OBJECTID};
    CAY_AUTO_FD int fd = open_tree(d, id);
    if (fd < 0 || d->groups_fd < 0 || ioctl(fd, BTRFS_IOC_INO_LOOKUP, &own) < 0)
        return false;
    uint64_t inherited = inherited_bytes(fd);
    uint64_t most = group_number(d, own.treeid, "max_referenced");
    /* What is written but not yet placed on the disk is reserved. */
    *used_out = inherited + group_number(d, own.treeid, "referenced") +
                group_number(d, own.treeid, "rsv_data");
    *limit_out = most ? inherited + most : 0;
    return true;
}

/* ---- what is left over ---- */

static bool is_gone(const struct cay_disk *d, uint64_t subvolume)
{
    struct btrfs_ioctl_ino_lookup_args root = {.treeid = subvolume,
                                               .objectid = BTRFS_FIRST_FREE_OBJECTID};
    return ioctl(d->fd, BTRFS_IOC_INO_LOOKUP, &root) < 0 && errno == ENOENT;
}

/* Quota groups whose subvolume is gone: kernels before 6.11 leave them. */
static void sweep(const struct cay_disk *d)
{
    struct btrfs_ioctl_search_args args = {
        .key = {.tree_id = BTRFS_QUOTA_TREE_OBJECTID,
                .min_type = BTRFS_QGROUP_INFO_KEY,
                .max_type = BTRFS_QGROUP_INFO_KEY,
                .min_offset = BTRFS_FIRST_FREE_OBJECTID,
                .max_offset = (1ULL << 48) - 1, /* level 0: subvolumes' own */
                .max_transid = UINT64_MAX,
                .nr_items = 4096}};
    while (ioctl(d->fd, BTRFS_IOC_TREE_SEARCH, &args) == 0 && args.key.nr_items > 0) {
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

const struct cay_disk_ops cay_disk_btrfs = {
    .kind = "btrfs",
    .image_kind = "loop-btrfs",
    .filesystem = "btrfs",
    .magic = BTRFS_SUPER_MAGIC,
    .feature = "/sys/fs/btrfs/features/simple_quota",
    .lack = LACK,
    .mark = {0x10040, BTRFS_MARK},
    /* With discard the kernel would punch holes into the image, and it would be sparse. */
    .options = {{"nodiscard", NULL}, {"commit", COMMIT_S}},
    .format = format,
    .open = open_quota,
    .adapt = adapt,
    .make = make,
    .limit = limit,
    .snapshot = snapshot,
    .remove = remove_tree,
    .usage = usage,
    .sweep = sweep,
    .inline_bytes = 2048, /* as it is mounted by default */
};
