/* SPDX-License-Identifier: Apache-2.0 */
/* Forks: new sandboxes that begin with the files of one that is there, all or none.
 *
 * The forks of one request are made side by side by a few threads, because the file system commits
 * concurrent snapshots together. Their rows say PENDING until all of them run; then they say
 * RUNNING one after the other, and where they outlive the host the last one's sync is that of all.
 * Until then a failure, or reconcile after a crash, takes every one of them back. */
#include "core/image.h"
#include "core/kept.h"
#include "core/making.h"
#include "core/network.h"
#include "core/seal.h"
#include "core/state.h"
#include "model/limits.h"
#include <pthread.h>
#include <string.h>

struct crew {
    struct cay_core *core;
    const struct cay_account *owner;
    const struct cay_spec *specs;
    struct cay_making *makings;
    struct cay_error *errors; /* of each */
    size_t count;
    atomic_size_t next;
    atomic_bool failed;
};

static void *make_some(void *arg)
{
    struct crew *crew = arg;
    size_t i;
    while (!atomic_load(&crew->failed) && (i = atomic_fetch_add(&crew->next, 1)) < crew->count)
        if (cay_making_begin(&crew->makings[i], crew->core, crew->owner, &crew->specs[i],
                             &crew->errors[i]) < 0)
            atomic_store(&crew->failed, true);
        else
            crew->errors[i].code = CAY_OK; /* whatever was tried in vain on the way */
    return NULL;
}

/* A thread that cannot be had is one that the others do without. */
static void make_all(struct crew *crew)
{
    pthread_t helpers[CAY_FORK_THREADS - 1];
    atomic_int *all = &crew->core->helpers;
    size_t began = 0;
    while (began < CAY_COUNT(helpers) && began + 1 < crew->count) {
        bool room = atomic_fetch_add(all, 1) < CAY_FORK_HELPERS;
        if (!room || pthread_create(&helpers[began], NULL, make_some, crew) != 0) {
            atomic_fetch_sub(all, 1);
            break;
        }
        began++;
    }
    (void)make_some(crew);
    for (size_t i = 0; i < began; i++) {
        pthread_join(helpers[i], NULL);
        atomic_fetch_sub(all, 1);
    }
}

static void undo_all(struct crew *crew)
{
    for (size_t i = 0; i < crew->count; i++)
        cay_making_undo(&crew->makings[i]); /* nothing, once they are released */
}

static int first_error(const struct crew *crew, struct cay_error *err)
{
    for (size_t i = 0; i < crew->count; i++)
        if (crew->errors[i].code != CAY_OK) {
            *err = crew->errors[i];
            return err->code;
        }
    return 0;
}

/* Each fork of a request that may be repeated has a key of its own, which no caller can have. */
static const struct cay_once *number_once(const struct cay_once *once, size_t i,
                                          struct cay_arena *a)
{
    struct cay_once *own = cay_arena_alloc(a, sizeof *own);
    *own = *once;
    own->key = cay_arena_printf(a, "fork\1%zu\1%s", i, once->key);
    return own;
}

static struct cay_spec *number(const struct cay_spec *spec, size_t count, struct cay_arena *a)
{
    struct cay_spec *specs = cay_arena_alloc(a, count * sizeof *specs);
    for (size_t i = 0; i < count; i++) {
        specs[i] = *spec;
        if (spec->once)
            specs[i].once = number_once(spec->once, i, a);
        if (spec->name && count > 1)
            specs[i].name = cay_arena_printf(a, "%s-%zu", spec->name, i + 1);
    }
    return specs;
}

static int check(struct cay_core *core, const struct cay_spec *spec,
                 const struct cay_sandbox *source, size_t count, struct cay_error *err)
{
    if (count < 1 || count > CAY_MAX_FORKS)
        return cay_fail_field(err, "count", "count must be from 1 to %d", CAY_MAX_FORKS);
    if (!cay_image_same(core, spec->image, source->spec.image))
        return cay_fail_field(err, "dockerImage", "a fork has its source's image, %s",
                              source->spec.image);
    if (strcmp(source->account_id, CAY_LOCAL_ACCOUNT) != 0 &&
        strcmp(spec->team_id ? spec->team_id : "",
               source->spec.team_id ? source->spec.team_id : "") != 0)
        return cay_fail_field(err, "teamId", "a fork belongs to whom its source does");
    if (spec->volume && count > 1)
        return cay_fail_field(err, "volume", "one writer at a time: a volume cannot go to several");
    return 0;
}

/* What the same request made before; nothing, when this is the first. */
static int find_before(struct cay_core *core, const struct cay_account *owner, const char *id,
                       const struct cay_spec *spec, size_t count, struct cay_hold *turn,
                       struct cay_arena *a, struct cay_sandbox_list *out, struct cay_error *err)
{
    struct cay_sandbox_list list = {.at = cay_arena_alloc(a, count * sizeof *list.at)};
    struct cay_account whose = *owner;
    struct cay_sandbox source;
    int r = cay_core_find(core, owner, id, a, &source, err);
    if (r < 0)
        return r;
    whose.id = source.account_id;
    const struct cay_spec *specs = number(spec, count, a);
    for (size_t i = 0; i < count && r == 0 && (i == 0 || list.count > 0); i++) {
        CAY_AUTO_HOLD struct cay_hold other = {0};
        bool found = false;
        r = cay_making_first(core, &whose, &specs[i], i == 0 ? turn : &other, a,
                             &list.at[list.count], &found, err);
        list.count += found; /* one that is forgotten is missing */
    }
    list.total = (int64_t)list.count;
    if (r == 0)
        *out = list;
    return r;
}

