/* SPDX-License-Identifier: Apache-2.0 */
/* A new version: the index against what is there now, contents of what differs, a commit.
 *
 * The index remembers of each file what stat said when its content was taken. A file is stale when
 * that differs; and, as with git, when it could have been changed within the same tick of the clock
 * afterwards: then a time of 0 is remembered, and it is looked at again. What it remembers is
 * worth a file's reading, no more, so it goes to the disk when much of it is new, and at the end.
 */
#include "base/crash.h"
#include "history/inside.h"
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define BULK 64                  /* more new files than this go into one pack */
#define TICK_NS (20 * 1000000LL) /* coarser than any kernel's clock for files */

#define UNWRITTEN 16 /* of what it remembers one part of so many may be lost in a crash */

static uint32_t git_mode(uint32_t mode)
{
    return S_ISLNK(mode)   ? GIT_FILEMODE_LINK
           : (mode & 0100) ? GIT_FILEMODE_BLOB_EXECUTABLE
                           : GIT_FILEMODE_BLOB;
}

static int64_t ns_of(const git_index_time *t)
{
    return t->seconds * 1000000000LL + t->nanoseconds;
}

static git_index_time time_of(int64_t ns)
{
    return (git_index_time){(int32_t)(ns / 1000000000), (uint32_t)(ns % 1000000000)};
}

static bool is_same(const git_index_entry *e, const struct cay_history_file *f)
{
    return e->mode == git_mode(f->mode) && e->file_size == (uint32_t)f->size &&
           e->ino == (uint32_t)f->inode && ns_of(&e->mtime) == f->mtime_ns &&
           ns_of(&e->ctime) == f->ctime_ns;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct cay_history_file *)a)->path,
                  ((const struct cay_history_file *)b)->path);
}

bool cay_history_is_rules(const char *path)
{
    const char *slash = strrchr(path, '/');
    return strcmp(slash ? slash + 1 : path, ".gitignore") == 0;
}

/* Out of what the index holds: whoever calls takes the contents of stale ones first, and looks
 * again. */
static int read_rules(struct cay_history *h, struct cay_arena *a, struct cay_ignore *rules,
                      struct cay_error *err)
{
    for (size_t i = 0, n = git_index_entrycount(h->index); i < n; i++) {
        const git_index_entry *e = git_index_get_byindex(h->index, i);
        git_blob *blob = NULL;
        if (!cay_history_is_rules(e->path) || e->mode == GIT_FILEMODE_LINK)
            continue;
        if (cay_ignore_is_spent(rules))
            break;
        if (git_blob_lookup(&blob, h->repo, &e->id) < 0)
            return cay_history_fail(err, "an ignore file cannot be read");
        size_t base = strlen(e->path) - strlen(".gitignore");
        cay_ignore_add(a, rules, cay_arena_strndup(a, e->path, base), git_blob_rawcontent(blob),
                       (size_t)git_blob_rawsize(blob));
        git_blob_free(blob);
    }
    return 0;
}

/* Paths of the index that are nowhere among the files, which are in order. */
static int remove_gone(struct cay_history *h, const struct cay_history_file *files, size_t count,
                       struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_strs gone = {0};
    size_t at = 0;
    for (size_t i = 0, n = git_index_entrycount(h->index); i < n; i++) {
        const char *path = git_index_get_byindex(h->index, i)->path;
        while (at < count && strcmp(files[at].path, path) < 0)
            at++;
        if (at == count || strcmp(files[at].path, path) != 0 || files[at].left_out)
            cay_strs_push(&a, &gone, cay_arena_strdup(&a, path));
    }
    for (size_t i = gone.count; i > 0; i--)
        if (git_index_remove(h->index, gone.at[i - 1], 0) < 0)
            return cay_history_fail(err, "a file cannot be taken out of the index");
    h->unwritten += gone.count;
    return 0;
}

/* What the index has of it, or NULL. */
static const git_index_entry *look_at(struct cay_history *h, struct cay_ignore *rules,
                                      struct cay_history_file *f)
{
    const git_index_entry *e = git_index_get_bypath(h->index, f->path, 0);
    f->left_out = f->size > CAY_HISTORY_FILE_BYTES || (!e && cay_ignore_has(rules, f->path));
    f->stale = !f->left_out && (!e || !is_same(e, f));
    return e;
}

/* That the old rules take too long is no reason not to read new ones. */
int cay_history_look_at_rules(struct cay_history *h, struct cay_history_file *files, size_t count,
                              int64_t looked_at_ms, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_ignore rules = {0};
    int r = read_rules(h, &a, &rules, err);
    h->looked_at_ns = looked_at_ms * 1000000;
    for (struct cay_history_file *f = files; r == 0 && f < files + count; f++)
        if (cay_history_is_rules(f->path))
            (void)look_at(h, &rules, f);
    return r;
}

