/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's loop: clients, signals, time. Nothing here waits, and nothing a client sends is
 * believed: ids, names and numbers are checked before anything is done with them. */
#include "engine/dispatcher.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/packet.h"
#include "engine/leftover.h"
#include "engine/opener.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define TICK_MS 250
#define TRIAL_END_MS 4000   /* less than a supervisor waits */
#define TRIAL_AGAIN_MS 5000 /* after one that failed */
#define TRIALS 20
#define MAX_BYTES (1ULL << 50) /* no host has more, and sums stay in range */

void cay_dispatcher_watch(struct cay_dispatcher *d, struct cay_source *s, uint32_t events)
{
    struct epoll_event ev = {.events = events, .data.ptr = s};
    if (epoll_ctl(d->epoll_fd, EPOLL_CTL_ADD, s->fd, &ev) < 0)
        cay_log_warn("epoll: %s", strerror(errno));
}

void cay_dispatcher_unwatch(struct cay_dispatcher *d, struct cay_source *s)
{
    (void)epoll_ctl(d->epoll_fd, EPOLL_CTL_DEL, s->fd, NULL); /* it may have gone already */
}

void cay_dispatcher_open_doors(struct cay_dispatcher *d)
{
    if (!d->open)
        cay_dispatcher_watch(d, &d->listener, EPOLLIN);
    d->open = true;
}

/* ---- answers ---- */

static void close_client(struct cay_dispatcher *d, struct cay_client *c)
{
    cay_dispatcher_unwatch(d, &c->source);
    cay_close_fd(&c->source.fd);
    c->used = false;
    if (d->backup.active && d->backup.client == (int)(c - d->clients))
        cay_backup_end(d);
    cay_images_client_gone(d, (int)(c - d->clients));
}

void cay_dispatcher_drop(struct cay_dispatcher *d, int client)
{
    close_client(d, &d->clients[client]);
}

void cay_dispatcher_answer(struct cay_dispatcher *d, struct cay_pending *p,
                           const struct cay_error *err, const void *data, size_t len, int fd)
{
    cay_dispatcher_answer_fds(d, p, err, data, len, &fd, fd >= 0);
}

/* The engine's own wishes have nobody who waits; but the one create among them is the trial. It is
 * made again for a while: one that was late on a host that boots says nothing of what it can do.
 * Nor does one that the host had nothing left for: so long each create finds out for itself. */
static void judge(struct cay_dispatcher *d, const struct cay_engine_request *rq,
                  const struct cay_error *err)
{
    if (err)
        cay_log_error(err, "%s: the engine's own wish failed", rq->id);
    if (rq->op != CAY_ENGINE_CREATE)
        return;
    bool lacks = err && (err->code == CAY_ERR_HOST_BUSY || err->code == CAY_ERR_HOST_FULL);
    d->broken = err && !lacks ? *err : (struct cay_error){0};
    d->trials += !lacks;
    d->trial_at_ms = err && d->trials < TRIALS ? cay_clock_mono_ms() + TRIAL_AGAIN_MS : 0;
}

void cay_dispatcher_answer_fds(struct cay_dispatcher *d, struct cay_pending *p,
                               const struct cay_error *err, const void *data, size_t len,
                               const int *fds, int fd_count)
{
    struct cay_client *c = p->client < 0 ? NULL : &d->clients[p->client];
    struct cay_engine_reply reply = {.version = CAY_ENGINE_VERSION, .len = (uint32_t)len};
    if (c && c->used && c->serial == p->serial) {
        if (err) {
            reply.code = err->code;
            cay_str_copy(reply.name, sizeof reply.name, err->name ? err->name : "");
            cay_str_copy(reply.msg, sizeof reply.msg, err->msg);
            cay_str_copy(reply.cause, sizeof reply.cause, err->cause);
        }
        c->busy = false;
        if (cay_packet_send(c->source.fd, &reply, sizeof reply, data, len, fds, fd_count) < 0)
            close_client(d, c);
    } else if (p->client < 0) {
        judge(d, &p->request, err);
    }
    free(p);
}

