/* SPDX-License-Identifier: Apache-2.0 */
/* Volumes are volumes. A snapshot is an image, and a volume of the same name: a sandbox's
 * /workspace is a volume, which no commit holds, so our engine copies it, and all of it stands
 * still until both are done. */
#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "model/limits.h"
#include "provider/docker/docker.h"
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static const char *snap_repo(const struct cay_docker *d, struct cay_arena *a)
{
    return cay_arena_printf(a, CAY_DOCKER_SNAPS "%s", d->instance);
}

int cay_docker_is_podman(struct cay_docker *d, struct cay_arena *a, struct cay_error *err)
{
    struct cay_docker_answer answer;
    int known = atomic_load(&d->podman);
    if (known)
        return known > 0;
    int r = cay_docker_call(d, a, "GET", "/version", NULL, &answer, err);
    if (r < 0)
        return r;
    const struct cay_json *parts = cay_json_get(answer.json, "Components");
    const char *first = cay_json_get_str(parts ? parts->first : NULL, "Name", "");
    atomic_store(&d->podman, strstr(first, "Podman") ? 1 : -1);
    return atomic_load(&d->podman) > 0;
}

/* Its name goes, and all of it unless something was made from it. That takes force with Docker, and
 * force takes the containers along with Podman. */
static int drop_image(struct cay_docker *d, struct cay_arena *a, const char *image,
                      struct cay_error *err)
{
    const char *name = cay_docker_encode(a, image), *repo, *tag;
    const struct cay_json *about;
    int podman = cay_docker_is_podman(d, a, err);
    if (podman <= 0)
        return podman < 0 ? podman
                          : cay_docker_call(d, a, "DELETE",
                                            cay_arena_printf(a, "/images/%s?force=true", name),
                                            NULL, NULL, err);
    int r = cay_docker_inspect_image(d, a, image, &about, err);
    const struct cay_json *tags = r == 0 ? cay_json_get(about, "RepoTags") : NULL;
    for (const struct cay_json *t = tags ? tags->first : NULL; t; t = t->next)
        if (t->kind == CAY_JSON_STRING && strcmp(cay_docker_short(t->text), image) == 0)
            image = t->text;
    cay_docker_split_name(a, image, &repo, &tag);
    if (r == 0)
        r = cay_docker_call(d, a, "POST",
                            cay_arena_printf(a, "/libpod/images/%s/untag?repo=%s&tag=%s", name,
                                             cay_docker_encode(a, repo), cay_docker_encode(a, tag)),
                            NULL, NULL, err);
    if (r == 0)
        cay_docker_drop_untagged(d, a, cay_json_get_str(about, "Id", "-"));
    return r;
}

void cay_docker_drop_image(struct cay_docker *d, struct cay_arena *a, const char *image)
{
    struct cay_error ignored; /* an image that stays costs room and nothing else */
    (void)drop_image(d, a, image, &ignored);
}

void cay_docker_drop_untagged(struct cay_docker *d, struct cay_arena *a, const char *image_id)
{
    struct cay_docker_answer answer;
    struct cay_error ignored; /* as above */
    if (cay_docker_call(d, a, "GET", cay_arena_printf(a, "/images/%s/json", image_id), NULL,
                        &answer, &ignored) < 0)
        return;
    const struct cay_json *tags = cay_docker_below(answer.json, "RepoTags");
    if (!tags || !tags->count)
        (void)cay_docker_call(d, a, "DELETE", cay_arena_printf(a, "/images/%s", image_id), NULL,
                              NULL, &ignored);
}

static void drop_copy(struct cay_docker *d, struct cay_arena *a, const char *tag,
                      const char *volume)
{
    struct cay_error ignored; /* as above */
    cay_docker_drop_image(d, a, cay_arena_printf(a, "%s:%s", snap_repo(d, a), tag));
    (void)cay_docker_drop_volume(d, a, volume, &ignored);
}

