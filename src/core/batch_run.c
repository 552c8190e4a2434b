/* SPDX-License-Identifier: Apache-2.0 */
/* A batch goes through three phases: sandboxes are made, items run, what was made is removed. In
 * each of them a batch's slots take the next thing to do until there is none; the last one to find
 * nothing begins the next phase. A slot is worked on by one of a few threads; while its item runs
 * it is nobody's, and the waiter puts it back into the queue when the item has ended. */
#include "base/clock.h"
#include "base/log.h"
#include "core/batch.h"
#include "core/core.h"
#include "core/ticket.h"
#include "log/files.h"
#include <string.h>
#include <sys/stat.h>

void cay_batch_tell(struct cay_batch *b, struct cay_batch_event e)
{
    CAY_AUTO_BUF struct cay_buf line = {0};
    e.batch_id = b->id;
    e.spec = &b->spec;
    e.items = b->items;
    b->shape(&e, &line);
    cay_batch_file_add(b, &line);
}

/* ---- sandboxes ---- */

static void say_made(struct cay_batch *b, size_t i, const char *id, const struct cay_error *err)
{
    if (!err) {
        cay_str_copy(b->made[i].id, sizeof b->made[i].id, id);
        cay_batch_tell(b, (struct cay_batch_event){
                              .kind = CAY_BATCH_MADE, .sandbox = i, .sandbox_id = b->made[i].id});
        return;
    }
    b->made[i].err = malloc(sizeof *err);
    if (!b->made[i].err)
        abort();
    *b->made[i].err = *err;
}

static void ticket_over(void *slot)
{
    struct cay_batch_slot *s = slot;
    (void)cay_queue_push(&s->batch->core->batcher.jobs, s); /* there is room; closed: it is cut */
}

/* True when somebody else makes it: then the slot is not the caller's any more. */
static bool make_one(struct cay_batch_slot *slot, size_t i)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_batch *b = slot->batch;
    struct cay_spec spec = *b->spec.make;
    struct cay_sandbox sb;
    struct cay_ticket *ticket;
    struct cay_error err = {0};
    spec.labels = cay_strs_dup(&a, &spec.labels);
    if (!b->spec.keep)
        cay_strs_push(&a, &spec.labels, cay_arena_printf(&a, CAY_BATCH_LABEL "%s", b->id));
    if (spec.name && b->spec.make_count > 1)
        spec.name = cay_arena_printf(&a, "%s-%zu", spec.name, i + 1);
    int r = cay_core_make(b->core, &b->owner, &spec, &a, &sb, &ticket, &err);
    if (r < 0 || !ticket) {
        say_made(b, i, sb.id, r < 0 ? &err : NULL);
        return false;
    }
    slot->index = i;
    memcpy(slot->wait.sandbox_id, sb.id, sizeof sb.id);
    slot->ticket = ticket;
    cay_ticket_then(ticket, ticket_over, slot);
    return true;
}

static void finish_make(struct cay_batch_slot *slot)
{
    struct cay_error err = {0};
    int r = cay_ticket_verdict(slot->ticket, &err);
    cay_ticket_free(slot->ticket);
    slot->ticket = NULL;
    say_made(slot->batch, slot->index, slot->wait.sandbox_id, r < 0 ? &err : NULL);
}

/* Its time is over now, so the keeper goes on until it is gone. */
static int let_expire(struct cay_core *core, const struct cay_account *owner, const char *id,
                      struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    CAY_AUTO_HOLD struct cay_hold hold = {0};
    struct cay_sandbox sb;
    int r = cay_core_find_held(core, owner, id, &a, &hold, &sb, err);
    if (r < 0 || sb.deleted_at_ms)
        return r;
    sb.spec.persistent = false; /* one that is would only be stopped */
    sb.expires_at_ms = sb.updated_at_ms = cay_clock_ms();
    return cay_store_update(core->store, &sb, CAY_SOON, err);
}

int cay_batch_remove(struct cay_core *core, const struct cay_account *owner, const char *id,
                     struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_sandbox sb;
    int r = cay_core_delete(core, owner, id, CAY_WORKSPACE_AS_IT_IS, &a, &sb, err);
    if (r < 0 && r != CAY_ERR_NOT_FOUND) {
        cay_log_error(err, "cannot remove sandbox %s of a batch; the keeper is to", id);
        r = let_expire(core, owner, id, err);
    }
    return r == CAY_ERR_NOT_FOUND ? 0 : r;
}

