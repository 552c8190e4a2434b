/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/shelf.h"
#include "base/buf.h"
#include "base/path.h"
#include "engine/leftover.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

bool cay_shelf_is_digest(const char *hex)
{
    return strlen(hex) == 64 && strspn(hex, "0123456789abcdef") == 64;
}

bool cay_shelf_is_name(const char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "._:/@-";
    size_t len = strlen(name);
    return len > 0 && len <= CAY_MAX_IMAGE_NAME && strspn(name, letters) == len;
}

int cay_shelf_prepare(int images_fd, struct cay_error *err)
{
    static const struct {
        const char *name;
        mode_t mode;
    } dirs[] = {{"refs", 0755}, {"layers", 0700}, {"meta", 0755},
                {"fits", 0755}, {"uses", 0755},   {"tmp", 0700}};
    for (size_t i = 0; i < CAY_COUNT(dirs); i++) {
        CAY_AUTO_FD int fd = -1;
        int r = cay_path_open_dir(images_fd, dirs[i].name, dirs[i].mode, &fd, err);
        if (r < 0)
            return r;
        if (fchmod(fd, dirs[i].mode) < 0)
            return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot close %s of the image store",
                                  dirs[i].name);
        if (strcmp(dirs[i].name, "tmp") == 0)
            cay_path_spread(fd); /* layers have nothing to do with each other */
    }
    return 0;
}

