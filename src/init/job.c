/* SPDX-License-Identifier: Apache-2.0 */
/* Starting an execution: its pipes, its fork, and the news whether it came as far as exec.
 *
 * pid 1 makes the pipes itself, holds their read ends, and closes the other ends before anything
 * else may be forked, so that no execution holds the pipes of another. */
#include "init/init.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

struct cay_job *cay_job_find(struct cay_init *in, const char *id)
{
    for (size_t i = 0; i < in->job_count; i++) {
        struct cay_job *job = &in->jobs[i];
        if ((job->state == CAY_JOB_STARTING || job->state == CAY_JOB_RUNNING) &&
            strcmp(job->id, id) == 0)
            return job;
    }
    return NULL;
}

/* The first free slot, or that of the longest ended whose pipes others still hold. */
static struct cay_job *find_slot(struct cay_init *in)
{
    struct cay_job *oldest = NULL;
    size_t alive = 0;
    for (size_t i = 0; i < in->job_count; i++) {
        struct cay_job *job = &in->jobs[i];
        alive += job->state == CAY_JOB_STARTING || job->state == CAY_JOB_RUNNING;
        if (job->state == CAY_JOB_FREE && (!oldest || oldest->state != CAY_JOB_FREE))
            oldest = job;
        else if (job->state == CAY_JOB_ENDED && !job->exit_due &&
                 (!oldest || (oldest->state == CAY_JOB_ENDED && oldest->ended_us > job->ended_us)))
            oldest = job;
    }
    if (alive >= CAY_MAX_EXECUTIONS)
        return NULL;
    if ((!oldest || oldest->state != CAY_JOB_FREE) && in->job_count < CAY_INIT_JOBS)
        return &in->jobs[in->job_count++];
    if (!oldest)
        return NULL;
    if (oldest->state == CAY_JOB_ENDED) {
        cay_pump_close(in, oldest);
        cay_reap_free(oldest);
    }
    return oldest;
}

/* Only what cannot block or be a way out is taken: pid 1 writes the log, the child has the rest. A
 * log that was removed is a request that was taken back: we stood still for too long to be waited
 * for, and its caller was told that it failed. */
static bool fds_are_sound(const struct cay_init_request *req, const int *fds)
{
    const int *at = fds;
    struct stat st;
    if (req->flags & CAY_INIT_BY_MEMFD) {
        const int sealed = F_SEAL_WRITE | F_SEAL_SHRINK;
        int seals = fcntl(*at, F_GET_SEALS);
        if (seals < 0 || (seals & sealed) != sealed || fstat(*at, &st) < 0 ||
            st.st_size < req->strings_len)
            return false;
        at++;
    }
    int flags = fcntl(*at, F_GETFL);
    if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY || (flags & (O_APPEND | O_PATH)) ||
        fstat(*at, &st) < 0 || !S_ISREG(st.st_mode) || st.st_nlink == 0)
        return false;
    at++;
    return !(req->flags & CAY_INIT_HAS_STDIN) ||
           (fstat(*at, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISREG(st.st_mode)));
}

/* Both ends of what a child is begun with. Ours never block. */
enum { STDIN, STDOUT, STDERR, STATUS, ENDS };
struct ends {
    int ours[ENDS], theirs[ENDS];
};

static void close_ends(struct ends *e)
{
    for (int i = 0; i < ENDS; i++) {
        cay_close_fd(&e->ours[i]);
        cay_close_fd(&e->theirs[i]);
    }
}

static int make_pipe(struct ends *e, int which)
{
    int fd[2];
    const int ours = which == STDIN; /* we write there, and read elsewhere */
    if (pipe2(fd, O_CLOEXEC) < 0)
        return -1;
    e->ours[which] = fd[ours];
    e->theirs[which] = fd[!ours];
    return fcntl(fd[ours], F_SETFL, O_NONBLOCK);
}

/* Of this sandbox's own devpts, which the engine mounted and nobody inside can move. */
static int make_terminal(struct ends *e, uint32_t window)
{
    const struct winsize size = {.ws_col = (uint16_t)window, .ws_row = (uint16_t)(window >> 16)};
    const int unlocked = 0;
    int master = open("/dev/pts/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    e->ours[STDOUT] = master;
    if (master < 0 || ioctl(master, TIOCSPTLCK, &unlocked) < 0 ||
        ioctl(master, TIOCSWINSZ, &size) < 0)
        return -1;
    e->ours[STDIN] = fcntl(master, F_DUPFD_CLOEXEC, 4); /* watched on its own */
    for (int i = STDIN; i <= STDERR; i++)
        e->theirs[i] = i == STDIN ? ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC)
                                  : fcntl(e->theirs[STDIN], F_DUPFD_CLOEXEC, 4);
    return e->ours[STDIN] < 0 || e->theirs[STDERR] < 0 ? -1 : 0;
}

static int make_ends(struct ends *e, const struct cay_init_request *req)
{
    if (make_pipe(e, STATUS) < 0)
        return -1;
    if (req->flags & CAY_INIT_TTY)
        return make_terminal(e, req->window);
    if (req->flags & CAY_INIT_OPEN_STDIN && make_pipe(e, STDIN) < 0)
        return -1;
    return make_pipe(e, STDOUT) < 0 ? -1 : make_pipe(e, STDERR);
}

