/* SPDX-License-Identifier: Apache-2.0 */
/* Where a history lies, and its journal. */
#include "base/json.h"
#include "base/path.h"
#include "history/inside.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define JOURNAL_MAX (256 * CAY_MIB)
#define BYTES "bytes" /* how many there are */

static pthread_once_t once = PTHREAD_ONCE_INIT;

/* No configuration of this machine or of anybody's home has a say in here. */
static void begin_libgit2(void)
{
    static const git_config_level_t levels[] = {GIT_CONFIG_LEVEL_SYSTEM, GIT_CONFIG_LEVEL_XDG,
                                                GIT_CONFIG_LEVEL_GLOBAL,
                                                GIT_CONFIG_LEVEL_PROGRAMDATA};
    (void)git_libgit2_init(); /* counts how often; cannot fail in a way that matters before use */
    for (size_t i = 0; i < CAY_COUNT(levels); i++)
        (void)git_libgit2_opts(GIT_OPT_SET_SEARCH_PATH, levels[i], "");
    (void)git_libgit2_opts(GIT_OPT_ENABLE_STRICT_OBJECT_CREATION, 0);
    (void)git_libgit2_opts(GIT_OPT_ENABLE_STRICT_HASH_VERIFICATION, 0);
}

int cay_history_fail(struct cay_error *err, const char *what)
{
    const git_error *said = git_error_last();
    (void)cay_fail_as(err, CAY_ERR_INTERNAL, "HISTORY_ERROR", "%s", what);
    cay_str_copy(err->cause, sizeof err->cause, said && said->message ? said->message : "");
    return CAY_ERR_INTERNAL;
}

int cay_index_write(struct cay_history *h, struct cay_error *err)
{
    if (git_index_write(h->index) < 0)
        return cay_history_fail(err, "the index cannot be written");
    h->unwritten = 0;
    return 0;
}

/* What was written counts before it is packed, and also when nothing came of it: so it is measured
 * before anybody is refused. Without its file it is measured when somebody asks. */
