/* SPDX-License-Identifier: Apache-2.0 */
/* Groups form by themselves: while one is being committed, the next gathers. Nobody waits for
 * company. A group with one job that needs the disk syncs for all of them.
 *
 * There is no thread for it: whoever finds nobody writing leads, and writes what has gathered, his
 * own job among it. Then the first of those who came meanwhile leads. So a lone write costs no
 * switch between threads, and nobody writes more than one group for others. */
#include "store/sqlite/writer.h"
#include "model/limits.h"
#include "store/migrations/migrations.h"
#include <errno.h>

enum { BEGIN, COMMIT, ROLLBACK, SAVE, UNDO, RELEASE };

/* These stand above the numbers of the jobs' own statements. */
static const char *const control[] = {
    [BEGIN] = "BEGIN IMMEDIATE", [COMMIT] = "COMMIT",        [ROLLBACK] = "ROLLBACK",
    [SAVE] = "SAVEPOINT job",    [UNDO] = "ROLLBACK TO job", [RELEASE] = "RELEASE job",
};
#define CONTROL_AT (CAY_SQLITE_STATEMENTS - (int)CAY_COUNT(control))

static int say(struct cay_sqlite_writer *w, int what, struct cay_error *err)
{
    sqlite3_stmt *s;
    int r = cay_sqlite_prepare(&w->db, CONTROL_AT + what, control[what], &s, err);
    return r < 0 ? r : cay_sqlite_run(&w->db, s, err);
}

