/* SPDX-License-Identifier: Apache-2.0 */
/* What nobody needs: layers that no name, no sandbox and no snapshot, of any server that shares the
 * store, is made of. Under the store's lock it is only moved out of sight; removing takes its time
 * afterwards. */
#include "base/buf.h"
#include "base/id.h"
#include "base/path.h"
#include "engine/dispatcher.h"
#include "engine/layer.h"
#include "engine/shelf.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#define ID_SIZE 65
#define HALF_S 3600     /* after which nobody is at something half made any more */
#define NOT_HERE "data" /* beside a server's uses */

struct needed {
    struct cay_buf layers; /* ID_SIZE each */
    struct cay_buf fits;   /* the names of fitting layers, with their NULs */
};

static void done(struct needed *n)
{
    cay_buf_done(&n->layers);
    cay_buf_done(&n->fits);
}

static void need(void *arg, const struct cay_image *image, const char *text)
{
    struct needed *n = arg;
    (void)text;
    for (size_t i = 0; i < image->layers.count; i++) {
        char id[ID_SIZE] = "";
        cay_str_copy(id, sizeof id, image->layers.at[i]);
        cay_buf_add(&n->layers, id, sizeof id);
    }
    cay_buf_add(&n->fits, image->fit, strlen(image->fit) + 1);
}

static int compare(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* Up to its version, which may have changed while a sandbox has the old one. */
static bool is_same_fit(const char *a, const char *b)
{
    const char *end = strchr(a, '-');
    end = end ? strchr(end + 1, '-') : NULL;
    return end && strncmp(a, b, (size_t)(end - a) + 1) == 0;
}

static bool needs_fit(const struct needed *n, const char *name)
{
    for (size_t at = 0; at < n->fits.len; at += strlen(n->fits.data + at) + 1)
        if (is_same_fit(n->fits.data + at, name))
            return true;
    return false;
}

static DIR *open_list(int at, const char *path)
{
    int fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir)
        cay_close_fd(&fd);
    return dir;
}

/* Every text in a directory. One that cannot be read stops everything: it may need something. */
static int need_texts(int at, const char *path, struct needed *n, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    int r = 0;
    DIR *dir = open_list(at, path);
    if (!dir)
        return errno == ENOENT ? 0 : cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot read %s", path);
    for (struct dirent *e; r == 0 && (e = readdir(dir)); cay_arena_reset(&a)) {
        char *text;
        struct cay_image image;
        if (e->d_name[0] == '.' || strcmp(e->d_name, NOT_HERE) == 0)
            continue;
        r = cay_path_read(dirfd(dir), e->d_name, CAY_MAX_IMAGE_TEXT, &a, &text, NULL, err);
        if (r == CAY_ERR_NOT_FOUND) {
            r = 0; /* gone meanwhile */
            continue;
        }
        if (r == 0)
            r = cay_image_parse(&a, text, &image, err);
        if (r == 0)
            need(n, &image, text);
    }
    closedir(dir);
    return r;
}

static int need_others(const struct cay_engine *e, struct needed *n, struct cay_error *err)
{
    int r = 0;
    DIR *dir = open_list(e->images_fd, "uses");
    if (!dir && errno != ENOENT)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot read who else uses the images");
    for (struct dirent *entry; r == 0 && dir && (entry = readdir(dir));) {
        char path[288];
        if (entry->d_name[0] == '.' || strcmp(entry->d_name, e->instance) == 0)
            continue; /* ours are counted, not believed */
        snprintf(path, sizeof path, "uses/%s", entry->d_name);
        r = need_texts(e->images_fd, path, n, err);
    }
    if (dir)
        closedir(dir);
    return r;
}

/* ---- our own uses ---- */

struct uses {
    const struct cay_engine *engine;
    struct cay_buf keys; /* with their NULs */
};

static void write_use(void *arg, const struct cay_image *image, const char *text)
{
    struct uses *u = arg;
    char key[CAY_SHELF_KEY_SIZE];
    struct cay_error ignored; /* written again at the next create */
    (void)cay_shelf_use(u->engine, image, text, &ignored);
    cay_shelf_key(image, key);
    cay_buf_add(&u->keys, key, strlen(key) + 1);
}

static bool is_key(const struct cay_buf *keys, const char *name)
{
    const char *end = keys->data + keys->len;
    for (const char *at = keys->data; at < end; at += strlen(at) + 1)
        if (strcmp(at, name) == 0)
            return true;
    return false;
}

/* First what there is, then away with what there is not: at no moment another server, should we
 * die, finds less than we use. Where not all can be read, none goes: one too many keeps a layer.
 * Only who has the lock alone takes away: a create writes down its use before it has a tree. */
