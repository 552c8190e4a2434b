/* SPDX-License-Identifier: Apache-2.0 */
/* What images are called: by callers, by us, by the Engine. */
#include "image/ref.h"
#include "image/text.h"
#include "provider/docker/docker.h"
#include <string.h>

#define DIGEST_TAG "sha256-"
#define PODMANS "localhost/" /* before names that say no registry */

const char *cay_docker_image_name(struct cay_arena *a, const char *name)
{
    const char *at = strstr(name, "@sha256:");
    if (!at)
        return name;
    char *repo = cay_arena_strndup(a, name, (size_t)(at - name));
    char *colon = strrchr(repo, ':');
    if (colon && !strchr(colon, '/'))
        *colon = 0;
    return cay_arena_printf(a, "%s:" DIGEST_TAG "%s", repo, at + strlen("@sha256:"));
}

const char *cay_docker_short(const char *tag)
{
    static const char *const prefixes[] = {"docker.io/library/", "docker.io/", PODMANS};
    for (size_t i = 0; i < CAY_COUNT(prefixes); i++)
        if (strncmp(tag, prefixes[i], strlen(prefixes[i])) == 0)
            return tag + strlen(prefixes[i]);
    return tag;
}

static const char *with_digest(struct cay_arena *a, const char *tag)
{
    const char *colon = strrchr(tag, ':');
    if (!colon || strncmp(colon + 1, DIGEST_TAG, strlen(DIGEST_TAG)) != 0)
        return tag;
    const char *digest = cay_arena_printf(a, "sha256:%s", colon + 1 + strlen(DIGEST_TAG));
    if (!cay_digest_hex(digest)) /* a tag that somebody else had that thought for */
        return tag;
    return cay_arena_printf(a, "%.*s@%s", (int)(colon - tag), tag, digest);
}

const char *cay_docker_our_name(struct cay_arena *a, const char *tag)
{
    return with_digest(a, cay_docker_short(tag));
}

/* A colon before the last slash is a port. */
void cay_docker_split_name(struct cay_arena *a, const char *name, const char **repo,
                           const char **tag)
{
    const char *colon = strrchr(name, ':');
    bool has_tag = colon && !strchr(colon, '/');
    *repo = has_tag ? cay_arena_strndup(a, name, (size_t)(colon - name)) : name;
    *tag = has_tag ? colon + 1 : "latest";
}

/* The one form of all that mean the same to the Engine; NULL: no name. */
static const char *one_form(struct cay_arena *a, const char *name)
{
    struct cay_ref ref;
    struct cay_error ignored; /* what is no name is nobody's */
    if (strncmp(name, PODMANS, strlen(PODMANS)) == 0)
        name += strlen(PODMANS);
    if (cay_ref_parse(a, with_digest(a, name), &ref, &ignored) < 0)
        return NULL;
    if (ref.digest)
        ref.tag = NULL;
    return cay_ref_short(a, &ref);
}

static bool is_ours(const char *form)
{
    static const size_t fits = sizeof CAY_DOCKER_FITS - 1;
    return (strncmp(form, CAY_DOCKER_FITS, fits) == 0 &&
            (form[fits] == ':' || form[fits] == '@')) ||
           strncmp(form, CAY_DOCKER_SNAPS, strlen(CAY_DOCKER_SNAPS)) == 0;
}

bool cay_docker_is_inner(struct cay_arena *a, const char *name)
{
    const char *form = one_form(a, name);
    return !form || is_ours(form);
}

int cay_docker_refuse_inner(struct cay_arena *a, const char *name, struct cay_error *err)
{
    if (!cay_docker_is_inner(a, name))
        return 0;
    (void)cay_fail_field(err, "image", "no name that an image can get: %.100s", name);
    err->name = "INVALID_IMAGE_NAME";
    return CAY_ERR_INVALID;
}

int cay_docker_no_image(const char *name, struct cay_error *err)
{
    return cay_fail_as(err, CAY_ERR_NOT_FOUND, "IMAGE_NOT_FOUND", "image not found: %.100s", name);
}

const char *cay_docker_called(struct cay_arena *a, const struct cay_json *image, const char *name)
{
    static const char *const lists[] = {"RepoTags", "RepoDigests"};
    const char *want = one_form(a, name);
    if (!want || is_ours(want))
        return NULL;
    for (size_t i = 0; i < CAY_COUNT(lists); i++) {
        const struct cay_json *list = cay_docker_below(image, lists[i]);
        for (const struct cay_json *v = list ? list->first : NULL; v; v = v->next) {
            const char *form = v->kind == CAY_JSON_STRING ? one_form(a, v->text) : NULL;
            if (form && strcmp(form, want) == 0)
                return v->text;
        }
    }
    return NULL;
}
