/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes that are only remembered, and commands that only pretend; fails when told to. */
#include "provider/fake/fake.h"
#include "base/clock.h"
#include "model/limits.h"
#include "provider/fake/inside.h"
#include <signal.h>
#include <string.h>
#include <sys/socket.h>

int cay_fake_fails(struct cay_fake *f, struct cay_error *err)
{
    if (f->fail_at == 0 || --f->fail_at > 0)
        return 0;
    f->failed = true;
    return cay_fail(err, CAY_ERR_PROVIDER, "the fake provider fails as ordered");
}

struct cay_fake_box *cay_fake_box(struct cay_fake *f, const char *id)
{
    for (struct cay_fake_box *b = f->boxes; b; b = b->next)
        if (strcmp(b->entry.id, id) == 0)
            return b;
    return NULL;
}

static int find_running(struct cay_fake *f, const char *id, struct cay_fake_box **out,
                        struct cay_error *err)
{
    *out = cay_fake_box(f, id);
    if (!*out)
        return cay_fail(err, CAY_ERR_NOT_FOUND, "sandbox not found");
    if (!(*out)->entry.running)
        return cay_fail_as(err, CAY_ERR_CONFLICT, "SANDBOX_NOT_RUNNING",
                           "the sandbox is not running");
    return 0;
}

int cay_fake_awake(struct cay_fake *f, const char *id, struct cay_fake_box **out,
                   struct cay_error *err)
{
    int r = find_running(f, id, out, err);
    if (r == 0 && (*out)->entry.paused)
        return cay_fail(err, CAY_ERR_TIMEOUT, "pid 1 of the sandbox did not answer");
    return r;
}

static struct cay_fake_box *add(struct cay_fake *f, const char *id, int64_t started_at_ms)
{
    struct cay_fake_box *b = calloc(1, sizeof *b);
    if (!b)
        abort();
    cay_str_copy(b->entry.id, sizeof b->entry.id, id);
    b->entry.running = true;
    b->entry.started_at_ms = started_at_ms;
    b->next = f->boxes;
    f->boxes = b;
    return b;
}

static void drop(struct cay_fake *f, const char *id)
{
    for (struct cay_fake_box **at = &f->boxes; *at; at = &(*at)->next) {
        struct cay_fake_box *b = *at;
        if (strcmp(b->entry.id, id) != 0)
            continue;
        *at = b->next;
        cay_fake_end_runs(b, 0);
        free(b);
        return;
    }
}

static void set_down(struct cay_fake_box *b, const char *reason)
{
    b->entry.running = b->entry.paused = false;
    b->entry.ended_at_ms = cay_clock_ms();
    b->entry.death = (struct cay_death){.reason = reason};
}

static int fake_open(const struct cay_config *cfg, struct cay_queue *events,
                     struct cay_provider **out, struct cay_error *err)
{
    (void)cfg, (void)err;
    *out = cay_provider_fake_new(events);
    return 0;
}

static void fake_close(struct cay_provider *p)
{
    struct cay_fake *f = cay_fake_of(p);
    while (f->boxes)
        drop(f, f->boxes->entry.id);
    while (f->kept)
        cay_fake_forget(&f->kept, f->kept->id);
    pthread_mutex_destroy(&f->lock);
    free(f);
}

static int fake_health(struct cay_provider *p, struct cay_arena *a, struct cay_health *out,
                       struct cay_error *err)
{
    struct cay_fake *f = cay_fake_of(p);
    (void)a;
    CAY_FAKE_LOCKED(f);
    int r = cay_fake_fails(f, err);
    if (r == 0)
        *out = (struct cay_health){.version = "fake"};
    return r;
}

static uint64_t fake_room(struct cay_provider *p)
{
    CAY_FAKE_LOCKED(cay_fake_of(p));
    return cay_fake_of(p)->room_bytes;
}