static void remove_one(struct cay_batch *b, const char *id)
{
    struct cay_error err = {0};
    if (cay_batch_remove(b->core, &b->owner, id, &err) < 0)
        cay_log_error(&err, "sandbox %s of a batch stays until its own time is over", id);
}

/* ---- items ---- */

static struct cay_batch_event place_of(const struct cay_batch *b, size_t index)
{
    struct cay_batch_event e = {.index = index, .command = index, .sandbox = index};
    if (b->spec.mode == CAY_BATCH_EACH)
        e.command = index / b->sandbox_count;
    if (b->spec.mode != CAY_BATCH_ZIP)
        e.sandbox = index % b->sandbox_count;
    e.sandbox_id = b->spec.make ? b->made[e.sandbox].id : b->spec.sandboxes.at[e.sandbox];
    return e;
}

static void tell_error(struct cay_batch *b, size_t index, const struct cay_error *err)
{
    struct cay_batch_event e = place_of(b, index);
    e.kind = CAY_BATCH_ERROR;
    e.err = err;
    atomic_fetch_add(&b->failed, 1);
    cay_batch_tell(b, e);
}

/* With a key an item has one too: if the batch is sent again after it was cut, what ran in
 * sandboxes that are still there is not run twice. */
static int exec_item(struct cay_batch *b, const struct cay_batch_event *e, struct cay_arena *a,
                     struct cay_execution *out, int *fd_out, struct cay_error *err)
{
    struct cay_exec_spec spec = b->spec.commands[e->command].spec;
    struct cay_once once;
    if (b->spec.once) {
        once = *b->spec.once;
        once.key = cay_arena_printf(a, "%s/%zu", b->id, e->index);
        spec.once = &once;
    }
    return cay_core_exec(b->core, &b->owner, e->sandbox_id, &spec, a, out, fd_out, err);
}

/* True when it runs: then the slot is not the caller's any more. */
static bool begin_item(struct cay_batch_slot *slot, size_t index)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    CAY_AUTO_FD int fd = -1;
    struct cay_batch *b = slot->batch;
    struct cay_batch_event e = place_of(b, index);
    struct cay_execution ex;
    struct cay_error err = {0};
    if (b->spec.make && b->made[e.sandbox].err) {
        tell_error(b, index, b->made[e.sandbox].err);
        return false;
    }
    int r = exec_item(b, &e, &a, &ex, &fd, &err);
    if (r < 0) {
        tell_error(b, index, &err);
        return false;
    }
    slot->index = index;
    slot->running = true;
    memcpy(slot->wait.sandbox_id, ex.sandbox_id, sizeof ex.sandbox_id);
    memcpy(slot->wait.exec_id, ex.id, sizeof ex.id);
    cay_wait_for(b->core, &slot->wait, cay_take_fd(&fd));
    return true;
}

/* What is left of the file for its output; the log has the rest. */
static size_t output_limit(struct cay_batch *b, size_t command)
{
    size_t limit = b->spec.commands[command].output_limit;
    pthread_mutex_lock(&b->lock);
    uint64_t room = b->len < CAY_BATCH_FILE_BYTES ? CAY_BATCH_FILE_BYTES - b->len : 0;
    pthread_mutex_unlock(&b->lock);
    return limit < room ? limit : (size_t)room;
}

static void finish_item(struct cay_batch_slot *slot)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    CAY_AUTO_FD int fd = -1;
    struct cay_batch *b = slot->batch;
    struct cay_batch_event e = place_of(b, slot->index);
    struct cay_execution ex;
    struct cay_error err = {0};
    slot->running = false;
    cay_core_await_version(b->core, slot->wait.exec_id);
    int r = cay_core_execution(b->core, &b->owner, slot->wait.sandbox_id, slot->wait.exec_id, &a,
                               &ex, &fd, &err);
    if (r == 0 && ex.status != CAY_EXEC_EXITED)
        r = cay_fail_as(&err, CAY_ERR_CONFLICT, "EXEC_LOST",
                        "the sandbox ended before %s did; what it wrote is kept", ex.id);
    if (r < 0) {
        tell_error(b, slot->index, &err);
        return;
    }
    e.kind = CAY_BATCH_RESULT;
    e.sandbox_id = ex.sandbox_id;
    e.ex = &ex;
    e.log_fd = fd;
    e.output_limit = output_limit(b, e.command);
    atomic_fetch_add(ex.exit_code == 0 && !ex.signal ? &b->succeeded : &b->failed, 1);
    cay_batch_tell(b, e);
}

