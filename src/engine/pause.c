/* SPDX-License-Identifier: Apache-2.0 */
/* Standing still and going on.
 *
 * A spawner freezes and thaws, because both may wait. The record follows: it says paused only once
 * all stand still, so a pause that a crash cut short never was, and is undone by whoever finds a
 * cgroup frozen that no record calls paused. A copy that freezes for its own sake is mended so,
 * too. A cgroup that goes on although its record says paused was resumed. */
#include "base/log.h"
#include "engine/dispatcher.h"

static void set_paused(struct cay_box *box, bool paused)
{
    box->record.paused = paused;
    box->record.entry.state = paused ? CAY_ENGINE_PAUSED : CAY_ENGINE_RUNNING;
}

static int save(struct cay_dispatcher *d, const struct cay_box *box, struct cay_error *err)
{
    return cay_box_save(d->engine.records_fd, &box->record, err);
}

void cay_pause_begin(struct cay_dispatcher *d, struct cay_box *box, struct cay_pending *p)
{
    bool pause = p->request.op == CAY_ENGINE_PAUSE;
    if (box->record.paused == pause) {
        cay_dispatcher_answer(d, p, NULL, NULL, 0, -1);
        return;
    }
    box->current = p;
    cay_jobs_add(d, box, pause ? CAY_JOB_FREEZE : CAY_JOB_THAW);
}

static void frozen(struct cay_dispatcher *d, struct cay_box *box)
{
    struct cay_error err;
    cay_engine_crash("pause-frozen", box->record.entry.id);
    set_paused(box, true);
    if (save(d, box, &err) == 0) {
        cay_boxes_finish(d, box, NULL);
        return;
    }
    set_paused(box, false);
    cay_boxes_take_back(d, box, &err, CAY_JOB_THAW);
}

static void thawed(struct cay_dispatcher *d, struct cay_box *box, const struct cay_error *err)
{
    struct cay_error ignored; /* the cgroup goes on, and that is what the next engine believes */
    cay_engine_crash("resume-thawed", box->record.entry.id);
    if (box->record.paused) {
        set_paused(box, false);
        (void)save(d, box, &ignored);
    }
    cay_boxes_finish(d, box, err);
}

bool cay_pause_done(struct cay_dispatcher *d, struct cay_box *box, uint32_t job, bool done,
                    const struct cay_error *err)
{
    struct cay_error gone;
    bool stop = box->current && box->current->request.op == CAY_ENGINE_STOP;
    if (stop && box->record.running) {
        set_paused(box, false); /* in the record with the intent to stop */
        return true;
    }
    if (!box->record.running) {
        cay_fail_as(&gone, CAY_ERR_CONFLICT, "SANDBOX_NOT_RUNNING", "sandbox is not running");
        cay_boxes_finish(d, box, stop ? NULL : &gone);
    } else if (!done) {
        cay_boxes_finish(d, box, err); /* a freeze let go again; who was not thawed stays paused */
    } else if (job == CAY_JOB_FREEZE) {
        frozen(d, box);
    } else {
        thawed(d, box, err);
    }
    return false;
}

void cay_pause_adopt(struct cay_dispatcher *d, struct cay_box *box)
{
    bool still = cay_cgroup_is_frozen(&d->engine.kit.cgroups, box->record.entry.id);
    bool meant = box->record.paused;
    set_paused(box, still);
    if (box->record.intent == CAY_INTENT_STOP) {
        cay_boxes_wish(d, CAY_ENGINE_STOP, box->record.entry.id, NULL);
    } else if (still && !meant) {
        cay_log_info("%s stood still in the middle of something: it goes on", box->record.entry.id);
        cay_boxes_wish(d, CAY_ENGINE_RESUME, box->record.entry.id, NULL);
    }
}
