/* SPDX-License-Identifier: Apache-2.0 */
/* What happens to a sandbox, one thing at a time. A request finds its sandbox idle and begins, or
 * waits in that sandbox's queue. What we are about to do is in the record before we do it. */
#include "base/clock.h"
#include "base/log.h"
#include "base/packet.h"
#include "base/process.h"
#include "engine/dispatcher.h"
#include "init/proto.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define HURRY_MS 100       /* most die sooner */
#define HURRIES 8          /* at a tick: each is dear where there are many sandboxes */
#define KILL_MS 10000      /* pid 1 not gone so long after SIGKILL: the caller is told */
#define STOP_EXTRA_MS 1500 /* beyond the grace that pid 1 itself keeps */

/* ---- small steps ---- */

static bool is_unknown(const struct cay_box *box)
{
    return box->record.entry.state == CAY_ENGINE_UNKNOWN;
}

static int save(struct cay_dispatcher *d, struct cay_box *box, struct cay_error *err)
{
    return is_unknown(box) ? cay_box_renew(d->engine.records_fd, &box->record, err)
                           : cay_box_save(d->engine.records_fd, &box->record, err);
}

void cay_boxes_finish(struct cay_dispatcher *d, struct cay_box *box, const struct cay_error *err)
{
    struct cay_pending *p = box->current;
    box->current = NULL;
    bool tells = p && !err && p->request.op == CAY_ENGINE_DESTROY;
    if (p)
        cay_dispatcher_answer(d, p, err, tells ? &box->record.entry : NULL,
                              tells ? sizeof box->record.entry : 0, -1);
}

/* ---- STOP, DESTROY ---- */

static void begin_kill(struct cay_dispatcher *d, struct cay_box *box)
{
    /* Everything in its pid namespace goes with it. An adopted one is not our child: its pid could
     * be another's by now, its pidfd could not. */
    if (box->source.fd >= 0)
        (void)syscall(SYS_pidfd_send_signal, box->source.fd, SIGKILL, NULL, 0);
    else
        cay_process_kill(box->record.pid);
    if (box->record.paused)
        cay_cgroup_let_die(&d->engine.kit.cgroups, box->record.entry.id);
    box->deadline_ms = cay_clock_mono_ms() + KILL_MS;
    box->hurry_at_ms = cay_clock_mono_ms() + HURRY_MS;
}

static void begin_stop(struct cay_dispatcher *d, struct cay_box *box)
{
    struct cay_error err;
    uint32_t grace_ms = box->current->request.grace_ms;
    struct cay_init_request stop = {
        .version = CAY_INIT_VERSION, .op = CAY_INIT_STOP, .grace_ms = grace_ms};

    stop.signal = (uint32_t)cay_connect_stop_signal(d, box->record.entry.id);

    box->record.intent = CAY_INTENT_STOP;
    int r = save(d, box, &err);
    if (r < 0) {
        box->record.intent = CAY_INTENT_NONE;
        cay_boxes_finish(d, box, &err);
        return;
    }
    cay_engine_crash("stop-intent-written", box->record.entry.id);
    if (cay_connect_pid1(d, box->record.entry.id, &box->stop_fd, &err) < 0 ||
        cay_packet_send(box->stop_fd, &stop, sizeof stop, NULL, 0, NULL, 0) < 0)
        begin_kill(d, box); /* a pid 1 that does not listen cannot be asked */
    else
        box->deadline_ms = cay_clock_mono_ms() + grace_ms + STOP_EXTRA_MS;
    cay_engine_crash("stop-asked", box->record.entry.id);
}

/* What becomes of /workspace is in the record as well, before the kill. */
static void begin_destroy(struct cay_dispatcher *d, struct cay_box *box)
{
    struct cay_error err;
    const struct cay_engine_request *rq = &box->current->request;
    if (*rq->volume || rq->drop_volume) {
        cay_str_copy(box->record.volume, sizeof box->record.volume, rq->volume);
        box->record.drop_volume = rq->drop_volume;
    }
    box->record.intent = CAY_INTENT_DESTROY;
    int r = save(d, box, &err);
    if (r < 0) {
        box->record.intent = CAY_INTENT_NONE;
        box->record.volume[0] = 0;
        box->record.drop_volume = false;
        cay_boxes_finish(d, box, &err);
        return;
    }
    cay_engine_crash("delete-intent-written", box->record.entry.id);
    if (!box->record.running) {
        if (is_unknown(box)) { /* the job kills what there is, if it does not stand still */
            cay_cgroup_let_die(&d->engine.kit.cgroups, box->record.entry.id);
            cay_cgroup_hurry(&d->engine.kit.cgroups, box->record.entry.id);
        }
        cay_jobs_add(d, box, CAY_JOB_REMOVE);
        return;
    }
    begin_kill(d, box);
    cay_engine_crash("delete-killed", box->record.entry.id);
}