/* ---- phases ---- */

static size_t total(const struct cay_batch *b)
{
    switch (b->phase) {
    case CAY_BATCH_MAKES:
        return b->spec.make_count;
    case CAY_BATCH_RUNS:
        return b->items;
    case CAY_BATCH_REMOVES:
        return b->spec.keep ? 0 : b->spec.make_count;
    default:
        return 0;
    }
}

void cay_batch_free(struct cay_batch *b)
{
    for (size_t i = 0; b->made && i < b->spec.make_count; i++)
        free(b->made[i].err);
    free(b->made);
    for (size_t i = 0; i < b->slot_count; i++)
        cay_ticket_free(b->slots[i].ticket);
    free(b->slots);
    cay_close_fd(&b->fd);
    pthread_mutex_destroy(&b->lock);
    cay_arena_done(&b->arena);
    free(b);
}

static void finish(struct cay_batch *b)
{
    struct cay_batcher *all = &b->core->batcher;
    cay_batch_tell(b, (struct cay_batch_event){.kind = CAY_BATCH_ENDS,
                                               .succeeded = atomic_load(&b->succeeded),
                                               .failed = atomic_load(&b->failed),
                                               .lost = b->lost,
                                               .duration_ms = cay_clock_mono_ms() - b->began_ms});
    bool ended = cay_batch_file_end(b); /* before it is forgotten: who finds no end looks for it */
    pthread_mutex_lock(&all->lock);
    struct cay_batch **at = &all->first;
    while (*at != b)
        at = &(*at)->next;
    *at = b->next;
    cay_batch_give_back(all, b->owner.id, b->bytes);
    pthread_mutex_unlock(&all->lock);
    if (!ended)
        cay_log_touch(b->fd); /* who follows is woken, and cuts his answer */
    cay_batch_free(b);
}

/* Once the last slot is in the queue the batch may be gone at any moment. */
void cay_batch_next_phase(struct cay_batch *b)
{
    struct cay_queue *jobs = &b->core->batcher.jobs;
    struct cay_batch_slot *slots = b->slots;
    size_t count = b->slot_count;
    do
        b->phase++;
    while (b->phase < CAY_BATCH_DONE && total(b) == 0);
    if (b->phase == CAY_BATCH_DONE) {
        finish(b);
        return;
    }
    atomic_store(&b->next_index, 0);
    atomic_store(&b->active, count);
    for (size_t i = 0; i < count; i++)
        (void)cay_queue_push(jobs, &slots[i]); /* there is room; closed: it is cut */
}

static void advance(struct cay_batch_slot *slot)
{
    struct cay_batch *b = slot->batch;
    size_t i;
    if (slot->ticket)
        finish_make(slot);
    else if (slot->running)
        finish_item(slot);
    while (!atomic_load(&b->core->batcher.closing)) {
        i = atomic_fetch_add(&b->next_index, 1);
        if (i >= total(b)) {
            if (atomic_fetch_sub(&b->active, 1) == 1)
                cay_batch_next_phase(b);
            return;
        }
        if (b->phase == CAY_BATCH_REMOVES && b->made[i].id[0])
            remove_one(b, b->made[i].id);
        else if (b->phase == CAY_BATCH_MAKES ? make_one(slot, i)
                                             : b->phase == CAY_BATCH_RUNS && begin_item(slot, i))
            return;
    }
}

void cay_batch_slot_ended(struct cay_core *core, struct cay_wait *w)
{
    (void)cay_queue_push(&core->batcher.jobs, w); /* as above */
}

void *cay_batch_main(void *arg)
{
    struct cay_core *core = arg;
    struct cay_batch_slot *slot;
    while ((slot = cay_queue_pop(&core->batcher.jobs, -1)) != NULL)
        if (!atomic_load(&core->batcher.closing))
            advance(slot);
    return NULL;
}
