/* SPDX-License-Identifier: Apache-2.0 */
/* Where the fault tests may pull the plug: the boundaries between two steps of create, delete
 * and the like.
 *
 * CAY_CRASH_AT=NAME in the environment of `cay serve` kills the supervisor, and with it engine and
 * server, the moment one of them passes that point. `cay serve --crash-points` lists the names. */
#pragma once
#include <sys/types.h>

extern const char *const cay_crash_points[]; /* NULL-terminated */

#define CAY_CRASH_STATUS 86 /* a child that exits with it asks the supervisor to die */

void cay_crash_arm(pid_t supervisor); /* reads the environment, before the forks */
void cay_crash_point(const char *name);
