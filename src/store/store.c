/* SPDX-License-Identifier: Apache-2.0 */
#include "store/store.h"
#include <stdatomic.h>
#include <string.h>

struct cay_metric cay_store_commits = {.name = "cay_store_commits_total",
                                       .help = "Transactions committed; writes share them."};
struct cay_metric cay_store_syncs = {.name = "cay_store_syncs_total",
                                     .help = "Commits that waited for the disk."};
struct cay_metric cay_store_writes = {.name = "cay_store_writes_total",
                                      .help = "Writes that were part of a commit."};
struct cay_metric cay_store_failures = {.name = "cay_store_failures_total",
                                        .help = "Transactions that could not be committed."};
struct cay_metric cay_store_waiting = {
    .name = "cay_store_queue", .help = "Writes that wait for their turn.", .goes_down = true};
struct cay_metric cay_store_wal_pages = {
    .name = "cay_store_wal_pages", .help = "Pages in the write-ahead log.", .goes_down = true};

static const struct cay_store_ops *const known[] = {
    &cay_store_sqlite,
    &cay_store_fake,
};

int cay_store_open(const char *name, const struct cay_config *cfg, struct cay_store **out,
                   struct cay_error *err)
{
    for (size_t i = 0; i < CAY_COUNT(known); i++)
        if (strcmp(known[i]->name, name) == 0)
            return known[i]->open(cfg, out, err);
    return cay_fail(err, CAY_ERR_INVALID, "no store named %s in this build", name);
}

void cay_store_close(struct cay_store *s)
{
    if (s)
        s->ops->close(s);
}

int cay_store_check(struct cay_store *s, char *version, size_t size, struct cay_error *err)
{
    return s->ops->check(s, version, size, err);
}

uint64_t cay_store_sync_begin(struct cay_store *s)
{
    return s->ops->sync_begin ? s->ops->sync_begin(s) : 0;
}

int cay_store_sync_end(struct cay_store *s, uint64_t wish, struct cay_error *err)
{
    return s->ops->sync_end ? s->ops->sync_end(s, wish, err) : 0;
}

int cay_store_insert(struct cay_store *s, const struct cay_sandbox *sb, enum cay_durable durable,
                     struct cay_error *err)
{
    return s->ops->insert(s, sb, durable, err);
}

static _Atomic uint64_t *changes_of(struct cay_store *s, const char *id)
{
    unsigned h = 2166136261u;
    for (; *id; id++)
        h = (h ^ (unsigned char)*id) * 16777619u;
    return &s->changes[h % CAY_STORE_CHANGES];
}

uint64_t cay_store_version(struct cay_store *s, const char *id)
{
    return atomic_load(changes_of(s, id)) + atomic_load(&s->access_changes);
}

/* What failed is counted as well: it may be there all the same. */
int cay_store_update(struct cay_store *s, const struct cay_sandbox *sb, enum cay_durable durable,
                     struct cay_error *err)
{
    int r = s->ops->update(s, sb, durable, err);
    atomic_fetch_add(changes_of(s, sb->id), 1);
    return r;
}

int cay_store_remove(struct cay_store *s, const char *id, enum cay_durable durable,
                     struct cay_error *err)
{
    int r = s->ops->remove(s, id, durable, err);
    atomic_fetch_add(changes_of(s, id), 1);
    return r;
}

int cay_store_get(struct cay_store *s, const char *account_id, const char *id_or_name,
                  struct cay_arena *a, struct cay_sandbox *out, struct cay_error *err)
{
    return s->ops->get(s, account_id, id_or_name, a, out, err);
}

int cay_store_list(struct cay_store *s, const struct cay_list_filter *filter, struct cay_arena *a,
                   struct cay_sandbox_list *out, struct cay_error *err)
{
    return s->ops->list(s, filter, a, out, err);
}

int cay_store_all(struct cay_store *s, struct cay_arena *a, struct cay_sandbox_list *out,
                  struct cay_error *err)
{
    return s->ops->all(s, a, out, err);
}

int cay_store_due(struct cay_store *s, int64_t now_ms, struct cay_arena *a,
                  struct cay_sandbox_list *out, struct cay_error *err)
{
    return s->ops->due(s, now_ms, a, out, err);
}

int cay_store_count(struct cay_store *s, int64_t by_state[CAY_STATES], struct cay_error *err)
{
    return s->ops->count(s, by_state, err);
}

int cay_store_was_used(struct cay_store *s, bool *out, struct cay_error *err)
{
    return s->ops->was_used(s, out, err);
}

int cay_store_forget(struct cay_store *s, int64_t before_ms, struct cay_error *err)
{
    return s->ops->forget(s, before_ms, err);
}

int cay_store_kept_put(struct cay_store *s, const struct cay_kept *kept, enum cay_durable durable,
                       struct cay_error *err)
{
    return s->ops->kept_put(s, kept, durable, err);
}

int cay_store_kept_remove(struct cay_store *s, const char *id, enum cay_durable durable,
                          struct cay_error *err)
{
    return s->ops->kept_remove(s, id, durable, err);
}

int cay_store_kept_get(struct cay_store *s, const char *account_id, const char *id,
                       struct cay_arena *a, struct cay_kept *out, struct cay_error *err)
{
    return s->ops->kept_get(s, account_id, id, a, out, err);
}

int cay_store_kept_list(struct cay_store *s, const struct cay_kept_filter *filter,
                        struct cay_arena *a, struct cay_kept_list *out, struct cay_error *err)
{
    return s->ops->kept_list(s, filter, a, out, err);
}

int cay_store_kept_all(struct cay_store *s, struct cay_arena *a, struct cay_kept_list *out,
                       struct cay_error *err)
{
    return s->ops->kept_all(s, a, out, err);
}

int cay_store_kept_due(struct cay_store *s, int64_t now_ms, struct cay_arena *a,
                       struct cay_kept_list *out, struct cay_error *err)
{
    return s->ops->kept_due(s, now_ms, a, out, err);
}
