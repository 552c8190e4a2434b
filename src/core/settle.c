/* SPDX-License-Identifier: Apache-2.0 */
/* Executions, as log and facts tell them together.
 *
 * An exit record is final; only its reason may be corrected, to `disk`, or to `oom` where pid 1
 * could not count, and who was killed may be named. Without one an execution runs if its sandbox's
 * pid 1 says so, and is lost otherwise. The order matters: pid 1 writes the record before it
 * forgets the process, so the log is read again after pid 1 was asked. */
#include "core/settle.h"
#include "base/clock.h"
#include "base/log.h"
#include "core/core.h"
#include "core/metrics.h"
#include "log/files.h"
#include "log/reader.h"
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define JOBS_MAX 8192
#define FRESH_MS 5000
#define LATE_MS 200 /* between a process's end and the word of it */
#define AGAIN_MS 1000
#define UNRECORDED 1 /* lost, and the disk did not take that */

struct cay_settler_job {
    struct cay_settler_job *next;
    char sandbox_id[CAY_ID_SIZE], exec_id[CAY_ID_SIZE];
    int64_t ended_ms; /* of a sandbox that ended: what began before is not there any more */
    bool settled, failed;
};

static int write_fact(struct cay_core *core, const struct cay_execution *ex, const char *reason,
                      int64_t time_ms, struct cay_error *err)
{
    struct cay_log_fact fact = {.time_ms = time_ms};
    cay_str_copy(fact.reason, sizeof fact.reason, reason);
    if (strcmp(reason, "oom") == 0)
        cay_str_copy(fact.process, sizeof fact.process, ex->process);
    return cay_log_fact_write(core->logs_fd, ex->sandbox_id, ex->id, &fact, err);
}

static bool may_be_oom(const struct cay_execution *ex)
{
    return ex->signal == SIGKILL && !ex->counted && strcmp(ex->reason, "signal") == 0;
}

static bool is_fresh(const struct cay_execution *ex)
{
    int64_t age_ms = cay_clock_ms() - ex->ended_at_ms;
    return age_ms < FRESH_MS && age_ms > -FRESH_MS;
}

/* Right after its end only: later the disk may be full, or empty, of something else. */
static bool may_be_disk(const struct cay_execution *ex)
{
    return ex->exit_code != 0 && strcmp(ex->reason, "exited") == 0 && is_fresh(ex);
}

/* Somebody below it was killed, whom pid 1 does not see. */
static bool is_unnamed(const struct cay_execution *ex)
{
    return strcmp(ex->reason, "oom") == 0 && !ex->process[0];
}

static bool has_failed(const struct cay_execution *ex)
{
    return ex->status == CAY_EXEC_EXITED && (ex->exit_code != 0 || ex->signal);
}

/* The log alone may not have the whole reason. */
static bool is_suspect(const struct cay_execution *ex)
{
    return ex->status == CAY_EXEC_EXITED && ex->reason &&
           (may_be_oom(ex) || may_be_disk(ex) || is_unnamed(ex));
}

static bool is_full(const struct cay_usage *usage)
{
    return usage->disk_limit_bytes > 0 &&
           usage->disk_bytes >= usage->disk_limit_bytes - usage->disk_limit_bytes / 100;
}

/* The last one before its end; or the first one behind it, if that may have come late. */
static void name_victim(const struct cay_usage *usage, struct cay_execution *ex)
{
    for (int i = 0; i < CAY_VICTIMS && usage->victims[i].name[0]; i++) {
        const struct cay_victim *v = &usage->victims[i];
        if (v->at_ms < ex->started_at_ms || v->at_ms > ex->ended_at_ms + LATE_MS)
            continue;
        cay_str_copy(ex->process, sizeof ex->process, v->name);
        if (v->at_ms <= ex->ended_at_ms)
            return;
    }
}

static void find_cause(struct cay_core *core, struct cay_execution *ex)
{
    struct cay_usage usage;
    struct cay_error ignored; /* unknown: then it stays what the log says */
    bool killed = may_be_oom(ex), unnamed = is_unnamed(ex);
    int r = cay_provider_usage(core->provider, ex->sandbox_id, &usage, &ignored);
    bool gone = r == CAY_ERR_NOT_FOUND || r == CAY_ERR_CONFLICT;
    if (gone && unnamed && !is_fresh(ex)) /* nobody can tell any more: it is asked once */
        (void)write_fact(core, ex, ex->reason, cay_clock_ms(), &ignored);
    if (r < 0)
        return;
    bool rose = usage.oom_kills > cay_oom_before(&core->oom, ex->sandbox_id, ex->started_at_ms);
    cay_oom_saw(&core->oom, ex->sandbox_id, usage.oom_kills, cay_clock_ms());
    if (unnamed)
        name_victim(&usage, ex);
    else if (killed && rose)
        ex->reason = "oom";
    else if (!killed && is_full(&usage))
        ex->reason = "disk";
    else if (!killed)
        return; /* most commands that fail: not worth a file */
    if (unnamed && !ex->process[0] && is_fresh(ex))
        return; /* the kernel may be about to tell */
    /* nobody waits for it, and as long as the sandbox lives it can be found out again */
    (void)write_fact(core, ex, ex->reason, cay_clock_ms(), &ignored);
}

