/* SPDX-License-Identifier: Apache-2.0 */
#include "core/image.h"
#include "core/core.h"
#include <stdio.h>
#include <string.h>

/* Known by other names as well: the first is the beginning of a name, which may go on with one of
 * the endings. Recipes make what they stand for. */
static const struct {
    const char *begins, *image;
    bool runtime; /* it is a word for one, as it stands */
} known[] = {
    {"node:18", "node:18-bookworm", false},
    {"node:20", "node:20-bookworm", false},
    {"node:22", "node:22-bookworm", false},
    {"node:24", "node:24-bookworm", false},
    {"python:3.11", "python:3.11", false},
    {"python:3.13", "python:3.13", false},
    {"python:3", "python:3.13", false},
    {"debian:bookworm", "debian:bookworm", false},
    {"debian:12", "debian:bookworm", false},
    {"debian", "debian:bookworm", false},
    {"busybox:latest", "busybox", false},
    {"busybox:stable", "busybox", false},
    {"@ai-sandbox/python", "python:3.11", false},
    {"@ai-sandbox/node", "node:20-bookworm", false},
    {"@ai-sandbox/base", "base", false},
    {"node", CAY_DEFAULT_IMAGE, true},
    {"node18", "node:18-bookworm", true},
    {"node20", "node:20-bookworm", true},
    {"node22", "node:22-bookworm", true},
    {"node24", "node:24-bookworm", true},
    {"python", "python:3.13", true},
    {"python3.11", "python:3.11", true},
    {"python3.12", "python:3.12", true},
    {"python3.13", "python:3.13", true},
};
static const char *const endings[] = {
    "", "-slim", "-alpine", "-bookworm", "-slim-bookworm", "-bookworm-slim", "-trixie"};

static const char *alias_of(const struct cay_core *core, const char *name)
{
    return core->aliases ? cay_pairs_get(core->aliases, name) : NULL;
}

static const char *known_as(const char *name)
{
    for (size_t i = 0; i < CAY_COUNT(known); i++) {
        size_t len = strlen(known[i].begins);
        if (strncmp(name, known[i].begins, len) != 0 || strcmp(name, known[i].image) == 0)
            continue;
        for (size_t k = 0; k < CAY_COUNT(endings); k++)
            if (strcmp(name + len, endings[k]) == 0)
                return known[i].image;
    }
    return NULL;
}

size_t cay_image_names(const struct cay_core *core, const char *name,
                       const char *out[CAY_IMAGE_NAMES])
{
    const char *alias = alias_of(core, name);
    out[0] = alias ? alias : name;
    out[1] = known_as(out[0]);
    return out[1] ? 2 : 1;
}

bool cay_image_same(const struct cay_core *core, const char *one, const char *other)
{
    const char *names[CAY_IMAGE_NAMES], *others[CAY_IMAGE_NAMES];
    size_t count = cay_image_names(core, one, names);
    size_t other_count = cay_image_names(core, other, others);
    return strcmp(names[count - 1], others[other_count - 1]) == 0;
}

const char *cay_image_of_runtime(const struct cay_core *core, const char *runtime)
{
    const char *alias = alias_of(core, runtime);
    for (size_t i = 0; !alias && i < CAY_COUNT(known); i++)
        if (known[i].runtime && strcmp(runtime, known[i].begins) == 0)
            alias = known[i].image;
    return alias;
}

static bool has(const struct cay_strs *list, const char *name)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->at[i], name) == 0)
            return true;
    return false;
}

int cay_image_plan(struct cay_core *core, const char *name, enum cay_pull_policy policy,
                   struct cay_arena *a, const char **fetch_out, struct cay_error *err)
{
    const char *names[CAY_IMAGE_NAMES];
    if (!cay_images_are_asked_for(core, name, policy))
        return cay_image_recipe(core, name, a, fetch_out, err);
    (void)cay_image_names(core, name, names);
    *fetch_out = names[0];
    return 0;
}

int cay_image_recipe(struct cay_core *core, const char *name, struct cay_arena *a,
                     const char **build_out, struct cay_error *err)
{
    const char *names[CAY_IMAGE_NAMES];
    struct cay_strs recipes = {0};
    size_t count = cay_image_names(core, name, names);
    int r = cay_provider_recipes(core->provider, a, &recipes, err);
    if (r < 0)
        return cay_wrap(err, "cannot look for a recipe that makes %s", name);
    for (size_t i = 0; i < count; i++)
        if (has(&recipes, names[i])) {
            *build_out = names[i];
            return 0;
        }
    const char *why = recipes.count > 0 ? "no recipe makes it" : "there are no recipes";
    (void)cay_fail_as(err, CAY_ERR_NOT_FOUND, "IMAGE_NOT_FOUND", "image not found: %s", name);
    if (alias_of(core, name))
        cay_error_tried(err, "alias", cay_arena_printf(a, "it stands for %s", names[0]));
    for (size_t i = 0; i < count; i++) {
        cay_error_tried(err, cay_arena_printf(a, "local store: %s", names[i]), "not there");
        cay_error_tried(err, cay_arena_printf(a, "recipe: %s", names[i]), why);
    }
    return err->code;
}
