/* SPDX-License-Identifier: Apache-2.0 */
/* Spawners and berths: who does the next job, and with what. */
#include "base/clock.h"
#include "base/log.h"
#include "base/packet.h"
#include "base/process.h"
#include "engine/dispatcher.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#define JOB_MS 15000   /* a spawner that takes longer is replaced */
#define FILLER_MS 1000 /* a filler that lives longer is no failure to start one */

/* ---- processes of our own ---- */

/* What is the dispatcher's alone: held by a child it would outlive its use. Whoever reads what a
 * client sent would wait for an end, and an id range would be taken when its sandbox is dead. */
static void close_others(struct cay_dispatcher *d)
{
    cay_close_fd(&d->epoll_fd);
    cay_close_fd(&d->listener.fd);
    cay_close_fd(&d->kernel_log.fd);
    for (int i = 0; i < CAY_MAX_CLIENTS; i++)
        if (d->clients[i].used)
            cay_close_fd(&d->clients[i].source.fd);
    for (size_t i = 0; i < CAY_BOX_BUCKETS; i++)
        for (struct cay_box *box = d->boxes[i]; box; box = box->next) {
            cay_close_fd(&box->source.fd);
            cay_close_fd(&box->stop_fd);
        }
    for (int i = 0; i < d->berth_count; i++)
        cay_berth_done(&d->berths[i]);
    for (size_t i = 0; i < CAY_COUNT(d->image_jobs); i++)
        for (int k = 0; d->image_jobs[i].used && k < CAY_ENGINE_FDS; k++)
            cay_close_fd(&d->image_jobs[i].fds[k]);
}

pid_t cay_jobs_fork(struct cay_dispatcher *d, const char *name)
{
    sigset_t none;
    pid_t parent = getpid(), pid = fork();
    if (pid != 0)
        return pid;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1); /* the dispatcher died in between */
    close_others(d);
    (void)prctl(PR_SET_NAME, name);
    return 0;
}

static int start_child(struct cay_dispatcher *d, const char *name, int *sock_out, pid_t *pid_out,
                       void (*serve)(struct cay_dispatcher *d, int sock), struct cay_error *err)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot make a socket pair");
    pid_t pid = cay_jobs_fork(d, name);
    if (pid == 0) {
        close(pair[0]);
        serve(d, pair[1]);
        _exit(0);
    }
    close(pair[1]);
    if (pid < 0) {
        close(pair[0]);
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot fork %s", name);
    }
    /* An event may be old news, of a process that had this place before: reading must not wait. */
    (void)fcntl(pair[0], F_SETFL, O_NONBLOCK);
    *sock_out = pair[0];
    *pid_out = pid;
    return 0;
}

static void serve_spawner(struct cay_dispatcher *d, int sock)
{
    cay_spawner_serve(&d->engine, sock);
}

/* In the place of a filler that could not be started: says why. Not at once, for the next one is
 * started when we have ended; and all is read before, or what we say would go with us. */
static void refuse_berths(int sock, const struct cay_error *err)
{
    char byte;
    (void)sleep(1);
    while (recv(sock, &byte, 1, MSG_DONTWAIT) > 0)
        ;
    (void)cay_berth_send(sock, &CAY_NO_BERTH, err);
}

/* A program of its own, see filler.c. */
static void serve_filler(struct cay_dispatcher *d, int sock)
{
    static const char *const env[] = {NULL};
    char number[16];
    const char *const argv[] = {"cay-berths", number, NULL};
    struct cay_error err;
    snprintf(number, sizeof number, "%d", sock);
    (void)fcntl(sock, F_SETFD, 0); /* all others are closed on exec */
    (void)syscall(SYS_execveat, d->engine.berth_fd, "", argv, env, AT_EMPTY_PATH);
    (void)cay_fail_errno(&err, CAY_ERR_PROVIDER, "cannot start cay-berth");
    refuse_berths(sock, &err);
}

