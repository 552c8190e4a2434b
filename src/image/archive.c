/* SPDX-License-Identifier: Apache-2.0 */
#include "image/archive.h"
#include "base/json.h"
#include "base/sha256.h"
#include "file/tar.h"
#include "image/reading.h"
#include "image/ref.h"
#include "model/limits.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MAX_LINKS 8   /* followed from one member */
#define MAX_IMAGES 64 /* of one archive */
#define MAX_NESTED 4  /* indexes in each other */
#define BLOBS "blobs/sha256/"

static int bad(struct cay_error *err, const char *what, const char *name)
{
    return cay_fail_as(err, CAY_ERR_UNPROCESSABLE, "BAD_ARCHIVE", "%s: %.100s", what, name);
}

/* ---- the table of contents ---- */

struct cursor {
    int fd;
    uint64_t offset;
};

static bool get(void *arg, void *data, size_t len)
{
    struct cursor *c = arg;
    for (char *to = data; len > 0;) {
        ssize_t n = pread(c->fd, to, len, (off_t)c->offset);
        if (n <= 0)
            return false;
        to += n;
        c->offset += (uint64_t)n;
        len -= (size_t)n;
    }
    return true;
}

static const char *plain(const char *path)
{
    while (strncmp(path, "./", 2) == 0)
        path += 2;
    return path;
}

/* Docker's older archives have a layer once, and links to it. They are relative to where they are.
 */
static const char *target(struct cay_arena *a, const struct cay_tar_entry *e)
{
    const char *to = e->link, *slash = strrchr(plain(e->path), '/');
    if (e->type == CAY_TAR_HARD_LINK)
        return cay_arena_strdup(a, plain(to));
    size_t up = slash ? (size_t)(slash - plain(e->path)) : 0;
    for (; strncmp(to, "../", 3) == 0; to += 3) {
        while (up > 0 && plain(e->path)[--up] != '/')
            ;
    }
    return cay_arena_printf(a, "%.*s%s%s", (int)up, plain(e->path), up ? "/" : "", to);
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct cay_archive_member *)a)->path,
                  ((const struct cay_archive_member *)b)->path);
}

static void add(struct cay_archive *ar, const struct cay_tar_entry *e, uint64_t offset)
{
    ar->at = cay_arena_room(ar->arena, ar->at, ar->count, sizeof *ar->at);
    bool linked = e->type == CAY_TAR_LINK || e->type == CAY_TAR_HARD_LINK;
    ar->at[ar->count++] =
        (struct cay_archive_member){cay_arena_strdup(ar->arena, plain(e->path)),
                                    linked ? target(ar->arena, e) : NULL, offset, e->size};
}

int cay_archive_open(struct cay_arena *a, int fd, struct cay_archive *out, struct cay_error *err)
{
    struct cursor c = {.fd = fd};
    struct cay_tar t = {.get = get, .arg = &c};
    struct cay_archive ar = {.arena = a, .fd = fd};
    struct cay_tar_entry *e = cay_arena_alloc(a, sizeof *e);
    int r;
    while ((r = cay_tar_next(&t, e)) > 0) {
        if (ar.count == CAY_ARCHIVE_MEMBERS)
            return bad(err, "too many members", e->path);
        if (e->type != CAY_TAR_DIR && e->type != CAY_TAR_OTHER)
            add(&ar, e, c.offset);
        c.offset += t.left + t.pad; /* passed over unread */
        t.left = t.pad = 0;
    }
    if (r < 0)
        return bad(err, "the archive cannot be read", t.why ? t.why : "it ends in the middle");
    if (ar.count)
        qsort(ar.at, ar.count, sizeof *ar.at, by_path);
    *out = ar;
    return 0;
}

static const struct cay_archive_member *find(const struct cay_archive *ar, const char *path)
{
    for (int links = 0; ar->count && links <= MAX_LINKS; links++) {
        const struct cay_archive_member key = {.path = plain(path)};
        const struct cay_archive_member *m =
            bsearch(&key, ar->at, ar->count, sizeof *ar->at, by_path);
        if (!m || !m->link)
            return m;
        path = m->link;
    }
    return NULL;
}

/* ---- documents ---- */

static bool is_sum(const char *text, size_t len, const char *hex)
{
    struct cay_sha256 s;
    uint8_t sum[32];
    char out[CAY_DIGEST_HEX + 1];
    cay_sha256_init(&s);
    cay_sha256_add(&s, text, len);
    cay_sha256_done(&s, sum);
    for (int i = 0; i < 32; i++)
        (void)snprintf(out + 2 * i, 3, "%02x", sum[i]);
    return strcmp(out, hex) == 0;
}

