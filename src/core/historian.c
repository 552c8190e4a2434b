/* SPDX-License-Identifier: Apache-2.0 */
/* When executions have their versions.
 *
 * That an execution is due a version is on the disk before it begins, as a line of history/due, and
 * is taken back when the version was made. So a server that ends meanwhile leaves word to the next,
 * which waits on as if nothing had been. The file is empty again whenever nothing is due. */
#include "base/clock.h"
#include "base/crash.h"
#include "base/json.h"
#include "base/log.h"
#include "base/path.h"
#include "core/core.h"
#include "log/files.h"
#include "model/limits.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define DUE "due"
#define EXEC_MESSAGE "Update files for sandbox execution"

/* ---- executions ---- */

enum stage { RUNS, ENDED, AT_WORK };

struct cay_tracked {
    struct cay_tracked *next;
    struct cay_wait wait;
    struct cay_arena arena;
    struct cay_strs brought;
    const char *account_id;
    size_t due_bytes; /* of its line, if it names what it brought */
    bool left;        /* an earlier server left word of it */
    int log_fd;
    enum stage stage;
};

static struct cay_tracked *new_tracked(const char *sandbox_id, const char *exec_id,
                                       const char *account_id)
{
    struct cay_tracked *t = calloc(1, sizeof *t);
    if (!t)
        abort();
    cay_str_copy(t->wait.sandbox_id, sizeof t->wait.sandbox_id, sandbox_id);
    cay_str_copy(t->wait.exec_id, sizeof t->wait.exec_id, exec_id);
    t->account_id = cay_arena_strdup(&t->arena, account_id);
    t->log_fd = t->wait.reader.fd = -1;
    return t;
}

static void free_tracked(struct cay_tracked *t)
{
    cay_close_fd(&t->log_fd);
    cay_reader_done(&t->wait.reader);
    cay_arena_done(&t->arena);
    free(t);
}

/* Whoever waits for the version follows the log. */
static void wake_followers(const struct cay_tracked *t)
{
    if (t->log_fd >= 0)
        cay_log_touch(t->log_fd);
}

/* Under the lock. */
static void drop(struct cay_historian *all, struct cay_tracked *t)
{
    for (struct cay_tracked **at = &all->first; *at; at = &(*at)->next)
        if (*at == t) {
            *at = t->next;
            break;
        }
    wake_followers(t);
    free_tracked(t);
    pthread_cond_broadcast(&all->changed);
}

/* ---- the word that is left ---- */

static void put_due(struct cay_buf *out, const struct cay_tracked *t)
{
    struct cay_json_writer w = {.buf = out};
    cay_jw_object(&w, NULL);
    cay_jw_str(&w, "due", t->wait.exec_id);
    cay_jw_str(&w, "sandbox", t->wait.sandbox_id);
    cay_jw_str(&w, "account", t->account_id);
    cay_jw_array(&w, "brought");
    for (size_t i = 0; i < t->brought.count; i++)
        cay_jw_str(&w, NULL, t->brought.at[i]);
    cay_jw_array_end(&w);
    cay_jw_object_end(&w);
    cay_buf_addc(out, '\n');
}

/* Under the lock: a line, or none of it. */
static bool append(struct cay_historian *all, const struct cay_buf *line)
{
    if (all->due_fd < 0)
        return true;
    if (write(all->due_fd, line->data, line->len) != (ssize_t)line->len) {
        (void)!ftruncate(all->due_fd, (off_t)all->due_bytes); /* else that line cannot be read */
        return false;
    }
    all->due_bytes += line->len;
    return true;
}

/* Under the lock: may it bring so much, with all that others bring? Whatever is due is written anew
 * at times, while the loop waits for the lock. */
static bool has_room(const struct cay_historian *all, const struct cay_tracked *t)
{
    size_t here = t->due_bytes, everywhere = t->due_bytes;
    for (const struct cay_tracked *o = all->first; o; o = o->next) {
        everywhere += o->due_bytes;
        if (strcmp(o->wait.sandbox_id, t->wait.sandbox_id) == 0)
            here += o->due_bytes;
    }
    return here <= CAY_HISTORY_BROUGHT_HERE && everywhere <= CAY_HISTORY_BROUGHT_ALL;
}