int cay_history_look(struct cay_history *h, struct cay_history_file *files, size_t count,
                     int64_t looked_at_ms, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_ignore rules = {0};
    size_t stale = 0, known = 0, left_out = 0;
    int r = read_rules(h, &a, &rules, err);
    if (r < 0)
        return r;
    h->looked_at_ns = looked_at_ms * 1000000;
    for (struct cay_history_file *f = files; f < files + count; f++) {
        const git_index_entry *e = look_at(h, &rules, f);
        stale += f->stale;
        known += e && !f->left_out;
        left_out += f->left_out;
    }
    if (cay_ignore_is_spent(&rules))
        return cay_fail_as(err, CAY_ERR_TOO_LARGE, "HISTORY_TOO_LARGE",
                           "what the .gitignore files say takes too long");
    bool any_gone = known < git_index_entrycount(h->index);
    if (any_gone || left_out > 0 || stale > BULK) /* else nobody minds the order */
        qsort(files, count, sizeof *files, by_path);
    if (any_gone)
        r = remove_gone(h, files, count, err);
    return r == 0 && stale > BULK ? cay_pack_begin(h->pack, err) : r;
}

/* Into the pack go those that are new, but for rules: those are wanted before it is whole. */
static int keep_blob(struct cay_history *h, const struct cay_history_file *file, const void *data,
                     size_t len, git_oid *out)
{
    if (!cay_pack_is_open(h->pack) || cay_history_is_rules(file->path))
        return git_odb_write(out, h->odb, data, len, GIT_OBJECT_BLOB);
    int r = git_odb_hash(out, data, len, GIT_OBJECT_BLOB);
    if (r < 0 || git_odb_exists_ext(h->odb, out, GIT_ODB_LOOKUP_NO_REFRESH))
        return r;
    return cay_pack_add_blob(h->pack, out, data, len);
}

/* Names that would be git's own on some other system (.GIT, git~1) are refused by libgit2, as they
 * are by git when it makes a clone. */
static bool is_refused(void)
{
    const git_error *said = git_error_last();
    return said && said->klass == GIT_ERROR_INDEX;
}

int cay_history_take(struct cay_history *h, struct cay_history_file *file, const void *data,
                     size_t len, struct cay_error *err)
{
    bool racy = file->ctime_ns >= h->looked_at_ns - TICK_NS;
    git_index_entry e = {.mode = git_mode(file->mode),
                         .file_size = (uint32_t)file->size,
                         .ino = (uint32_t)file->inode,
                         .mtime = time_of(file->mtime_ns),
                         .ctime = time_of(racy ? 0 : file->ctime_ns),
                         .path = file->path};
    h->taken_bytes += len;
    if (h->taken_bytes > CAY_HISTORY_COMMIT_BYTES)
        return cay_fail_as(err, CAY_ERR_TOO_LARGE, "HISTORY_TOO_LARGE",
                           "one version may take in at most %lld bytes",
                           (long long)CAY_HISTORY_COMMIT_BYTES);
    if (keep_blob(h, file, data, len, &e.id) < 0)
        return cay_history_fail(err, "a file cannot be kept");
    file->left_out = git_index_add(h->index, &e) < 0;
    if (file->left_out && !is_refused())
        return cay_history_fail(err, "a file cannot be kept");
    h->unwritten++;
    return 0;
}

/* ---- the end of it ---- */

struct changed {
    struct cay_arena *a;
    struct cay_version *v;
    size_t left; /* bytes of names that may still be told */
};

/* A version's line is read whenever somebody asks, so names have an end; how many there are is told
 * besides. */
static void name_one(struct cay_arena *a, struct cay_strs *list, size_t *left, const char *path,
                     size_t len)
{
    if (*left == 0 || list->count == CAY_HISTORY_TOLD)
        return;
    const char *name = cay_history_quote(a, path, len);
    size_t bytes = strlen(name);
    *left = bytes < *left ? *left - bytes : 0;
    if (*left > 0)
        cay_strs_push(a, list, name);
}

static void tell(struct changed *c, const char *path)
{
    name_one(c->a, &c->v->files, &c->left, path, strlen(path));
    c->v->file_count++;
}

static bool is_equal(git_tree *old, git_tree *new, const char *path)
{
    git_tree_entry *a = NULL, *b = NULL;
    if (old)
        (void)git_tree_entry_bypath(&a, old, path); /* else it has none */
    (void)git_tree_entry_bypath(&b, new, path);
    bool equal = a && b ? git_oid_equal(git_tree_entry_id(a), git_tree_entry_id(b)) &&
                              git_tree_entry_filemode(a) == git_tree_entry_filemode(b)
                        : a == b;
    git_tree_entry_free(a);
    git_tree_entry_free(b);
    return equal;
}

/* Those that changed were told with the others. */
static void tell_brought(struct changed *c, git_tree *old, git_tree *new,
                         const struct cay_strs *brought)
{
    for (size_t i = 0; brought && i < brought->count; i++) {
        bool told = !is_equal(old, new, brought->at[i]);
        for (size_t k = 0; k < i && !told; k++)
            told = strcmp(brought->at[k], brought->at[i]) == 0;
        if (!told)
            tell(c, brought->at[i]);
    }
}

