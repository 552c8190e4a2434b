/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/clock.h"
#include "core/keeper.h"
#include "core/kept.h"
#include "core/reconcile.h"
#include "log/files.h"
#include "log/reader.h"
#include "tests/fixture.h"

#define ORPHAN "sn-orphanorphanorphan00"

static struct cay_sandbox create(struct fixture *f, const char *name, const char *from,
                                 const char *volume, int want, struct cay_error *err)
{
    struct cay_spec spec = cay_spec_default();
    struct cay_sandbox sb = {0};
    spec.name = name;
    spec.memory_bytes = CAY_MIN_MEMORY_BYTES;
    spec.from = from;
    spec.volume = volume;
    if (from)
        spec.image = NULL;
    *err = (struct cay_error){0};
    CHECK_EQ(name, cay_core_create(f->core, &f->me, &spec, &f->a, &sb, err), want);
    return sb;
}

static void put_word(struct fixture *f, const char *id, const char *word)
{
    struct cay_execution ex;
    struct cay_error err = {0};
    CHECK_EQ("write", fixture_exec(f, id, "write", word, &ex, &err), 0);
}

/* "root work", as the fake remembers them. */
static const char *words(struct fixture *f, const char *id)
{
    int fd = -1;
    struct cay_execution ex;
    struct cay_error err = {0};
    struct cay_record rec;
    struct cay_reader reader;
    CAY_AUTO_BUF struct cay_buf text = {0};
    CHECK_EQ("read", fixture_exec(f, id, "read", NULL, &ex, &err), 0);
    CHECK_EQ("log", cay_log_open(f->core->logs_fd, ex.sandbox_id, ex.id, &fd, &err), 0);
    cay_reader_init(&reader, fd, 0);
    while (cay_reader_next(&reader, &rec, &err) == CAY_READ_RECORD)
        if (rec.kind == CAY_RECORD_STDOUT)
            cay_buf_add(&text, rec.data, rec.len);
    cay_reader_done(&reader);
    return cay_arena_strndup(&f->a, text.data ? text.data : "", text.len ? text.len - 1 : 0);
}

static int fork_some(struct fixture *f, const char *id, const char *name, size_t count,
                     struct cay_sandbox_list *out, struct cay_error *err)
{
    struct cay_sandbox source;
    *err = (struct cay_error){0};
    int r = cay_core_get(f->core, &f->me, id, &f->a, &source, err);
    if (r < 0)
        return r;
    struct cay_spec spec = cay_spec_fork(&source.spec);
    spec.name = name;
    return cay_core_fork(f->core, &f->me, id, &spec, count, &f->a, out, err);
}

static struct cay_kept snapshot(struct fixture *f, const char *id, int64_t expires_at_ms)
{
    struct cay_error err = {0};
    struct cay_kept kept = {0};
    struct cay_snapshot_wish wish = {.name = "title", .expires_at_ms = expires_at_ms};
    CHECK_EQ("snapshot", cay_core_snapshot(f->core, &f->me, id, &wish, &f->a, &kept, &err), 0);
    return kept;
}

static size_t kept_rows(struct fixture *f)
{
    struct cay_error err = {0};
    struct cay_kept_list rows = {0};
    CHECK_EQ("rows are read", cay_store_kept_all(f->store, &f->a, &rows, &err), 0);
    return rows.count;
}

static int get_kept(struct fixture *f, enum cay_kept_kind kind, const char *id,
                    struct cay_kept *out)
{
    struct cay_error err = {0};
    return cay_core_kept(f->core, &f->me, kind, id, &f->a, out, &err);
}

static int delete (struct fixture *f, const char *id, enum cay_workspace workspace)
{
    struct cay_sandbox gone;
    struct cay_error err = {0};
    return cay_core_delete(f->core, &f->me, id, workspace, &f->a, &gone, &err);
}

static int reconcile(struct fixture *f, bool at_start)
{
    struct cay_error err = {0};
    return cay_reconcile(f->core, at_start, &err);
}

