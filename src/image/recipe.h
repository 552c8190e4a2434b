/* SPDX-License-Identifier: Apache-2.0 */
/* Recipes, as far as anybody but their builder reads them: tools/image-build holds the language. */
#pragma once
#include "base/arena.h"
#include "base/error.h"

/* What stands behind `name` in it. CAY_ERR_INVALID with the field "recipe": nothing that can be the
 * name of an image, or more text than a recipe has. */
int cay_recipe_name(struct cay_arena *a, const char *text, const char **out, struct cay_error *err);
