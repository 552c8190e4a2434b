/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes that are only remembered, and commands that only pretend; fails when told to. */
#include "provider/fake/fake.h"
#include "base/clock.h"
#include "model/limits.h"
#include "provider/fake/runs.h"
#include <fcntl.h>
#include <signal.h>
#include <string.h>

struct fake {
    struct cay_provider base;
    struct cay_queue *events;
    pthread_mutex_t lock;
    struct cay_fake_box *boxes;
    struct cay_fake_tree *kept;
    int fail_at; /* counts down; at 1 the call fails */
    bool failed, spare_destroy;
    uint64_t room_bytes;
};

static struct fake *self(struct cay_provider *p)
{
    return (struct fake *)p;
}

static void unlock(pthread_mutex_t **lock)
{
    pthread_mutex_unlock(*lock);
}

#define LOCKED(f)                                                                                  \
    CAY_CLEANUP(unlock) pthread_mutex_t *locked = &(f)->lock;                                      \
    pthread_mutex_lock(locked)

static int due_to_fail(struct fake *f, struct cay_error *err)
{
    if (f->fail_at == 0 || --f->fail_at > 0)
        return 0;
    f->failed = true;
    return cay_fail(err, CAY_ERR_PROVIDER, "the fake provider fails as ordered");
}

static struct cay_fake_box *find(struct fake *f, const char *id)
{
    for (struct cay_fake_box *b = f->boxes; b; b = b->next)
        if (strcmp(b->entry.id, id) == 0)
            return b;
    return NULL;
}

static int find_running(struct fake *f, const char *id, struct cay_fake_box **out,
                        struct cay_error *err)
{
    *out = find(f, id);
    if (!*out)
        return cay_fail(err, CAY_ERR_NOT_FOUND, "sandbox not found");
    if (!(*out)->entry.running)
        return cay_fail_as(err, CAY_ERR_CONFLICT, "SANDBOX_NOT_RUNNING",
                           "the sandbox is not running");
    return 0;
}

/* One whose pid 1 can be spoken to; a real one that is paused does not answer in time. */
static int find_awake(struct fake *f, const char *id, struct cay_fake_box **out,
                      struct cay_error *err)
{
    int r = find_running(f, id, out, err);
    if (r == 0 && (*out)->entry.paused)
        return cay_fail(err, CAY_ERR_TIMEOUT, "pid 1 of the sandbox did not answer");
    return r;
}

static struct cay_fake_box *add(struct fake *f, const char *id, int64_t started_at_ms)
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

static void drop(struct fake *f, const char *id)
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
    struct fake *f = self(p);
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
    struct fake *f = self(p);
    (void)a;
    LOCKED(f);
    int r = due_to_fail(f, err);
    if (r == 0)
        *out = (struct cay_health){.version = "fake"};
    return r;
}

static uint64_t fake_room(struct cay_provider *p)
{
    LOCKED(self(p));
    return self(p)->room_bytes;
}

static const struct cay_fake_files *find_files(struct fake *f, const char *id)
{
    const struct cay_fake_box *b = find(f, id);
    const struct cay_fake_tree *t = cay_fake_find(f->kept, id);
    return b ? &b->files : t ? &t->files : NULL;
}

static int make_files(struct fake *f, const struct cay_spec *spec, struct cay_fake_files *out,
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
    struct fake *f = self(p);
    struct cay_fake_files files = {0};
    LOCKED(f);
    int r = due_to_fail(f, err);
    if (r < 0)
        return r;
    if (strncmp(spec->image, "missing", 7) == 0)
        return cay_fail_as(err, CAY_ERR_NOT_FOUND, "IMAGE_NOT_FOUND", "image not found: %s",
                           spec->image);
    if (find(f, id))
        return 0;
    r = make_files(f, spec, &files, copied, err);
    if (r == 0)
        add(f, id, cay_clock_ms())->files = files;
    return r;
}

static int fake_start(struct cay_provider *p, const char *id, const struct cay_spec *spec,
                      struct cay_error *err)
{
    struct fake *f = self(p);
    (void)spec;
    LOCKED(f);
    int r = due_to_fail(f, err);
    if (r < 0)
        return r;
    struct cay_fake_box *b = find(f, id);
    if (!b)
        return cay_fail(err, CAY_ERR_NOT_FOUND, "sandbox not found");
    if (!b->entry.running)
        b->entry.started_at_ms = cay_clock_ms();
    b->entry.running = true;
    return 0;
}