static void read_bytes(struct cay_history *h)
{
    CAY_AUTO_FD int fd = openat(h->fd, BYTES, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (read(fd, &h->bytes, sizeof h->bytes) != sizeof h->bytes)
        h->bytes = cay_history_measure(h);
}

void cay_history_write_bytes(const struct cay_history *h)
{
    CAY_AUTO_FD int fd = openat(h->fd, BYTES, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    (void)!write(fd, &h->bytes, sizeof h->bytes); /* else it is a little less */
}

bool cay_history_is_full(struct cay_history *h, uint64_t bytes)
{
    struct stat st;
    if (fstat(h->journal_fd, &st) == 0 && st.st_size > CAY_HISTORY_JOURNAL_BYTES)
        return true;
    if (h->bytes > bytes && h->full_at != bytes) {
        h->bytes = cay_history_measure(h);
        h->full_at = h->bytes > bytes ? bytes : 0;
    }
    return h->bytes > bytes;
}

void cay_history_close(struct cay_history *h, bool whole)
{
    struct cay_error ignored; /* then more is read again */
    if (!h)
        return;
    if (whole && h->unwritten > 0)
        (void)cay_index_write(h, &ignored);
    if (h->index) /* it was open */
        cay_history_write_bytes(h);
    git_index_free(h->index);
    git_repository_free(h->repo);
    git_odb_free(h->odb);
    cay_close_fd(&h->journal_fd);
    cay_close_fd(&h->fd);
    free(h);
}

size_t cay_history_files(const struct cay_history *h)
{
    return git_index_entrycount(h->index);
}

static void close_it(struct cay_history **h)
{
    cay_history_close(*h, false);
}

/* Looks like a repository to git, for whoever is curious on the server's machine. */
static int make(int fd, struct cay_error *err)
{
    static const char head[] = "ref: refs/heads/main\n";
    static const char config[] = "[core]\n\trepositoryformatversion = 0\n\tbare = true\n"
                                 "\tbigFileThreshold = 65536\n"; /* no deltas of larger ones */
    static const char *const dirs[] = {"objects", "objects/pack", "objects/info", "refs",
                                       "refs/heads"};
    for (size_t i = 0; i < CAY_COUNT(dirs); i++)
        if (mkdirat(fd, dirs[i], 0700) < 0 && errno != EEXIST)
            return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot begin a history");
    int r = cay_path_replace(fd, "config", config, strlen(config), 0600, err);
    return r < 0 ? r : cay_path_replace(fd, "HEAD", head, strlen(head), 0600, err);
}

/* It is worth a file's reading and no more: one that cannot be read is begun anew, and so is a lock
 * of one who was killed: whoever opens a history has it alone. */
static int open_index(struct cay_history *h)
{
    char path[80];
    (void)snprintf(path, sizeof path, "%s/index", h->path);
    (void)unlinkat(h->fd, "index.lock", 0);
    int r = git_index_open(&h->index, path);
    if (r == 0)
        return 0;
    (void)unlinkat(h->fd, "index", 0);
    return git_index_open(&h->index, path);
}

/* The objects, without a repository around them: that would want to know its real path, which the
 * server may not be able to walk. */
static int open_objects(struct cay_history *h, struct cay_error *err)
{
    char path[80];
    git_odb_backend *backend = NULL;
    git_config *config = NULL;
    (void)snprintf(path, sizeof path, "%s/objects", h->path);
    int r = git_odb_new(&h->odb);
    if (r == 0)
        r = git_odb_backend_loose(&backend, path, 1, 0, 0700, 0600);
    if (r == 0)
        r = git_odb_add_backend(h->odb, backend, 1);
    if (r == 0)
        r = git_odb_backend_pack(&backend, path);
    if (r == 0)
        r = git_odb_add_backend(h->odb, backend, 2);
    if (r == 0)
        r = cay_pack_new(h);
    if (r == 0)
        r = git_repository_wrap_odb(&h->repo, h->odb);
    (void)snprintf(path, sizeof path, "%s/config", h->path);
    if (r == 0)
        r = git_config_open_ondisk(&config, path);
    if (r == 0)
        r = git_repository_set_config(h->repo, config);
    git_config_free(config);
    if (r == 0)
        r = open_index(h);
    return r < 0 ? cay_history_fail(err, "cannot open the history") : 0;
}

static int open_journal(struct cay_history *h, struct cay_error *err)
{
    h->journal_fd = openat(h->fd, "journal", O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (h->journal_fd < 0)
        return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot open a history's journal");
    return 0;
}

struct journal {
    const char *text;
    size_t len; /* of what was not read yet: the end comes first */
};
static int read_journal(struct cay_history *h, struct cay_arena *a, struct journal *out,
                        struct cay_error *err);
static bool next_version(struct cay_arena *a, struct journal *j, struct cay_version *out);

/* A power cut may have taken objects whose line is there: the newest version that is whole counts.
 */
static int find_head(struct cay_history *h, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct journal j;
    struct cay_version v;
    int r = read_journal(h, &a, &j, err);
    while (r == 0 && !h->has_head && next_version(&a, &j, &v)) {
        git_tree *tree = NULL;
        struct cay_error ignored;
        if (git_oid_fromstr(&h->head, v.commit) == 0)
            h->has_head = cay_history_tree(h, &h->head, &tree, &ignored) == 0;
        git_tree_free(tree);
    }
    return r;
}

/* An index that is older than the newest version gets what that has, and keeps what it knows. */
static int mend_index(struct cay_history *h, struct cay_error *err)
{
    git_tree *tree = NULL;
    git_oid id;
    if (!h->has_head)
        return 0;
    int r = cay_history_tree(h, &h->head, &tree, err);
    if (r == 0 &&
        (git_index_write_tree_to(&id, h->index, h->repo) < 0 ||
         (!git_oid_equal(&id, git_tree_id(tree)) && git_index_read_tree(h->index, tree) < 0)))
        r = cay_history_fail(err, "the index cannot be read");
    git_tree_free(tree);
    return r;
}

int cay_history_open(int dir_fd, const char *sandbox_id, bool make_it, struct cay_history **out,
                     struct cay_error *err)
{
    CAY_CLEANUP(close_it) struct cay_history *h = calloc(1, sizeof *h);
    if (!h)
        abort();
    (void)pthread_once(&once, begin_libgit2);
    h->fd = h->journal_fd = -1;
    if (!cay_id_is_sandbox(sandbox_id))
        return cay_fail(err, CAY_ERR_INVALID, "not a sandbox id");
    if (!make_it && faccessat(dir_fd, sandbox_id, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
        return cay_fail_as(err, CAY_ERR_NOT_FOUND, "NO_HISTORY",
                           "this sandbox keeps no history: make it with \"track\": \"workspace\"");
    int r = cay_path_open_dir(dir_fd, sandbox_id, 0700, &h->fd, err);
    if (r == 0)
        r = open_journal(h, err);
    struct stat st;
    if (r == 0 && fstatat(h->fd, "HEAD", &st, AT_SYMLINK_NOFOLLOW) < 0)
        r = make(h->fd, err);
    (void)snprintf(h->path, sizeof h->path, "/proc/self/fd/%d", h->fd);
    if (r == 0)
        r = open_objects(h, err);
    if (r == 0)
        read_bytes(h);
    if (r == 0)
        r = find_head(h, err);
    if (r == 0)
        r = mend_index(h, err);
    if (r == 0)
        *out = cay_take_ptr(&h);
    return r;
}

/* ---- the journal ---- */

static void put_strs(struct cay_json_writer *w, const char *key, const struct cay_strs *list)
{
    if (list->count == 0)
        return;
    cay_jw_array(w, key);
    for (size_t i = 0; i < list->count; i++)
        cay_jw_str(w, NULL, list->at[i]);
    cay_jw_array_end(w);
}

int cay_journal_add(struct cay_history *h, const struct cay_version *v, struct cay_error *err)
{
    CAY_AUTO_BUF struct cay_buf line = {0};
    struct cay_json_writer w = {.buf = &line};
    char ref[CAY_COMMIT_SIZE + 1];
    cay_jw_object(&w, NULL);
    cay_jw_str(&w, "id", v->id);
    cay_jw_str(&w, "commit", v->commit);
    cay_jw_str(&w, "message", v->message);
    cay_jw_int(&w, "time", v->time_ms);
    put_strs(&w, "files", &v->files);
    cay_jw_int(&w, "fileCount", v->file_count);
    put_strs(&w, "leftOut", &v->left_out);
    cay_jw_int(&w, "leftOutCount", v->left_out_count);
    cay_jw_object_end(&w);
    cay_buf_addc(&line, '\n');
    if (write(h->journal_fd, line.data, line.len) != (ssize_t)line.len)
        return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot write a history's journal");
    (void)snprintf(ref, sizeof ref, "%s\n", v->commit);
    CAY_AUTO_FD int fd = openat(h->fd, "refs/heads/main", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0)
        (void)!write(fd, ref, strlen(ref)); /* the journal counts */
    return 0;
}

static struct cay_strs get_strs(struct cay_arena *a, const struct cay_json *line, const char *key)
{
    const struct cay_json *list = cay_json_get(line, key);
    struct cay_strs out = {0};
    for (const struct cay_json *at = list ? list->first : NULL; at; at = at->next)
        cay_strs_push(a, &out, at->text ? at->text : "");
    return out;
}

static bool read_line(struct cay_arena *a, const char *text, size_t len, struct cay_version *out)
{
    const struct cay_json *line;
    struct cay_error ignored; /* a line that is none never was */
    if (cay_json_parse(a, text, len, &line, &ignored) < 0 || line->kind != CAY_JSON_OBJECT)
        return false;
    *out = (struct cay_version){
        .id = cay_json_get_str(line, "id", CAY_HISTORY_NO_ID),
        .commit = cay_json_get_str(line, "commit", ""),
        .message = cay_json_get_str(line, "message", ""),
        .time_ms = cay_json_get_int(line, "time", 0),
        .files = get_strs(a, line, "files"),
        .left_out = get_strs(a, line, "leftOut"),
        .file_count = cay_json_get_int(line, "fileCount", 0),
        .left_out_count = cay_json_get_int(line, "leftOutCount", 0),
    };
    return strlen(out->commit) == CAY_COMMIT_SIZE - 1;
}

/* A last line without its end is cut off, so that the next does not go on behind it. */
static int read_journal(struct cay_history *h, struct cay_arena *a, struct journal *out,
                        struct cay_error *err)
{
    char *text;
    size_t all, len;
    int r = cay_path_read(h->fd, "journal", JOURNAL_MAX, a, &text, &all, err);
    if (r < 0)
        return r;
    for (len = all; len > 0 && text[len - 1] != '\n';)
        len--;
    if (len < all)
        (void)!ftruncate(h->journal_fd, (off_t)len); /* else it is read again as it is now */
    *out = (struct journal){text, len};
    return 0;
}

/* Newest first; false behind the last. */
static bool next_version(struct cay_arena *a, struct journal *j, struct cay_version *out)
{
    while (j->len > 0) {
        const char *before = memrchr(j->text, '\n', j->len - 1);
        size_t at = before ? (size_t)(before - j->text) + 1 : 0, len = j->len - 1 - at;
        j->len = at;
        if (read_line(a, j->text + at, len, out))
            return true;
    }
    return false;
}

int cay_history_list(struct cay_history *h, struct cay_arena *a, struct cay_versions *out,
                     struct cay_error *err)
{
    struct journal j;
    size_t lines = 0;
    int r = read_journal(h, a, &j, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < j.len; i++)
        lines += j.text[i] == '\n';
    *out = (struct cay_versions){.at = cay_arena_alloc(a, (lines + 1) * sizeof *out->at)};
    while (next_version(a, &j, &out->at[out->count]))
        out->count++;
    return 0;
}

int cay_history_has(struct cay_history *h, const char *id, const char *field, struct cay_error *err)
{
    git_oid unused;
    return cay_history_find(h, id, field, &unused, err);
}

int cay_history_find(struct cay_history *h, const char *id, const char *field, git_oid *out,
                     struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct journal j;
    struct cay_version v;
    int r = read_journal(h, &a, &j, err);
    bool named = strcmp(id, CAY_HISTORY_NO_ID) != 0;
    while (r == 0 && named && next_version(&a, &j, &v))
        if (strcmp(v.id, id) == 0 || strcmp(v.commit, id) == 0)
            return git_oid_fromstr(out, v.commit) < 0
                       ? cay_history_fail(err, "a version has no commit")
                       : 0;
    if (r < 0)
        return r;
    (void)cay_fail_as(err, CAY_ERR_NOT_FOUND, "EXECUTION_NOT_FOUND",
                      "no version of this sandbox has this id");
    cay_str_copy(err->field, sizeof err->field, field);
    return CAY_ERR_NOT_FOUND;
}

int cay_history_tree(struct cay_history *h, const git_oid *commit, git_tree **out,
                     struct cay_error *err)
{
    git_commit *found = NULL;
    *out = NULL;
    if (!commit)
        return 0;
    int r = git_commit_lookup(&found, h->repo, commit);
    if (r == 0)
        r = git_commit_tree(out, found);
    git_commit_free(found);
    return r < 0 ? cay_history_fail(err, "a version cannot be read") : 0;
}

const char *cay_history_quote(struct cay_arena *a, const char *path, size_t len)
{
    static const char plain[] = "abtnvfr";
    CAY_AUTO_BUF struct cay_buf out = {0};
    bool odd = !cay_str_is_utf8(path, len);
    for (size_t i = 0; i < len && !odd; i++)
        odd = (unsigned char)path[i] < 0x20 || path[i] == 0x7f || strchr("\"\\", path[i]);
    if (!odd)
        return cay_arena_strndup(a, path, len);
    cay_buf_addc(&out, '"');
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)path[i];
        if (c >= 7 && c <= 13)
            cay_buf_addf(&out, "\\%c", plain[c - 7]);
        else if (c == '"' || c == '\\')
            cay_buf_addf(&out, "\\%c", c);
        else if (c < 0x20 || c >= 0x7f)
            cay_buf_addf(&out, "\\%03o", c);
        else
            cay_buf_addc(&out, (char)c);
    }
    cay_buf_addc(&out, '"');
    return cay_arena_strndup(a, out.data, out.len);
}
