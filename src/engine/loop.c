/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/loop.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#define ATTACH_TRIES 64 /* others on this machine take free devices too */
#define SECTOR_BYTES 4096

/* Looked at through an open descriptor: from then on the device cannot go. */
static bool is_behind(int loop_fd, const struct stat *file)
{
    struct loop_info64 info;
    return ioctl(loop_fd, LOOP_GET_STATUS64, &info) == 0 && info.lo_device == file->st_dev &&
           info.lo_inode == file->st_ino;
}

/* A second device on the same file would corrupt what is in it. */
static int find(const struct stat *file, char *path, size_t path_size)
{
    CAY_AUTO_FD int found = -1;
    DIR *dir = opendir("/sys/block");
    for (struct dirent *e; found < 0 && dir && (e = readdir(dir));) {
        if (strncmp(e->d_name, "loop", 4) != 0)
            continue;
        snprintf(path, path_size, "/dev/%.32s", e->d_name);
        found = open(path, O_RDWR | O_CLOEXEC);
        if (found >= 0 && !is_behind(found, file))
            cay_close_fd(&found);
    }
    if (dir)
        closedir(dir);
    return cay_take_fd(&found);
}

static int configure(int loop_fd, int file_fd)
{
    struct loop_config config = {.fd = (uint32_t)file_fd, .block_size = SECTOR_BYTES};
    config.info.lo_flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO;
    if (ioctl(loop_fd, LOOP_CONFIGURE, &config) == 0)
        return 0;
    if (errno != EINVAL)
        return -1;
    config.info.lo_flags = LO_FLAGS_AUTOCLEAR; /* the host's filesystem has no direct I/O */
    return ioctl(loop_fd, LOOP_CONFIGURE, &config);
}

static int attach_new(int file_fd, char *path, size_t path_size, struct cay_error *err)
{
    CAY_AUTO_FD int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
    if (control < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot open /dev/loop-control");
    for (int i = 0; i < ATTACH_TRIES; i++) {
        int n = ioctl(control, LOOP_CTL_GET_FREE);
        if (n < 0)
            return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot get a loop device");
        snprintf(path, path_size, "/dev/loop%d", n);
        CAY_AUTO_FD int fd = open(path, O_RDWR | O_CLOEXEC);
        if (fd < 0)
            return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot open %s", path);
        if (configure(fd, file_fd) == 0)
            return cay_take_fd(&fd);
        if (errno != EBUSY)
            return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot set up %s", path);
    }
    return cay_fail(err, CAY_ERR_PROVIDER, "loop devices are taken faster than we can get one");
}

int cay_loop_attach(int file_fd, int *fd_out, char *path_out, size_t path_size,
                    struct cay_error *err)
{
    struct stat file;
    if (fstat(file_fd, &file) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot look at the disk image");
    int fd = find(&file, path_out, path_size);
    if (fd < 0)
        fd = attach_new(file_fd, path_out, path_size, err);
    if (fd < 0)
        return fd;
    *fd_out = fd;
    return 0;
}
