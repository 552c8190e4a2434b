/* SPDX-License-Identifier: Apache-2.0 */
/* What differs between two versions; and the way from what is there now to one of them. */
#include "history/inside.h"
#include <string.h>

static void free_tree(git_tree **tree)
{
    git_tree_free(*tree);
}

static void free_diff(git_diff **diff)
{
    git_diff_free(*diff);
}

static void free_patch(git_patch **patch)
{
    git_patch_free(*patch);
}

#define AUTO_TREE CAY_CLEANUP(free_tree)
#define AUTO_DIFF CAY_CLEANUP(free_diff)
#define AUTO_PATCH CAY_CLEANUP(free_patch)

/* As git prints it, without its remark on a last line that has no end. */
static int on_line(const git_diff_delta *delta, const git_diff_hunk *hunk,
                   const git_diff_line *line, void *arg)
{
    struct cay_buf *out = arg;
    (void)delta, (void)hunk;
    if (line->origin == GIT_DIFF_LINE_CONTEXT_EOFNL || line->origin == GIT_DIFF_LINE_ADD_EOFNL ||
        line->origin == GIT_DIFF_LINE_DEL_EOFNL)
        return 0;
    if (strchr(" +-", line->origin))
        cay_buf_addc(out, line->origin);
    cay_buf_add(out, line->content, line->content_len);
    if (line->content_len == 0 || line->content[line->content_len - 1] != '\n')
        cay_buf_addc(out, '\n');
    return 0;
}

static int tell_patch(git_diff *diff, size_t i, size_t *left, cay_history_tell tell, void *arg,
                      struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    CAY_AUTO_BUF struct cay_buf text = {0};
    AUTO_PATCH git_patch *patch = NULL;
    const git_diff_delta *delta = git_diff_get_delta(diff, i);
    const char *path = cay_history_quote(&a, delta->new_file.path, strlen(delta->new_file.path));
    if (*left > 0 && (git_patch_from_diff(&patch, diff, i) < 0 ||
                      (patch && git_patch_print(patch, on_line, &text) < 0)))
        return cay_history_fail(err, "a diff cannot be made");
    if (*left == 0 || text.len > *left) {
        text.len = 0;
        cay_buf_addf(&text, "diff --git a/%s b/%s\n(left out: the diff is too large)\n", path,
                     path);
    }
    *left -= text.len < *left ? text.len : *left;
    tell(arg, path, text.data ? text.data : "", text.len);
    return 0;
}

static int find_end(struct cay_history *h, const char *id, const char *field, bool first,
                    git_oid *out, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_versions all;
    if (id)
        return cay_history_find(h, id, field, out, err);
    int r = cay_history_list(h, &a, &all, err);
    if (r < 0)
        return r;
    if (all.count == 0)
        return cay_fail_as(err, CAY_ERR_NOT_FOUND, "NO_HISTORY", "there is no version yet");
    const struct cay_version *v = &all.at[first ? all.count - 1 : 0];
    return git_oid_fromstr(out, v->commit) < 0 ? cay_history_fail(err, "a version has no commit")
                                               : 0;
}

int cay_history_diff(struct cay_history *h, const struct cay_history_ask *ask,
                     cay_history_tell tell, void *arg, struct cay_error *err)
{
    AUTO_TREE git_tree *from = NULL;
    AUTO_TREE git_tree *to = NULL;
    AUTO_DIFF git_diff *diff = NULL;
    git_diff_options how = GIT_DIFF_OPTIONS_INIT;
    git_oid ends[2];
    size_t left = CAY_HISTORY_DIFF_BYTES;
    int r = find_end(h, ask->from, ask->from_field, true, &ends[0], err);
    if (r == 0)
        r = find_end(h, ask->to, ask->to_field, false, &ends[1], err);
    if (r == 0)
        r = cay_history_tree(h, &ends[0], &from, err);
    if (r == 0)
        r = cay_history_tree(h, &ends[1], &to, err);
    if (r == 0 && git_diff_tree_to_tree(&diff, h->repo, from, to, &how) < 0)
        r = cay_history_fail(err, "a diff cannot be made");
    for (size_t i = 0, n = r == 0 ? git_diff_num_deltas(diff) : 0; r == 0 && i < n; i++)
        r = tell_patch(diff, i, &left, tell, arg, err);
    return r;
}