static void apply_fact(struct cay_execution *ex, const struct cay_log_fact *fact)
{
    static const char *const words[] = {"oom", "disk"};
    for (size_t i = 0; i < CAY_COUNT(words); i++)
        if (strcmp(fact->reason, words[i]) == 0)
            ex->reason = words[i];
    if (fact->process[0])
        cay_str_copy(ex->process, sizeof ex->process, fact->process);
}

/* False only when it is known not to run. */
static bool may_run(struct cay_core *core, const struct cay_execution *ex, struct cay_arena *a)
{
    struct cay_strs running;
    struct cay_error err = {0};
    if (cay_hold_is(&core->holds, ex->id))
        return true; /* it is just being started */
    int r = cay_provider_executions(core->provider, ex->sandbox_id, a, &running, &err);
    if (r == CAY_ERR_NOT_FOUND || r == CAY_ERR_CONFLICT)
        return false;
    if (r < 0)
        return true; /* who does not answer has not said no */
    for (size_t i = 0; i < running.count; i++)
        if (strcmp(running.at[i], ex->id) == 0)
            return true;
    return false;
}

static int read_log(const char *sandbox_id, const char *exec_id, int log_fd, struct cay_arena *a,
                    struct cay_execution *out, struct cay_error *err)
{
    int r = cay_log_summary(log_fd, a, out, err);
    if (r < 0)
        return r;
    cay_str_copy(out->id, sizeof out->id, exec_id);
    cay_str_copy(out->sandbox_id, sizeof out->sandbox_id, sandbox_id);
    return 0;
}

static void set_lost(struct cay_execution *ex, int64_t time_ms)
{
    ex->status = CAY_EXEC_LOST;
    ex->reason = "lost";
    ex->ended_at_ms = time_ms;
    ex->duration_ms = time_ms > ex->started_at_ms ? time_ms - ex->started_at_ms : 0;
}

/* What pid 1 is not asked: of one that stands still no answer would come, and of one that ended
 * before ended_ms (0: it did not) it is known. */
struct outside {
    bool paused;
    int64_t ended_ms;
};

/* UNRECORDED says as well what it found: those who wait for it do not see it yet. */
static int summarize(struct cay_core *core, const char *sandbox_id, const char *exec_id, int log_fd,
                     struct outside known_of, struct cay_arena *a, struct cay_execution *out,
                     struct cay_error *err)
{
    struct cay_execution ex = {0};
    struct cay_log_fact fact;
    bool unrecorded = false;
    int r = read_log(sandbox_id, exec_id, log_fd, a, &ex, err);
    if (r < 0)
        return r;
    bool known = (ex.status == CAY_EXEC_RUNNING || has_failed(&ex)) &&
                 cay_log_fact_read(core->logs_fd, sandbox_id, exec_id, &fact);
    if (ex.status == CAY_EXEC_RUNNING && !known &&
        (ex.started_at_ms <= known_of.ended_ms || (!known_of.paused && !may_run(core, &ex, a)))) {
        r = read_log(sandbox_id, exec_id, log_fd, a, &ex, err);
        if (r < 0)
            return r;
        if (ex.status == CAY_EXEC_RUNNING) {
            set_lost(&ex, cay_clock_ms());
            unrecorded = write_fact(core, &ex, "lost", ex.ended_at_ms, err) < 0;
            cay_metric_add(&cay_core_lost_count, unrecorded ? 0 : 1);
        }
    } else if (ex.status == CAY_EXEC_RUNNING && known) {
        set_lost(&ex, fact.time_ms);
    }
    if (known && ex.status == CAY_EXEC_EXITED)
        apply_fact(&ex, &fact);
    else if (is_suspect(&ex))
        find_cause(core, &ex);
    *out = ex;
    return unrecorded ? UNRECORDED : 0;
}

int cay_core_summary(struct cay_core *core, const struct cay_sandbox *sb, const char *exec_id,
                     int log_fd, struct cay_arena *a, struct cay_execution *out,
                     struct cay_error *err)
{
    struct outside known_of = {.paused = sb->state == CAY_PAUSED};
    int r = summarize(core, sb->id, exec_id, log_fd, known_of, a, out, err);
    return r == UNRECORDED ? 0 : r;
}

