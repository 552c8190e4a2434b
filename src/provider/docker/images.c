/* SPDX-License-Identifier: Apache-2.0 */
/* Images, as the API has them: those of the Docker Engine, whoever brought them in, but for what we
 * make of them. What a name stands for is told in the words of our own store (image/text.h), so
 * that nobody above sees a difference. */
#include "base/clock.h"
#include "image/text.h"
#include "model/limits.h"
#include "provider/docker/docker.h"
#include "provider/docker/rename.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what there is ---- */

static void read_strings(struct cay_arena *a, const struct cay_json *list, struct cay_strs *out)
{
    for (const struct cay_json *v = list ? list->first : NULL; v; v = v->next)
        if (v->kind == CAY_JSON_STRING)
            cay_strs_push(a, out, v->text);
}

/* Of the manifest that it came by: we noted it, or the Engine did. */
static const char *digest_of(const struct cay_json *image, const struct cay_json *labels)
{
    const struct cay_json *list = cay_json_get(image, "RepoDigests");
    const struct cay_json *first = list ? list->first : NULL;
    const char *at = first && first->kind == CAY_JSON_STRING ? strchr(first->text, '@') : NULL;
    const char *hex = at ? cay_digest_hex(at + 1) : NULL;
    return cay_json_get_str(labels, "cay.digest", hex ? hex : "");
}

const char *cay_docker_image_text(struct cay_arena *a, const struct cay_json *image)
{
    const struct cay_json *config = cay_json_get(image, "Config");
    const struct cay_json *labels = cay_json_get(config, "Labels");
    const struct cay_json *layers = cay_json_get(cay_json_get(image, "RootFS"), "Layers");
    struct cay_image_about about = {
        .config = {.os = "linux",
                   .architecture = cay_json_get_str(image, "Architecture", ""),
                   .variant = "",
                   .user = cay_json_get_str(config, "User", ""),
                   .workdir = cay_json_get_str(config, "WorkingDir", ""),
                   .stop_signal = cay_json_get_str(config, "StopSignal", "")},
        .digest = digest_of(image, labels),
        .source = cay_json_get_str(labels, "cay.source", "")};
    struct cay_error ignored; /* one that cannot be told so is told by its name */
    const char *text = "";
    (void)cay_clock_parse(cay_json_get_str(image, "Created", ""), &about.config.created_ms);
    read_strings(a, cay_json_get(config, "Env"), &about.config.env);
    read_strings(a, cay_json_get(config, "Entrypoint"), &about.config.entrypoint);
    read_strings(a, cay_json_get(config, "Cmd"), &about.config.cmd);
    for (const struct cay_json *v = layers ? layers->first : NULL; v; v = v->next) {
        const char *hex = v->kind == CAY_JSON_STRING ? cay_digest_hex(v->text) : NULL;
        if (hex)
            cay_strs_push(a, &about.config.diff_ids, hex);
    }
    if (about.config.diff_ids.count)
        (void)cay_image_text_write(a, &about, &text, &ignored);
    return text;
}

static void add_bases(struct cay_arena *a, const struct cay_json *v, struct cay_strs *out)
{
    for (; v; v = v->next)
        cay_strs_push(a, out, cay_json_get_str(cay_json_get(v, "Labels"), CAY_DOCKER_BASE, ""));
}

/* Ids of images, once for each sandbox and each snapshot of ours that was made from one. */
static int find_uses(struct cay_docker *d, struct cay_arena *a, struct cay_strs *out,
                     struct cay_error *err)
{
    const struct cay_json *boxes = NULL, *snapshots = NULL;
    int r = cay_docker_list(
        d, a, "/containers/json?all=true",
        cay_arena_printf(a, "{\"label\":[\"" CAY_DOCKER_LABEL "=%s\"]}", d->instance), &boxes, err);
    if (r == 0)
        r = cay_docker_list(
            d, a, "/images/json",
            cay_arena_printf(a, "{\"reference\":[\"" CAY_DOCKER_SNAPS "%s\"]}", d->instance),
            &snapshots, err);
    add_bases(a, boxes, out);
    add_bases(a, snapshots, out);
    return r;
}