static void fill_job(struct cay_init *in, struct cay_job *job, const struct cay_init_request *req,
                     int conn, struct cay_counts before)
{
    *job = (struct cay_job){
        .state = CAY_JOB_STARTING,
        .use = job->use,
        .log_fd = job->log_fd,
        .conn = conn,
        .conn_use = in->conns[conn].use,
        .started_us = cay_init_mono_us(),
        .start_by_ms = in->now_ms + CAY_INIT_START_MS,
        .answer_at_ms = in->now_ms + (req->flags & CAY_INIT_TTY ? 0 : req->await_ms),
        .term_at_ms = req->timeout_ms ? in->now_ms + (int64_t)req->timeout_ms : CAY_INIT_NEVER,
        .kill_at_ms = CAY_INIT_NEVER,
        .resume_at_ms = CAY_INIT_NEVER,
        .retry_at_ms = CAY_INIT_NEVER,
        .grace_ms = req->grace_ms,
        .before = before,
    };
    memcpy(job->id, req->exec_id, sizeof job->id);
    cay_writer_init(&job->log, job->log_fd, req->log_head_bytes, req->log_tail_bytes);
}

static struct cay_init_reply failed(enum cay_init_result result, int error)
{
    return (struct cay_init_reply){.result = result, .error = error};
}

struct cay_init_reply cay_job_start(struct cay_init *in, const struct cay_init_request *req,
                                    int *fds, int conn)
{
    CAY_CLEANUP(close_ends)
    struct ends e = {{-1, -1, -1, -1}, {-1, -1, -1, -1}};
    const bool by_memfd = req->flags & CAY_INIT_BY_MEMFD;
    if (in->stopping)
        return failed(CAY_INIT_STOPPING, 0);
    if (cay_job_find(in, req->exec_id))
        return failed(CAY_INIT_BAD_REQUEST, EEXIST);
    if (!fds_are_sound(req, fds))
        return failed(CAY_INIT_BAD_REQUEST, EBADF);
    struct cay_job *job = find_slot(in);
    if (!job)
        return failed(CAY_INIT_TOO_MANY, 0);
    if (make_ends(&e, req) < 0)
        return failed(req->flags & CAY_INIT_TTY ? CAY_INIT_NO_STREAM : CAY_INIT_NO_PROCESS, errno);

    struct cay_child child = {
        .req = req,
        .strings = by_memfd ? NULL : (const char *)(req + 1),
        .memfd = fds[0],
        .has_tty = req->flags & CAY_INIT_TTY,
        .stdin_fd = req->flags & CAY_INIT_HAS_STDIN ? fds[1 + by_memfd] : e.theirs[STDIN],
        .stdout_fd = e.theirs[STDOUT],
        .stderr_fd = e.theirs[STDERR],
        .status_fd = e.theirs[STATUS],
        .file_bytes = in->file_bytes,
    };
    struct cay_counts before = cay_counts_now(in);
    pid_t pid = fork();
    if (pid == 0)
        cay_child_run(&child);
    if (pid < 0)
        return failed(CAY_INIT_NO_PROCESS, errno);

    job->log_fd = cay_take_fd(&fds[by_memfd]);
    fill_job(in, job, req, conn, before);
    job->pid = pid;
    job->pipe_fd[0] = cay_take_fd(&e.ours[STDOUT]);
    job->pipe_fd[1] = cay_take_fd(&e.ours[STDERR]);
    job->status_fd = cay_take_fd(&e.ours[STATUS]);
    cay_input_init(in, job, cay_take_fd(&e.ours[STDIN]),
                   child.has_tty ? cay_take_fd(&e.theirs[STDIN]) : -1);
    cay_init_watch(in, job->status_fd, CAY_TOKEN_STATUS, (size_t)(job - in->jobs), job->use);
    cay_pump_watch(in, job);
    return failed(CAY_INIT_OK, 0);
}

/* A start that came to nothing leaves no record; its process is reaped as anybody's. */
static void give_up(struct cay_init *in, struct cay_job *job)
{
    (void)kill(job->pid, SIGKILL); /* it has told, or is stuck: either way not reaped yet */
    cay_pump_close(in, job);
    cay_input_close(in, job);
    job->state = CAY_JOB_ENDED;
    cay_reap_free(job);
}

/* Who asked waited no longer, and has said that it did not begin. */
static bool is_given_up(const struct cay_job *job)
{
    struct stat st;
    return fstat(job->log_fd, &st) == 0 && st.st_nlink == 0;
}

void cay_job_status(struct cay_init *in, struct cay_job *job)
{
    struct cay_start_status s = {0};
    if (job->state != CAY_JOB_STARTING)
        return;
    ssize_t n = read(job->status_fd, &s, sizeof s);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        if (in->now_ms < job->start_by_ms)
            return;
        s = (struct cay_start_status){.result = CAY_INIT_NO_PROCESS, .error = ETIMEDOUT};
    }
    struct cay_init_reply reply = {.result = s.result, .error = s.error, .pid = job->pid};
    bool began = s.result == CAY_INIT_OK && !is_given_up(job);
    cay_init_unwatch(in, &job->status_fd);
    job->start_by_ms = CAY_INIT_NEVER;
    job->state = CAY_JOB_RUNNING;
    if (!began || in->now_ms >= job->answer_at_ms)
        cay_job_answer(in, job, reply);
    else
        (void)lseek(job->log_fd, CAY_INIT_BEGUN, SEEK_SET); /* of a file: cannot fail */
    if (!began)
        give_up(in, job);
}

void cay_job_answer(struct cay_init *in, struct cay_job *job, struct cay_init_reply reply)
{
    if (job->conn >= 0)
        cay_conn_answer(in, job->conn, job->conn_use, reply);
    job->conn = -1;
    job->answer_at_ms = CAY_INIT_NEVER;
}

bool cay_job_signal(const struct cay_job *job, int signal)
{
    /* the group is there once the child has made its session */
    return kill(-job->pid, signal) == 0 || kill(job->pid, signal) == 0;
}
