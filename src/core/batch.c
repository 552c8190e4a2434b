/* SPDX-License-Identifier: Apache-2.0 */
/* Beginning batches, finding those that were begun before, and clearing up after those that were
 * cut. */
#include "core/batch.h"
#include "base/clock.h"
#include "base/log.h"
#include "core/core.h"
#include "core/once.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

static int start_threads(struct cay_core *core, struct cay_error *err)
{
    struct cay_batcher *all = &core->batcher;
    int r = cay_waiter_start(core, err);
    pthread_mutex_lock(&all->lock);
    while (r == 0 && all->started < CAY_BATCH_THREADS) {
        errno = pthread_create(&all->threads[all->started], NULL, cay_batch_main, core);
        if (errno != 0)
            r = cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot start a thread");
        else
            all->started++;
    }
    pthread_mutex_unlock(&all->lock);
    return r;
}

static int check(struct cay_core *core, const struct cay_batch_spec *spec, struct cay_error *err)
{
    size_t sandboxes = spec->make ? spec->make_count : spec->sandboxes.count;
    size_t items = spec->command_count * (spec->mode == CAY_BATCH_EACH ? sandboxes : 1);
    if (sandboxes < 1 || sandboxes > CAY_BATCH_SANDBOXES)
        return cay_fail_field(err, spec->make ? "create.count" : "sandboxes",
                              "a batch has 1 to %d sandboxes", CAY_BATCH_SANDBOXES);
    if (spec->command_count < 1)
        return cay_fail_field(err, "commands", "commands must not be empty");
    if (items > CAY_BATCH_ITEMS)
        return cay_fail_field(err, "commands", "a batch has at most %d items", CAY_BATCH_ITEMS);
    if (spec->mode == CAY_BATCH_ZIP && spec->command_count != sandboxes)
        return cay_fail_field(err, "mode", "zip needs as many commands as sandboxes");
    if (spec->concurrency < 1 || spec->concurrency > CAY_BATCH_CONCURRENCY)
        return cay_fail_field(err, "concurrency", "concurrency must be from 1 to %d",
                              CAY_BATCH_CONCURRENCY);
    struct cay_spec make = spec->make ? *spec->make : cay_spec_default();
    int r = spec->make ? cay_core_check_spec(core, &make, err) : 0;
    if (r < 0)
        return cay_fail_inside(err, "create.spec");
    for (size_t i = 0; i < spec->command_count && r == 0; i++)
        if (cay_core_check_exec(&spec->commands[i].spec, err) < 0)
            r = cay_fail_inside(err, "commands[%zu]", i);
    return r;
}

static void *alloc(size_t count, size_t size)
{
    void *p = calloc(count ? count : 1, size);
    if (!p)
        abort();
    return p;
}

static struct cay_batch *new_batch(struct cay_core *core, const struct cay_account *owner,
                                   const char *id, struct cay_batch_asked *asked)
{
    struct cay_batch *b = alloc(1, sizeof *b);
    *b = (struct cay_batch){.core = core,
                            .arena = asked->arena,
                            .spec = asked->spec,
                            .shape = asked->shape,
                            .bytes = asked->bytes,
                            .phase = CAY_BATCH_MAKES - 1,
                            .fd = -1,
                            .began_ms = cay_clock_mono_ms()};
    asked->arena = (struct cay_arena){0};
    b->owner = *owner;
    b->owner.id = cay_arena_strdup(&b->arena, owner->id);
    b->owner.only = cay_arena_strdup(&b->arena, owner->only);
    b->owner.key_id = cay_arena_strdup(&b->arena, owner->key_id);
    cay_str_copy(b->id, sizeof b->id, id);
    pthread_mutex_init(&b->lock, NULL);
    if (b->spec.once) {
        struct cay_once *once = cay_arena_alloc(&b->arena, sizeof *once);
        *once = *b->spec.once;
        once->key = cay_arena_strdup(&b->arena, once->key);
        b->spec.once = once;
    }
    b->sandbox_count = b->spec.make ? b->spec.make_count : b->spec.sandboxes.count;
    b->items = b->spec.command_count * (b->spec.mode == CAY_BATCH_EACH ? b->sandbox_count : 1);
    b->made = alloc(b->spec.make_count, sizeof *b->made);
    size_t most = b->items > b->spec.make_count ? b->items : b->spec.make_count;
    b->slot_count = b->spec.concurrency < most ? b->spec.concurrency : most;
    b->slots = alloc(b->slot_count, sizeof *b->slots);
    for (size_t i = 0; i < b->slot_count; i++) {
        b->slots[i].batch = b;
        b->slots[i].wait.ended = cay_batch_slot_ended;
    }
    return b;
}