/* ---- a request begins ---- */

static int check_state(const struct cay_box *box, enum cay_engine_op op, struct cay_error *err)
{
    bool must_run = op == CAY_ENGINE_CONNECT || op == CAY_ENGINE_USAGE || op == CAY_ENGINE_PAUSE ||
                    op == CAY_ENGINE_RESUME || op == CAY_ENGINE_LIMIT || op == CAY_ENGINE_SOCKET;
    if (is_unknown(box) && op != CAY_ENGINE_DESTROY)
        return cay_fail(err, CAY_ERR_PROVIDER,
                        "the engine cannot look at this sandbox: its log says why");
    if (must_run && !box->record.running)
        return cay_fail_as(err, CAY_ERR_CONFLICT, "SANDBOX_NOT_RUNNING", "sandbox is not running");
    return 0;
}

static void begin(struct cay_dispatcher *d, struct cay_box *box, struct cay_pending *p)
{
    struct cay_error err;
    bool running = box->record.running;

    if (check_state(box, (enum cay_engine_op)p->request.op, &err) < 0) {
        cay_dispatcher_answer(d, p, &err, NULL, 0, -1);
        return;
    }
    if (cay_kept_begin(d, box, p))
        return;
    switch ((enum cay_engine_op)p->request.op) {
    case CAY_ENGINE_CREATE: /* repeated: finds the first one */
    case CAY_ENGINE_START:
        if (running) {
            cay_connect_answer(d, box, p);
            return;
        }
        box->current = p;
        cay_jobs_add(d, box, CAY_JOB_START);
        return;
    case CAY_ENGINE_STOP:
        box->current = p;
        if (!running)
            cay_jobs_add(d, box, CAY_JOB_CLEAN); /* somebody may have been stuck in there */
        else if (box->record.paused)
            cay_jobs_add(d, box, CAY_JOB_THAW); /* who stands still hears no SIGTERM */
        else
            begin_stop(d, box);
        return;
    case CAY_ENGINE_DESTROY:
        box->current = p;
        begin_destroy(d, box);
        return;
    case CAY_ENGINE_PAUSE:
    case CAY_ENGINE_RESUME:
        cay_pause_begin(d, box, p);
        return;
    case CAY_ENGINE_LIMIT:
        box->current = p;
        cay_jobs_add(d, box, CAY_JOB_LIMIT);
        return;
    case CAY_ENGINE_CONNECT:
        cay_connect_answer(d, box, p);
        return;
    case CAY_ENGINE_SOCKET:
        cay_socket_answer(d, box, p);
        return;
    case CAY_ENGINE_USAGE:
        cay_usage_answer(d, box, p);
        return;
    default:
        cay_fail(&err, CAY_ERR_INVALID, "no operation %u", p->request.op);
        cay_dispatcher_answer(d, p, &err, NULL, 0, -1);
    }
}

void cay_boxes_next(struct cay_dispatcher *d, struct cay_box *box)
{
    while (box->queue && !box->current && !box->job && cay_kept_may_begin(d, box, box->queue)) {
        struct cay_pending *p = box->queue;
        box->queue = p->next;
        p->next = NULL;
        begin(d, box, p);
    }
    cay_kept_settle(d, box);
}

/* At most one per client: those whose client has gone are dropped. */
static void enqueue(struct cay_dispatcher *d, struct cay_box *box, struct cay_pending *p)
{
    struct cay_pending **at = &box->queue;
    while (*at) {
        struct cay_pending *old = *at;
        bool gone = old->client >= 0 && (!d->clients[old->client].used ||
                                         d->clients[old->client].serial != old->serial);
        if (gone) {
            *at = old->next;
            free(old);
        } else {
            at = &old->next;
        }
    }
    *at = p;
}

/* What only looks does not wait behind what changes. */
static bool only_looks(const struct cay_pending *p)
{
    return p->request.op == CAY_ENGINE_CONNECT || p->request.op == CAY_ENGINE_USAGE ||
           p->request.op == CAY_ENGINE_SOCKET;
}

