/* SPDX-License-Identifier: Apache-2.0 */
/* Code history of sandboxes: what a version holds comes through cay-file, with the rights of the
 * sandbox's user, and goes into a repository that lies outside (history/history.h). No git program
 * runs, and nothing in the workspace is taken for more than bytes.
 *
 * One at a time is at the history of a sandbox: whoever is holds "hi-" and the rest of its id. */
#include "core/history.h"
#include "base/clock.h"
#include "base/log.h"
#include "core/core.h"
#include "core/exchange.h"
#include "log/files.h"
#include "model/limits.h"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define FIRST_MESSAGE "Initial commit"
#define EXEC_MESSAGE "Update files for sandbox execution"
#define README_NAME "README.md"

static void close_history(struct cay_history **h)
{
    cay_history_close(*h);
}
#define AUTO_HISTORY CAY_CLEANUP(close_history)

int cay_history_hold(struct cay_core *core, const char *sandbox_id, struct cay_hold *hold,
                     struct cay_error *err)
{
    char key[CAY_ID_SIZE];
    (void)snprintf(key, sizeof key, "hi%s", sandbox_id + 2);
    return cay_hold_wait(&core->holds, key, hold, err);
}

static bool keeps(const struct cay_core *core, const struct cay_sandbox *sb)
{
    const char *track = sb->spec.track;
    return track && strcmp(track, "off") != 0 && core->historian.dir_fd >= 0;
}

static bool tracks(const struct cay_sandbox *sb, const char *what)
{
    return sb->spec.track && strcmp(sb->spec.track, what) == 0;
}

/* ---- looking at the workspace ---- */

struct look {
    struct cay_arena arena;
    struct cay_history_file *files;
    size_t count, cap, name_bytes;
    bool whole;
};

static void look_done(struct look *l)
{
    cay_arena_done(&l->arena);
    free(l->files);
}

static void add_file(struct look *l, const struct cay_file_seen *s, const char *path)
{
    if (l->count == l->cap) {
        l->cap = l->cap ? 2 * l->cap : 256;
        l->files = realloc(l->files, l->cap * sizeof *l->files);
        if (!l->files)
            abort();
    }
    l->files[l->count++] =
        (struct cay_history_file){.path = cay_arena_strndup(&l->arena, path, s->path_len),
                                  .path_len = s->path_len,
                                  .mode = s->mode,
                                  .size = s->size,
                                  .inode = s->inode,
                                  .mtime_ns = s->mtime_ns,
                                  .ctime_ns = s->ctime_ns};
}

static int take_seen(void *arg, struct cay_buf *out, struct cay_error *err)
{
    struct look *l = arg;
    const char *at = out->data, *path;
    size_t len = out->len;
    struct cay_file_seen s;
    int r;
    if (l->whole) { /* nothing that counts comes behind the end */
        cay_buf_drop(out, out->len);
        return 0;
    }
    while ((r = cay_file_seen_next(&at, &len, &s, &path)) == 0 && l->count < CAY_HISTORY_FILES &&
           l->name_bytes < CAY_HISTORY_NAME_BYTES) {
        add_file(l, &s, path);
        l->name_bytes += s.path_len;
    }
    cay_buf_drop(out, out->len - len);
    l->whole = r == 2;
    return r < 0 || r == 0 ? cay_fail(err, CAY_ERR_PROVIDER, "the workspace could not be listed")
                           : 0;
}

static int scan(struct cay_core *core, const struct cay_sandbox *sb, struct look *l,
                struct cay_error *err)
{
    struct cay_file_request rq = {.op = CAY_FILE_SCAN, .path = CAY_DEFAULT_WORKDIR};
    CAY_AUTO_EXCHANGE struct cay_exchange x = {.rq = &rq, .take = take_seen, .arg = l};
    int r = cay_exchange_begin(core, sb, &x, CAY_HISTORY_MS, err);
    if (r == 0)
        r = cay_exchange_finish(&x, err);
    if (r == 0)
        r = cay_core_file_verdict(&rq, x.has_reply ? &x.reply : NULL, err);
    if (r == 0 && !l->whole)
        r = cay_fail_as(err, CAY_ERR_TOO_LARGE, "HISTORY_TOO_LARGE",
                        "a workspace with a history may have at most %d files", CAY_HISTORY_FILES);
    return r;
}

struct fetch {
    struct cay_history *h;
    struct cay_history_file **wanted;
    size_t count, at;
};