static const struct cay_fake_files *find_files(struct cay_fake *f, const char *id)
{
    const struct cay_fake_box *b = cay_fake_box(f, id);
    const struct cay_fake_tree *t = cay_fake_find(f->kept, id);
    return b ? &b->files : t ? &t->files : NULL;
}

static int make_files(struct cay_fake *f, const struct cay_spec *spec, struct cay_fake_files *out,
                      struct cay_copied *copied, struct cay_error *err)
{
    const struct cay_fake_files *from = spec->from ? find_files(f, spec->from) : NULL;
    if (spec->from && !from)
        return cay_fail(err, CAY_ERR_NOT_FOUND, "there are no files of %s", spec->from);
    if (from) {
        *out = *from;
        out->volume[0] = 0;
        *copied = (struct cay_copied){.method = "copy", .ms = 1, .bytes = sizeof *from};
    }
    return spec->volume ? cay_fake_attach(f->kept, spec->volume, out, err) : 0;
}

static int fake_create(struct cay_provider *p, const char *id, const struct cay_spec *spec,
                       struct cay_copied *copied, struct cay_error *err)
{
    struct cay_fake *f = cay_fake_of(p);
    struct cay_fake_files files = {0};
    CAY_FAKE_LOCKED(f);
    int r = cay_fake_fails(f, err);
    if (r < 0)
        return r;
    if (!cay_fake_has_image(f, spec->image))
        return cay_fail_as(err, CAY_ERR_NOT_FOUND, "IMAGE_NOT_FOUND", "image not found: %s",
                           spec->image);
    if (cay_fake_box(f, id))
        return 0;
    r = make_files(f, spec, &files, copied, err);
    if (r < 0)
        return r;
    struct cay_fake_box *b = add(f, id, cay_clock_ms());
    b->files = files;
    b->memory_limit_bytes = spec->memory_bytes;
    return 0;
}

static int fake_start(struct cay_provider *p, const char *id, const struct cay_spec *spec,
                      struct cay_error *err)
{
    struct cay_fake *f = cay_fake_of(p);
    CAY_FAKE_LOCKED(f);
    int r = cay_fake_fails(f, err);
    if (r < 0)
        return r;
    struct cay_fake_box *b = cay_fake_box(f, id);
    if (!b)
        return cay_fail(err, CAY_ERR_NOT_FOUND, "sandbox not found");
    if (!b->entry.running)
        b->entry.started_at_ms = cay_clock_ms();
    b->entry.running = true;
    b->memory_limit_bytes = spec->memory_bytes;
    return 0;
}

static int fake_stop(struct cay_provider *p, const char *id, int64_t grace_ms,
                     struct cay_error *err)
{
    struct cay_fake *f = cay_fake_of(p);
    (void)grace_ms;
    CAY_FAKE_LOCKED(f);
    int r = cay_fake_fails(f, err);
    if (r < 0)
        return r;
    struct cay_fake_box *b = cay_fake_box(f, id);
    if (!b)
        return cay_fail(err, CAY_ERR_NOT_FOUND, "sandbox not found");
    if (b->entry.running) {
        cay_fake_end_runs(b, SIGTERM);
        set_down(b, "stopped");
    }
    return 0;
}

static int set_paused(struct cay_provider *p, const char *id, bool paused, struct cay_error *err)
{
    struct cay_fake *f = cay_fake_of(p);
    struct cay_fake_box *b;
    CAY_FAKE_LOCKED(f);
    int r = cay_fake_fails(f, err);
    if (r == 0)
        r = find_running(f, id, &b, err);
    if (r == 0)
        b->entry.paused = paused;
    return r;
}

static int fake_pause(struct cay_provider *p, const char *id, struct cay_error *err)
{
    return set_paused(p, id, true, err);
}

static int fake_resume(struct cay_provider *p, const char *id, struct cay_error *err)
{
    return set_paused(p, id, false, err);
}

