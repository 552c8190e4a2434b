/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "tests/fixture.h"

TEST(cache_streams_share_readings)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_spec spec = cay_spec_default();
    struct cay_sandbox sb = {0};
    struct cay_stats first = {0};
    int64_t began_ms = cay_clock_mono_ms(), readings = 0;
    fixture_open(&f);
    spec.name = "box";
    CHECK_EQ("create", cay_core_create(f.core, &f.me, &spec, &f.a, &sb, &err), 0);
    CHECK_EQ("the first", cay_core_stats(f.core, &sb, &first, &err), 0);
    for (int64_t i = 0, last_us = first.read_at_us; i < 1000; i++) {
        struct cay_stats own = first;
        CHECK_EQ("the next", cay_core_stats_next(f.core, sb.id, &own, &err), 0);
        readings += own.read_at_us != last_us;
        last_us = own.read_at_us;
    }
    CHECK("not each its own", readings <= (cay_clock_mono_ms() - began_ms) * 2 / CAY_STATS_MIN_MS);
    fixture_close(&f);
}