/* What it is now is what counts, not what it was when it was seen. */
static int take_fetched(void *arg, struct cay_buf *out, struct cay_error *err)
{
    struct fetch *f = arg;
    struct cay_file_fetched one;
    size_t used = 0;
    int r = 0;
    while (r == 0 && out->len - used >= sizeof one) {
        memcpy(&one, out->data + used, sizeof one);
        if (one.len > CAY_HISTORY_FILE_BYTES || f->at == f->count)
            return cay_fail(err, CAY_ERR_PROVIDER, "a file of the workspace could not be read");
        if (out->len - used - sizeof one < one.len)
            break;
        struct cay_history_file *file = f->wanted[f->at++];
        file->left_out = one.code != CAY_FILE_OK;
        if (!file->left_out) {
            file->mode = one.seen.mode;
            file->size = one.seen.size;
            file->inode = one.seen.inode;
            file->mtime_ns = one.seen.mtime_ns;
            file->ctime_ns = one.seen.ctime_ns;
            r = cay_history_take(f->h, file, out->data + used + sizeof one, (size_t)one.len, err);
        }
        used += sizeof one + (size_t)one.len;
    }
    cay_buf_drop(out, used);
    return r;
}

/* The contents of stale ones; of rules alone, first. */
static int fetch(struct cay_core *core, const struct cay_sandbox *sb, struct cay_history *h,
                 struct look *l, bool rules, bool *any, struct cay_error *err)
{
    struct fetch f = {.h = h, .wanted = cay_arena_alloc(&l->arena, l->count * sizeof *f.wanted)};
    struct cay_file_request rq = {
        .op = CAY_FILE_FETCH, .path = CAY_DEFAULT_WORKDIR, .limit_bytes = CAY_HISTORY_FILE_BYTES};
    CAY_AUTO_EXCHANGE struct cay_exchange x = {.rq = &rq, .take = take_fetched, .arg = &f};
    for (size_t i = 0; i < l->count; i++) {
        uint32_t len = (uint32_t)l->files[i].path_len;
        if (!l->files[i].stale || (rules && !cay_history_is_rules(l->files[i].path)))
            continue;
        f.wanted[f.count++] = &l->files[i];
        cay_buf_add(&x.in, &len, sizeof len);
        cay_buf_add(&x.in, l->files[i].path, len);
    }
    rq.count = f.count;
    *any = f.count > 0;
    if (!*any)
        return 0;
    int r = cay_exchange_begin(core, sb, &x, CAY_HISTORY_MS, err);
    if (r == 0)
        r = cay_exchange_finish(&x, err);
    if (r == 0)
        r = cay_core_file_verdict(&rq, x.has_reply ? &x.reply : NULL, err);
    if (r == 0 && f.at < f.count)
        r = cay_fail(err, CAY_ERR_PROVIDER, "the workspace could not be read");
    return r;
}

/* ---- versions ---- */

int cay_history_commit_now(struct cay_core *core, const struct cay_sandbox *sb,
                           struct cay_history *h, struct cay_history_note *note, bool *made,
                           char commit_id[CAY_COMMIT_SIZE], struct cay_error *err)
{
    CAY_CLEANUP(look_done) struct look l = {0};
    int64_t now_ms = cay_clock_ms();
    bool any = false, all = tracks(sb, "workspace");
    int r = all ? scan(core, sb, &l, err) : 0;
    for (size_t i = 0; !all && note->brought && i < note->brought->count; i++) {
        const char *path = note->brought->at[i];
        add_file(&l, &(struct cay_file_seen){.path_len = (uint32_t)strlen(path)}, path);
        l.files[i].stale = true;
    }
    if (r == 0 && all)
        r = cay_history_look(h, l.files, l.count, now_ms, err);
    if (r == 0 && all)
        r = fetch(core, sb, h, &l, true, &any, err);
    if (r == 0 && any)
        r = cay_history_look(h, l.files, l.count, now_ms, err);
    if (r == 0)
        r = fetch(core, sb, h, &l, false, &any, err);
    note->time_ms = now_ms;
    note->files = l.files;
    note->count = l.count;
    return r < 0 ? r : cay_history_commit(h, note, made, commit_id, err);
}

