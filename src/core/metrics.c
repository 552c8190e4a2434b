/* SPDX-License-Identifier: Apache-2.0 */
/* Nobody tells the server when a command ends that nobody waits for: its log has that. So what is
 * counted here is what was begun, and what was found to have no end. */
#include "core/metrics.h"
#include "core/core.h"
#include "net/metrics.h"

struct cay_metric cay_core_begun = {.name = "cay_executions_begun_total",
                                    .help = "Commands that began to run."};
struct cay_metric cay_core_refused = {.name = "cay_executions_refused_total",
                                      .help = "Commands that could not be begun."};
struct cay_metric cay_core_lost_count = {
    .name = "cay_executions_lost_total",
    .help = "Commands whose sandbox ended before their end was written down."};
struct cay_metric cay_core_log_bytes = {
    .name = "cay_log_bytes",
    .help = "What the logs of commands take on the disk, as last looked at.",
    .goes_down = true};

struct cay_metric *const cay_core_metrics[] = {
    &cay_core_begun,     &cay_core_refused,     &cay_core_lost_count,
    &cay_core_log_bytes, &cay_net_open,         &cay_net_opened,
    &cay_net_refused,    &cay_net_failed,       &cay_net_cut,
    &cay_net_sent,       &cay_net_received,     &cay_net_asked,
    &cay_net_injected,   &cay_net_not_answered, &cay_store_commits,
    &cay_store_syncs,    &cay_store_writes,     &cay_store_failures,
    &cay_store_waiting,  &cay_store_wal_pages,  NULL,
};

struct cay_histogram cay_core_times[CAY_TOOKS];

int cay_core_count(struct cay_core *core, int64_t by_state[CAY_STATES], struct cay_error *err)
{
    return cay_store_count(core->store, by_state, err);
}

int cay_core_pool(struct cay_core *core, uint32_t *ready_out, uint32_t *size_out,
                  struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_health health = {0};
    int r = cay_provider_health(core->provider, &a, &health, err);
    if (r < 0)
        return r;
    *ready_out = health.pool_ready;
    *size_out = health.pool_size;
    return 0;
}