/* Behind the others, with word of it. Without what it brought where that is too much: `workspace`
 * finds out for itself what changed. */
static bool add(struct cay_historian *all, struct cay_tracked *t)
{
    CAY_AUTO_BUF struct cay_buf line = {0};
    put_due(&line, t);
    t->due_bytes = t->brought.count > 0 ? line.len : 0;
    pthread_mutex_lock(&all->lock);
    bool too_much = t->due_bytes > 0 && !has_room(all, t);
    if (too_much) {
        t->brought.count = t->due_bytes = line.len = 0;
        put_due(&line, t);
    }
    bool well = append(all, &line);
    struct cay_tracked **at = &all->first;
    while (*at)
        at = &(*at)->next;
    if (well)
        *at = t;
    pthread_mutex_unlock(&all->lock);
    if (too_much)
        cay_log_warn("%s: its commands bring too many files: none of %s is noted",
                     t->wait.sandbox_id, t->wait.exec_id);
    return well;
}

/* Under the lock: all that is due, and nothing else. What is lost in a crash meanwhile costs a
 * version its name, no more. */
static void write_anew(struct cay_historian *all)
{
    CAY_AUTO_BUF struct cay_buf text = {0};
    if (all->due_fd < 0 || ftruncate(all->due_fd, 0) < 0)
        return;
    all->due_bytes = 0;
    for (const struct cay_tracked *t = all->first; t; t = t->next)
        put_due(&text, t);
    if (text.len > 0)
        (void)append(all, &text);
}

/* Under the lock. */
static void take_back(struct cay_historian *all, const char *exec_id)
{
    CAY_AUTO_BUF struct cay_buf line = {0};
    cay_buf_addf(&line, "{\"done\":\"%s\"}\n", exec_id);
    if (!all->first || all->due_bytes > CAY_HISTORY_DUE_BYTES || !append(all, &line))
        write_anew(all);
}

/* Nothing is due any more. */
static void settled(struct cay_historian *all, struct cay_tracked *t)
{
    char exec_id[CAY_ID_SIZE];
    cay_str_copy(exec_id, sizeof exec_id, t->wait.exec_id);
    pthread_mutex_lock(&all->lock);
    drop(all, t);
    take_back(all, exec_id);
    pthread_mutex_unlock(&all->lock);
}

/* ---- the end of an execution ---- */

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

/* Whoever deletes it forgets the history after the row, and waits for us: so one that is there now
 * is not begun anew behind him. */
static int find_alive(struct cay_core *core, struct cay_tracked *t, struct cay_sandbox *out,
                      struct cay_error *err)
{
    int r = cay_store_get(core->store, t->account_id, t->wait.sandbox_id, &t->arena, out, err);
    return r == 0 && out->deleted_at_ms ? cay_fail(err, CAY_ERR_NOT_FOUND, "it is gone") : r;
}

static int make_version(struct cay_core *core, struct cay_tracked *t, struct cay_error *err)
{
    CAY_AUTO_HISTORY_TURN struct cay_history_turn turn = {0};
    struct cay_history_note note = {
        .id = t->wait.exec_id, .message = EXEC_MESSAGE, .brought = &t->brought};
    struct cay_sandbox sb;
    struct cay_error ignored; /* that there is none is well */
    char id[CAY_COMMIT_SIZE];
    bool made;
    int r = cay_history_hold(core, t->wait.sandbox_id, &turn.hold, err);
    if (r == 0)
        r = find_alive(core, t, &sb, err);
    if (r == 0)
        r = cay_history_turn_open(core, t->wait.sandbox_id, true, &turn, err);
    if (r == 0 && t->left && cay_history_has(turn.h, t->wait.exec_id, "", &ignored) == 0)
        return 0; /* the last thing that the server before did */
    return r < 0 ? r : cay_history_commit_now(&turn, &sb, &note, &made, id, err);
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
        int r = make_version(core, t, &err);
        if (r < 0 && r != CAY_ERR_CONFLICT && r != CAY_ERR_NOT_FOUND) /* it is gone, or stopped */
            cay_log_error(&err, "%s: no version of %s", t->wait.sandbox_id, t->wait.exec_id);
        settled(all, t);
        pthread_mutex_lock(&all->lock);
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
        errno = pthread_create(&all->threads[all->started], NULL, historian_main, core);
        if (errno != 0)
            r = cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot start a thread");
        else
            all->started++;
    }
    pthread_mutex_unlock(&all->lock);
    return r;
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

