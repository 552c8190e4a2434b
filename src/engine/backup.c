/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of trees for `cay backup`, all of one moment.
 *
 * Root asks for a standstill: no job begins any more, and when those under way are over it is told
 * so. Now every tree is whole and under its one name, and the store can be read as it is at this
 * moment. Root names the trees that it holds and lets the rest go on: a held tree is neither
 * removed nor renamed until it has been copied (TAKE) or given up (FREE). Commands inside notice
 * nothing. What is left when root's connection ends, however it does, is given up and removed. */
#include "base/clock.h"
#include "base/log.h"
#include "engine/dispatcher.h"
#include "engine/trees.h"
#include <string.h>

bool cay_backup_is_copy(const struct cay_box *box)
{
    return box->record.entry.id[0] == *CAY_TREE_BACKUP;
}

static bool is_tree(const char *id)
{
    return (cay_id_is_sandbox(id) && strcmp(id, CAY_TRIAL_ID) != 0) || cay_id_is_snapshot(id) ||
           cay_id_is_volume(id);
}

/* ---- one tree ---- */

static int hold(struct cay_dispatcher *d, const char *id, struct cay_error *err)
{
    struct cay_box *box = cay_boxes_find(d, id);
    if (!box && cay_id_is_sandbox(id))
        return cay_fail(err, CAY_ERR_NOT_FOUND, "the engine knows no %s", id);
    if (!box)
        box = cay_boxes_add(d, id);
    if (!box->backup) {
        box->backup = true;
        box->held++;
        d->backup.held++;
    }
    return 0;
}

void cay_backup_let_go(struct cay_dispatcher *d, struct cay_box *box)
{
    if (!box->backup)
        return;
    box->backup = false;
    box->held--;
    d->backup.held--;
}

/* The box may be gone afterwards. */
static void free_box(struct cay_dispatcher *d, struct cay_box *box)
{
    cay_backup_let_go(d, box);
    cay_jobs_pump(d);
    cay_boxes_next(d, box);
}

/* Past the tree's queue: whatever is to be done to it waits until it is copied. */
static int take(struct cay_dispatcher *d, struct cay_pending *p, struct cay_error *err)
{
    char id[CAY_ID_SIZE];
    struct cay_box *box = cay_boxes_find(d, p->request.id);
    if (!box || !box->backup)
        return cay_fail(err, CAY_ERR_CONFLICT, "%s is not held", p->request.id);
    cay_str_copy(id, sizeof id, p->request.id);
    id[0] = *CAY_TREE_BACKUP;
    struct cay_box *made = cay_boxes_add(d, id);
    made->current = p;
    made->from = box;
    box->held++;
    cay_jobs_add(d, made, CAY_JOB_SNAPSHOT);
    return 0;
}

/* ---- the whole ---- */

static int begin(struct cay_dispatcher *d, struct cay_pending *p, struct cay_error *err)
{
    if (d->backup.active)
        return cay_fail(err, CAY_ERR_CONFLICT, "another backup is under way");
    d->backup.active = d->backup.standstill = true;
    d->backup.client = p->client;
    d->backup.waits = p;
    d->backup.last_ms = cay_clock_mono_ms();
    cay_backup_look(d);
    return 0;
}

/* Is it the one who began? He alone may go on with it. */
static bool is_his(const struct cay_dispatcher *d, const struct cay_pending *p)
{
    return d->backup.active && !d->backup.waits && d->backup.client == p->client;
}

static int free_one(struct cay_dispatcher *d, const char *id)
{
    struct cay_box *box = cay_boxes_find(d, id);
    if (box)
        free_box(d, box);
    return 0;
}

static int go_on(struct cay_dispatcher *d)
{
    d->backup.standstill = false;
    cay_jobs_pump(d);
    return 0;
}

