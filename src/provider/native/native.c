/* SPDX-License-Identifier: Apache-2.0 */
/* The native provider: its table, each entry a question to the engine. */
#include "provider/native/native.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/packet.h"
#include "model/limits.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>

#define HEALTH_MS 2000
#define AGAIN_MS 200
#define ROOM_MS 5000

struct cay_native {
    struct cay_local local;
    _Atomic(const char *) disk;  /* as the engine said last; NULL: never heard */
    _Atomic uint64_t room_bytes; /* the same */
    _Atomic int64_t room_asked_ms;
    int events_fd;
};

static struct cay_engine_request request(enum cay_engine_op op, const char *id)
{
    struct cay_engine_request rq = {.version = CAY_ENGINE_VERSION, .op = op};
    cay_str_copy(rq.id, sizeof rq.id, id);
    return rq;
}

/* ---- events ---- */

static void set_death(struct cay_provider_entry *out, const struct cay_engine_entry *e)
{
    static const char *const reasons[] = {"stopped", "deleted", "oom",         "signal",
                                          "exited",  "error",   "host_restart"};
    out->death = (struct cay_death){.reason = "error",
                                    .has_exit = e->exit_code >= 0,
                                    .has_signal = e->signal > 0,
                                    .exit_code = e->exit_code,
                                    .signal = e->signal,
                                    .peak_bytes = e->memory_peak_bytes,
                                    .cpu_ms = e->cpu_us / 1000};
    for (size_t i = 0; i < CAY_COUNT(reasons); i++)
        if (strncmp(reasons[i], e->reason, sizeof e->reason) == 0)
            out->death.reason = reasons[i];
}

static void translate(struct cay_provider_entry *out, const struct cay_engine_entry *e)
{
    *out = (struct cay_provider_entry){.running = e->state != CAY_ENGINE_STOPPED,
                                       .paused = e->state == CAY_ENGINE_PAUSED,
                                       .unknown = e->state == CAY_ENGINE_UNKNOWN,
                                       .started_at_ms = e->started_at_ms,
                                       .ended_at_ms = e->ended_at_ms};
    memcpy(out->id, e->id, sizeof out->id - 1);
    if (!out->running)
        set_death(out, e);
}

static bool subscribe(struct cay_native *n)
{
    struct cay_engine_request rq = request(CAY_ENGINE_EVENTS, "");
    struct cay_engine_reply reply;
    n->events_fd = cay_local_connect(&n->local);
    if (n->events_fd < 0)
        return false;
    return cay_packet_send(n->events_fd, &rq, sizeof rq, NULL, 0, NULL, 0) == 0 &&
           cay_packet_recv(n->events_fd, &reply, sizeof reply, NULL, 0, NULL) == sizeof reply;
}

static void tell(struct cay_local *l, const struct cay_engine_entry *e)
{
    struct cay_provider_entry entry = {0};
    translate(&entry, e);
    cay_pid1_forget(l, entry.id);
    cay_local_tell(l, &entry);
}

static void *listen_events(void *arg)
{
    struct cay_native *n = arg;
    for (bool first = true;; first = false) {
        struct cay_engine_entry e;
        bool heard = subscribe(n);
        if (heard && !first)
            cay_local_tell(&n->local, NULL);
        while (heard && !cay_local_closing(&n->local, n->events_fd, -1) &&
               cay_packet_recv(n->events_fd, &e, sizeof e, NULL, 0, NULL) == sizeof e)
            tell(&n->local, &e);
        cay_close_fd(&n->events_fd);
        if (cay_local_closing(&n->local, -1, AGAIN_MS))
            return NULL;
    }
}

/* ---- the table ---- */

static int reach(struct cay_local *l, const char *id, char *data, size_t size, size_t *len_out,
                 int *fd_out, struct cay_error *err)
{
    struct cay_engine_request rq = request(CAY_ENGINE_CONNECT, id);
    return cay_local_call(l, &rq, CAY_ENGINE_CALL_MS, data, size, len_out, fd_out, err);
}

