/* SPDX-License-Identifier: Apache-2.0 */
/* A row that is PENDING and not held was left by a server that is gone: reconcile says so on it.
 * Therefore whoever ends early (a stop that may not wait) has nothing to do but to let go. */
#include "core/maker.h"
#include "base/clock.h"
#include "core/core.h"
#include "core/source.h"
#include "core/ticket.h"
#include <string.h>

struct cay_maker_job {
    struct cay_hold hold;
    char id[CAY_ID_SIZE];
    char *account_id;
    int64_t began_ms;
    struct cay_ticket *ticket;
    struct cay_awaited awaited;
};

void cay_maker_init(struct cay_maker *m)
{
    cay_queue_init(&m->jobs, CAY_MAKER_JOBS);
}

struct cay_maker_job *cay_maker_reserve(struct cay_core *core, const char *id,
                                        const char *account_id,
                                        const struct cay_spec_source *source, struct cay_error *err)
{
    if (atomic_fetch_add(&core->maker.count, 1) >= CAY_MAKER_JOBS) {
        atomic_fetch_sub(&core->maker.count, 1);
        (void)cay_fail_as(err, CAY_ERR_UNAVAILABLE, "TOO_MANY_CREATES",
                          "%d sandboxes are being made already", CAY_MAKER_JOBS);
        return NULL;
    }
    struct cay_maker_job *job = calloc(1, sizeof *job);
    char *account = strdup(account_id);
    if (!job || !account)
        abort();
    *job = (struct cay_maker_job){.account_id = account,
                                  .began_ms = cay_clock_mono_ms(),
                                  .awaited.login = cay_source_login(source)};
    cay_str_copy(job->id, sizeof job->id, id);
    (void)cay_hold_try(&core->holds, id, &job->hold); /* nobody else knows this id */
    return job;
}

struct cay_awaited *cay_maker_awaited(struct cay_maker_job *job)
{
    return &job->awaited;
}

void cay_maker_cancel(struct cay_core *core, struct cay_maker_job *job)
{
    cay_hold_end(&job->hold);
    cay_source_logout(&job->awaited.login);
    free(job->account_id);
    free(job);
    atomic_fetch_sub(&core->maker.count, 1);
}

/* The image is there, or not to be had. */
static void go_on(struct cay_core *core, void *arg, const struct cay_error *err)
{
    struct cay_maker_job *job = arg;
    if (err)
        job->awaited.failed = *err;
    cay_maker_go(core, job, job->ticket);
}

static void work_off(struct cay_core *core, struct cay_maker_job *job)
{
    struct cay_error err = {0};
    int64_t until_ms = atomic_load(&core->maker.until_ms);
    struct cay_ticket *ticket = job->ticket;
    bool waited = job->awaited.image[0] != 0;
    int r;
    if (job->awaited.recheck) {
        job->awaited.recheck = false;
        cay_fetch(core, job->awaited.image, CAY_PULL_ALWAYS, job->id, go_on, job);
        return;
    }
    if (until_ms == 0 || cay_clock_mono_ms() < until_ms)
        r = cay_core_finish_create(core, job->account_id, job->id, job->began_ms, &job->hold,
                                   &ticket, &job->awaited, &err);
    else
        r = cay_fail(&err, CAY_ERR_UNAVAILABLE, "the server is stopping");
    if (r == 0 && !waited && job->awaited.image[0]) {
        cay_fetch(core, job->awaited.image, job->awaited.policy, job->id, go_on, job);
        return;
    }
    cay_maker_cancel(core, job); /* the id is free when the waiter hears of it */
    cay_ticket_done(ticket, r < 0 ? &err : NULL);
}

static void *maker_main(void *arg)
{
    struct cay_core *core = arg;
    struct cay_maker_job *job;
    while ((job = cay_queue_pop(&core->maker.jobs, -1)) != NULL)
        work_off(core, job);
    return NULL;
}

void cay_maker_go(struct cay_core *core, struct cay_maker_job *job, struct cay_ticket *ticket)
{
    job->ticket = ticket;
    if (core->maker.started == 0)
        work_off(core, job);
    else if (!cay_queue_push(&core->maker.jobs, job)) /* there is room: it is closed */
        work_off(core, job);
}

int cay_maker_start(struct cay_core *core, struct cay_error *err)
{
    struct cay_maker *m = &core->maker;
    for (; m->started < CAY_MAKERS; m->started++)
        if (pthread_create(&m->threads[m->started], NULL, maker_main, core) != 0)
            return cay_fail(err, CAY_ERR_INTERNAL, "cannot start a thread");
    return 0;
}

void cay_maker_done(struct cay_core *core)
{
    struct cay_maker *m = &core->maker;
    atomic_store(&m->until_ms, cay_clock_mono_ms() + CAY_MAKER_DRAIN_MS);
    cay_queue_close(&m->jobs);
    for (int i = 0; i < m->started; i++) /* they look at the number themselves */
        (void)pthread_join(m->threads[i], NULL);
    m->started = 0;
    cay_queue_done(&m->jobs);
}