void cay_backup_take(struct cay_dispatcher *d, struct cay_pending *p)
{
    struct cay_error err;
    uint32_t op = p->request.op;
    bool names = op != CAY_ENGINE_BACKUP && op != CAY_ENGINE_BACKUP_GO;
    int r = 0;
    if (d->clients[p->client].uid != 0)
        r = cay_fail(&err, CAY_ERR_FORBIDDEN, "only root may make a backup");
    else if (names && !is_tree(p->request.id))
        r = cay_fail(&err, CAY_ERR_INVALID, "not the id of a tree");
    else if (op != CAY_ENGINE_BACKUP && !is_his(d, p))
        r = cay_fail(&err, CAY_ERR_CONFLICT, "no backup was begun");
    if (r == 0)
        d->backup.last_ms = cay_clock_mono_ms();
    if (r == 0 && op == CAY_ENGINE_BACKUP)
        r = begin(d, p, &err);
    else if (r == 0 && op == CAY_ENGINE_BACKUP_TAKE)
        r = take(d, p, &err);
    else if (r == 0) {
        r = op == CAY_ENGINE_BACKUP_HOLD   ? hold(d, p->request.id, &err)
            : op == CAY_ENGINE_BACKUP_FREE ? free_one(d, p->request.id)
                                           : go_on(d);
        cay_dispatcher_answer(d, p, r < 0 ? &err : NULL, NULL, 0, -1);
        return;
    }
    if (r < 0)
        cay_dispatcher_answer(d, p, &err, NULL, 0, -1);
}

void cay_backup_look(struct cay_dispatcher *d)
{
    struct cay_pending *p = d->backup.waits;
    if (!p || d->backup.rubbish || d->backup.clearing || cay_jobs_busy(d))
        return;
    d->backup.waits = NULL;
    cay_dispatcher_answer(d, p, NULL, NULL, 0, d->engine.files_fd);
}

static struct cay_box *held_in(struct cay_box *box)
{
    while (box && !box->backup)
        box = box->next;
    return box;
}

void cay_backup_end(struct cay_dispatcher *d)
{
    free(d->backup.waits); /* nobody waits for its answer */
    d->backup.waits = NULL;
    d->backup.active = d->backup.standstill = false;
    d->backup.rubbish = true;
    for (size_t i = 0; i < CAY_BOX_BUCKETS && d->backup.held > 0; i++)
        for (struct cay_box *box; (box = held_in(d->boxes[i]));)
            free_box(d, box);
    cay_jobs_pump(d);
}

/* A copy that is being made when its asker goes is waited for, then removed. */
static bool is_copying(const struct cay_dispatcher *d)
{
    for (size_t i = 0; i < CAY_BOX_BUCKETS; i++)
        for (const struct cay_box *box = d->boxes[i]; box; box = box->next)
            if (cay_backup_is_copy(box))
                return true;
    return false;
}

bool cay_backup_clears(const struct cay_dispatcher *d)
{
    return d->backup.rubbish && (!d->backup.active || d->backup.waits) && !is_copying(d);
}

void cay_backup_tick(struct cay_dispatcher *d, int64_t now_ms)
{
    struct cay_error err;
    int64_t quiet_ms = now_ms - d->backup.last_ms;
    if (cay_backup_clears(d))
        d->trash_wanted = true; /* the child that empties it takes the copies too */
    cay_backup_look(d);
    if (d->backup.waits && quiet_ms > CAY_BACKUP_WAIT_MS) {
        struct cay_pending *p = d->backup.waits;
        d->backup.waits = NULL;
        cay_backup_end(d);
        cay_fail(&err, CAY_ERR_CONFLICT, "files are being copied all the time: try again later");
        cay_dispatcher_answer(d, p, &err, NULL, 0, -1);
    }
    bool stops_others = d->backup.active && (d->backup.standstill || d->backup.held > 0);
    if (stops_others && !d->clients[d->backup.client].busy && quiet_ms > CAY_BACKUP_QUIET_MS) {
        cay_log_warn("a backup holds trees and does nothing: it is ended");
        cay_dispatcher_drop(d, d->backup.client);
    }
}
