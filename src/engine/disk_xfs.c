/* SPDX-License-Identifier: Apache-2.0 */
/* A disk on XFS: each tree is a directory that is a project of its own, and so is all that comes
 * into it. Only root on the host can change that: the kernel refuses it in any other user
 * namespace.
 *
 * The number of a project stands on its directory and nowhere else, so it goes where the tree goes,
 * under whatever name. It comes from a range that is ours (Docker counts from 1 upwards, Kubernetes
 * from 2^20), and is one that nothing on the filesystem belongs to, by the kernel's own count, in
 * which a tree's directory is one from the moment it has the number, and what was thrown away is
 * until the last of it is gone. Whoever looks for one holds a lock that is the machine's: several
 * servers may have their trees on one filesystem. The range is small because the kernel keeps a
 * place on the disk for every number that was ever used. */
#include "base/id.h"
#include "base/path.h"
#include "engine/disk.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/dqblk_xfs.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <linux/quota.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FIRST_PROJECT (1u << 30)
#define PROJECTS (1u << 18) /* 36 MB, when all have been used */
#define UNIT_BYTES 512      /* of what the kernel tells */
/* There may be as many files as blocks. One with anything in it takes a block, so only what is
 * empty meets this limit before that of bytes; what a file takes by being there is not counted as
 * bytes.
 */
#define BLOCK_BYTES 4096
#define TRASH "trash"
#define LOCK "/run/cay/projects"

/* As in xfs_fs.h, which is not among the kernel's own headers. */
struct geometry {
    uint32_t block_bytes, rt_extent, ag_blocks, ag_count, log_blocks, sector_bytes, inode_bytes,
        inode_percent;
    uint64_t blocks, rt_blocks, rt_extents, log_start;
    unsigned char uuid[16];
    uint32_t unit, width;
    int32_t version;
    uint32_t flags, log_sector_bytes, rt_sector_bytes, dir_block_bytes;
};
struct growth {
    uint64_t blocks;
    uint32_t inode_percent;
};
#define GET_GEOMETRY _IOR('X', 100, struct geometry)
#define GROW _IOW('X', 110, struct growth)

static int ask(const struct cay_disk *d, unsigned command, uint32_t project, void *data)
{
    return (int)syscall(SYS_quotactl_fd, d->fd, QCMD(command, PRJQUOTA), project, data);
}

/* ---- the filesystem ---- */

static int format(int engine_fd, const char *image, struct cay_error *err)
{
    /* Sectors as those of the loop device, which the file does not tell. */
    const char *const argv[] = {"mkfs.xfs",  "-q", "-K",        "-L",  "cay", "-s",
                                "size=4096", "-m", "reflink=1", image, NULL};
    return cay_disk_run(engine_fd, argv, "xfsprogs", err);
}

/* A directory that makes projects of what comes into it would let no tree be renamed there. */
static int free_dir(int dir)
{
    struct fsxattr attr;
    if (ioctl(dir, FS_IOC_FSGETXATTR, &attr) < 0)
        return -1;
    if (!(attr.fsx_xflags & FS_XFLAG_PROJINHERIT))
        return 0;
    attr.fsx_xflags &= ~(uint32_t)FS_XFLAG_PROJINHERIT;
    return ioctl(dir, FS_IOC_FSSETXATTR, &attr);
}