TEST(fork_begins_with_the_files_of_its_source)
{
    struct fixture f;
    struct cay_error err;
    struct cay_sandbox_list forks = {0};
    fixture_open(&f);
    struct cay_sandbox box = fixture_create(&f, "box", false);
    put_word(&f, "box", "one");
    CHECK_EQ("fork", fork_some(&f, "box", NULL, 1, &forks, &err), 0);
    CHECK_STR("from", forks.at[0].spec.from, box.id);
    CHECK_STR("how", forks.at[0].copied.method, "copy");
    CHECK("a name of its own", strcmp(forks.at[0].spec.name, "box") != 0);
    CHECK_EQ("runs", fixture_state(&f, forks.at[0].id), CAY_RUNNING);
    put_word(&f, "box", "two");
    CHECK_STR("as it was", words(&f, forks.at[0].id), "one one");
    CHECK_EQ("by name", fork_some(&f, "box", "twin", 12, &forks, &err), 0);
    CHECK_EQ("all", forks.count, 12);
    CHECK_STR("numbered", forks.at[11].spec.name, "twin-12");
    CHECK_STR("with the files", words(&f, "twin-12"), "two two");
    CHECK_EQ("the source goes", delete (&f, "box", CAY_WORKSPACE_AS_IT_IS), 0);
    CHECK_STR("its fork stays", words(&f, "twin-1"), "two two");
    CHECK_EQ("nobody is left to fork", fork_some(&f, box.id, NULL, 1, &forks, &err),
             CAY_ERR_CONFLICT);
    CHECK_STR("says why", cay_error_name(&err), "INVALID_STATE");
    fixture_close(&f);
}

static void fork_walk(bool in_store, const char *what)
{
    struct fixture f;
    struct cay_sandbox_list forks;
    struct cay_error err;
    fixture_open(&f);
    fixture_create(&f, "box", false);
    for (int n = 2;; n++) { /* the first read is our own */
        if (in_store)
            cay_store_fake_fail_at(f.store, n);
        else
            cay_provider_fake_fail_at(f.provider, n - 1);
        int r = fork_some(&f, "box", "twin", 5, &forks, &err);
        cay_store_fake_fail_at(f.store, 0);
        cay_provider_fake_fail_at(f.provider, 0);
        if (r == 0) {
            CHECK("many steps can fail", n > 5);
            CHECK_EQ(what, fixture_rows(&f), 6);
            break;
        }
        CHECK_EQ(what, r, in_store ? CAY_ERR_STORE : CAY_ERR_PROVIDER);
        CHECK_EQ(what, fixture_rows(&f), 1);
        CHECK_EQ(what, cay_provider_fake_count(f.provider), 1);
        CHECK_EQ("the source runs", fixture_state(&f, "box"), CAY_RUNNING);
        if (n > 60)
            break;
    }
    fixture_close(&f);
}

TEST(fork_is_all_or_nothing_when_the_store_fails)
{
    fork_walk(true, "store");
}

TEST(fork_is_all_or_nothing_when_the_provider_fails)
{
    fork_walk(false, "provider");
}

TEST(fork_refuses_what_cannot_be)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_sandbox_list forks;
    fixture_open(&f);
    struct cay_sandbox box = fixture_create(&f, "box", false);
    struct cay_spec spec = cay_spec_fork(&box.spec);
    CHECK_EQ("none", cay_core_fork(f.core, &f.me, "box", &spec, 0, &f.a, &forks, &err),
             CAY_ERR_INVALID);
    CHECK_EQ("too many", cay_core_fork(f.core, &f.me, "box", &spec, 101, &f.a, &forks, &err),
             CAY_ERR_INVALID);
    CHECK_STR("by name", err.field, "count");
    CHECK_EQ("a stranger's", cay_core_fork(f.core, &f.other, box.id, &spec, 1, &f.a, &forks, &err),
             CAY_ERR_FORBIDDEN);
    spec.image = "debian:bookworm";
    CHECK_EQ("another image", cay_core_fork(f.core, &f.me, "box", &spec, 1, &f.a, &forks, &err),
             CAY_ERR_INVALID);
    CHECK_STR("by name", err.field, "dockerImage");
    spec = cay_spec_fork(&box.spec);
    spec.volume = "vo-00000000000000000000";
    CHECK_EQ("a volume for two", cay_core_fork(f.core, &f.me, "box", &spec, 2, &f.a, &forks, &err),
             CAY_ERR_INVALID);
    cay_provider_fake_vanish(f.provider, box.id);
    CHECK_EQ("its files are gone", fork_some(&f, "box", NULL, 1, &forks, &err), CAY_ERR_CONFLICT);
    CHECK_STR("by name", cay_error_name(&err), "SANDBOX_GONE");
    CHECK_EQ("nothing was made", fixture_rows(&f), 1);
    fixture_close(&f);
}

