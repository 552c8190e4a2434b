/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers for whoever watches. Any thread adds to them, without a lock and without an allocation;
 * their text is Prometheus' format 0.0.4. Each is a static of the part that counts, listed where it
 * is read. */
#pragma once
#include "base/buf.h"
#include <stdatomic.h>
#include <stdbool.h>

struct cay_metric {
    const char *name, *help;
    bool goes_down; /* a gauge; else a counter, whose name ends in _total */
    _Atomic int64_t value;
};

static inline void cay_metric_add(struct cay_metric *m, int64_t n)
{
    atomic_fetch_add_explicit(&m->value, n, memory_order_relaxed);
}

static inline void cay_metric_set(struct cay_metric *m, int64_t value)
{
    atomic_store_explicit(&m->value, value, memory_order_relaxed);
}

#define CAY_HISTOGRAM_BOUNDS 15

/* How long something took. All zero is empty. */
struct cay_histogram {
    _Atomic int64_t counts[CAY_HISTOGRAM_BOUNDS + 1]; /* the last: longer than every bound */
    _Atomic int64_t sum_us;
};

void cay_histogram_add(struct cay_histogram *h, int64_t took_us);
int64_t cay_histogram_count(struct cay_histogram *h);

/* The lines of one family begin with its HELP and TYPE ("counter", "gauge", "histogram"). */
void cay_metrics_family(struct cay_buf *out, const char *name, const char *type, const char *help);
/* labels: `method="GET"`, with values that need no escapes; or "". */
void cay_metrics_int(struct cay_buf *out, const char *name, const char *labels, int64_t value);
void cay_metrics_real(struct cay_buf *out, const char *name, const char *labels, double value);
void cay_metrics_histogram(struct cay_buf *out, const char *name, const char *labels,
                           struct cay_histogram *h);
/* A family of one. */
void cay_metrics_one(struct cay_buf *out, struct cay_metric *m);