static struct cay_image_entry entry_of(struct cay_arena *a, const char *name,
                                       const struct cay_json *image, const struct cay_strs *uses)
{
    int64_t bytes = cay_json_get_int(image, "Size", 0);
    struct cay_image_entry e = {.name = cay_arena_strdup(a, name),
                                .text = cay_docker_image_text(a, image),
                                .bytes = bytes > 0 ? (uint64_t)bytes : 0};
    for (size_t i = 0; i < uses->count; i++)
        e.uses += strcmp(uses->at[i], cay_json_get_str(image, "Id", "-")) == 0;
    return e;
}

static int list_one(struct cay_docker *d, struct cay_arena *a, const char *name,
                    const struct cay_strs *uses, struct cay_image_list *out, struct cay_error *err)
{
    const struct cay_json *image;
    int r = cay_docker_find_image(d, a, name, &image, err);
    if (r < 0)
        return r;
    *out = (struct cay_image_list){cay_arena_alloc(a, sizeof *out->at), 1};
    out->at[0] = entry_of(a, name, image, uses);
    return 0;
}

static size_t count_tags(const struct cay_json *v)
{
    size_t count = 0;
    for (; v; v = v->next) {
        const struct cay_json *tags = cay_json_get(v, "RepoTags");
        count += tags ? tags->count : 0;
    }
    return count;
}

/* One that goes while we look is left out. */
static int list_all(struct cay_docker *d, struct cay_arena *a, const struct cay_strs *uses,
                    struct cay_image_list *out, struct cay_error *err)
{
    const struct cay_json *first = NULL, *image = NULL;
    int r = cay_docker_list(d, a, "/images/json", "{}", &first, err);
    struct cay_image_list found = {cay_arena_alloc(a, count_tags(first) * sizeof *found.at + 1), 0};
    for (const struct cay_json *v = first; r == 0 && v; v = v->next) {
        const struct cay_json *tags = cay_json_get(v, "RepoTags");
        image = NULL;
        for (const struct cay_json *t = tags ? tags->first : NULL; r == 0 && t; t = t->next) {
            if (t->kind != CAY_JSON_STRING || cay_docker_is_inner(a, t->text))
                continue;
            if (!image)
                r = cay_docker_inspect_image(d, a, cay_json_get_str(v, "Id", "-"), &image, err);
            if (r == 0)
                found.at[found.count++] = entry_of(a, cay_docker_our_name(a, t->text), image, uses);
        }
        if (r == CAY_ERR_NOT_FOUND)
            r = 0;
    }
    if (r == 0)
        *out = found;
    return r;
}

int cay_docker_image_list(struct cay_provider *p, const char *name, struct cay_arena *a,
                          struct cay_image_list *out, struct cay_error *err)
{
    struct cay_docker *d = (struct cay_docker *)p;
    struct cay_strs uses = {0};
    int r = find_uses(d, a, &uses, err);
    if (r < 0)
        return r;
    return name ? list_one(d, a, name, &uses, out, err) : list_all(d, a, &uses, out, err);
}

/* ---- what goes ---- */

/* Sandboxes have images of their own on top of it, which hold its layers. By the name as the Engine
 * has it, with its tag: what was asked for could mean another's id once the name is gone. */
int cay_docker_image_remove(struct cay_provider *p, const char *name, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_docker *d = (struct cay_docker *)p;
    const struct cay_json *image;
    int r = cay_docker_find_image(d, &a, name, &image, err);
    if (r < 0)
        return r;
    const char *same = cay_docker_encode(&a, cay_docker_called(&a, image, name));
    r = cay_docker_call(d, &a, "DELETE", cay_arena_printf(&a, "/images/%s", same), NULL, NULL, err);
    if (r == CAY_ERR_NOT_FOUND)
        return cay_docker_no_image(name, err);
    if (r == CAY_ERR_CONFLICT)
        err->name = "IMAGE_IN_USE";
    return r;
}

static int64_t size_of(const struct cay_json *images, const char *id)
{
    for (const struct cay_json *v = images; v; v = v->next)
        if (strcmp(cay_json_get_str(v, "Id", ""), id) == 0)
            return cay_json_get_int(v, "Size", 0);
    return 0;
}

