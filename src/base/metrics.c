/* SPDX-License-Identifier: Apache-2.0 */
#include "base/metrics.h"
#include <stdio.h>

/* From a look-up to a command that takes a minute. */
static const struct {
    int64_t us;
    const char *le;
} bounds[CAY_HISTOGRAM_BOUNDS] = {
    {100, "0.0001"},  {250, "0.00025"}, {500, "0.0005"},  {1000, "0.001"},  {2500, "0.0025"},
    {5000, "0.005"},  {10000, "0.01"},  {25000, "0.025"}, {50000, "0.05"},  {100000, "0.1"},
    {250000, "0.25"}, {1000000, "1"},   {5000000, "5"},   {15000000, "15"}, {60000000, "60"},
};

void cay_histogram_add(struct cay_histogram *h, int64_t took_us)
{
    size_t at = 0;
    while (at < CAY_HISTOGRAM_BOUNDS && took_us > bounds[at].us)
        at++;
    atomic_fetch_add_explicit(&h->counts[at], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&h->sum_us, took_us, memory_order_relaxed);
}

int64_t cay_histogram_count(struct cay_histogram *h)
{
    int64_t sum = 0;
    for (size_t i = 0; i <= CAY_HISTOGRAM_BOUNDS; i++)
        sum += atomic_load_explicit(&h->counts[i], memory_order_relaxed);
    return sum;
}

void cay_metrics_family(struct cay_buf *out, const char *name, const char *type, const char *help)
{
    cay_buf_addf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void cay_metrics_int(struct cay_buf *out, const char *name, const char *labels, int64_t value)
{
    cay_buf_addf(out, "%s%s%s%s %lld\n", name, labels[0] ? "{" : "", labels, labels[0] ? "}" : "",
                 (long long)value);
}

void cay_metrics_real(struct cay_buf *out, const char *name, const char *labels, double value)
{
    cay_buf_addf(out, "%s%s%s%s %.6f\n", name, labels[0] ? "{" : "", labels, labels[0] ? "}" : "",
                 value);
}

/* The sum of what is read here is the count, so that the two agree while others add. */
void cay_metrics_histogram(struct cay_buf *out, const char *name, const char *labels,
                           struct cay_histogram *h)
{
    int64_t sum = 0;
    for (size_t i = 0; i <= CAY_HISTOGRAM_BOUNDS; i++) {
        sum += atomic_load_explicit(&h->counts[i], memory_order_relaxed);
        cay_buf_addf(out, "%s_bucket{%s%sle=\"%s\"} %lld\n", name, labels, labels[0] ? "," : "",
                     i < CAY_HISTOGRAM_BOUNDS ? bounds[i].le : "+Inf", (long long)sum);
    }
    int64_t sum_us = atomic_load_explicit(&h->sum_us, memory_order_relaxed);
    const char *open = labels[0] ? "{" : "", *close = labels[0] ? "}" : "";
    cay_buf_addf(out, "%s_sum%s%s%s %.6f\n", name, open, labels, close, (double)sum_us / 1e6);
    cay_buf_addf(out, "%s_count%s%s%s %lld\n", name, open, labels, close, (long long)sum);
}

void cay_metrics_one(struct cay_buf *out, struct cay_metric *m)
{
    cay_metrics_family(out, m->name, m->goes_down ? "gauge" : "counter", m->help);
    cay_metrics_int(out, m->name, "", atomic_load_explicit(&m->value, memory_order_relaxed));
}
