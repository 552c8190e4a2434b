/* SPDX-License-Identifier: Apache-2.0 */
#include "core/jobs.h"
#include "base/clock.h"
#include "base/sha256.h"
#include "core/core.h"
#include "core/fetch.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define RATE_MS 500 /* over so long the rate is measured */
#define ID_PREFIX "job_"
#define ID_HALF 8 /* digits that are random, and as many that sign them */

/* Who is told of the end. */
struct ear {
    struct ear *next;
    void (*then)(struct cay_core *core, void *arg, const struct cay_error *err);
    void *arg;
};

struct cay_task {
    struct cay_task *next;
    struct cay_core *core;
    struct cay_task_spec spec; /* strings in the arena */
    struct cay_arena arena;
    struct cay_strs accounts; /* who want it; those who gave it up are NULL */
    struct ear *ears;         /* malloc'ed */
    struct cay_job told;
    bool cancelled;
    int64_t rate_at_ms;
    uint64_t rate_bytes;
};

void cay_jobs_init(struct cay_jobs *jobs)
{
    pthread_mutex_init(&jobs->lock, NULL);
    cay_queue_init(&jobs->queue, CAY_JOBS_WAITING + CAY_JOB_THREADS);
}

static bool is_over(const struct cay_task *t)
{
    return t->told.state > CAY_JOB_RUNNING;
}

static void free_task(struct cay_task *t)
{
    if (t->spec.drop)
        t->spec.drop(t->spec.arg);
    cay_arena_done(&t->arena);
    free(t);
}

void cay_jobs_stop(struct cay_core *core)
{
    struct cay_jobs *jobs = &core->jobs;
    pthread_mutex_lock(&jobs->lock);
    jobs->closing = true;
    for (struct cay_task *t = jobs->first; t; t = t->next)
        t->cancelled = true;
    pthread_mutex_unlock(&jobs->lock);
    cay_queue_close(&jobs->queue);
    while (jobs->started > 0)
        (void)pthread_join(jobs->threads[--jobs->started], NULL);
}

void cay_jobs_done(struct cay_jobs *jobs)
{
    cay_queue_done(&jobs->queue);
    for (struct cay_task *t; (t = jobs->first);) {
        jobs->first = t->next;
        free_task(t);
    }
    pthread_mutex_destroy(&jobs->lock);
}

/* ---- ids ---- */

static void sign(struct cay_core *core, const char *half, char out[ID_HALF + 1])
{
    uint8_t sum[32];
    cay_sha256_hmac(core->token_key, sizeof core->token_key, half, ID_HALF, sum);
    for (int i = 0; i < ID_HALF / 2; i++)
        (void)snprintf(out + 2 * i, 3, "%02x", sum[i]); /* two digits */
}

static void make_id(struct cay_core *core, char out[CAY_ID_SIZE])
{
    char half[ID_HALF + 1], signature[ID_HALF + 1];
    cay_id_hex(half, ID_HALF);
    sign(core, half, signature);
    (void)snprintf(out, CAY_ID_SIZE, ID_PREFIX "%s%s", half, signature); /* it fits */
}

static bool is_ours(struct cay_core *core, const char *id)
{
    char signature[ID_HALF + 1];
    size_t len = strlen(ID_PREFIX);
    if (strlen(id) != len + 2 * ID_HALF || strncmp(id, ID_PREFIX, len) != 0)
        return false;
    sign(core, id + len, signature);
    return strcmp(id + len + ID_HALF, signature) == 0;
}

/* ---- the list; the lock is held ---- */

static bool wants(const struct cay_task *t, const char *account_id)
{
    for (size_t i = 0; i < t->accounts.count; i++)
        if (t->accounts.at[i] && strcmp(t->accounts.at[i], account_id) == 0)
            return true;
    return false;
}

/* Who gave it up may still look at what became of it. */
static struct cay_task *find(struct cay_jobs *jobs, const struct cay_account *owner, const char *id)
{
    for (struct cay_task *t = jobs->first; t; t = t->next)
        if (strcmp(t->told.id, id) == 0)
            return wants(t, owner->id) ? t : NULL;
    return NULL;
}

static struct cay_task *find_same(struct cay_jobs *jobs, const struct cay_task_spec *spec)
{
    for (struct cay_task *t = jobs->first; spec->key && t; t = t->next)
        if (t->spec.kind == spec->kind && t->spec.key && strcmp(t->spec.key, spec->key) == 0 &&
            !is_over(t) && !t->cancelled)
            return t;
    return NULL;
}

