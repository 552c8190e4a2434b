/* SPDX-License-Identifier: Apache-2.0 */
/* From the pipes of executions into their logs: one read per turn and pipe, so that a flood waits
 * in line like everybody; and past the head of a log no more than its rate. */
#include "init/init.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>

#define WIDE_PIPE (4 * CAY_LOG_BLOCK)
#define TTY_READS 256 /* of a terminal at its process's end: others may go on writing */
#define WINDOW_BYTES (CAY_LOG_RATE_BYTES * CAY_INIT_RATE_MS / 1000)

static const enum cay_token tokens[2] = {CAY_TOKEN_STDOUT, CAY_TOKEN_STDERR};
static const enum cay_record_kind kinds[2] = {CAY_RECORD_STDOUT, CAY_RECORD_STDERR};

void cay_pump_watch(struct cay_init *in, struct cay_job *job)
{
    for (int i = 0; i < 2; i++)
        if (job->pipe_fd[i] >= 0)
            cay_init_watch(in, job->pipe_fd[i], tokens[i], (size_t)(job - in->jobs), job->use);
    job->watched = true;
    job->resume_at_ms = CAY_INIT_NEVER;
}

/* Off epoll altogether: a hang-up would be told even to whoever asks for nothing. */
static void rest(struct cay_init *in, struct cay_job *job)
{
    for (int i = 0; i < 2; i++)
        if (job->pipe_fd[i] >= 0)
            (void)epoll_ctl(in->epoll_fd, EPOLL_CTL_DEL, job->pipe_fd[i],
                            NULL); /* it is in there */
    job->watched = false;
    job->resume_at_ms = job->window_at_ms + CAY_INIT_RATE_MS;
}

static void hold_rate(struct cay_init *in, struct cay_job *job, size_t len)
{
    if (!cay_writer_past_head(&job->log))
        return;
    if (in->now_ms - job->window_at_ms >= CAY_INIT_RATE_MS) {
        job->window_at_ms = in->now_ms;
        job->window_bytes = WINDOW_BYTES;
    }
    job->window_bytes -= (int64_t)len;
    if (job->window_bytes <= 0 && job->watched)
        rest(in, job);
}

/* One read of at most max bytes; how many there were. EOF closes the pipe. */
static size_t pump(struct cay_init *in, struct cay_job *job, int which, size_t max)
{
    ssize_t n =
        read(job->pipe_fd[which], in->chunk, max < sizeof in->chunk ? max : sizeof in->chunk);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n <= 0) {
        cay_init_unwatch(in, &job->pipe_fd[which]);
        return 0;
    }
    if (n >= CAY_LOG_BLOCK && !job->wide) { /* fewer turns for a flood; else as it is */
        job->wide = true;
        (void)fcntl(job->pipe_fd[which], F_SETPIPE_SZ, WIDE_PIPE);
    }
    job->bytes[which] += (size_t)n;
    cay_writer_output(&job->log, kinds[which], in->chunk, (size_t)n, cay_init_wall_ms());
    return (size_t)n;
}

void cay_pump_ready(struct cay_init *in, struct cay_job *job, int which)
{
    if (job->pipe_fd[which] < 0 || !job->watched)
        return; /* an event from before it rested */
    size_t len = pump(in, job, which, sizeof in->chunk);
    if (len)
        hold_rate(in, job, len);
    if (job->pipe_fd[0] < 0 && job->pipe_fd[1] < 0)
        cay_reap_free(job);
}

/* What is in the pipes at this moment: others may go on writing, and are not waited for. A terminal
 * does not tell how much that is; but a read brings up what was written before it. */
void cay_pump_drain(struct cay_init *in, struct cay_job *job)
{
    for (int i = 0; job->in.tty_fd >= 0 && job->pipe_fd[0] >= 0 && i < TTY_READS; i++)
        if (!pump(in, job, 0, sizeof in->chunk))
            return;
    for (int i = 0; job->in.tty_fd < 0 && i < 2; i++) {
        int left = 0;
        if (job->pipe_fd[i] < 0 || ioctl(job->pipe_fd[i], FIONREAD, &left) < 0)
            continue;
        while (left > 0) {
            size_t len = pump(in, job, i, (size_t)left);
            if (!len)
                break;
            left -= (int)len;
        }
    }
}

void cay_pump_close(struct cay_init *in, struct cay_job *job)
{
    for (int i = 0; i < 2; i++)
        cay_init_unwatch(in, &job->pipe_fd[i]);
}
