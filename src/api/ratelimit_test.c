/* SPDX-License-Identifier: Apache-2.0 */
#include "api/ratelimit.h"
#include "tests/test.h"
#include <stdio.h>

TEST(ratelimit_counts_by_address_and_window)
{
    static const struct {
        const char *name, *who;
        int64_t at_ms;
        bool want;
        int64_t remaining, reset_s;
    } steps[] = {
        {"first", "10.0.0.1", 1000, true, 1, 60},
        {"second", "10.0.0.1", 2000, true, 0, 59},
        {"one too many", "10.0.0.1", 3000, false, 0, 58},
        {"another address", "10.0.0.2", 3000, true, 1, 60},
        {"just before the end", "10.0.0.1", 60999, false, 0, 1},
        {"a new window", "10.0.0.1", 61000, true, 1, 60},
    };
    struct cay_ratelimit rl;
    cay_ratelimit_init(&rl, 2, 60);
    for (size_t i = 0; i < COUNT(steps); i++) {
        struct cay_rate rate;
        CHECK_EQ(steps[i].name, cay_ratelimit_take(&rl, steps[i].who, steps[i].at_ms, &rate),
                 steps[i].want);
        CHECK_EQ(steps[i].name, rate.remaining, steps[i].remaining);
        CHECK_EQ(steps[i].name, rate.reset_s, steps[i].reset_s);
    }
    cay_ratelimit_done(&rl);
}

TEST(ratelimit_has_room_for_any_number_of_addresses)
{
    struct cay_ratelimit rl;
    cay_ratelimit_init(&rl, 1, 60);
    for (int i = 0; i < 50000; i++) {
        char who[32];
        struct cay_rate rate;
        snprintf(who, sizeof who, "10.%d.%d.%d", i >> 16, (i >> 8) & 255, i & 255);
        CHECK("a new address is let in", cay_ratelimit_take(&rl, who, 1000 + i, &rate));
    }
    cay_ratelimit_done(&rl);
}