TEST(hold_shared_by_some_is_nobodys_alone)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_hold one = {0}, two = {0}, alone = {0};
    fixture_open(&f);
    CHECK_EQ("shared", cay_hold_share(&f.core->holds, "x", &one, &err), 0);
    CHECK_EQ("by two", cay_hold_share(&f.core->holds, "x", &two, &err), 0);
    CHECK("not alone", !cay_hold_try(&f.core->holds, "x", &alone));
    cay_hold_end(&one);
    CHECK("one is left", !cay_hold_try(&f.core->holds, "x", &alone));
    cay_hold_end(&two);
    CHECK("alone", cay_hold_try(&f.core->holds, "x", &alone));
    cay_hold_end(&alone);
    fixture_close(&f);
}

static void snapshot_walk(bool in_store, const char *what)
{
    struct fixture f;
    fixture_open(&f);
    fixture_create(&f, "box", false);
    for (int n = 1; n < 20; n++) {
        struct cay_error err = {0};
        struct cay_kept kept;
        if (in_store)
            cay_store_fake_fail_at(f.store, n);
        else
            cay_provider_fake_fail_at(f.provider, n);
        int r = cay_core_snapshot(f.core, &f.me, "box", &(struct cay_snapshot_wish){0}, &f.a, &kept,
                                  &err);
        cay_store_fake_fail_at(f.store, 0);
        cay_provider_fake_fail_at(f.provider, 0);
        if (r == 0) {
            CHECK("a step can fail", n > 1);
            CHECK_EQ(what, kept_rows(&f), 1);
            break;
        }
        CHECK_EQ(what, r, in_store ? CAY_ERR_STORE : CAY_ERR_PROVIDER);
        CHECK_EQ(what, kept_rows(&f), 0);
        CHECK_EQ(what, cay_provider_fake_kept_count(f.provider), 0);
    }
    fixture_close(&f);
}

TEST(snapshot_leaves_nothing_when_the_store_fails)
{
    snapshot_walk(true, "store");
}

TEST(snapshot_leaves_nothing_when_the_provider_fails)
{
    snapshot_walk(false, "provider");
}

TEST(snapshot_makes_sandboxes)
{
    struct fixture f;
    struct cay_error err;
    struct cay_kept got;
    fixture_open(&f);
    struct cay_sandbox box = fixture_create(&f, "box", false);
    put_word(&f, "box", "then");
    struct cay_kept kept = snapshot(&f, "box", 0);
    CHECK_STR("of it", kept.sandbox_id, box.id);
    CHECK_STR("how", kept.method, "copy");
    CHECK("how much", kept.size_bytes > 0);
    put_word(&f, "box", "now");
    CHECK_EQ("the source goes", delete (&f, "box", CAY_WORKSPACE_AS_IT_IS), 0);
    struct cay_sandbox made = create(&f, "made", kept.id, NULL, 0, &err);
    CHECK_STR("as it was", words(&f, "made"), "then then");
    CHECK_STR("its image", made.spec.image, box.spec.image);
    CHECK_EQ("removed",
             cay_core_kept_delete(f.core, &f.me, CAY_SNAPSHOT, kept.id, &f.a, &got, &err), 0);
    CHECK_STR("what was made of it stays", words(&f, "made"), "then then");
    CHECK_EQ("gone", get_kept(&f, CAY_SNAPSHOT, kept.id, &got), CAY_ERR_NOT_FOUND);
    create(&f, "late", kept.id, NULL, CAY_ERR_NOT_FOUND, &err);
    CHECK_STR("by name", cay_error_name(&err), "SNAPSHOT_NOT_FOUND");
    CHECK_STR("and field", err.field, "source");
    create(&f, "forged", made.id, NULL, CAY_ERR_NOT_FOUND, &err);
    CHECK_EQ("one sandbox", cay_provider_fake_count(f.provider), 1);
    fixture_close(&f);
}

