/* SPDX-License-Identifier: Apache-2.0 */
#include "core/keeper.h"
#include "core/reconcile.h"
#include "tests/fixture.h"

static int begin(struct fixture *f, const char *name, struct cay_sandbox *out,
                 struct cay_error *err)
{
    struct cay_spec spec = cay_spec_default();
    spec.name = name;
    spec.memory_bytes = CAY_MIN_MEMORY_BYTES;
    cay_strs_push(&f->a, &spec.start, "sleep");
    return cay_core_begin_create(f->core, &f->me, &spec, &f->a, out, NULL, err);
}

static struct cay_sandbox row(struct fixture *f, const char *id)
{
    struct cay_error err = {0};
    struct cay_sandbox sb = {0};
    CHECK_EQ("the row is there", cay_core_get(f->core, &f->me, id, &f->a, &sb, &err), 0);
    return sb;
}

static void pass(struct fixture *f)
{
    struct cay_error err = {0};
    CHECK_EQ("reconcile", cay_reconcile(f->core, true, &err), 0);
}

TEST(maker_answers_first)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_sandbox sb;
    fixture_open(&f);
    CHECK_EQ("begins", begin(&f, "box", &sb, &err), 0);
    CHECK_EQ("pending", sb.state, CAY_PENDING);
    CHECK_EQ("made", fixture_state(&f, sb.id), CAY_RUNNING);
    CHECK("with its start command", row(&f, sb.id).start_exec[0] != 0);
    CHECK_EQ("a name that is taken is told at once", begin(&f, "box", &sb, &err), CAY_ERR_CONFLICT);
    CHECK_EQ("and nothing is left of that", fixture_rows(&f), 1);
    CHECK_EQ("nor counted", f.core->maker.count, 0);
    fixture_close(&f);
}

/* Every call of the provider fails once: each time the row stays and tells it, and nothing else is
 * there, however often it is looked at. */
TEST(maker_leaves_the_row_of_what_failed)
{
    struct fixture f;
    fixture_open(&f);
    for (int n = 1; n < 20; n++) {
        struct cay_error err = {0};
        struct cay_sandbox sb;
        cay_provider_fake_fail_at(f.provider, n);
        CHECK_EQ("answered", begin(&f, "box", &sb, &err), 0);
        bool failed = cay_provider_fake_failed(f.provider);
        cay_provider_fake_fail_at(f.provider, 0);
        if (!failed) {
            CHECK("at least two steps can fail", n > 2);
            CHECK_EQ("made", fixture_state(&f, "box"), CAY_RUNNING);
            break;
        }
        for (int i = 0; i < 2; i++) {
            struct cay_sandbox seen = row(&f, sb.id);
            CHECK_EQ("in error", seen.state, CAY_ERROR);
            CHECK("with the reason",
                  seen.status_reason && strstr(seen.status_reason, "as ordered"));
            CHECK_EQ("never started", seen.started_at_ms, 0);
            CHECK_EQ("no sandbox", cay_provider_fake_count(f.provider), 0);
            pass(&f);
        }
        CHECK_EQ("start", cay_core_start(f.core, &f.me, sb.id, &f.a, &sb, &err), CAY_ERR_CONFLICT);
        CHECK_EQ("delete",
                 cay_core_delete(f.core, &f.me, sb.id, CAY_WORKSPACE_AS_IT_IS, &f.a, &sb, &err), 0);
    }
    fixture_close(&f);
}

TEST(maker_says_so_when_the_row_can_not_be_written)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_sandbox sb;
    fixture_open(&f);
    cay_store_fake_fail_at(f.store, 1);
    CHECK_EQ("refused", begin(&f, "box", &sb, &err), CAY_ERR_STORE);
    CHECK_EQ("no sandbox", cay_provider_fake_count(f.provider), 0);
    CHECK_EQ("no row", fixture_rows(&f), 0);
    fixture_close(&f);
}

/* As a crash between the answer and the end of the create left it. */
TEST(reconcile_tells_of_a_broken_create_that_was_answered)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_sandbox sb;
    fixture_open(&f);
    CHECK_EQ("begins", begin(&f, "box", &sb, &err), 0);
    CHECK_EQ("as it was", cay_store_update(f.store, &sb, CAY_NOW, &err), 0);
    CHECK_EQ("pending", fixture_state(&f, sb.id), CAY_PENDING);
    pass(&f);
    CHECK_EQ("in error", fixture_state(&f, sb.id), CAY_ERROR);
    CHECK_STR("with the reason", row(&f, sb.id).status_reason,
              "the server ended before the sandbox was made");
    CHECK_EQ("no sandbox", cay_provider_fake_count(f.provider), 0);

    cay_provider_fake_add(f.provider, sb.id, 1); /* what an undo could not take back */
    pass(&f);
    CHECK_EQ("taken back now", cay_provider_fake_count(f.provider), 0);
    CHECK_EQ("the row stays", fixture_state(&f, sb.id), CAY_ERROR);

    struct cay_sandbox gone = row(&f, sb.id);
    gone.state = CAY_PENDING; /* a delete that a crash cut */
    gone.death.reason = gone.death.removal = "deleted";
    CHECK_EQ("the intent", cay_store_update(f.store, &gone, CAY_NOW, &err), 0);
    pass(&f);
    CHECK_EQ("a delete is a delete", fixture_state(&f, sb.id), CAY_TERMINATED);
    fixture_close(&f);
}

TEST(maker_is_bounded)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_sandbox sb;
    struct cay_maker_job *jobs[CAY_MAKER_JOBS];
    fixture_open(&f);
    for (size_t i = 0; i < COUNT(jobs); i++) {
        char id[CAY_ID_SIZE];
        cay_id_sandbox(id);
        jobs[i] = cay_maker_reserve(f.core, id, "me", &(struct cay_spec_source){0}, &err);
        CHECK("there is room", jobs[i] != NULL);
    }
    CHECK_EQ("one too many", begin(&f, "box", &sb, &err), CAY_ERR_UNAVAILABLE);
    CHECK_STR("by name", cay_error_name(&err), "TOO_MANY_CREATES");
    CHECK_EQ("no row", fixture_rows(&f), 0);
    for (size_t i = 0; i < COUNT(jobs); i++)
        cay_maker_cancel(f.core, jobs[i]);
    CHECK_EQ("room again", begin(&f, "box", &sb, &err), 0);
    fixture_close(&f);
}

/* What was answered before a stop is made, as long as that takes no time. */
TEST(maker_works_off_at_close)
{
    enum { MANY = 40 };
    struct fixture f;
    struct cay_error err = {0};
    struct cay_sandbox sb[MANY];
    fixture_open(&f);
    CHECK_EQ("keep", cay_core_keep(f.core, &err), 0);
    for (int i = 0; i < MANY; i++)
        CHECK_EQ("begins", begin(&f, NULL, &sb[i], &err), 0);
    cay_maker_done(f.core);
    for (int i = 0; i < MANY; i++)
        CHECK_EQ("made", fixture_state(&f, sb[i].id), CAY_RUNNING);
    cay_maker_init(&f.core->maker); /* close ends it a second time */
    fixture_close(&f);
}