/* A place among those that run, or CAY_ERR_UNAVAILABLE. */
static int reserve(struct cay_batcher *all, const char *account_id, size_t bytes,
                   struct cay_error *err)
{
    pthread_mutex_lock(&all->lock);
    bool full = all->places.taken >= CAY_BATCHES || bytes > CAY_BATCH_BYTES - all->bytes.taken;
    bool room = cay_share_take(&all->places, account_id, 1, CAY_BATCHES);
    if (room && !cay_share_take(&all->bytes, account_id, bytes, CAY_BATCH_BYTES)) {
        cay_share_give(&all->places, account_id, 1);
        room = false;
    }
    pthread_mutex_unlock(&all->lock);
    if (room)
        return 0;
    return cay_fail_as(err, CAY_ERR_UNAVAILABLE, "TOO_MANY_BATCHES",
                       full ? "as many batches run as may run at once"
                            : "as many batches of this account run as it may have at once");
}

void cay_batch_give_back(struct cay_batcher *all, const char *account_id, size_t bytes)
{
    cay_share_give(&all->places, account_id, 1);
    cay_share_give(&all->bytes, account_id, bytes);
}

static int begin(struct cay_core *core, const struct cay_account *owner, const char *id,
                 struct cay_batch_asked *asked, int *fd_out, struct cay_error *err)
{
    struct cay_batcher *all = &core->batcher;
    const size_t bytes = asked->bytes;
    int fd = -1;
    int r = start_threads(core, err);
    if (r == 0)
        r = reserve(all, owner->id, bytes, err);
    if (r < 0)
        return r;
    r = cay_batch_file_create(core, id, asked->spec.once, &fd, fd_out, err);
    if (r < 0) {
        pthread_mutex_lock(&all->lock);
        cay_batch_give_back(all, owner->id, bytes);
        pthread_mutex_unlock(&all->lock);
        return r;
    }
    struct cay_batch *b = new_batch(core, owner, id, asked);
    b->fd = fd;
    b->len = CAY_BATCH_HEAD;
    cay_batch_tell(b, (struct cay_batch_event){.kind = CAY_BATCH_BEGINS});
    pthread_mutex_lock(&all->lock);
    b->next = all->first;
    all->first = b;
    pthread_mutex_unlock(&all->lock);
    cay_batch_next_phase(b);
    return 0;
}

bool cay_core_batch_runs(struct cay_core *core, const char *id)
{
    bool found = false;
    pthread_mutex_lock(&core->batcher.lock);
    for (struct cay_batch *b = core->batcher.first; b && !found; b = b->next)
        found = strcmp(b->id, id) == 0;
    pthread_mutex_unlock(&core->batcher.lock);
    return found;
}

/* ---- what was cut ---- */

static bool has_label(const struct cay_sandbox *sb, const char *batch_id)
{
    for (size_t i = 0; i < sb->spec.labels.count; i++) {
        const char *label = sb->spec.labels.at[i];
        if (strncmp(label, CAY_BATCH_LABEL, strlen(CAY_BATCH_LABEL)) == 0 &&
            strcmp(label + strlen(CAY_BATCH_LABEL), batch_id) == 0)
            return true;
    }
    return false;
}

/* The caller holds the batch's id. The file names what is left, so it is the last to go. */
static int clear_cut(struct cay_core *core, const char *id, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_sandbox_list rows;
    int r = cay_store_all(core->store, &a, &rows, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < rows.count; i++) {
        const struct cay_account owner = {.id = rows.at[i].account_id};
        struct cay_error why = {0};
        if (has_label(&rows.at[i], id) && cay_batch_remove(core, &owner, rows.at[i].id, &why) < 0) {
            r = why.code;
            *err = why;
        }
    }
    if (r == 0)
        cay_batch_file_remove(core, id);
    return r;
}