static int open_quota(struct cay_disk *d, struct cay_error *err)
{
    struct fs_quota_stat stat = {.qs_version = FS_QSTAT_VERSION};
    unsigned wanted = FS_QUOTA_PDQ_ACCT | FS_QUOTA_PDQ_ENFD;
    if (ask(d, Q_XGETQSTAT, 0, &stat) < 0 || (stat.qs_flags & wanted) != wanted)
        return cay_fail(err, CAY_ERR_UNSUPPORTED,
                        "XFS is mounted without project quotas (prjquota) here");
    int r = cay_path_open_dir(d->fd, TRASH, 0700, &d->trash_fd, err);
    if (r < 0)
        return r;
    if (free_dir(d->fd) < 0 || free_dir(d->trash_fd) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot prepare the disk");
    (void)mkdir("/run/cay", 0755); /* exists already, or open below tells */
    d->lock_fd = open(LOCK, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    return d->lock_fd < 0 ? cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot open " LOCK) : 0;
}

static int adapt(const struct cay_disk *d, struct cay_error *err)
{
    struct geometry now;
    struct stat st;
    if (fstat(d->image_fd, &st) < 0 || ioctl(d->fd, GET_GEOMETRY, &now) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot look at the disk");
    struct growth next = {(uint64_t)st.st_size / now.block_bytes, now.inode_percent};
    if (next.blocks > now.blocks && ioctl(d->fd, GROW, &next) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot grow the disk");
    return 0;
}

/* ---- projects ---- */

static int open_tree(const struct cay_disk *d, const char *id)
{
    return openat(d->fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Of a tree; 0 when it has none of ours. */
static uint32_t project_of(int tree)
{
    struct fsxattr attr;
    if (tree < 0 || ioctl(tree, FS_IOC_FSGETXATTR, &attr) < 0)
        return 0;
    bool ours = attr.fsx_xflags & FS_XFLAG_PROJINHERIT &&
                attr.fsx_projid - FIRST_PROJECT < PROJECTS; /* wraps below */
    return ours ? attr.fsx_projid : 0;
}

static int find_unused(const struct cay_disk *d, uint32_t *out, struct cay_error *err)
{
    static uint32_t next;
    if (!next)
        (void)getrandom(&next, sizeof next, 0); /* each process begins elsewhere */
    for (uint32_t i = 0; i < PROJECTS; i++) {
        struct fs_disk_quota quota = {0};
        uint32_t project = FIRST_PROJECT + next++ % PROJECTS;
        int r = ask(d, Q_XGETQUOTA, project, &quota);
        if (r < 0 && errno != ENOENT)
            return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot look for a free quota");
        if (r < 0 || quota.d_icount == 0) {
            *out = project;
            return 0;
        }
    }
    return cay_fail(err, CAY_ERR_LIMIT, "there are as many trees as quotas");
}

/* Before there is anything in it: what is there already would stay outside. */
static int assign(const struct cay_disk *d, int tree, struct cay_error *err)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    struct fsxattr attr;
    uint32_t project = 0;
    if (ioctl(tree, FS_IOC_FSGETXATTR, &attr) < 0 || fcntl(d->lock_fd, F_SETLKW, &lock) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot hold " LOCK);
    int r = find_unused(d, &project, err);
    if (r == 0) {
        attr.fsx_projid = project;
        attr.fsx_xflags |= FS_XFLAG_PROJINHERIT;
        if (ioctl(tree, FS_IOC_FSSETXATTR, &attr) < 0)
            r = cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot give a directory a quota");
    }
    lock.l_type = F_UNLCK;
    (void)fcntl(d->lock_fd, F_SETLK, &lock); /* of our own lock, which we have */
    return r;
}

static int set_limit(const struct cay_disk *d, int tree, uint64_t bytes)
{
    uint32_t project = project_of(tree);
    /* In whole blocks, because the kernel would make them of it by rounding up. */
    uint64_t blocks = bytes == CAY_DISK_NO_LIMIT ? 0 : bytes / BLOCK_BYTES;
    struct fs_disk_quota quota = {.d_version = FS_DQUOT_VERSION,
                                  .d_flags = FS_PROJ_QUOTA,
                                  .d_fieldmask = FS_DQ_BHARD | FS_DQ_IHARD,
                                  .d_id = project,
                                  .d_blk_hardlimit = blocks * (BLOCK_BYTES / UNIT_BYTES),
                                  .d_ino_hardlimit = blocks};
    if (project == 0) {
        errno = ESRCH;
        return -1;
    }
    return ask(d, Q_XSETQLIM, project, &quota);
}

/* ---- one tree ---- */

static int limit(const struct cay_disk *d, const char *id, uint64_t bytes, struct cay_error *err)
{
    CAY_AUTO_FD int tree = open_tree(d, id);
    if (tree < 0 ||
        set_limit(d, tree, bytes > CAY_DISK_LEAST_BYTES ? bytes : CAY_DISK_LEAST_BYTES) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot limit the disk of %s", id);
    return 0;
}

static int make(const struct cay_disk *d, const char *id, uint64_t bytes, struct cay_error *err)
{
    if (mkdirat(d->fd, id, 0700) < 0 && errno != EEXIST)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot make the disk of %s", id);
    CAY_AUTO_FD int tree = open_tree(d, id);
    if (tree < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot open the disk of %s", id);
    int r = project_of(tree) ? 0 : assign(d, tree, err);
    return r < 0 ? r : limit(d, id, bytes, err);
}

/* The limit first: by it a number would be known for ever. */
static int remove_tree(const struct cay_disk *d, const char *id, struct cay_error *err)
{
    char suffix[17], to[80];
    CAY_AUTO_FD int tree = open_tree(d, id);
    if (tree < 0 && errno == ENOENT)
        return 0;
    if (tree < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot open the disk of %s", id);
    (void)set_limit(d, tree, CAY_DISK_NO_LIMIT); /* it may have none */
    cay_id_hex(suffix, 16);
    snprintf(to, sizeof to, "%.48s.%s", id, suffix);
    if (renameat(d->fd, id, d->trash_fd, to) < 0 && errno != ENOENT)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot move %s to the trash", id);
    return 0;
}

static bool usage(const struct cay_disk *d, const char *id, uint64_t *used_out, uint64_t *limit_out)
{
    struct fs_disk_quota quota = {0};
    CAY_AUTO_FD int tree = open_tree(d, id);
    uint32_t project = project_of(tree);
    if (project == 0 || ask(d, Q_XGETQUOTA, project, &quota) < 0)
        return false;
    *used_out = quota.d_bcount * UNIT_BYTES;
    *limit_out = quota.d_blk_hardlimit * UNIT_BYTES;
    return true;
}

const struct cay_disk_ops cay_disk_xfs = {
    .kind = "xfs",
    .image_kind = "loop-xfs",
    .filesystem = "xfs",
    .magic = XFS_SUPER_MAGIC,
    .feature = "/proc/fs/xfs/xqmstat",
    .lack = "XFS has no quotas in this kernel",
    .mark = {0, "XFSB"},
    .options = {{"prjquota", NULL}},
    .format = format,
    .open = open_quota,
    .adapt = adapt,
    .make = make,
    .limit = limit,
    .remove = remove_tree,
    .usage = usage,
};