void cay_boxes_take(struct cay_dispatcher *d, struct cay_pending *p)
{
    struct cay_error err;
    struct cay_box *box = cay_kept_where(d, &p->request);

    if (!box && p->request.op == CAY_ENGINE_CREATE && !*p->request.other) {
        box = cay_boxes_add(d, p->request.id);
        box->current = p;
        cay_jobs_add(d, box, CAY_JOB_CREATE);
    } else if (!box && p->request.op == CAY_ENGINE_DESTROY) {
        cay_dispatcher_answer(d, p, NULL, NULL, 0, -1);
    } else if (!box) {
        cay_fail(&err, CAY_ERR_NOT_FOUND, "the engine knows no %s",
                 *p->request.other && p->request.op == CAY_ENGINE_CREATE ? p->request.other
                                                                         : p->request.id);
        cay_dispatcher_answer(d, p, &err, NULL, 0, -1);
    } else if (only_looks(p)) {
        begin(d, box, p);
    } else if (p->request.op == CAY_ENGINE_DROP && cay_images_export(d, box)) {
        /* that lasts as long as its reader likes, and nobody can wait for it */
        cay_fail_as(&err, CAY_ERR_CONFLICT, "SNAPSHOT_IN_USE", "it is being exported");
        cay_dispatcher_answer(d, p, &err, NULL, 0, -1);
    } else {
        bool ends = p->request.op == CAY_ENGINE_DESTROY && box->record.running &&
                    box->record.intent == CAY_INTENT_STOP;
        enqueue(d, box, p);
        if (ends)
            begin_kill(d, box); /* what is to be destroyed needs no grace */
        cay_boxes_next(d, box);
    }
}

void cay_boxes_wish(struct cay_dispatcher *d, enum cay_engine_op op, const char *id,
                    const char *image)
{
    struct cay_pending *p = calloc(1, sizeof *p);
    if (!p)
        abort();
    p->client = -1;
    p->request = (struct cay_engine_request){.version = CAY_ENGINE_VERSION,
                                             .op = op,
                                             .memory_bytes = CAY_MIN_MEMORY_BYTES,
                                             .disk_bytes = CAY_MIN_DISK_BYTES,
                                             .cpu_milli = 1000,
                                             .pids = 16,
                                             .grace_ms = CAY_DEFAULT_GRACE_MS};
    cay_str_copy(p->request.id, sizeof p->request.id, id);
    cay_str_copy(p->request.image, sizeof p->request.image, image ? image : "");
    cay_str_copy(p->request.hostname, sizeof p->request.hostname, "trial");
    cay_boxes_take(d, p);
}

/* ---- a job is done ---- */

/* One that lives may have the number of another, that died before: hulls that nobody wanted. No
 * child of ours any more, and not kept either: more died than there is room for. */
static bool died_early(struct cay_dispatcher *d, pid_t pid, bool *known_out, int *status_out)
{
    pid_t ended = waitpid(pid, status_out, WNOHANG);
    *known_out = true;
    if (ended >= 0)
        return ended == pid;
    for (size_t i = 0; i < CAY_COUNT(d->early); i++)
        if (d->early[i].pid == pid) {
            *status_out = d->early[i].status;
            d->early[i].pid = 0;
            return true;
        }
    *known_out = false;
    return true;
}

/* Pids are used again: what nobody is waiting for must not be found later. */
static void forget_early(struct cay_dispatcher *d)
{
    if (!cay_jobs_coming_up(d))
        memset(d->early, 0, sizeof d->early);
}

static void came_up(struct cay_dispatcher *d, struct cay_box *box,
                    const struct cay_job_reply *reply)
{
    struct cay_pending *p = box->current;
    bool known;
    int status = 0;
    struct cay_engine_entry *e = &box->record.entry;

    box->current = NULL;
    box->record.running = true;
    box->record.intent = CAY_INTENT_NONE;
    box->record.pid = reply->pid;
    box->record.start_ticks = reply->start_ticks;
    cay_str_copy(box->record.boot_id, sizeof box->record.boot_id, d->engine.boot_id);
    box->record.paused = false;
    e->state = CAY_ENGINE_RUNNING;
    e->started_at_ms = reply->started_at_ms;
    e->ended_at_ms = 0;
    e->exit_code = e->signal = -1;
    e->reason[0] = 0;
    box->copied = reply->copied;
    bool early = died_early(d, reply->pid, &known, &status);
    forget_early(d);
    if (early) {
        box->current = p; /* its answer comes when the rest is cleared away */
        cay_boxes_died(d, box, known, status);
        return;
    }
    cay_engine_crash("create-engine-answers", e->id);
    cay_connect_answer(d, box, p);
}

