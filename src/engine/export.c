/* SPDX-License-Identifier: Apache-2.0 */
/* A tar file says how long a member is before it comes, and a blob is named by its digest: so each
 * layer is packed twice, once to be counted and once to be written. What was counted of a layer
 * holds for ever and is remembered. */
#include "engine/export.h"
#include "base/json.h"
#include "base/path.h"
#include "engine/pack.h"
#include "engine/shelf.h"
#include "file/tar.h"
#include "image/text.h"
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#define TELL_BYTES (1 * CAY_MIB)
#define OCI "application/vnd.oci.image."

struct blob {
    char digest[65];
    uint64_t size;
};

struct exporting {
    const struct cay_engine *e;
    int fd, progress_fd;
    uint64_t written, told;
    EVP_MD_CTX *sum; /* of the blob under way */
    uint64_t sum_bytes;
    bool counts; /* nothing is written */
    struct cay_arena a;
    struct cay_image_about about;
    int upper; /* of a snapshot, or -1 */
    struct blob layers[CAY_MAX_LAYERS + 1], config, manifest;
    size_t layer_count;
    struct cay_error *err;
};

static void done(struct exporting *x)
{
    EVP_MD_CTX_free(x->sum);
    cay_arena_done(&x->a);
    cay_close_fd(&x->upper);
}

/* ---- bytes ---- */

static bool write_out(struct exporting *x, const char *data, size_t len)
{
    x->written += len;
    while (len > 0) {
        ssize_t n = write(x->fd, data, len);
        if (n < 0 && errno != EINTR)
            return false;
        data += n > 0 ? n : 0;
        len -= n > 0 ? (size_t)n : 0;
    }
    if (x->progress_fd >= 0 && x->written - x->told >= TELL_BYTES) {
        (void)!pwrite(x->progress_fd, &x->written, sizeof x->written, 0); /* nobody may look */
        x->told = x->written;
    }
    return true;
}

static bool take(void *arg, const void *data, size_t len)
{
    struct exporting *x = arg;
    (void)EVP_DigestUpdate(x->sum, data, len);
    x->sum_bytes += len;
    return x->counts || write_out(x, data, len);
}

static void begin_sum(struct exporting *x)
{
    (void)EVP_DigestInit_ex(x->sum, EVP_sha256(), NULL);
    x->sum_bytes = 0;
}

static struct blob end_sum(struct exporting *x)
{
    unsigned char sum[32];
    struct blob b = {.size = x->sum_bytes};
    (void)EVP_DigestFinal_ex(x->sum, sum, NULL);
    for (int i = 0; i < 32; i++)
        (void)snprintf(b.digest + 2 * i, 3, "%02x", sum[i]);
    return b;
}

static int lost(struct exporting *x)
{
    return cay_fail_errno(x->err, CAY_ERR_PROVIDER, "cannot write the archive");
}

static int put_head(struct exporting *x, enum cay_tar_type type, const char *path, uint64_t size)
{
    static struct cay_tar_entry entry; /* large */
    CAY_AUTO_BUF struct cay_buf head = {0};
    entry = (struct cay_tar_entry){
        .type = type, .mode = type == CAY_TAR_DIR ? 0755 : 0644, .size = size};
    cay_str_copy(entry.path, sizeof entry.path, path);
    cay_tar_write(&entry, &head);
    return write_out(x, head.data, head.len) ? 0 : lost(x);
}

static int put_padding(struct exporting *x, uint64_t size)
{
    static const char zeros[CAY_TAR_BLOCK];
    size_t pad = (size_t)((CAY_TAR_BLOCK - size % CAY_TAR_BLOCK) % CAY_TAR_BLOCK);
    return write_out(x, zeros, pad) ? 0 : lost(x);
}

static int put_file(struct exporting *x, const char *path, const struct cay_buf *text)
{
    int r = put_head(x, CAY_TAR_FILE, path, text->len);
    if (r == 0 && !write_out(x, text->data, text->len))
        r = lost(x);
    return r < 0 ? r : put_padding(x, text->len);
}