/* `digest` NULL: nobody said what it should be. */
static int read_text(const struct cay_archive *ar, const char *path, const char *digest,
                     const char **out, size_t *len_out, struct cay_error *err)
{
    const struct cay_archive_member *m = find(ar, path);
    if (!m)
        return bad(err, "a document is not in the archive", path);
    if (m->size > (uint64_t)CAY_IMAGE_MANIFEST_BYTES)
        return bad(err, "a document is too large", path);
    struct cursor c = {ar->fd, m->offset};
    char *text = cay_arena_alloc(ar->arena, m->size + 1);
    if (!get(&c, text, m->size))
        return bad(err, "the archive ends in the middle of a document", path);
    if (digest && !is_sum(text, m->size, digest))
        return cay_fail_as(err, CAY_ERR_UNPROCESSABLE, "DIGEST_MISMATCH",
                           "a document is not what its digest says: %.100s", path);
    *out = text;
    *len_out = m->size;
    return 0;
}

/* The digits in "…/HEX", "HEX.json" or "HEX", or NULL. */
static const char *digest_in(struct cay_arena *a, const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t n = strspn(name, "0123456789abcdef");
    return n == CAY_DIGEST_HEX && (!name[n] || strcmp(name + n, ".json") == 0)
               ? cay_arena_strndup(a, name, n)
               : NULL;
}

static int take_layer(const struct cay_archive *ar, const char *path, const char *digest,
                      const char *diff_id, struct cay_layer *out, struct cay_error *err)
{
    const struct cay_archive_member *m = find(ar, path);
    if (!m)
        return bad(err, "a layer is not in the archive", path);
    *out = (struct cay_layer){digest, diff_id, m->offset, m->size};
    return 0;
}

/* A name that cannot be one is left out: the image may be loaded under another. */
static void add_name(struct cay_arena *a, struct cay_strs *names, const char *name)
{
    struct cay_ref ref;
    struct cay_error ignored; /* see above */
    bool tag_alone = !strpbrk(name, ":/");
    if (!tag_alone && cay_ref_parse(a, name, &ref, &ignored) == 0)
        cay_strs_push(a, names, cay_ref_short(a, &ref));
}

static struct cay_archive_image *new_image(struct cay_archive *ar, struct cay_archive_images *out,
                                           struct cay_error *err)
{
    if (!out->at)
        out->at = cay_arena_alloc(ar->arena, MAX_IMAGES * sizeof *out->at);
    if (out->count == MAX_IMAGES) {
        (void)bad(err, "too many images in one archive", "64");
        return NULL;
    }
    out->at[out->count] = (struct cay_archive_image){.about = {.digest = "", .source = "archive"}};
    return &out->at[out->count++];
}

/* ---- Docker's own: manifest.json ---- */

static int read_docker(struct cay_archive *ar, const struct cay_json *one,
                       struct cay_archive_image *image, struct cay_error *err)
{
    const struct cay_json *layers = cay_json_get(one, "Layers"), *v;
    const struct cay_json *names = cay_json_get(one, "RepoTags");
    const char *path, *text;
    size_t len, i = 0;
    int r = cay_image_str(one, "Config", &path, err);
    if (r == 0)
        r = read_text(ar, path, digest_in(ar->arena, path), &text, &len, err);
    if (r == 0)
        r = cay_image_config_parse(ar->arena, text, len, &image->about.config, err);
    if (r < 0)
        return r;
    const struct cay_strs *ids = &image->about.config.diff_ids;
    if (!layers || layers->kind != CAY_JSON_ARRAY || layers->count != ids->count)
        return cay_image_bad(err, "the archive has other layers than its config");
    image->layers = cay_arena_alloc(ar->arena, ids->count * sizeof *image->layers);
    for (v = layers->first; r == 0 && v; v = v->next, i++) {
        if (v->kind != CAY_JSON_STRING)
            return cay_image_bad(err, "a layer is no string");
        bool blob = strncmp(v->text, BLOBS, strlen(BLOBS)) == 0;
        r = take_layer(ar, v->text, blob ? digest_in(ar->arena, v->text) : NULL, ids->at[i],
                       &image->layers[i], err);
    }
    for (v = names && names->kind == CAY_JSON_ARRAY ? names->first : NULL; v; v = v->next)
        if (v->kind == CAY_JSON_STRING)
            add_name(ar->arena, &image->names, v->text);
    return r;
}