/* Where in the workspace a path of an execution leads; NULL: not there. */
static const char *in_workspace(const struct cay_sandbox *sb, const struct cay_exec_spec *spec,
                                const char *path, struct cay_arena *a)
{
    const char *cwd = spec->cwd ? spec->cwd : sb->spec.workdir ? sb->spec.workdir : "";
    size_t top = strlen(CAY_DEFAULT_WORKDIR);
    if (path[0] != '/' && *cwd)
        path = cay_arena_printf(a, "%s/%s", cwd, path);
    if (path[0] == '/' && strncmp(path, CAY_DEFAULT_WORKDIR "/", top + 1) != 0)
        return NULL;
    CAY_AUTO_BUF struct cay_buf out = {0};
    for (const char *at = path[0] == '/' ? path + top : path; *at;) {
        at += strspn(at, "/");
        size_t len = strcspn(at, "/");
        bool here = len == 0 || (len == 1 && at[0] == '.');
        if (len == 2 && at[0] == '.' && at[1] == '.')
            return NULL; /* who climbs is told by what changed */
        if (!here && out.len > 0)
            cay_buf_addc(&out, '/');
        if (!here)
            cay_buf_add(&out, at, len);
        at += len;
    }
    return out.len > 0 ? cay_arena_strndup(a, out.data, out.len) : NULL;
}

static void take_readme(struct cay_core *core, const struct cay_sandbox *sb, struct cay_history *h,
                        const char *text)
{
    struct cay_error err;
    struct cay_history_file readme = {.path = README_NAME,
                                      .path_len = strlen(README_NAME),
                                      .mode = 0100644,
                                      .size = strlen(text)};
    struct cay_file_put head = {.len = strlen(text), .path_len = strlen(README_NAME)};
    struct cay_file_request rq = {.op = CAY_FILE_PUT,
                                  .flags = CAY_FILE_NEW,
                                  .path = ".",
                                  .cwd = CAY_DEFAULT_WORKDIR,
                                  .size = CAY_FILE_UNKNOWN,
                                  .count = 1};
    CAY_AUTO_EXCHANGE struct cay_exchange x = {.rq = &rq};
    cay_buf_add(&x.in, &head, sizeof head);
    cay_buf_adds(&x.in, README_NAME);
    cay_buf_adds(&x.in, text);
    int r = cay_exchange_begin(core, sb, &x, CAY_EXEC_FILES_MS, &err);
    if (r == 0)
        r = cay_exchange_finish(&x, &err);
    if (r == 0 && !tracks(sb, "workspace"))
        r = cay_history_take(h, &readme, text, strlen(text), &err);
    if (r < 0)
        cay_log_error(&err, "%s: no README.md for its history", sb->id);
}

static int begin(struct cay_core *core, const struct cay_sandbox *sb, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    CAY_AUTO_HOLD struct cay_hold hold = {0};
    AUTO_HISTORY struct cay_history *h = NULL;
    struct cay_history_note note = {.id = CAY_HISTORY_NO_ID, .message = FIRST_MESSAGE};
    char id[CAY_COMMIT_SIZE];
    bool made;
    int r = cay_history_hold(core, sb->id, &hold, err);
    if (r == 0)
        r = cay_history_open(core->historian.dir_fd, sb->id, true, &h, err);
    if (r < 0)
        return r;
    take_readme(
        core, sb, h,
        cay_arena_printf(&a, "# %s\n\nThe workspace of sandbox %s.\n", sb->spec.name, sb->id));
    return cay_history_commit_now(core, sb, h, &note, &made, id, err);
}

void cay_history_begin(struct cay_core *core, const struct cay_sandbox *sb)
{
    struct cay_error err;
    if (keeps(core, sb) && begin(core, sb, &err) < 0)
        cay_log_error(&err, "%s: its history does not begin", sb->id);
}

static int copy_from(struct cay_core *core, const char *from_id, const char *to_id,
                     struct cay_error *err)
{
    CAY_AUTO_HOLD struct cay_hold hold = {0};
    int r = cay_history_hold(core, from_id, &hold, err);
    return r < 0 ? r : cay_history_copy(core->historian.dir_fd, from_id, to_id, err);
}

int cay_history_fork(struct cay_core *core, const char *from_id, const struct cay_sandbox *sb,
                     struct cay_error *err)
{
    struct cay_error ignored;
    if (!keeps(core, sb) && !sb->spec.at)
        return 0;
    int r = copy_from(core, from_id, sb->id, sb->spec.at ? err : &ignored);
    if (sb->spec.at)
        return r < 0 ? r : cay_history_go_back(core, sb, sb->spec.at, err);
    if (r == CAY_ERR_NOT_FOUND)
        cay_history_begin(core, sb);
    else if (r < 0)
        cay_log_error(&ignored, "%s: no copy of its source's history", sb->id);
    return 0;
}

