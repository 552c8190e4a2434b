/* SPDX-License-Identifier: Apache-2.0 */
#include "http/budget.h"
#include "base/clock.h"
#include "model/limits.h"
#include <pthread.h>
#include <time.h>

struct cay_metric cay_http_large = {
    .name = "cay_http_large_answer_bytes",
    .help = "Memory of large answers that are being made or not yet read.",
    .goes_down = true};

/* Most of a claim is for the worst case, and given back as soon as the answer is made: that is soon
 * enough to be waited for. But who waits has a worker. */
int64_t cay_budget_wait_ms = CAY_HTTP_LARGE_WAIT_MS;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t less = PTHREAD_COND_INITIALIZER;
static atomic_int waiting;

static bool take(uint64_t *claim, uint64_t bytes)
{
    int64_t used = atomic_load(&cay_http_large.value);
    do
        if (used > 0 && used + (int64_t)bytes > CAY_HTTP_LARGE_BUDGET)
            return false;
    while (!atomic_compare_exchange_weak(&cay_http_large.value, &used, used + (int64_t)bytes));
    *claim += bytes;
    return true;
}

static bool wait_and_take(uint64_t *claim, uint64_t bytes)
{
    int64_t until_ms = cay_clock_mono_ms() + cay_budget_wait_ms;
    struct timespec until = {.tv_sec = until_ms / 1000, .tv_nsec = until_ms % 1000 * 1000000};
    bool taken = false, late = atomic_fetch_add(&waiting, 1) >= CAY_HTTP_LARGE_WAITING;
    pthread_mutex_lock(&lock);
    while (!late && !(taken = take(claim, bytes)))
        late = pthread_cond_clockwait(&less, &lock, CLOCK_MONOTONIC, &until) != 0;
    pthread_mutex_unlock(&lock);
    atomic_fetch_sub(&waiting, 1);
    return taken;
}

int cay_budget_take(uint64_t *claim, uint64_t bytes, struct cay_error *err)
{
    if (take(claim, bytes) || wait_and_take(claim, bytes))
        return 0;
    return cay_fail_as(err, CAY_ERR_UNAVAILABLE, "TOO_MANY_LARGE_ANSWERS",
                       "too many large answers wait to be read; ask for a stream (Accept: "
                       "text/event-stream or application/x-ndjson) or for less");
}

void cay_budget_set(uint64_t *claim, uint64_t bytes)
{
    if (*claim == bytes)
        return;
    bool gives = bytes < *claim;
    atomic_fetch_add(&cay_http_large.value, (int64_t)bytes - (int64_t)*claim);
    *claim = bytes;
    if (!gives || atomic_load(&waiting) == 0)
        return;
    pthread_mutex_lock(&lock); /* or it could come between somebody's look and his wait */
    pthread_cond_broadcast(&less);
    pthread_mutex_unlock(&lock);
}
