/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox's first process needs to become one: gathered by the spawner, used by the process.
 */
#pragma once
#include "engine/berth.h"
#include "engine/image.h"
#include "engine/kit.h"
#include "engine/message.h"

/* What the one that waits is told; pid 1's socket comes beside it. */
struct cay_order {
    struct cay_engine_request request; /* checked */
    char overlay[4096];                /* the mount's options: a page, as the kernel takes them */
};

struct cay_plan {
    const struct cay_kit *kit;
    const struct cay_order *order;
    struct cay_berth *berth;
    int listen_fd; /* pid 1's socket */
};

/* rootfs.c: the options for an image's overlay. */
int cay_rootfs_overlay(const struct cay_image *image, bool persistent, char *out, size_t size,
                       struct cay_error *err);
/* rootfs.c: what of a tree is the same for all, in this process's own copy of the stage. */
struct cay_rootfs {
    int dev_fd, proc_fd;
};
int cay_rootfs_prepare(struct cay_rootfs *tree, uint32_t base, struct cay_error *err);
/* rootfs.c: in the first process, still with root's rights on the host: builds the tree and makes
 * it the root. Leaves nothing of the host in sight. */
int cay_rootfs_enter(const struct cay_rootfs *tree, const struct cay_berth *berth,
                     const struct cay_order *order, struct cay_error *err);
/* rootfs.c: once, in the engine's mount namespace: the stage and what every sandbox's tree copies
 * from it. Ends with the stage as working directory. */
int cay_rootfs_stage(int engine_fd, int images_fd, int files_fd, struct cay_error *err);

/* hull.c: a first process that waits for its order on the other end of *sock_out, in all the
 * namespaces but its user's and its cgroup's; from its birth in `cgroup_fd`, or -1. A child of our
 * parent; it ends when nobody has that socket any more. `other_fd`, or -1, is closed in it. Returns
 * its pid. */
pid_t cay_hull_clone(const struct cay_kit *kit, const struct cay_berth *b, int cgroup_fd,
                     int other_fd, int *sock_out, struct cay_error *err);

/* hull.c: from now on hulls get from us the rank of what dies first when memory is short, which we
 * have as well then. */
void cay_hull_be_expendable(void);

/* launch.c: brings up the first process, and lets it run when `record` has written down who it
 * is. When it fails *killed_out tells whether somebody killed the process before it was cay-init:
 * then nothing of it is left, no mount either, and with another all may be well. */
int cay_sandbox_spawn(const struct cay_plan *plan,
                      int (*record)(void *arg, pid_t pid, struct cay_error *err), void *arg,
                      bool *killed_out, struct cay_error *err);
