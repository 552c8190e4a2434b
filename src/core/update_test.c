/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "core/keeper.h"
#include "tests/fixture.h"
#include <string.h>

static struct cay_sandbox row(struct fixture *f, const char *id)
{
    struct cay_error err = {0};
    struct cay_sandbox sb = {0};
    CHECK_EQ("its row", cay_store_get(f->store, CAY_LOCAL_ACCOUNT, id, &f->a, &sb, &err), 0);
    return sb;
}

TEST(update_changes_all_of_it)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_sandbox out;
    const char *label = "new";
    struct cay_pair pair = {"K", "v"};
    struct cay_strs labels = {.at = &label, .count = 1};
    struct cay_pairs pairs = {.at = &pair, .count = 1};
    int64_t timeout_ms = 7200000, idle_ms = 60000, lease_ms = 30000;
    uint32_t cpu = 2000;
    uint64_t memory = 2 * CAY_MIN_MEMORY_BYTES, disk = 2 * CAY_MIN_DISK_BYTES;
    struct cay_change change = {.name = "other",
                                .labels = &labels,
                                .tags = &pairs,
                                .env = &pairs,
                                .timeout_ms = &timeout_ms,
                                .idle_ms = &idle_ms,
                                .lease_ms = &lease_ms,
                                .cpu_milli = &cpu,
                                .memory_bytes = &memory,
                                .disk_bytes = &disk};
    fixture_open(&f);
    struct cay_sandbox made = fixture_create(&f, "box", false);
    CHECK_EQ("update", cay_core_update(f.core, &f.me, "box", &change, &f.a, &out, &err), 0);
    struct cay_sandbox sb = row(&f, made.id);
    CHECK_STR("name", sb.spec.name, "other");
    CHECK_STR("label", sb.spec.labels.at[0], "new");
    CHECK_STR("variable", sb.spec.env.at[0].value, "v");
    CHECK_EQ("cpu", sb.spec.cpu_milli, 2000);
    CHECK_EQ("the end is the start and the time", sb.expires_at_ms - sb.started_at_ms, 7200000);
    CHECK_EQ("idle", sb.spec.idle_ms, 60000);
    CHECK_EQ("lease", sb.spec.lease_ms, 30000);
    CHECK_EQ("it has its memory", cay_provider_fake_memory(f.provider, made.id), memory);
    CHECK_EQ("by its new name", cay_core_get(f.core, &f.me, "other", &f.a, &out, &err), 0);
    CHECK_EQ("nothing named",
             cay_core_update(f.core, &f.me, "other", &(struct cay_change){0}, &f.a, &out, &err), 0);
    CHECK_EQ("stays", row(&f, made.id).spec.memory_bytes, memory);
    fixture_close(&f);
}

TEST(update_is_all_or_nothing)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_sandbox out;
    uint64_t memory = 2 * CAY_MIN_MEMORY_BYTES;
    int64_t gone_ms = 1, bad_ms = -5;
    struct cay_change grow = {.name = "taken", .memory_bytes = &memory};
    fixture_open(&f);
    struct cay_sandbox made = fixture_create(&f, "box", false);
    fixture_create(&f, "taken", false);
    CHECK_EQ("a name that is taken", cay_core_update(f.core, &f.me, "box", &grow, &f.a, &out, &err),
             CAY_ERR_CONFLICT);
    CHECK_STR("says so", cay_error_name(&err), "NAME_TAKEN");
    CHECK_EQ("the memory is taken back", cay_provider_fake_memory(f.provider, made.id),
             CAY_MIN_MEMORY_BYTES);
    CHECK_STR("the row stays", row(&f, made.id).spec.name, "box");

    grow.name = "free";
    cay_provider_fake_hold(f.provider, made.id, 4 * CAY_MIN_MEMORY_BYTES);
    CHECK_EQ("less than it uses", cay_core_update(f.core, &f.me, "box", &grow, &f.a, &out, &err),
             CAY_ERR_CONFLICT);
    CHECK_STR("says so", cay_error_name(&err), "MEMORY_IN_USE");
    CHECK_STR("the row stays", row(&f, made.id).spec.name, "box");

    struct cay_change time = {.name = "free", .timeout_ms = &gone_ms};
    struct timespec pause = {.tv_nsec = 3000000};
    nanosleep(&pause, NULL); /* so that a millisecond is over */
    CHECK_EQ("a time that is over", cay_core_update(f.core, &f.me, "box", &time, &f.a, &out, &err),
             CAY_ERR_CONFLICT);
    CHECK_STR("says so", cay_error_name(&err), "TIMEOUT_PASSED");
    time.timeout_ms = &bad_ms;
    CHECK_EQ("no time at all", cay_core_update(f.core, &f.me, "box", &time, &f.a, &out, &err),
             CAY_ERR_INVALID);
    CHECK_STR("the row stays", row(&f, made.id).spec.name, "box");
    CHECK_EQ("a stranger", cay_core_update(f.core, &f.other, made.id, &time, &f.a, &out, &err),
             CAY_ERR_FORBIDDEN);
    CHECK_EQ("delete",
             cay_core_delete(f.core, &f.me, "box", CAY_WORKSPACE_AS_IT_IS, &f.a, &out, &err), 0);
    CHECK_EQ("what is gone", cay_core_update(f.core, &f.me, made.id, &time, &f.a, &out, &err),
             CAY_ERR_CONFLICT);
    fixture_close(&f);
}