/* The first of them: they are in memory as long as the command runs. */
static void note_brought(struct cay_tracked *t, const struct cay_sandbox *sb,
                         const struct cay_exec_spec *spec)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    size_t left = CAY_HISTORY_BROUGHT_BYTES;
    for (size_t i = 0; i < spec->file_count; i++) {
        const char *path = in_workspace(sb, spec, spec->files[i].path, &a);
        size_t len = path ? strlen(path) : 0;
        if (len >= left)
            return;
        left -= len;
        if (path)
            cay_strs_push(&t->arena, &t->brought, cay_arena_strdup(&t->arena, path));
    }
}

struct cay_tracked *cay_history_expect(struct cay_core *core, const struct cay_sandbox *sb,
                                       const char *exec_id, const struct cay_exec_spec *spec)
{
    struct cay_error err;
    if (!cay_history_is_kept(core, sb) || (cay_history_is_of_files(sb) && spec->file_count == 0))
        return NULL;
    struct cay_tracked *t = new_tracked(sb->id, exec_id, sb->account_id);
    note_brought(t, sb, spec);
    int r = start_threads(core, &err);
    if (r == 0 && !add(&core->historian, t))
        r = cay_fail_errno(&err, CAY_ERR_INTERNAL, "cannot write down that it is due");
    if (r < 0) {
        cay_log_error(&err, "%s: no version of %s", sb->id, exec_id);
        free_tracked(t);
        return NULL;
    }
    cay_crash_point("version-due");
    return t;
}

/* For whoever waits for its end, and for those who wait for its version: without the latter they
 * would never be told. */
static int open_log(struct cay_core *core, struct cay_tracked *t, int *fd_out,
                    struct cay_error *err)
{
    CAY_AUTO_FD int fd = -1;
    int r = cay_log_open(core->logs_fd, t->wait.sandbox_id, t->wait.exec_id, &fd, err);
    if (r < 0)
        return r;
    t->log_fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (t->log_fd < 0)
        return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot watch its log");
    *fd_out = cay_take_fd(&fd);
    return 0;
}

void cay_history_began(struct cay_core *core, struct cay_tracked *t, bool began)
{
    struct cay_error err;
    int fd = -1;
    if (!t)
        return;
    int r = began ? open_log(core, t, &fd, &err) : 0;
    if (r < 0)
        cay_log_error(&err, "%s: no version of %s", t->wait.sandbox_id, t->wait.exec_id);
    if (!began || r < 0) {
        settled(&core->historian, t);
        return;
    }
    t->wait.ended = on_end;
    cay_wait_for(core, &t->wait, fd);
}

/* ---- what an earlier server left ---- */

static struct cay_tracked *read_due(const struct cay_json *line)
{
    const char *sandbox_id = cay_json_get_str(line, "sandbox", "");
    const char *exec_id = cay_json_get_str(line, "due", "");
    if (!cay_id_is_sandbox(sandbox_id) || !cay_id_is_execution(exec_id))
        return NULL;
    struct cay_tracked *t =
        new_tracked(sandbox_id, exec_id, cay_json_get_str(line, "account", CAY_LOCAL_ACCOUNT));
    const struct cay_json *brought = cay_json_get(line, "brought");
    for (const struct cay_json *at = brought ? brought->first : NULL; at; at = at->next)
        if (at->kind == CAY_JSON_STRING)
            cay_strs_push(&t->arena, &t->brought, cay_arena_strdup(&t->arena, at->text));
    t->left = true;
    return t;
}

/* One line; what is none was cut by a crash. */
static void read_line(const char *text, size_t len, struct cay_tracked **found)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    const struct cay_json *line;
    struct cay_error ignored;
    if (cay_json_parse(&a, text, len, &line, &ignored) < 0)
        return;
    const char *done = cay_json_get_str(line, "done", "");
    while (*found && strcmp((*found)->wait.exec_id, done) != 0)
        found = &(*found)->next;
    struct cay_tracked *gone = *found;
    if (!gone) {
        *found = read_due(line);
        if (*found && (*found)->brought.count > 0)
            (*found)->due_bytes = len;
        return;
    }
    *found = gone->next;
    free_tracked(gone);
}