TEST(kept_belongs_to_somebody)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_kept got;
    struct cay_sandbox sb;
    struct cay_spec spec = cay_spec_default();
    fixture_open(&f);
    fixture_create(&f, "box", false);
    struct cay_kept kept = snapshot(&f, "box", 0);
    spec.memory_bytes = CAY_MIN_MEMORY_BYTES;
    spec.from = kept.id;
    CHECK_EQ("a stranger makes", cay_core_create(f.core, &f.other, &spec, &f.a, &sb, &err),
             CAY_ERR_FORBIDDEN);
    CHECK_EQ("looks", cay_core_kept(f.core, &f.other, CAY_SNAPSHOT, kept.id, &f.a, &got, &err),
             CAY_ERR_FORBIDDEN);
    CHECK_EQ("removes",
             cay_core_kept_delete(f.core, &f.other, CAY_SNAPSHOT, kept.id, &f.a, &got, &err),
             CAY_ERR_FORBIDDEN);
    spec.image = "debian:bookworm";
    CHECK_EQ("another image", cay_core_create(f.core, &f.me, &spec, &f.a, &sb, &err),
             CAY_ERR_INVALID);
    CHECK_STR("by name", err.field, "dockerImage");
    CHECK_EQ("as a volume", get_kept(&f, CAY_VOLUME, kept.id, &got), CAY_ERR_NOT_FOUND);
    CHECK_EQ("it is there", get_kept(&f, CAY_SNAPSHOT, kept.id, &got), 0);
    fixture_close(&f);
}

TEST(snapshot_goes_when_it_is_due)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_kept got;
    fixture_open(&f);
    fixture_create(&f, "box", false);
    int64_t end_ms = cay_clock_ms() + 60000;
    struct cay_snapshot_wish past = {.expires_at_ms = 1};
    struct cay_kept due = snapshot(&f, "box", end_ms), stays = snapshot(&f, "box", 0);
    CHECK_EQ("in the past", cay_core_snapshot(f.core, &f.me, "box", &past, &f.a, &got, &err),
             CAY_ERR_INVALID);
    CHECK_STR("by name", err.field, "expiresAt");
    cay_core_expire_kept(f.core, end_ms - 1);
    CHECK_EQ("not yet", get_kept(&f, CAY_SNAPSHOT, due.id, &got), 0);
    struct cay_hold hold = {0};
    CHECK_EQ("somebody makes a sandbox of it", cay_hold_share(&f.core->holds, due.id, &hold, &err),
             0);
    cay_core_expire_kept(f.core, end_ms);
    CHECK_EQ("it waits", get_kept(&f, CAY_SNAPSHOT, due.id, &got), 0);
    cay_hold_end(&hold);
    cay_core_expire_kept(f.core, end_ms);
    CHECK_EQ("gone", get_kept(&f, CAY_SNAPSHOT, due.id, &got), CAY_ERR_NOT_FOUND);
    CHECK_EQ("the other stays", get_kept(&f, CAY_SNAPSHOT, stays.id, &got), 0);
    CHECK_EQ("files", cay_provider_fake_kept_count(f.provider), 1);
    fixture_close(&f);
}

/* A volume with a word in it. */
static const char *make_volume(struct fixture *f, const char *word)
{
    struct cay_sandbox gone = {0};
    struct cay_error err = {0};
    fixture_create(f, "origin", false);
    put_word(f, "origin", word);
    CHECK_EQ("kept",
             cay_core_delete(f->core, &f->me, "origin", CAY_WORKSPACE_KEPT, &f->a, &gone, &err), 0);
    CHECK("an id", cay_id_is_volume(gone.keeps));
    return cay_arena_strdup(&f->a, gone.keeps);
}