/* ---- the way back ---- */

static int put_back(struct cay_history *h, const git_diff_file *file, cay_history_do step,
                    void *arg, struct cay_error *err)
{
    git_blob *blob = NULL;
    if (git_blob_lookup(&blob, h->repo, &file->id) < 0)
        return cay_history_fail(err, "a file of that version cannot be read");
    int r = step(arg, file->path, file->mode, git_blob_rawcontent(blob),
                 (size_t)git_blob_rawsize(blob), err);
    git_blob_free(blob);
    return r;
}

static bool has_path(git_tree *tree, const char *path)
{
    git_tree_entry *entry = NULL;
    bool has = git_tree_entry_bypath(&entry, tree, path) == 0;
    git_tree_entry_free(entry);
    return has;
}

/* From the newest version to this one; of one path alone unless that is NULL. */
static int compare_with(struct cay_history *h, const char *id, const char *id_field,
                        const char *path, git_diff **out, struct cay_error *err)
{
    AUTO_TREE git_tree *to = NULL;
    AUTO_TREE git_tree *now = NULL;
    git_diff_options how = GIT_DIFF_OPTIONS_INIT;
    git_oid commit;
    char *only = (char *)(uintptr_t)path;
    if (path) {
        how.pathspec = (git_strarray){&only, 1};
        how.flags |= GIT_DIFF_DISABLE_PATHSPEC_MATCH; /* a name, not a pattern */
    }
    int r = cay_history_find(h, id, id_field, &commit, err);
    if (r == 0)
        r = cay_history_tree(h, &commit, &to, err);
    if (r == 0)
        r = cay_history_tree(h, h->has_head ? &h->head : NULL, &now, err);
    if (r == 0 && git_diff_tree_to_tree(out, h->repo, now, to, &how) < 0)
        r = cay_history_fail(err, "a version cannot be compared");
    if (r == 0 && path && !has_path(to, path)) {
        (void)cay_fail_as(err, CAY_ERR_NOT_FOUND, "NOT_FOUND", "that version has no such file");
        cay_str_copy(err->field, sizeof err->field, "path");
        return CAY_ERR_NOT_FOUND;
    }
    return r;
}

int cay_history_back(struct cay_history *h, const char *id, const char *id_field, const char *path,
                     cay_history_do step, void *arg, struct cay_error *err)
{
    AUTO_DIFF git_diff *diff = NULL;
    int r = compare_with(h, id, id_field, path, &diff, err);
    size_t n = r == 0 ? git_diff_num_deltas(diff) : 0;
    /* What goes makes room first: a file may stand where a directory must be. */
    for (size_t i = 0; r == 0 && i < n; i++) {
        const git_diff_delta *d = git_diff_get_delta(diff, i);
        if (d->status == GIT_DELTA_DELETED)
            r = step(arg, d->old_file.path, 1, NULL, 0, err); /* CAY_FILE_GONE */
    }
    for (size_t i = 0; r == 0 && i < n; i++) {
        const git_diff_delta *d = git_diff_get_delta(diff, i);
        if (d->status != GIT_DELTA_DELETED)
            r = put_back(h, &d->new_file, step, arg, err);
    }
    return r;
}

int cay_history_went_back(struct cay_history *h, const char *id, const char *id_field,
                          const char *path, struct cay_error *err)
{
    AUTO_DIFF git_diff *diff = NULL;
    int r = compare_with(h, id, id_field, path, &diff, err);
    for (size_t i = 0, n = r == 0 ? git_diff_num_deltas(diff) : 0; r == 0 && i < n; i++) {
        const git_diff_delta *d = git_diff_get_delta(diff, i);
        const git_index_entry e = {
            .path = d->new_file.path, .mode = d->new_file.mode, .id = d->new_file.id};
        if ((d->status == GIT_DELTA_DELETED ? git_index_remove(h->index, d->old_file.path, 0)
                                            : git_index_add(h->index, &e)) < 0)
            r = cay_history_fail(err, "a version cannot be taken over");
    }
    return r;
}
