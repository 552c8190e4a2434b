/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "core/jobs.h"
#include "tests/fixture.h"
#include <semaphore.h>
#include <stdatomic.h>

struct gate {
    sem_t begun, go;
    atomic_int drops, runs; /* of several jobs at once */
    int result;
};

/* Goes on when it is let, or gives up when it should. */
static int run(struct cay_core *core, struct cay_task *task, void *arg, struct cay_error *err)
{
    struct gate *g = arg;
    const struct cay_job_part parts[] = {{.name = "a", .step = "waiting", .total_bytes = 10},
                                         {.name = "b", .step = "waiting", .total_bytes = 20}};
    (void)core;
    g->runs++;
    cay_task_parts(task, parts, 2);
    cay_task_at(task, "downloading");
    cay_task_part_at(task, 1, "done");
    (void)cay_task_more(task, 1, 20);
    sem_post(&g->begun);
    while (sem_trywait(&g->go) < 0)
        if (!cay_task_goes_on(task))
            return cay_fail_as(err, CAY_ERR_CONFLICT, "CANCELLED", "it was cancelled");
    return g->result ? cay_fail_as(err, g->result, "BROKEN", "it broke") : 0;
}

static void drop(void *arg)
{
    ((struct gate *)arg)->drops++;
}

static void open_gate(struct gate *g)
{
    *g = (struct gate){0};
    sem_init(&g->begun, 0, 0);
    sem_init(&g->go, 0, 0);
}

static struct cay_job look(struct fixture *f, const struct cay_account *who, const char *id,
                           int want)
{
    struct cay_error err = {0};
    struct cay_job job = {0};
    CHECK_EQ("a look at it", cay_core_job(f->core, who, id, &f->a, &job, &err), want);
    return job;
}

static void wait_for(struct fixture *f, const char *id)
{
    int64_t until_ms = cay_clock_mono_ms() + (int64_t)test_ms(10000);
    while (look(f, &f->me, id, 0).ended_at_ms == 0 && cay_clock_mono_ms() < until_ms)
        (void)usleep(1000);
    CHECK("ends", look(f, &f->me, id, 0).ended_at_ms > 0);
}

TEST(a_job_tells_how_far_it_is)
{
    struct fixture f;
    struct gate g;
    struct cay_error err = {0};
    char id[CAY_ID_SIZE], twin[CAY_ID_SIZE];
    struct cay_task_spec spec = {
        .kind = "pull", .key = "k", .subject = "image", .run = run, .drop = drop, .arg = &g};
    fixture_open(&f);
    open_gate(&g);
    CHECK_EQ("begins", cay_task_begin(f.core, &f.me, &spec, id, &err), 0);
    sem_wait(&g.begun);
    CHECK_EQ("joins", cay_task_begin(f.core, &f.other, &spec, twin, &err), 0);
    CHECK_STR("the same one", twin, id);
    struct cay_job job = look(&f, &f.other, id, 0);
    CHECK_EQ("runs", job.state, CAY_JOB_RUNNING);
    CHECK_EQ("done", job.done_bytes, 20);
    CHECK_EQ("of", job.total_bytes, 30);
    CHECK_STR("part", job.parts[1].step, "done");
    CHECK_EQ("one gives up", cay_core_job_cancel(f.core, &f.other, id, &f.a, &job, &err), 0);
    (void)look(&f, &f.other, id, CAY_ERR_NOT_FOUND);
    for (int i = 0; i < 2 * CAY_JOB_ACCOUNTS; i++) {
        CHECK_EQ("joins again", cay_task_begin(f.core, &f.other, &spec, twin, &err), 0);
        CHECK_EQ("and goes", cay_core_job_cancel(f.core, &f.other, id, &f.a, &job, &err), 0);
    }
    sem_post(&g.go);
    wait_for(&f, id);
    CHECK_EQ("it went on for the other", look(&f, &f.me, id, 0).state, CAY_JOB_SUCCEEDED);
    CHECK_EQ("ran once", g.runs, 1);
    CHECK_EQ("what it had is gone, and what the others brought", g.drops, 2 + 2 * CAY_JOB_ACCOUNTS);
    fixture_close(&f);
}

struct heard {
    sem_t told;
    int code;
};

static void hear(struct cay_core *core, void *arg, const struct cay_error *err)
{
    struct heard *h = arg;
    (void)core;
    h->code = err ? err->code : 0;
    sem_post(&h->told);
}

