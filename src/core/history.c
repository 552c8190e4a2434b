/* SPDX-License-Identifier: Apache-2.0 */
/* Code history of sandboxes: what a version holds comes through cay-file, with the rights of the
 * sandbox's user, and goes into a repository that lies outside (history/history.h). No git program
 * runs, and nothing in the workspace is taken for more than bytes.
 *
 * When versions are made see historian.c, who is at a history history_turn.c. */
#include "core/history.h"
#include "base/clock.h"
#include "base/log.h"
#include "core/core.h"
#include "core/exchange.h"
#include "model/limits.h"
#include <string.h>

#define FIRST_MESSAGE "Initial commit"
#define README_NAME "README.md"

bool cay_history_is_kept(const struct cay_core *core, const struct cay_sandbox *sb)
{
    const char *track = sb->spec.track;
    return track && strcmp(track, "off") != 0 && core->historian.dir_fd >= 0;
}

bool cay_history_is_of_files(const struct cay_sandbox *sb)
{
    return sb->spec.track && strcmp(sb->spec.track, "files") == 0;
}

/* ---- looking at the workspace ---- */

/* One cay-file tells what is there and then gives what is wanted of it. */
struct look {
    struct cay_core *core;
    const struct cay_sandbox *sb;
    struct cay_history *h;
    struct cay_arena arena;
    struct cay_history_file *files;
    size_t count, cap, name_bytes;
    bool whole;
    struct cay_file_request rq;
    struct cay_exchange x;
    struct cay_history_file **wanted;
    size_t wanted_count, got;
};

static void look_done(struct look *l)
{
    cay_exchange_done(&l->x);
    cay_arena_done(&l->arena);
    free(l->files);
}

static int ask(struct look *l, enum cay_file_op op, struct cay_error *err)
{
    cay_exchange_done(&l->x);
    l->rq = (struct cay_file_request){
        .op = op, .path = CAY_DEFAULT_WORKDIR, .limit_bytes = CAY_HISTORY_FILE_BYTES};
    l->x = (struct cay_exchange){.rq = &l->rq, .arg = l};
    return cay_exchange_begin(l->core, l->sb, &l->x, CAY_HISTORY_MS, err);
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
    while ((r = cay_file_seen_next(&at, &len, &s, &path)) == 0 && l->count < CAY_HISTORY_FILES &&
           l->name_bytes < CAY_HISTORY_NAME_BYTES) {
        add_file(l, &s, path);
        l->name_bytes += s.path_len;
    }
    l->whole = r == 2;
    cay_buf_drop(out, l->whole ? out->len : out->len - len); /* the last one with the others */
    return r < 0 || r == 0 ? cay_fail(err, CAY_ERR_PROVIDER, "the workspace could not be listed")
                           : 0;
}

static bool is_whole(void *arg)
{
    return ((struct look *)arg)->whole;
}

static int scan(struct look *l, struct cay_error *err)
{
    int r = ask(l, CAY_FILE_SCAN, err);
    l->x.take = take_seen;
    if (r == 0)
        r = cay_exchange_until(&l->x, is_whole, err);
    if (r == 0)
        r = cay_core_file_verdict(&l->rq, l->x.has_reply ? &l->x.reply : NULL, err);
    if (r == 0 && !l->whole)
        r = cay_fail_as(err, CAY_ERR_TOO_LARGE, "HISTORY_TOO_LARGE",
                        "a workspace with a history may have at most %d files", CAY_HISTORY_FILES);
    return r;
}

/* What it is now is what counts, not what it was when it was seen. */
static int take_fetched(void *arg, struct cay_buf *out, struct cay_error *err)
{
    struct look *l = arg;
    struct cay_file_fetched one;
    size_t used = 0;
    int r = 0;
    while (r == 0 && out->len - used >= sizeof one) {
        memcpy(&one, out->data + used, sizeof one);
        if (one.len > CAY_HISTORY_FILE_BYTES || l->got == l->wanted_count)
            return cay_fail(err, CAY_ERR_PROVIDER, "a file of the workspace could not be read");
        if (out->len - used - sizeof one < one.len)
            break;
        struct cay_history_file *file = l->wanted[l->got++];
        file->left_out = one.code != CAY_FILE_OK;
        if (!file->left_out) {
            file->mode = one.seen.mode;
            file->size = one.seen.size;
            file->inode = one.seen.inode;
            file->mtime_ns = one.seen.mtime_ns;
            file->ctime_ns = one.seen.ctime_ns;
            r = cay_history_take(l->h, file, out->data + used + sizeof one, (size_t)one.len, err);
        }
        used += sizeof one + (size_t)one.len;
    }
    cay_buf_drop(out, used);
    return r;
}

static bool has_all(void *arg)
{
    struct look *l = arg;
    return l->got == l->wanted_count;
}

static int get_wanted(struct look *l, struct cay_error *err)
{
    for (size_t i = l->got; i < l->wanted_count; i++) {
        uint32_t len = (uint32_t)l->wanted[i]->path_len;
        cay_buf_add(&l->x.in, &len, sizeof len);
        cay_buf_add(&l->x.in, l->wanted[i]->path, len);
    }
    l->rq.count = l->wanted_count - l->got;
    l->x.take = take_fetched;
    l->x.until_ms = cay_clock_mono_ms() + CAY_HISTORY_MS;
    return cay_exchange_until(&l->x, has_all, err);
}