static int start_spawner(struct cay_dispatcher *d, struct cay_spawner *s, struct cay_error *err)
{
    s->source.kind = CAY_FROM_SPAWNER;
    s->box = NULL;
    s->deadline_ms = 0;
    int r = start_child(d, "cay-spawn", &s->source.fd, &s->pid, serve_spawner, err);
    if (r == 0)
        cay_dispatcher_watch(d, &s->source, EPOLLIN);
    return r;
}

static int start_filler(struct cay_dispatcher *d, struct cay_error *err)
{
    d->filler.kind = CAY_FROM_FILLER;
    d->berths_asked = 0;
    d->filler_at_ms = cay_clock_mono_ms();
    int r = start_child(d, "cay-berths", &d->filler.fd, &d->filler_pid, serve_filler, err);
    if (r < 0)
        return r;
    (void)cay_kit_send(&d->engine.kit, d->filler.fd); /* without it the filler ends */
    cay_dispatcher_watch(d, &d->filler, EPOLLIN);
    return 0;
}

int cay_jobs_open(struct cay_dispatcher *d, struct cay_error *err)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int count = cores * 2 > 4 ? (int)cores * 2 : 4;
    d->spawner_count = count > CAY_MAX_SPAWNERS ? CAY_MAX_SPAWNERS : count;
    int r = start_filler(d, err);
    for (int i = 0; r == 0 && i < d->spawner_count; i++)
        r = start_spawner(d, &d->spawners[i], err);
    if (r == 0)
        cay_jobs_pump(d);
    return r;
}

/* ---- the queue ---- */

void cay_jobs_add(struct cay_dispatcher *d, struct cay_box *box, enum cay_job_op op)
{
    box->job = op;
    box->next_job = NULL;
    if (d->last_job)
        d->last_job->next_job = box;
    else
        d->first_job = box;
    d->last_job = box;
    cay_jobs_pump(d);
}

static bool needs_berth(const struct cay_box *box)
{
    return box->job == CAY_JOB_CREATE || box->job == CAY_JOB_START;
}

static bool copies(const struct cay_box *box)
{
    return box->job == CAY_JOB_SNAPSHOT ||
           (box->job == CAY_JOB_CREATE && *box->current->request.other);
}

static bool ends(const struct cay_box *box)
{
    return box->job == CAY_JOB_CLEAN || box->job == CAY_JOB_REMOVE;
}

static int busy_with(const struct cay_dispatcher *d, bool (*kind)(const struct cay_box *box))
{
    int busy = 0;
    for (int i = 0; i < d->spawner_count; i++)
        busy += d->spawners[i].box && kind(d->spawners[i].box);
    return busy;
}

/* Copies of every file take long: half of us go on with the rest. And however many end at once, a
 * quarter of us is there for those that come up. */
static bool must_wait(const struct cay_dispatcher *d, const struct cay_box *box)
{
    bool of_backup = box->backup || (box->from && box->from->backup);
    bool by_file = !cay_disk_can_snapshot(&d->engine.disk);
    return (of_backup && !cay_backup_is_copy(box)) || (needs_berth(box) && d->berth_count == 0) ||
           (copies(box) && by_file && busy_with(d, copies) >= d->spawner_count / 2) ||
           (ends(box) && busy_with(d, ends) >= d->spawner_count * 3 / 4);
}

/* The first job that can be done now: it passes those that wait for a berth, or for their turn. */
static struct cay_box *take_job(struct cay_dispatcher *d)
{
    struct cay_box **at = &d->first_job, *before = NULL;
    while (*at && must_wait(d, *at)) {
        before = *at;
        at = &(*at)->next_job;
    }
    struct cay_box *box = *at;
    if (box) {
        *at = box->next_job;
        if (d->last_job == box)
            d->last_job = before;
    }
    return box;
}

