/* SPDX-License-Identifier: Apache-2.0 */
/* Images that come in, layer by layer.
 *
 * The Engine takes whole images only. So layers wait, unpacked and verified, in files of the
 * server's until the name comes that they are for; then all of it goes in as an archive like
 * `docker save`'s. What waits outlives neither the pull that it came with nor the server: one that
 * was cut begins anew. */
#include "base/buf.h"
#include "base/clock.h"
#include "base/path.h"
#include "base/sha256.h"
#include "file/tar.h"
#include "image/blob.h"
#include "image/text.h"
#include "provider/docker/docker.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#define PLACE "staged"
#define STEP_BYTES (4 * CAY_MIB)  /* between two reports of progress */
#define LOOK_BYTES (16 * CAY_MIB) /* between two looks at the free space */

/* ---- layers that wait ---- */

static void empty(int dir_fd)
{
    int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    for (struct dirent *e; dir && (e = readdir(dir));)
        (void)unlinkat(dir_fd, e->d_name,
                       0); /* what stays is overwritten, or in the way of nobody */
    if (dir)
        closedir(dir);
}

int cay_docker_stage_open(struct cay_docker *d, struct cay_error *err)
{
    CAY_AUTO_FD int fd =
        openat(d->local.data_fd, PLACE, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno != ENOENT)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot open %s in the data directory", PLACE);
    if (fd >= 0)
        empty(fd);
    return 0;
}

/* Made when it is first needed, by whoever the server runs as. */
static int stage(struct cay_docker *d, struct cay_error *err)
{
    int r = 0;
    pthread_mutex_lock(&d->lock);
    if (d->staged_fd < 0)
        r = cay_path_open_dir(d->local.data_fd, PLACE, 0700, &d->staged_fd, err);
    pthread_mutex_unlock(&d->lock);
    return r;
}