/* The contents of stale ones; of rules alone, first. Where whoever scanned has gone, because an
 * older one serves no contents, or somebody ended it, another is asked. */
static int fetch(struct look *l, bool rules, struct cay_error *err)
{
    l->wanted = cay_arena_alloc(&l->arena, l->count * sizeof *l->wanted);
    l->wanted_count = l->got = 0;
    for (size_t i = 0; i < l->count; i++)
        if (l->files[i].stale && (!rules || cay_history_is_rules(l->files[i].path)))
            l->wanted[l->wanted_count++] = &l->files[i];
    if (l->wanted_count == 0)
        return 0;
    int r = l->rq.op == CAY_FILE_SCAN ? get_wanted(l, err) : 0;
    if (r == 0 && !has_all(l))
        r = ask(l, CAY_FILE_FETCH, err);
    if (r == 0 && !has_all(l))
        r = get_wanted(l, err);
    if (r == 0 && !has_all(l))
        r = cay_core_file_verdict(&l->rq, l->x.has_reply ? &l->x.reply : NULL, err);
    if (r == 0 && !has_all(l))
        r = cay_fail(err, CAY_ERR_PROVIDER, "the workspace could not be read");
    return r;
}

/* ---- versions ---- */

/* What .gitignore files say is known when their contents are. */
static int look(struct look *l, int64_t now_ms, struct cay_error *err)
{
    int r = scan(l, err);
    if (r == 0)
        r = cay_history_look_at_rules(l->h, l->files, l->count, now_ms, err);
    if (r == 0)
        r = fetch(l, true, err);
    if (r == 0)
        r = cay_history_look(l->h, l->files, l->count, now_ms, err);
    return r;
}

static void look_at_brought(struct look *l, const struct cay_strs *brought)
{
    for (size_t i = 0; brought && i < brought->count; i++) {
        const char *path = brought->at[i];
        add_file(l, &(struct cay_file_seen){.path_len = (uint32_t)strlen(path)}, path);
        l->files[i].stale = true;
    }
}

bool cay_history_has_room(struct cay_history *h, const struct cay_sandbox *sb)
{
    uint64_t least = CAY_HISTORY_BYTES;
    return !cay_history_is_full(h, sb->spec.disk_bytes > least ? sb->spec.disk_bytes : least);
}

int cay_history_commit_now(struct cay_history_turn *t, const struct cay_sandbox *sb,
                           struct cay_history_note *note, bool *made,
                           char commit_id[CAY_COMMIT_SIZE], struct cay_error *err)
{
    CAY_CLEANUP(look_done) struct look l = {.core = t->core, .sb = sb, .h = t->h};
    int r = 0;
    if (!cay_history_has_room(t->h, sb))
        return cay_fail_as(err, CAY_ERR_TOO_LARGE, "HISTORY_FULL",
                           "the history of this sandbox is full: it takes no new versions");
    t->half_done = true;
    note->time_ms = cay_clock_ms();
    if (cay_history_is_of_files(sb))
        look_at_brought(&l, note->brought);
    else
        r = look(&l, note->time_ms, err);
    if (r == 0)
        r = fetch(&l, false, err);
    cay_exchange_done(&l.x); /* whoever gave it need not wait for the rest */
    note->files = l.files;
    note->count = l.count;
    if (r == 0)
        r = cay_history_commit(t->h, note, made, commit_id, err);
    t->half_done = r < 0;
    return r;
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
    if (r == 0 && cay_history_is_of_files(sb))
        r = cay_history_take(h, &readme, text, strlen(text), &err);
    if (r < 0)
        cay_log_error(&err, "%s: no README.md for its history", sb->id);
}

static int begin(struct cay_core *core, const struct cay_sandbox *sb, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    CAY_AUTO_HISTORY_TURN struct cay_history_turn turn = {0};
    struct cay_history_note note = {.id = CAY_HISTORY_NO_ID, .message = FIRST_MESSAGE};
    char id[CAY_COMMIT_SIZE];
    bool made;
    int r = cay_history_turn_begin(core, sb->id, true, &turn, err);
    if (r < 0)
        return r;
    take_readme(
        core, sb, turn.h,
        cay_arena_printf(&a, "# %s\n\nThe workspace of sandbox %s.\n", sb->spec.name, sb->id));
    return cay_history_commit_now(&turn, sb, &note, &made, id, err);
}

void cay_history_begin(struct cay_core *core, const struct cay_sandbox *sb)
{
    struct cay_error err;
    if (cay_history_is_kept(core, sb) && begin(core, sb, &err) < 0)
        cay_log_error(&err, "%s: its history does not begin", sb->id);
}

static int copy_from(struct cay_core *core, const char *from_id, const char *to_id,
                     struct cay_error *err)
{
    CAY_AUTO_HISTORY_TURN struct cay_history_turn turn = {0};
    cay_history_await(core, from_id);
    int r = cay_history_turn_begin(core, from_id, false, &turn, err);
    return r < 0 ? r : cay_history_copy(core->historian.dir_fd, turn.h, to_id, err);
}

int cay_history_fork(struct cay_core *core, const char *from_id, const struct cay_sandbox *sb,
                     struct cay_error *err)
{
    struct cay_error ignored;
    if (!cay_history_is_kept(core, sb) && !sb->spec.at)
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
