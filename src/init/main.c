/* SPDX-License-Identifier: Apache-2.0 */
/* cay-init: pid 1 of a sandbox. It starts processes for the host, writes what they say into their
 * logs, keeps their times and reaps whatever ends, while servers and engines come and go.
 *
 * It is exec'ed by the engine from a sealed memfd, as CAY_INIT_UID of a new user namespace with
 * CAY_INIT_CAPS, behind a seccomp filter, with an empty environment, /dev/null at 0 to 2, its
 * listening socket at 3 and a lock at 4. */
#include "init/init.h"
#include "init/slice.h"
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#define EVENTS 16
#define SIGNALS 64

static struct cay_init init;

/* From the kernel itself: the page that answers without a call lies far from all others, and to
 * look into it costs each sandbox 12 KiB of page tables. */
static struct timespec now(clockid_t clock)
{
    struct timespec t = {0};
    (void)syscall(SYS_clock_gettime, clock, &t); /* cannot fail for these clocks */
    return t;
}

int64_t cay_init_mono_us(void)
{
    struct timespec t = now(CLOCK_MONOTONIC);
    return t.tv_sec * 1000000LL + t.tv_nsec / 1000;
}

int64_t cay_init_wall_ms(void)
{
    struct timespec t = now(CLOCK_REALTIME);
    return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}

uint64_t cay_init_token(enum cay_token what, size_t slot, uint32_t use)
{
    return (uint64_t)what << 56 | (uint64_t)slot << 32 | use;
}

void cay_init_watch_for(struct cay_init *in, int fd, uint32_t events, uint64_t token)
{
    struct epoll_event ev = {.events = events, .data.u64 = token};
    if (epoll_ctl(in->epoll_fd, EPOLL_CTL_MOD, fd, &ev) < 0)
        (void)epoll_ctl(in->epoll_fd, EPOLL_CTL_ADD, fd, &ev); /* fails only without memory */
}

void cay_init_watch(struct cay_init *in, int fd, enum cay_token what, size_t slot, uint32_t use)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.u64 = cay_init_token(what, slot, use)};
    (void)epoll_ctl(in->epoll_fd, EPOLL_CTL_ADD, fd, &ev); /* fails only without memory */
}

void cay_init_unwatch(struct cay_init *in, int *fd)
{
    if (*fd >= 0)
        (void)epoll_ctl(in->epoll_fd, EPOLL_CTL_DEL, *fd, NULL); /* it may not be in there */
    cay_close_fd(fd);
}

static void set_up(struct cay_init *in)
{
    sigset_t all;
    const struct rlimit no_core = {0, 0};
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, NULL);
    /* What children begin with; refused for KILL and STOP. Not by the C library, which keeps two
     * signals to itself and would leave them ignored where our caller ignores them. */
    static const uint64_t by_default[4];
    for (int i = 1; i <= SIGNALS; i++)
        (void)syscall(SYS_rt_sigaction, i, by_default, NULL, sizeof(uint64_t));
    (void)setrlimit(RLIMIT_CORE, &no_core);
    (void)umask(022);
    (void)syscall(SYS_close_range, CAY_INIT_PIDS_FD + 1, ~0U, 0); /* there should be none */
    in->has_file = fcntl(CAY_INIT_FILE_FD, F_SETFD, FD_CLOEXEC) == 0;
    (void)fcntl(CAY_INIT_LOCK_FD, F_SETFD, FD_CLOEXEC); /* absent in tests */
    in->has_counts = cay_counts_take_over();
    for (size_t i = 0; i < CAY_INIT_CONNS; i++)
        in->conns[i].fd = -1;
    in->accept_at_ms = in->stop_kill_at_ms = CAY_INIT_NEVER;

    sigset_t child;
    (void)sigemptyset(&child);
    (void)sigaddset(&child, SIGCHLD);
    in->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    in->signal_fd = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    if (in->epoll_fd < 0 || in->signal_fd < 0 ||
        fcntl(CAY_INIT_LISTEN_FD, F_SETFD, FD_CLOEXEC) < 0 ||
        fcntl(CAY_INIT_LISTEN_FD, F_SETFL, O_NONBLOCK) < 0)
        _exit(3);
    cay_init_watch(in, CAY_INIT_LISTEN_FD, CAY_TOKEN_LISTEN, 0, 0);
    cay_init_watch(in, in->signal_fd, CAY_TOKEN_SIGNAL, 0, 0);
}

