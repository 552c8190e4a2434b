/* SPDX-License-Identifier: Apache-2.0 */
#include "base/metrics.h"
#include "tests/test.h"
#include <pthread.h>

#define THREADS 4
#define ROUNDS 20000

static struct cay_metric seen = {.name = "seen_total", .help = "What was seen."};
static struct cay_histogram times;

static void *count(void *arg)
{
    (void)arg;
    for (int i = 0; i < ROUNDS; i++) {
        cay_metric_add(&seen, 1);
        cay_histogram_add(&times, i % 3 * 400);
    }
    return NULL;
}

TEST(metrics_lose_nothing_between_threads)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, count, NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQ("counted", atomic_load(&seen.value), THREADS * ROUNDS);
    CHECK_EQ("timed", cay_histogram_count(&times), THREADS * ROUNDS);
}

TEST(metrics_text)
{
    CAY_AUTO_BUF struct cay_buf out = {0};
    struct cay_metric up = {.name = "up", .help = "Is it?", .goes_down = true, .value = -3};
    struct cay_histogram h = {0};
    cay_metrics_one(&out, &up);
    cay_metrics_int(&out, "n", "a=\"b\"", 7);
    cay_buf_addc(&out, 0);
    CHECK_STR("plain", out.data, "# HELP up Is it?\n# TYPE up gauge\nup -3\nn{a=\"b\"} 7\n");
    out.len = 0;
    static const int64_t took_us[] = {0, 100, 101, 1000000, 60000001};
    for (size_t i = 0; i < COUNT(took_us); i++)
        cay_histogram_add(&h, took_us[i]);
    cay_metrics_histogram(&out, "t", "m=\"x\"", &h);
    cay_buf_addc(&out, 0);
    static const char *const lines[] = {
        "t_bucket{m=\"x\",le=\"0.0001\"} 2\n",
        "t_bucket{m=\"x\",le=\"0.00025\"} 3\n",
        "t_bucket{m=\"x\",le=\"1\"} 4\n",
        "t_bucket{m=\"x\",le=\"60\"} 4\n",
        "t_bucket{m=\"x\",le=\"+Inf\"} 5\n",
        "t_sum{m=\"x\"} 61.000202\n",
        "t_count{m=\"x\"} 5\n",
    };
    for (size_t i = 0; i < COUNT(lines); i++)
        CHECK(lines[i], strstr(out.data, lines[i]) != NULL);
}