int cay_batch_clear(struct cay_core *core, const char *id, struct cay_error *err)
{
    CAY_AUTO_HOLD struct cay_hold hold = {0};
    int r = cay_hold_wait(&core->holds, id, &hold, err);
    /* It runs, or has ended, if somebody asked for it again. One that ends is whole before it runs
     * no more. */
    if (r < 0 || cay_core_batch_runs(core, id) || !cay_batch_file_is_cut(core, id))
        return r;
    return clear_cut(core, id, err);
}

static void *clean_main(void *arg)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_core *core = arg;
    struct cay_strs ids = {0};
    struct cay_error err = {0};
    if (cay_batch_file_cut(core, &a, &ids, &err) < 0)
        cay_log_error(&err, "cannot look for batches that were cut");
    for (size_t i = 0; i < ids.count && !atomic_load(&core->batcher.closing); i++)
        if (cay_batch_clear(core, ids.at[i], &err) < 0)
            cay_log_error(&err, "cannot remove what batch %s left behind", ids.at[i]);
    return NULL;
}

int cay_core_batch(struct cay_core *core, const struct cay_account *owner,
                   struct cay_batch_asked *asked, struct cay_batch_ref *out, struct cay_error *err)
{
    CAY_AUTO_HOLD struct cay_hold hold = {0};
    const struct cay_once *once = asked->spec.once;
    struct cay_batch_ref ref = {.fd = -1};
    bool whole = false;
    int r = check(core, &asked->spec, err);
    cay_id_batch(ref.id);
    if (once)
        cay_once_batch(core, owner->id, once, ref.id);
    if (r == 0) /* until it is among those that run it looks like one that was cut */
        r = cay_hold_wait(&core->holds, ref.id, &hold, err);
    if (r == 0 && once) {
        bool runs = cay_core_batch_runs(core, ref.id); /* first: who runs no more is whole */
        r = cay_batch_file_find(core, ref.id, once, &whole, &ref.fd, err);
        ref.replayed = r == 0 && (whole || runs);
        if (r == CAY_ERR_NOT_FOUND)
            r = 0;
        else if (r == 0 && !ref.replayed) {
            cay_close_fd(&ref.fd);
            r = clear_cut(core, ref.id, err);
        }
    }
    if (r == 0 && !ref.replayed)
        r = begin(core, owner, ref.id, asked, &ref.fd, err);
    if (r == 0)
        *out = ref;
    return r;
}

void cay_batcher_init(struct cay_batcher *b)
{
    *b = (struct cay_batcher){0};
    pthread_mutex_init(&b->lock, NULL);
    cay_queue_init(&b->jobs, CAY_BATCH_JOBS);
}

int cay_batcher_start(struct cay_core *core, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_strs cut;
    int r = cay_batch_file_cut(core, &a, &cut, err);
    if (r < 0 || cut.count == 0)
        return r;
    core->batcher.cleaning = pthread_create(&core->batcher.cleaner, NULL, clean_main, core) == 0;
    return core->batcher.cleaning ? 0 : cay_fail(err, CAY_ERR_INTERNAL, "cannot start a thread");
}

void cay_batcher_stop(struct cay_core *core)
{
    struct cay_batcher *all = &core->batcher;
    atomic_store(&all->closing, true);
    cay_queue_close(&all->jobs);
    while (all->started > 0)
        pthread_join(all->threads[--all->started], NULL);
    if (all->cleaning)
        pthread_join(all->cleaner, NULL);
    cay_waiter_done(&core->waiter);
}

void cay_batcher_done(struct cay_batcher *all)
{
    while (all->first) {
        struct cay_batch *b = all->first;
        all->first = b->next;
        cay_batch_give_back(all, b->owner.id, b->bytes);
        cay_batch_free(b);
    }
    cay_queue_done(&all->jobs);
    pthread_mutex_destroy(&all->lock);
}