bool cay_shelf_has_layer(int images_fd, const char *diff_id)
{
    char path[96];
    snprintf(path, sizeof path, "layers/%.64s", diff_id);
    return faccessat(images_fd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

int cay_shelf_lock(int images_fd, bool alone, int *fd_out, struct cay_error *err)
{
    CAY_AUTO_FD int fd = openat(images_fd, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 || flock(fd, alone ? LOCK_EX : LOCK_SH) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot lock the image store");
    *fd_out = cay_take_fd(&fd);
    return 0;
}

/* ---- uses ---- */

/* The same for the same layers, however the image is called: the fitting layer's name up to its
 * version. */
void cay_shelf_key(const struct cay_image *image, char out[CAY_SHELF_KEY_SIZE])
{
    const char *dash = strchr(image->fit, '-');
    const char *end = dash ? strchr(dash + 1, '-') : NULL;
    snprintf(out, CAY_SHELF_KEY_SIZE, "%.*s",
             end ? (int)(end - image->fit) : CAY_SHELF_KEY_SIZE - 1, image->fit);
}

int cay_shelf_use(const struct cay_engine *e, const struct cay_image *image, const char *text,
                  struct cay_error *err)
{
    char key[CAY_SHELF_KEY_SIZE], path[128];
    cay_shelf_key(image, key);
    snprintf(path, sizeof path, "uses/%s/%s", e->instance, key);
    if (faccessat(e->images_fd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return 0;
    CAY_AUTO_FD int dir = -1;
    snprintf(path, sizeof path, "uses/%s", e->instance);
    int r = cay_path_open_dir(e->images_fd, path, 0755, &dir, err);
    if (r == 0 && faccessat(dir, "data", F_OK, AT_SYMLINK_NOFOLLOW) < 0)
        r = cay_path_replace(dir, "data", e->cfg->data, strlen(e->cfg->data), 0644, err);
    return r < 0 ? r : cay_path_replace(dir, key, text, strlen(text), 0644, err);
}

int cay_shelf_each_use(const struct cay_engine *e,
                       void (*each)(void *arg, const struct cay_image *image, const char *text),
                       void *arg, struct cay_error *err)
{
    int r = 0;
    int fd = openat(e->files_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot list the sandboxes' files");
    CAY_AUTO_ARENA struct cay_arena a = {0};
    for (struct dirent *entry; r == 0 && (entry = readdir(dir)); cay_arena_reset(&a)) {
        char path[288], *text;
        struct cay_image image;
        snprintf(path, sizeof path, "%s/image", entry->d_name);
        if (entry->d_name[0] == '.' || cay_leftover_is(entry->d_name)) /* nobody's any more */
            continue;
        r = cay_path_read(fd, path, CAY_MAX_IMAGE_TEXT, &a, &text, NULL, err);
        if (r == 0 && *text && (r = cay_image_parse(&a, text, &image, err)) == 0)
            each(arg, &image, text);
        if (r == CAY_ERR_NOT_FOUND)
            r = 0; /* a volume, or one that has no image yet */
    }
    closedir(dir);
    return r;
}

/* ---- what is known of a layer ---- */

int cay_shelf_write_meta(int images_fd, const char *diff_id, const struct cay_shelf_meta *meta,
                         struct cay_error *err)
{
    char text[256];
    CAY_AUTO_FD int dir = openat(images_fd, "meta", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot open the image store");
    int len =
        snprintf(text, sizeof text, "%llu %llu %s %llu\n", (unsigned long long)meta->bytes,
                 (unsigned long long)meta->entries, *meta->tar_digest ? meta->tar_digest : "-",
                 (unsigned long long)meta->tar_bytes);
    return cay_path_replace(dir, diff_id, text, (size_t)len, 0644, err);
}

/* Layers that a recipe made have none: they are counted once. Nothing in there is opened but
 * directories, and no link is followed. */
static void count_tree(int dir, unsigned depth, struct cay_shelf_meta *out)
{
    DIR *d = fdopendir(dir);
    for (struct dirent *e; d && (e = readdir(d));) {
        struct stat st;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
            fstatat(dir, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        out->entries++;
        if (S_ISREG(st.st_mode))
            out->bytes += (uint64_t)st.st_size / (st.st_nlink ? st.st_nlink : 1);
        int next = S_ISDIR(st.st_mode) && depth < CAY_LAYER_DEPTH
                       ? openat(dir, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
                       : -1;
        if (next >= 0)
            count_tree(next, depth + 1, out);
    }
    if (d)
        closedir(d);
    else
        cay_close_fd(&dir);
}

void cay_shelf_read_meta(int images_fd, const char *diff_id, struct cay_shelf_meta *out)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_error ignored; /* it is counted again next time */
    char path[96], *text, digest[65] = "";
    unsigned long long bytes, entries, tar = 0;
    *out = (struct cay_shelf_meta){0};
    snprintf(path, sizeof path, "meta/%.64s", diff_id);
    if (cay_path_read(images_fd, path, 256, &a, &text, NULL, &ignored) == 0 &&
        sscanf(text, "%llu %llu %64s %llu", &bytes, &entries, digest, &tar) >= 2) {
        *out = (struct cay_shelf_meta){.bytes = bytes, .entries = entries, .tar_bytes = tar};
        if (cay_shelf_is_digest(digest))
            memcpy(out->tar_digest, digest, sizeof digest);
        return;
    }
    snprintf(path, sizeof path, "layers/%.64s", diff_id);
    int tree = openat(images_fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (tree < 0)
        return;
    count_tree(tree, 0, out);
    (void)cay_shelf_write_meta(images_fd, diff_id, out, &ignored);
}

/* ---- names ---- */

static int read_given(int fd, struct cay_arena *a, char **out, struct cay_error *err)
{
    char *text = cay_arena_alloc(a, CAY_MAX_IMAGE_TEXT + 1);
    size_t len = 0;
    ssize_t n;
    while (len < CAY_MAX_IMAGE_TEXT &&
           (n = pread(fd, text + len, CAY_MAX_IMAGE_TEXT - len, (off_t)len)) > 0)
        len += (size_t)n;
    if (len == CAY_MAX_IMAGE_TEXT || memchr(text, 0, len))
        return cay_fail(err, CAY_ERR_INVALID, "no text of an image");
    *out = text;
    return 0;
}

int cay_shelf_put(int images_fd, const char *name, int text_fd, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    CAY_AUTO_FD int lock = -1;
    char *text = NULL;
    struct cay_image image;
    int r = read_given(text_fd, &a, &text, err);
    if (r == 0)
        r = cay_image_parse(&a, text, &image, err);
    if (r == 0)
        r = cay_shelf_lock(images_fd, false, &lock, err);
    for (size_t i = 0; r == 0 && i < image.layers.count; i++)
        if (!cay_shelf_has_layer(images_fd, image.layers.at[i]))
            r = cay_fail_as(err, CAY_ERR_CONFLICT, "LAYER_MISSING",
                            "a layer of the image is not there: sha256:%s", image.layers.at[i]);
    if (r < 0)
        return r;
    CAY_AUTO_FD int refs = openat(images_fd, "refs", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (refs < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot open the image store");
    return cay_path_store(refs, cay_image_ref_name(&a, name), text, strlen(text), 0644, err);
}

int cay_shelf_remove(int images_fd, const char *name, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    CAY_AUTO_FD int refs = openat(images_fd, "refs", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (refs >= 0 && unlinkat(refs, cay_image_ref_name(&a, name), 0) == 0)
        return fsync(refs) < 0 ? cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot remove a name") : 0;
    if (errno == ENOENT)
        return cay_fail_as(err, CAY_ERR_NOT_FOUND, "IMAGE_NOT_FOUND", "image not found: %s", name);
    return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot remove %s", name);
}

/* ---- the list ---- */

static void note_key(void *keys, const struct cay_image *image, const char *text)
{
    char key[CAY_SHELF_KEY_SIZE] = "";
    (void)text;
    cay_shelf_key(image, key);
    cay_buf_add(keys, key, sizeof key);
}

static uint32_t count_uses(const struct cay_buf *keys, const struct cay_image *image)
{
    char key[CAY_SHELF_KEY_SIZE];
    uint32_t count = 0;
    cay_shelf_key(image, key);
    for (size_t at = 0; at < keys->len; at += CAY_SHELF_KEY_SIZE)
        count += strcmp(keys->data + at, key) == 0;
    return count;
}

static int list_one(const struct cay_engine *e, const struct cay_buf *keys, int refs,
                    const char *file, const char *name, FILE *to, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    char *text;
    size_t len;
    struct cay_image image;
    struct cay_engine_listed one = {0};
    int r = cay_path_read(refs, file, CAY_MAX_IMAGE_TEXT, &a, &text, &len, err);
    if (r == 0)
        r = cay_image_parse(&a, text, &image, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < image.layers.count; i++) {
        struct cay_shelf_meta meta;
        cay_shelf_read_meta(e->images_fd, image.layers.at[i], &meta);
        one.bytes += meta.bytes;
    }
    one.uses = count_uses(keys, &image);
    one.text_len = (uint32_t)len;
    cay_str_copy(one.name, sizeof one.name, name);
    fwrite(&one, sizeof one, 1, to);
    fwrite(text, len, 1, to);
    return 0;
}

int cay_shelf_list(const struct cay_engine *e, const char *name, int to, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    CAY_AUTO_BUF struct cay_buf keys = {0};
    int refs = openat(e->images_fd, "refs", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = refs < 0 ? NULL : fdopendir(refs);
    FILE *f = dir ? fdopen(dup(to), "w") : NULL;
    size_t count = 0;
    int r = f ? 0 : cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot list the images");
    if (r == 0)
        r = cay_shelf_each_use(e, note_key, &keys, err);
    if (r == 0 && *name)
        r = list_one(e, &keys, refs, cay_image_ref_name(&a, name), name, f, err);
    for (struct dirent *entry;
         r == 0 && !*name && count < CAY_SHELF_NAMES && (entry = readdir(dir));) {
        struct cay_error ignored; /* gone meanwhile, or not ours: the others are told */
        const char *plain;
        if (entry->d_name[0] != '.' &&
            cay_str_percent(&a, entry->d_name, strlen(entry->d_name), &plain) &&
            cay_shelf_is_name(plain) &&
            list_one(e, &keys, refs, entry->d_name, plain, f, &ignored) == 0)
            count++;
    }
    if (f && fclose(f) != 0 && r == 0)
        r = cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot list the images");
    if (dir)
        closedir(dir);
    if (r == CAY_ERR_NOT_FOUND)
        return cay_fail_as(err, r, "IMAGE_NOT_FOUND", "image not found: %s", name);
    return r;
}
