/* SPDX-License-Identifier: Apache-2.0 */
/* Two processes. The outer one is root: it makes a directory, starts the inner one, marks what that
 * one may not mark, brings all of it to the disk and gives it its name. The inner one parses: it is
 * nobody on the host (a user namespace with ids of its own, which a mount of that one directory
 * maps to those on the disk), has no network, no name but those in that directory, no descriptor
 * but the file, and of system calls only those that files are made with.
 *
 * A crash leaves a directory in tmp/ that nobody holds the lock of, and the next engine removes
 * it. */
#include "engine/layer.h"
#include "base/beneath.h"
#include "base/buf.h"
#include "base/crash.h"
#include "base/id.h"
#include "base/path.h"
#include "base/str.h"
#include "engine/confine.h"
#include "engine/dispatcher.h"
#include "engine/implied.h"
#include "engine/shelf.h"
#include "engine/unpack.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#define TEMP_PREFIX "layer-"
#define LOCK_PREFIX "lock-"
#define TREE "tree"

/* What the inner one has open. */
enum { RESULT_FD, BLOB_FD, MARKS_FD, PROGRESS_FD, INNER_FDS };

/* What the inner one says. */
struct verdict {
    int code;
    char name[32]; /* of the error */
    struct cay_error err;
    struct cay_blob_sums sums;
    struct cay_unpack_counts counts;
};

/* ---- the inner one ---- */

/* Only what is listed stays open, at fixed numbers; a missing one stays missing. */
static void arrange(const int from[INNER_FDS])
{
    int high[INNER_FDS];
    for (int i = 0; i < INNER_FDS; i++)
        high[i] = from[i] < 0 ? -1 : fcntl(from[i], F_DUPFD_CLOEXEC, 100);
    for (int i = 0; i < INNER_FDS; i++) {
        (void)close(i);
        if (high[i] >= 0)
            (void)dup2(high[i], i);
    }
    (void)close_range(INNER_FDS, ~0U, 0);
}

