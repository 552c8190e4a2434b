/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox's first process needs to become one: gathered by the spawner, used by the child.
 */
#pragma once
#include "engine/berth.h"
#include "engine/engine.h"
#include "engine/image.h"
#include "engine/message.h"

struct cay_plan {
    const struct cay_engine *engine;
    const struct cay_engine_request *request; /* checked */
    const struct cay_image *image;
    struct cay_berth berth;
    int listen_fd; /* pid 1's socket */
};

/* rootfs.c: in the child, still with root's rights on the host: builds the tree in this process's
 * own mount namespace and makes it the root. Leaves nothing of the host in sight. */
int cay_rootfs_enter(const struct cay_plan *plan, struct cay_error *err);
/* rootfs.c: once, in the engine's mount namespace: the stage and what every sandbox's tree copies
 * from it. Ends with the stage as working directory. */
int cay_rootfs_stage(struct cay_engine *engine, struct cay_error *err);

/* namespace.c: clones the sandbox's first process as a child of our parent, and lets it run when
 * `record` has written down who it is. */
int cay_sandbox_spawn(const struct cay_plan *plan,
                      int (*record)(void *arg, pid_t pid, struct cay_error *err), void *arg,
                      struct cay_error *err);
