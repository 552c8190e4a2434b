/* SPDX-License-Identifier: Apache-2.0 */
#include "core/metrics.h"
#include "tests/fixture.h"

TEST(core_counts_by_state)
{
    struct fixture f;
    struct cay_error err = {0};
    int64_t counts[CAY_STATES] = {[CAY_ERROR] = 7};
    struct cay_sandbox out;
    fixture_open(&f);
    fixture_create(&f, "one", false);
    fixture_create(&f, "two", false);
    fixture_create(&f, "three", false);
    fixture_create(&f, "four", false);
    CHECK_EQ("pause", cay_core_pause(f.core, &f.me, "three", &f.a, &out, &err), 0);
    CHECK_EQ("delete",
             cay_core_delete(f.core, &f.me, "four", CAY_WORKSPACE_AS_IT_IS, &f.a, &out, &err), 0);
    CHECK_EQ("count", cay_core_count(f.core, counts, &err), 0);
    CHECK_EQ("running", counts[CAY_RUNNING], 2);
    CHECK_EQ("paused", counts[CAY_PAUSED], 1);
    CHECK_EQ("the living only", counts[CAY_TERMINATED], 0);
    CHECK_EQ("none is none", counts[CAY_ERROR], 0);
    cay_store_fake_fail_at(f.store, 1);
    CHECK_EQ("a failure is told", cay_core_count(f.core, counts, &err), CAY_ERR_STORE);
    fixture_close(&f);
}
