/* SPDX-License-Identifier: Apache-2.0 */
/* How much of the past an account keeps. */
#pragma once
#include "base/error.h"
#include <stdint.h>

struct cay_core;

/* Of each account whose logs take more than that, removes those of executions that ended, the
 * oldest first. A sandbox's start command keeps its log as long as the sandbox lives. */
int cay_retention_run(struct cay_core *core, int64_t account_bytes, struct cay_error *err);
