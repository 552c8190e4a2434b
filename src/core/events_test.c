/* SPDX-License-Identifier: Apache-2.0 */
#include "log/events.h"
#include "tests/fixture.h"

/* The types since an offset, as "created paused …". */
static const char *types(struct fixture *f, uint64_t *from)
{
    struct cay_error err = {0};
    CAY_AUTO_FD int fd = -1;
    CAY_AUTO_BUF struct cay_buf out = {0};
    const char *line;
    size_t len;
    CHECK_EQ("open", cay_core_events(f->core, &f->me, &fd, &err), 0);
    struct cay_events_reader r = {.fd = fd, .offset = *from};
    while (cay_events_next(&r, &line, &len) == CAY_EVENTS_LINE) {
        const char *word = line + strlen("{\"type\":\"");
        cay_buf_addf(&out, "%s%.*s", out.len ? " " : "", (int)strcspn(word, "\""), word);
    }
    *from = r.offset;
    cay_events_reader_done(&r);
    return cay_arena_strndup(&f->a, out.data ? out.data : "", out.len);
}

TEST(events_tell_a_life)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_sandbox sb;
    struct cay_kept kept;
    struct cay_snapshot_wish wish = {.name = "s"};
    uint64_t at = 0;
    fixture_open(&f);
    fixture_create(&f, "one", false);
    CHECK_STR("made", types(&f, &at), "created");
    CHECK_EQ("pause", cay_core_pause(f.core, &f.me, "one", &f.a, &sb, &err), 0);
    CHECK_EQ("again", cay_core_pause(f.core, &f.me, "one", &f.a, &sb, &err), 0);
    CHECK_EQ("resume", cay_core_resume(f.core, &f.me, "one", &f.a, &sb, &err), 0);
    CHECK_EQ("snapshot", cay_core_snapshot(f.core, &f.me, "one", &wish, &f.a, &kept, &err), 0);
    CHECK_STR("only what changed", types(&f, &at), "paused running snapshot");
    CHECK_EQ("stop", cay_core_stop(f.core, &f.me, "one", 0, &f.a, &sb, &err), 0);
    CHECK_EQ("start", cay_core_start(f.core, &f.me, "one", &f.a, &sb, &err), 0);
    CHECK_EQ("delete",
             cay_core_delete(f.core, &f.me, "one", CAY_WORKSPACE_AS_IT_IS, &f.a, &sb, &err), 0);
    CHECK_STR("to its end", types(&f, &at), "stopped running terminated");
    fixture_close(&f);
}

TEST(events_tell_nothing_of_what_failed)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_spec spec = cay_spec_default();
    struct cay_sandbox sb;
    uint64_t at = 0;
    fixture_open(&f);
    spec.memory_bytes = CAY_MIN_MEMORY_BYTES;
    for (int i = 1; i <= 2; i++) {
        cay_store_fake_fail_at(f.store, i);
        CHECK("fails", cay_core_create(f.core, &f.me, &spec, &f.a, &sb, &err) < 0);
    }
    CHECK_STR("nothing", types(&f, &at), "");
    fixture_close(&f);
}

TEST(events_tell_of_deaths)
{
    struct fixture f;
    struct cay_error err = {0};
    uint64_t at = 0;
    fixture_open(&f);
    struct cay_sandbox sb = fixture_create(&f, "one", false);
    struct cay_death death = {.reason = "oom"};
    (void)types(&f, &at);
    CHECK_EQ("dies", cay_core_died_held(f.core, &sb, &death, 0, &f.a, &err), 0);
    CHECK_STR("told", types(&f, &at), "error");
    fixture_close(&f);
}
