/* SPDX-License-Identifier: Apache-2.0 */
/* The config of an image: what it runs as, and the digests of its layers unpacked. */
#include "base/clock.h"
#include "base/json.h"
#include "image/manifest.h"
#include "image/reading.h"
#include "model/limits.h"
#include <stdio.h>
#include <string.h>

static int read_strs(struct cay_arena *a, const struct cay_json *object, const char *key,
                     struct cay_strs *out, struct cay_error *err)
{
    const struct cay_json *list = cay_json_get(object, key);
    if (!list || list->kind == CAY_JSON_NULL)
        return 0;
    if (list->kind != CAY_JSON_ARRAY || list->count > CAY_IMAGE_STRINGS)
        return cay_fail_as(err, CAY_ERR_UNPROCESSABLE, "BAD_IMAGE", "%s is no list, or too long",
                           key);
    *out = cay_strs_room(a, list->count);
    for (const struct cay_json *v = list->first; v; v = v->next) {
        if (v->kind != CAY_JSON_STRING)
            return cay_fail_as(err, CAY_ERR_UNPROCESSABLE, "BAD_IMAGE",
                               "%s holds something that is no string", key);
        cay_strs_push(a, out, v->text);
    }
    return 0;
}

/* RFC 3339 with any fraction and Z; our own clock reads milliseconds. */
static int64_t read_time(const char *text)
{
    char iso[CAY_ISO_SIZE];
    int64_t ms = 0;
    size_t len = strlen(text);
    if (len < 20 || text[len - 1] != 'Z')
        return 0;
    (void)snprintf(iso, sizeof iso, "%.19s.000Z", text);
    return cay_clock_parse(iso, &ms) ? ms : 0;
}

static int read_settings(struct cay_arena *a, const struct cay_json *c,
                         struct cay_image_config *out, struct cay_error *err)
{
    int r = cay_image_str(c, "User", &out->user, err);
    if (r == 0)
        r = cay_image_str(c, "WorkingDir", &out->workdir, err);
    if (r == 0)
        r = cay_image_str(c, "StopSignal", &out->stop_signal, err);
    if (r == 0)
        r = read_strs(a, c, "Env", &out->env, err);
    if (r == 0)
        r = read_strs(a, c, "Entrypoint", &out->entrypoint, err);
    return r < 0 ? r : read_strs(a, c, "Cmd", &out->cmd, err);
}

static int read_layers(struct cay_arena *a, const struct cay_json *rootfs,
                       struct cay_image_config *out, struct cay_error *err)
{
    if (!rootfs || rootfs->kind != CAY_JSON_OBJECT)
        return cay_image_bad(err, "the config names no layers");
    int r = read_strs(a, rootfs, "diff_ids", &out->diff_ids, err);
    if (r < 0)
        return r;
    if (out->diff_ids.count == 0 || out->diff_ids.count > CAY_IMAGE_LAYERS)
        return cay_image_bad(err, "the config names no layers, or too many");
    for (size_t i = 0; i < out->diff_ids.count; i++) {
        out->diff_ids.at[i] = cay_digest_hex(out->diff_ids.at[i]);
        if (!out->diff_ids.at[i])
            return cay_image_bad(err, "a diff id is no sha256");
    }
    return 0;
}

int cay_image_config_parse(struct cay_arena *a, const char *text, size_t len,
                           struct cay_image_config *out, struct cay_error *err)
{
    const struct cay_json *doc;
    const char *created = "";
    struct cay_image_config c = {.user = "", .workdir = "", .stop_signal = ""};
    if (len > (size_t)CAY_IMAGE_MANIFEST_BYTES)
        return cay_image_bad(err, "the config is too large");
    if (cay_json_parse(a, text, len, &doc, err) < 0 || doc->kind != CAY_JSON_OBJECT)
        return cay_image_bad(err, "the config is no JSON object");
    const struct cay_json *settings = cay_json_get(doc, "config");
    int r = cay_image_str(doc, "os", &c.os, err);
    if (r == 0)
        r = cay_image_str(doc, "architecture", &c.architecture, err);
    if (r == 0)
        r = cay_image_str(doc, "variant", &c.variant, err);
    if (r == 0)
        r = cay_image_str(doc, "created", &created, err);
    if (r == 0 && settings && settings->kind == CAY_JSON_OBJECT)
        r = read_settings(a, settings, &c, err);
    if (r == 0)
        r = read_layers(a, cay_json_get(doc, "rootfs"), &c, err);
    if (r < 0)
        return r;
    c.created_ms = read_time(created);
    *out = c;
    return 0;
}

int cay_image_config_fits(const struct cay_image_config *config, const struct cay_manifest *m,
                          const char *architecture, struct cay_error *err)
{
    if (m && m->count != config->diff_ids.count)
        return cay_fail_as(err, CAY_ERR_UNPROCESSABLE, "BAD_IMAGE",
                           "the manifest has %zu layers, the config %zu", m->count,
                           config->diff_ids.count);
    if (strcmp(config->os, "linux") != 0 || strcmp(config->architecture, architecture) != 0)
        return cay_fail_as(err, CAY_ERR_NOT_FOUND, "PLATFORM_NOT_FOUND",
                           "the image is not there for linux/%s, but for %.16s/%.16s", architecture,
                           config->os, config->architecture);
    return 0;
}