static const char *blob_path(struct exporting *x, const struct blob *b)
{
    return cay_arena_printf(&x->a, "blobs/sha256/%s", b->digest);
}

static struct blob sum_of(struct exporting *x, const struct cay_buf *text)
{
    begin_sum(x);
    x->counts = true;
    (void)take(x, text->data, text->len);
    return end_sum(x);
}

/* ---- layers ---- */

/* The lowest first; the last one may be a snapshot's. */
static int open_layer(struct exporting *x, size_t i)
{
    char path[96];
    if (i == x->about.config.diff_ids.count)
        return fcntl(x->upper, F_DUPFD_CLOEXEC, 3);
    snprintf(path, sizeof path, "layers/%s", x->about.config.diff_ids.at[i]);
    return openat(x->e->images_fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static int pack(struct exporting *x, size_t i, bool counts, struct blob *out)
{
    const struct cay_pack_sink sink = {take, x};
    CAY_AUTO_FD int tree = open_layer(x, i);
    if (tree < 0)
        return cay_fail_errno(x->err, CAY_ERR_PROVIDER, "cannot open a layer");
    begin_sum(x);
    x->counts = counts;
    int r = cay_pack(tree, &sink, x->err);
    *out = end_sum(x);
    return r;
}

static int count_layer(struct exporting *x, size_t i)
{
    struct cay_shelf_meta meta;
    struct cay_error ignored; /* counted again next time */
    bool kept = i < x->about.config.diff_ids.count;
    const char *id = kept ? x->about.config.diff_ids.at[i] : NULL;
    if (kept)
        cay_shelf_read_meta(x->e->images_fd, id, &meta);
    if (kept && *meta.tar_digest) {
        memcpy(x->layers[i].digest, meta.tar_digest, sizeof meta.tar_digest);
        x->layers[i].size = meta.tar_bytes;
        return 0;
    }
    int r = pack(x, i, true, &x->layers[i]);
    if (r < 0 || !kept)
        return r;
    memcpy(meta.tar_digest, x->layers[i].digest, sizeof meta.tar_digest);
    meta.tar_bytes = x->layers[i].size;
    (void)cay_shelf_write_meta(x->e->images_fd, id, &meta, &ignored);
    return 0;
}

static int put_layer(struct exporting *x, size_t i)
{
    struct blob again;
    for (size_t k = 0; k < i; k++)
        if (strcmp(x->layers[k].digest, x->layers[i].digest) == 0)
            return 0; /* the same bytes are there already */
    int r = put_head(x, CAY_TAR_FILE, blob_path(x, &x->layers[i]), x->layers[i].size);
    if (r == 0)
        r = pack(x, i, false, &again);
    if (r == 0 && strcmp(again.digest, x->layers[i].digest) != 0)
        return cay_fail(x->err, CAY_ERR_PROVIDER, "a layer changed while it was exported");
    return r < 0 ? r : put_padding(x, x->layers[i].size);
}

/* ---- documents ---- */

static void write_strs(struct cay_json_writer *w, const char *key, const struct cay_strs *list)
{
    if (!list->count)
        return;
    cay_jw_array(w, key);
    for (size_t i = 0; i < list->count; i++)
        cay_jw_str(w, NULL, list->at[i]);
    cay_jw_array_end(w);
}

static void write_str(struct cay_json_writer *w, const char *key, const char *value)
{
    if (*value)
        cay_jw_str(w, key, value);
}

static void write_digest(struct exporting *x, struct cay_json_writer *w, const char *key,
                         const struct blob *b)
{
    cay_jw_str(w, key, cay_arena_printf(&x->a, "sha256:%s", b->digest));
}

static void write_config(struct exporting *x, struct cay_buf *out)
{
    const struct cay_image_config *c = &x->about.config;
    struct cay_json_writer w = {.buf = out};
    cay_jw_object(&w, NULL);
    cay_jw_str(&w, "architecture", *c->architecture ? c->architecture : cay_image_architecture());
    cay_jw_str(&w, "os", "linux");
    if (c->created_ms)
        cay_jw_time(&w, "created", c->created_ms);
    cay_jw_object(&w, "config");
    write_str(&w, "User", c->user);
    write_str(&w, "WorkingDir", c->workdir);
    write_str(&w, "StopSignal", c->stop_signal);
    write_strs(&w, "Env", &c->env);
    write_strs(&w, "Entrypoint", &c->entrypoint);
    write_strs(&w, "Cmd", &c->cmd);
    cay_jw_object_end(&w);
    cay_jw_object(&w, "rootfs");
    cay_jw_str(&w, "type", "layers");
    cay_jw_array(&w, "diff_ids");
    for (size_t i = 0; i < x->layer_count; i++)
        write_digest(x, &w, NULL, &x->layers[i]);
    cay_jw_array_end(&w);
    cay_jw_object_end(&w);
    cay_jw_object_end(&w);
}

static void write_descriptor(struct exporting *x, struct cay_json_writer *w, const char *key,
                             const char *type, const struct blob *b)
{
    cay_jw_object(w, key);
    cay_jw_str(w, "mediaType", type);
    write_digest(x, w, "digest", b);
    cay_jw_int(w, "size", (int64_t)b->size);
}

static void write_manifest(struct exporting *x, struct cay_buf *out)
{
    struct cay_json_writer w = {.buf = out};
    cay_jw_object(&w, NULL);
    cay_jw_int(&w, "schemaVersion", 2);
    cay_jw_str(&w, "mediaType", OCI "manifest.v1+json");
    write_descriptor(x, &w, "config", OCI "config.v1+json", &x->config);
    cay_jw_object_end(&w);
    cay_jw_array(&w, "layers");
    for (size_t i = 0; i < x->layer_count; i++) {
        write_descriptor(x, &w, NULL, OCI "layer.v1.tar", &x->layers[i]);
        cay_jw_object_end(&w);
    }
    cay_jw_array_end(&w);
    cay_jw_object_end(&w);
}

/* Docker takes the name from its own annotation or from manifest.json, others the tag alone. */
static void write_index(struct exporting *x, const char *tag, struct cay_buf *out)
{
    struct cay_json_writer w = {.buf = out};
    const char *slash = strrchr(tag, '/'), *colon = strrchr(slash ? slash : tag, ':');
    cay_jw_object(&w, NULL);
    cay_jw_int(&w, "schemaVersion", 2);
    cay_jw_str(&w, "mediaType", OCI "index.v1+json");
    cay_jw_array(&w, "manifests");
    write_descriptor(x, &w, NULL, OCI "manifest.v1+json", &x->manifest);
    cay_jw_object(&w, "annotations");
    cay_jw_str(&w, "io.containerd.image.name", tag);
    cay_jw_str(&w, "org.opencontainers.image.ref.name", colon ? colon + 1 : "latest");
    cay_jw_object_end(&w);
    cay_jw_object_end(&w);
    cay_jw_array_end(&w);
    cay_jw_object_end(&w);
}

static void write_docker(struct exporting *x, const char *tag, struct cay_buf *out)
{
    struct cay_json_writer w = {.buf = out};
    cay_jw_array(&w, NULL);
    cay_jw_object(&w, NULL);
    cay_jw_str(&w, "Config", blob_path(x, &x->config));
    cay_jw_array(&w, "RepoTags");
    cay_jw_str(&w, NULL, tag);
    cay_jw_array_end(&w);
    cay_jw_array(&w, "Layers");
    for (size_t i = 0; i < x->layer_count; i++)
        cay_jw_str(&w, NULL, blob_path(x, &x->layers[i]));
    cay_jw_array_end(&w);
    cay_jw_object_end(&w);
    cay_jw_array_end(&w);
}

static int write_archive(struct exporting *x, const char *tag)
{
    static const char end[2 * CAY_TAR_BLOCK];
    static const struct cay_buf layout = {.data = (char *)"{\"imageLayoutVersion\":\"1.0.0\"}",
                                          .len = 30};
    CAY_AUTO_BUF struct cay_buf config = {0};
    CAY_AUTO_BUF struct cay_buf manifest = {0};
    CAY_AUTO_BUF struct cay_buf index = {0};
    CAY_AUTO_BUF struct cay_buf docker = {0};
    write_config(x, &config);
    x->config = sum_of(x, &config);
    write_manifest(x, &manifest);
    x->manifest = sum_of(x, &manifest);
    write_index(x, tag, &index);
    write_docker(x, tag, &docker);
    int r = put_head(x, CAY_TAR_DIR, "blobs/", 0);
    if (r == 0)
        r = put_head(x, CAY_TAR_DIR, "blobs/sha256/", 0);
    for (size_t i = 0; r == 0 && i < x->layer_count; i++)
        r = put_layer(x, i);
    if (r == 0)
        r = put_file(x, blob_path(x, &x->config), &config);
    if (r == 0)
        r = put_file(x, blob_path(x, &x->manifest), &manifest);
    if (r == 0)
        r = put_file(x, "index.json", &index);
    if (r == 0)
        r = put_file(x, "manifest.json", &docker);
    if (r == 0)
        r = put_file(x, "oci-layout", &layout);
    if (r == 0 && !write_out(x, end, sizeof end))
        r = lost(x);
    return r;
}

/* ---- which image ---- */

static int read_text(struct exporting *x, const struct cay_engine_request *rq, char **out)
{
    char path[64];
    if (!*rq->id) {
        CAY_AUTO_FD int refs = openat(x->e->images_fd, "refs", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        int r = cay_path_read(refs, cay_image_ref_name(&x->a, rq->image), CAY_MAX_IMAGE_TEXT, &x->a,
                              out, NULL, x->err);
        return r == CAY_ERR_NOT_FOUND
                   ? cay_fail_as(x->err, r, "IMAGE_NOT_FOUND", "image not found: %s", rq->image)
                   : r;
    }
    snprintf(path, sizeof path, "%s/image", rq->id);
    int r = cay_path_read(x->e->files_fd, path, CAY_MAX_IMAGE_TEXT, &x->a, out, NULL, x->err);
    snprintf(path, sizeof path, "%s/upper", rq->id);
    if (r == 0) {
        x->upper = openat(x->e->files_fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        r = x->upper < 0 ? CAY_ERR_NOT_FOUND : 0;
    }
    return r == CAY_ERR_NOT_FOUND
               ? cay_fail_as(x->err, r, "SNAPSHOT_NOT_FOUND", "snapshot not found: %s", rq->id)
               : r;
}

int cay_export(const struct cay_engine *e, const struct cay_engine_request *rq, int fd,
               int progress_fd, struct cay_error *err)
{
    CAY_CLEANUP(done)
    struct exporting x = {.e = e,
                          .fd = fd,
                          .progress_fd = progress_fd,
                          .sum = EVP_MD_CTX_new(),
                          .upper = -1,
                          .err = err};
    char *text;
    struct cay_image image;
    CAY_AUTO_FD int lock = -1;
    if (!x.sum)
        abort();
    /* For as long as it takes: what is exported is not thrown away meanwhile. */
    int r = cay_shelf_lock(e->images_fd, false, &lock, err);
    if (r == 0)
        r = read_text(&x, rq, &text);
    if (r == 0)
        r = cay_image_parse(&x.a, text, &image, err); /* as strictly as for a sandbox */
    if (r == 0)
        r = cay_image_text_read(&x.a, text, &x.about, err);
    if (r < 0)
        return r;
    x.layer_count = x.about.config.diff_ids.count + (x.upper >= 0);
    for (size_t i = 0; r == 0 && i < x.layer_count; i++)
        r = count_layer(&x, i);
    return r < 0 ? r : write_archive(&x, rq->image);
}