static int on_file(const git_diff_delta *delta, float progress, void *arg)
{
    (void)progress;
    tell(arg, delta->new_file.path);
    return 0;
}

static int list_changes(struct cay_history *h, git_tree *old, git_tree *new, struct changed *c,
                        struct cay_error *err)
{
    git_diff *diff = NULL;
    git_diff_options how = GIT_DIFF_OPTIONS_INIT;
    int r = git_diff_tree_to_tree(&diff, h->repo, old, new, &how);
    if (r == 0)
        r = git_diff_foreach(diff, on_file, NULL, NULL, NULL, c);
    git_diff_free(diff);
    return r < 0 ? cay_history_fail(err, "a version cannot be compared") : 0;
}

static void list_left_out(const struct cay_history_note *note, struct cay_arena *a,
                          struct cay_version *v)
{
    size_t left = CAY_HISTORY_LEFT_BYTES;
    for (size_t i = 0; i < note->count; i++) {
        if (!note->files[i].left_out)
            continue;
        name_one(a, &v->left_out, &left, note->files[i].path, note->files[i].path_len);
        v->left_out_count++;
    }
}

static int make_commit(struct cay_history *h, const struct cay_history_note *note, git_tree *tree,
                       git_oid *out, struct cay_error *err)
{
    char message[160];
    git_commit *parent = NULL;
    git_signature who = {.name = (char *)(uintptr_t) "cay",
                         .email = (char *)(uintptr_t) "cay@localhost",
                         .when = {.time = note->time_ms / 1000, .sign = '+'}};
    (void)snprintf(message, sizeof message, "%s\n\nExecution: %s\n", note->message, note->id);
    int r = h->has_head ? git_commit_lookup(&parent, h->repo, &h->head) : 0;
    const git_commit *parents[] = {parent};
    if (r == 0)
        r = git_commit_create(out, h->repo, NULL, &who, &who, NULL, message, tree, h->has_head,
                              h->has_head ? parents : NULL);
    git_commit_free(parent);
    return r < 0 ? cay_history_fail(err, "a version cannot be made") : 0;
}

static bool tells(const struct cay_history *h, const git_oid *tree, const git_tree *old,
                  const struct cay_history_note *note)
{
    bool brought = note->brought && note->brought->count > 0;
    return brought || note->always || !h->has_head || !git_oid_equal(tree, git_tree_id(old));
}

static int finish(struct cay_history *h, const struct cay_history_note *note, git_tree *old,
                  git_tree *tree, char commit_out[CAY_COMMIT_SIZE], struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_version v = {.id = note->id, .message = note->message, .time_ms = note->time_ms};
    struct changed changed = {&a, &v, CAY_HISTORY_TOLD_BYTES};
    git_oid commit;
    int r = list_changes(h, old, tree, &changed, err);
    if (r == 0)
        tell_brought(&changed, old, tree, note->brought);
    list_left_out(note, &a, &v);
    if (r == 0)
        r = make_commit(h, note, tree, &commit, err);
    if (r == 0)
        r = cay_pack_end(h->pack, err);
    if (r < 0)
        return r;
    cay_crash_point("version-objects");
    if (h->unwritten > git_index_entrycount(h->index) / UNWRITTEN)
        r = cay_index_write(h, err);
    if (r < 0)
        return r;
    v.commit = git_oid_tostr(commit_out, CAY_COMMIT_SIZE, &commit);
    cay_crash_point("version-index");
    r = cay_journal_add(h, &v, err);
    cay_crash_point("version-journal");
    if (r == 0) {
        h->head = commit;
        h->has_head = true;
    }
    return r;
}

int cay_history_commit(struct cay_history *h, const struct cay_history_note *note, bool *made,
                       char commit_out[CAY_COMMIT_SIZE], struct cay_error *err)
{
    git_oid id;
    git_tree *old = NULL, *tree = NULL;
    *made = false;
    int r = cay_history_tree(h, h->has_head ? &h->head : NULL, &old, err);
    if (r == 0 && git_index_write_tree_to(&id, h->index, h->repo) < 0)
        r = cay_history_fail(err, "the index cannot be kept");
    if (r == 0 && tells(h, &id, old, note)) {
        if (git_tree_lookup(&tree, h->repo, &id) < 0)
            r = cay_history_fail(err, "a version cannot be read");
        if (r == 0)
            r = finish(h, note, old, tree, commit_out, err);
        *made = r == 0;
    }
    git_tree_free(old);
    git_tree_free(tree);
    if (r == 0 && !*made)
        r = cay_pack_end(h->pack, err); /* nothing is new: then there is nothing in it */
    h->taken_bytes = 0;
    cay_history_write_bytes(h);
    return r;
}