static int make_volume(struct cay_docker *d, struct cay_arena *a, const char *volume,
                       uint64_t disk_bytes, const char **base_out, struct cay_error *err)
{
    CAY_AUTO_BUF struct cay_buf body = {0};
    struct cay_docker_answer answer = {0};
    cay_docker_write_volume(d, volume, d->sized > 0 ? disk_bytes : 0, &body);
    int r = cay_docker_call(d, a, "POST", "/volumes/create", &body, &answer, err);
    if (r < 0)
        return r;
    const char *place = answer.json ? cay_json_get_str(answer.json, "Mountpoint", "") : "";
    const char *end = strstr(place, cay_arena_printf(a, "/%s/_data", volume));
    if (!end || end - place > CAY_MAX_IMAGE_NAME)
        return cay_fail(err, CAY_ERR_UNSUPPORTED, "Docker's volumes cannot be copied here");
    *base_out = cay_arena_strndup(a, place, (size_t)(end - place));
    return 0;
}

/* What the engine began: the first word of it, and a socket that ends it when it is closed. */
static int ask_aside(struct cay_docker *d, const struct cay_engine_request *rq, int64_t wait_ms,
                     struct cay_engine_done *out, int *fd_out, struct cay_error *err)
{
    CAY_AUTO_FD int fd = -1;
    int r = cay_local_call(&d->local, rq, CAY_ENGINE_CALL_MS, NULL, 0, NULL, &fd, err);
    if (r < 0)
        return r;
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    if (poll(&ready, 1, (int)wait_ms) <= 0)
        return cay_fail(err, CAY_ERR_TIMEOUT, "the engine does not answer");
    if (recv(fd, out, sizeof *out, 0) != (ssize_t)sizeof *out)
        return cay_fail(err, CAY_ERR_PROVIDER, "the engine gave up half way");
    if (out->reply.code < 0)
        return cay_local_told(&out->reply, err);
    *fd_out = cay_take_fd(&fd);
    return 0;
}

/* `disk_bytes` is what the copy may grow to; 0: it does not. */
static int copy_volume(struct cay_docker *d, struct cay_arena *a, const char *from, const char *to,
                       uint64_t disk_bytes, uint64_t *bytes_out, struct cay_error *err)
{
    struct cay_engine_request rq = {.version = CAY_ENGINE_VERSION, .op = CAY_ENGINE_COPY};
    CAY_AUTO_FD int fd = -1;
    struct cay_engine_done done;
    const char *base = "";
    int r = make_volume(d, a, to, disk_bytes, &base, err);
    if (r < 0)
        return r;
    cay_str_copy(rq.id, sizeof rq.id, from);
    cay_str_copy(rq.other, sizeof rq.other, to);
    cay_str_copy(rq.image, sizeof rq.image, base);
    r = ask_aside(d, &rq, CAY_ENGINE_COPY_MS, &done, &fd, err);
    if (r == 0)
        *bytes_out = done.copied.bytes;
    return r;
}

static int commit(struct cay_docker *d, struct cay_arena *a, const char *id, const char *tag,
                  struct cay_error *err)
{
    CAY_AUTO_BUF struct cay_buf nothing = {0}; /* is to change; Podman wants to hear it */
    cay_buf_adds(&nothing, "{}");
    int r =
        cay_docker_call(d, a, "POST",
                        cay_arena_printf(a, "/commit?container=cay-%s&repo=%s&tag=%s&pause=false",
                                         id, snap_repo(d, a), tag),
                        &nothing, NULL, err);
    if (r == CAY_ERR_PROVIDER && strstr(err->msg, "max depth exceeded"))
        return cay_fail_as(err, CAY_ERR_UNPROCESSABLE, "TOO_MANY_LAYERS",
                           "a copy of a copy so often that Docker has no more layers for it");
    return r;
}

/* Everything of a sandbox, in whatever state it is, as an image of that tag and a volume. Docker's
 * copies have no holes: files that are made of them would fill its disk, and are not copied. */
