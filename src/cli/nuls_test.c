/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/nuls.h"
#include "tests/test.h"

#define FFFD "\xef\xbf\xbd"

static const struct {
    const char *what, *json, *masked, *exact;
    size_t len; /* of exact */
} cases[] = {
    {"none", "\"plain\\n\"", "plain\n", "plain\n", 6},
    {"one", "\"a\\u0000b\"", "a" FFFD "b", "a\0b", 3},
    {"the last", "\"a\\u0000\"", "a" FFFD, "a\0", 2},
    {"beside U+0001", "\"\\u0001\\u0000\\u0002\\u0001\"", "\1" FFFD "\2\1", "\1\0\2\1", 4},
    {"U+0001 alone", "\"\\u0001\\u0002\"", "\1\2", "\1\2", 2},
    {"behind a backslash", "\"\\\\u0000\"", "\\u0000", "\\u0000", 6},
    {"behind two", "\"\\\\\\u0000\"", "\\" FFFD, "\\\0", 2},
};

TEST(nuls_are_read)
{
    for (size_t i = 0; i < COUNT(cases); i++) {
        CAY_AUTO_ARENA struct cay_arena a = {0};
        CAY_AUTO_BUF struct cay_buf shown = {0};
        const struct cay_json *v = NULL;
        struct cay_error err = {0};
        bool hidden = false;
        size_t len = strlen(cases[i].json);
        CHECK_EQ(cases[i].what, cay_nuls_parse(&a, cases[i].json, len, &v, &err), 0);
        CHECK_STR(cases[i].what, v ? v->text : NULL, cases[i].masked);
        v = NULL;
        CHECK_EQ(cases[i].what, cay_nuls_parse_hidden(&a, cases[i].json, len, &v, &hidden, &err),
                 0);
        if (v && hidden)
            cay_nuls_show(&shown, v->text, v->len);
        else if (v)
            cay_buf_add(&shown, v->text, v->len);
        CHECK_EQ(cases[i].what, shown.len, cases[i].len);
        CHECK(cases[i].what, memcmp(shown.data, cases[i].exact, cases[i].len) == 0);
    }
}

TEST(nuls_make_no_json_of_what_is_none)
{
    static const char *const bad[] = {"", "\"\\u0000", "\\u0000", "\"\\u000", "{\"a\\u0000\"}"};
    for (size_t i = 0; i < COUNT(bad); i++) {
        CAY_AUTO_ARENA struct cay_arena a = {0};
        const struct cay_json *v = NULL;
        struct cay_error err = {0};
        bool hidden;
        size_t len = strlen(bad[i]);
        CHECK(bad[i], cay_nuls_parse(&a, bad[i], len, &v, &err) < 0);
        CHECK(bad[i], cay_nuls_parse_hidden(&a, bad[i], len, &v, &hidden, &err) < 0);
    }
}