/* It is gone. Those who waited for it begin anew, without it. */
static void forget(struct cay_dispatcher *d, struct cay_box *box)
{
    struct cay_pending *queue = box->queue;
    bool trial = strcmp(box->record.entry.id, CAY_TRIAL_ID) == 0;
    cay_boxes_drop(d, box);
    while (queue) {
        struct cay_pending *p = queue;
        queue = p->next;
        p->next = NULL;
        cay_boxes_take(d, p);
    }
    d->trash_wanted = true;
    if (trial && !cay_boxes_find(d, CAY_TRIAL_ID))
        cay_dispatcher_open_doors(d);
}

static void clear_away(struct cay_dispatcher *d, struct cay_box *box)
{
    box->died = false;
    cay_jobs_add(d, box, box->record.intent == CAY_INTENT_DESTROY ? CAY_JOB_REMOVE : CAY_JOB_CLEAN);
}

/* A name came from another process; what we hand on must not go away. */
static const char *known_name(const char *name)
{
    static const char *const known[] = {"IMAGE_NOT_FOUND", "SNAPSHOT_NOT_FOUND", "VOLUME_NOT_FOUND",
                                        "DISK_FULL",       "TOO_MANY_LAYERS",    "MEMORY_IN_USE",
                                        "DISK_IN_USE"};
    for (size_t i = 0; i < CAY_COUNT(known); i++)
        if (strcmp(known[i], name) == 0)
            return known[i];
    return NULL;
}

void cay_boxes_take_back(struct cay_dispatcher *d, struct cay_box *box, const struct cay_error *why,
                         enum cay_job_op job)
{
    if (!box->failed)
        box->failed = malloc(sizeof *box->failed);
    if (!box->failed)
        abort();
    *box->failed = *why;
    cay_jobs_add(d, box, job);
}

void cay_boxes_job_done(struct cay_dispatcher *d, struct cay_box *box,
                        const struct cay_job_reply *reply)
{
    struct cay_error err = reply->err;
    uint32_t job = box->job;

    err.name = known_name(reply->err_name);
    if (!reply->left)
        cay_kept_release(d, box);
    bool taken_back = box->failed;
    if (taken_back)
        err = *box->failed;
    free(box->failed);
    box->failed = NULL;
    box->job = 0;
    if ((job == CAY_JOB_CREATE || job == CAY_JOB_START) && reply->code == 0) {
        came_up(d, box, reply);
    } else if (job == CAY_JOB_FREEZE || job == CAY_JOB_THAW) {
        if (cay_pause_done(d, box, job, reply->code == 0,
                           reply->code < 0 || taken_back ? &err : NULL))
            begin_stop(d, box);
    } else if (job == CAY_JOB_CREATE && reply->left) {
        cay_boxes_take_back(d, box, &err, CAY_JOB_REMOVE);
        return;
    } else if (job == CAY_JOB_SNAPSHOT && reply->code == 0) {
        cay_dispatcher_answer(d, box->current, NULL, &reply->copied, sizeof reply->copied, -1);
        box->current = NULL;
        forget(d, box);
        return;
    } else if (job == CAY_JOB_CREATE || job == CAY_JOB_SNAPSHOT || job == CAY_JOB_UNDO ||
               (job == CAY_JOB_REMOVE && reply->code == 0)) {
        cay_boxes_finish(d, box, reply->code < 0 || taken_back ? &err : NULL);
        forget(d, box);
        return;
    } else {
        bool up = box->current && (box->current->request.op == CAY_ENGINE_CREATE ||
                                   box->current->request.op == CAY_ENGINE_START);
        if (up && reply->code == 0 && !taken_back)
            cay_fail(&err, CAY_ERR_PROVIDER, "the sandbox died as soon as it ran");
        cay_boxes_finish(d, box, up || reply->code < 0 ? &err : NULL);
    }
    if (box->died && !box->job)
        clear_away(d, box);
    cay_boxes_next(d, box);
}

/* Nobody knows how far it came. What was to come up is taken back before anyone hears of it: there
 * may be a process, and a record that says it runs. */
void cay_boxes_job_lost(struct cay_dispatcher *d, struct cay_box *box)
{
    struct cay_job_reply reply = {0};
    uint32_t job = box->job;
    reply.code = cay_fail(&reply.err, CAY_ERR_UNAVAILABLE, "the engine lost the one who did it");
    bool up = job == CAY_JOB_CREATE || job == CAY_JOB_START;
    if (job == CAY_JOB_SNAPSHOT) {
        cay_boxes_take_back(d, box, &reply.err, CAY_JOB_UNDO);
        return;
    }
    bool still = (job == CAY_JOB_FREEZE || job == CAY_JOB_THAW) && !box->failed;
    if (!up && !still) {
        cay_boxes_job_done(d, box, &reply);
        return;
    }
    if (still) { /* once: then its state is known again */
        cay_boxes_take_back(d, box, &reply.err, CAY_JOB_THAW);
        return;
    }
    cay_cgroup_kill(&d->engine.kit.cgroups, box->record.entry.id);
    cay_boxes_take_back(d, box, &reply.err, job == CAY_JOB_CREATE ? CAY_JOB_REMOVE : CAY_JOB_CLEAN);
}