static const char *holder(struct fixture *f, const char *id)
{
    struct cay_kept kept = {0};
    CHECK_EQ("the volume is there", get_kept(f, CAY_VOLUME, id, &kept), 0);
    return cay_arena_strdup(&f->a, kept.sandbox_id);
}

TEST(volume_is_promised_on_the_disk)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_sandbox gone;
    fixture_open(&f);
    fixture_create(&f, "origin", true);
    int before = cay_store_fake_synced(f.store);
    CHECK_EQ("deleted",
             cay_core_delete(f.core, &f.me, "origin", CAY_WORKSPACE_KEPT, &f.a, &gone, &err), 0);
    CHECK_EQ("synced before the files go, and at the end", cay_store_fake_synced(f.store) - before,
             2);
    fixture_close(&f);
}

TEST(volume_has_one_writer_at_a_time)
{
    struct fixture f;
    struct cay_error err;
    struct cay_kept got;
    fixture_open(&f);
    const char *volume = make_volume(&f, "work");
    CHECK_STR("free", holder(&f, volume), "");
    struct cay_sandbox one = create(&f, "one", NULL, volume, 0, &err);
    CHECK_STR("in it", words(&f, "one"), " work");
    CHECK_STR("taken", holder(&f, volume), one.id);
    create(&f, "two", NULL, volume, CAY_ERR_CONFLICT, &err);
    CHECK_STR("by name", cay_error_name(&err), "VOLUME_IN_USE");
    CHECK_STR("and field", err.field, "volume");
    CHECK("and by whom", strstr(err.msg, one.id) != NULL);
    CHECK_STR("still taken", holder(&f, volume), one.id);
    CHECK_EQ("not removed",
             cay_core_kept_delete(f.core, &f.me, CAY_VOLUME, volume, &f.a, &got, &err),
             CAY_ERR_CONFLICT);
    put_word(&f, "one", "more");
    CHECK_EQ("delete", delete (&f, "one", CAY_WORKSPACE_AS_IT_IS), 0);
    CHECK_STR("given back", holder(&f, volume), "");
    create(&f, "two", NULL, volume, 0, &err);
    CHECK_STR("with what was written", words(&f, "two"), " more");
    CHECK_EQ("delete", delete (&f, "two", CAY_WORKSPACE_GONE), 0);
    CHECK_EQ("gone with it", get_kept(&f, CAY_VOLUME, volume, &got), CAY_ERR_NOT_FOUND);
    CHECK_EQ("no files", cay_provider_fake_kept_count(f.provider), 0);
    create(&f, "three", NULL, volume, CAY_ERR_NOT_FOUND, &err);
    CHECK_STR("by name", cay_error_name(&err), "VOLUME_NOT_FOUND");
    CHECK_EQ("nothing is left", fixture_rows(&f), 0);
    fixture_close(&f);
}

TEST(volume_comes_back_from_a_create_that_fails)
{
    struct fixture f;
    struct cay_error err = {0};
    fixture_open(&f);
    const char *volume = make_volume(&f, "work");
    for (int n = 1; n < 20; n++) {
        struct cay_spec spec = cay_spec_default();
        struct cay_sandbox sb;
        spec.memory_bytes = CAY_MIN_MEMORY_BYTES;
        spec.volume = volume;
        cay_store_fake_fail_at(f.store, n);
        int r = cay_core_create(f.core, &f.me, &spec, &f.a, &sb, &err);
        cay_store_fake_fail_at(f.store, 0);
        if (r == 0) {
            CHECK("some steps can fail", n > 3);
            break;
        }
        CHECK_EQ("by the store", r, CAY_ERR_STORE);
        CHECK_EQ("no row", fixture_rows(&f), 0);
        CHECK_STR("free", holder(&f, volume), "");
    }
    fixture_close(&f);
}

