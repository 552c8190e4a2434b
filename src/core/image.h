/* SPDX-License-Identifier: Apache-2.0 */
/* Names of images: what a caller wrote, and which image that is.
 *
 * A name that the operator gave a meaning (alias) is that. Otherwise it is looked for as it stands:
 * in the local store, then among the recipes. What nobody has under its own name may still be known
 * under another (`python:3.11-slim` is our `python:3.11`, the runtime `node22` is our
 * `node:22-bookworm`), which is looked for in the same places. All dialects' names go through here.
 */
#pragma once
#include "base/arena.h"
#include "base/error.h"
#include "model/image.h"
#include <stdbool.h>

struct cay_core;

#define CAY_IMAGE_NAMES 2

/* The names that the local store may have it under, the best first. They live as long as `name` and
 * the core. */
size_t cay_image_names(const struct cay_core *core, const char *name,
                       const char *out[CAY_IMAGE_NAMES]);
/* The store has none of them: the name to fetch it by, from its registry or by a recipe. Where no
 * registry is asked, as below. */
int cay_image_plan(struct cay_core *core, const char *name, enum cay_pull_policy policy,
                   struct cay_arena *a, const char **fetch_out, struct cay_error *err);
/* The name that a recipe makes. CAY_ERR_NOT_FOUND, "IMAGE_NOT_FOUND", with all that was tried. */
int cay_image_recipe(struct cay_core *core, const char *name, struct cay_arena *a,
                     const char **build_out, struct cay_error *err);
/* Do both mean the same image? */
bool cay_image_same(const struct cay_core *core, const char *one, const char *other);
/* What a runtime is made of: by an alias, or one that everybody knows; NULL: nobody does. */
const char *cay_image_of_runtime(const struct cay_core *core, const char *runtime);