static void give(struct cay_dispatcher *d, struct cay_spawner *s, struct cay_box *box)
{
    struct cay_job job = {.op = box->job};
    struct cay_berth berth = CAY_NO_BERTH;
    int fds[CAY_BERTH_FDS];
    cay_str_copy(job.request.id, sizeof job.request.id, box->record.entry.id);
    cay_str_copy(job.request.volume, sizeof job.request.volume, box->record.volume);
    job.request.drop_volume = box->record.drop_volume;
    if (box->job == CAY_JOB_SNAPSHOT)
        cay_str_copy(job.request.other, sizeof job.request.other, box->current->request.id);
    if (needs_berth(box) || box->job == CAY_JOB_LIMIT)
        job.request = box->current->request;
    if (needs_berth(box)) {
        berth = d->berths[--d->berth_count];
        job.base = box->base = berth.base;
        job.hull = berth.hull;
    }
    int fd_count = cay_berth_to_fds(&berth, fds);
    s->box = box;
    s->deadline_ms = cay_clock_mono_ms() + (copies(box) ? CAY_ENGINE_COPY_MS : JOB_MS);
    /* A spawner that died has its socket closed; its end is noticed in cay_jobs_child_died. */
    (void)cay_packet_send(s->source.fd, &job, sizeof job, NULL, 0, fds, fd_count);
    cay_berth_done(&berth);
}

/* Who is coming up needs the processor more than the next one's berth does: while some are, only a
 * quarter is kept ready. */
static int berths_wanted(const struct cay_dispatcher *d)
{
    return cay_jobs_coming_up(d) ? CAY_BERTHS_READY / 4 : CAY_BERTHS_READY;
}

void cay_jobs_pump(struct cay_dispatcher *d)
{
    cay_backup_look(d);
    for (int i = 0; d->first_job && !d->backup.standstill && i < d->spawner_count; i++) {
        struct cay_spawner *s = &d->spawners[i];
        struct cay_box *box = s->box || s->pid <= 0 ? NULL : take_job(d);
        if (box)
            give(d, s, box);
    }
    while (d->filler_pid > 0 && d->berth_count + d->berths_asked < berths_wanted(d)) {
        if (cay_packet_send(d->filler.fd, "b", 1, NULL, 0, NULL, 0) < 0)
            break;
        d->berths_asked++;
    }
}

void cay_jobs_spawner_ready(struct cay_dispatcher *d, struct cay_spawner *s)
{
    struct cay_job_reply reply;
    ssize_t n = cay_packet_recv(s->source.fd, &reply, sizeof reply, NULL, 0, NULL);
    if (n < 0 && errno == EAGAIN)
        return;
    if (n != sizeof reply || !s->box) {
        cay_dispatcher_unwatch(d, &s->source); /* it died; SIGCHLD brings the rest */
        return;
    }
    struct cay_box *box = s->box;
    s->box = NULL;
    s->deadline_ms = 0;
    cay_boxes_job_done(d, box, &reply);
    cay_jobs_pump(d);
}

/* Without berths no create can go on: each one that waits gets the reason. */
static void fail_waiting(struct cay_dispatcher *d, const struct cay_error *err)
{
    struct cay_box *waiting = d->first_job;
    d->first_job = d->last_job = NULL;
    while (waiting) {
        struct cay_box *box = waiting;
        waiting = waiting->next_job;
        if (needs_berth(box)) {
            struct cay_job_reply reply = {.code = err->code, .err = *err};
            cay_boxes_job_done(d, box, &reply);
        } else {
            cay_jobs_add(d, box, box->job);
        }
    }
}

void cay_jobs_berth_ready(struct cay_dispatcher *d)
{
    struct cay_error err;
    struct cay_berth berth;
    int r = cay_berth_receive(d->filler.fd, &berth, &err);
    if (r == CAY_ERR_UNAVAILABLE)
        return; /* nothing there yet */
    if (d->berths_asked > 0)
        d->berths_asked--;
    if (r < 0) {
        if (!d->no_berth) /* they are asked for again and again */
            cay_log_error(&err, "no berth");
        d->no_berth = true;
        if (r == CAY_ERR_INTERNAL) { /* or it is there, and we had no room for what it gave */
            cay_dispatcher_unwatch(d, &d->filler);
            cay_process_kill(d->filler_pid); /* SIGCHLD brings the rest */
            err.code = CAY_ERR_HOST_BUSY;
        }
        fail_waiting(d, &err);
        return;
    }
    d->closed = berth.closed;
    d->no_berth = false;
    if (d->berth_count < CAY_BERTHS_READY)
        d->berths[d->berth_count++] = berth;
    else
        cay_berth_done(&berth);
    if (d->first_job)
        cay_jobs_pump(d);
    cay_images_pump(d);
}

