/* SPDX-License-Identifier: Apache-2.0 */
#include "core/seal.h"
#include "tests/fixture.h"
#include <string.h>

static struct cay_pairs pairs(struct fixture *f, const char *key, const char *value)
{
    struct cay_pairs map = {0};
    cay_pairs_push(&f->a, &map, key, value);
    return map;
}

TEST(seal_opens_for_its_owner_only)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_pairs sealed = {0}, again = {0}, env = {0}, one;
    fixture_open(&f);
    one = pairs(&f, "TOKEN", "open sesame");
    CHECK_EQ("sealed", cay_seal_all(f.core, "ann", &one, &f.a, &sealed, &err), 0);
    CHECK_EQ("again", cay_seal_all(f.core, "ann", &one, &f.a, &again, &err), 0);
    CHECK("no two are alike", strcmp(sealed.at[0].value, again.at[0].value) != 0);
    CHECK("not to be read", !strstr(sealed.at[0].value, "sesame"));
    CHECK_EQ("opens", cay_unseal_all(f.core, "ann", &sealed, &f.a, &env, &err), 0);
    CHECK_STR("as it was", cay_pairs_get(&env, "TOKEN"), "open sesame");

    CHECK_EQ("another's", cay_unseal_all(f.core, "bob", &sealed, &f.a, &env, &err),
             CAY_ERR_INTERNAL);
    CHECK_STR("says so", cay_error_name(&err), "SECRET_UNREADABLE");
    CHECK("names it", strstr(err.msg, "TOKEN"));
    one = pairs(&f, "OTHER", sealed.at[0].value);
    CHECK_EQ("under another name", cay_unseal_all(f.core, "ann", &one, &f.a, &env, &err),
             CAY_ERR_INTERNAL);
    f.core->secrets_key[7] ^= 1;
    CHECK_EQ("another key", cay_unseal_all(f.core, "ann", &sealed, &f.a, &env, &err),
             CAY_ERR_INTERNAL);
    f.core->secrets_key[7] ^= 1;
    for (size_t i = 0; i + 1 < strlen(sealed.at[0].value); i++) {
        char *text = cay_arena_strdup(&f.a, sealed.at[0].value);
        text[i] = text[i] == 'A' ? 'B' : 'A';
        one = pairs(&f, "TOKEN", text);
        CHECK_EQ(text, cay_unseal_all(f.core, "ann", &one, &f.a, &env, &err), CAY_ERR_INTERNAL);
    }
    static const char *const damaged[] = {"", "x", "AAAA", "===="};
    for (size_t i = 0; i < COUNT(damaged); i++) {
        one = pairs(&f, "TOKEN", damaged[i]);
        CHECK_EQ(damaged[i], cay_unseal_all(f.core, "ann", &one, &f.a, &env, &err),
                 CAY_ERR_INTERNAL);
    }
    fixture_close(&f);
}

TEST(seal_replaces_and_removes)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_pairs sealed = {0}, env = {0}, change;
    fixture_open(&f);
    change = pairs(&f, "A", "1");
    cay_pairs_push(&f.a, &change, "B", "2");
    CHECK_EQ("two", cay_seal_all(f.core, "ann", &change, &f.a, &sealed, &err), 0);
    change = pairs(&f, "A", NULL);
    cay_pairs_push(&f.a, &change, "B", "");
    cay_pairs_push(&f.a, &change, "gone already", NULL);
    CHECK_EQ("changed", cay_seal_all(f.core, "ann", &change, &f.a, &sealed, &err), 0);
    CHECK_EQ("one is left", sealed.count, 1);
    CHECK_EQ("opens", cay_unseal_all(f.core, "ann", &sealed, &f.a, &env, &err), 0);
    CHECK_STR("replaced, and empty", cay_pairs_get(&env, "B"), "");
    change = pairs(&f, "a=b", "1");
    CHECK_EQ("no name", cay_seal_all(f.core, "ann", &change, &f.a, &sealed, &err), CAY_ERR_INVALID);
    CHECK_STR("its field", err.field, "secrets");
    change = (struct cay_pairs){0};
    for (int i = 0; i <= CAY_MAX_SECRETS; i++)
        cay_pairs_push(&f.a, &change, cay_arena_printf(&f.a, "S%d", i), "x");
    CHECK_EQ("too many", cay_seal_all(f.core, "ann", &change, &f.a, &sealed, &err),
             CAY_ERR_INVALID);
    CHECK_EQ("nothing was changed", sealed.count, 1);
    fixture_close(&f);
}