void cay_history_forget(struct cay_core *core, const char *sandbox_id)
{
    CAY_AUTO_HOLD struct cay_hold hold = {0};
    struct stat st;
    struct cay_error ignored; /* somebody is at it for long: the sweep comes later */
    if (core->historian.dir_fd >= 0 &&
        fstatat(core->historian.dir_fd, sandbox_id, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        cay_history_hold(core, sandbox_id, &hold, &ignored) == 0)
        cay_history_remove(core->historian.dir_fd, sandbox_id);
}

/* ---- executions ---- */

enum stage { RUNS, ENDED, AT_WORK };

struct cay_tracked {
    struct cay_tracked *next;
    struct cay_wait wait;
    struct cay_arena arena;
    struct cay_strs brought;
    const char *account_id;
    int log_fd;
    enum stage stage;
};

/* Whoever waits for the version follows the log: see settle.c. */
static void wake_followers(const struct cay_tracked *t)
{
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_nsec = UTIME_NOW}};
    (void)futimens(t->log_fd, times); /* at worst they wait for their client's patience */
}

static void drop(struct cay_historian *all, struct cay_tracked *t)
{
    for (struct cay_tracked **at = &all->first; *at; at = &(*at)->next)
        if (*at == t) {
            *at = t->next;
            break;
        }
    wake_followers(t);
    cay_close_fd(&t->log_fd);
    cay_reader_done(&t->wait.reader);
    cay_arena_done(&t->arena);
    free(t);
    pthread_cond_broadcast(&all->changed);
}

static void on_end(struct cay_core *core, struct cay_wait *w)
{
    struct cay_tracked *t = (struct cay_tracked *)((char *)w - offsetof(struct cay_tracked, wait));
    pthread_mutex_lock(&core->historian.lock);
    t->stage = ENDED;
    pthread_cond_broadcast(&core->historian.changed);
    pthread_mutex_unlock(&core->historian.lock);
}

/* The first that ended of a sandbox at which nobody is. */
static struct cay_tracked *next_one(const struct cay_historian *all)
{
    for (struct cay_tracked *t = all->first; t; t = t->next) {
        bool free_now = t->stage == ENDED;
        for (struct cay_tracked *o = all->first; free_now && o; o = o->next)
            free_now = o->stage != AT_WORK || strcmp(o->wait.sandbox_id, t->wait.sandbox_id) != 0;
        if (free_now)
            return t;
    }
    return NULL;
}

static int settle(struct cay_core *core, struct cay_tracked *t, struct cay_error *err)
{
    CAY_AUTO_HOLD struct cay_hold hold = {0};
    AUTO_HISTORY struct cay_history *h = NULL;
    struct cay_history_note note = {
        .id = t->wait.exec_id, .message = EXEC_MESSAGE, .brought = &t->brought};
    struct cay_sandbox sb;
    char id[CAY_COMMIT_SIZE];
    bool made;
    int r = cay_history_hold(core, t->wait.sandbox_id, &hold, err);
    if (r == 0)
        r = cay_store_get(core->store, t->account_id, t->wait.sandbox_id, &t->arena, &sb, err);
    if (r == 0 && sb.deleted_at_ms)
        r = cay_fail(err, CAY_ERR_NOT_FOUND, "it is gone");
    if (r == 0)
        r = cay_history_open(core->historian.dir_fd, sb.id, true, &h, err);
    return r < 0 ? r : cay_history_commit_now(core, &sb, h, &note, &made, id, err);
}

static void *historian_main(void *arg)
{
    struct cay_core *core = arg;
    struct cay_historian *all = &core->historian;
    struct cay_error err;
    pthread_mutex_lock(&all->lock);
    while (!all->closing) {
        struct cay_tracked *t = next_one(all);
        if (!t) {
            pthread_cond_wait(&all->changed, &all->lock);
            continue;
        }
        t->stage = AT_WORK;
        pthread_mutex_unlock(&all->lock);
        int r = settle(core, t, &err);
        if (r < 0 && r != CAY_ERR_CONFLICT && r != CAY_ERR_NOT_FOUND) /* it is gone, or stopped */
            cay_log_error(&err, "%s: no version of %s", t->wait.sandbox_id, t->wait.exec_id);
        pthread_mutex_lock(&all->lock);
        drop(all, t);
    }
    pthread_mutex_unlock(&all->lock);
    return NULL;
}

