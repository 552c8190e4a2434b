/* SPDX-License-Identifier: Apache-2.0 */
/* Requests about images: each is the work of a child, a few at a time, the others wait.
 *
 * A child says one thing, its answer, and ends; one that says nothing has failed. It is killed when
 * it is late, when its client goes, and when the engine does. */
#include "base/clock.h"
#include "base/log.h"
#include "base/packet.h"
#include "base/process.h"
#include "engine/dispatcher.h"
#include "engine/export.h"
#include "engine/layer.h"
#include "engine/shelf.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define SWEEP 0 /* the op of the engine's own wish */

struct answer {
    int code;
    char name[32];
    struct cay_error err;
    uint32_t len;
    char data[64];
};

/* ---- in the child ---- */

static int list(const struct cay_engine *e, const char *name, int *fd_out, struct cay_error *err)
{
    CAY_AUTO_FD int fd = memfd_create("images", MFD_CLOEXEC);
    int r = fd < 0 ? cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot make a memfd")
                   : cay_shelf_list(e, name, fd, err);
    if (r == 0)
        *fd_out = cay_take_fd(&fd);
    return r;
}

static void put_data(struct answer *a, const void *data, size_t len)
{
    memcpy(a->data, data, len);
    a->len = (uint32_t)len;
}

static int run(const struct cay_engine *e, const struct cay_image_job *job,
               const struct cay_engine_request *rq, const struct cay_berth *berth, struct answer *a,
               int *fd_out)
{
    struct cay_engine_unpacked unpacked;
    struct cay_engine_pruned pruned;
    int r = 0;
    switch (job->op) {
    case SWEEP:
        cay_shelf_sweep(e);
        return 0;
    case CAY_ENGINE_IMAGE_LAYER:
        r = cay_layer_unpack(e, berth, &rq->layer, job->fds[0], job->fds[1], &unpacked, &a->err);
        if (r == 0)
            put_data(a, &unpacked, sizeof unpacked);
        return r;
    case CAY_ENGINE_IMAGE_PUT:
        return cay_shelf_put(e->images_fd, rq->image, job->fds[0], &a->err);
    case CAY_ENGINE_IMAGE_LIST:
        return list(e, rq->image, fd_out, &a->err);
    case CAY_ENGINE_IMAGE_REMOVE:
        return cay_shelf_remove(e->images_fd, rq->image, &a->err);
    case CAY_ENGINE_IMAGE_PRUNE:
        r = cay_shelf_prune(e, &pruned, &a->err);
        if (r == 0)
            put_data(a, &pruned, sizeof pruned);
        return r;
    default:
        return cay_export(e, rq, job->fds[0], job->fds[1], &a->err);
    }
}

static void CAY_NORETURN child(const struct cay_engine *e, const struct cay_image_job *job,
                               struct cay_berth *berth, int sock)
{
    static struct answer a;
    static const struct cay_engine_request none;
    CAY_AUTO_FD int fd = -1;
    (void)signal(SIGPIPE, SIG_IGN); /* whoever reads an export may go */
    a.code = run(e, job, job->pending ? &job->pending->request : &none, berth, &a, &fd);
    if (a.code < 0 && a.err.name)
        cay_str_copy(a.name, sizeof a.name, a.err.name);
    a.err.name = NULL; /* a pointer of this process */
    _exit(cay_packet_send(sock, &a, sizeof a, NULL, 0, &fd, fd >= 0) < 0);
}

/* ---- jobs ---- */

static int64_t patience_ms(uint32_t op)
{
    return op == CAY_ENGINE_IMAGE_LAYER || op == CAY_ENGINE_IMAGE_EXPORT ? CAY_IMAGE_DATA_MS
                                                                         : CAY_IMAGE_CALL_MS;
}

/* The job's place is free afterwards. */
static void finish(struct cay_dispatcher *d, struct cay_image_job *job, const struct cay_error *err,
                   const void *data, size_t len, int fd)
{
    struct cay_pending *p = job->pending;
    struct cay_box *held = job->holds;
    if (job->source.fd >= 0)
        cay_dispatcher_unwatch(d, &job->source);
    cay_close_fd(&job->source.fd);
    for (int i = 0; i < CAY_ENGINE_FDS; i++)
        cay_close_fd(&job->fds[i]);
    job->used = false;
    if (p)
        cay_dispatcher_answer(d, p, err, data, len, fd);
    else if (err)
        cay_log_error(err, "the image store");
    if (held) {
        held->held--;
        cay_boxes_next(d, held);
    }
}

