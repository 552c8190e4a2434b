/* SPDX-License-Identifier: Apache-2.0 */
/* So many requests in so many seconds, by address and token, in fixed windows of the monotonic
 * clock. */
#pragma once
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct cay_ratelimit {
    pthread_mutex_t lock;
    int64_t limit, window_ms; /* limit 0: off */
    struct cay_ratelimit_slot *slots;
};

struct cay_rate {
    int64_t limit, remaining, reset_s; /* seconds until the window ends, rounded up */
};

void cay_ratelimit_init(struct cay_ratelimit *rl, int64_t limit, int64_t seconds);
void cay_ratelimit_done(struct cay_ratelimit *rl);
/* Counts one request; false when it is one too many. */
bool cay_ratelimit_take(struct cay_ratelimit *rl, const char *who, int64_t now_ms,
                        struct cay_rate *out);