static int start_threads(struct cay_core *core, struct cay_error *err)
{
    struct cay_historian *all = &core->historian;
    int r = cay_waiter_start(core, err);
    pthread_mutex_lock(&all->lock);
    while (r == 0 && all->started < CAY_HISTORY_THREADS) {
        if (pthread_create(&all->threads[all->started], NULL, historian_main, core) != 0)
            r = cay_fail(err, CAY_ERR_INTERNAL, "cannot start a thread");
        else
            all->started++;
    }
    pthread_mutex_unlock(&all->lock);
    return r;
}

void cay_history_expect(struct cay_core *core, const struct cay_sandbox *sb, const char *exec_id,
                        const struct cay_exec_spec *spec)
{
    struct cay_historian *all = &core->historian;
    struct cay_error err;
    int log_fd = -1;
    if (!keeps(core, sb) || (tracks(sb, "files") && spec->file_count == 0))
        return;
    int r = start_threads(core, &err);
    if (r == 0)
        r = cay_log_open(core->logs_fd, sb->id, exec_id, &log_fd, &err);
    if (r < 0) {
        cay_log_error(&err, "%s: no version of %s", sb->id, exec_id);
        return;
    }
    struct cay_tracked *t = calloc(1, sizeof *t);
    if (!t)
        abort();
    cay_str_copy(t->wait.sandbox_id, sizeof t->wait.sandbox_id, sb->id);
    cay_str_copy(t->wait.exec_id, sizeof t->wait.exec_id, exec_id);
    t->wait.ended = on_end;
    t->log_fd = fcntl(log_fd, F_DUPFD_CLOEXEC, 3);
    t->account_id = cay_arena_strdup(&t->arena, sb->account_id);
    for (size_t i = 0; i < spec->file_count; i++) {
        const char *path = in_workspace(sb, spec, spec->files[i].path, &t->arena);
        if (path)
            cay_strs_push(&t->arena, &t->brought, path);
    }
    pthread_mutex_lock(&all->lock);
    struct cay_tracked **at = &all->first;
    while (*at)
        at = &(*at)->next;
    *at = t;
    pthread_mutex_unlock(&all->lock);
    cay_wait_for(core, &t->wait, log_fd);
}

/* Under the lock. */
static bool is_due(const struct cay_historian *all, const char *exec_id)
{
    for (const struct cay_tracked *t = all->first; t; t = t->next)
        if (strcmp(t->wait.exec_id, exec_id) == 0)
            return true;
    return false;
}

bool cay_core_version_due(struct cay_core *core, const char *exec_id)
{
    pthread_mutex_lock(&core->historian.lock);
    bool due = is_due(&core->historian, exec_id);
    pthread_mutex_unlock(&core->historian.lock);
    return due;
}

void cay_core_await_version(struct cay_core *core, const char *exec_id)
{
    struct cay_historian *all = &core->historian;
    struct timespec until;
    bool late = false;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += CAY_HISTORY_AWAIT_MS / 1000;
    pthread_mutex_lock(&all->lock);
    while (!late && is_due(all, exec_id))
        late = pthread_cond_timedwait(&all->changed, &all->lock, &until) != 0;
    pthread_mutex_unlock(&all->lock);
}

void cay_historian_init(struct cay_historian *all)
{
    pthread_condattr_t how;
    *all = (struct cay_historian){.dir_fd = -1};
    pthread_mutex_init(&all->lock, NULL);
    pthread_condattr_init(&how);
    (void)pthread_condattr_setclock(&how, CLOCK_MONOTONIC); /* it is there on Linux */
    pthread_cond_init(&all->changed, &how);
    pthread_condattr_destroy(&how);
}

/* After the waiter's end: nobody is told any more. */
void cay_historian_done(struct cay_core *core)
{
    struct cay_historian *all = &core->historian;
    pthread_mutex_lock(&all->lock);
    all->closing = true;
    pthread_cond_broadcast(&all->changed);
    pthread_mutex_unlock(&all->lock);
    for (int i = 0; i < all->started; i++)
        pthread_join(all->threads[i], NULL);
    while (all->first)
        drop(all, all->first);
    cay_close_fd(&all->dir_fd);
    pthread_cond_destroy(&all->changed);
    pthread_mutex_destroy(&all->lock);
}
