/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/queue.h"
#include "tests/test.h"

#define ITEMS 20000

TEST(queue_is_bounded_and_in_order)
{
    struct cay_queue q;
    int items[3];
    cay_queue_init(&q, 2);
    CHECK("first", cay_queue_push(&q, &items[0]));
    CHECK("second", cay_queue_push(&q, &items[1]));
    CHECK("full", !cay_queue_push(&q, &items[2]));
    CHECK("in order", cay_queue_pop(&q, -1) == &items[0]);
    CHECK("room again", cay_queue_push(&q, &items[2]));
    cay_queue_close(&q);
    CHECK("closed", !cay_queue_push(&q, &items[0]));
    CHECK("drained", cay_queue_pop(&q, -1) == &items[1] && cay_queue_pop(&q, -1) == &items[2]);
    CHECK("empty", !cay_queue_pop(&q, -1));
    cay_queue_done(&q);
}

TEST(queue_pop_gives_up_in_time)
{
    struct cay_queue q;
    cay_queue_init(&q, 1);
    int64_t began = cay_clock_mono_ms();
    CHECK("none", !cay_queue_pop(&q, 20));
    CHECK("waited", cay_clock_mono_ms() - began >= 19);
    CHECK("at once", !cay_queue_pop(&q, 0));
    cay_queue_done(&q);
}

static void *drain(void *arg)
{
    uintptr_t sum = 0;
    for (void *item; (item = cay_queue_pop(arg, -1));)
        sum += (uintptr_t)item;
    return (void *)sum;
}

TEST(queue_loses_nothing_between_threads)
{
    struct cay_queue q;
    pthread_t threads[3];
    uintptr_t sum = 0;
    cay_queue_init(&q, ITEMS);
    for (size_t i = 0; i < COUNT(threads); i++)
        CHECK_EQ("start", pthread_create(&threads[i], NULL, drain, &q), 0);
    for (uintptr_t i = 1; i <= ITEMS; i++)
        CHECK("push", cay_queue_push(&q, (void *)i));
    cay_queue_close(&q);
    for (size_t i = 0; i < COUNT(threads); i++) {
        void *part;
        CHECK_EQ("join", pthread_join(threads[i], &part), 0);
        sum += (uintptr_t)part;
    }
    CHECK_EQ("sum", sum, (uintptr_t)ITEMS * (ITEMS + 1) / 2);
    cay_queue_done(&q);
}
