/* SPDX-License-Identifier: Apache-2.0 */
/* Mounts by descriptor, straight from the kernel: not every C library that we are built with knows
 * these calls. What they take has one form, whoever declares it. */
#pragma once
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>
#ifndef __GLIBC__ /* which has its own, and stumbles over the kernel's */
#include <linux/mount.h>
#endif

/* Each: -1 with errno. */
static inline int cay_open_tree(int dir, const char *path, unsigned flags)
{
    return (int)syscall(SYS_open_tree, dir, path, flags);
}

static inline int cay_move_mount(int from_dir, const char *from, int to_dir, const char *to,
                                 unsigned flags)
{
    return (int)syscall(SYS_move_mount, from_dir, from, to_dir, to, flags);
}

static inline int cay_mount_setattr(int dir, const char *path, unsigned flags,
                                    const struct mount_attr *attr)
{
    return (int)syscall(SYS_mount_setattr, dir, path, flags, attr, sizeof *attr);
}

static inline int cay_fsopen(const char *type, unsigned flags)
{
    return (int)syscall(SYS_fsopen, type, flags);
}

static inline int cay_fsconfig(int fs, unsigned command, const char *key, const char *value)
{
    return (int)syscall(SYS_fsconfig, fs, command, key, value, 0);
}

static inline int cay_fsmount(int fs, unsigned flags, unsigned attributes)
{
    return (int)syscall(SYS_fsmount, fs, flags, attributes);
}

static inline int cay_fspick(int dir, const char *path, unsigned flags)
{
    return (int)syscall(SYS_fspick, dir, path, flags);
}