/* In WAL mode NORMAL does not sync at a commit. It cannot be changed inside a transaction. */
static int set_sync(struct cay_sqlite_writer *w, bool sync, struct cay_error *err)
{
    if (w->syncs == sync)
        return 0;
    int r = cay_sqlite_exec(
        &w->db, sync ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL", err);
    if (r == 0)
        w->syncs = sync;
    return r;
}

/* Negative when the whole group has failed; a job's own failure is in its result. One that is alone
 * needs no savepoint: what it did goes with the transaction. */
static int run_job(struct cay_sqlite_writer *w, struct cay_sqlite_job *job, bool alone,
                   struct cay_error *err)
{
    int r = alone ? 0 : say(w, SAVE, err);
    if (r < 0)
        return r;
    job->result = job->run(&w->db, job, job->err);
    if (sqlite3_get_autocommit(w->db.db)) { /* a full disk or the like ended the transaction */
        *err = *job->err;
        return job->result;
    }
    if (alone)
        return 0;
    if (job->result < 0)
        r = say(w, UNDO, err);
    return r < 0 ? r : say(w, RELEASE, err);
}

static int run_jobs(struct cay_sqlite_writer *w, struct cay_sqlite_job *group, bool sync,
                    struct cay_error *err)
{
    int r = cay_sqlite_checkpoint_mend(&w->checkpoint, &w->db, err);
    if (r == 0)
        r = set_sync(w, sync, err);
    if (r == 0)
        r = say(w, BEGIN, err);
    for (struct cay_sqlite_job *job = group; job && r == 0; job = job->next)
        r = run_job(w, job, !group->next, err);
    if (r == 0)
        r = say(w, !group->next && group->result < 0 ? ROLLBACK : COMMIT, err);
    return r;
}

static void run_group(struct cay_sqlite_writer *w, struct cay_sqlite_job *group)
{
    struct cay_error err = {0}, ignored;
    bool sync = false;
    for (struct cay_sqlite_job *job = group; job; job = job->next)
        sync = sync || job->durable == CAY_NOW;
    int r = run_jobs(w, group, sync, &err);
    if (r < 0)
        cay_sqlite_checkpoint_note(&w->checkpoint, &w->db);
    if (r < 0 && !sqlite3_get_autocommit(w->db.db))
        (void)say(w, ROLLBACK, &ignored); /* when even that fails, the next BEGIN tells */
    atomic_store(&w->failing, r < 0);
    cay_metric_add(r < 0 ? &cay_store_failures : &cay_store_commits, 1);
    cay_metric_add(&cay_store_syncs, r == 0 && sync);

    for (struct cay_sqlite_job *job = group, *next; job; job = next) {
        next = job->next; /* the job is its caller's again once it is done */
        if (r < 0) {
            *job->err = err;
            job->result = r;
        }
        (void)sem_post(&job->done);
    }
}

/* Writes what has gathered, then hands on to whoever came first since, if anyone did. */
static void lead(struct cay_sqlite_writer *w)
{
    (void)pthread_mutex_lock(&w->lock);
    struct cay_sqlite_job *group = w->first;
    w->first = NULL;
    w->last = &w->first;
    cay_metric_add(&cay_store_waiting, -(int64_t)w->waiting);
    cay_metric_add(&cay_store_writes, (int64_t)w->waiting);
    w->waiting = 0;
    (void)pthread_mutex_unlock(&w->lock);

    run_group(w, group);

    (void)pthread_mutex_lock(&w->lock);
    struct cay_sqlite_job *next = w->first;
    if (next)
        next->leads = true;
    else
        w->busy = false;
    if (!w->busy)
        (void)pthread_cond_broadcast(&w->idle);
    (void)pthread_mutex_unlock(&w->lock);
    if (next)
        (void)sem_post(&next->done);
}

static void wait_for(struct cay_sqlite_job *job)
{
    while (sem_wait(&job->done) < 0 && errno == EINTR)
        continue;
}

int cay_sqlite_writer_do(struct cay_sqlite_writer *w, struct cay_sqlite_job *job,
                         struct cay_error *err)
{
    job->err = err;
    job->next = NULL;
    job->leads = false;
    (void)sem_init(&job->done, 0, 0); /* cannot fail with these arguments */
    (void)pthread_mutex_lock(&w->lock);
    bool taken = w->started && w->waiting < CAY_STORE_QUEUE;
    if (taken) {
        *w->last = job;
        w->last = &job->next;
        w->waiting++;
        cay_metric_add(&cay_store_waiting, 1);
        job->leads = !w->busy;
        w->busy = true;
    }
    bool leads = job->leads;
    (void)pthread_mutex_unlock(&w->lock);
    if (!taken)
        return cay_fail(err, CAY_ERR_UNAVAILABLE, "too many writes wait for the database");
    if (!leads)
        wait_for(job); /* until it is written, or its turn to lead */
    if (job->leads)
        lead(w);
    (void)sem_destroy(&job->done);
    return job->result;
}

static int set_up(struct cay_sqlite_writer *w, const char *path, struct cay_error *err)
{
    int64_t wal = 0;
    int r = cay_sqlite_open(&w->db, path, SQLITE_OPEN_READWRITE, err);
    if (r == 0)
        r = cay_sqlite_exec(&w->db,
                            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
                            "PRAGMA foreign_keys = ON; PRAGMA journal_size_limit = 67108864;"
                            "PRAGMA cache_size = -2048",
                            err);
    if (r == 0)
        r = cay_sqlite_int(&w->db, "SELECT journal_mode = 'wal' FROM pragma_journal_mode", &wal,
                           err);
    if (r == 0 && !wal)
        r = cay_fail(err, CAY_ERR_STORE, "the database cannot keep a write-ahead log here");
    if (r == 0)
        r = cay_migrations_run(&w->db, err);
    w->syncs = true;
    return r;
}

int cay_sqlite_writer_open(struct cay_sqlite_writer *w, const char *path, struct cay_error *err)
{
    (void)pthread_mutex_init(&w->lock, NULL); /* neither can fail on Linux */
    (void)pthread_cond_init(&w->idle, NULL);
    w->last = &w->first;
    int r = set_up(w, path, err);
    if (r == 0)
        r = cay_sqlite_checkpoint_open(&w->checkpoint, path, &w->db, err);
    w->started = r == 0;
    return r;
}

void cay_sqlite_writer_close(struct cay_sqlite_writer *w)
{
    if (w->started) {
        (void)pthread_mutex_lock(&w->lock);
        w->started = false;
        while (w->busy)
            (void)pthread_cond_wait(&w->idle, &w->lock);
        (void)pthread_mutex_unlock(&w->lock);
    }
    cay_sqlite_checkpoint_close(&w->checkpoint);
    cay_sqlite_close(&w->db);
    if (w->last) {
        (void)pthread_cond_destroy(&w->idle);
        (void)pthread_mutex_destroy(&w->lock);
        w->last = NULL;
    }
}
