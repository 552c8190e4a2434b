/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots are images, volumes are volumes. A sandbox's /workspace is a volume, which no commit
 * holds; so a snapshot is a commit with the workspace laid on it, and a new volume is filled by the
 * Engine from the image that is mounted under it. */
#include "base/clock.h"
#include "base/path.h"
#include "model/limits.h"
#include "provider/docker/docker.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const char *snap_repo(const struct cay_docker *d, struct cay_arena *a)
{
    return cay_arena_printf(a, CAY_DOCKER_SNAPS "%s", d->instance);
}

void cay_docker_drop_image(struct cay_docker *d, struct cay_arena *a, const char *image)
{
    struct cay_error ignored; /* an image that stays costs room and nothing else */
    (void)cay_docker_call(d, a, "DELETE",
                          cay_arena_printf(a, "/images/%s?force=true", cay_docker_encode(a, image)),
                          NULL, NULL, &ignored);
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

static int spool(void *arg, const char *data, size_t len, struct cay_error *err)
{
    const int *fd = arg;
    while (len) {
        ssize_t n = write(*fd, data, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot hold a copy of /workspace");
        data += n;
        len -= (size_t)n;
    }
    return 0;
}

/* Everything of a sandbox, in whatever state it is, as REPO:TAG. Its files and then its workspace:
 * two moments. */
static int copy_all(struct cay_docker *d, struct cay_arena *a, const char *id, const char *tag,
                    struct cay_copied *out, struct cay_error *err)
{
    const char *repo = snap_repo(d, a), *half = cay_arena_printf(a, "half-%s", tag);
    int64_t began = cay_clock_mono_ms();
    struct cay_docker_box box;
    struct stat st;
    int r = cay_docker_inspect(d, a, id, &box, err);
    if (r < 0)
        return r;
    CAY_AUTO_FD int tar = openat(d->local.data_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (tar < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot hold a copy of /workspace");
    r = cay_docker_call(
        d, a, "POST",
        cay_arena_printf(a, "/commit?container=cay-%s&repo=%s&tag=%s", id, repo, half), NULL, NULL,
        err);
    if (r < 0)
        return r;
    r = cay_docker_download(
        d, cay_arena_printf(a, "%s/archive?path=" CAY_DOCKER_WORKSPACE, cay_docker_name(a, id)),
        spool, &tar, err);
    const char *base = cay_arena_printf(a, "%s:%s", repo, half);
    if (r == 0 && (fstat(tar, &st) < 0 || lseek(tar, 0, SEEK_SET) < 0))
        r = cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot hold a copy of /workspace");
    if (r == 0)
        r = cay_docker_add_files(d, a, base, tar, st.st_size, repo, tag, NULL, err);
    cay_docker_drop_image(d, a, base);
    if (r == 0)
        *out = (struct cay_copied){"copy", cay_clock_mono_ms() - began, (uint64_t)st.st_size};
    return r;
}

int cay_docker_snapshot(struct cay_provider *p, const char *id, const char *snapshot_id,
                        struct cay_copied *out, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    return copy_all((struct cay_docker *)p, &a, id, snapshot_id, out, err);
}

int cay_docker_copy(struct cay_docker *d, struct cay_arena *a, const char *from, const char *id,
                    const char **image_out, bool *temporary_out, struct cay_copied *copied,
                    struct cay_error *err)
{
    struct cay_docker_answer answer;
    *temporary_out = !cay_id_is_snapshot(from);
    const char *tag = *temporary_out ? cay_arena_printf(a, "fork-%s", id) : from;
    const char *image = cay_arena_printf(a, "%s:%s", snap_repo(d, a), tag);
    *image_out = image;
    if (*temporary_out)
        return copy_all(d, a, from, tag, copied, err);
    int r = cay_docker_call(d, a, "GET",
                            cay_arena_printf(a, "/images/%s/json", cay_docker_encode(a, image)),
                            NULL, &answer, err);
    if (r == CAY_ERR_NOT_FOUND)
        return cay_fail_as(err, r, "SNAPSHOT_NOT_FOUND", "snapshot not found");
    if (r == 0)
        *copied = (struct cay_copied){"copy", 0, 0};
    return r;
}

/* ---- volumes ---- */

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
                           struct cay_error *err)
{
    struct cay_docker_answer answer;
    int r = inspect_volume(d, a, volume, err);
    if (r < 0)
        return r;
    const char *filters =
        cay_docker_encode(a, cay_arena_printf(a, "{\"volume\":[\"%s\"]}", volume));
    r = cay_docker_call(d, a, "GET",
                        cay_arena_printf(a, "/containers/json?all=true&filters=%s", filters), NULL,
                        &answer, err);
    if (r == 0 && answer.json && answer.json->count)
        return cay_fail_as(err, CAY_ERR_CONFLICT, "VOLUME_IN_USE", "another sandbox has it");
    return r;
}

int cay_docker_drop_volume(struct cay_docker *d, struct cay_arena *a, const char *volume,
                           struct cay_error *err)
{
    int r = *volume ? inspect_volume(d, a, volume, err) : CAY_ERR_NOT_FOUND;
    if (r == 0)
        r = cay_docker_call(d, a, "DELETE", cay_arena_printf(a, "/volumes/%s", volume), NULL, NULL,
                            err);
    if (r == CAY_ERR_CONFLICT)
        return cay_fail_as(err, r, "VOLUME_IN_USE", "a sandbox has it");
    return r == CAY_ERR_NOT_FOUND ? 0 : r;
}

int cay_docker_drop(struct cay_provider *p, const char *kept_id, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_docker *d = (struct cay_docker *)p;
    if (cay_id_is_volume(kept_id))
        return cay_docker_drop_volume(d, &a, kept_id, err);
    const char *image = cay_arena_printf(&a, "%s:%s", snap_repo(d, &a), kept_id);
    int r =
        cay_docker_call(d, &a, "DELETE",
                        cay_arena_printf(&a, "/images/%s?force=true", cay_docker_encode(&a, image)),
                        NULL, NULL, err);
    return r == CAY_ERR_NOT_FOUND ? 0 : r;
}

/* ---- what is kept ---- */

static int ask_list(struct cay_docker *d, struct cay_arena *a, const char *path,
                    const char *filters, const struct cay_json **out, struct cay_error *err)
{
    struct cay_docker_answer answer;
    int r = cay_docker_call(
        d, a, "GET", cay_arena_printf(a, "%s?filters=%s", path, cay_docker_encode(a, filters)),
        NULL, &answer, err);
    if (r == 0)
        *out = answer.json;
    return r;
}

int cay_docker_kept(struct cay_provider *p, struct cay_arena *a, struct cay_strs *out,
                    struct cay_error *err)
{
    struct cay_docker *d = (struct cay_docker *)p;
    struct cay_strs found = {0};
    const struct cay_json *images = NULL, *answer = NULL;
    int r =
        ask_list(d, a, "/images/json",
                 cay_arena_printf(a, "{\"reference\":[\"%s\"]}", snap_repo(d, a)), &images, err);
    if (r == 0)
        r = ask_list(
            d, a, "/volumes",
            cay_arena_printf(a, "{\"dangling\":[\"true\"],\"label\":[\"" CAY_DOCKER_LABEL "=%s\"]}",
                             d->instance),
            &answer, err);
    if (r < 0)
        return r;
    for (const struct cay_json *v = images ? images->first : NULL; v; v = v->next) {
        const struct cay_json *tags = cay_json_get(v, "RepoTags");
        for (const struct cay_json *t = tags ? tags->first : NULL; t; t = t->next) {
            const char *colon = t->text ? strrchr(t->text, ':') : NULL;
            if (colon && cay_id_is_snapshot(colon + 1))
                cay_strs_push(a, &found, colon + 1);
        }
    }
    const struct cay_json *volumes = answer ? cay_json_get(answer, "Volumes") : NULL;
    for (const struct cay_json *v = volumes ? volumes->first : NULL; v; v = v->next) {
        const char *name = cay_json_get_str(v, "Name", "");
        if (cay_id_is_volume(name))
            cay_strs_push(a, &found, name);
    }
    *out = found;
    return 0;
}