void cay_dispatcher_event(struct cay_dispatcher *d, const struct cay_engine_entry *e)
{
    for (int i = 0; i < CAY_MAX_CLIENTS; i++)
        if (d->clients[i].used && d->clients[i].events)
            (void)cay_packet_send(d->clients[i].source.fd, e, sizeof *e, NULL, 0, NULL, 0);
}

/* As it is; but of one that is to go nothing else counts, whatever it died of. */
static struct cay_engine_entry entry_of(const struct cay_box *box)
{
    struct cay_engine_entry entry = box->record.entry;
    if (box->record.intent == CAY_INTENT_DESTROY) {
        entry.state = CAY_ENGINE_STOPPED;
        cay_str_copy(entry.reason, sizeof entry.reason, "deleted");
    }
    return entry;
}

static int list_boxes(struct cay_dispatcher *d, struct cay_error *err)
{
    CAY_AUTO_FD int fd = memfd_create("list", MFD_CLOEXEC);
    FILE *f = fd < 0 ? NULL : fdopen(dup(fd), "w");
    if (!f)
        return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot make a list");
    for (size_t i = 0; i < CAY_BOX_BUCKETS; i++)
        for (struct cay_box *box = d->boxes[i]; box; box = box->next)
            if (box->job != CAY_JOB_CREATE && cay_id_is_sandbox(box->record.entry.id) &&
                strcmp(box->record.entry.id, CAY_TRIAL_ID) != 0) {
                struct cay_engine_entry entry = entry_of(box);
                fwrite(&entry, sizeof entry, 1, f);
            }
    if (fclose(f) != 0)
        return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot write a list");
    return cay_take_fd(&fd);
}

static void add_problem(struct cay_engine_hello *hello, const struct cay_engine_problem *problem,
                        char *out, size_t size, size_t *len)
{
    if (*len + sizeof *problem > size)
        return;
    memcpy(out + *len, problem, sizeof *problem);
    *len += sizeof *problem;
    hello->problem_count++;
}

static void add_disk(const struct cay_disk *disk, struct cay_engine_hello *hello, char *out,
                     size_t size, size_t *len)
{
    struct cay_engine_problem problem = {.what = "disk limit"};
    cay_str_copy(hello->disk, sizeof hello->disk, disk->kind);
    if (disk->fd >= 0)
        return;
    snprintf(problem.why, sizeof problem.why, "%s%s%.80s", disk->none.msg,
             *disk->none.cause ? ": " : "", disk->none.cause);
    snprintf(problem.fix, sizeof problem.fix, "%s; then start the server again",
             disk->none.code == CAY_ERR_CONFLICT
                 ? "delete them"
                 : "install btrfs-progs and xfsprogs, allow loop devices, use a kernel with btrfs "
                   "(6.7 or newer) or XFS and its quotas, and have 2 GiB free at the data "
                   "directory");
    add_problem(hello, &problem, out, size, len);
}

static void add_room(const struct cay_engine *e, struct cay_engine_hello *hello, char *out,
                     size_t size, size_t *len)
{
    struct cay_engine_problem problem = {.what = "room"};
    struct cay_error err;
    if (cay_disk_check(e->files_fd, e->records_fd, &err) == 0)
        return;
    snprintf(problem.why, sizeof problem.why, "%s: nothing new can be made", err.msg);
    snprintf(problem.fix, sizeof problem.fix,
             "delete sandboxes, snapshots or volumes, or make room on the filesystem of the data "
             "directory");
    add_problem(hello, &problem, out, size, len);
}

static const struct cay_engine_problem no_way_out = {
    .what = "network",
    .why = "sandboxes have no way out: the kernel refuses the rules that catch what they send",
    .fix = "use a kernel with nftables, nft_tproxy and nft_reject_inet (Debian's has "
           "them), and see the engine's log for its answer"};

