/* SPDX-License-Identifier: Apache-2.0 */
/* Starting cay-file: a child of the tenant's rights that runs a program of ours, from sealed
 * memory.
 *
 * It answers the host by its own pipe, so all that is kept of it here is its pid, to count it, and
 * the time when it must be gone; even why it could not be started is told by that pipe. */
#include "file/proto.h"
#include "init/init.h"
#include "init/user.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

struct pipes {
    int out, in, end; /* -1: none */
};

static CAY_NORETURN void refuse(enum cay_file_code code, int error)
{
    struct cay_file_reply reply = {.version = CAY_FILE_VERSION, .code = code, .error = error};
    (void)!write(STDOUT_FILENO, &reply, sizeof reply); /* nobody else to tell */
    _exit(1);
}

/* 0 to 2, the end's pipe, and the program, which goes with exec. */
static bool place_fds(const struct pipes *p)
{
    if ((p->in >= 0 && dup2(p->in, STDIN_FILENO) < 0) ||
        (p->end >= 0 && dup2(p->end, CAY_FILE_COMMIT_FD) < 0))
        return false;
    unsigned from = p->end >= 0 ? CAY_FILE_COMMIT_FD + 1 : CAY_FILE_COMMIT_FD;
    return syscall(SYS_close_range, from, CAY_INIT_FILE_FD - 1, 0) == 0 &&
           syscall(SYS_close_range, CAY_INIT_FILE_FD + 1, ~0U, 0) == 0;
}

static CAY_NORETURN void run(const struct cay_init *in, const struct cay_init_request *req,
                             const struct pipes *p)
{
    static const char *words[1 + CAY_FILE_ARGS + 1], *const env[] = {NULL};
    const struct rlimit file = {in->file_bytes, in->file_bytes};
    struct cay_user user;
    sigset_t none;
    if (dup2(p->out, STDOUT_FILENO) < 0)
        _exit(1);
    (void)setsid(); /* cannot fail: a forked child leads no group */
    if (!cay_init_unpack((const char *)(req + 1), req->strings_len, 1 + req->argc, words))
        refuse(CAY_FILE_BAD_REQUEST, 0);
    if (!cay_user_resolve(words[0], &user))
        refuse(CAY_FILE_NO_USER, 0);
    if (!place_fds(p) || cay_caps_raise() < 0)
        refuse(CAY_FILE_FAILED, errno);
    if (setrlimit(RLIMIT_FSIZE, &file) < 0)
        refuse(CAY_FILE_FAILED, errno);
    if (cay_caps_become(user.uid, user.gid) < 0)
        refuse(CAY_FILE_NO_USER, errno);
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)syscall(SYS_execveat, CAY_INIT_FILE_FD, "", words + 1, env, AT_EMPTY_PATH);
    refuse(CAY_FILE_FAILED, errno);
}

static bool are_pipes(const int *fds, unsigned count)
{
    struct stat st;
    for (unsigned i = 0; i < count; i++)
        if (fstat(fds[i], &st) < 0 || !S_ISFIFO(st.st_mode))
            return false;
    return true;
}

/* Nobody reads the answer: we stood still for too long to be waited for, and whoever asked was told
 * that it failed. So it must not be done. */
static bool was_given_up(int out)
{
    struct pollfd p = {.fd = out};
    return poll(&p, 1, 0) == 1 && (p.revents & POLLERR);
}

struct cay_init_reply cay_file_start(struct cay_init *in, const struct cay_init_request *req,
                                     const int *fds)
{
    const bool has_in = req->flags & CAY_INIT_HAS_STDIN, has_end = req->flags & CAY_INIT_HAS_END;
    const struct pipes p = {fds[0], has_in ? fds[1] : -1, has_end ? fds[1 + has_in] : -1};
    struct cay_file_call *free_call = NULL;
    if (in->stopping)
        return (struct cay_init_reply){.result = CAY_INIT_STOPPING};
    if (!are_pipes(fds, 1U + has_in + has_end) || !in->has_file || was_given_up(p.out))
        return (struct cay_init_reply){.result = CAY_INIT_BAD_REQUEST, .error = EBADF};
    for (size_t i = 0; i < CAY_MAX_FILE_CALLS; i++)
        if (!in->files[i].pid)
            free_call = &in->files[i];
    if (!free_call)
        return (struct cay_init_reply){.result = CAY_INIT_TOO_MANY};
    pid_t pid = fork();
    if (pid == 0)
        run(in, req, &p);
    if (pid < 0)
        return (struct cay_init_reply){.result = CAY_INIT_NO_PROCESS, .error = errno};
    *free_call = (struct cay_file_call){pid, in->now_ms + (int64_t)req->timeout_ms};
    return (struct cay_init_reply){.result = CAY_INIT_OK, .pid = pid};
}

void cay_file_reaped(struct cay_init *in, pid_t pid)
{
    for (size_t i = 0; i < CAY_MAX_FILE_CALLS; i++)
        if (in->files[i].pid == pid)
            in->files[i].pid = 0;
}

void cay_file_timers(struct cay_init *in)
{
    for (size_t i = 0; i < CAY_MAX_FILE_CALLS; i++) {
        struct cay_file_call *c = &in->files[i];
        if (!c->pid || in->now_ms < c->kill_at_ms)
            continue;
        (void)kill(c->pid, SIGKILL); /* not reaped yet, so it is nobody else's */
        c->kill_at_ms = CAY_INIT_NEVER;
    }
}

int64_t cay_file_next_ms(const struct cay_init *in)
{
    int64_t next = CAY_INIT_NEVER;
    for (size_t i = 0; i < CAY_MAX_FILE_CALLS; i++)
        if (in->files[i].pid && in->files[i].kill_at_ms < next)
            next = in->files[i].kill_at_ms;
    return next;
}