static int fork_all(struct cay_core *core, const struct cay_account *owner,
                    const struct cay_spec *specs, size_t count, struct cay_arena *a,
                    struct cay_sandbox_list *out, struct cay_error *err)
{
    CAY_CLEANUP(undo_all)
    struct crew crew = {.core = core,
                        .owner = owner,
                        .specs = specs,
                        .makings = cay_arena_alloc(a, count * sizeof *crew.makings),
                        .errors = cay_arena_alloc(a, count * sizeof *crew.errors),
                        .count = count};
    for (size_t i = 0; i < count; i++)
        crew.makings[i].overlaps = !specs[i].persistent; /* as any other that is created */
    make_all(&crew);
    int r = first_error(&crew, err);
    for (size_t i = 0; i < count && r == 0; i++)
        r = cay_making_end(&crew.makings[i], i + 1 < count ? CAY_SOON : CAY_NOW, err);
    if (r < 0)
        return r;
    struct cay_sandbox_list list = {
        .at = cay_arena_alloc(a, count * sizeof *list.at), .count = count, .total = (int64_t)count};
    for (size_t i = 0; i < count; i++)
        cay_making_release(&crew.makings[i], a, &list.at[i]);
    *out = list;
    return 0;
}

/* A fork is no part of the batch that made its source, and does not go with it. */
static struct cay_strs labels_of_fork(const struct cay_strs *labels, struct cay_arena *a)
{
    struct cay_strs own = {0};
    for (size_t i = 0; i < labels->count; i++)
        if (strncmp(labels->at[i], CAY_BATCH_LABEL, strlen(CAY_BATCH_LABEL)) != 0)
            cay_strs_push(a, &own, labels->at[i]);
    return own;
}

int cay_core_fork(struct cay_core *core, const struct cay_account *owner, const char *id,
                  const struct cay_spec *spec, size_t count, struct cay_arena *a,
                  struct cay_sandbox_list *out, struct cay_error *err)
{
    CAY_AUTO_COPY struct cay_core *copies = NULL;
    CAY_AUTO_HOLD struct cay_hold turn = {0}, hold = {0};
    struct cay_spec wanted = *spec;
    struct cay_sandbox source;
    struct cay_account whose = *owner;
    struct cay_sandbox_list before = {0};
    int r = spec->once ? find_before(core, owner, id, spec, count, &turn, a, &before, err) : 0;
    if (before.count > 0)
        *out = before;
    if (r < 0 || before.count > 0)
        return r;
    r = cay_core_copy_begin(core, &copies, err);
    if (r == 0)
        r = cay_core_share(core, owner, id, a, &hold, &source, err);
    if (r == 0)
        r = check(core, spec, &source, count, err);
    if (r < 0)
        return r;
    if (spec->at && (r = cay_history_check(core, source.id, spec->at, err)) < 0)
        return r;
    wanted.labels = labels_of_fork(&spec->labels, a);
    wanted.from = cay_arena_strdup(a, source.id); /* it goes out with the forks */
    whose.id = source.account_id;
    r = cay_seal_all(core, whose.id, &wanted.new_secrets, a, &wanted.secrets, err);
    if (r == 0)
        r = cay_network_seal(core, whose.id, &source.spec.network.headers, a, &wanted.network, err);
    if (r < 0)
        return r;
    return fork_all(core, &whose, number(&wanted, count, a), count, a, out, err);
}

int cay_core_share(struct cay_core *core, const struct cay_account *owner, const char *id,
                   struct cay_arena *a, struct cay_hold *hold, struct cay_sandbox *out,
                   struct cay_error *err)
{
    struct cay_sandbox sb;
    int r = cay_core_find(core, owner, id, a, &sb, err);
    if (r == 0)
        r = cay_hold_share(&core->holds, sb.id, hold, err);
    if (r == 0)
        r = cay_core_find(core, owner, sb.id, a, out, err);
    if (r == 0)
        r = cay_state_apply(&out->state, CAY_COPY, err);
    return r;
}

int cay_core_copy_begin(struct cay_core *core, struct cay_core **out, struct cay_error *err)
{
    if (!atomic_load(&core->copies_long))
        return 0;
    *out = core;
    if (atomic_fetch_add(&core->slow, 1) < CAY_SLOW_MAX)
        return 0;
    return cay_fail(err, CAY_ERR_UNAVAILABLE, "too many sandboxes are being copied at once");
}

void cay_core_copy_took(struct cay_core *core, const struct cay_copied *copied)
{
    if (copied->method)
        atomic_store(&core->copies_long, copied->ms > CAY_LONG_COPY_MS);
}

void cay_core_copy_end(struct cay_core **core)
{
    if (*core)
        atomic_fetch_sub(&(*core)->slow, 1);
}