int cay_history_resume(struct cay_core *core, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_historian *all = &core->historian;
    struct cay_tracked *found = NULL;
    char *text = NULL;
    size_t len = 0;
    int r = cay_path_read(all->dir_fd, DUE, 4 * CAY_HISTORY_DUE_BYTES, &a, &text, &len, err);
    if (r < 0)
        cay_log_error(err, "versions that were due are not made");
    for (const char *at = text, *end; text && (end = memchr(at, '\n', (size_t)(text + len - at)));
         at = end + 1)
        read_line(at, (size_t)(end - at), &found);
    r = found ? start_threads(core, err) : 0;
    pthread_mutex_lock(&all->lock);
    all->first = found; /* nobody else is here yet */
    write_anew(all);
    pthread_mutex_unlock(&all->lock);
    while (r == 0 && found) { /* in the order they began, as when nobody had been away */
        struct cay_tracked *next = found->next;
        cay_history_began(core, found, true);
        found = next;
    }
    return r;
}

/* ---- is it made? ---- */

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

/* Under the lock: of one that has ended. */
static bool is_late(const struct cay_historian *all, const char *sandbox_id)
{
    for (const struct cay_tracked *t = all->first; t; t = t->next)
        if (t->stage != RUNS && strcmp(t->wait.sandbox_id, sandbox_id) == 0)
            return true;
    return false;
}

typedef bool (*is_so)(const struct cay_historian *all, const char *id);

static void await(struct cay_historian *all, is_so due, const char *id)
{
    struct timespec until;
    bool late = false;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += CAY_HISTORY_AWAIT_MS / 1000;
    pthread_mutex_lock(&all->lock);
    while (!late && due(all, id))
        late = pthread_cond_timedwait(&all->changed, &all->lock, &until) != 0;
    pthread_mutex_unlock(&all->lock);
}

void cay_core_await_version(struct cay_core *core, const char *exec_id)
{
    await(&core->historian, is_due, exec_id);
}

void cay_history_await(struct cay_core *core, const char *sandbox_id)
{
    struct cay_historian *all = &core->historian;
    cay_wait_look(core, sandbox_id); /* an end that somebody has read of may be news to us */
    if (atomic_fetch_add(&all->awaiting, 1) < CAY_HISTORY_AWAITING) /* a worker each */
        await(all, is_late, sandbox_id);
    atomic_fetch_sub(&all->awaiting, 1);
}

/* ---- all of it ---- */

int cay_historian_open(struct cay_historian *all, int data_fd, struct cay_error *err)
{
    int r = cay_path_open_dir(data_fd, "history", 0700, &all->dir_fd, err);
    if (r < 0)
        return r;
    all->due_fd = openat(all->dir_fd, DUE, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    return all->due_fd < 0 ? cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot open history/due") : 0;
}

void cay_historian_init(struct cay_historian *all)
{
    pthread_condattr_t how;
    *all = (struct cay_historian){.dir_fd = -1, .due_fd = -1};
    for (size_t i = 0; i < CAY_HISTORY_BUNDLES; i++)
        all->bundles[i] = -1;
    pthread_mutex_init(&all->lock, NULL);
    pthread_condattr_init(&how);
    (void)pthread_condattr_setclock(&how, CLOCK_MONOTONIC); /* it is there on Linux */
    pthread_cond_init(&all->changed, &how);
    pthread_condattr_destroy(&how);
}

/* After the waiter's end: nobody is told any more. What is due stays so for the next server. */
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
    while (all->open_count > 0)
        cay_history_close(all->open[--all->open_count].h, true);
    for (size_t i = 0; i < CAY_HISTORY_BUNDLES; i++)
        cay_close_fd(&all->bundles[i]);
    cay_close_fd(&all->due_fd);
    cay_close_fd(&all->dir_fd);
    pthread_cond_destroy(&all->changed);
    pthread_mutex_destroy(&all->lock);
}
