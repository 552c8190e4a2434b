/* SPDX-License-Identifier: Apache-2.0 */
/* What a GET tells beyond the row, asked for at most once a second and sandbox: figures of use, and
 * how the start command ended. The last figures are also what the next are compared with. Rows are
 * never kept here. */
#pragma once
#include "base/id.h"
#include "log/record.h"
#include "model/sandbox.h"
#include <pthread.h>

#define CAY_CACHE_SLOTS 1024 /* by hash; who shares a slot pays with a fresh look */
#define CAY_CACHE_MS 1000

struct cay_cache_usage {
    char id[CAY_ID_SIZE];
    int64_t asked_at_ms; /* monotonic */
    bool known;
    struct cay_stats last;
};

struct cay_cache_start {
    char exec_id[CAY_ID_SIZE];
    int64_t asked_at_ms;
    uint64_t offset; /* of its log, read so far */
    bool ended;
    struct cay_record_exit end;
};

struct cay_cache {
    pthread_mutex_t lock;
    struct cay_cache_usage usage[CAY_CACHE_SLOTS];
    struct cay_cache_start start[CAY_CACHE_SLOTS];
};

/* Its counters begin again: what was read before is of another run. */
void cay_cache_forget(struct cay_cache *cache, const char *id);
