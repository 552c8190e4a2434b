/* SPDX-License-Identifier: Apache-2.0 */
/* What every store must do with snapshots and volumes. Each test runs against each
 * implementation. */
#include "model/limits.h"
#include "tests/contract/stores.h"
#include <fcntl.h>

static struct cay_kept make(const char *account, enum cay_kept_kind kind, int64_t created_at_ms)
{
    struct cay_kept kept = {.kind = kind,
                            .ready = true,
                            .account_id = account,
                            .image = "debian:bookworm",
                            .created_at_ms = created_at_ms,
                            .updated_at_ms = created_at_ms};
    cay_id_snapshot(kept.id);
    if (kind == CAY_VOLUME)
        cay_id_volume(kept.id, kept.id);
    return kept;
}

static void put(struct cay_store *s, const struct cay_kept *kept)
{
    struct cay_error err = {0};
    CHECK_EQ("put", cay_store_kept_put(s, kept, CAY_NOW, &err), 0);
}

static void comes_back(struct cay_store *s, const char *store)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_error err = {0};
    struct cay_kept full = make("local", CAY_SNAPSHOT, 1794736080123), got = {0};
    full.ready = false;
    full.name = "before \"it\" \xC3\xA9";
    full.method = "copy";
    full.size_bytes = 1ULL << 40;
    full.copied_in_ms = 12;
    full.fingerprint = "ff";
    full.updated_at_ms++;
    full.expires_at_ms = 1794736080999;
    cay_id_sandbox(full.sandbox_id);
    put(s, &full);
    CHECK_EQ(store, cay_store_kept_get(s, "local", full.id, &a, &got, &err), 0);
    CHECK_STR(store, got.id, full.id);
    CHECK_EQ(store, got.kind, full.kind);
    CHECK_EQ(store, got.ready, full.ready);
    CHECK_STR(store, got.account_id, full.account_id);
    CHECK_STR(store, got.name, full.name);
    CHECK_STR(store, got.sandbox_id, full.sandbox_id);
    CHECK_STR(store, got.image, full.image);
    CHECK_STR(store, got.method, full.method);
    CHECK_EQ(store, got.size_bytes, full.size_bytes);
    CHECK_EQ(store, got.copied_in_ms, full.copied_in_ms);
    CHECK_STR(store, got.fingerprint, full.fingerprint);
    CHECK_EQ(store, got.created_at_ms, full.created_at_ms);
    CHECK_EQ(store, got.updated_at_ms, full.updated_at_ms);
    CHECK_EQ(store, got.expires_at_ms, full.expires_at_ms);

    full.ready = true;
    full.sandbox_id[0] = 0;
    full.method = NULL;
    full.expires_at_ms = 0;
    put(s, &full);
    CHECK_EQ(store, cay_store_kept_get(s, "local", full.id, &a, &got, &err), 0);
    CHECK(store, got.ready && !got.sandbox_id[0] && !got.method && got.expires_at_ms == 0);
    CHECK_EQ(store, got.created_at_ms, full.created_at_ms);
}

TEST(store_kept_comes_back_as_it_was)
{
    each_store(comes_back);
}

static void has_owners(struct cay_store *s, const char *store)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_error err = {0};
    struct cay_kept one = make("local", CAY_VOLUME, 1), got = {0};
    put(s, &one);
    CHECK_EQ(store, cay_store_kept_get(s, "other", one.id, &a, &got, &err), CAY_ERR_FORBIDDEN);
    struct cay_kept theft = one;
    theft.account_id = "other";
    theft.name = "stolen";
    (void)cay_store_kept_put(s, &theft, CAY_NOW, &err); /* refused or without effect */
    CHECK_EQ(store, cay_store_kept_get(s, "local", one.id, &a, &got, &err), 0);
    CHECK(store, got.name == NULL);
    CHECK_EQ(store, cay_store_kept_remove(s, one.id, CAY_NOW, &err), 0);
    CHECK_EQ(store, cay_store_kept_get(s, "local", one.id, &a, &got, &err), CAY_ERR_NOT_FOUND);
    CHECK_EQ(store, cay_store_kept_remove(s, one.id, CAY_NOW, &err), 0);
}

TEST(store_kept_has_owners)
{
    each_store(has_owners);
}

static void lists(struct cay_store *s, const char *store)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_error err = {0};
    struct cay_kept_list got;
    struct cay_kept old = make("local", CAY_SNAPSHOT, 1), young = make("local", CAY_SNAPSHOT, 2),
                    volume = make("local", CAY_VOLUME, 3), strange = make("other", CAY_SNAPSHOT, 4),
                    begun = make("local", CAY_SNAPSHOT, 5);
    cay_id_sandbox(old.sandbox_id);
    begun.ready = false;
    put(s, &old);
    put(s, &young);
    put(s, &volume);
    put(s, &strange);
    put(s, &begun);
    struct cay_kept_filter f = {
        .account_id = "local", .kind = CAY_SNAPSHOT, .page = 1, .per_page = 1};
    CHECK_EQ(store, cay_store_kept_list(s, &f, &a, &got, &err), 0);
    CHECK_EQ(store, got.total, 2);
    CHECK_EQ(store, got.count, 1);
    CHECK_STR(store, got.at[0].id, young.id);
    f.page = 2;
    CHECK_EQ(store, cay_store_kept_list(s, &f, &a, &got, &err), 0);
    CHECK_STR(store, got.at[0].id, old.id);
    f.page = 3;
    CHECK_EQ(store, cay_store_kept_list(s, &f, &a, &got, &err), 0);
    CHECK_EQ(store, got.count, 0);
    f.page = 1;
    f.sandbox_id = old.sandbox_id;
    CHECK_EQ(store, cay_store_kept_list(s, &f, &a, &got, &err), 0);
    CHECK_EQ(store, got.total, 1);
    CHECK_STR(store, got.at[0].id, old.id);
    f.kind = CAY_VOLUME;
    f.sandbox_id = NULL;
    CHECK_EQ(store, cay_store_kept_list(s, &f, &a, &got, &err), 0);
    CHECK_STR(store, got.at[0].id, volume.id);
    CHECK_EQ(store, cay_store_kept_all(s, &a, &got, &err), 0);
    CHECK_EQ(store, got.count, 5);
}

TEST(store_kept_lists_newest_first)
{
    each_store(lists);
}

static void due(struct cay_store *s, const char *store)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_error err = {0};
    struct cay_kept_list got;
    struct cay_kept never = make("local", CAY_SNAPSHOT, 1), soon = make("local", CAY_SNAPSHOT, 1),
                    later = make("other", CAY_SNAPSHOT, 1);
    soon.expires_at_ms = 100;
    later.expires_at_ms = 200;
    put(s, &never);
    put(s, &soon);
    put(s, &later);
    CHECK_EQ(store, cay_store_kept_due(s, 99, &a, &got, &err), 0);
    CHECK_EQ(store, got.count, 0);
    CHECK_EQ(store, cay_store_kept_due(s, 100, &a, &got, &err), 0);
    CHECK_EQ(store, got.count, 1);
    CHECK_STR(store, got.at[0].id, soon.id);
    CHECK_EQ(store, cay_store_kept_due(s, 1000, &a, &got, &err), 0);
    CHECK_EQ(store, got.count, 2);
}

TEST(store_kept_tells_what_is_due)
{
    each_store(due);
}