static size_t describe(struct cay_dispatcher *d, char *out, size_t size)
{
    static const struct {
        enum cay_controller controller;
        const char *what;
    } limits[] = {
        {CAY_CG_MEMORY, "memory limit"}, {CAY_CG_CPU, "cpu limit"}, {CAY_CG_PIDS, "process limit"}};
    struct cay_engine_hello hello = {.version = CAY_VERSION,
                                     .room_bytes =
                                         cay_disk_room(&d->engine.disk, d->engine.files_fd),
                                     .pool_ready = (uint32_t)d->berth_count,
                                     .pool_size = CAY_BERTHS_READY};
    struct cay_engine_problem problem;
    size_t len = sizeof hello;
    int unified = d->engine.kit.cgroups.of[CAY_CG_MEMORY];

    hello.cgroup_version = unified >= 0 && d->engine.kit.cgroups.trees[unified].v2 ? 2 : 1;
    if (d->broken.code) {
        problem = (struct cay_engine_problem){.what = "sandbox", .fatal = 1};
        snprintf(problem.why, sizeof problem.why, "%s%s%.80s", d->broken.msg,
                 *d->broken.cause ? ": " : "", d->broken.cause);
        snprintf(problem.fix, sizeof problem.fix,
                 "run `cay doctor` as root; the engine needs root and Linux 6.1 or newer with "
                 "overlayfs, user, net and cgroup namespaces");
        add_problem(&hello, &problem, out, size, &len);
    }
    for (size_t i = 0; i < CAY_COUNT(limits); i++) {
        if (d->broken.code || !cay_cgroups_lacks(&d->engine.kit.cgroups, limits[i].controller))
            continue;
        problem = (struct cay_engine_problem){0};
        snprintf(problem.what, sizeof problem.what, "%s", limits[i].what);
        snprintf(problem.why, sizeof problem.why, "the host has no cgroup controller %s",
                 cay_controller_name(limits[i].controller));
        snprintf(problem.fix, sizeof problem.fix, "mount cgroup2 on /sys/fs/cgroup with it");
        add_problem(&hello, &problem, out, size, &len);
    }
    if (d->closed)
        add_problem(&hello, &no_way_out, out, size, &len);
    if (!d->broken.code)
        add_disk(&d->engine.disk, &hello, out, size, &len);
    if (!d->broken.code)
        add_room(&d->engine, &hello, out, size, &len);
    memcpy(out, &hello, sizeof hello);
    return len;
}

/* ---- requests ---- */

static bool terminated(const char *s, size_t size)
{
    return memchr(s, 0, size) != NULL;
}

/* What names a second tree. */
static int check_trees(const struct cay_engine_request *rq, struct cay_error *err)
{
    bool create = rq->op == CAY_ENGINE_CREATE, snapshot = rq->op == CAY_ENGINE_SNAPSHOT;
    bool is_box = cay_id_is_sandbox(rq->other) && strcmp(rq->other, CAY_TRIAL_ID) != 0;

    if (!terminated(rq->other, sizeof rq->other) || !terminated(rq->volume, sizeof rq->volume))
        return cay_fail(err, CAY_ERR_INVALID, "a string without its end");
    if (create && *rq->other && !cay_id_is_snapshot(rq->other) &&
        (!is_box || strcmp(rq->other, rq->id) == 0))
        return cay_fail(err, CAY_ERR_INVALID, "nothing that could be copied");
    if (snapshot && !cay_id_is_snapshot(rq->other))
        return cay_fail(err, CAY_ERR_INVALID, "not a snapshot id");
    if (*rq->volume && !cay_id_is_volume(rq->volume))
        return cay_fail(err, CAY_ERR_INVALID, "not a volume id");
    if (*rq->volume && (rq->drop_volume || *rq->other))
        return cay_fail(err, CAY_ERR_INVALID, "a volume, and what excludes one");
    if (rq->op == CAY_ENGINE_DROP && !cay_id_is_snapshot(rq->id) && !cay_id_is_volume(rq->id))
        return cay_fail(err, CAY_ERR_INVALID, "neither a snapshot id nor a volume id");
    return 0;
}