static void close_native(struct cay_provider *p)
{
    struct cay_native *n = (struct cay_native *)p;
    cay_local_done(&n->local);
    free(n);
}

static int open_native(const struct cay_config *cfg, struct cay_queue *events,
                       struct cay_provider **out, struct cay_error *err)
{
    struct cay_native *n = calloc(1, sizeof *n);
    if (!n)
        abort();
    n->local.base.ops = &cay_provider_native;
    n->local.reach = reach;
    n->events_fd = -1;
    cay_local_init(&n->local, cfg, events);
    int r = cay_local_listen(&n->local, listen_events, err);
    if (r < 0)
        close_native(&n->local.base);
    else
        *out = &n->local.base;
    return r;
}

static const char *disk_kind(const char *told)
{
    static const char *const kinds[] = {"xfs", "btrfs", "loop-btrfs", "loop-xfs"};
    for (size_t i = 0; i < CAY_COUNT(kinds); i++)
        if (strcmp(kinds[i], told) == 0)
            return kinds[i];
    return "none";
}

static int health(struct cay_provider *p, struct cay_arena *a, struct cay_health *out,
                  struct cay_error *err)
{
    struct cay_engine_request rq = request(CAY_ENGINE_HELLO, "");
    struct cay_engine_hello hello;
    char data[CAY_MESSAGE_MAX];
    size_t len;
    int r =
        cay_local_call((struct cay_local *)p, &rq, HEALTH_MS, data, sizeof data, &len, NULL, err);
    if (r < 0)
        return r;
    if (len < sizeof hello)
        return cay_fail(err, CAY_ERR_PROVIDER, "the engine's answer is too short");
    memcpy(&hello, data, sizeof hello);
    hello.disk[sizeof hello.disk - 1] = 0;
    ((struct cay_native *)p)->disk = disk_kind(hello.disk);
    atomic_store(&((struct cay_native *)p)->room_bytes, hello.room_bytes);
    size_t fit = (len - sizeof hello) / sizeof(struct cay_engine_problem);
    size_t count = hello.problem_count < fit ? hello.problem_count : fit;
    *out = (struct cay_health){.version = cay_arena_strdup(a, hello.version),
                               .disk = disk_kind(hello.disk),
                               .problems = cay_arena_alloc(a, (count + 1) * sizeof *out->problems),
                               .problem_count = count,
                               .pool_ready = hello.pool_ready,
                               .pool_size = hello.pool_size};
    for (size_t i = 0; i < count; i++) {
        struct cay_engine_problem problem;
        memcpy(&problem, data + sizeof hello + i * sizeof problem, sizeof problem);
        out->problems[i] = (struct cay_problem){
            cay_arena_strdup(a, problem.what), cay_arena_strdup(a, problem.why),
            cay_arena_strdup(a, problem.fix), problem.fatal != 0};
    }
    return 0;
}

/* One asks at a time; the others, and all when the engine is away, take what was heard last. */
static uint64_t room(struct cay_provider *p)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_native *n = (struct cay_native *)p;
    struct cay_health ignored;
    struct cay_error err;
    int64_t now_ms = cay_clock_mono_ms(), asked_ms = atomic_load(&n->room_asked_ms);
    bool old = asked_ms == 0 || now_ms - asked_ms > ROOM_MS;
    if (old && atomic_compare_exchange_strong(&n->room_asked_ms, &asked_ms, now_ms))
        (void)health(p, &a, &ignored, &err);
    return atomic_load(&n->room_bytes);
}

/* It does not change while an image is there, so what was heard once holds. */
static const char *disk(struct cay_provider *p)
{
    struct cay_native *n = (struct cay_native *)p;
    if (!n->disk)
        (void)room(p); /* asks, unless somebody did just now */
    return n->disk ? n->disk : "unknown";
}

