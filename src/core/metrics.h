/* SPDX-License-Identifier: Apache-2.0 */
/* What this layer and those below it count. */
#pragma once
#include "base/clock.h"
#include "base/metrics.h"
#include "core/service.h"

extern struct cay_metric cay_core_begun, cay_core_refused, cay_core_lost_count, cay_core_log_bytes;

/* All counters from here down; NULL-terminated. */
extern struct cay_metric *const cay_core_metrics[];

/* Operations that went well. */
enum cay_took {
    CAY_TOOK_CREATE,
    CAY_TOOK_EXEC, /* until the command runs */
    CAY_TOOK_DELETE,
    CAY_TOOKS,
};
extern struct cay_histogram cay_core_times[CAY_TOOKS];

static inline void cay_core_took(enum cay_took what, int64_t began_us)
{
    cay_histogram_add(&cay_core_times[what], cay_clock_mono_us() - began_us);
}

/* Of all accounts. */
int cay_core_count(struct cay_core *core, int64_t by_state[CAY_STATES], struct cay_error *err);
/* What the provider has made ahead; size 0 when it makes nothing ahead. */
int cay_core_pool(struct cay_core *core, uint32_t *ready_out, uint32_t *size_out,
                  struct cay_error *err);
