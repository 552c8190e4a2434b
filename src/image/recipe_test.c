/* SPDX-License-Identifier: Apache-2.0 */
#include "image/recipe.h"
#include "model/limits.h"
#include "tests/test.h"
#include <string.h>

static const struct {
    const char *name, *text, *want; /* NULL: it is none */
} cases[] = {
    {"the first line", "name a:1\nextract x\n", "a:1"},
    {"with blanks", "# c\n\n  name \t our/web:1  \r\n", "our/web:1"},
    {"without an end of line", "debian bookworm\nname x", "x"},
    {"no name", "debian bookworm\n", NULL},
    {"an empty one", "name\n", NULL},
    {"an empty one with a blank", "name  \nfoo x\n", NULL},
    {"two words", "name a b\n", NULL},
    {"another directive", "names a\n", NULL},
    {"a bad letter", "name a;b\n", NULL},
    {"nothing", "", NULL},
};

TEST(recipe_names_its_image)
{
    for (size_t i = 0; i < COUNT(cases); i++) {
        CAY_AUTO_ARENA struct cay_arena a = {0};
        struct cay_error err = {0};
        const char *name = NULL;
        int r = cay_recipe_name(&a, cases[i].text, &name, &err);
        CHECK_EQ(cases[i].name, r, cases[i].want ? 0 : CAY_ERR_INVALID);
        if (r == 0)
            CHECK_STR(cases[i].name, name, cases[i].want);
        else
            CHECK_STR(cases[i].name, err.field, "recipe");
    }
}

TEST(recipe_is_bounded)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_error err = {0};
    const char *name;
    char *text = cay_arena_alloc(&a, CAY_RECIPE_BYTES + 16);
    memset(text, '#', CAY_RECIPE_BYTES + 8);
    memcpy(text, "name x\n", 7);
    CHECK_EQ("too much", cay_recipe_name(&a, text, &name, &err), CAY_ERR_INVALID);
}