static struct cay_copied translate_copied(const struct cay_engine_copied *c)
{
    static const char *const methods[] = {"btrfs-snapshot", "reflink", "copy"};
    struct cay_copied out = {.ms = c->ms, .bytes = c->bytes};
    for (size_t i = 0; i < CAY_COUNT(methods); i++)
        if (strncmp(methods[i], c->method, sizeof c->method) == 0)
            out.method = methods[i];
    return out;
}

static void set_limits(struct cay_engine_request *rq, const struct cay_spec *spec)
{
    rq->memory_bytes = spec->memory_bytes;
    rq->disk_bytes = spec->disk_bytes;
    rq->cpu_milli = spec->cpu_milli;
    rq->pids = spec->pids;
}

static int bring_up(struct cay_provider *p, enum cay_engine_op op, const char *id,
                    const struct cay_spec *spec, struct cay_copied *copied, struct cay_error *err)
{
    struct cay_native *n = (struct cay_native *)p;
    struct cay_engine_request rq = request(op, id);
    char data[CAY_MESSAGE_MAX];
    size_t len;
    CAY_CLEANUP(cay_local_close_fds) struct cay_local_fds fds = {0};
    struct cay_engine_image image;

    cay_str_copy(rq.image, sizeof rq.image, spec->image);
    cay_str_copy(rq.hostname, sizeof rq.hostname, spec->name);
    rq.persistent = spec->persistent || spec->volume; /* that outlives the host as well */
    rq.socket = cay_network_leads_out(&spec->network) ? CAY_SOCKET_OUT : 0;
    set_limits(&rq, spec);
    if (op == CAY_ENGINE_CREATE) {
        cay_str_copy(rq.other, sizeof rq.other, spec->from ? spec->from : "");
        cay_str_copy(rq.volume, sizeof rq.volume, spec->volume ? spec->volume : "");
    }
    int64_t patience_ms = *rq.other ? CAY_ENGINE_COPY_MS : CAY_ENGINE_CALL_MS;
    int r = cay_local_call_fds(&n->local, &rq, patience_ms, data, sizeof data, &len, &fds, err);
    if (r < 0)
        return r;
    if (copied && len >= sizeof image) {
        memcpy(&image, data, sizeof image);
        *copied = translate_copied(&image.copied);
    }
    cay_pid1_learn(&n->local, id, data, len, fds.count > 0 ? cay_take_fd(&fds.at[0]) : -1);
    if (fds.count == 3)
        cay_pid1_keep_way(&n->local, id,
                          (struct cay_way_out){cay_take_fd(&fds.at[1]), cay_take_fd(&fds.at[2])});
    return 0;
}

static int create(struct cay_provider *p, const char *id, const struct cay_spec *spec,
                  struct cay_copied *copied, struct cay_error *err)
{
    return bring_up(p, CAY_ENGINE_CREATE, id, spec, copied, err);
}

static int start(struct cay_provider *p, const char *id, const struct cay_spec *spec,
                 struct cay_error *err)
{
    return bring_up(p, CAY_ENGINE_START, id, spec, NULL, err);
}

static int stop(struct cay_provider *p, const char *id, int64_t grace_ms, struct cay_error *err)
{
    struct cay_native *n = (struct cay_native *)p;
    struct cay_engine_request rq = request(CAY_ENGINE_STOP, id);
    rq.grace_ms = (uint32_t)grace_ms;
    cay_pid1_forget(&n->local, id);
    return cay_local_call(&n->local, &rq, grace_ms + CAY_ENGINE_CALL_MS, NULL, 0, NULL, NULL, err);
}

static int destroy(struct cay_provider *p, const char *id, const char *volume,
                   struct cay_usage *used, struct cay_error *err)
{
    struct cay_engine_entry end;
    size_t len = 0;
    struct cay_native *n = (struct cay_native *)p;
    struct cay_engine_request rq = request(CAY_ENGINE_DESTROY, id);
    cay_str_copy(rq.volume, sizeof rq.volume, volume ? volume : "");
    rq.drop_volume = volume && !*volume;
    cay_pid1_forget(&n->local, id);
    int r = cay_local_call(&n->local, &rq, CAY_ENGINE_CALL_MS, &end, sizeof end, &len, NULL, err);
    if (r < 0)
        return r;
    *used = (struct cay_usage){0};
    if (len == sizeof end) { /* else it was gone already */
        used->cpu_us = end.cpu_us;
        used->memory_peak_bytes = end.memory_peak_bytes;
        used->oom_kills = end.oom_kills;
    }
    return 0;
}