bool cay_core_exited(struct cay_core *core, const struct cay_execution *begun, int log_fd,
                     struct cay_arena *a, struct cay_execution *out)
{
    struct cay_error ignored; /* whoever asks the host as well meets it again */
    struct outside unasked = {.paused = true};
    return summarize(core, begun->sandbox_id, begun->id, log_fd, unasked, a, out, &ignored) == 0 &&
           out->status == CAY_EXEC_EXITED;
}

bool cay_core_cause(const struct cay_execution *ex, char text[CAY_CAUSE_SIZE])
{
    static const struct {
        const char *reason, *message;
    } causes[] = {{"pids", "the sandbox had as many processes as it may have"},
                  {"disk", "the sandbox's disk is full"},
                  {"timeout", "its time was over"}};
    const char *who = ex->process[0] ? ex->process : "a process";
    text[0] = 0;
    for (size_t i = 0; i < CAY_COUNT(causes); i++)
        if (strcmp(ex->reason, causes[i].reason) == 0)
            (void)snprintf(text, CAY_CAUSE_SIZE, "%s", causes[i].message);
    if (strcmp(ex->reason, "oom") == 0)
        (void)snprintf(text, CAY_CAUSE_SIZE, "%s was killed for want of memory", who);
    else if (strcmp(ex->reason, "signal") == 0)
        (void)snprintf(text, CAY_CAUSE_SIZE, "%s was ended by signal %d", who, ex->signal);
    return text[0] != 0;
}

static void no_longer_waiting(struct cay_settler *s, const char *exec_id)
{
    pthread_mutex_lock(&s->lock);
    if (s->first && strcmp(s->first->exec_id, exec_id) == 0)
        s->first->settled = true;
    pthread_mutex_unlock(&s->lock);
}

/* False: it could not be looked at, or what was found not recorded. */
static bool settle_one(struct cay_core *core, const char *sandbox_id, const char *exec_id,
                       int64_t ended_ms, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    CAY_AUTO_FD int fd = -1;
    struct cay_execution ex;
    int r = cay_log_open(core->logs_fd, sandbox_id, exec_id, &fd, err);
    if (r < 0)
        return r == CAY_ERR_NOT_FOUND;
    struct outside known_of = {.ended_ms = ended_ms};
    r = summarize(core, sandbox_id, exec_id, fd, known_of, &a, &ex, err);
    no_longer_waiting(&core->settler, exec_id); /* or who is woken would wait on */
    if (r == 0)
        cay_log_touch(fd);
    return r != UNRECORDED; /* a log that is no log has no followers */
}

static bool settle_all(struct cay_core *core, const char *sandbox_id, int64_t ended_ms,
                       struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_strs ids;
    bool done = true;
    int r = cay_log_list(core->logs_fd, sandbox_id, &a, &ids, err);
    if (r < 0)
        return r == CAY_ERR_NOT_FOUND;
    for (size_t i = 0; i < ids.count; i++)
        done &= settle_one(core, sandbox_id, ids.at[i], ended_ms, err);
    return done;
}

static bool work_off(struct cay_core *core, struct cay_settler_job *job)
{
    struct cay_error err = {0};
    bool done = job->exec_id[0] ? settle_one(core, job->sandbox_id, job->exec_id, 0, &err)
                                : settle_all(core, job->sandbox_id, job->ended_ms, &err);
    if (!done && !job->failed)
        cay_log_error(&err, "cannot record what became of the commands of sandbox %s",
                      job->sandbox_id);
    job->failed = !done;
    return done;
}

/* The rest is under the lock. */

static void append(struct cay_settler *s, struct cay_settler_job *job)
{
    if (s->last)
        s->last->next = job;
    else
        s->first = job;
    while (job->next)
        job = job->next;
    s->last = job;
}

/* Once for each sandbox or execution, however often it is asked for meanwhile. */
static void put_off(struct cay_settler *s, struct cay_settler_job *job)
{
    struct cay_settler_job *at = s->later;
    while (at &&
           (strcmp(at->sandbox_id, job->sandbox_id) != 0 || strcmp(at->exec_id, job->exec_id) != 0))
        at = at->next;
    if (at) {
        if (at->ended_ms < job->ended_ms)
            at->ended_ms = job->ended_ms;
        s->count--;
        free(job);
        return;
    }
    if (!s->later)
        s->again_ms = cay_clock_mono_ms() + AGAIN_MS;
    job->next = s->later;
    s->later = job;
}

