/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/disk.h"
#include "base/id.h"
#include "base/log.h"
#include "base/path.h"
#include "engine/loop.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
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
#define IMAGE "disk.img"
#define IMAGE_NEW "disk.img.new"
#define MIN_IMAGE_BYTES (512 * MIB)
#define FIRST_IMAGE_BYTES (8 * GIB)
#define MIN_STEP_BYTES (1 * GIB)
#define MAX_STEP_BYTES (16 * GIB)
#define FLOOR_BYTES (16 * MIB)       /* below it nothing new is made */
#define HOST_RESERVE_BYTES (2 * GIB) /* the host keeps so much, and a step more */

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

int cay_disk_run(int engine_fd, const char *const argv[], const char *package,
                 struct cay_error *err)
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (fchdir(engine_fd) < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0)
            _exit(126);
        (void)setenv("PATH", "/usr/sbin:/sbin:/usr/bin:/bin", 1);
        execvp(argv[0], (char *const *)argv);
        _exit(errno == ENOENT ? 127 : 126);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot run %s", argv[0]);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
        return cay_fail(err, CAY_ERR_UNSUPPORTED, "%s is not installed (%s)", argv[0], package);
    return status == 0 ? 0
                       : cay_fail(err, CAY_ERR_PROVIDER, "%s failed: status %d", argv[0], status);
}

/* btrfs would write elsewhere than where it has reserved; other filesystems need no such thing. */
static void write_in_place(int fd)
{
    int flags = 0;
    if (ioctl(fd, FS_IOC_GETFLAGS, &flags) < 0)
        return;
    flags |= FS_NOCOW_FL;
    (void)ioctl(fd, FS_IOC_SETFLAGS, &flags); /* see above */
}

/* Under another name until it is whole. */
static int make_image(const struct cay_disk_ops *ops, int engine_fd, struct cay_error *err)
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
    write_in_place(fd);
    if (fallocate(fd, 0, 0, (off_t)size) < 0)
        r = cay_fail_errno(err, CAY_ERR_UNSUPPORTED, "cannot reserve %llu MiB for the disk image",
                           (unsigned long long)(size / MIB));
    if (r == 0)
        r = ops->format(engine_fd, IMAGE_NEW, err);
    if (r == 0 && (fsync(fd) < 0 || renameat(engine_fd, IMAGE_NEW, engine_fd, IMAGE) < 0 ||
                   fsync(engine_fd) < 0))
        r = cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot finish the disk image");
    if (r < 0)
        (void)unlinkat(engine_fd, IMAGE_NEW, 0); /* the next start removes it as well */
    return r;
}

static int configure(const struct cay_disk_ops *ops, int fs, const char *device)
{
    int r = fsconfig(fs, FSCONFIG_SET_STRING, "source", device, 0);
    for (size_t i = 0; r == 0 && ops->options[i].key; i++) {
        const char *value = ops->options[i].value;
        unsigned how = value ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG;
        r = fsconfig(fs, how, ops->options[i].key, value, 0);
    }
    return r < 0 ? r : fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0);
}

/* Seen by nobody yet: where there turn out to be no quotas it goes by itself. */
static int mount_image(struct cay_disk *d, const char *device, int *mount_out,
                       struct cay_error *err)
{
    CAY_AUTO_FD int fs = fsopen(d->ops->filesystem, FSOPEN_CLOEXEC);
    if (fs < 0)
        return cay_fail_errno(err, CAY_ERR_UNSUPPORTED, "this kernel has no %s",
                              d->ops->filesystem);
    CAY_AUTO_FD int fd = -1;
    if (configure(d->ops, fs, device) == 0)
        fd =
            fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOATIME);
    d->fd = fd < 0 ? -1 : openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (d->fd < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot mount the disk image (%s)",
                              d->ops->filesystem);
    *mount_out = cay_take_fd(&fd);
    return 0;
}