static int limit(struct cay_provider *p, const char *id, const struct cay_spec *spec,
                 struct cay_error *err)
{
    struct cay_engine_request rq = request(CAY_ENGINE_LIMIT, id);
    set_limits(&rq, spec);
    return cay_local_call((struct cay_local *)p, &rq, CAY_ENGINE_CALL_MS, NULL, 0, NULL, NULL, err);
}

static int socket_inside(struct cay_provider *p, const char *id, enum cay_socket_kind kind,
                         int *fd_out, struct cay_error *err)
{
    struct cay_engine_request rq = request(CAY_ENGINE_SOCKET, id);
    rq.socket = kind;
    int r =
        cay_local_call((struct cay_local *)p, &rq, CAY_ENGINE_CALL_MS, NULL, 0, NULL, fd_out, err);
    if (r == 0 && *fd_out < 0)
        return cay_fail(err, CAY_ERR_PROVIDER, "the engine's answer has no socket");
    return r;
}

static int way_out(struct cay_provider *p, const char *id, struct cay_way_out *out,
                   struct cay_error *err)
{
    CAY_CLEANUP(cay_local_close_fds) struct cay_local_fds fds = {0};
    struct cay_engine_request rq = request(CAY_ENGINE_SOCKET, id);
    if (cay_pid1_take_way((struct cay_local *)p, id, out))
        return 0;
    rq.socket = CAY_SOCKET_OUT;
    int r = cay_local_call_fds((struct cay_local *)p, &rq, CAY_ENGINE_CALL_MS, NULL, 0, NULL, &fds,
                               err);
    if (r == 0 && fds.count != 2)
        return cay_fail(err, CAY_ERR_PROVIDER, "the engine's answer has no sockets");
    if (r == 0)
        *out = (struct cay_way_out){cay_take_fd(&fds.at[0]), cay_take_fd(&fds.at[1])};
    return r;
}

static int usage(struct cay_provider *p, const char *id, struct cay_usage *out,
                 struct cay_error *err)
{
    struct cay_engine_request rq = request(CAY_ENGINE_USAGE, id);
    struct cay_usage got;
    size_t len;
    int r = cay_local_call((struct cay_local *)p, &rq, CAY_ENGINE_CALL_MS, &got, sizeof got, &len,
                           NULL, err);
    if (r == 0 && len != sizeof got)
        return cay_fail(err, CAY_ERR_PROVIDER, "the engine's answer is too short");
    if (r == 0)
        *out = got;
    return r;
}

static int ask(struct cay_provider *p, enum cay_engine_op op, const char *id, struct cay_error *err)
{
    struct cay_engine_request rq = request(op, id);
    return cay_local_call((struct cay_local *)p, &rq, CAY_ENGINE_CALL_MS, NULL, 0, NULL, NULL, err);
}

static int pause_box(struct cay_provider *p, const char *id, struct cay_error *err)
{
    return ask(p, CAY_ENGINE_PAUSE, id, err);
}

static int resume(struct cay_provider *p, const char *id, struct cay_error *err)
{
    return ask(p, CAY_ENGINE_RESUME, id, err);
}

static int drop(struct cay_provider *p, const char *kept_id, struct cay_error *err)
{
    return ask(p, CAY_ENGINE_DROP, kept_id, err);
}

