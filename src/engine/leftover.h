/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox leaves and the next one can begin with.
 *
 * Spawners put it by instead of removing it, each for itself: under a name of its own, in the
 * directory where it lay. What a spawner that is gone has put by, the engine removes. */
#pragma once
#include "engine/cgroup.h"
#include "engine/disk.h"

#define CAY_LEFTOVER "spare-" /* as it is called on the disk */
#define CAY_LEFTOVER_NAME 32

/* The n-th of this process. */
void cay_leftover_name(char out[CAY_LEFTOVER_NAME], unsigned n);
bool cay_leftover_is(const char *name);
/* What all begin with that another one put by. */
void cay_leftover_prefix(char out[CAY_LEFTOVER_NAME], pid_t of);

/* Out of sight at once, then emptied and put by, or removed where that takes too long. An empty one
 * has an image's settings in it, and an empty directory `work`. False: nothing was done, it has too
 * much in it or there are enough. */
bool cay_leftover_put_disk(const struct cay_disk *d, const char *id);
/* One that was put by becomes the disk of `id`, with a limit from the first byte. False: none. */
bool cay_leftover_take_disk(const struct cay_disk *d, const char *id, uint64_t bytes);

/* Those of v1, with nobody in them; whatever tells of who had them, or cannot be named anew, stays
 * as it is, for cay_cgroup_remove. */
void cay_leftover_put_cgroups(const struct cay_cgroups *c, const char *id);
/* Some of what cay_cgroup_make would make, or all, or none. Their limits are the last one's. */
void cay_leftover_take_cgroups(const struct cay_cgroups *c, const char *id);
/* All that begin so. */
void cay_leftover_clear_cgroups(const struct cay_cgroups *c, const char *prefix);
void cay_leftover_clear_files(int dir_fd, const char *prefix);