static int adapt(const struct cay_disk *d, struct cay_error *err)
{
    if (ioctl(d->loop_fd, LOOP_SET_CAPACITY) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot grow the disk");
    return d->ops->adapt(d, err);
}

static int open_image(struct cay_disk *d, int engine_fd, struct cay_error *err)
{
    char device[64];
    CAY_AUTO_FD int mounted = -1;
    d->image_fd = openat(engine_fd, IMAGE, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (d->image_fd < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot open " IMAGE);
    int r = cay_loop_attach(d->image_fd, &d->loop_fd, device, sizeof device, err);
    if (r == 0)
        r = mount_image(d, device, &mounted, err);
    if (r == 0)
        r = d->ops->open(d, err);
    if (r == 0)
        r = adapt(d, err); /* an earlier engine may have died before it did */
    if (r < 0)
        return r;
    (void)fchmod(d->fd, 0700); /* nobody else sees it anyway */
    if (move_mount(mounted, "", engine_fd, "disk", MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot mount the disk image");
    return 0;
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

/* ---- one tree ---- */

int cay_disk_make(const struct cay_disk *d, const char *id, uint64_t bytes, struct cay_error *err)
{
    return d->ops->make(d, id, bytes, err);
}

int cay_disk_limit(const struct cay_disk *d, const char *id, uint64_t bytes, struct cay_error *err)
{
    return d->ops->limit(d, id, bytes, err);
}

bool cay_disk_can_snapshot(const struct cay_disk *d)
{
    return d->ops && d->ops->snapshot;
}

int cay_disk_snapshot(const struct cay_disk *d, int from_fd, const char *name,
                      struct cay_error *err)
{
    return d->ops->snapshot(d, from_fd, name, err);
}

int cay_disk_remove(const struct cay_disk *d, const char *id, struct cay_error *err)
{
    return d->ops->remove(d, id, err);
}

bool cay_disk_usage(const struct cay_disk *d, const char *id, uint64_t *used_out,
                    uint64_t *limit_out)
{
    return d->ops && d->ops->usage(d, id, used_out, limit_out);
}

void cay_disk_forget(const struct cay_disk *d, int dir_fd, const char *path)
{
    struct stat st;
    CAY_AUTO_FD int fd = d->ops && d->ops->inline_bytes
                             ? openat(dir_fd, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC)
                             : -1;
    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size < d->ops->inline_bytes)
        (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED); /* it is only memory */
}

void cay_disk_sweep(const struct cay_disk *d)
{
    if (d->ops && d->ops->sweep)
        d->ops->sweep(d);
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

void cay_disk_close(struct cay_disk *d)
{
    cay_close_fd(&d->groups_fd);
    cay_close_fd(&d->trash_fd);
    cay_close_fd(&d->lock_fd);
    cay_close_fd(&d->fd);
    cay_close_fd(&d->loop_fd);
    cay_close_fd(&d->image_fd);
    d->ops = NULL;
    d->kind = "none";
}

static void give_up(struct cay_disk *d)
{
    cay_disk_close(d);
    cay_log_warn("no disk limit: %s%s%s", d->none.msg, *d->none.cause ? ": " : "", d->none.cause);
}

/* ---- which kind ---- */

static const struct way {
    const struct cay_disk_ops *ops;
    bool image;
} ways[] = {
    /* the first that works is taken */
    {&cay_disk_xfs, false},
    {&cay_disk_btrfs, false},
    {&cay_disk_btrfs, true},
    {&cay_disk_xfs, true},
};

static int open_here(struct cay_disk *d, int engine_fd, const struct way *way,
                     struct cay_error *err)
{
    d->ops = way->ops;
    d->kind = way->image ? way->ops->image_kind : way->ops->kind;
    if (way->image)
        return open_image(d, engine_fd, err);
    int r = cay_path_open_dir(engine_fd, "disk", 0700, &d->fd, err);
    return r < 0 ? r : d->ops->open(d, err);
}

/* Before anything is made: an image without quotas is of no use. */
static int check_kernel(const struct cay_disk_ops *ops, struct cay_error *err)
{
    CAY_AUTO_FD int fs = fsopen(ops->filesystem, FSOPEN_CLOEXEC); /* loads what is a module */
    if (fs < 0)
        return cay_fail_errno(err, CAY_ERR_UNSUPPORTED, "this kernel has no %s", ops->filesystem);
    return access(ops->feature, F_OK) == 0 ? 0
                                           : cay_fail(err, CAY_ERR_UNSUPPORTED, "%s", ops->lack);
}

static int try_way(struct cay_disk *d, int engine_fd, const struct way *way, struct cay_error *err)
{
    int r = way->image ? check_kernel(way->ops, err) : 0;
    if (r == 0 && way->image)
        r = make_image(way->ops, engine_fd, err);
    if (r == 0)
        r = open_here(d, engine_fd, way, err);
    if (r == 0)
        return 0;
    cay_disk_close(d);
    if (way->image)
        (void)unlinkat(engine_fd, IMAGE, 0); /* else taken for one with sandboxes in it */
    return r;
}

/* The error is that of the way that was wanted most, and the last one's under it. */
static int open_new(struct cay_disk *d, int engine_fd, bool has_trees, struct cay_error *err)
{
    int r = cay_fail(err, CAY_ERR_UNSUPPORTED, "the data directory was on another filesystem");
    bool tried = false;
    for (size_t i = 0; i < CAY_COUNT(ways); i++) {
        struct cay_error first = *err;
        if (ways[i].image ? has_trees : !is_on(engine_fd, ways[i].ops->magic))
            continue;
        r = try_way(d, engine_fd, &ways[i], err);
        if (r == 0)
            return 0;
        if (tried && strcmp(first.msg, err->msg) != 0)
            cay_wrap(err, "%s", first.msg);
        tried = true;
    }
    return r;
}

static int open_found(struct cay_disk *d, int engine_fd, struct cay_error *err)
{
    struct way way = {&cay_disk_btrfs, true};
    CAY_AUTO_FD int fd = openat(engine_fd, IMAGE, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    for (size_t i = 0; i < CAY_COUNT(ways); i++) {
        const struct cay_disk_ops *ops = ways[i].ops;
        char mark[sizeof ops->mark.text] = "";
        size_t len = strlen(ops->mark.text);
        if (pread(fd, mark, len, ops->mark.at) == (ssize_t)len && strcmp(mark, ops->mark.text) == 0)
            way.ops = ops;
    }
    return open_here(d, engine_fd, &way, err);
}

static bool has_trees(int engine_fd)
{
    CAY_AUTO_FD int fd = openat(engine_fd, "disk", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd >= 0 && has_sandboxes(fd);
}

int cay_disk_open(struct cay_disk *d, int engine_fd, int *files_fd, struct cay_error *err)
{
    bool had_image = faccessat(engine_fd, IMAGE, F_OK, 0) == 0;
    bool had_trees = !had_image && has_trees(engine_fd);
    *d = (struct cay_disk)CAY_DISK_NONE;
    if (!had_image && !had_trees && has_sandboxes(*files_fd)) {
        cay_fail(&d->none, CAY_ERR_CONFLICT, "sandboxes made without a disk limit are still there");
        give_up(d);
        return 0;
    }
    int r = 0;
    if (mkdirat(engine_fd, "disk", 0700) < 0 && errno != EEXIST)
        r = cay_fail_errno(&d->none, CAY_ERR_PROVIDER, "cannot make engine/disk");
    if (r == 0)
        r = had_image ? open_found(d, engine_fd, &d->none)
                      : open_new(d, engine_fd, had_trees, &d->none);
    if (r < 0 && (had_image || had_trees)) {
        *err = d->none;
        return cay_wrap(err, "the sandboxes' disk%s cannot be used", had_image ? " image" : "");
    }
    if (r < 0) {
        give_up(d);
        return 0;
    }
    cay_close_fd(files_fd);
    *files_fd = fcntl(d->fd, F_DUPFD_CLOEXEC, 0);
    if (*files_fd < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot open the sandboxes' disk");
    cay_disk_sweep(d);
    return 0;
}