static int check(const struct cay_dispatcher *d, const struct cay_client *c,
                 const struct cay_engine_request *rq, struct cay_error *err)
{
    bool up = rq->op == CAY_ENGINE_CREATE || rq->op == CAY_ENGINE_START;
    bool has_id = (rq->op >= CAY_ENGINE_CREATE && rq->op <= CAY_ENGINE_USAGE) ||
                  rq->op == CAY_ENGINE_PAUSE || rq->op == CAY_ENGINE_RESUME ||
                  rq->op == CAY_ENGINE_SNAPSHOT || rq->op == CAY_ENGINE_LIMIT ||
                  rq->op == CAY_ENGINE_SOCKET;

    if (rq->version != CAY_ENGINE_VERSION)
        return cay_fail(err, CAY_ERR_UNSUPPORTED, "message version %u is not ours", rq->version);
    if (!terminated(rq->id, sizeof rq->id) || !terminated(rq->image, sizeof rq->image) ||
        !terminated(rq->hostname, sizeof rq->hostname))
        return cay_fail(err, CAY_ERR_INVALID, "a string without its end");
    if (has_id && (!cay_id_is_sandbox(rq->id) || strcmp(rq->id, CAY_TRIAL_ID) == 0))
        return cay_fail(err, CAY_ERR_INVALID, "not a sandbox id");
    if (rq->op == CAY_ENGINE_DOWN && c->uid != 0)
        return cay_fail(err, CAY_ERR_FORBIDDEN, "only root may end every sandbox");
    if (rq->op == CAY_ENGINE_STOP && rq->grace_ms > CAY_MAX_GRACE_MS)
        return cay_fail(err, CAY_ERR_INVALID, "grace of %u ms", rq->grace_ms);
    int r = check_trees(rq, err);
    if (r < 0)
        return r;
    /* Who never looked around knows of nothing, and must not say that nothing is there. */
    bool blind = !d->adopted && rq->op != CAY_ENGINE_HELLO && rq->op != CAY_ENGINE_EVENTS;
    if (d->broken.code && (up || blind)) {
        *err = d->broken;
        err->code = CAY_ERR_UNAVAILABLE;
        return err->code;
    }
    if (!up && rq->op != CAY_ENGINE_LIMIT)
        return 0;
    if ((up && !*rq->hostname) || (rq->op == CAY_ENGINE_CREATE && !*rq->image && !*rq->other) ||
        rq->memory_bytes < (uint64_t)CAY_MIN_MEMORY_BYTES ||
        rq->disk_bytes < (uint64_t)CAY_MIN_DISK_BYTES || rq->cpu_milli < CAY_MIN_CPU_MILLI ||
        rq->cpu_milli > CAY_MAX_CPU_MILLI || rq->pids < 8 || rq->memory_bytes > MAX_BYTES ||
        rq->disk_bytes > MAX_BYTES)
        return cay_fail(err, CAY_ERR_INVALID, "limits out of bounds");
    return 0;
}

static bool is_about_images(uint32_t op)
{
    return op >= CAY_ENGINE_IMAGE_HAS && op <= CAY_ENGINE_IMAGE_EXPORT;
}

static void take_request(struct cay_dispatcher *d, struct cay_client *c,
                         const struct cay_engine_request *rq, const int *fds, int fd_count)
{
    struct cay_error err;
    char text[CAY_MESSAGE_MAX / 2];
    struct cay_pending *p = calloc(1, sizeof *p);
    if (!p)
        abort();
    *p = (struct cay_pending){*rq, (int)(c - d->clients), c->serial, NULL};
    c->busy = true;
    int r = check(d, c, rq, &err);
    if (r == 0 && is_about_images(rq->op))
        r = cay_images_check(rq, fd_count, &err);
    if (r == 0 && is_about_images(rq->op)) {
        cay_images_take(d, p, fds, fd_count);
        return;
    }
    int recipe = r == 0 && rq->op == CAY_ENGINE_BUILD && fd_count ? fds[0] : -1;
    for (int i = recipe < 0 ? 0 : 1; i < fd_count; i++)
        close(fds[i]); /* nobody else is to bring any */
    if (r < 0) {
        cay_dispatcher_answer(d, p, &err, NULL, 0, -1);
        return;
    }
    switch ((enum cay_engine_op)rq->op) {
    case CAY_ENGINE_HELLO:
        cay_dispatcher_answer(d, p, NULL, text, describe(d, text, sizeof text), -1);
        return;
    case CAY_ENGINE_LIST: {
        CAY_AUTO_FD int fd = list_boxes(d, &err);
        cay_dispatcher_answer(d, p, fd < 0 ? &err : NULL, NULL, 0, fd);
        return;
    }
    case CAY_ENGINE_KEPT:
        cay_kept_list(d, p);
        return;
    case CAY_ENGINE_EVENTS:
        cay_dispatcher_answer(d, p, NULL, NULL, 0, -1);
        c->events = true;
        return;
    case CAY_ENGINE_DOWN:
        p->next = d->down;
        d->down = p;
        cay_boxes_destroy_all(d);
        return;
    case CAY_ENGINE_BUILD:
        cay_build_take(d, p, recipe);
        cay_close_fd(&recipe);
        return;
    case CAY_ENGINE_BACKUP:
    case CAY_ENGINE_BACKUP_HOLD:
    case CAY_ENGINE_BACKUP_GO:
    case CAY_ENGINE_BACKUP_TAKE:
    case CAY_ENGINE_BACKUP_FREE:
        cay_backup_take(d, p);
        return;
    default:
        cay_boxes_take(d, p);
    }
}