static void CAY_NORETURN inner(const struct cay_berth *berth, const char *temp,
                               const struct cay_engine_layer *layer, const int fds[INNER_FDS],
                               pid_t parent)
{
    static struct verdict v;
    char path[128];
    int root = -1;
    (void)prctl(PR_SET_NAME, "cay-unpack");
    (void)umask(0);
    snprintf(path, sizeof path, CAY_STAGE_IMAGES "/tmp/%s/" TREE, temp);
    v.code = cay_confine_enter(path, berth, parent, &v.err);
    arrange(fds);
    struct cay_blob *in =
        cay_blob_new(BLOB_FD, layer->offset, layer->size, fds[PROGRESS_FD] < 0 ? -1 : PROGRESS_FD);
    if (v.code == 0 && (root = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
        v.code = cay_fail_errno(&v.err, CAY_ERR_PROVIDER, "cannot open a new layer");
    if (v.code == 0)
        v.code = cay_confine_close(&v.err);
    if (v.code == 0)
        v.code = cay_unpack(in, root, MARKS_FD, &v.counts, &v.err);
    if (v.code == 0)
        v.code = cay_blob_finish(in, &v.sums, &v.err);
    if (v.code < 0 && v.err.name)
        cay_str_copy(v.name, sizeof v.name, v.err.name);
    v.err.name = NULL; /* a pointer of this process */
    (void)!write(RESULT_FD, &v, sizeof v);
    _exit(0);
}

/* ---- the outer one ---- */

static const char *error_name(const char *name)
{
    static const char *const known[] = {"BAD_LAYER", "LAYER_TOO_LARGE", "IMAGE_STORE_FULL"};
    for (size_t i = 0; i < CAY_COUNT(known); i++)
        if (strcmp(known[i], name) == 0)
            return known[i];
    return NULL;
}

static int judge(struct verdict *v, struct cay_error *err)
{
    if (v->code == 0)
        return 0;
    /* A stranger's words by now: whatever they are, they end. */
    v->name[sizeof v->name - 1] = v->err.msg[sizeof v->err.msg - 1] = 0;
    v->err.cause[sizeof v->err.cause - 1] = v->err.field[sizeof v->err.field - 1] = 0;
    enum cay_err code =
        v->code < 0 && v->code >= CAY_ERR_LAST ? (enum cay_err)v->code : CAY_ERR_PROVIDER;
    int r = cay_fail_as(err, code, error_name(v->name), "%s", v->err.msg);
    cay_str_copy(err->cause, sizeof err->cause, v->err.cause);
    return r;
}

static int run_inner(const struct cay_berth *berth, const char *temp,
                     const struct cay_engine_layer *layer, int fd, int progress_fd, int marks_fd,
                     struct verdict *out, struct cay_error *err)
{
    int pipe_fds[2], status = 0;
    pid_t self = getpid();
    if (pipe2(pipe_fds, O_CLOEXEC) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot make a pipe");
    const int fds[INNER_FDS] = {pipe_fds[1], fd, marks_fd, progress_fd};
    pid_t pid = fork();
    if (pid == 0)
        inner(berth, temp, layer, fds, self);
    (void)close(pipe_fds[1]);
    CAY_AUTO_FD int from = pipe_fds[0];
    if (pid < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot fork to unpack");
    ssize_t n = read(from, out, sizeof *out);
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, &status, 0);
    if (n != sizeof *out)
        return cay_fail_as(err, CAY_ERR_UNPROCESSABLE, "BAD_LAYER",
                           "the layer ended the process that unpacked it (signal %d)",
                           WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    return judge(out, err);
}

/* Paths come from the inner one and may be anything: each is looked up without following a link. */
static int mark_one(int tree, char mark, const char *path, struct cay_error *err)
{
    CAY_AUTO_FD int fd =
        cay_open_beneath(tree, *path ? path : ".", O_RDONLY | O_DIRECTORY | O_NOFOLLOW,
                         RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
    if (mark != CAY_UNPACK_OPAQUE) {
        if (fd >= 0) /* or behind a link of the layer's own, or gone since */
            cay_implied_mark(fd, mark == CAY_UNPACK_IMPLIED);
        return 0;
    }
    if (fd < 0)
        return cay_fail_as(err, CAY_ERR_UNPROCESSABLE, "BAD_LAYER",
                           "an opaque directory is none: %.100s", path);
    if (fsetxattr(fd, "trusted.overlay.opaque", "y", 1, 0) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot mark an opaque directory");
    return 0;
}

static int mark(int tree, int marks_fd, int images_fd, const char *diff_id, struct cay_error *err)
{
    struct stat st;
    CAY_AUTO_BUF struct cay_buf implied = {0};
    if (fstat(marks_fd, &st) < 0 || st.st_size > CAY_LAYER_MARK_BYTES)
        return cay_fail_as(err, CAY_ERR_TOO_LARGE, "LAYER_TOO_LARGE",
                           "the layer has too many directories to mark");
    CAY_AUTO_FREE char *text = calloc(1, (size_t)st.st_size + 2);
    if (!text || pread(marks_fd, text, (size_t)st.st_size, 0) != st.st_size)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot read the marks of a layer");
    const char *end = text + st.st_size;
    int r = 0;
    for (const char *at = text; r == 0 && at < end; at += strlen(at) + 1)
        r = *at ? mark_one(tree, *at, at + 1, err) : 0;
    for (const char *at = text; r == 0 && at < end; at += strlen(at) + 1)
        if (*at == CAY_UNPACK_IMPLIED)
            cay_implied_note(tree, at + 1, &implied);
    return r < 0 ? r : cay_implied_write(images_fd, diff_id, &implied, err);
}

struct temp {
    int images_fd, dir; /* locked */
    char name[32];
};

static void drop_temp(struct temp *t)
{
    char path[64];
    if (t->dir < 0)
        return;
    snprintf(path, sizeof path, "tmp/%s", t->name);
    cay_trash_remove(t->images_fd, path);
    cay_close_fd(&t->dir);
}

/* Whoever sweeps takes what is not locked: one that came between our two steps has removed it. */
static int make_temp(struct temp *t, struct cay_error *err)
{
    char suffix[17], path[64];
    struct stat st;
    for (int tries = 0; tries < 16; tries++) {
        cay_id_hex(suffix, 16);
        snprintf(t->name, sizeof t->name, TEMP_PREFIX "%s", suffix);
        snprintf(path, sizeof path, "tmp/%s", t->name);
        int r = cay_path_open_dir(t->images_fd, path, 0700, &t->dir, err);
        if (r < 0)
            return r;
        if (flock(t->dir, LOCK_EX | LOCK_NB) == 0 && mkdirat(t->dir, TREE, 0755) == 0 &&
            fstat(t->dir, &st) == 0 && st.st_nlink > 0)
            return 0;
        cay_close_fd(&t->dir);
    }
    return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot make room for a layer");
}

static int finish(struct temp *t, const struct cay_engine_layer *layer, const struct verdict *v,
                  struct cay_error *err)
{
    char path[96];
    struct cay_shelf_meta meta = {.bytes = v->counts.bytes, .entries = v->counts.entries};
    snprintf(path, sizeof path, "layers/%s", layer->diff_id);
    int r = cay_shelf_write_meta(t->images_fd, layer->diff_id, &meta, err);
    if (r < 0)
        return r;
    cay_crash_point("layer-unpacked");
    /* All of it first: a name that survives a power cut must stand for files that do. */
    if (syncfs(t->dir) < 0 || renameat2(t->dir, TREE, t->images_fd, path, RENAME_NOREPLACE) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot place a layer");
    cay_crash_point("layer-named");
    CAY_AUTO_FD int layers = openat(t->images_fd, "layers", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (layers < 0 || fsync(layers) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot write a layer to the disk");
    return 0;
}

/* One that was removed while we waited for it is nobody's lock any more. */
static int lock_layer(int images_fd, const char *diff_id, int how, int *fd_out,
                      struct cay_error *err)
{
    char path[96];
    struct stat st;
    snprintf(path, sizeof path, "tmp/" LOCK_PREFIX "%s", diff_id);
    for (;;) {
        CAY_AUTO_FD int fd =
            openat(images_fd, path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0 || flock(fd, how) < 0 || fstat(fd, &st) < 0)
            return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot lock a layer");
        if (st.st_nlink > 0) {
            *fd_out = cay_take_fd(&fd);
            return 0;
        }
    }
}

static void remove_lock(int images_fd, const char *diff_id)
{
    char path[96];
    snprintf(path, sizeof path, "tmp/" LOCK_PREFIX "%s", diff_id);
    (void)unlinkat(images_fd, path, 0); /* we have it: the next one makes its own */
}

static int unpack_locked(const struct cay_engine *e, const struct cay_berth *berth,
                         const struct cay_engine_layer *layer, int fd, int progress_fd,
                         struct cay_engine_unpacked *out, struct cay_error *err)
{
    static struct verdict v;
    CAY_CLEANUP(drop_temp) struct temp t = {.images_fd = e->images_fd, .dir = -1};
    CAY_AUTO_FD int marks = memfd_create("marks", MFD_CLOEXEC);
    int r = marks < 0 ? cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot make a memfd")
                      : make_temp(&t, err);
    if (r == 0)
        r = run_inner(berth, t.name, layer, fd, progress_fd, marks, &v, err);
    if (r == 0)
        r = cay_blob_verify(&v.sums, layer->digest, layer->diff_id, layer->size, err);
    CAY_AUTO_FD int tree =
        r < 0 ? -1 : openat(t.dir, TREE, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (r == 0)
        r = tree < 0 ? cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot open a new layer")
                     : mark(tree, marks, e->images_fd, layer->diff_id, err);
    if (r == 0)
        r = finish(&t, layer, &v, err);
    if (r == 0)
        *out = (struct cay_engine_unpacked){.bytes = v.counts.bytes, .entries = v.counts.entries};
    return r;
}

int cay_layer_unpack(const struct cay_engine *e, const struct cay_berth *berth,
                     const struct cay_engine_layer *layer, int fd, int progress_fd,
                     struct cay_engine_unpacked *out, struct cay_error *err)
{
    CAY_AUTO_FD int lock = -1;
    int r = lock_layer(e->images_fd, layer->diff_id, LOCK_EX, &lock, err);
    if (r < 0)
        return r;
    if (cay_shelf_has_layer(e->images_fd, layer->diff_id)) {
        struct cay_shelf_meta meta;
        cay_shelf_read_meta(e->images_fd, layer->diff_id, &meta);
        *out = (struct cay_engine_unpacked){1, meta.bytes, meta.entries};
    } else {
        r = unpack_locked(e, berth, layer, fd, progress_fd, out, err);
    }
    remove_lock(e->images_fd, layer->diff_id);
    return r;
}

/* Builds have theirs beside, and may be called anything. */
static bool is_named(const char *name, const char *prefix, size_t digits)
{
    size_t len = strlen(prefix);
    return strncmp(name, prefix, len) == 0 && strlen(name) == len + digits &&
           strspn(name + len, "0123456789abcdef") == digits;
}

/* What tells of layers that are not there: they were thrown away, or whoever brought one died
 * before it had its name. Who is bringing one has the lock. */
static void sweep_meta(int images_fd)
{
    int fd = openat(images_fd, "meta", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        char id[65];
        struct cay_error ignored; /* somebody brings it */
        CAY_AUTO_FD int lock = -1;
        cay_str_copy(id, sizeof id, entry->d_name);
        if (!cay_shelf_is_digest(id) || cay_shelf_has_layer(images_fd, id) ||
            lock_layer(images_fd, id, LOCK_EX | LOCK_NB, &lock, &ignored) < 0)
            continue;
        if (!cay_shelf_has_layer(images_fd, id))
            (void)unlinkat(fd, entry->d_name, 0); /* the next time, then */
        remove_lock(images_fd, id);
    }
    if (dir)
        closedir(dir);
}

void cay_layer_sweep(int images_fd)
{
    int fd = openat(images_fd, "tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        bool temp = is_named(entry->d_name, TEMP_PREFIX, 16);
        bool lock = is_named(entry->d_name, LOCK_PREFIX, 64);
        if (!temp && !lock)
            continue;
        struct stat st;
        CAY_AUTO_FD int at = openat(fd, entry->d_name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        /* One that was removed meanwhile may have made room for another of that name. */
        if (at < 0 || flock(at, LOCK_EX | LOCK_NB) < 0 || fstat(at, &st) < 0 || st.st_nlink == 0)
            continue;
        if (temp)
            cay_trash_remove(fd, entry->d_name);
        else
            (void)unlinkat(fd, entry->d_name, 0); /* held, so nobody else has it */
    }
    if (dir)
        closedir(dir);
    sweep_meta(images_fd);
}