static void start(struct cay_dispatcher *d, struct cay_image_job *job)
{
    struct cay_error err;
    CAY_CLEANUP(cay_berth_done) struct cay_berth berth = CAY_NO_BERTH;
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
        cay_fail_errno(&err, CAY_ERR_PROVIDER, "cannot make a socket pair");
        finish(d, job, &err, NULL, 0, -1);
        return;
    }
    if (job->op == CAY_ENGINE_IMAGE_LAYER)
        berth = d->berths[--d->berth_count];
    struct cay_image_job whole = *job;
    for (int i = 0; i < CAY_ENGINE_FDS; i++)
        job->fds[i] = -1; /* the child's alone: a reader must see its end */
    job->pid = cay_jobs_fork(d, "cay-image");
    if (job->pid == 0) {
        close(pair[0]);
        child(&d->engine, &whole, &berth, pair[1]);
    }
    close(pair[1]);
    for (int i = 0; i < CAY_ENGINE_FDS; i++)
        cay_close_fd(&whole.fds[i]);
    job->source = (struct cay_source){CAY_FROM_IMAGER, pair[0]};
    if (job->pid < 0) {
        cay_fail_errno(&err, CAY_ERR_PROVIDER, "cannot fork to work on images");
        finish(d, job, &err, NULL, 0, -1);
        return;
    }
    (void)fcntl(pair[0], F_SETFL, O_NONBLOCK);
    cay_dispatcher_watch(d, &job->source, EPOLLIN);
    job->deadline_ms = cay_clock_mono_ms() + patience_ms(job->op);
}

/* How many may be at work before this one begins: an export lasts as long as its reader likes, a
 * layer as long as it is large, and those that move no data wait for neither. */
static bool has_room(const struct cay_dispatcher *d, uint32_t op)
{
    int all = 0, data = 0, exports = 0;
    for (size_t i = 0; i < CAY_COUNT(d->image_jobs); i++) {
        const struct cay_image_job *job = &d->image_jobs[i];
        bool busy = job->used && job->pid > 0, out = job->op == CAY_ENGINE_IMAGE_EXPORT;
        all += busy;
        data += busy && (out || job->op == CAY_ENGINE_IMAGE_LAYER);
        exports += busy && out;
    }
    if (op == CAY_ENGINE_IMAGE_EXPORT && exports >= CAY_IMAGE_EXPORTS)
        return false;
    bool moves = op == CAY_ENGINE_IMAGE_EXPORT || op == CAY_ENGINE_IMAGE_LAYER;
    return all < CAY_IMAGE_JOBS && (!moves || data < CAY_IMAGE_JOBS - 1);
}

/* The longest waiting one that may begin. */
static struct cay_image_job *next_job(struct cay_dispatcher *d)
{
    struct cay_image_job *best = NULL;
    for (size_t i = 0; i < CAY_COUNT(d->image_jobs); i++) {
        struct cay_image_job *job = &d->image_jobs[i];
        bool waits = job->used && job->pid == 0 && has_room(d, job->op) &&
                     (job->op != CAY_ENGINE_IMAGE_LAYER || d->berth_count > 0);
        if (waits && (!best || job->turn < best->turn))
            best = job;
    }
    return best;
}

void cay_images_pump(struct cay_dispatcher *d)
{
    bool began = false;
    for (struct cay_image_job *job; (job = next_job(d)); began = true)
        start(d, job);
    if (began)
        cay_jobs_pump(d); /* a berth was taken */
}

static struct cay_image_job *add(struct cay_dispatcher *d, uint32_t op, struct cay_pending *p,
                                 const int *fds, int count)
{
    for (size_t i = 0; i < CAY_COUNT(d->image_jobs); i++) {
        struct cay_image_job *job = &d->image_jobs[i];
        if (job->used)
            continue;
        *job = (struct cay_image_job){{CAY_FROM_IMAGER, -1}, .used = true,
                                      .pending = p,          .op = op,
                                      .fds = {-1, -1},       .turn = d->image_turn++};
        for (int k = 0; k < count; k++)
            job->fds[k] = fds[k];
        return job;
    }
    return NULL;
}

static bool ended(const char *s, size_t size)
{
    return memchr(s, 0, size) != NULL;
}

int cay_images_check(const struct cay_engine_request *rq, int fd_count, struct cay_error *err)
{
    const struct cay_engine_layer *l = &rq->layer;
    bool layer = rq->op == CAY_ENGINE_IMAGE_HAS || rq->op == CAY_ENGINE_IMAGE_LAYER;
    bool snapshot = rq->op == CAY_ENGINE_IMAGE_EXPORT && *rq->id;
    bool all = rq->op == CAY_ENGINE_IMAGE_LIST && !*rq->image;
    bool file = rq->op == CAY_ENGINE_IMAGE_LAYER || rq->op == CAY_ENGINE_IMAGE_PUT ||
                rq->op == CAY_ENGINE_IMAGE_EXPORT;
    if (!ended(l->digest, sizeof l->digest) || !ended(l->diff_id, sizeof l->diff_id))
        return cay_fail(err, CAY_ERR_INVALID, "a string without its end");
    if (layer &&
        (!cay_shelf_is_digest(l->diff_id) || (*l->digest && !cay_shelf_is_digest(l->digest)) ||
         l->size > INT64_MAX / 2 || l->offset > INT64_MAX / 2))
        return cay_fail(err, CAY_ERR_INVALID, "not a layer");
    if (snapshot && !cay_id_is_snapshot(rq->id))
        return cay_fail(err, CAY_ERR_INVALID, "not a snapshot id");
    if (!layer && !all && rq->op != CAY_ENGINE_IMAGE_PRUNE && !cay_shelf_is_name(rq->image))
        return cay_fail(err, CAY_ERR_INVALID, "not the name of an image");
    if (file ? fd_count < 1 : fd_count > 0)
        return cay_fail(err, CAY_ERR_INVALID, "%d descriptors", fd_count);
    return 0;
}