static int copy_all(struct cay_docker *d, struct cay_arena *a, const char *id, const char *tag,
                    const char *volume, uint64_t disk_bytes, struct cay_copied *out,
                    struct cay_error *err)
{
    int64_t began = cay_clock_mono_ms();
    struct cay_engine_done still;
    struct cay_docker_box box;
    struct cay_error moving; /* it has ended, or one of it cannot stand still: copied as it is */
    uint64_t bytes = 0;
    int held = -1;
    int r = cay_docker_measure(d, a, id, &box, err);
    if (r == 0 && *box.disk && box.own_bytes > strtoull(box.disk, NULL, 10))
        r = cay_fail_as(err, CAY_ERR_CONFLICT, "DISK_FULL",
                        "its files, with their holes filled, are larger than its disk");
    if (r < 0)
        return r;
    pthread_mutex_lock(&d->copying);
    struct cay_engine_request hold = cay_docker_request(CAY_ENGINE_HOLD, &box);
    if (box.entry.running && !box.entry.paused &&
        ask_aside(d, &hold, CAY_ENGINE_CALL_MS, &still, &held, &moving) < 0)
        cay_log_error(&moving, "%s is copied while it goes on", id);
    r = commit(d, a, id, tag, err);
    if (r == 0)
        r = copy_volume(d, a, box.volume, volume, disk_bytes, &bytes, err);
    cay_close_fd(&held);
    pthread_mutex_unlock(&d->copying);
    if (r == 0)
        *out = (struct cay_copied){"copy", cay_clock_mono_ms() - began, bytes};
    else
        drop_copy(d, a, tag, volume);
    return r;
}

int cay_docker_snapshot(struct cay_provider *p, const char *id, const char *snapshot_id,
                        struct cay_copied *out, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    return copy_all((struct cay_docker *)p, &a, id, snapshot_id, snapshot_id, 0, out, err);
}

static int from_snapshot(struct cay_docker *d, struct cay_arena *a, const struct cay_spec *spec,
                         const char *image, const char *volume, struct cay_copied *copied,
                         struct cay_error *err)
{
    int64_t began = cay_clock_mono_ms();
    uint64_t bytes = 0;
    int r = cay_docker_call(d, a, "GET",
                            cay_arena_printf(a, "/images/%s/json", cay_docker_encode(a, image)),
                            NULL, NULL, err);
    if (r == CAY_ERR_NOT_FOUND)
        return cay_fail_as(err, r, "SNAPSHOT_NOT_FOUND", "snapshot not found");
    if (r == 0)
        r = copy_volume(d, a, spec->from, volume, spec->disk_bytes, &bytes, err);
    if (r == 0)
        *copied = (struct cay_copied){"copy", cay_clock_mono_ms() - began, bytes};
    return r;
}

int cay_docker_copy(struct cay_docker *d, struct cay_arena *a, const struct cay_spec *spec,
                    const char *id, const char **image_out, bool *temporary_out,
                    struct cay_copied *copied, struct cay_error *err)
{
    struct cay_error ignored; /* the caller has the one that matters */
    char own[CAY_ID_SIZE];
    cay_id_volume(own, id);
    *temporary_out = !cay_id_is_snapshot(spec->from);
    const char *tag = *temporary_out ? cay_arena_printf(a, "fork-%s", id) : spec->from;
    *image_out = cay_arena_printf(a, "%s:%s", snap_repo(d, a), tag);
    int r = *temporary_out ? copy_all(d, a, spec->from, tag, own, spec->disk_bytes, copied, err)
                           : from_snapshot(d, a, spec, *image_out, own, copied, err);
    if (r < 0)
        (void)cay_docker_drop_volume(d, a, own, &ignored);
    return r;
}

/* ---- volumes ---- */

int cay_docker_make_volume(struct cay_docker *d, struct cay_arena *a, const char *volume,
                           uint64_t disk_bytes, struct cay_error *err)
{
    const char *ignored;
    return make_volume(d, a, volume, disk_bytes, &ignored, err);
}

/* With overlay2 it depends on how the filesystem below was mounted; Docker tells when it is asked
 * to, of volumes and of containers alike. */
