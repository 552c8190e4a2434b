/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox's processes read from disks and wrote to them, by the kernel's account of each.
 *
 * A process has what those of its children did that it waited for, and its first process waits for
 * all whom nobody else does: so the living have all of it, on v1 and v2 alike. The controllers for
 * it tell less: what goes through a loop device counts twice (v2), and what is written by way of
 * the page cache not at all (v1). */
#pragma once
#include "engine/cgroup.h"

/* `first` is its first process. At most CAY_IO_LOOK_MS later: of more processes than can be looked
 * at until then the youngest are missing, until they have ended. */
void cay_io_read(const struct cay_cgroups *c, const char *id, pid_t first, struct cay_usage *out);
