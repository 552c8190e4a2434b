/* SPDX-License-Identifier: Apache-2.0 */
/* From the host's pipes into the stdin of executions, as fast as those read and no faster. */
#include "init/init.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>

#define TURNS 16 /* of one stdin, then others have theirs */

static uint64_t token(const struct cay_init *in, const struct cay_job *job)
{
    return cay_init_token(CAY_TOKEN_INPUT, (size_t)(job - in->jobs), job->use);
}

void cay_input_init(struct cay_init *in, struct cay_job *job, int stdin_fd, int tty_fd)
{
    struct cay_stdin *s = &job->in;
    s->fd = stdin_fd;
    s->tty_fd = tty_fd;
    s->carry = in->carries[job - in->jobs];
    for (size_t i = 0; i < CAY_MAX_INPUTS; i++)
        s->inputs[i] = (struct cay_input){-1, -1};
    if (stdin_fd >= 0) /* for its errors: a reader that is gone */
        cay_init_watch_for(in, stdin_fd, 0, token(in, job));
}

static void end_input(struct cay_init *in, struct cay_input *input)
{
    cay_init_unwatch(in, &input->fd);
    cay_close_fd(&input->end_fd);
}

void cay_input_close(struct cay_init *in, struct cay_job *job)
{
    struct cay_stdin *s = &job->in;
    for (size_t i = 0; i < CAY_MAX_INPUTS; i++)
        end_input(in, &s->inputs[i]);
    cay_init_unwatch(in, &s->fd);
    cay_close_fd(&s->tty_fd);
    s->watched = false;
}

/* On epoll while they are wanted, off it altogether while not: a hang-up is told even to whoever
 * asks for nothing. */
static void watch(struct cay_init *in, struct cay_job *job)
{
    struct cay_stdin *s = &job->in;
    bool wanted = s->len == 0 && !s->closing; /* else there is something to do to stdin first */
    cay_init_watch_for(in, s->fd, wanted ? 0 : EPOLLOUT, token(in, job));
    for (size_t i = 0; i < CAY_MAX_INPUTS; i++) {
        int fd = s->inputs[i].fd;
        if (fd >= 0 && wanted)
            cay_init_watch_for(in, fd, EPOLLIN, token(in, job));
        else if (fd >= 0 && s->watched)
            (void)epoll_ctl(in->epoll_fd, EPOLL_CTL_DEL, fd, NULL); /* it is in there */
    }
    s->watched = wanted;
}

/* True when nothing is left to write. A stdin that nobody reads any more takes its inputs along. */
static bool flush(struct cay_init *in, struct cay_job *job)
{
    struct cay_stdin *s = &job->in;
    while (s->len > 0) {
        ssize_t n = write(s->fd, s->carry + s->at, s->len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return false;
        if (n <= 0) {
            s->len = 0;
            cay_input_close(in, job);
            return false;
        }
        s->at += (size_t)n;
        s->len -= (size_t)n;
    }
    s->at = 0;
    return true;
}

/* A terminal has no end, but a character that means it: at the beginning of a line. */
static void close_stdin(struct cay_init *in, struct cay_job *job)
{
    struct cay_stdin *s = &job->in;
    struct termios t;
    s->closing = false;
    if (s->tty_fd < 0) {
        cay_input_close(in, job);
        return;
    }
    if (tcgetattr(s->tty_fd, &t) < 0 || t.c_cc[VEOF] == _POSIX_VDISABLE)
        return;
    s->carry[0] = s->carry[1] = (char)t.c_cc[VEOF];
    s->len = t.c_lflag & ICANON && s->last && s->last != '\n' ? 2 : 1;
    s->last = '\n';
}

/* True when something came of it: bytes, or an end. */
static bool fill(struct cay_init *in, struct cay_stdin *s)
{
    for (size_t i = 0; i < CAY_MAX_INPUTS; i++) {
        struct cay_input *input = &s->inputs[i];
        char byte;
        if (input->fd < 0)
            continue;
        ssize_t n = read(input->fd, s->carry, CAY_INIT_CARRY);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            continue;
        if (n > 0) {
            s->len = (size_t)n;
            s->last = s->carry[n - 1];
            return true;
        }
        s->closing |= n == 0 && input->end_fd >= 0 && read(input->end_fd, &byte, 1) == 1;
        end_input(in, input);
        return true;
    }
    return false;
}

/* An event says only that one of them has news; which one is found by trying. Only a stdin without
 * readers has errors. */
void cay_input_ready(struct cay_init *in, struct cay_job *job, bool failed)
{
    struct cay_stdin *s = &job->in;
    if (failed)
        cay_input_close(in, job);
    for (int i = 0; i < TURNS && s->fd >= 0 && flush(in, job); i++) {
        if (s->closing)
            close_stdin(in, job);
        else if (!fill(in, s))
            break;
    }
    if (s->fd >= 0)
        watch(in, job);
}

static struct cay_init_reply told(enum cay_init_result result, int error)
{
    return (struct cay_init_reply){.result = result, .error = error};
}

/* A pipe's end to read from; others could block us, or be a way out. */
static bool is_input(int fd)
{
    struct stat st;
    int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && (flags & O_ACCMODE) == O_RDONLY && !(flags & O_PATH) &&
           fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode) &&
           fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0;
}