TEST(volume_outlives_the_time_of_its_sandbox)
{
    struct fixture f;
    struct cay_error err;
    fixture_open(&f);
    const char *volume = make_volume(&f, "work");
    struct cay_sandbox one = create(&f, "one", NULL, volume, 0, &err);
    cay_keeper_expire(f.core, one.expires_at_ms + 1);
    CHECK_EQ("terminated", fixture_state(&f, one.id), CAY_TERMINATED);
    CHECK_STR("given back", holder(&f, volume), "");
    struct cay_sandbox two = create(&f, "two", NULL, volume, 0, &err);
    cay_provider_fake_die(f.provider, two.id, "host_restart", false);
    CHECK_EQ("pass", reconcile(&f, true), 0);
    CHECK_EQ("terminated", fixture_state(&f, two.id), CAY_TERMINATED);
    CHECK_STR("given back", holder(&f, volume), "");
    fixture_close(&f);
}

/* Nothing may be lost or doubled, whichever write or call fails; the next try works. */
static void keep_walk(bool in_store)
{
    for (int n = 1; n < 20; n++) {
        struct fixture f;
        struct cay_kept got;
        char volume[CAY_ID_SIZE];
        fixture_open(&f);
        struct cay_sandbox box = fixture_create(&f, "box", false);
        put_word(&f, "box", "work");
        cay_id_volume(volume, box.id);
        if (in_store)
            cay_store_fake_fail_at(f.store, n);
        else
            cay_provider_fake_fail_at(f.provider, n);
        int r = delete (&f, box.id, CAY_WORKSPACE_KEPT);
        cay_store_fake_fail_at(f.store, 0);
        cay_provider_fake_fail_at(f.provider, 0);
        if (n % 2) /* either of them mends it */
            CHECK_EQ("pass", reconcile(&f, true), 0);
        CHECK_EQ("again", delete (&f, box.id, CAY_WORKSPACE_KEPT), 0);
        CHECK_EQ("kept", get_kept(&f, CAY_VOLUME, volume, &got), 0);
        CHECK_EQ("no sandbox", cay_provider_fake_count(f.provider), 0);
        fixture_close(&f);
        if (r == 0 && n > 8)
            break;
    }
}

TEST(delete_that_keeps_the_workspace_survives_failures)
{
    keep_walk(true);
    keep_walk(false);
}

static const struct {
    const char *name;
    bool ready, there, of_sandbox; /* the row; the files; a sandbox that is gone has it */
    bool row_after;
} mends[] = {
    {"begun, and there", false, true, false, true},
    {"begun, and not there", false, false, false, false},
    {"there", true, true, false, true},
    {"lost", true, false, false, false},
    {"left by a sandbox", true, true, true, true},
    {"gone with its sandbox", true, false, true, false},
};

TEST(kept_reconcile_brings_rows_after_reality)
{
    for (size_t i = 0; i < COUNT(mends); i++) {
        struct fixture f;
        struct cay_error err = {0};
        struct cay_kept got;
        fixture_open(&f);
        struct cay_kept row = {.kind = CAY_VOLUME,
                               .ready = mends[i].ready,
                               .account_id = f.me.id,
                               .created_at_ms = 1,
                               .updated_at_ms = 1};
        cay_id_sandbox(row.sandbox_id);
        cay_id_volume(row.id, row.sandbox_id);
        if (!mends[i].of_sandbox)
            row.sandbox_id[0] = 0;
        CHECK_EQ("row", cay_store_kept_put(f.store, &row, CAY_NOW, &err), 0);
        if (mends[i].there)
            cay_provider_fake_keep(f.provider, row.id);
        CHECK_EQ(mends[i].name, reconcile(&f, false), 0);
        int r = get_kept(&f, CAY_VOLUME, row.id, &got);
        CHECK_EQ(mends[i].name, r, mends[i].row_after ? 0 : CAY_ERR_NOT_FOUND);
        CHECK_EQ(mends[i].name, kept_rows(&f), mends[i].row_after);
        if (r == 0)
            CHECK_STR(mends[i].name, got.sandbox_id, "");
        fixture_close(&f);
    }
}