int cay_docker_image_has(struct cay_provider *p, const char *diff_id, bool *out,
                         struct cay_error *err)
{
    struct cay_docker *d = (struct cay_docker *)p;
    int r = stage(d, err);
    if (r == 0)
        *out = faccessat(d->staged_fd, diff_id, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    return r;
}

void cay_docker_image_let_go(struct cay_provider *p, const struct cay_strs *diff_ids)
{
    struct cay_docker *d = (struct cay_docker *)p;
    struct cay_error ignored; /* without the directory nothing waits in it */
    for (size_t i = 0; stage(d, &ignored) == 0 && i < diff_ids->count; i++)
        (void)unlinkat(d->staged_fd, diff_ids->at[i], 0); /* or it waits for the next start */
}

static int is_full(struct cay_error *err)
{
    return cay_fail_as(err, CAY_ERR_LIMIT, "IMAGE_STORE_FULL",
                       "there is no room for layers on the data directory's disk");
}

/* Records and logs are on the same disk, and a layer can be as large as it likes. */
static int look_at_space(int fd, struct cay_error *err)
{
    struct statvfs st;
    if (fstatvfs(fd, &st) < 0 || st.f_blocks == 0 || /* it has no bound of its own */
        (uint64_t)st.f_bavail * st.f_frsize >= (uint64_t)CAY_SHELF_FREE_BYTES + LOOK_BYTES)
        return 0;
    return is_full(err);
}

static int keep(int fd, const char *data, size_t len, uint64_t *kept, struct cay_error *err)
{
    bool look = *kept == 0 || *kept / LOOK_BYTES != (*kept + len) / LOOK_BYTES;
    int r = look ? look_at_space(fd, err) : 0;
    if (r < 0)
        return r;
    if (!cay_write_all(fd, data, len))
        return errno == ENOSPC ? is_full(err)
                               : cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot keep a layer");
    *kept += len;
    return 0;
}

static int unpack(struct cay_blob *in, int to, const struct cay_progress *progress,
                  struct cay_blob_sums *sums, struct cay_error *err)
{
    uint64_t told = 0, kept = 0;
    for (;;) {
        const void *data;
        ssize_t n = cay_blob_next(in, &data);
        if (n < 0)
            return cay_blob_error(in, err);
        if (n == 0)
            return cay_blob_finish(in, sums, err);
        int r = keep(to, data, (size_t)n, &kept, err);
        if (r < 0)
            return r;
        if (!progress || cay_blob_packed(in) - told < STEP_BYTES)
            continue;
        told = cay_blob_packed(in);
        if (!progress->step(progress->arg, told))
            return cay_fail_as(err, CAY_ERR_CONFLICT, "CANCELLED", "it was given up");
    }
}

static void free_blob(struct cay_blob **in)
{
    cay_blob_free(*in);
}

int cay_docker_image_layer(struct cay_provider *p, const struct cay_layer *layer, int fd,
                           const struct cay_progress *progress, struct cay_unpacked *out,
                           struct cay_error *err)
{
    struct cay_docker *d = (struct cay_docker *)p;
    struct cay_blob_sums sums;
    char path[32];
    int r = stage(d, err);
    if (r < 0)
        return r;
    CAY_AUTO_FD int to = openat(d->staged_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (to < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot keep a layer");
    CAY_CLEANUP(free_blob)
    struct cay_blob *in = cay_blob_new(fd, layer->offset, layer->size, -1);
    r = unpack(in, to, progress, &sums, err);
    if (r == 0)
        r = cay_blob_verify(&sums, layer->digest ? layer->digest : "", layer->diff_id, layer->size,
                            err);
    if (r < 0)
        return r;
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", to);
    if (linkat(AT_FDCWD, path, d->staged_fd, layer->diff_id, AT_SYMLINK_FOLLOW) < 0 &&
        errno != EEXIST)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot keep a layer");
    *out = (struct cay_unpacked){.bytes = sums.plain};
    return 0;
}

/* ---- the archive ---- */

struct member {
    const char *path;
    const char *data; /* NULL: */
    int fd;           /* it is this file */
    uint64_t size;
};

struct archive {
    struct member at[CAY_IMAGE_LAYERS + 2];
    size_t count, next;
    struct cay_buf out; /* heads and blocks that are filled up */
    size_t out_at;
    uint64_t left; /* of the member under way */
    bool ended;
};

static void free_archive(struct archive *x)
{
    for (size_t i = 0; i < x->count; i++)
        cay_close_fd(&x->at[i].fd);
    cay_buf_done(&x->out);
}

static void fill_up(struct archive *x, size_t len)
{
    memset(cay_buf_room(&x->out, len), 0, len);
    x->out.len += len;
}

/* What comes next, beside members' data: a head, or the end. */
static void go_on(struct archive *x)
{
    CAY_AUTO_FREE struct cay_tar_entry *e = calloc(1, sizeof *e);
    if (!e)
        abort();
    x->out.len = x->out_at = 0;
    if (x->next == x->count) {
        fill_up(x, (size_t)2 * CAY_TAR_BLOCK);
        x->ended = true;
        return;
    }
    const struct member *m = &x->at[x->next++];
    e->type = CAY_TAR_FILE;
    e->mode = 0644;
    e->size = x->left = m->size;
    cay_str_copy(e->path, sizeof e->path, m->path);
    cay_tar_write(e, &x->out);
}

static int read_member(struct archive *x, char *buf, size_t room, size_t *len_out,
                       struct cay_error *err)
{
    const struct member *m = &x->at[x->next - 1];
    size_t want = x->left < room ? (size_t)x->left : room;
    uint64_t at = m->size - x->left;
    ssize_t n = (ssize_t)want;
    if (m->data)
        memcpy(buf, m->data + at, want);
    else
        n = pread(m->fd, buf, want, (off_t)at);
    if (n <= 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot read a layer that waits");
    x->left -= (uint64_t)n;
    *len_out = (size_t)n;
    if (x->left == 0) {
        x->out.len = x->out_at = 0;
        fill_up(x, (CAY_TAR_BLOCK - m->size % CAY_TAR_BLOCK) % CAY_TAR_BLOCK);
    }
    return 0;
}

static int more(void *arg, char *buf, size_t room, size_t *len_out, struct cay_error *err)
{
    struct archive *x = arg;
    while (x->out_at == x->out.len && x->left == 0 && !x->ended)
        go_on(x);
    size_t ready = x->out.len - x->out_at;
    if (ready == 0 && x->left)
        return read_member(x, buf, room, len_out, err);
    *len_out = ready < room ? ready : room;
    if (*len_out)
        memcpy(buf, x->out.data + x->out_at, *len_out);
    x->out_at += *len_out;
    return 0;
}

/* ---- the image ---- */

static void add_strs(struct cay_json_writer *w, const char *key, const struct cay_strs *list,
                     const char *prefix, const char *suffix)
{
    cay_jw_array(w, key);
    for (size_t i = 0; i < list->count; i++) {
        CAY_AUTO_BUF struct cay_buf text = {0};
        cay_buf_addf(&text, "%s%s%s", prefix, list->at[i], suffix);
        cay_jw_strn(w, NULL, text.data, text.len);
    }
    cay_jw_array_end(w);
}

/* The same text gives the same bytes, and these are what an image is called by in the Engine. Its
 * labels keep what the Engine has no place for. */
static const char *config_of(struct cay_arena *a, const struct cay_image_about *about)
{
    CAY_AUTO_BUF struct cay_buf out = {0};
    struct cay_json_writer w = {.buf = &out};
    const struct cay_image_config *c = &about->config;
    cay_jw_object(&w, NULL);
    cay_jw_str(&w, "architecture", c->architecture);
    cay_jw_str(&w, "os", "linux");
    if (c->created_ms)
        cay_jw_time(&w, "created", c->created_ms);
    cay_jw_object(&w, "config");
    cay_jw_str(&w, "User", c->user);
    cay_jw_str(&w, "WorkingDir", c->workdir);
    if (*c->stop_signal)
        cay_jw_str(&w, "StopSignal", c->stop_signal);
    add_strs(&w, "Env", &c->env, "", "");
    add_strs(&w, "Entrypoint", &c->entrypoint, "", "");
    add_strs(&w, "Cmd", &c->cmd, "", "");
    cay_jw_object(&w, "Labels");
    cay_jw_str(&w, "cay.digest", about->digest);
    cay_jw_str(&w, "cay.source", about->source);
    cay_jw_object_end(&w);
    cay_jw_object_end(&w);
    cay_jw_object(&w, "rootfs");
    cay_jw_str(&w, "type", "layers");
    add_strs(&w, "diff_ids", &c->diff_ids, "sha256:", "");
    cay_jw_object_end(&w);
    cay_jw_object_end(&w);
    return cay_arena_strndup(a, out.data, out.len);
}

static const char *manifest_of(struct cay_arena *a, const struct cay_image_about *about,
                               const char *config, const char *repo, const char *tag)
{
    CAY_AUTO_BUF struct cay_buf out = {0};
    struct cay_json_writer w = {.buf = &out};
    cay_jw_array(&w, NULL);
    cay_jw_object(&w, NULL);
    cay_jw_str(&w, "Config", config);
    cay_jw_array(&w, "RepoTags");
    cay_jw_str(&w, NULL, cay_arena_printf(a, "%s:%s", repo, tag));
    cay_jw_array_end(&w);
    add_strs(&w, "Layers", &about->config.diff_ids, "", ".tar");
    cay_jw_object_end(&w);
    cay_jw_array_end(&w);
    return cay_arena_strndup(a, out.data, out.len);
}

static const char *id_of(struct cay_arena *a, const char *config)
{
    struct cay_sha256 sha;
    uint8_t digest[32];
    char hex[65];
    cay_sha256_init(&sha);
    cay_sha256_add(&sha, config, strlen(config));
    cay_sha256_done(&sha, digest);
    for (size_t i = 0; i < sizeof digest; i++)
        (void)snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    return cay_arena_strdup(a, hex);
}

/* A layer may be in it twice, and is in the archive once. */
static int add_layers(struct cay_docker *d, struct cay_arena *a, const struct cay_strs *ids,
                      struct archive *x, struct cay_error *err)
{
    for (size_t i = 0; i < ids->count; i++) {
        const char *path = cay_arena_printf(a, "%s.tar", ids->at[i]);
        struct stat st;
        bool again = false;
        for (size_t k = 0; k < x->count; k++)
            again |= strcmp(x->at[k].path, path) == 0;
        if (again || i >= CAY_IMAGE_LAYERS)
            continue;
        int fd = openat(d->staged_fd, ids->at[i], O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) < 0)
            return cay_fail_as(err, CAY_ERR_CONFLICT, "LAYER_MISSING",
                               "a layer is not there: %.12s", ids->at[i]);
        x->at[x->count++] = (struct member){.path = path, .fd = fd, .size = (uint64_t)st.st_size};
    }
    return 0;
}

static void add_text(struct archive *x, const char *path, const char *text)
{
    x->at[x->count++] = (struct member){.path = path, .data = text, .fd = -1, .size = strlen(text)};
}

static int bring_in(struct cay_docker *d, struct cay_arena *a, const struct cay_image_about *about,
                    const char *config, const char *repo, const char *tag, struct cay_error *err)
{
    CAY_CLEANUP(free_archive) struct archive x = {0};
    const struct cay_docker_bytes bytes = {more, -1, &x};
    const struct cay_strs *ids = &about->config.diff_ids;
    const char *name = cay_arena_printf(a, "%s.json", id_of(a, config));
    int r = add_layers(d, a, ids, &x, err);
    if (r < 0)
        return r;
    add_text(&x, name, config);
    add_text(&x, "manifest.json", manifest_of(a, about, name, repo, tag));
    return cay_docker_send(d, a, "POST", "/images/load?quiet=1", &bytes, err);
}

int cay_docker_image_put(struct cay_provider *p, const char *name, const char *text,
                         struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_docker *d = (struct cay_docker *)p;
    struct cay_image_about about;
    const struct cay_json *image;
    const char *repo, *tag;
    int r = cay_docker_refuse_inner(&a, name, err);
    if (r == 0)
        r = cay_docker_find_image(d, &a, name, &image, err);
    if (r == 0 && strcmp(cay_docker_image_text(&a, image), text) == 0)
        return 0;
    if (r == 0 || r == CAY_ERR_NOT_FOUND)
        r = cay_image_text_read(&a, text, &about, err);
    if (r == 0)
        r = stage(d, err);
    if (r < 0)
        return r;
    cay_docker_split_name(&a, cay_docker_image_name(&a, name), &repo, &tag);
    const char *config = config_of(&a, &about);
    r = cay_docker_call(d, &a, "POST",
                        cay_arena_printf(&a, "/images/sha256:%s/tag?repo=%s&tag=%s",
                                         id_of(&a, config), cay_docker_encode(&a, repo),
                                         cay_docker_encode(&a, tag)),
                        NULL, NULL, err);
    return r == CAY_ERR_NOT_FOUND ? bring_in(d, &a, &about, config, repo, tag, err) : r;
}