static int fake_stop(struct cay_provider *p, const char *id, int64_t grace_ms,
                     struct cay_error *err)
{
    struct fake *f = self(p);
    (void)grace_ms;
    LOCKED(f);
    int r = due_to_fail(f, err);
    if (r < 0)
        return r;
    struct cay_fake_box *b = find(f, id);
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
    struct fake *f = self(p);
    struct cay_fake_box *b;
    LOCKED(f);
    int r = due_to_fail(f, err);
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
    struct fake *f = self(p);
    LOCKED(f);
    int r = f->spare_destroy ? 0 : due_to_fail(f, err);
    struct cay_fake_box *b = find(f, id);
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
    struct fake *f = self(p);
    LOCKED(f);
    int r = due_to_fail(f, err);
    if (r < 0)
        return r;
    struct cay_fake_box *b = find(f, id);
    if (!b)
        return cay_fail(err, CAY_ERR_NOT_FOUND, "sandbox not found");
    cay_fake_keep(&f->kept, snapshot_id, &b->files);
    *out = (struct cay_copied){.method = "copy", .ms = 1, .bytes = sizeof b->files};
    return 0;
}

static int fake_drop(struct cay_provider *p, const char *kept_id, struct cay_error *err)
{
    struct fake *f = self(p);
    LOCKED(f);
    int r = due_to_fail(f, err);
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
    struct fake *f = self(p);
    LOCKED(f);
    int r = due_to_fail(f, err);
    for (struct cay_fake_tree *t = f->kept; t && r == 0; t = t->next)
        if (!t->attached)
            cay_strs_push(a, out, cay_arena_strdup(a, t->id));
    return r;
}

