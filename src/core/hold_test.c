/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "core/hold.h"
#include "model/limits.h"
#include "tests/test.h"
#include <stdatomic.h>

#define CALLERS 12

static struct cay_holds holds;
static atomic_int had, refused;

static void *want(void *arg)
{
    struct cay_hold hold = {0};
    struct cay_error err;
    bool *shared = arg;
    int r = *shared ? cay_hold_share(&holds, "x", &hold, &err)
                    : cay_hold_wait(&holds, "x", &hold, &err);
    atomic_fetch_add(r == 0 ? &had : &refused, 1);
    cay_hold_end(&hold);
    return NULL;
}

static void begin(pthread_t threads[CALLERS], bool *shared)
{
    atomic_store(&had, 0);
    atomic_store(&refused, 0);
    for (size_t i = 0; i < CALLERS; i++)
        CHECK_EQ("thread", pthread_create(&threads[i], NULL, want, shared), 0);
}

static void end(const pthread_t threads[CALLERS])
{
    for (size_t i = 0; i < CALLERS; i++)
        pthread_join(threads[i], NULL);
}

/* An operation that lasts takes the threads of a few who want the same, and of no more. */
TEST(hold_that_lasts_is_waited_for_by_few)
{
    for (int i = 0; i < 2; i++) {
        bool shared = i == 1;
        struct cay_hold hold = {0};
        pthread_t threads[CALLERS];
        int64_t until_ms = cay_clock_mono_ms() + 20000;
        cay_holds_init(&holds);
        CHECK("held", cay_hold_try(&holds, "x", &hold));
        begin(threads, &shared);
        while (atomic_load(&refused) < CALLERS - CAY_HOLD_WAITERS && cay_clock_mono_ms() < until_ms)
            (void)usleep(1000);
        CHECK_EQ("the others are told", atomic_load(&refused), CALLERS - CAY_HOLD_WAITERS);
        CHECK_EQ("none has it", atomic_load(&had), 0);
        cay_hold_end(&hold);
        end(threads);
        CHECK_EQ("those who waited", atomic_load(&had), CAY_HOLD_WAITERS);
        CHECK("nothing is left", !holds.first && !holds.waiting);
        cay_holds_done(&holds);
    }
}

TEST(hold_that_is_short_is_waited_for_by_all)
{
    bool shared = false;
    struct cay_hold hold = {0};
    pthread_t threads[CALLERS];
    cay_holds_init(&holds);
    CHECK("held", cay_hold_try(&holds, "x", &hold));
    begin(threads, &shared);
    (void)usleep(20000);
    cay_hold_end(&hold);
    end(threads);
    CHECK_EQ("all had it", atomic_load(&had), CALLERS);
    cay_holds_done(&holds);
}