/* Not by force: what a container is made from, whoever's it is, the Engine keeps. */
int cay_docker_drop_fits(struct cay_docker *d, struct cay_arena *a, const char *but,
                         struct cay_pruned *out, struct cay_error *err)
{
    const struct cay_json *first = NULL;
    int r = cay_docker_list(d, a, "/images/json", "{}", &first, err);
    for (const struct cay_json *v = first; r == 0 && v; v = v->next) {
        const struct cay_json *tags = cay_json_get(v, "RepoTags");
        const char *tag =
            cay_docker_short(tags && tags->first && tags->first->text ? tags->first->text : "");
        if (strncmp(tag, CAY_DOCKER_FITS ":", strlen(CAY_DOCKER_FITS) + 1) != 0 ||
            (but && strstr(tag, but)))
            continue;
        const char *base = cay_json_get_str(cay_json_get(v, "Labels"), CAY_DOCKER_BASE, "");
        int64_t bytes = cay_json_get_int(v, "Size", 0) - size_of(first, base);
        r = cay_docker_call(d, a, "DELETE",
                            cay_arena_printf(a, "/images/%s", cay_docker_encode(a, tag)), NULL,
                            NULL, err);
        out->layers += r == 0;
        out->bytes += r == 0 && bytes > 0 ? (uint64_t)bytes : 0;
        if (r == CAY_ERR_CONFLICT || r == CAY_ERR_NOT_FOUND)
            r = 0; /* in use, or gone */
    }
    return r;
}

int cay_docker_image_prune(struct cay_provider *p, struct cay_pruned *out, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_pruned pruned = {0};
    int r = cay_docker_drop_fits((struct cay_docker *)p, &a, NULL, &pruned, err);
    if (r == 0)
        *out = pruned;
    return r;
}

/* ---- what is carried away ---- */

struct saving {
    int fd;
    uint64_t bytes;
    const struct cay_progress *progress;
};

static int save(void *arg, const char *data, size_t len, struct cay_error *err)
{
    struct saving *s = arg;
    s->bytes += len;
    if (s->progress && !s->progress->step(s->progress->arg, s->bytes))
        return cay_fail_as(err, CAY_ERR_CONFLICT, "CANCELLED", "it was given up");
    while (len) {
        ssize_t n = write(s->fd, data, len);
        if (n < 0 && errno != EINTR)
            return cay_fail_errno(err, CAY_ERR_PROVIDER, "nobody takes the archive");
        data += n > 0 ? n : 0;
        len -= n > 0 ? (size_t)n : 0;
    }
    return 0;
}

static int pass_on(void *arg, const char *data, size_t len, struct cay_error *err)
{
    return cay_docker_rename_add(arg, data, len, err);
}

int cay_docker_image_export(struct cay_provider *p, const char *name_or_snapshot, const char *tag,
                            int fd, const struct cay_progress *progress, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_docker *d = (struct cay_docker *)p;
    struct saving saving = {.fd = fd, .progress = progress};
    const struct cay_json *image;
    const char *repo, *version;
    if (cay_id_is_snapshot(name_or_snapshot)) /* a half of it is a volume, which no image holds */
        return cay_fail(err, CAY_ERR_UNSUPPORTED, "Docker makes no archives of snapshots");
    int r = cay_docker_find_image(d, &a, name_or_snapshot, &image, err);
    if (r < 0)
        return r;
    CAY_CLEANUP(cay_docker_rename_free) struct cay_docker_rename *as = calloc(1, sizeof *as);
    if (!as)
        abort();
    cay_docker_split_name(&a, cay_docker_image_name(&a, tag ? tag : name_or_snapshot), &repo,
                          &version);
    as->name = cay_arena_printf(&a, "%s:%s", repo, version);
    as->out = save;
    as->arg = &saving;
    r = cay_docker_download(
        d, cay_arena_printf(&a, "/images/%s/get", cay_json_get_str(image, "Id", "-")), pass_on, as,
        err);
    return r == 0 ? cay_docker_rename_end(as, err) : r;
}