/* What ended long ago, and the oldest that ended while there are too many. */
static void sweep(struct cay_jobs *jobs)
{
    int64_t now_ms = cay_clock_ms();
    for (bool full = true; full;) {
        struct cay_task **oldest = NULL;
        for (struct cay_task **i = &jobs->first; *i; i = &(*i)->next)
            if (is_over(*i) && (!oldest || (*i)->told.ended_at_ms < (*oldest)->told.ended_at_ms))
                oldest = i;
        full = oldest &&
               (jobs->count >= CAY_JOBS || (*oldest)->told.ended_at_ms < now_ms - CAY_JOB_KEPT_MS);
        if (full) {
            struct cay_task *t = *oldest;
            *oldest = t->next;
            jobs->count--;
            free_task(t);
        }
    }
}

/* ---- running ---- */

/* The task may be gone as soon as the lock is. */
static void end(struct cay_task *t, int r, const struct cay_error *err)
{
    struct cay_core *core = t->core;
    struct cay_jobs *jobs = &core->jobs;
    pthread_mutex_lock(&jobs->lock);
    struct ear *ears = t->ears;
    t->ears = NULL;
    bool cancelled = r < 0 && t->cancelled;
    t->told.state = r == 0 ? CAY_JOB_SUCCEEDED : cancelled ? CAY_JOB_CANCELLED : CAY_JOB_FAILED;
    t->told.step = r == 0 ? "done" : t->told.step;
    t->told.ended_at_ms = cay_clock_ms();
    t->told.bytes_per_second = 0;
    if (r < 0)
        t->told.err = *err;
    if (t->spec.drop)
        t->spec.drop(t->spec.arg);
    t->spec.drop = NULL;
    jobs->busy--;
    pthread_mutex_unlock(&jobs->lock);
    for (struct ear *ear; (ear = ears); free(ear)) {
        ears = ear->next;
        ear->then(core, ear->arg, r < 0 ? err : NULL);
    }
}

static int stopping(struct cay_error *err)
{
    return cay_fail(err, CAY_ERR_UNAVAILABLE, "the server is stopping");
}

static void *job_main(void *arg)
{
    struct cay_core *core = arg;
    struct cay_task *t;
    while ((t = cay_queue_pop(&core->jobs.queue, -1)) != NULL) {
        struct cay_error err = {0};
        int r = 0;
        pthread_mutex_lock(&core->jobs.lock);
        t->told.state = CAY_JOB_RUNNING;
        t->told.started_at_ms = cay_clock_ms();
        t->rate_at_ms = cay_clock_mono_ms();
        if (core->jobs.closing)
            r = stopping(&err);
        else if (t->cancelled)
            r = cay_fail_as(&err, CAY_ERR_CONFLICT, "CANCELLED", "it was cancelled");
        pthread_mutex_unlock(&core->jobs.lock);
        if (r == 0)
            r = t->spec.run(core, t, t->spec.arg, &err);
        end(t, r, &err);
    }
    return NULL;
}

/* A thread for each that runs, up to their number; they stay. */
static int make_thread(struct cay_core *core, struct cay_error *err)
{
    struct cay_jobs *jobs = &core->jobs;
    if (jobs->busy < jobs->started || jobs->started == CAY_JOB_THREADS)
        return 0;
    errno = pthread_create(&jobs->threads[jobs->started], NULL, job_main, core);
    if (errno == 0)
        jobs->started++;
    else if (jobs->started == 0)
        return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot start a thread");
    return 0;
}

static struct cay_task *new_task(struct cay_core *core, const struct cay_task_spec *spec)
{
    struct cay_task *t = calloc(1, sizeof *t);
    if (!t)
        abort();
    *t = (struct cay_task){.core = core, .spec = *spec};
    t->spec.key = cay_arena_strdup(&t->arena, spec->key);
    t->spec.subject = cay_arena_strdup(&t->arena, spec->subject);
    t->told = (struct cay_job){.kind = spec->kind,
                               .subject = t->spec.subject,
                               .step = "waiting",
                               .created_at_ms = cay_clock_ms()};
    make_id(core, t->told.id);
    return t;
}

static int too_many(struct cay_error *err)
{
    return cay_fail_as(err, CAY_ERR_UNAVAILABLE, "TOO_MANY_JOBS", "too many jobs are under way");
}

static int count_kind(const struct cay_jobs *jobs, const char *kind)
{
    int count = 0;
    for (const struct cay_task *t = jobs->first; t; t = t->next)
        count += t->spec.kind == kind && !is_over(t);
    return count;
}

