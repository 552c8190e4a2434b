/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs: a few threads, a bounded queue, and what is told of each while it runs and for a while
 * afterwards. Who asks for what is under way already joins it. A job does not outlive the server:
 * its id then says `lost`, because ids are signed and nobody can make one up. */
#pragma once
#include "base/queue.h"
#include "base/str.h"
#include "model/account.h"
#include "model/job.h"
#include "model/limits.h"
#include <pthread.h>
#include <stdbool.h>

struct cay_core;
struct cay_task; /* a job, for who works on it */

struct cay_jobs {
    pthread_mutex_t lock; /* guards what follows, and every task */
    struct cay_task *first;
    size_t count;
    int started, busy;
    bool closing;
    struct cay_queue queue;
    pthread_t threads[CAY_JOB_THREADS];
};

void cay_jobs_init(struct cay_jobs *jobs);
/* What runs is told to give up, and waited for; from now on nothing begins. */
void cay_jobs_stop(struct cay_core *core);
void cay_jobs_done(struct cay_jobs *jobs);

struct cay_task_spec {
    const char *kind; /* static */
    const char *key;  /* with the kind: which two are the same; NULL: none are */
    const char *subject;
    int most; /* of its kind under way at once; 0: as many as of all */
    int (*run)(struct cay_core *core, struct cay_task *task, void *arg, struct cay_error *err);
    void (*drop)(void *arg); /* frees it, when the job is over or did not begin; or NULL */
    void *arg;
    /* Told once of the end of the job that it began or joined, by the thread that ended it; err
     * NULL: it went well. Or NULL. */
    void (*then)(struct cay_core *core, void *arg, const struct cay_error *err);
    void *then_arg;
};
/* Begins it, or joins the one that does the same. Takes arg. CAY_ERR_UNAVAILABLE, "TOO_MANY_JOBS".
 */
int cay_task_begin(struct cay_core *core, const struct cay_account *owner,
                   const struct cay_task_spec *spec, char id_out[CAY_ID_SIZE],
                   struct cay_error *err);

/* For who works on it, any thread. Parts are set once; step words are static. */
void cay_task_parts(struct cay_task *task, const struct cay_job_part *parts, size_t count);
void cay_task_at(struct cay_task *task, const char *step);
void cay_task_part_at(struct cay_task *task, size_t part, const char *step);
void cay_task_note(struct cay_task *task, const char *text);
/* More bytes of a part (or, with part_count of it, of the whole alone) are done; false: give up. */
bool cay_task_more(struct cay_task *task, size_t part, int64_t bytes);
bool cay_task_goes_on(struct cay_task *task);

/* For dialects. CAY_ERR_NOT_FOUND, "JOB_NOT_FOUND", also for somebody else's. Newest first. */
int cay_core_job(struct cay_core *core, const struct cay_account *owner, const char *id,
                 struct cay_arena *a, struct cay_job *out, struct cay_error *err);
int cay_core_jobs(struct cay_core *core, const struct cay_account *owner, struct cay_arena *a,
                  struct cay_job_list *out, struct cay_error *err);
/* It goes on for others who want it, creates too. One that is over is as it is. */
int cay_core_job_cancel(struct cay_core *core, const struct cay_account *owner, const char *id,
                        struct cay_arena *a, struct cay_job *out, struct cay_error *err);
