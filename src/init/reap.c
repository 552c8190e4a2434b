/* SPDX-License-Identifier: Apache-2.0 */
/* The end of things: children are reaped, exits recorded, times kept, and at last everybody is
 * asked to go. */
#include "init/init.h"
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define REAP_MAX 256         /* in one turn: a storm of orphans waits in line */
#define STOP_AGAIN_MS 50     /* between two SIGKILLs to all: a fork may have slipped through */
#define STOP_RECORDS_MS 2000 /* for exit records that the disk does not take */

static struct cay_job *by_pid(struct cay_init *in, pid_t pid)
{
    for (size_t i = 0; i < in->job_count; i++) {
        struct cay_job *job = &in->jobs[i];
        if (job->pid == pid && (job->state == CAY_JOB_STARTING || job->state == CAY_JOB_RUNNING))
            return job;
    }
    return NULL;
}

void cay_reap_free(struct cay_job *job)
{
    if (job->state != CAY_JOB_ENDED || job->exit_due || job->pipe_fd[0] >= 0 ||
        job->pipe_fd[1] >= 0)
        return;
    cay_close_fd(&job->log_fd);
    job->state = CAY_JOB_FREE;
    job->use++;
}

static void write_exit(struct cay_init *in, struct cay_job *job)
{
    job->exit.gaps = job->log.gaps;
    if (!cay_writer_record(&job->log, CAY_RECORD_EXIT, &job->exit, sizeof job->exit,
                           job->exit_time_ms)) {
        job->retry_at_ms = in->now_ms + CAY_INIT_RETRY_MS;
        return;
    }
    job->exit_due = false;
    job->retry_at_ms = CAY_INIT_NEVER;
    cay_reap_free(job);
}

static uint64_t micros(struct timeval t)
{
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_usec;
}

/* Counted only for those that failed: whoever succeeded needs no reason. */
static void note_cause(struct cay_init *in, struct cay_job *job, const char *process)
{
    struct cay_record_exit *e = &job->exit;
    if (!e->signal && !e->exit_code)
        return;
    struct cay_counts now = cay_counts_now(in);
    memcpy(e->process, process, sizeof e->process);
    e->counted = in->has_counts;
    e->oom_kills = now.oom_kills - job->before.oom_kills;
    e->forks_refused = now.forks_refused - job->before.forks_refused;
}

static void end_job(struct cay_init *in, struct cay_job *job, int status, const struct rusage *use,
                    const char *process)
{
    int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    enum cay_record_reason reason = signal ? CAY_REASON_SIGNAL : CAY_REASON_EXITED;
    if (job->timed_out)
        reason = CAY_REASON_TIMEOUT;
    else if (signal && signal == job->asked_signal)
        reason = CAY_REASON_KILLED;
    if (job->timed_out) /* its time is over for all of its group */
        (void)kill(-job->pid, SIGKILL);

    cay_pump_drain(in, job);
    cay_input_close(in, job);
    job->state = CAY_JOB_ENDED;
    job->ended_us = cay_init_mono_us();
    job->term_at_ms = job->kill_at_ms = CAY_INIT_NEVER;
    job->exit_time_ms = cay_init_wall_ms();
    job->exit = (struct cay_record_exit){
        .reason = (uint8_t)reason,
        .exit_code = WIFEXITED(status) ? (uint8_t)WEXITSTATUS(status) : 0,
        .signal = (uint8_t)signal,
        .cpu_us = micros(use->ru_utime) + micros(use->ru_stime),
        .peak_bytes = (uint64_t)use->ru_maxrss * 1024,
        .duration_us = (uint64_t)(job->ended_us - job->started_us),
        .stdout_bytes = job->bytes[0],
        .stderr_bytes = job->bytes[1],
    };
    note_cause(in, job, process);
    job->exit_due = true;
    write_exit(in, job);
    bool told = !job->exit_due; /* else who waits looks at the log again and again */
    uint32_t ran_us = (uint32_t)job->exit.duration_us; /* who waits so long was answered long ago */
    cay_job_answer(in, job,
                   (struct cay_init_reply){.pid = job->pid, .ran_us = told ? ran_us + 1 : 0});
}

/* Who has ended and waits to be reaped; its name as long as it has one, if a signal ended it. */
static pid_t peek(char process[16])
{
    siginfo_t info = {0};
    int r = waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT);
    process[0] = 0;
    if (r == 0 && info.si_pid > 0 && info.si_code != CLD_EXITED)
        cay_counts_name(info.si_pid, process);
    return r < 0 ? -1 : info.si_pid;
}

