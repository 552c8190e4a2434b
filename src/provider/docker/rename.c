/* SPDX-License-Identifier: Apache-2.0 */
#include "provider/docker/rename.h"
#include "base/json.h"
#include "image/ref.h"
#include <stdlib.h>
#include <string.h>

#define REF_NAME "org.opencontainers.image.ref.name"
#define FULL_NAME "io.containerd.image.name"

/* ---- documents ---- */

static bool is_one_of(const char *key, const char *const *list)
{
    for (; key && list && *list; list++)
        if (strcmp(key, *list) == 0)
            return true;
    return false;
}

static void copy(struct cay_json_writer *w, const char *key, const struct cay_json *v);

static void copy_members(struct cay_json_writer *w, const struct cay_json *of,
                         const char *const *but)
{
    for (const struct cay_json *v = of ? of->first : NULL; v; v = v->next)
        if (!is_one_of(v->key, but))
            copy(w, v->key, v);
}

static void copy(struct cay_json_writer *w, const char *key, const struct cay_json *v)
{
    switch (v->kind) {
    case CAY_JSON_NULL:
        cay_jw_null(w, key);
        break;
    case CAY_JSON_BOOL:
        cay_jw_bool(w, key, v->truth);
        break;
    case CAY_JSON_NUMBER:
        cay_jw_raw(w, key, v->text, v->len);
        break;
    case CAY_JSON_STRING:
        cay_jw_strn(w, key, v->text, v->len);
        break;
    case CAY_JSON_ARRAY:
        cay_jw_array(w, key);
        copy_members(w, v, NULL);
        cay_jw_array_end(w);
        break;
    case CAY_JSON_OBJECT:
        cay_jw_object(w, key);
        copy_members(w, v, NULL);
        cay_jw_object_end(w);
        break;
    }
}

/* Docker's own, by which everybody loads it: a list of images, of which an id gives one. */
static bool rename_manifest(struct cay_arena *a, const struct cay_json *doc, const char *name,
                            struct cay_json_writer *w)
{
    static const char *const names[] = {"RepoTags", NULL};
    (void)a;
    if (doc->kind != CAY_JSON_ARRAY || doc->count != 1 || doc->first->kind != CAY_JSON_OBJECT)
        return false;
    cay_jw_array(w, NULL);
    cay_jw_object(w, NULL);
    copy_members(w, doc->first, names);
    cay_jw_array(w, "RepoTags");
    cay_jw_str(w, NULL, name);
    cay_jw_array_end(w);
    cay_jw_object_end(w);
    cay_jw_array_end(w);
    return true;
}

static void add_annotations(struct cay_arena *a, const struct cay_json *old, const char *name,
                            struct cay_json_writer *w)
{
    static const char *const names[] = {REF_NAME, FULL_NAME, NULL};
    struct cay_ref ref;
    struct cay_error ignored; /* then by what it was asked for */
    bool known = cay_ref_parse(a, name, &ref, &ignored) == 0;
    cay_jw_object(w, "annotations");
    copy_members(w, old && old->kind == CAY_JSON_OBJECT ? old : NULL, names);
    cay_jw_str(w, FULL_NAME, known ? cay_ref_full(a, &ref) : name);
    cay_jw_str(w, REF_NAME, known && ref.tag ? ref.tag : name);
    cay_jw_object_end(w);
}

/* Of an OCI layout, which newer Engines' archives are too. */
static bool rename_index(struct cay_arena *a, const struct cay_json *doc, const char *name,
                         struct cay_json_writer *w)
{
    static const char *const lists[] = {"manifests", NULL}, *const notes[] = {"annotations", NULL};
    const struct cay_json *list = doc->kind == CAY_JSON_OBJECT ? cay_json_get(doc, *lists) : NULL;
    if (!list || list->kind != CAY_JSON_ARRAY)
        return false;
    cay_jw_object(w, NULL);
    copy_members(w, doc, lists);
    cay_jw_array(w, *lists);
    for (const struct cay_json *v = list->first; v; v = v->next) {
        if (v->kind != CAY_JSON_OBJECT)
            return false;
        cay_jw_object(w, NULL);
        copy_members(w, v, notes);
        if (v == list->first)
            add_annotations(a, cay_json_get(v, *notes), name, w);
        else if (cay_json_get(v, *notes))
            copy(w, *notes, cay_json_get(v, *notes));
        cay_jw_object_end(w);
    }
    cay_jw_array_end(w);
    cay_jw_object_end(w);
    return true;
}

static const struct document {
    const char *path;
    bool (*rename)(struct cay_arena *a, const struct cay_json *doc, const char *name,
                   struct cay_json_writer *w);
} documents[] = {
    {"manifest.json", rename_manifest},
    {"index.json", rename_index},
    {"repositories", NULL}, /* names alone, for Engines of old: it is left out */
};