static void dispatch(struct cay_init *in, const struct epoll_event *ev)
{
    const enum cay_token what = (enum cay_token)(ev->data.u64 >> 56);
    const size_t slot = ev->data.u64 >> 32 & 0xffffff;
    const uint32_t use = (uint32_t)ev->data.u64;
    struct cay_job *job = &in->jobs[slot];
    struct signalfd_siginfo info;
    switch (what) {
    case CAY_TOKEN_LISTEN:
        cay_conn_accept(in);
        return;
    case CAY_TOKEN_SIGNAL:
        (void)!read(in->signal_fd, &info, sizeof info); /* one stands for many */
        cay_reap(in);
        return;
    case CAY_TOKEN_CONN:
        if (in->conns[slot].fd >= 0 && in->conns[slot].use == use)
            cay_conn_ready(in, &in->conns[slot], ev->events & (EPOLLHUP | EPOLLERR));
        return;
    case CAY_TOKEN_STATUS:
        if (job->use == use)
            cay_job_status(in, job);
        return;
    case CAY_TOKEN_STDOUT:
    case CAY_TOKEN_STDERR:
        if (job->use == use && job->state != CAY_JOB_FREE)
            cay_pump_ready(in, job, what == CAY_TOKEN_STDERR);
        return;
    case CAY_TOKEN_INPUT:
        if (job->use == use && job->state != CAY_JOB_FREE)
            cay_input_ready(in, job, ev->events & EPOLLERR);
        return;
    }
}

/* Rounded down, a wait of less than a millisecond would spin. */
static int wait_ms(const struct cay_init *in)
{
    int64_t next = cay_reap_next_ms(in);
    int64_t left = next - cay_init_mono_us() / 1000;
    if (next == CAY_INIT_NEVER)
        return -1;
    return left < 0 ? 0 : left > 60000 ? 60000 : (int)left + 1;
}

static void run(void)
{
    struct cay_init *in = &init;
    for (;;) {
        struct epoll_event events[EVENTS];
        int n = epoll_wait(in->epoll_fd, events, EVENTS, wait_ms(in));
        in->now_ms = cay_init_mono_us() / 1000;
        for (int i = 0; i < n; i++)
            dispatch(in, &events[i]);
        if (in->now_ms >= in->accept_at_ms) {
            in->accept_at_ms = CAY_INIT_NEVER;
            cay_init_watch(in, CAY_INIT_LISTEN_FD, CAY_TOKEN_LISTEN, 0, 0);
        }
        cay_reap_timers(in);
    }
}

/* The first argument: how large a file may become, for all but ourselves, since logs are bounded by
 * other means. Absent: unlimited. */
int main(int argc, char **argv)
{
    struct cay_init *in = &init;
    in->file_bytes = argc > 1 ? strtoull(argv[1], NULL, 10) : RLIM_INFINITY;
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || getpid() != 1)
        _exit(2);
    (void)prctl(PR_SET_NAME, "cay-init"); /* executed from a memfd it has that one's */
    if (argc > 2 && strcmp(argv[2], CAY_INIT_ALONE) == 0 && cay_alone_open(in) < 0)
        _exit(5);
    set_up(in);
    if (cay_caps_become_init() < 0)
        _exit(4);
    cay_slice_set(CAY_SLICE_SHORT_NS);
    cay_stack_move(run);
}