static int read_dockers(struct cay_archive *ar, struct cay_archive_images *out,
                        struct cay_error *err)
{
    const struct cay_json *doc;
    const char *text;
    size_t len;
    int r = read_text(ar, "manifest.json", NULL, &text, &len, err);
    if (r < 0)
        return r;
    if (cay_json_parse(ar->arena, text, len, &doc, err) < 0 || doc->kind != CAY_JSON_ARRAY)
        return cay_image_bad(err, "manifest.json is no list");
    for (const struct cay_json *v = doc->first; r == 0 && v; v = v->next) {
        struct cay_archive_image *image = new_image(ar, out, err);
        if (!image)
            return err->code;
        r = v->kind == CAY_JSON_OBJECT ? read_docker(ar, v, image, err)
                                       : cay_image_bad(err, "manifest.json holds no object");
    }
    return r;
}

/* ---- OCI layout: index.json ---- */

static const char *blob_path(struct cay_archive *ar, const char *digest)
{
    return cay_arena_printf(ar->arena, BLOBS "%s", digest);
}

static int read_manifest(struct cay_archive *ar, const struct cay_manifest *m,
                         const struct cay_descriptor *from, struct cay_archive_images *out,
                         struct cay_error *err)
{
    const char *text;
    size_t len;
    struct cay_archive_image *image = new_image(ar, out, err);
    if (!image)
        return err->code;
    int r = read_text(ar, blob_path(ar, m->config.digest), m->config.digest, &text, &len, err);
    if (r == 0)
        r = cay_image_config_parse(ar->arena, text, len, &image->about.config, err);
    if (r < 0)
        return r;
    const struct cay_strs *ids = &image->about.config.diff_ids;
    if (m->count != ids->count)
        return cay_image_bad(err, "the manifest has other layers than its config");
    image->about.digest = from->digest;
    image->layers = cay_arena_alloc(ar->arena, ids->count * sizeof *image->layers);
    for (size_t i = 0; r == 0 && i < m->count; i++)
        r = take_layer(ar, blob_path(ar, m->at[i].digest), m->at[i].digest, ids->at[i],
                       &image->layers[i], err);
    add_name(ar->arena, &image->names, from->name);
    return r;
}

static int read_index(struct cay_archive *ar, const char *path, const char *digest,
                      const struct cay_descriptor *from, const char *architecture, int depth,
                      struct cay_archive_images *out, struct cay_error *err)
{
    const char *text;
    size_t len;
    struct cay_manifest m;
    const struct cay_descriptor *chosen;
    int r = read_text(ar, path, digest, &text, &len, err);
    if (r == 0)
        r = cay_manifest_parse(ar->arena, text, len, NULL, &m, err);
    if (r == 0 && !m.is_index && !from)
        r = bad(err, "no OCI layout", "its index.json is no index");
    if (r == 0 && !m.is_index)
        return read_manifest(ar, &m, from, out, err);
    if (r == 0 && depth == MAX_NESTED)
        r = cay_image_bad(err, "indexes in each other");
    /* The layout's own lists images, one below it an image's platforms. */
    if (r == 0 && depth > 0) {
        r = cay_manifest_choose(&m, architecture, &chosen, err);
        if (r < 0)
            return r;
        struct cay_descriptor named = *chosen;
        named.name = from->name;
        return read_index(ar, blob_path(ar, named.digest), named.digest, &named, architecture,
                          depth + 1, out, err);
    }
    for (size_t i = 0; r == 0 && i < m.count; i++) {
        const struct cay_descriptor *d = &m.at[i];
        bool other =
            *d->os && (strcmp(d->os, "linux") != 0 || strcmp(d->architecture, architecture) != 0);
        if ((d->media == CAY_MEDIA_MANIFEST || d->media == CAY_MEDIA_INDEX) && !other)
            r = read_index(ar, blob_path(ar, d->digest), d->digest, d, architecture, depth + 1, out,
                           err);
    }
    return r;
}

int cay_archive_images(struct cay_archive *ar, const char *architecture,
                       struct cay_archive_images *out, struct cay_error *err)
{
    struct cay_archive_images all = {0}, ours = {0};
    struct cay_error other = {0};
    int r = find(ar, "manifest.json") ? read_dockers(ar, &all, err)
            : find(ar, "index.json")
                ? read_index(ar, "index.json", NULL, NULL, architecture, 0, &all, err)
                : bad(err, "neither an archive of Docker's nor an OCI layout", "no index.json");
    for (size_t i = 0; r == 0 && i < all.count; i++) {
        struct cay_error no;
        int fits = cay_image_config_fits(&all.at[i].about.config, NULL, architecture, &no);
        if (fits < 0)
            other = no;
        else
            all.at[ours.count++] = all.at[i];
    }
    if (r < 0)
        return r;
    if (ours.count == 0 && other.code) {
        *err = other;
        return err->code;
    }
    if (ours.count == 0)
        return bad(err, "no image in the archive", "it is empty, or for other machines");
    *out = (struct cay_archive_images){all.at, ours.count};
    return 0;
}
