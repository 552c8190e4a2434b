/* SPDX-License-Identifier: Apache-2.0 */
/* How much of the past a sandbox and an account keep. */
#pragma once
#include "base/buf.h"
#include "base/error.h"
#include "base/id.h"
#include <stdint.h>

struct cay_core;

/* What the logs of one account take. */
struct cay_log_holder {
    char account_id[CAY_ID_SIZE];
    int64_t bytes, removed;
};
/* Adds one of these for each account that has any. Looks at every log. */
int cay_retention_weigh(struct cay_core *core, struct cay_buf *out, struct cay_error *err);
/* Of each sandbox, and then of each account, whose logs take more than that, removes those of
 * executions that ended, the oldest first. A sandbox's start command keeps its log as long as the
 * sandbox lives. One that has CAY_LOG_SANDBOX_STOP times as much nevertheless is stopped. */
int cay_retention_run(struct cay_core *core, int64_t sandbox_bytes, int64_t account_bytes,
                      struct cay_error *err);