void cay_reap(struct cay_init *in)
{
    in->reap_more = false;
    in->childless = false; /* also when a full turn ends before it is known */
    for (int i = 0; i < REAP_MAX; i++) {
        struct rusage use;
        char process[16];
        int status;
        pid_t pid = peek(process);
        if (pid <= 0 || wait4(pid, &status, WNOHANG, &use) != pid) {
            in->childless = pid < 0 && errno == ECHILD;
            return;
        }
        struct cay_job *job = by_pid(in, pid);
        if (!job)
            cay_file_reaped(in, pid);
        if (job && job->state == CAY_JOB_STARTING)
            cay_job_status(in, job); /* it may have told why; then it was no execution */
        if (job && job->state == CAY_JOB_RUNNING && job->pid == pid)
            end_job(in, job, status, &use, process);
    }
    in->reap_more = true;
}

/* Stopped processes are woken, or they would not hear the first signal. */
static void signal_all(int signal)
{
    (void)kill(-1, signal); /* ESRCH: nobody is left */
    (void)kill(-1, SIGCONT);
}

void cay_reap_stop(struct cay_init *in, uint32_t grace_ms, uint32_t signal)
{
    in->stopping = true;
    bool named = signal > 0 && signal < NSIG;
    signal_all(!grace_ms ? SIGKILL : named ? (int)signal : SIGTERM);
    int64_t at = in->now_ms + (grace_ms ? grace_ms : STOP_AGAIN_MS);
    if (at < in->stop_kill_at_ms)
        in->stop_kill_at_ms = at;
    cay_reap(in);
}

static void finish_stop(struct cay_init *in)
{
    bool due = false;
    for (size_t i = 0; i < in->job_count; i++)
        due |= in->jobs[i].state != CAY_JOB_FREE && in->jobs[i].exit_due;
    if (in->childless && (!due || in->now_ms > in->stop_kill_at_ms + STOP_RECORDS_MS)) {
        for (size_t i = 0; i < in->job_count; i++)
            if (in->jobs[i].state != CAY_JOB_FREE)
                cay_pump_drain(in, &in->jobs[i]); /* last words of those that outlived theirs */
        _exit(0);
    }
    if (in->now_ms >= in->stop_kill_at_ms && !in->childless) {
        signal_all(SIGKILL);
        in->stop_kill_at_ms = in->now_ms + STOP_AGAIN_MS;
    }
}

static void job_timers(struct cay_init *in, struct cay_job *job)
{
    int64_t now = in->now_ms;
    if (now >= job->start_by_ms)
        cay_job_status(in, job);
    if (job->state == CAY_JOB_FREE)
        return;
    if (job->state == CAY_JOB_RUNNING && now >= job->answer_at_ms)
        cay_job_answer(in, job, (struct cay_init_reply){.pid = job->pid});
    if (now >= job->term_at_ms) {
        job->timed_out = true;
        job->term_at_ms = CAY_INIT_NEVER;
        job->kill_at_ms = now + job->grace_ms;
        (void)cay_job_signal(job, SIGTERM); /* gone by itself: then it is reaped in this turn */
        (void)cay_job_signal(job, SIGCONT);
    }
    if (now >= job->kill_at_ms) {
        job->kill_at_ms = CAY_INIT_NEVER;
        (void)cay_job_signal(job, SIGKILL);
    }
    if (now >= job->resume_at_ms)
        cay_pump_watch(in, job);
    if (now >= job->retry_at_ms)
        write_exit(in, job);
}

void cay_reap_timers(struct cay_init *in)
{
    if (in->reap_more)
        cay_reap(in);
    for (size_t i = 0; i < in->job_count; i++)
        if (in->jobs[i].state != CAY_JOB_FREE)
            job_timers(in, &in->jobs[i]);
    cay_file_timers(in);
    if (in->stopping)
        finish_stop(in);
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int64_t cay_reap_next_ms(const struct cay_init *in)
{
    int64_t next = in->reap_more ? in->now_ms : in->accept_at_ms;
    next = earlier(next, cay_file_next_ms(in));
    for (size_t i = 0; i < in->job_count; i++) {
        const struct cay_job *job = &in->jobs[i];
        if (job->state == CAY_JOB_FREE)
            continue;
        next = earlier(next, earlier(job->start_by_ms, job->term_at_ms));
        next = earlier(next, earlier(job->kill_at_ms, job->resume_at_ms));
        next = earlier(next, job->retry_at_ms);
        if (job->state == CAY_JOB_RUNNING)
            next = earlier(next, job->answer_at_ms);
    }
    if (in->stopping)
        next = earlier(next, in->childless ? in->now_ms + STOP_AGAIN_MS : in->stop_kill_at_ms);
    return next;
}
