/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "model/limits.h"
#include "provider/turns.h"
#include "tests/test.h"

#define ONE "sb-oneoneoneoneoneone00"
#define OTHER "sb-otherotherotherot00"

static struct cay_turns turns;

/* One that does not answer holds up so many, and nobody who asks another. */
TEST(turns_are_few_for_one_that_is_slow)
{
    struct cay_turn taken[CAY_INIT_CALLS], more = {0}, other = {0};
    struct cay_error err = {0};
    cay_turns_init(&turns);
    for (size_t i = 0; i < CAY_INIT_CALLS; i++)
        CHECK_EQ("fits", cay_turn_take(&turns, ONE, &taken[i], &err), 0);
    int64_t began = cay_clock_mono_ms();
    CHECK_EQ("full", cay_turn_take(&turns, ONE, &more, &err), CAY_ERR_UNAVAILABLE);
    CHECK_STR("by name", cay_error_name(&err), "SANDBOX_BUSY");
    CHECK("after it had its time", cay_clock_mono_ms() - began >= CAY_INIT_SLOW_MS / 2);
    began = cay_clock_mono_ms();
    CHECK_EQ("full", cay_turn_take(&turns, ONE, &more, &err), CAY_ERR_UNAVAILABLE);
    CHECK("at once from then on", cay_clock_mono_ms() - began < CAY_INIT_SLOW_MS / 2);
    CHECK_EQ("another", cay_turn_take(&turns, OTHER, &other, &err), 0);
    cay_turn_end(&taken[0]);
    CHECK_EQ("room again", cay_turn_take(&turns, ONE, &more, &err), 0);
    cay_turn_end(&more);
    cay_turn_end(&other);
    for (size_t i = 1; i < CAY_INIT_CALLS; i++)
        cay_turn_end(&taken[i]);
    CHECK("nobody is left", turns.first == NULL);
    cay_turns_done(&turns);
}

static void *take_one(void *arg)
{
    struct cay_turn turn = {0};
    struct cay_error err;
    *(int *)arg = cay_turn_take(&turns, ONE, &turn, &err);
    cay_turn_end(&turn);
    return NULL;
}

TEST(turns_are_waited_for_where_answers_come)
{
    struct cay_turn taken[CAY_INIT_CALLS];
    struct cay_error err = {0};
    pthread_t threads[3];
    int got[3] = {1, 1, 1};
    cay_turns_init(&turns);
    for (size_t i = 0; i < CAY_INIT_CALLS; i++)
        CHECK_EQ("fits", cay_turn_take(&turns, ONE, &taken[i], &err), 0);
    for (size_t i = 0; i < COUNT(threads); i++)
        CHECK_EQ("thread", pthread_create(&threads[i], NULL, take_one, &got[i]), 0);
    for (size_t i = 0; i < CAY_INIT_CALLS; i++)
        cay_turn_end(&taken[i]);
    for (size_t i = 0; i < COUNT(threads); i++) {
        pthread_join(threads[i], NULL);
        CHECK_EQ("had its turn", got[i], 0);
    }
    cay_turns_done(&turns);
}
