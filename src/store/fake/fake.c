/* SPDX-License-Identifier: Apache-2.0 */
/* The directory lies in memory where that is possible, and goes with the store. */
#include "store/fake/fake.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>

struct fake {
    struct cay_store store;
    struct cay_store *inner;
    char dir[48];
    int dir_fd;
    atomic_int fail_at, synced, failures;
    atomic_bool for_good;
};

static struct cay_store *inner(struct cay_store *s)
{
    return ((struct fake *)s)->inner;
}

void cay_store_fake_fail_at(struct cay_store *s, int n)
{
    atomic_store(&((struct fake *)s)->for_good, false);
    atomic_store(&((struct fake *)s)->fail_at, n);
}

void cay_store_fake_fail_from(struct cay_store *s, int n)
{
    atomic_store(&((struct fake *)s)->for_good, true);
    atomic_store(&((struct fake *)s)->fail_at, n);
}

int cay_store_fake_failures(struct cay_store *s)
{
    return atomic_load(&((struct fake *)s)->failures);
}

int cay_store_fake_synced(struct cay_store *s)
{
    return atomic_load(&((struct fake *)s)->synced);
}

static void count_sync(struct cay_store *s, enum cay_durable durable)
{
    if (durable == CAY_NOW)
        atomic_fetch_add(&((struct fake *)s)->synced, 1);
}

/* Each entry asks this first. */
static int count_call(struct cay_store *s, struct cay_error *err)
{
    struct fake *f = (struct fake *)s;
    int left = atomic_load(&f->fail_at);
    while (left > 0 && !(left == 1 && atomic_load(&f->for_good)) &&
           !atomic_compare_exchange_weak(&f->fail_at, &left, left - 1))
        continue;
    if (left != 1)
        return 0;
    atomic_fetch_add(&f->failures, 1);
    return cay_fail(err, CAY_ERR_STORE, "the fake store fails as told");
}

static uint64_t sync_begin(struct cay_store *s)
{
    return cay_store_sync_begin(inner(s));
}

static int sync_end(struct cay_store *s, uint64_t wish, struct cay_error *err)
{
    int r = count_call(s, err);
    count_sync(s, CAY_NOW);
    return r < 0 ? r : cay_store_sync_end(inner(s), wish, err);
}

struct cay_store *cay_store_fake_enter(struct cay_store *s, struct cay_error *err)
{
    return count_call(s, err) < 0 ? NULL : inner(s);
}

static void remove_dir(struct fake *f)
{
    DIR *dir = f->dir_fd < 0 ? NULL : fdopendir(f->dir_fd);
    for (struct dirent *d; dir && (d = readdir(dir));)
        if (*d->d_name != '.')
            (void)unlinkat(f->dir_fd, d->d_name, 0); /* what stays shows in rmdir's failure */
    if (dir)
        closedir(dir);
    (void)rmdir(f->dir);
}

static void close_fake(struct cay_store *s)
{
    struct fake *f = (struct fake *)s;
    cay_store_close(f->inner);
    remove_dir(f);
    free(f);
}