static int fake_destroy(struct cay_provider *p, const char *id, const char *volume,
                        struct cay_usage *used, struct cay_error *err)
{
    struct cay_fake *f = cay_fake_of(p);
    CAY_FAKE_LOCKED(f);
    int r = f->spare_destroy ? 0 : cay_fake_fails(f, err);
    struct cay_fake_box *b = cay_fake_box(f, id);
    if (r == 0)
        *used = (struct cay_usage){0};
    if (r == 0 && b) {
        *used = (struct cay_usage){
            .cpu_us = 3000, .memory_peak_bytes = 2 * CAY_MIB, .oom_kills = b->oom_kills};
        cay_fake_detach(&f->kept, &b->files, volume);
        drop(f, id);
    }
    return r;
}

static int fake_snapshot(struct cay_provider *p, const char *id, const char *snapshot_id,
                         struct cay_copied *out, struct cay_error *err)
{
    struct cay_fake *f = cay_fake_of(p);
    CAY_FAKE_LOCKED(f);
    int r = cay_fake_fails(f, err);
    if (r < 0)
        return r;
    struct cay_fake_box *b = cay_fake_box(f, id);
    if (!b)
        return cay_fail(err, CAY_ERR_NOT_FOUND, "sandbox not found");
    cay_fake_keep(&f->kept, snapshot_id, &b->files);
    *out = (struct cay_copied){.method = "copy", .ms = 1, .bytes = sizeof b->files};
    return 0;
}

static int fake_drop(struct cay_provider *p, const char *kept_id, struct cay_error *err)
{
    struct cay_fake *f = cay_fake_of(p);
    CAY_FAKE_LOCKED(f);
    int r = cay_fake_fails(f, err);
    if (r < 0)
        return r;
    struct cay_fake_tree *t = cay_fake_find(f->kept, kept_id);
    if (t && t->attached)
        return cay_fail_as(err, CAY_ERR_CONFLICT, "VOLUME_IN_USE", "a sandbox has it");
    cay_fake_forget(&f->kept, kept_id);
    return 0;
}

static int fake_kept(struct cay_provider *p, struct cay_arena *a, struct cay_strs *out,
                     struct cay_error *err)
{
    struct cay_fake *f = cay_fake_of(p);
    CAY_FAKE_LOCKED(f);
    int r = cay_fake_fails(f, err);
    for (struct cay_fake_tree *t = f->kept; t && r == 0; t = t->next)
        if (!t->attached)
            cay_strs_push(a, out, cay_arena_strdup(a, t->id));
    return r;
}

static int fake_limit(struct cay_provider *p, const char *id, const struct cay_spec *spec,
                      struct cay_error *err)
{
    struct cay_fake *f = cay_fake_of(p);
    struct cay_fake_box *b;
    CAY_FAKE_LOCKED(f);
    int r = cay_fake_fails(f, err);
    if (r == 0)
        r = find_running(f, id, &b, err);
    if (r == 0 && spec->memory_bytes < b->memory_held_bytes)
        r = cay_fail_as(err, CAY_ERR_CONFLICT, "MEMORY_IN_USE", "it uses more memory");
    if (r == 0)
        b->memory_limit_bytes = spec->memory_bytes;
    return r;
}

static uint64_t cpu_time(struct cay_fake_box *b)
{
    if (b->busy)
        return b->cpu_us += 60000000;
    return b->quiet ? b->cpu_us : (uint64_t)(cay_clock_mono_us() / 2);
}

