/* SPDX-License-Identifier: Apache-2.0 */
/* A process that reads what strangers made shuts itself in: with one directory as all it sees. */
#pragma once
#include "base/error.h"
#include "engine/berth.h"
#include <sys/types.h>

/* `path`, from the stage, becomes the root; the process is nobody on the host from here on, its ids
 * inside are those on the disk. It dies with `parent`. */
int cay_confine_enter(const char *path, const struct cay_berth *berth, pid_t parent,
                      struct cay_error *err);
/* Bounds its memory and descriptors, and leaves it the system calls that files are made with: any
 * other ends it. */
int cay_confine_close(struct cay_error *err);