static void renew_uses(const struct cay_engine *e, bool alone)
{
    char path[64];
    struct cay_error ignored;
    struct uses u = {.engine = e};
    snprintf(path, sizeof path, "uses/%s", e->instance);
    bool all = cay_shelf_each_use(e, write_use, &u, &ignored) == 0;
    DIR *dir = all && alone ? open_list(e->images_fd, path) : NULL;
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        if (entry->d_name[0] != '.' && strcmp(entry->d_name, NOT_HERE) != 0 &&
            !is_key(&u.keys, entry->d_name))
            (void)unlinkat(dirfd(dir), entry->d_name, 0); /* the next time, then */
    if (dir)
        closedir(dir);
    cay_buf_done(&u.keys);
}

/* What somebody was about to put into place when he died. */
static void sweep_halves(int images_fd, const char *path)
{
    DIR *dir = open_list(images_fd, path);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        struct stat st;
        if (entry->d_name[0] != '.' || !entry->d_name[1] || strcmp(entry->d_name, "..") == 0 ||
            fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
            st.st_mtime > time(NULL) - HALF_S)
            continue;
        if (unlinkat(dirfd(dir), entry->d_name, 0) < 0)
            cay_trash_remove(dirfd(dir), entry->d_name);
    }
    if (dir)
        closedir(dir);
}

void cay_shelf_sweep(const struct cay_engine *e)
{
    char uses[64];
    struct cay_error ignored; /* nothing is pruned without the lock either */
    CAY_AUTO_FD int lock = -1;
    snprintf(uses, sizeof uses, "uses/%s", e->instance);
    cay_layer_sweep(e->images_fd);
    cay_build_sweep(e->images_fd);
    sweep_halves(e->images_fd, "refs");
    sweep_halves(e->images_fd, "fits");
    sweep_halves(e->images_fd, "meta");
    sweep_halves(e->images_fd, uses);
    if (cay_shelf_lock(e->images_fd, false, &lock, &ignored) == 0)
        renew_uses(e, false);
}

/* ---- removing ---- */

/* Everything in `from` that is not needed goes to `to`. */
static void move_away(const struct cay_engine *e, const char *from, const struct needed *n, int to,
                      struct cay_engine_pruned *out)
{
    bool layers = strcmp(from, "layers") == 0;
    DIR *dir = open_list(e->images_fd, from);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        const char *name = entry->d_name;
        struct cay_shelf_meta meta;
        bool needed = layers ? n->layers.len && bsearch(name, n->layers.data,
                                                        n->layers.len / ID_SIZE, ID_SIZE, compare)
                             : needs_fit(n, name);
        if (name[0] == '.' || needed || (layers && !cay_shelf_is_digest(name)))
            continue;
        if (layers)
            cay_shelf_read_meta(e->images_fd, name, &meta);
        if (renameat(dirfd(dir), name, to, name) < 0 || !layers)
            continue; /* not there any more is as well */
        out->layers++;
        out->bytes += meta.bytes;
    }
    if (dir)
        closedir(dir);
}

static int find_needed(const struct cay_engine *e, struct needed *n, struct cay_error *err)
{
    int r = cay_shelf_each_use(e, need, n, err);
    if (r == 0)
        r = need_texts(e->images_fd, "refs", n, err);
    if (r == 0)
        r = need_others(e, n, err);
    if (r == 0 && n->layers.len)
        qsort(n->layers.data, n->layers.len / ID_SIZE, ID_SIZE, compare);
    return r;
}

int cay_shelf_prune(const struct cay_engine *e, struct cay_engine_pruned *out,
                    struct cay_error *err)
{
    char suffix[17], path[64];
    CAY_CLEANUP(done) struct needed n = {0};
    CAY_AUTO_FD int lock = -1;
    CAY_AUTO_FD int away = -1;
    *out = (struct cay_engine_pruned){0};
    cay_id_hex(suffix, 16);
    snprintf(path, sizeof path, "tmp/layer-%s", suffix); /* swept, if we die */
    int r = cay_path_open_dir(e->images_fd, path, 0700, &away, err);
    if (r == 0 && flock(away, LOCK_EX | LOCK_NB) < 0)
        r = cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot lock what is thrown away");
    if (r == 0)
        r = cay_shelf_lock(e->images_fd, true, &lock, err);
    if (r == 0)
        r = find_needed(e, &n, err);
    if (r == 0) {
        move_away(e, "layers", &n, away, out);
        move_away(e, "fits", &n, away, out);
        renew_uses(e, true);
    }
    cay_close_fd(&lock);
    cay_trash_remove(e->images_fd, path);
    cay_layer_sweep(e->images_fd);
    return r;
}