TEST(kept_reconcile_leaves_what_is_in_use)
{
    struct fixture f;
    struct cay_error err;
    fixture_open(&f);
    const char *volume = make_volume(&f, "work");
    struct cay_sandbox one = create(&f, "one", NULL, volume, 0, &err);
    CHECK_EQ("pass", reconcile(&f, true), 0);
    CHECK_STR("still taken", holder(&f, volume), one.id);
    fixture_close(&f);
}

TEST(kept_reconcile_removes_orphans_with_care)
{
    struct fixture f;
    fixture_open(&f);
    cay_provider_fake_keep(f.provider, ORPHAN);
    CHECK_EQ("an empty store is not believed", reconcile(&f, true), CAY_ERR_STORE);
    CHECK_EQ("it stays", cay_provider_fake_kept_count(f.provider), 1);
    fixture_create(&f, "box", false);
    snapshot(&f, "box", 0);
    CHECK_EQ("pass", reconcile(&f, false), 0);
    CHECK_EQ("pass", reconcile(&f, false), 0);
    CHECK_EQ("no sooner than the grace is over", cay_provider_fake_kept_count(f.provider), 2);
    cay_provider_fake_fail_at(f.provider, 2);
    CHECK_EQ("unread", reconcile(&f, true), CAY_ERR_PROVIDER);
    CHECK_EQ("nothing by half", cay_provider_fake_kept_count(f.provider), 2);
    CHECK_EQ("pass at start", reconcile(&f, true), 0);
    CHECK_EQ("gone", cay_provider_fake_kept_count(f.provider), 1);
    CHECK_EQ("the other is not", kept_rows(&f), 1);
    fixture_close(&f);
}

/* F-02 with a volume: killed between destroy and the rows. */
TEST(reconcile_finishes_a_delete_that_keeps)
{
    struct fixture f;
    struct cay_error err = {0};
    fixture_open(&f);
    struct cay_sandbox box = fixture_create(&f, "box", false);
    box.has_death = true;
    box.death.reason = box.death.removal = "deleted";
    cay_id_volume(box.keeps, box.id);
    CHECK_EQ("the intent", cay_store_update(f.store, &box, CAY_NOW, &err), 0);
    CHECK_EQ("promised", cay_core_promise_volume(f.core, &box, &err), 0);
    CHECK_EQ("destroyed", cay_provider_destroy(f.provider, box.id, box.keeps, NULL, &err), 0);
    CHECK_EQ("pass", reconcile(&f, true), 0);
    CHECK_EQ("terminated", fixture_state(&f, box.id), CAY_TERMINATED);
    CHECK_STR("kept", holder(&f, box.keeps), "");
    CHECK_EQ("files", cay_provider_fake_kept_count(f.provider), 1);
    fixture_close(&f);
}

TEST(wake_starts_what_rests)
{
    struct cay_ticket *ticket;
    struct fixture f;
    struct cay_error err = {0};
    struct cay_sandbox sb;
    fixture_open(&f);
    fixture_create(&f, "rests", true);
    fixture_create(&f, "stopped", false);
    CHECK_EQ("stop", cay_core_stop(f.core, &f.me, "rests", 0, &f.a, &sb, &err), 0);
    CHECK_EQ("stop", cay_core_stop(f.core, &f.me, "stopped", 0, &f.a, &sb, &err), 0);
    CHECK_EQ("wake", cay_core_wake(f.core, &f.me, "rests", &f.a, &sb, &ticket, &err), 0);
    CHECK_EQ("it runs", sb.state, CAY_RUNNING);
    CHECK_EQ("wake again", cay_core_wake(f.core, &f.me, "rests", &f.a, &sb, &ticket, &err), 0);
    CHECK_EQ("wake", cay_core_wake(f.core, &f.me, "stopped", &f.a, &sb, &ticket, &err), 0);
    CHECK_EQ("as it was", sb.state, CAY_STOPPED);
    fixture_close(&f);
}