/* Who listens is told, and whoever cancels the job does not take it from him. */
TEST(a_job_tells_those_who_listen)
{
    struct fixture f;
    struct gate g;
    struct heard first = {.code = 1}, second = {.code = 1};
    struct cay_error err = {0};
    struct cay_job job;
    char id[CAY_ID_SIZE];
    struct cay_task_spec spec = {
        .kind = "pull", .key = "k", .run = run, .arg = &g, .then = hear, .then_arg = &first};
    fixture_open(&f);
    open_gate(&g);
    sem_init(&first.told, 0, 0);
    sem_init(&second.told, 0, 0);
    g.result = CAY_ERR_LIMIT;
    CHECK_EQ("begins", cay_task_begin(f.core, &f.me, &spec, id, &err), 0);
    spec.then_arg = &second;
    CHECK_EQ("joins", cay_task_begin(f.core, &f.me, &spec, id, &err), 0);
    CHECK_EQ("cancel", cay_core_job_cancel(f.core, &f.me, id, &f.a, &job, &err), 0);
    sem_post(&g.go);
    sem_wait(&first.told);
    sem_wait(&second.told);
    CHECK_EQ("how it went", first.code, CAY_ERR_LIMIT);
    CHECK_EQ("both", second.code, CAY_ERR_LIMIT);
    fixture_close(&f);
    spec.then_arg = &first;
    fixture_open(&f);
    CHECK_EQ("begins", cay_task_begin(f.core, &f.me, &spec, id, &err), 0);
    fixture_close(&f);
    CHECK_EQ("also by one that closes", sem_trywait(&first.told), 0);
}

TEST(a_job_that_fails_or_is_cancelled_says_so)
{
    struct fixture f;
    struct gate g;
    struct cay_error err = {0};
    struct cay_job job;
    char id[CAY_ID_SIZE];
    struct cay_task_spec spec = {.kind = "pull", .run = run, .arg = &g};
    fixture_open(&f);
    open_gate(&g);
    g.result = CAY_ERR_UNAVAILABLE;
    sem_post(&g.go);
    CHECK_EQ("begins", cay_task_begin(f.core, &f.me, &spec, id, &err), 0);
    wait_for(&f, id);
    job = look(&f, &f.me, id, 0);
    CHECK_EQ("failed", job.state, CAY_JOB_FAILED);
    CHECK_STR("why", job.err.name, "BROKEN");
    CHECK_EQ("begins", cay_task_begin(f.core, &f.me, &spec, id, &err), 0);
    CHECK_EQ("cancel", cay_core_job_cancel(f.core, &f.me, id, &f.a, &job, &err), 0);
    wait_for(&f, id);
    CHECK_EQ("cancelled", look(&f, &f.me, id, 0).state, CAY_JOB_CANCELLED);
    CHECK_EQ("begins", cay_task_begin(f.core, &f.me, &spec, id, &err), 0);
    fixture_close(&f); /* one that runs does not hold it up */
}

TEST(jobs_are_bounded_and_those_of_another_time_are_lost)
{
    struct fixture f, later;
    struct gate g;
    struct cay_error err = {0};
    char id[CAY_ID_SIZE] = "", first[CAY_ID_SIZE];
    struct cay_task_spec spec = {.kind = "pull", .run = run, .arg = &g};
    fixture_open(&f);
    open_gate(&g);
    CHECK_EQ("begins", cay_task_begin(f.core, &f.me, &spec, first, &err), 0);
    int r = 0;
    for (int i = 0; r == 0 && i < 2 * CAY_JOBS; i++)
        r = cay_task_begin(f.core, &f.me, &spec, id, &err);
    CHECK_EQ("too many", r, CAY_ERR_UNAVAILABLE);
    CHECK_STR("by name", err.name, "TOO_MANY_JOBS");
    (void)look(&f, &f.other, first, CAY_ERR_NOT_FOUND);
    (void)look(&f, &f.me, "job_0123456789abcdef", CAY_ERR_NOT_FOUND);
    fixture_open(&later);
    memcpy(later.core->token_key, f.core->token_key, sizeof f.core->token_key);
    CHECK_EQ("lost", look(&later, &later.me, first, 0).state, CAY_JOB_LOST);
    fixture_close(&later);
    fixture_close(&f);
}

TEST(jobs_of_one_kind_leave_room_for_others)
{
    struct fixture f;
    struct gate g;
    struct cay_error err = {0};
    char id[CAY_ID_SIZE];
    struct cay_task_spec slow = {.kind = "export", .most = 1, .run = run, .arg = &g};
    struct cay_task_spec other = {.kind = "pull", .run = run, .arg = &g};
    fixture_open(&f);
    open_gate(&g);
    CHECK_EQ("the first", cay_task_begin(f.core, &f.me, &slow, id, &err), 0);
    CHECK_EQ("one more", cay_task_begin(f.core, &f.me, &slow, id, &err), CAY_ERR_UNAVAILABLE);
    CHECK_STR("by name", err.name, "TOO_MANY_JOBS");
    CHECK_EQ("of another kind", cay_task_begin(f.core, &f.me, &other, id, &err), 0);
    fixture_close(&f);
}
