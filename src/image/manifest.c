/* SPDX-License-Identifier: Apache-2.0 */
#include "image/manifest.h"
#include "base/json.h"
#include "image/reading.h"
#include "model/limits.h"
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

int cay_image_bad(struct cay_error *err, const char *what)
{
    return cay_fail_as(err, CAY_ERR_UNPROCESSABLE, "BAD_IMAGE", "%s", what);
}

const char *cay_digest_hex(const char *digest)
{
    static const char prefix[] = "sha256:";
    if (strncmp(digest, prefix, sizeof prefix - 1) != 0)
        return NULL;
    const char *hex = digest + sizeof prefix - 1;
    return strlen(hex) == CAY_DIGEST_HEX && strspn(hex, "0123456789abcdef") == CAY_DIGEST_HEX
               ? hex
               : NULL;
}

/* What follows "application/vnd.". */
static const struct {
    const char *type;
    enum cay_media media;
} types[] = {
    {"oci.image.index.v1+json", CAY_MEDIA_INDEX},
    {"docker.distribution.manifest.list.v2+json", CAY_MEDIA_INDEX},
    {"oci.image.manifest.v1+json", CAY_MEDIA_MANIFEST},
    {"docker.distribution.manifest.v2+json", CAY_MEDIA_MANIFEST},
    {"oci.image.config.v1+json", CAY_MEDIA_CONFIG},
    {"docker.container.image.v1+json", CAY_MEDIA_CONFIG},
    {"oci.image.layer.v1.tar", CAY_MEDIA_LAYER},
    {"oci.image.layer.v1.tar+gzip", CAY_MEDIA_LAYER},
    {"oci.image.layer.v1.tar+zstd", CAY_MEDIA_LAYER},
    {"docker.image.rootfs.diff.tar", CAY_MEDIA_LAYER},
    {"docker.image.rootfs.diff.tar.gzip", CAY_MEDIA_LAYER},
    {"docker.image.rootfs.diff.tar.zstd", CAY_MEDIA_LAYER},
};

static enum cay_media media_of(const char *type)
{
    static const char prefix[] = "application/vnd.";
    size_t len = strcspn(type, "; ");
    if (strncmp(type, prefix, sizeof prefix - 1) != 0)
        return CAY_MEDIA_OTHER;
    type += sizeof prefix - 1;
    len -= sizeof prefix - 1;
    for (size_t i = 0; i < CAY_COUNT(types); i++)
        if (strlen(types[i].type) == len && memcmp(types[i].type, type, len) == 0)
            return types[i].media;
    return CAY_MEDIA_OTHER;
}

const char *cay_image_architecture(void)
{
    static const struct {
        const char *machine, *name;
    } known[] = {{"x86_64", "amd64"}, {"aarch64", "arm64"}};
    struct utsname name;
    if (uname(&name) == 0)
        for (size_t i = 0; i < CAY_COUNT(known); i++)
            if (strcmp(known[i].machine, name.machine) == 0)
                return known[i].name;
    return "unknown";
}

int cay_image_str(const struct cay_json *object, const char *key, const char **out,
                  struct cay_error *err)
{
    const struct cay_json *v = cay_json_get(object, key);
    *out = "";
    if (!v || v->kind == CAY_JSON_NULL)
        return 0;
    if (v->kind != CAY_JSON_STRING)
        return cay_fail_as(err, CAY_ERR_UNPROCESSABLE, "BAD_IMAGE", "%s is no string", key);
    *out = v->text;
    return 0;
}

/* ---- descriptors ---- */

static int read_platform(const struct cay_json *object, struct cay_descriptor *out,
                         struct cay_error *err)
{
    const struct cay_json *p = cay_json_get(object, "platform");
    const struct cay_json *notes = cay_json_get(object, "annotations");
    out->os = out->architecture = out->variant = out->name = "";
    int r = 0;
    if (p && p->kind == CAY_JSON_OBJECT) {
        r = cay_image_str(p, "os", &out->os, err);
        if (r == 0)
            r = cay_image_str(p, "architecture", &out->architecture, err);
        if (r == 0)
            r = cay_image_str(p, "variant", &out->variant, err);
    }
    if (r == 0 && notes && notes->kind == CAY_JSON_OBJECT)
        r = cay_image_str(notes, "io.containerd.image.name", &out->name, err);
    if (r == 0 && !*out->name && notes && notes->kind == CAY_JSON_OBJECT)
        r = cay_image_str(notes, "org.opencontainers.image.ref.name", &out->name, err);
    return r;
}

static int read_descriptor(const struct cay_json *object, struct cay_descriptor *out,
                           struct cay_error *err)
{
    const char *digest;
    int64_t size;
    if (!object || object->kind != CAY_JSON_OBJECT)
        return cay_image_bad(err, "a descriptor is missing or no object");
    int r = cay_image_str(object, "mediaType", &out->type, err);
    if (r == 0)
        r = cay_image_str(object, "digest", &digest, err);
    if (r == 0)
        r = read_platform(object, out, err);
    if (r < 0)
        return r;
    out->media = media_of(out->type);
    out->digest = cay_digest_hex(digest);
    if (!out->digest)
        return cay_image_bad(err, "a digest is no sha256");
    const struct cay_json *number = cay_json_get(object, "size");
    if (!number || !cay_json_int(number, &size) || size < 0)
        return cay_image_bad(err, "a descriptor without a size");
    out->size = (uint64_t)size;
    return 0;
}