/* Nobody is inside a fake: its ports are this machine's. */
static int fake_socket(struct cay_provider *p, const char *id, enum cay_socket_kind kind,
                       int *fd_out, struct cay_error *err)
{
    struct cay_fake *f = cay_fake_of(p);
    struct cay_fake_box *b = NULL;
    CAY_FAKE_LOCKED(f);
    int r = cay_fake_fails(f, err);
    if (r == 0)
        r = find_running(f, id, &b, err);
    if (r < 0)
        return r;
    *fd_out = socket(kind == CAY_SOCKET_TCP6 ? AF_INET6 : AF_INET,
                     SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    return *fd_out < 0 ? cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot make a socket") : 0;
}

static int fake_usage(struct cay_provider *p, const char *id, struct cay_usage *out,
                      struct cay_error *err)
{
    struct cay_fake *f = cay_fake_of(p);
    struct cay_fake_box *b = NULL;
    CAY_FAKE_LOCKED(f);
    int r = cay_fake_fails(f, err);
    if (r == 0)
        r = find_running(f, id, &b, err);
    if (r == 0)
        *out = (struct cay_usage){.cpu_us = cpu_time(b),
                                  .memory_bytes = CAY_MIB,
                                  .memory_peak_bytes = 2 * CAY_MIB,
                                  .pids = 1,
                                  .oom_kills = b->oom_kills,
                                  .disk_bytes = b->disk_bytes,
                                  .disk_limit_bytes = b->disk_bytes};
    return r;
}

static int fake_list(struct cay_provider *p, struct cay_arena *a, struct cay_provider_list *out,
                     struct cay_error *err)
{
    struct cay_fake *f = cay_fake_of(p);
    CAY_FAKE_LOCKED(f);
    int r = cay_fake_fails(f, err);
    if (r < 0)
        return r;
    size_t count = 0;
    for (struct cay_fake_box *b = f->boxes; b; b = b->next)
        count++;
    struct cay_provider_entry *at = cay_arena_alloc(a, (count + 1) * sizeof *at);
    count = 0;
    for (struct cay_fake_box *b = f->boxes; b; b = b->next)
        at[count++] = b->entry;
    *out = (struct cay_provider_list){at, count};
    return 0;
}

const struct cay_provider_ops cay_provider_fake = {
    .name = "fake",
    .open = fake_open,
    .close = fake_close,
    .health = fake_health,
    .room = fake_room,
    .create = fake_create,
    .start = fake_start,
    .stop = fake_stop,
    .destroy = fake_destroy,
    .pause = fake_pause,
    .resume = fake_resume,
    .snapshot = fake_snapshot,
    .drop = fake_drop,
    .kept = fake_kept,
    .limit = fake_limit,
    .socket = fake_socket,
    .usage = fake_usage,
    .list = fake_list,
    .exec = cay_fake_exec,
    .kill = cay_fake_kill,
    .input = cay_fake_input,
    .resize = cay_fake_resize,
    .file = cay_fake_file,
    .executions = cay_fake_executions,
    .build = cay_fake_build,
    .recipes = cay_fake_recipes,
};

struct cay_provider *cay_provider_fake_new(struct cay_queue *events)
{
    struct cay_fake *f = calloc(1, sizeof *f);
    if (!f)
        abort();
    f->base.ops = &cay_provider_fake;
    f->events = events;
    pthread_mutex_init(&f->lock, NULL);
    return &f->base;
}

void cay_provider_fake_fail_at(struct cay_provider *p, int n)
{
    CAY_FAKE_LOCKED(cay_fake_of(p));
    cay_fake_of(p)->fail_at = n;
    cay_fake_of(p)->failed = false;
}

void cay_provider_fake_spare_destroy(struct cay_provider *p, bool spare)
{
    CAY_FAKE_LOCKED(cay_fake_of(p));
    cay_fake_of(p)->spare_destroy = spare;
}

void cay_provider_fake_set_room(struct cay_provider *p, uint64_t bytes)
{
    CAY_FAKE_LOCKED(cay_fake_of(p));
    cay_fake_of(p)->room_bytes = bytes;
}

bool cay_provider_fake_failed(struct cay_provider *p)
{
    CAY_FAKE_LOCKED(cay_fake_of(p));
    return cay_fake_of(p)->failed;
}

size_t cay_provider_fake_count(struct cay_provider *p)
{
    CAY_FAKE_LOCKED(cay_fake_of(p));
    size_t count = 0;
    for (struct cay_fake_box *b = cay_fake_of(p)->boxes; b; b = b->next)
        count++;
    return count;
}

bool cay_provider_fake_runs(struct cay_provider *p, const char *id)
{
    CAY_FAKE_LOCKED(cay_fake_of(p));
    struct cay_fake_box *b = cay_fake_box(cay_fake_of(p), id);
    return b && b->entry.running;
}

void cay_provider_fake_die(struct cay_provider *p, const char *id, const char *reason, bool tell)
{
    CAY_FAKE_LOCKED(cay_fake_of(p));
    struct cay_fake_box *b = cay_fake_box(cay_fake_of(p), id);
    if (!b)
        return;
    cay_fake_end_runs(b, 0);
    set_down(b, reason);
    struct cay_provider_entry *event = tell ? malloc(sizeof *event) : NULL;
    if (!event)
        return;
    *event = b->entry;
    if (!cay_queue_push(cay_fake_of(p)->events, event))
        free(event);
}

void cay_provider_fake_vanish(struct cay_provider *p, const char *id)
{
    CAY_FAKE_LOCKED(cay_fake_of(p));
    drop(cay_fake_of(p), id);
}

void cay_provider_fake_add(struct cay_provider *p, const char *id, int64_t started_at_ms)
{
    CAY_FAKE_LOCKED(cay_fake_of(p));
    add(cay_fake_of(p), id, started_at_ms);
}

void cay_provider_fake_keep(struct cay_provider *p, const char *kept_id)
{
    CAY_FAKE_LOCKED(cay_fake_of(p));
    cay_fake_keep(&cay_fake_of(p)->kept, kept_id, &(struct cay_fake_files){0});
}

size_t cay_provider_fake_kept_count(struct cay_provider *p)
{
    CAY_FAKE_LOCKED(cay_fake_of(p));
    size_t count = 0;
    for (struct cay_fake_tree *t = cay_fake_of(p)->kept; t; t = t->next)
        count++;
    return count;
}

void cay_provider_fake_oom(struct cay_provider *p, const char *id, const char *exec_id)
{
    CAY_FAKE_LOCKED(cay_fake_of(p));
    struct cay_fake_box *b = cay_fake_box(cay_fake_of(p), id);
    struct cay_fake_run *run = b ? cay_fake_take_run(b, exec_id) : NULL;
    if (!run)
        return;
    b->oom_kills++;
    cay_fake_end_run(run, SIGKILL, CAY_REASON_SIGNAL);
}

void cay_provider_fake_hold(struct cay_provider *p, const char *id, uint64_t bytes)
{
    CAY_FAKE_LOCKED(cay_fake_of(p));
    struct cay_fake_box *b = cay_fake_box(cay_fake_of(p), id);
    if (b)
        b->memory_held_bytes = bytes;
}

uint64_t cay_provider_fake_memory(struct cay_provider *p, const char *id)
{
    CAY_FAKE_LOCKED(cay_fake_of(p));
    struct cay_fake_box *b = cay_fake_box(cay_fake_of(p), id);
    return b ? b->memory_limit_bytes : 0;
}

void cay_provider_fake_quiet(struct cay_provider *p, const char *id)
{
    CAY_FAKE_LOCKED(cay_fake_of(p));
    struct cay_fake_box *b = cay_fake_box(cay_fake_of(p), id);
    if (b)
        b->quiet = true;
}

void cay_provider_fake_busy(struct cay_provider *p, const char *id)
{
    CAY_FAKE_LOCKED(cay_fake_of(p));
    struct cay_fake_box *b = cay_fake_box(cay_fake_of(p), id);
    if (b)
        b->busy = true;
}

void cay_provider_fake_full(struct cay_provider *p, const char *id)
{
    CAY_FAKE_LOCKED(cay_fake_of(p));
    struct cay_fake_box *b = cay_fake_box(cay_fake_of(p), id);
    if (b)
        b->disk_bytes = CAY_MIN_DISK_BYTES;
}