/* The lock is held. */
static int begin(struct cay_core *core, const struct cay_account *owner,
                 const struct cay_task_spec *spec, struct cay_task **out, struct cay_error *err)
{
    struct cay_jobs *jobs = &core->jobs;
    if (jobs->closing)
        return stopping(err);
    sweep(jobs);
    if (jobs->count >= CAY_JOBS || jobs->busy >= CAY_JOBS_WAITING + CAY_JOB_THREADS ||
        (spec->most && count_kind(jobs, spec->kind) >= spec->most))
        return too_many(err);
    int r = make_thread(core, err);
    if (r < 0)
        return r;
    struct cay_task *t = new_task(core, spec);
    cay_strs_push(&t->arena, &t->accounts, cay_arena_strdup(&t->arena, owner->id));
    t->next = jobs->first;
    jobs->first = t;
    jobs->count++;
    jobs->busy++;
    if (!cay_queue_push(&jobs->queue, t))
        abort(); /* there is room for all that are busy */
    *out = t;
    return 0;
}

/* In the place of one who gave it up, or at the end; false: too many want it. */
static bool join(struct cay_task *t, const struct cay_account *owner)
{
    struct cay_strs *all = &t->accounts;
    size_t i = 0;
    if (wants(t, owner->id))
        return true;
    while (i < all->count && all->at[i])
        i++;
    if (i == CAY_JOB_ACCOUNTS)
        return false;
    const char *id = cay_arena_strdup(&t->arena, owner->id);
    if (i < all->count)
        all->at[i] = id;
    else
        cay_strs_push(&t->arena, all, id);
    return true;
}

static void add_ear(struct cay_task *t, const struct cay_task_spec *spec)
{
    struct ear *ear = calloc(1, sizeof *ear);
    if (!ear)
        abort();
    *ear = (struct ear){t->ears, spec->then, spec->then_arg};
    t->ears = ear;
}

int cay_task_begin(struct cay_core *core, const struct cay_account *owner,
                   const struct cay_task_spec *spec, char id_out[CAY_ID_SIZE],
                   struct cay_error *err)
{
    struct cay_jobs *jobs = &core->jobs;
    int r = 0;
    pthread_mutex_lock(&jobs->lock);
    struct cay_task *t = find_same(jobs, spec);
    bool joined = t != NULL;
    if (!t)
        r = begin(core, owner, spec, &t, err);
    else if (!join(t, owner))
        r = too_many(err);
    if (r == 0 && spec->then)
        add_ear(t, spec);
    if (r == 0)
        memcpy(id_out, t->told.id, CAY_ID_SIZE);
    pthread_mutex_unlock(&jobs->lock);
    if ((joined || r < 0) && spec->drop)
        spec->drop(spec->arg);
    return r;
}

/* ---- told by who works on it ---- */

void cay_task_parts(struct cay_task *t, const struct cay_job_part *parts, size_t count)
{
    pthread_mutex_lock(&t->core->jobs.lock);
    t->told.parts = cay_arena_alloc(&t->arena, count * sizeof *parts + 1);
    t->told.part_count = count;
    for (size_t i = 0; i < count; i++) {
        t->told.parts[i] = parts[i];
        t->told.total_bytes += parts[i].total_bytes;
    }
    pthread_mutex_unlock(&t->core->jobs.lock);
}

void cay_task_at(struct cay_task *t, const char *step)
{
    pthread_mutex_lock(&t->core->jobs.lock);
    t->told.step = step;
    pthread_mutex_unlock(&t->core->jobs.lock);
}

void cay_task_part_at(struct cay_task *t, size_t part, const char *step)
{
    pthread_mutex_lock(&t->core->jobs.lock);
    t->told.parts[part].step = step;
    pthread_mutex_unlock(&t->core->jobs.lock);
}

void cay_task_note(struct cay_task *t, const char *text)
{
    pthread_mutex_lock(&t->core->jobs.lock);
    cay_str_copy(t->told.note, sizeof t->told.note, text);
    pthread_mutex_unlock(&t->core->jobs.lock);
}

static void measure(struct cay_task *t)
{
    int64_t now_ms = cay_clock_mono_ms(), took_ms = now_ms - t->rate_at_ms;
    if (took_ms < RATE_MS)
        return;
    uint64_t moved = t->told.done_bytes > t->rate_bytes ? t->told.done_bytes - t->rate_bytes : 0;
    t->told.bytes_per_second = moved * 1000 / (uint64_t)took_ms;
    t->rate_at_ms = now_ms;
    t->rate_bytes = t->told.done_bytes;
}