/* False: it is being closed. */
static bool await_job(struct cay_settler *s)
{
    while (!s->closing) {
        if (s->later && cay_clock_mono_ms() >= s->again_ms) {
            append(s, s->later);
            s->later = NULL;
        }
        struct timespec until = {.tv_sec = s->again_ms / 1000,
                                 .tv_nsec = s->again_ms % 1000 * 1000000};
        if (s->first)
            return true;
        if (s->later)
            (void)pthread_cond_timedwait(&s->more, &s->lock, &until); /* late or not: looks again */
        else
            pthread_cond_wait(&s->more, &s->lock);
    }
    return false;
}

static void *settler_main(void *arg)
{
    struct cay_core *core = arg;
    struct cay_settler *s = &core->settler;
    pthread_mutex_lock(&s->lock);
    while (await_job(s)) {
        struct cay_settler_job *job = s->first;
        pthread_mutex_unlock(&s->lock);
        bool done = work_off(core, job);
        pthread_mutex_lock(&s->lock);
        s->first = job->next;
        if (!s->first)
            s->last = NULL;
        if (done) {
            s->count--;
            free(job);
        } else {
            put_off(s, job);
        }
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

void cay_settler_init(struct cay_settler *s)
{
    pthread_condattr_t how;
    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_init(&how);
    (void)pthread_condattr_setclock(&how, CLOCK_MONOTONIC); /* it is there on Linux */
    pthread_cond_init(&s->more, &how);
    pthread_condattr_destroy(&how);
}

int cay_settler_start(struct cay_core *core, struct cay_error *err)
{
    if (pthread_create(&core->settler.thread, NULL, settler_main, core) != 0)
        return cay_fail(err, CAY_ERR_INTERNAL, "cannot start a thread");
    core->settler.running = true;
    return 0;
}

void cay_settler_done(struct cay_settler *s)
{
    pthread_mutex_lock(&s->lock);
    s->closing = true;
    pthread_cond_signal(&s->more);
    pthread_mutex_unlock(&s->lock);
    if (s->running)
        pthread_join(s->thread, NULL);
    if (s->later)
        append(s, s->later);
    while (s->first) {
        struct cay_settler_job *job = s->first;
        s->first = job->next;
        free(job);
    }
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->more);
}

bool cay_settle(struct cay_core *core, const char *sandbox_id, const char *exec_id)
{
    struct cay_settler *s = &core->settler;
    struct cay_settler_job *job = calloc(1, sizeof *job);
    if (!job)
        abort();
    cay_str_copy(job->sandbox_id, sizeof job->sandbox_id, sandbox_id);
    cay_str_copy(job->exec_id, sizeof job->exec_id, exec_id ? exec_id : "");
    job->ended_ms = cay_clock_ms();
    pthread_mutex_lock(&s->lock);
    bool now = !s->running;
    bool room = !now && (s->count < JOBS_MAX || !exec_id); /* or who waits would for ever */
    if (room) {
        append(s, job);
        s->count++;
        pthread_cond_signal(&s->more);
    }
    pthread_mutex_unlock(&s->lock);
    if (now)
        (void)work_off(core, job); /* summary decides again when somebody asks */
    if (!room)
        free(job);
    return room || now;
}

static bool is_waiting(struct cay_settler *s, const char *exec_id)
{
    bool found = false;
    pthread_mutex_lock(&s->lock);
    for (struct cay_settler_job *job = s->first; job && !found; job = job->next)
        found = !job->settled && strcmp(job->exec_id, exec_id) == 0;
    pthread_mutex_unlock(&s->lock);
    return found;
}

bool cay_core_lost(struct cay_core *core, const char *sandbox_id, const char *exec_id)
{
    struct cay_log_fact fact;
    return cay_log_fact_read(core->logs_fd, sandbox_id, exec_id, &fact) &&
           strcmp(fact.reason, "lost") == 0;
}

const char *cay_core_reason(struct cay_core *core, const char *sandbox_id, const char *exec_id,
                            struct cay_record_exit *end, int64_t ended_at_ms, bool asked)
{
    struct cay_execution ex = {.status = CAY_EXEC_EXITED,
                               .reason = cay_record_exit_reason(end),
                               .exit_code = end->exit_code,
                               .signal = end->signal,
                               .counted = end->counted,
                               .ended_at_ms = ended_at_ms};
    struct cay_log_fact fact;
    cay_str_copy(ex.process, sizeof ex.process, end->process);
    if (!has_failed(&ex))
        return ex.reason;
    bool known = cay_log_fact_read(core->logs_fd, sandbox_id, exec_id, &fact);
    if (known)
        apply_fact(&ex, &fact);
    cay_str_copy(end->process, sizeof end->process, ex.process);
    if (known || !is_suspect(&ex))
        return ex.reason;
    if (asked)
        return is_waiting(&core->settler, exec_id) ? NULL : ex.reason;
    return cay_settle(core, sandbox_id, exec_id) ? NULL : ex.reason;
}