static int make_dir(struct fake *f, struct cay_error *err)
{
    static const char *const places[] = {"/dev/shm", "/tmp"};
    for (size_t i = 0; i < CAY_COUNT(places); i++) {
        (void)snprintf(f->dir, sizeof f->dir, "%s/cay-fake-XXXXXX", places[i]);
        if (mkdtemp(f->dir)) {
            f->dir_fd = open(f->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
            return f->dir_fd < 0 ? cay_fail_errno(err, CAY_ERR_STORE, "cannot open %s", f->dir) : 0;
        }
    }
    return cay_fail_errno(err, CAY_ERR_STORE, "cannot make a directory for the fake store");
}

static int open_fake(const struct cay_config *cfg, struct cay_store **out, struct cay_error *err)
{
    struct cay_config own = cfg ? *cfg : (struct cay_config){0};
    struct fake *f = calloc(1, sizeof *f);
    if (!f)
        abort();
    f->store.ops = &cay_store_fake;
    f->dir_fd = -1;
    int r = make_dir(f, err);
    if (r == 0) {
        own.data_fd = f->dir_fd;
        r = cay_store_sqlite.open(&own, &f->inner, err);
    }
    if (r < 0) {
        close_fake(&f->store);
        return r;
    }
    *out = &f->store;
    return 0;
}

static int check(struct cay_store *s, char *version, size_t size, struct cay_error *err)
{
    int r = count_call(s, err);
    return r < 0 ? r : cay_store_check(inner(s), version, size, err);
}

static int insert(struct cay_store *s, const struct cay_sandbox *sb, enum cay_durable durable,
                  struct cay_error *err)
{
    int r = count_call(s, err);
    return r < 0 ? r : cay_store_insert(inner(s), sb, durable, err);
}

static int update(struct cay_store *s, const struct cay_sandbox *sb, enum cay_durable durable,
                  struct cay_error *err)
{
    int r = count_call(s, err);
    count_sync(s, durable);
    return r < 0 ? r : cay_store_update(inner(s), sb, durable, err);
}

static int remove_row(struct cay_store *s, const char *id, enum cay_durable durable,
                      struct cay_error *err)
{
    int r = count_call(s, err);
    return r < 0 ? r : cay_store_remove(inner(s), id, durable, err);
}

static int get(struct cay_store *s, const char *account_id, const char *id_or_name,
               struct cay_arena *a, struct cay_sandbox *out, struct cay_error *err)
{
    int r = count_call(s, err);
    return r < 0 ? r : cay_store_get(inner(s), account_id, id_or_name, a, out, err);
}

static int list(struct cay_store *s, const struct cay_list_filter *filter, struct cay_arena *a,
                struct cay_sandbox_list *out, struct cay_error *err)
{
    int r = count_call(s, err);
    return r < 0 ? r : cay_store_list(inner(s), filter, a, out, err);
}

static int all(struct cay_store *s, struct cay_arena *a, struct cay_sandbox_list *out,
               struct cay_error *err)
{
    int r = count_call(s, err);
    return r < 0 ? r : cay_store_all(inner(s), a, out, err);
}

static int due(struct cay_store *s, int64_t now_ms, struct cay_arena *a,
               struct cay_sandbox_list *out, struct cay_error *err)
{
    int r = count_call(s, err);
    return r < 0 ? r : cay_store_due(inner(s), now_ms, a, out, err);
}

static int count(struct cay_store *s, int64_t by_state[CAY_STATES], struct cay_error *err)
{
    int r = count_call(s, err);
    return r < 0 ? r : cay_store_count(inner(s), by_state, err);
}

static int was_used(struct cay_store *s, bool *out, struct cay_error *err)
{
    int r = count_call(s, err);
    return r < 0 ? r : cay_store_was_used(inner(s), out, err);
}

static int forget(struct cay_store *s, int64_t before_ms, struct cay_error *err)
{
    int r = count_call(s, err);
    return r < 0 ? r : cay_store_forget(inner(s), before_ms, err);
}

static int kept_put(struct cay_store *s, const struct cay_kept *kept, enum cay_durable durable,
                    struct cay_error *err)
{
    int r = count_call(s, err);
    count_sync(s, durable);
    return r < 0 ? r : cay_store_kept_put(inner(s), kept, durable, err);
}

static int kept_remove(struct cay_store *s, const char *id, enum cay_durable durable,
                       struct cay_error *err)
{
    int r = count_call(s, err);
    return r < 0 ? r : cay_store_kept_remove(inner(s), id, durable, err);
}

static int kept_get(struct cay_store *s, const char *account_id, const char *id,
                    struct cay_arena *a, struct cay_kept *out, struct cay_error *err)
{
    int r = count_call(s, err);
    return r < 0 ? r : cay_store_kept_get(inner(s), account_id, id, a, out, err);
}

static int kept_list(struct cay_store *s, const struct cay_kept_filter *filter, struct cay_arena *a,
                     struct cay_kept_list *out, struct cay_error *err)
{
    int r = count_call(s, err);
    return r < 0 ? r : cay_store_kept_list(inner(s), filter, a, out, err);
}

static int kept_all(struct cay_store *s, struct cay_arena *a, struct cay_kept_list *out,
                    struct cay_error *err)
{
    int r = count_call(s, err);
    return r < 0 ? r : cay_store_kept_all(inner(s), a, out, err);
}

static int kept_due(struct cay_store *s, int64_t now_ms, struct cay_arena *a,
                    struct cay_kept_list *out, struct cay_error *err)
{
    int r = count_call(s, err);
    return r < 0 ? r : cay_store_kept_due(inner(s), now_ms, a, out, err);
}

const struct cay_store_ops cay_store_fake = {
    .name = "fake",
    .open = open_fake,
    .close = close_fake,
    .check = check,
    .access = &cay_fake_access,
    .sync_begin = sync_begin,
    .sync_end = sync_end,
    .insert = insert,
    .update = update,
    .remove = remove_row,
    .get = get,
    .list = list,
    .all = all,
    .due = due,
    .count = count,
    .was_used = was_used,
    .forget = forget,
    .kept_put = kept_put,
    .kept_remove = kept_remove,
    .kept_get = kept_get,
    .kept_list = kept_list,
    .kept_all = kept_all,
    .kept_due = kept_due,
};