static const struct document *find_document(const struct cay_tar_entry *e)
{
    const char *path = strncmp(e->path, "./", 2) == 0 ? e->path + 2 : e->path;
    for (size_t i = 0; e->type == CAY_TAR_FILE && i < CAY_COUNT(documents); i++)
        if (strcmp(path, documents[i].path) == 0)
            return &documents[i];
    return NULL;
}

/* ---- the archive ---- */

static int no_archive(struct cay_error *err, const char *why)
{
    return cay_fail(err, CAY_ERR_PROVIDER, "Docker's answer is no archive of an image: %s", why);
}

static int end_document(struct cay_docker_rename *x, struct cay_error *err)
{
    static const char zeros[CAY_TAR_BLOCK];
    CAY_AUTO_ARENA struct cay_arena a = {0};
    CAY_AUTO_BUF struct cay_buf text = {0}, head = {0};
    struct cay_json_writer w = {.buf = &text};
    const struct document *kind = find_document(&x->entry);
    const struct cay_json *doc;
    struct cay_error why;
    x->part = CAY_DOCKER_HEAD;
    if (!kind->rename) {
        x->held.len = 0;
        return 0;
    }
    if (cay_json_parse(&a, x->held.data, (size_t)x->entry.size, &doc, &why) < 0 ||
        !kind->rename(&a, doc, x->name, &w))
        return no_archive(err, kind->path);
    x->named |= kind->rename == rename_manifest;
    x->held.len = 0;
    x->entry.size = text.len;
    cay_tar_write(&x->entry, &head);
    int r = x->out(x->arg, head.data, head.len, err);
    if (r == 0)
        r = x->out(x->arg, text.data, text.len, err);
    size_t pad = (CAY_TAR_BLOCK - text.len % CAY_TAR_BLOCK) % CAY_TAR_BLOCK;
    return r == 0 && pad ? x->out(x->arg, zeros, pad, err) : r;
}

struct reading {
    const struct cay_buf *from;
    size_t at;
    bool short_of; /* more is to come */
};

static bool get(void *arg, void *data, size_t len)
{
    struct reading *r = arg;
    r->short_of = r->from->len - r->at < len;
    if (r->short_of)
        return false;
    memcpy(data, r->from->data + r->at, len);
    r->at += len;
    return true;
}

/* After each block, since a head may have others before it. */
static int try_head(struct cay_docker_rename *x, struct cay_error *err)
{
    struct reading reading = {.from = &x->held};
    struct cay_tar tar = {.get = get, .arg = &reading};
    int found = cay_tar_next(&tar, &x->entry);
    if (found < 0 && reading.short_of)
        return 0;
    if (found < 0)
        return no_archive(err, tar.why ? tar.why : "no tar file");
    x->left = found ? tar.left + tar.pad : 0;
    x->part = !found                     ? CAY_DOCKER_END
              : find_document(&x->entry) ? CAY_DOCKER_DOCUMENT
              : x->left                  ? CAY_DOCKER_BODY
                                         : CAY_DOCKER_HEAD;
    int r = 0;
    if (x->part != CAY_DOCKER_DOCUMENT)
        r = x->out(x->arg, x->held.data, x->held.len, err);
    else if (x->left == 0 || x->left > CAY_IMAGE_MANIFEST_BYTES)
        r = no_archive(err, x->entry.path);
    x->held.len = 0;
    return r;
}

static int add_some(struct cay_docker_rename *x, const char *data, size_t len,
                    struct cay_error *err)
{
    int r = 0;
    if (x->part == CAY_DOCKER_BODY || x->part == CAY_DOCKER_END)
        r = x->out(x->arg, data, len, err);
    else
        cay_buf_add(&x->held, data, len);
    if (r < 0 || x->part == CAY_DOCKER_END)
        return r;
    if (x->part == CAY_DOCKER_HEAD)
        return x->held.len % CAY_TAR_BLOCK == 0 ? try_head(x, err) : 0;
    x->left -= len;
    if (x->left)
        return 0;
    if (x->part == CAY_DOCKER_DOCUMENT)
        return end_document(x, err);
    x->part = CAY_DOCKER_HEAD;
    return 0;
}

int cay_docker_rename_add(struct cay_docker_rename *x, const char *data, size_t len,
                          struct cay_error *err)
{
    int r = 0;
    while (r == 0 && len) {
        uint64_t n = x->part == CAY_DOCKER_END    ? len
                     : x->part == CAY_DOCKER_HEAD ? CAY_TAR_BLOCK - x->held.len % CAY_TAR_BLOCK
                                                  : x->left;
        n = n < len ? n : len;
        r = add_some(x, data, (size_t)n, err);
        data += n;
        len -= (size_t)n;
    }
    return r;
}

int cay_docker_rename_end(const struct cay_docker_rename *x, struct cay_error *err)
{
    if (x->part != CAY_DOCKER_END)
        return no_archive(err, "it ends in the middle");
    return x->named ? 0 : no_archive(err, "no manifest.json");
}

void cay_docker_rename_free(struct cay_docker_rename **x)
{
    if (*x)
        cay_buf_done(&(*x)->held);
    free(*x);
}