static int read_list(struct cay_arena *a, const struct cay_json *list, size_t max,
                     struct cay_manifest *out, struct cay_error *err)
{
    if (!list || list->kind != CAY_JSON_ARRAY)
        return cay_image_bad(err, "neither layers nor manifests");
    if (list->count > max)
        return cay_fail_as(err, CAY_ERR_UNPROCESSABLE, "BAD_IMAGE", "a list of more than %zu", max);
    out->at = cay_arena_alloc(a, (list->count + 1) * sizeof *out->at);
    for (const struct cay_json *v = list->first; v; v = v->next) {
        int r = read_descriptor(v, &out->at[out->count++], err);
        if (r < 0)
            return r;
    }
    return 0;
}

static int read_manifest(struct cay_arena *a, const struct cay_json *doc, struct cay_manifest *out,
                         struct cay_error *err)
{
    int r = read_descriptor(cay_json_get(doc, "config"), &out->config, err);
    if (r == 0 && out->config.media != CAY_MEDIA_CONFIG)
        return cay_fail_as(err, CAY_ERR_UNPROCESSABLE, "BAD_IMAGE",
                           "no image but something else: %.100s", out->config.type);
    if (r == 0 && out->config.size > (uint64_t)CAY_IMAGE_MANIFEST_BYTES)
        return cay_image_bad(err, "the config is too large");
    if (r == 0)
        r = read_list(a, cay_json_get(doc, "layers"), CAY_IMAGE_LAYERS, out, err);
    for (size_t i = 0; r == 0 && i < out->count; i++)
        if (out->at[i].media != CAY_MEDIA_LAYER)
            r = cay_fail_as(err, CAY_ERR_UNPROCESSABLE, "BAD_IMAGE",
                            "a layer of a kind that is not taken: %.100s", out->at[i].type);
    return r;
}

int cay_manifest_parse(struct cay_arena *a, const char *text, size_t len, const char *type,
                       struct cay_manifest *out, struct cay_error *err)
{
    const struct cay_json *doc, *schema;
    const char *own;
    int64_t version;
    struct cay_manifest m = {0};
    if (len > (size_t)CAY_IMAGE_MANIFEST_BYTES)
        return cay_image_bad(err, "the manifest is too large");
    if (cay_json_parse(a, text, len, &doc, err) < 0 || doc->kind != CAY_JSON_OBJECT)
        return cay_image_bad(err, "the manifest is no JSON object");
    schema = cay_json_get(doc, "schemaVersion");
    if (!schema || !cay_json_int(schema, &version) || version != 2)
        return cay_image_bad(err, "the manifest is of another schema than 2");
    int r = cay_image_str(doc, "mediaType", &own, err);
    if (r < 0)
        return r;
    bool layers = cay_json_get(doc, "layers"), manifests = cay_json_get(doc, "manifests");
    /* One that could be read as either would be whatever suits who made it. */
    if (layers && manifests)
        return cay_image_bad(err, "both an index and a manifest");
    enum cay_media media = *own ? media_of(own) : type ? media_of(type) : CAY_MEDIA_OTHER;
    if (media == (layers ? CAY_MEDIA_INDEX : CAY_MEDIA_MANIFEST))
        return cay_image_bad(err, "the manifest is not what its media type says");
    m.is_index = manifests;
    r = manifests ? read_list(a, cay_json_get(doc, "manifests"), CAY_IMAGE_PLATFORMS, &m, err)
                  : read_manifest(a, doc, &m, err);
    if (r == 0)
        *out = m;
    return r;
}

/* ---- which one ---- */

static void add_platform(char *out, size_t size, const struct cay_descriptor *d)
{
    size_t len = strlen(out);
    if (*d->os && strcmp(d->os, "unknown") != 0)
        (void)snprintf(out + len, size - len, "%s%.16s/%.16s", len ? ", " : "", d->os,
                       d->architecture);
}

int cay_manifest_choose(const struct cay_manifest *index, const char *architecture,
                        const struct cay_descriptor **out, struct cay_error *err)
{
    char there[120] = "";
    const struct cay_descriptor *only = NULL;
    size_t count = 0;
    for (size_t i = 0; i < index->count; i++) {
        const struct cay_descriptor *d = &index->at[i];
        if (d->media != CAY_MEDIA_MANIFEST && d->media != CAY_MEDIA_INDEX)
            continue;
        if (strcmp(d->os, "linux") == 0 && strcmp(d->architecture, architecture) == 0) {
            *out = d;
            return 0;
        }
        only = *d->os ? only : d; /* its config will tell */
        count++;
        add_platform(there, sizeof there, d);
    }
    if (only && count == 1) {
        *out = only;
        return 0;
    }
    return cay_fail_as(err, CAY_ERR_NOT_FOUND, "PLATFORM_NOT_FOUND",
                       "the image is not there for linux/%s, but for %s", architecture,
                       *there ? there : "nothing");
}