static int fake_usage(struct cay_provider *p, const char *id, struct cay_usage *out,
                      struct cay_error *err)
{
    struct fake *f = self(p);
    struct cay_fake_box *b = NULL;
    LOCKED(f);
    int r = due_to_fail(f, err);
    if (r == 0)
        r = find_running(f, id, &b, err);
    if (r == 0)
        *out = (struct cay_usage){.cpu_us = (uint64_t)(cay_clock_mono_us() / 2),
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
    struct fake *f = self(p);
    LOCKED(f);
    int r = due_to_fail(f, err);
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

static int fake_exec(struct cay_provider *p, const char *id, const char *exec_id,
                     const struct cay_exec_spec *spec, int log_fd, struct cay_error *err)
{
    struct fake *f = self(p);
    struct cay_fake_box *b;
    LOCKED(f);
    int r = due_to_fail(f, err);
    if (r == 0)
        r = find_awake(f, id, &b, err);
    if (r < 0)
        return r;
    if (spec->user && strcmp(spec->user, "nobody-here") == 0)
        return cay_fail_field(err, "user", "no user %s in this sandbox", spec->user);
    if (strcmp(spec->argv.at[0], "sleep") != 0) {
        cay_fake_run(b, spec, log_fd);
        return 0;
    }
    struct cay_fake_run *run = calloc(1, sizeof *run);
    if (!run)
        abort();
    cay_str_copy(run->exec_id, sizeof run->exec_id, exec_id);
    run->log_fd = fcntl(log_fd, F_DUPFD_CLOEXEC, 3);
    run->input_fd = -1;
    run->has_terminal = spec->window.cols > 0;
    run->takes_input = spec->open_stdin || run->has_terminal;
    run->next = b->runs;
    b->runs = run;
    return 0;
}

static int fake_kill(struct cay_provider *p, const char *id, const char *exec_id, int sig,
                     struct cay_error *err)
{
    struct fake *f = self(p);
    struct cay_fake_box *b;
    LOCKED(f);
    int r = due_to_fail(f, err);
    if (r == 0)
        r = find_awake(f, id, &b, err);
    if (r < 0)
        return r;
    struct cay_fake_run *run = cay_fake_take_run(b, exec_id);
    if (!run)
        return cay_fail_as(err, CAY_ERR_NOT_FOUND, "EXECUTION_NOT_RUNNING",
                           "the execution has ended");
    cay_fake_end_run(run, sig, CAY_REASON_KILLED);
    return 0;
}

static int find_run(struct fake *f, const char *id, const char *exec_id, struct cay_fake_run **out,
                    struct cay_error *err)
{
    struct cay_fake_box *b;
    int r = due_to_fail(f, err);
    if (r == 0)
        r = find_awake(f, id, &b, err);
    if (r < 0)
        return r;
    for (struct cay_fake_run *run = b->runs; run; run = run->next)
        if (strcmp(run->exec_id, exec_id) == 0) {
            *out = run;
            return 0;
        }
    return cay_fail_as(err, CAY_ERR_NOT_FOUND, "EXECUTION_NOT_RUNNING", "the execution has ended");
}

static int fake_input(struct cay_provider *p, const char *id, const char *exec_id, int input_fd,
                      int end_fd, struct cay_error *err)
{
    struct fake *f = self(p);
    struct cay_fake_run *run;
    (void)end_fd;
    LOCKED(f);
    int r = find_run(f, id, exec_id, &run, err);
    if (r < 0)
        return r;
    if (!run->takes_input)
        return cay_fail_as(err, CAY_ERR_CONFLICT, "STDIN_CLOSED", "its stdin is closed");
    cay_close_fd(&run->input_fd);
    run->input_fd = fcntl(input_fd, F_DUPFD_CLOEXEC, 3);
    return 0;
}

static int fake_resize(struct cay_provider *p, const char *id, const char *exec_id,
                       struct cay_window window, struct cay_error *err)
{
    struct fake *f = self(p);
    struct cay_fake_run *run;
    (void)window;
    LOCKED(f);
    int r = find_run(f, id, exec_id, &run, err);
    if (r == 0 && !run->has_terminal)
        r = cay_fail_as(err, CAY_ERR_CONFLICT, "NO_TERMINAL", "it has no terminal");
    return r;
}

static int fake_executions(struct cay_provider *p, const char *id, struct cay_arena *a,
                           struct cay_strs *out, struct cay_error *err)
{
    struct fake *f = self(p);
    struct cay_fake_box *b;
    LOCKED(f);
    int r = due_to_fail(f, err);
    if (r == 0)
        r = find_awake(f, id, &b, err);
    if (r < 0)
        return r;
    *out = (struct cay_strs){0};
    for (struct cay_fake_run *run = b->runs; run; run = run->next)
        cay_strs_push(a, out, cay_arena_strdup(a, run->exec_id));
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
    .usage = fake_usage,
    .list = fake_list,
    .exec = fake_exec,
    .kill = fake_kill,
    .input = fake_input,
    .resize = fake_resize,
    .executions = fake_executions,
};

struct cay_provider *cay_provider_fake_new(struct cay_queue *events)
{
    struct fake *f = calloc(1, sizeof *f);
    if (!f)
        abort();
    f->base.ops = &cay_provider_fake;
    f->events = events;
    pthread_mutex_init(&f->lock, NULL);
    return &f->base;
}

void cay_provider_fake_fail_at(struct cay_provider *p, int n)
{
    LOCKED(self(p));
    self(p)->fail_at = n;
    self(p)->failed = false;
}

void cay_provider_fake_spare_destroy(struct cay_provider *p, bool spare)
{
    LOCKED(self(p));
    self(p)->spare_destroy = spare;
}

void cay_provider_fake_set_room(struct cay_provider *p, uint64_t bytes)
{
    LOCKED(self(p));
    self(p)->room_bytes = bytes;
}

bool cay_provider_fake_failed(struct cay_provider *p)
{
    LOCKED(self(p));
    return self(p)->failed;
}

size_t cay_provider_fake_count(struct cay_provider *p)
{
    LOCKED(self(p));
    size_t count = 0;
    for (struct cay_fake_box *b = self(p)->boxes; b; b = b->next)
        count++;
    return count;
}

bool cay_provider_fake_runs(struct cay_provider *p, const char *id)
{
    LOCKED(self(p));
    struct cay_fake_box *b = find(self(p), id);
    return b && b->entry.running;
}

void cay_provider_fake_die(struct cay_provider *p, const char *id, const char *reason, bool tell)
{
    LOCKED(self(p));
    struct cay_fake_box *b = find(self(p), id);
    if (!b)
        return;
    cay_fake_end_runs(b, 0);
    set_down(b, reason);
    struct cay_provider_entry *event = tell ? malloc(sizeof *event) : NULL;
    if (!event)
        return;
    *event = b->entry;
    if (!cay_queue_push(self(p)->events, event))
        free(event);
}

void cay_provider_fake_vanish(struct cay_provider *p, const char *id)
{
    LOCKED(self(p));
    drop(self(p), id);
}

void cay_provider_fake_add(struct cay_provider *p, const char *id, int64_t started_at_ms)
{
    LOCKED(self(p));
    add(self(p), id, started_at_ms);
}

void cay_provider_fake_keep(struct cay_provider *p, const char *kept_id)
{
    LOCKED(self(p));
    cay_fake_keep(&self(p)->kept, kept_id, &(struct cay_fake_files){0});
}

void cay_provider_fake_lose(struct cay_provider *p, const char *kept_id)
{
    LOCKED(self(p));
    cay_fake_forget(&self(p)->kept, kept_id);
}

size_t cay_provider_fake_kept_count(struct cay_provider *p)
{
    LOCKED(self(p));
    size_t count = 0;
    for (struct cay_fake_tree *t = self(p)->kept; t; t = t->next)
        count++;
    return count;
}

void cay_provider_fake_oom(struct cay_provider *p, const char *id, const char *exec_id)
{
    LOCKED(self(p));
    struct cay_fake_box *b = find(self(p), id);
    struct cay_fake_run *run = b ? cay_fake_take_run(b, exec_id) : NULL;
    if (!run)
        return;
    b->oom_kills++;
    cay_fake_end_run(run, SIGKILL, CAY_REASON_SIGNAL);
}

void cay_provider_fake_full(struct cay_provider *p, const char *id)
{
    LOCKED(self(p));
    struct cay_fake_box *b = find(self(p), id);
    if (b)
        b->disk_bytes = CAY_MIN_DISK_BYTES;
}