bool cay_jobs_busy(const struct cay_dispatcher *d)
{
    for (int i = 0; i < d->spawner_count; i++)
        if (d->spawners[i].box)
            return true;
    return false;
}

bool cay_jobs_coming_up(const struct cay_dispatcher *d)
{
    for (int i = 0; i < d->spawner_count; i++)
        if (d->spawners[i].box && needs_berth(d->spawners[i].box))
            return true;
    return false;
}

/* ---- when one of ours dies ---- */

/* What it has put by for others is of no use to them. A child removes it, for that may take long.
 */
static void clear_after(struct cay_dispatcher *d, pid_t pid)
{
    if (d->gone_count < (int)CAY_COUNT(d->gone)) /* else the next engine removes it */
        d->gone[d->gone_count++] = pid;
    d->trash_wanted = true;
}

static void spawner_died(struct cay_dispatcher *d, struct cay_spawner *s)
{
    struct cay_error err;
    struct cay_box *box = s->box;
    cay_log_warn("a spawner died%s%s", box ? " while working on " : "",
                 box ? box->record.entry.id : "");
    cay_dispatcher_unwatch(d, &s->source);
    cay_close_fd(&s->source.fd);
    clear_after(d, s->pid);
    s->pid = 0;
    if (start_spawner(d, s, &err) < 0)
        cay_log_error(&err, "cannot replace a spawner");
    if (box)
        cay_boxes_job_lost(d, box);
}

bool cay_jobs_child_died(struct cay_dispatcher *d, pid_t pid)
{
    struct cay_error err;
    for (int i = 0; i < d->spawner_count; i++)
        if (d->spawners[i].pid == pid) {
            spawner_died(d, &d->spawners[i]);
            cay_jobs_pump(d);
            return true;
        }
    if (pid == d->filler_pid) {
        cay_dispatcher_unwatch(d, &d->filler);
        cay_close_fd(&d->filler.fd);
        d->filler_pid = 0;
        /* One that ends at once would end again and again: the next tick starts the next. */
        bool lived = cay_clock_mono_ms() - d->filler_at_ms > FILLER_MS;
        if (lived && start_filler(d, &err) < 0)
            cay_log_error(&err, "cannot replace the filler of berths");
        cay_jobs_pump(d);
        return true;
    }
    if (pid == d->disk_pid) {
        d->disk_pid = 0;
        return true;
    }
    if (pid == d->trash_pid) {
        d->trash_pid = 0;
        d->backup.clearing = false;
        return true;
    }
    return false;
}

/* Those that could not be forked when their place became free. */
static void start_missing(struct cay_dispatcher *d)
{
    struct cay_error err = {0};
    int alive = 0;
    for (int i = 0; i < d->spawner_count; i++) {
        if (d->spawners[i].pid == 0 && start_spawner(d, &d->spawners[i], &err) < 0)
            cay_log_error(&err, "cannot start a spawner");
        alive += d->spawners[i].pid > 0;
    }
    if (err.code && alive == 0)
        fail_waiting(d, &err);
    if (d->spawner_count > 0 && d->filler_pid == 0 && start_filler(d, &err) < 0)
        cay_log_error(&err, "cannot start the filler of berths");
    cay_jobs_pump(d);
}

void cay_jobs_tick(struct cay_dispatcher *d, int64_t now_ms)
{
    for (int i = 0; i < d->spawner_count; i++)
        if (d->spawners[i].deadline_ms && now_ms > d->spawners[i].deadline_ms)
            cay_process_kill(d->spawners[i].pid); /* its death does the rest */
    start_missing(d);
}