static int snapshot(struct cay_provider *p, const char *id, const char *snapshot_id,
                    struct cay_copied *out, struct cay_error *err)
{
    struct cay_engine_request rq = request(CAY_ENGINE_SNAPSHOT, id);
    struct cay_engine_copied copied;
    size_t len;
    cay_str_copy(rq.other, sizeof rq.other, snapshot_id);
    int r = cay_local_call((struct cay_local *)p, &rq, CAY_ENGINE_COPY_MS, &copied, sizeof copied,
                           &len, NULL, err);
    if (r == 0 && len != sizeof copied)
        return cay_fail(err, CAY_ERR_PROVIDER, "the engine's answer is too short");
    if (r == 0)
        *out = translate_copied(&copied);
    return r;
}

/* A list that comes in a memfd, and how many of `size` bytes there are. */
static int ask_list(struct cay_provider *p, enum cay_engine_op op, size_t size, int *fd_out,
                    size_t *count_out, struct cay_error *err)
{
    struct cay_engine_request rq = request(op, "");
    CAY_AUTO_FD int fd = -1;
    struct stat st;
    int r = cay_local_call((struct cay_local *)p, &rq, CAY_ENGINE_CALL_MS, NULL, 0, NULL, &fd, err);
    if (r < 0)
        return r;
    if (fd < 0 || fstat(fd, &st) < 0)
        return cay_fail(err, CAY_ERR_PROVIDER, "the engine sent no list");
    *count_out = (size_t)st.st_size / size;
    *fd_out = cay_take_fd(&fd);
    return 0;
}

static int kept(struct cay_provider *p, struct cay_arena *a, struct cay_strs *out,
                struct cay_error *err)
{
    CAY_AUTO_FD int fd = -1;
    size_t count;
    int r = ask_list(p, CAY_ENGINE_KEPT, CAY_ID_SIZE, &fd, &count, err);
    if (r < 0)
        return r;
    out->at = cay_arena_alloc(a, (count + 1) * sizeof *out->at);
    out->count = count;
    for (size_t i = 0; i < count; i++) {
        char id[CAY_ID_SIZE];
        if (pread(fd, id, sizeof id, (off_t)(i * sizeof id)) != sizeof id)
            return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot read the engine's list");
        id[sizeof id - 1] = 0;
        out->at[i] = cay_arena_strdup(a, id);
    }
    return 0;
}

static int list(struct cay_provider *p, struct cay_arena *a, struct cay_provider_list *out,
                struct cay_error *err)
{
    CAY_AUTO_FD int fd = -1;
    size_t count;
    int r = ask_list(p, CAY_ENGINE_LIST, sizeof(struct cay_engine_entry), &fd, &count, err);
    if (r < 0)
        return r;
    *out = (struct cay_provider_list){cay_arena_alloc(a, (count + 1) * sizeof *out->at), count};
    for (size_t i = 0; i < count; i++) {
        struct cay_engine_entry e;
        if (pread(fd, &e, sizeof e, (off_t)(i * sizeof e)) != sizeof e)
            return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot read the engine's list");
        translate(&out->at[i], &e);
    }
    return 0;
}

const struct cay_provider_ops cay_provider_native = {
    .name = "native",
    .open = open_native,
    .close = close_native,
    .health = health,
    .disk = disk,
    .room = room,
    .create = create,
    .start = start,
    .stop = stop,
    .destroy = destroy,
    .limit = limit,
    .socket = socket_inside,
    .way_out = way_out,
    .usage = usage,
    .pause = pause_box,
    .resume = resume,
    .snapshot = snapshot,
    .drop = drop,
    .kept = kept,
    .list = list,
    .exec = cay_local_exec,
    .kill = cay_local_kill,
    .input = cay_local_input,
    .resize = cay_local_resize,
    .file = cay_local_file,
    .executions = cay_local_executions,
    .image_has = cay_native_image_has,
    .image_layer = cay_native_image_layer,
    .image_put = cay_native_image_put,
    .image_list = cay_native_image_list,
    .image_remove = cay_native_image_remove,
    .image_prune = cay_native_image_prune,
    .image_export = cay_native_image_export,
    .build = cay_local_build,
    .recipes = cay_local_recipes,
};