bool cay_task_more(struct cay_task *t, size_t part, int64_t bytes)
{
    pthread_mutex_lock(&t->core->jobs.lock);
    t->told.done_bytes += (uint64_t)bytes;
    if (part < t->told.part_count)
        t->told.parts[part].done_bytes += (uint64_t)bytes;
    measure(t);
    bool goes_on = !t->cancelled;
    pthread_mutex_unlock(&t->core->jobs.lock);
    cay_fetch_look(t->core); /* who works looks after those who wait */
    return goes_on;
}

bool cay_task_goes_on(struct cay_task *t)
{
    return cay_task_more(t, SIZE_MAX, 0);
}

/* ---- asked by others ---- */

static void copy(struct cay_arena *a, const struct cay_task *t, struct cay_job *out)
{
    *out = t->told;
    out->subject = cay_arena_strdup(a, out->subject);
    out->parts = cay_arena_alloc(a, out->part_count * sizeof *out->parts + 1);
    if (out->part_count)
        memcpy(out->parts, t->told.parts, out->part_count * sizeof *out->parts);
}

/* Holds the lock when it succeeds with a task. */
static int find_locked(struct cay_core *core, const struct cay_account *owner, const char *id,
                       struct cay_task **out, struct cay_error *err)
{
    pthread_mutex_lock(&core->jobs.lock);
    *out = find(&core->jobs, owner, id);
    bool known = false;
    for (struct cay_task *t = core->jobs.first; t && !*out; t = t->next)
        known = known || strcmp(t->told.id, id) == 0;
    if (*out)
        return 0;
    pthread_mutex_unlock(&core->jobs.lock);
    if (known || !is_ours(core, id))
        return cay_fail_as(err, CAY_ERR_NOT_FOUND, "JOB_NOT_FOUND", "job not found");
    return 0;
}

static void say_lost(const char *id, struct cay_job *out)
{
    *out = (struct cay_job){.state = CAY_JOB_LOST};
    cay_str_copy(out->id, sizeof out->id, id);
    (void)cay_fail_as(&out->err, CAY_ERR_NOT_FOUND, "JOB_LOST",
                      "the server was restarted, or the job ended long ago");
}

int cay_core_jobs(struct cay_core *core, const struct cay_account *owner, struct cay_arena *a,
                  struct cay_job_list *out, struct cay_error *err)
{
    (void)err; /* as the others have it */
    pthread_mutex_lock(&core->jobs.lock);
    sweep(&core->jobs);
    struct cay_job_list list = {.at = cay_arena_alloc(a, core->jobs.count * sizeof *list.at + 1)};
    for (struct cay_task *t = core->jobs.first; t; t = t->next)
        if (wants(t, owner->id))
            copy(a, t, &list.at[list.count++]);
    pthread_mutex_unlock(&core->jobs.lock);
    *out = list;
    return 0;
}

/* The last one who wants it ends it, and goes on seeing what became of it. */
static void give_up(struct cay_task *t, const char *account_id)
{
    size_t others = t->ears != NULL;
    for (size_t i = 0; i < t->accounts.count; i++)
        others += t->accounts.at[i] && strcmp(t->accounts.at[i], account_id) != 0;
    if (others == 0)
        t->cancelled = true;
    for (size_t i = 0; others && i < t->accounts.count; i++)
        if (t->accounts.at[i] && strcmp(t->accounts.at[i], account_id) == 0)
            t->accounts.at[i] = NULL;
}

static int look(struct cay_core *core, const struct cay_account *owner, const char *id, bool cancel,
                struct cay_arena *a, struct cay_job *out, struct cay_error *err)
{
    struct cay_task *t;
    int r = find_locked(core, owner, id, &t, err);
    if (r == 0 && !t)
        say_lost(id, out);
    if (r < 0 || !t)
        return r;
    if (cancel && !is_over(t))
        give_up(t, owner->id);
    copy(a, t, out);
    pthread_mutex_unlock(&core->jobs.lock);
    return 0;
}

int cay_core_job(struct cay_core *core, const struct cay_account *owner, const char *id,
                 struct cay_arena *a, struct cay_job *out, struct cay_error *err)
{
    return look(core, owner, id, false, a, out, err);
}

int cay_core_job_cancel(struct cay_core *core, const struct cay_account *owner, const char *id,
                        struct cay_arena *a, struct cay_job *out, struct cay_error *err)
{
    return look(core, owner, id, true, a, out, err);
}
