/* SPDX-License-Identifier: Apache-2.0 */
#include "image/recipe.h"
#include "model/limits.h"
#include <string.h>

static const char blanks[] = " \t\r\v\f";

int cay_recipe_name(struct cay_arena *a, const char *text, const char **out, struct cay_error *err)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "._:/@-";
    if (strlen(text) > (size_t)CAY_RECIPE_BYTES)
        return cay_fail_field(err, "recipe", "a recipe has at most %lld bytes",
                              (long long)CAY_RECIPE_BYTES);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        line += strspn(line, blanks);
        if (strncmp(line, "name", 4) != 0 || !line[4] || !strchr(blanks, line[4]))
            continue;
        line += 4 + strspn(line + 4, blanks);
        size_t len = strspn(line, letters);
        const char *rest = line + len + strspn(line + len, blanks);
        if (len == 0 || len > CAY_MAX_IMAGE_NAME || (*rest && *rest != '\n'))
            break;
        *out = cay_arena_strndup(a, line, len);
        return 0;
    }
    return cay_fail_field(err, "recipe", "the recipe does not say how its image is called: name X");
}