/* ---- death ---- */

static const char *why(const struct cay_dispatcher *d, const struct cay_box *box, bool known,
                       int status)
{
    const struct cay_box_record *r = &box->record;
    if (r->intent == CAY_INTENT_STOP)
        return "stopped";
    if (!known && strcmp(r->boot_id, d->engine.boot_id) != 0)
        return "host_restart";
    if (known && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && r->entry.oom_kills)
        return "oom";
    return known && WIFSIGNALED(status) && !cay_signal_is_crash(WTERMSIG(status)) ? "signal"
                                                                                  : "error";
}

static void note_use(const struct cay_dispatcher *d, struct cay_engine_entry *e)
{
    struct cay_usage usage;
    cay_cgroup_total(&d->engine.kit.cgroups, e->id, &usage);
    e->cpu_us = usage.cpu_us;
    e->memory_peak_bytes = usage.memory_peak_bytes;
    e->oom_kills = usage.oom_kills;
}

static void write_end(struct cay_dispatcher *d, struct cay_box *box, bool known, int status)
{
    struct cay_error err;
    struct cay_engine_entry *e = &box->record.entry;

    e->ended_at_ms = cay_clock_ms();
    e->exit_code = known && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    e->signal = known && WIFSIGNALED(status) ? WTERMSIG(status) : -1;
    cay_str_copy(e->reason, sizeof e->reason, why(d, box, known, status));
    if (save(d, box, &err) < 0)
        cay_log_error(&err, "cannot record the end of %s", e->id);
    if (box->record.intent == CAY_INTENT_NONE)
        cay_dispatcher_event(d, e);
}

void cay_boxes_died(struct cay_dispatcher *d, struct cay_box *box, bool known, int status)
{
    if (box->source.fd >= 0) {
        cay_dispatcher_unwatch(d, &box->source);
        cay_close_fd(&box->source.fd);
    }
    cay_close_fd(&box->stop_fd);
    box->deadline_ms = 0;
    box->hurry_at_ms = 0;
    box->record.running = box->record.paused = false;
    box->record.entry.state = CAY_ENGINE_STOPPED;
    memset(box->io_bytes, 0, sizeof box->io_bytes);
    note_use(d, &box->record.entry);
    const char *id = box->record.entry.id;
    bool stops = box->record.intent == CAY_INTENT_STOP;
    bool goes = box->record.intent == CAY_INTENT_DESTROY; /* its record with it */
    if (stops || goes)
        cay_engine_crash(stops ? "stop-reaped" : "delete-reaped", id);
    if (!goes)
        write_end(d, box, known, status);
    if (stops)
        cay_engine_crash("stop-recorded", id);
    box->died = true;
    if (!box->job)
        clear_away(d, box);
}

/* ---- time ---- */

void cay_boxes_tick(struct cay_dispatcher *d, int64_t now_ms)
{
    struct cay_error err;
    int hurried = 0;
    for (size_t i = 0; i < CAY_BOX_BUCKETS; i++)
        for (struct cay_box *box = d->boxes[i]; box; box = box->next) {
            if (box->hurry_at_ms && now_ms >= box->hurry_at_ms && hurried++ < HURRIES) {
                cay_cgroup_hurry(&d->engine.kit.cgroups, box->record.entry.id);
                box->hurry_at_ms = 0;
            }
            if (!box->deadline_ms || now_ms < box->deadline_ms || !box->record.running)
                continue;
            if (box->record.intent == CAY_INTENT_STOP && box->stop_fd >= 0) {
                cay_close_fd(&box->stop_fd);
                begin_kill(d, box);
                continue;
            }
            box->deadline_ms = 0;
            cay_fail(&err, CAY_ERR_TIMEOUT, "%s does not die", box->record.entry.id);
            cay_boxes_finish(d, box, &err); /* its death is still waited for, and cleared away */
            cay_boxes_next(d, box);
        }
}

void cay_boxes_destroy_all(struct cay_dispatcher *d)
{
    for (size_t i = 0; i < CAY_BOX_BUCKETS; i++)
        for (struct cay_box *box = d->boxes[i], *next; box; box = next) {
            next = box->next;
            if (cay_id_is_sandbox(box->record.entry.id))
                cay_boxes_wish(d, CAY_ENGINE_DESTROY, box->record.entry.id, NULL);
        }
}