void cay_docker_try_size(struct cay_docker *d)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    CAY_AUTO_BUF struct cay_buf body = {0};
    struct cay_error ignored; /* an Engine that is away is asked again */
    const char *name = cay_arena_printf(&a, CAY_DOCKER_HELPER "%s", d->instance);
    if (d->sized)
        return;
    int podman = cay_docker_is_podman(d, &a, &ignored); /* it takes a size, and fails to mount it */
    if (podman) {
        d->sized = podman > 0 ? -1 : 0;
        return;
    }
    cay_docker_write_volume(d, name, CAY_MIB, &body);
    int r = cay_docker_call(d, &a, "POST", "/volumes/create", &body, NULL, &ignored);
    if (r == CAY_ERR_UNAVAILABLE || r == CAY_ERR_TIMEOUT)
        return;
    d->sized = r == 0 ? 1 : -1;
    if (r == 0)
        (void)cay_docker_drop_volume(d, &a, name, &ignored);
}

/* One of ours, or not found. */
static int inspect_volume(struct cay_docker *d, struct cay_arena *a, const char *volume,
                          struct cay_error *err)
{
    struct cay_docker_answer answer;
    int r = cay_docker_call(d, a, "GET", cay_arena_printf(a, "/volumes/%s", volume), NULL, &answer,
                            err);
    const struct cay_json *labels =
        r == 0 && answer.json ? cay_json_get(answer.json, "Labels") : NULL;
    bool ours = labels && labels->kind == CAY_JSON_OBJECT &&
                strcmp(cay_json_get_str(labels, CAY_DOCKER_LABEL, ""), d->instance) == 0;
    if (r == CAY_ERR_NOT_FOUND || (r == 0 && !ours))
        return cay_fail_as(err, CAY_ERR_NOT_FOUND, "VOLUME_NOT_FOUND", "volume not found");
    return r;
}

int cay_docker_find_volume(struct cay_docker *d, struct cay_arena *a, const char *volume,
                           const char *id, struct cay_error *err)
{
    const struct cay_json *v = NULL;
    int r = inspect_volume(d, a, volume, err);
    if (r == 0)
        r = cay_docker_list(d, a, "/containers/json?all=true",
                            cay_arena_printf(a, "{\"volume\":[\"%s\"]}", volume), &v, err);
    for (; r == 0 && v; v = v->next)
        if (strcmp(cay_json_get_str(cay_json_get(v, "Labels"), "cay.id", ""), id) != 0)
            return cay_fail_as(err, CAY_ERR_CONFLICT, "VOLUME_IN_USE", "another sandbox has it");
    return r;
}

int cay_docker_drop_volume(struct cay_docker *d, struct cay_arena *a, const char *volume,
                           struct cay_error *err)
{
    if (!*volume)
        return 0;
    int r = cay_docker_call(d, a, "DELETE", cay_arena_printf(a, "/volumes/%s", volume), NULL, NULL,
                            err);
    if (r == CAY_ERR_CONFLICT)
        return cay_fail_as(err, r, "VOLUME_IN_USE", "a sandbox has it");
    return r == CAY_ERR_NOT_FOUND ? 0 : r;
}

int cay_docker_drop(struct cay_provider *p, const char *kept_id, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_docker *d = (struct cay_docker *)p;
    if (cay_id_is_volume(kept_id)) {
        int r = inspect_volume(d, &a, kept_id, err);
        return r == CAY_ERR_NOT_FOUND ? 0 : r < 0 ? r : cay_docker_drop_volume(d, &a, kept_id, err);
    }
    int r = drop_image(d, &a, cay_arena_printf(&a, "%s:%s", snap_repo(d, &a), kept_id), err);
    return r == 0 || r == CAY_ERR_NOT_FOUND ? cay_docker_drop_volume(d, &a, kept_id, err) : r;
}

/* ---- what is kept ---- */

void cay_docker_drop_halves(struct cay_docker *d, struct cay_arena *a)
{
    const struct cay_json *v = NULL;
    struct cay_error ignored; /* they cost room and nothing else */
    (void)cay_docker_list(d, a, "/images/json",
                          cay_arena_printf(a, "{\"reference\":[\"%s:fork-*\"]}", snap_repo(d, a)),
                          &v, &ignored);
    for (; v; v = v->next) {
        const struct cay_json *tags = cay_json_get(v, "RepoTags");
        for (const struct cay_json *t = tags ? tags->first : NULL; t; t = t->next)
            if (t->kind == CAY_JSON_STRING && strstr(t->text, ":fork-"))
                cay_docker_drop_image(d, a, t->text);
    }
}