TEST(update_that_cannot_be_written_is_taken_back)
{
    struct cay_error err = {0};
    uint64_t memory = 2 * CAY_MIN_MEMORY_BYTES;
    struct cay_change grow = {.name = "free", .memory_bytes = &memory};
    for (int n = 1; n < 16; n++) {
        struct fixture f;
        struct cay_sandbox out;
        fixture_open(&f);
        struct cay_sandbox made = fixture_create(&f, "box", false);
        cay_store_fake_fail_at(f.store, n);
        int r = cay_core_update(f.core, &f.me, made.id, &grow, &f.a, &out, &err);
        cay_store_fake_fail_at(f.store, 0);
        bool whole = r == 0;
        CHECK_STR("row", row(&f, made.id).spec.name, whole ? "free" : "box");
        CHECK_EQ("and limits", cay_provider_fake_memory(f.provider, made.id),
                 (whole ? 2 : 1) * CAY_MIN_MEMORY_BYTES);
        fixture_close(&f);
        if (whole) {
            CHECK("some failed", n > 1);
            return;
        }
    }
    CHECK("it goes well in the end", false);
}

TEST(update_of_what_rests_counts_at_the_next_start)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_sandbox out;
    uint64_t memory = 2 * CAY_MIN_MEMORY_BYTES;
    int64_t timeout_ms = 5000;
    struct cay_change change = {.memory_bytes = &memory, .timeout_ms = &timeout_ms};
    fixture_open(&f);
    struct cay_sandbox made = fixture_create(&f, "box", true);
    CHECK_EQ("stop", cay_core_stop(f.core, &f.me, "box", 0, &f.a, &out, &err), 0);
    CHECK_EQ("update", cay_core_update(f.core, &f.me, "box", &change, &f.a, &out, &err), 0);
    CHECK_EQ("not yet", cay_provider_fake_memory(f.provider, made.id), CAY_MIN_MEMORY_BYTES);
    CHECK_EQ("no end", row(&f, made.id).expires_at_ms, 0);
    CHECK_EQ("start", cay_core_start(f.core, &f.me, "box", &f.a, &out, &err), 0);
    CHECK_EQ("now", cay_provider_fake_memory(f.provider, made.id), memory);
    CHECK_EQ("with its end", out.expires_at_ms - out.started_at_ms, 5000);
    fixture_close(&f);
}

TEST(extend_puts_off_and_never_takes_away)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_sandbox out;
    int64_t day_ms = 24 * 60 * 60 * 1000LL, second_ms = 1000, lease_ms = 9000, never = 0;
    int64_t too_long_ms = day_ms + 1;
    fixture_open(&f);
    struct cay_sandbox made = fixture_create(&f, "box", true);
    CHECK_EQ("extend", cay_core_extend(f.core, &f.me, "box", &day_ms, NULL, &f.a, &out, &err), 0);
    int64_t end_ms = out.expires_at_ms;
    CHECK("from now", end_ms > made.expires_at_ms && end_ms <= cay_clock_ms() + day_ms);
    CHECK_EQ("less", cay_core_extend(f.core, &f.me, "box", &second_ms, NULL, &f.a, &out, &err), 0);
    CHECK_EQ("takes nothing away", out.expires_at_ms, end_ms);
    CHECK_EQ("more than there is",
             cay_core_extend(f.core, &f.me, "box", &too_long_ms, NULL, &f.a, &out, &err),
             CAY_ERR_INVALID);
    CHECK_EQ("lease", cay_core_extend(f.core, &f.me, "box", NULL, &lease_ms, &f.a, &out, &err), 0);
    CHECK_EQ("is another", row(&f, made.id).spec.lease_ms, 9000);
    CHECK_EQ("for ever", cay_core_extend(f.core, &f.me, "box", &never, NULL, &f.a, &out, &err), 0);
    CHECK_EQ("no end", row(&f, made.id).expires_at_ms, 0);
    CHECK_EQ("stop", cay_core_stop(f.core, &f.me, "box", 0, &f.a, &out, &err), 0);
    CHECK_EQ("what rests", cay_core_extend(f.core, &f.me, "box", &day_ms, NULL, &f.a, &out, &err),
             CAY_ERR_CONFLICT);
    fixture_close(&f);
}

TEST(update_after_the_clock_was_set_counts_from_the_same_moment)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_sandbox out;
    int64_t hour_ms = 3600000, timeout_ms = 600000;
    struct cay_change change = {.timeout_ms = &timeout_ms};
    fixture_open(&f);
    struct cay_sandbox made = fixture_create(&f, "box", false);
    cay_keeper_shift(f.core, -hour_ms);
    struct cay_sandbox sb = row(&f, made.id);
    CHECK_EQ("the end moved", sb.expires_at_ms, made.expires_at_ms - hour_ms);
    CHECK_EQ("the start too", sb.started_at_ms, made.started_at_ms - hour_ms);
    cay_keeper_shift(f.core, hour_ms);
    CHECK_EQ("update", cay_core_update(f.core, &f.me, "box", &change, &f.a, &out, &err), 0);
    CHECK_EQ("from its start", out.expires_at_ms, made.started_at_ms + timeout_ms);
    fixture_close(&f);
}