/* Inputs stand in order of arrival: those that ended leave gaps, which are closed here. */
static struct cay_input *find_slot(struct cay_stdin *s)
{
    size_t count = 0;
    for (size_t i = 0; i < CAY_MAX_INPUTS; i++)
        if (s->inputs[i].fd >= 0)
            s->inputs[count++] = s->inputs[i];
    for (size_t i = count; i < CAY_MAX_INPUTS; i++)
        s->inputs[i] = (struct cay_input){-1, -1};
    return count < CAY_MAX_INPUTS ? &s->inputs[count] : NULL;
}

struct cay_init_reply cay_input_add(struct cay_init *in, const struct cay_init_request *req,
                                    const int *fds)
{
    const bool closes = req->flags & CAY_INIT_CLOSE;
    struct cay_job *job = cay_job_find(in, req->exec_id);
    if (!job)
        return told(CAY_INIT_NO_SUCH_EXEC, 0);
    if (!is_input(fds[0]) || (closes && !is_input(fds[1])))
        return told(CAY_INIT_BAD_REQUEST, EBADF);
    if (job->in.fd < 0)
        return told(CAY_INIT_NO_STREAM, EPIPE);
    struct cay_input *slot = find_slot(&job->in);
    if (!slot)
        return told(CAY_INIT_NO_STREAM, EBUSY);
    CAY_AUTO_FD int fd = fcntl(fds[0], F_DUPFD_CLOEXEC, 4);
    CAY_AUTO_FD int end_fd = closes ? fcntl(fds[1], F_DUPFD_CLOEXEC, 4) : -1;
    if (fd < 0 || (closes && end_fd < 0))
        return told(CAY_INIT_NO_STREAM, errno);
    *slot = (struct cay_input){cay_take_fd(&fd), cay_take_fd(&end_fd)};
    watch(in, job);
    return told(CAY_INIT_OK, 0);
}

struct cay_init_reply cay_input_resize(struct cay_init *in, const struct cay_init_request *req)
{
    const struct winsize size = {.ws_col = (uint16_t)req->window,
                                 .ws_row = (uint16_t)(req->window >> 16)};
    struct cay_job *job = cay_job_find(in, req->exec_id);
    if (!job)
        return told(CAY_INIT_NO_SUCH_EXEC, 0);
    if (job->in.tty_fd < 0 || ioctl(job->in.tty_fd, TIOCSWINSZ, &size) < 0)
        return told(CAY_INIT_NO_STREAM, ENOTTY);
    return told(CAY_INIT_OK, 0);
}