static void find_snapshots(struct cay_arena *a, const struct cay_json *v, struct cay_strs *out)
{
    for (; v; v = v->next) {
        const struct cay_json *tags = cay_json_get(v, "RepoTags");
        for (const struct cay_json *t = tags ? tags->first : NULL; t; t = t->next) {
            const char *colon = t->kind == CAY_JSON_STRING ? strrchr(t->text, ':') : NULL;
            if (colon && cay_id_is_snapshot(colon + 1))
                cay_strs_push(a, out, colon + 1);
        }
    }
}

static bool has(const struct cay_strs *list, const char *s)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->at[i], s) == 0)
            return true;
    return false;
}

/* Of sandboxes: with Podman "dangling" and a label are one or the other. */
static int find_taken(struct cay_docker *d, struct cay_arena *a, struct cay_strs *out,
                      struct cay_error *err)
{
    const struct cay_json *v = NULL;
    int r = cay_docker_is_podman(d, a, err);
    if (r <= 0)
        return r;
    r = cay_docker_list(
        d, a, "/containers/json?all=true",
        cay_arena_printf(a, "{\"label\":[\"" CAY_DOCKER_LABEL "=%s\"]}", d->instance), &v, err);
    for (; v; v = v->next)
        cay_strs_push(a, out, cay_json_get_str(cay_json_get(v, "Labels"), "cay.volume", ""));
    return r;
}

static bool is_kept(const struct cay_docker *d, const struct cay_json *volume, const char *name)
{
    const struct cay_json *labels = cay_json_get(volume, "Labels");
    return (cay_id_is_volume(name) || cay_id_is_snapshot(name)) &&
           strcmp(cay_json_get_str(labels, CAY_DOCKER_LABEL, ""), d->instance) == 0;
}

/* Whoever asks takes what is not told for gone, so half an answer is none. */
static int find_volumes(struct cay_docker *d, struct cay_arena *a, struct cay_strs *out,
                        struct cay_error *err)
{
    struct cay_docker_answer answer;
    struct cay_strs taken = {0};
    const char *filters = cay_arena_printf(
        a, "{\"dangling\":[\"true\"],\"label\":[\"" CAY_DOCKER_LABEL "=%s\"]}", d->instance);
    int r = find_taken(d, a, &taken, err);
    if (r == 0)
        r = cay_docker_call(
            d, a, "GET", cay_arena_printf(a, "/volumes?filters=%s", cay_docker_encode(a, filters)),
            NULL, &answer, err);
    const struct cay_json *list = r == 0 ? cay_json_get(answer.json, "Volumes") : NULL;
    if (r == 0 && (!list || (list->kind != CAY_JSON_ARRAY && list->kind != CAY_JSON_NULL)))
        return cay_fail(err, CAY_ERR_PROVIDER, "Docker's answer is no list of volumes");
    for (const struct cay_json *v = list ? list->first : NULL; v; v = v->next) {
        const char *name = cay_json_get_str(v, "Name", "");
        if (is_kept(d, v, name) && !has(out, name) && !has(&taken, name))
            cay_strs_push(a, out, name);
    }
    return r;
}

/* A half of a snapshot counts as one, so that it is found and removed. */
int cay_docker_kept(struct cay_provider *p, struct cay_arena *a, struct cay_strs *out,
                    struct cay_error *err)
{
    struct cay_docker *d = (struct cay_docker *)p;
    struct cay_strs found = {0};
    const struct cay_json *images = NULL;
    int r = cay_docker_list(d, a, "/images/json",
                            cay_arena_printf(a, "{\"reference\":[\"%s\"]}", snap_repo(d, a)),
                            &images, err);
    find_snapshots(a, images, &found);
    if (r == 0)
        r = find_volumes(d, a, &found, err);
    if (r == 0)
        *out = found;
    return r;
}