static void read_client(struct cay_dispatcher *d, struct cay_client *c)
{
    struct cay_engine_request rq;
    int fds[CAY_ENGINE_FDS], fd_count = 0;
    ssize_t n = cay_packet_recv(c->source.fd, &rq, sizeof rq, fds, CAY_ENGINE_FDS, &fd_count);
    if (n < 0 && errno == EAGAIN)
        return;
    if (n != sizeof rq || c->busy) { /* gone, or does not keep to one request at a time */
        for (int i = 0; n > 0 && i < fd_count; i++)
            close(fds[i]);
        close_client(d, c);
        return;
    }
    take_request(d, c, &rq, fds, fd_count);
}

static void accept_client(struct cay_dispatcher *d)
{
    struct ucred who;
    socklen_t len = sizeof who;
    CAY_AUTO_FD int fd = accept4(d->listener.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) < 0)
        return;
    if (who.uid != 0 && who.uid != d->engine.cfg->server_uid)
        return;
    for (int i = 0; i < CAY_MAX_CLIENTS; i++)
        if (!d->clients[i].used) {
            d->clients[i] = (struct cay_client){
                {CAY_FROM_CLIENT, cay_take_fd(&fd)}, true, false, false, who.uid, ++d->serial};
            cay_dispatcher_watch(d, &d->clients[i].source, EPOLLIN);
            return;
        }
}

/* ---- signals and time ---- */

/* One child, or all that have ended (-1): for that the kernel looks at every one there is. */
static void reap(struct cay_dispatcher *d, pid_t who)
{
    int status;
    for (pid_t pid; (pid = waitpid(who, &status, WNOHANG)) > 0;) {
        struct cay_box *box = cay_boxes_of_pid(d, pid);
        if (box)
            cay_boxes_died(d, box, true, status);
        else if (!cay_kept_child_died(d, pid, status) && !cay_images_child_died(d, pid) &&
                 !cay_jobs_child_died(d, pid) && !cay_build_child_died(d, pid) &&
                 cay_jobs_coming_up(d))
            d->early[d->early_at++ % CAY_COUNT(d->early)] = (struct cay_reaped){pid, status};
    }
}

/* Several who end at once may be one signal, so all are looked at; but for the one that is named,
 * only once. */
static void read_signals(struct cay_dispatcher *d)
{
    struct signalfd_siginfo si;
    while (read(d->signals.fd, &si, sizeof si) == sizeof si) {
        if (si.ssi_signo == SIGCHLD)
            reap(d, (pid_t)si.ssi_pid);
        else
            d->stop = true;
    }
    reap(d, -1);
}

static void try_sandbox(struct cay_dispatcher *d)
{
    d->trial_at_ms = 0;
    cay_boxes_wish(d, CAY_ENGINE_CREATE, CAY_TRIAL_ID, CAY_DEFAULT_IMAGE);
    cay_boxes_wish(d, CAY_ENGINE_DESTROY, CAY_TRIAL_ID, NULL);
}

static void tick(struct cay_dispatcher *d)
{
    int64_t now = cay_clock_mono_ms();
    cay_jobs_tick(d, now);
    cay_boxes_tick(d, now);
    cay_backup_tick(d, now);
    cay_images_tick(d, now);
    cay_trash_tick(d);
    cay_care_tick(d, now);
    if (d->trial_at_ms && now >= d->trial_at_ms)
        try_sandbox(d);
    while (d->down && d->box_count == 0 && d->trash_pid <= 0) {
        struct cay_pending *p = d->down;
        d->down = p->next;
        cay_dispatcher_answer(d, p, NULL, NULL, 0, -1);
    }
}

