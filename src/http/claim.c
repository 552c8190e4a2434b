/* SPDX-License-Identifier: Apache-2.0 */
#include "http/claim.h"
#include "model/limits.h"

struct cay_metric cay_http_large = {
    .name = "cay_http_large_answer_bytes",
    .help = "Memory of large answers that are being made or not yet read.",
    .goes_down = true};

int cay_claim_take(uint64_t *claim, uint64_t bytes, struct cay_error *err)
{
    int64_t used = atomic_load_explicit(&cay_http_large.value, memory_order_relaxed);
    do
        if (used > 0 && used + (int64_t)bytes > CAY_HTTP_LARGE_BUDGET)
            return cay_fail_as(err, CAY_ERR_UNAVAILABLE, "TOO_MANY_LARGE_ANSWERS",
                               "too many large answers wait to be read; ask for a stream (Accept: "
                               "text/event-stream or application/x-ndjson) or for less");
    while (!atomic_compare_exchange_weak_explicit(&cay_http_large.value, &used,
                                                  used + (int64_t)bytes, memory_order_relaxed,
                                                  memory_order_relaxed));
    *claim += bytes;
    return 0;
}

void cay_claim_set(uint64_t *claim, uint64_t bytes)
{
    if (*claim == bytes)
        return;
    cay_metric_add(&cay_http_large, (int64_t)bytes - (int64_t)*claim);
    *claim = bytes;
}