/* A snapshot has no other job than its end; that may wait until a copy is made. */
static bool is_going(const struct cay_box *box)
{
    for (const struct cay_pending *p = box->queue; p; p = p->next)
        if (p->request.op == CAY_ENGINE_DROP)
            return true;
    return box->job || box->current;
}

void cay_images_take(struct cay_dispatcher *d, struct cay_pending *p, const int *fds, int count)
{
    struct cay_error err;
    if (p->request.op == CAY_ENGINE_IMAGE_HAS) {
        char has = cay_shelf_has_layer(d->engine.images_fd, p->request.layer.diff_id);
        cay_dispatcher_answer(d, p, NULL, &has, 1, -1);
        return;
    }
    const bool snapshot = p->request.op == CAY_ENGINE_IMAGE_EXPORT && *p->request.id;
    struct cay_box *box = snapshot ? cay_boxes_find(d, p->request.id) : NULL;
    const bool goes = box && is_going(box);
    struct cay_image_job *job = goes ? NULL : add(d, p->request.op, p, fds, count);
    if (!job) {
        for (int i = 0; i < count; i++)
            close(fds[i]);
        if (goes)
            cay_fail_as(&err, CAY_ERR_NOT_FOUND, "SNAPSHOT_NOT_FOUND", "snapshot not found");
        else
            cay_fail(&err, CAY_ERR_UNAVAILABLE, "too many requests about images wait already");
        cay_dispatcher_answer(d, p, &err, NULL, 0, -1);
        return;
    }
    if (snapshot) {
        job->holds = box ? box : cay_boxes_add(d, p->request.id);
        job->holds->held++;
    }
    cay_images_pump(d);
}

bool cay_images_export(const struct cay_dispatcher *d, const struct cay_box *box)
{
    for (size_t i = 0; i < CAY_COUNT(d->image_jobs); i++)
        if (d->image_jobs[i].used && d->image_jobs[i].holds == box)
            return true;
    return false;
}

void cay_images_sweep(struct cay_dispatcher *d)
{
    if (add(d, SWEEP, NULL, NULL, 0))
        cay_images_pump(d);
}

void cay_images_ready(struct cay_dispatcher *d, struct cay_image_job *job)
{
    static struct answer a;
    int fds[1], fd_count = 0;
    ssize_t n = cay_packet_recv(job->source.fd, &a, sizeof a, fds, 1, &fd_count);
    CAY_AUTO_FD int fd = n == sizeof a && fd_count ? fds[0] : -1;
    if (n < 0 && errno == EAGAIN)
        return;
    if (n != sizeof a || a.len > sizeof a.data) {
        cay_dispatcher_unwatch(d, &job->source); /* it died; SIGCHLD brings the rest */
        return;
    }
    a.name[sizeof a.name - 1] = 0;
    a.err.name = a.name;
    finish(d, job, a.code < 0 ? &a.err : NULL, a.data, a.len, fd);
    cay_images_pump(d);
}

bool cay_images_child_died(struct cay_dispatcher *d, pid_t pid)
{
    struct cay_error err;
    for (size_t i = 0; i < CAY_COUNT(d->image_jobs); i++) {
        struct cay_image_job *job = &d->image_jobs[i];
        if (job->pid != pid || pid <= 0)
            continue;
        if (job->used)
            cay_images_ready(d, job); /* its last word may still be there */
        job->pid = 0;                 /* before its place is another's */
        if (job->used) {
            bool swept = job->op == SWEEP;
            cay_fail(&err, CAY_ERR_PROVIDER, "the process that worked on an image died");
            finish(d, job, &err, NULL, 0, -1);
            if (!swept)              /* one that dies of it would die again */
                cay_images_sweep(d); /* it could not clear away what it had begun */
        }
        cay_images_pump(d);
        return true;
    }
    return false;
}

void cay_images_client_gone(struct cay_dispatcher *d, int client)
{
    for (size_t i = 0; i < CAY_COUNT(d->image_jobs); i++) {
        struct cay_image_job *job = &d->image_jobs[i];
        if (!job->used || !job->pending || job->pending->client != client)
            continue;
        if (job->pid > 0)
            cay_process_kill(job->pid); /* its death does the rest */
        else
            finish(d, job, NULL, NULL, 0, -1);
    }
}

void cay_images_tick(struct cay_dispatcher *d, int64_t now_ms)
{
    for (size_t i = 0; i < CAY_COUNT(d->image_jobs); i++) {
        struct cay_image_job *job = &d->image_jobs[i];
        if (job->used && job->pid > 0 && now_ms > job->deadline_ms)
            cay_process_kill(job->pid);
    }
    cay_images_pump(d);
}