static void wake(struct cay_dispatcher *d, struct cay_source *s)
{
    if (s->fd < 0)
        return; /* closed by what came before it in the same batch */
    switch (s->kind) {
    case CAY_FROM_LISTENER:
        accept_client(d);
        break;
    case CAY_FROM_SIGNALS:
        read_signals(d);
        break;
    case CAY_FROM_CLIENT:
        read_client(d, (struct cay_client *)s);
        break;
    case CAY_FROM_SPAWNER:
        cay_jobs_spawner_ready(d, (struct cay_spawner *)s);
        break;
    case CAY_FROM_FILLER:
        cay_jobs_berth_ready(d);
        break;
    case CAY_FROM_IMAGER:
        cay_images_ready(d, (struct cay_image_job *)s);
        break;
    case CAY_FROM_KERNEL_LOG:
        cay_victims_read(d);
        break;
    case CAY_FROM_PIDFD:
        cay_boxes_died(d, (struct cay_box *)s, false, 0);
        break;
    }
}

static int open_loop(struct cay_dispatcher *d, int listen_fd, struct cay_error *err)
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    d->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    d->listener = (struct cay_source){CAY_FROM_LISTENER, listen_fd};
    d->signals =
        (struct cay_source){CAY_FROM_SIGNALS, signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK)};
    if (d->epoll_fd < 0 || d->signals.fd < 0)
        return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot make the engine's loop");
    cay_dispatcher_watch(d, &d->signals, EPOLLIN);
    cay_victims_open(d);
    return 0;
}

/* The trial proves on this very host that a sandbox can be made; reading version numbers would only
 * guess. Without the default image there is nothing to try with: the server says so. */
static void open_shop(struct cay_dispatcher *d)
{
    int r = cay_engine_prepare(&d->engine, d->engine.cfg, &d->broken);
    if (r == 0)
        r = cay_jobs_open(d, &d->broken);
    if (r < 0) {
        cay_log_error(&d->broken, "the engine cannot make sandboxes");
        cay_dispatcher_open_doors(d);
        return;
    }
    cay_adopt_all(d);
    d->adopted = true;
    if (d->engine.cfg->closing) {
        cay_dispatcher_open_doors(d);
        return;
    }
    cay_images_sweep(d);
    cay_boxes_wish(d, CAY_ENGINE_DESTROY, CAY_TRIAL_ID, NULL); /* of an engine that was killed */
    try_sandbox(d);
}

/* One that is told to end while its trial is on would leave it alive: it is over in milliseconds.
 */
static bool may_end(struct cay_dispatcher *d)
{
    static int64_t until;
    if (!until)
        until = cay_clock_mono_ms() + TRIAL_END_MS;
    return !cay_boxes_find(d, CAY_TRIAL_ID) || cay_clock_mono_ms() > until;
}

int cay_engine_run(const struct cay_config *cfg, int listen_fd)
{
    static struct cay_dispatcher d;
    struct cay_error err;
    struct epoll_event events[64];

    if (cfg->provider && strcmp(cfg->provider, "native") != 0)
        return cay_opener_run(cfg, listen_fd);
    d.engine.cfg = cfg;
    if (open_loop(&d, listen_fd, &err) < 0) {
        cay_log_error(&err, "the engine cannot start");
        return 1;
    }
    open_shop(&d);
    for (int64_t next = 0; !d.stop || !may_end(&d);) {
        int n = epoll_wait(d.epoll_fd, events, CAY_COUNT(events), TICK_MS);
        for (int i = 0; i < n; i++)
            wake(&d, events[i].data.ptr);
        if (cay_clock_mono_ms() >= next) {
            tick(&d);
            next = cay_clock_mono_ms() + TICK_MS;
        }
    }
    cay_leftover_clear_cgroups(&d.engine.kit.cgroups, CAY_LEFTOVER);
    cay_cgroups_close(&d.engine.kit.cgroups, d.engine.instance, d.box_count == 0);
    return 0;
}
