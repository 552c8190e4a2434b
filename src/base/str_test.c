/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "tests/test.h"

static const struct {
    const char *text;
    bool is_u64, is_i64;
    int64_t value;
} numbers[] = {
    {"0", true, true, 0},
    {"42", true, true, 42},
    {"-42", false, true, -42},
    {"1000", true, true, 1000},
    {"1001", false, true, 1001}, /* above the maximum given */
    {"", false, false, 0},
    {"-", false, false, 0},
    {"-0", false, false, 0},
    {"+1", false, false, 0},
    {" 1", false, false, 0},
    {"1 ", false, false, 0},
    {"007", false, false, 0},
    {"0x1", false, false, 0},
    {"1e3", false, false, 0},
    {"9223372036854775807", false, true, INT64_MAX},
    {"-9223372036854775808", false, true, INT64_MIN},
    {"9223372036854775808", false, false, 0},
    {"18446744073709551616", false, false, 0},
    {"99999999999999999999999", false, false, 0},
};

TEST(str_unbase64)
{
    static const struct {
        const char *what, *in, *out; /* NULL: refused */
    } cases[] = {{"nothing", "", ""},
                 {"one", "YQ==", "a"},
                 {"two", "YWI=", "ab"},
                 {"three", "YWJj", "abc"},
                 {"bytes", "//79", "\xff\xfe\xfd"},
                 {"no padding", "YQ", NULL},
                 {"padding inside", "YQ==YQ==", NULL},
                 {"too much", "Y===", NULL},
                 {"other letters", "YW-j", NULL},
                 {"NUL", "AAAA", NULL}};
    CAY_AUTO_ARENA struct cay_arena a = {0};
    for (size_t i = 0; i < COUNT(cases); i++) {
        const char *out = NULL;
        bool ok = cay_str_unbase64(&a, cases[i].in, &out);
        CHECK_EQ(cases[i].what, ok, cases[i].out != NULL);
        if (ok)
            CHECK_STR(cases[i].what, out, cases[i].out);
    }
}

TEST(str_numbers_are_read_strictly)
{
    for (size_t i = 0; i < COUNT(numbers); i++) {
        uint64_t u = 0;
        int64_t n = 0;
        CHECK_EQ(numbers[i].text, cay_str_u64(numbers[i].text, 1000, &u), numbers[i].is_u64);
        CHECK_EQ(numbers[i].text, cay_str_i64(numbers[i].text, &n), numbers[i].is_i64);
        CHECK_EQ(numbers[i].text, n, numbers[i].value);
    }
}

static const struct {
    const char *text;
    bool valid;
    size_t whole;
} utf8[] = {
    {"", true, 0},
    {"abcdefghijklmnop", true, 16},
    {"\xC3\xA9", true, 2},
    {"a\xC3", false, 1},
    {"\xE2\x82\xAC", true, 3},
    {"a\xE2\x82", false, 1},
    {"a\xE2", false, 1},
    {"\xF0\x9F\x98\x80", true, 4},
    {"a\xF0\x9F\x98", false, 1},
    {"12345678\xF0\x9F", false, 8},
    {"\xC0\x80", false, 2}, /* never a character: counts as it is */
    {"\xE0\x80", false, 2},
    {"\xED\xA0\x80", false, 3},
    {"\xF4\x90\x80\x80", false, 4},
    {"\x80\x80\x80\x80", false, 4},
    {"a\xFF", false, 2},
};

TEST(str_utf8_is_told_from_other_bytes)
{
    for (size_t i = 0; i < COUNT(utf8); i++) {
        size_t len = strlen(utf8[i].text);
        CHECK_EQ(utf8[i].text, cay_str_is_utf8(utf8[i].text, len), utf8[i].valid);
        CHECK_EQ(utf8[i].text, cay_str_utf8_whole(utf8[i].text, len), utf8[i].whole);
    }
}

static const struct {
    const char *in, *out; /* NULL: refused */
} escapes[] = {
    {"", ""},    {"a+b", "a+b"}, {"%41%2fb", "A/b"}, {"%2541", "%41"}, {"%c3%A9", "\xC3\xA9"},
    {"%", NULL}, {"%4", NULL},   {"%4g", NULL},      {"%00", NULL},    {"a%-1", NULL},
};

TEST(str_percent_decodes_once)
{
    for (size_t i = 0; i < COUNT(escapes); i++) {
        CAY_AUTO_ARENA struct cay_arena a = {0};
        const char *out = NULL;
        bool ok = cay_str_percent(&a, escapes[i].in, strlen(escapes[i].in), &out);
        CHECK_EQ(escapes[i].in, ok, escapes[i].out != NULL);
        CHECK_STR(escapes[i].in, out, escapes[i].out);
    }
}

TEST(str_base64_pads)
{
    static const char *const want[] = {"", "Zg==", "Zm8=", "Zm9v", "Zm9vYg=="};
    for (size_t i = 0; i < COUNT(want); i++) {
        char out[9];
        CHECK_EQ(want[i], cay_str_base64("foob", i, out), strlen(want[i]));
        CHECK_STR(want[i], out, want[i]);
    }
}

TEST(str_copies_are_cut_and_terminated)
{
    char small[4];
    cay_str_copy(small, sizeof small, "abcdef");
    CHECK_STR("cut", small, "abc");
    CHECK("ends", cay_str_ends("name.log", ".log") && !cay_str_ends("og", ".log"));
}

TEST(str_collections_grow_in_the_arena)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    const char *fixed[] = {"x", "y"};
    struct cay_strs list = {.at = fixed, .count = 2};
    cay_strs_push(&a, &list, "z"); /* must not write behind the two */
    CHECK_EQ("count", list.count, 3);
    CHECK_STR("first", list.at[0], "x");
    CHECK_STR("last", list.at[2], "z");
    for (int i = 0; i < 100; i++)
        cay_strs_push(&a, &list, "more");
    CHECK_EQ("count", cay_strs_dup(&a, &list).count, 103);

    struct cay_pairs map = {0};
    cay_pairs_set(&a, &map, "k", "1");
    cay_pairs_set(&a, &map, "k", "2");
    cay_pairs_set(&a, &map, "l", "3");
    struct cay_pairs copy = cay_pairs_dup(&a, &map);
    CHECK_EQ("pairs", copy.count, 2);
    CHECK_STR("replaced", cay_pairs_get(&copy, "k"), "2");
    CHECK_STR("missing", cay_pairs_get(&copy, "m"), NULL);
}
