/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"
#include "model/limits.h"
#include "tests/test.h"
#include <math.h>

static int parse(struct cay_arena *a, const char *text, size_t len, const struct cay_json **out,
                 struct cay_error *err)
{
    /* An exact copy, so that a sanitizer sees a read behind the end. */
    CAY_AUTO_FREE char *copy = malloc(len ? len : 1);
    memcpy(copy, text, len);
    return cay_json_parse(a, copy, len, out, err);
}

static const char *const taken[] = {
    "null",
    "true",
    " false\n",
    "0",
    "-0",
    "1.5e+3",
    "NaN",
    "-Infinity",
    "\"\"",
    "[]",
    "{}",
    "[1,2,[3]]",
    "{\"a\":1,\"b\":{\"a\":2}}",
    "\"\xE2\x82\xAC \\ud83d\\ude00\"",
    "\t\r\n [ ] ",
};

static const char *const refused[] = {
    "",
    " ",
    "nul",
    "nulll",
    "+1",
    "01",
    "1.",
    ".5",
    "1e",
    "1e+",
    "-",
    "-NaN",
    "0x10",
    "'a'",
    "[1,]",
    "[1 2]",
    "[",
    "[1",
    "{\"a\"}",
    "{\"a\":}",
    "{\"a\":1,}",
    "{a:1}",
    "{\"a\":1 \"b\":2}",
    "{\"a\":1,\"a\":2}",
    "{\"a\":1,\"\\u0061\":2}",
    "1 2",
    "{}{}",
    "\"",
    "\"a",
    "\"\\",
    "\"\\\"",
    "\"\\x\"",
    "\"\\u12\"34\"",
    "\"\\u0000\"",
    "\"\\ud800\"",
    "\"\\ud800\\u0041\"",
    "\"\\udc00\"",
    "\"\\ud83d\\",
    "\"\n\"",
    "\"\x80\"",
    "\"\xC0\xAF\"",
    "\"\xED\xA0\x80\"",
    "\"\xF5\x80\x80\x80\"",
    "\"\xE2\x82\"",
    "\xEF\xBB\xBF{}",
    "// a\n1",
};

TEST(json_takes_what_is_json)
{
    for (size_t i = 0; i < COUNT(taken); i++) {
        CAY_AUTO_ARENA struct cay_arena a = {0};
        struct cay_error err = {0};
        const struct cay_json *v = NULL;
        CHECK_EQ(taken[i], parse(&a, taken[i], strlen(taken[i]), &v, &err), 0);
        CHECK(taken[i], v);
    }
}

TEST(json_refuses_all_else)
{
    for (size_t i = 0; i < COUNT(refused); i++) {
        CAY_AUTO_ARENA struct cay_arena a = {0};
        struct cay_error err = {0};
        const struct cay_json *v = NULL;
        CHECK_EQ(refused[i], parse(&a, refused[i], strlen(refused[i]), &v, &err), CAY_ERR_INVALID);
        CHECK_STR(refused[i], cay_error_name(&err), "INVALID_JSON");
        CHECK(refused[i], !v);
    }
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_error err = {0};
    const struct cay_json *v;
    CHECK_EQ("a raw NUL", parse(&a, "\"a\0b\"", 5, &v, &err), CAY_ERR_INVALID);
    CHECK_EQ("a NUL behind", parse(&a, "1\0", 2, &v, &err), CAY_ERR_INVALID);
}

static int parse_depth(size_t depth)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    CAY_AUTO_BUF struct cay_buf b = {0};
    struct cay_error err = {0};
    const struct cay_json *v;
    for (size_t i = 0; i < depth; i++)
        cay_buf_addc(&b, '[');
    for (size_t i = 0; i < depth; i++)
        cay_buf_addc(&b, ']');
    return parse(&a, b.data, b.len, &v, &err);
}

TEST(json_bounds_depth_and_number_of_values)
{
    CHECK_EQ("the limit", parse_depth(CAY_JSON_DEPTH), 0);
    CHECK_EQ("one more", parse_depth(CAY_JSON_DEPTH + 1), CAY_ERR_INVALID);
    CHECK_EQ("far more", parse_depth(100000), CAY_ERR_INVALID);

    CAY_AUTO_ARENA struct cay_arena a = {0};
    CAY_AUTO_BUF struct cay_buf b = {0};
    struct cay_error err = {0};
    const struct cay_json *v;
    cay_buf_addc(&b, '[');
    for (long long i = 0; i < CAY_JSON_VALUES; i++)
        cay_buf_adds(&b, "0,");
    cay_buf_adds(&b, "0]");
    CHECK_EQ("values", parse(&a, b.data, b.len, &v, &err), CAY_ERR_INVALID);
}

/* An object of so many keys, of which the last repeats the first when asked for. */
static int parse_keys(int count, bool doubled)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    CAY_AUTO_BUF struct cay_buf b = {0};
    struct cay_error err = {0};
    const struct cay_json *v;
    for (int i = 0; i < count; i++)
        cay_buf_addf(&b, "%s\"k%d\":%d", i ? "," : "{", doubled && i == count - 1 ? 0 : i, i);
    cay_buf_addc(&b, '}');
    return parse(&a, b.data, b.len, &v, &err);
}

TEST(json_finds_doubled_keys_in_objects_of_any_size)
{
    static const int counts[] = {2, 11, 12, 13, 14, 100, 50000};
    for (size_t i = 0; i < COUNT(counts); i++) {
        CHECK_EQ("single", parse_keys(counts[i], false), 0);
        CHECK_EQ("doubled", parse_keys(counts[i], true), CAY_ERR_INVALID);
    }
}

static const struct {
    const char *text;
    bool is_int;
    int64_t value;
    bool is_real;
    double real;
} numbers[] = {
    {"0", true, 0, true, 0},
    {"-0", false, 0, false, 0},
    {"-0.0e3", false, 0, false, 0},
    {"0e400", true, 0, true, 0},
    {"2.0", true, 2, true, 2},
    {"1e3", true, 1000, true, 1000},
    {"1.5e1", true, 15, true, 15},
    {"1.50", false, 0, true, 1.5},
    {"100e-2", true, 1, true, 1},
    {"1e-1", false, 0, true, 0.1},
    {"10203", true, 10203, true, 10203},
    {"1e400", false, 0, false, 0},
    {"1e99999999999999999999", false, 0, false, 0},
    {"9223372036854775807", true, INT64_MAX, true, 9223372036854775807.0},
    {"9223372036854775808", false, 0, true, 9223372036854775808.0},
    {"-9223372036854775808", true, INT64_MIN, true, -9223372036854775808.0},
    {"-9223372036854775809", false, 0, true, -9223372036854775808.0},
    {"99999999999999999999", false, 0, true, 1e20},
    {"NaN", false, 0, false, 0},
    {"Infinity", false, 0, false, 0},
    {"-Infinity", false, 0, false, 0},
    {"\"1\"", false, 0, false, 0},
    {"true", false, 0, false, 0},
};

TEST(json_numbers_are_exact_or_refused)
{
    for (size_t i = 0; i < COUNT(numbers); i++) {
        CAY_AUTO_ARENA struct cay_arena a = {0};
        struct cay_error err = {0};
        const struct cay_json *v = NULL;
        int64_t value = 0;
        double real = 0;
        CHECK_EQ(numbers[i].text, parse(&a, numbers[i].text, strlen(numbers[i].text), &v, &err), 0);
        CHECK_EQ(numbers[i].text, cay_json_int(v, &value), numbers[i].is_int);
        CHECK_EQ(numbers[i].text, value, numbers[i].value);
        CHECK_EQ(numbers[i].text, cay_json_real(v, &real), numbers[i].is_real);
        CHECK(numbers[i].text, real == numbers[i].real);
    }
}

TEST(json_values_are_found_by_key)
{
    static const char text[] =
        "{\"s\":\"a\\n\\u00e9\\/\",\"i\":7,\"b\":true,\"n\":null,\"l\":[1,2]}";
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_error err = {0};
    const struct cay_json *v = NULL;
    CHECK_EQ("parse", cay_json_parse(&a, text, strlen(text), &v, &err), 0);
    CHECK_EQ("count", v->count, 5);
    CHECK_STR("string", cay_json_get_str(v, "s", NULL), "a\n\xC3\xA9/");
    CHECK_STR("missing", cay_json_get_str(v, "x", "none"), "none");
    CHECK_STR("of another kind", cay_json_get_str(v, "i", "none"), "none");
    CHECK_EQ("integer", cay_json_get_int(v, "i", 1), 7);
    CHECK_EQ("no integer", cay_json_get_int(v, "n", 1), 1);
    CHECK_EQ("boolean", cay_json_get_bool(v, "b", false), true);
    CHECK_EQ("list", cay_json_get(v, "l")->count, 2);
    CHECK_STR("list", cay_json_get(v, "l")->first->next->text, "2");
    CHECK("not an object", !cay_json_get(cay_json_get(v, "l"), "a") && !cay_json_get(NULL, "a"));
}

TEST(json_writer_writes_every_kind)
{
    CAY_AUTO_BUF struct cay_buf b = {0};
    struct cay_json_writer w = {.buf = &b};
    cay_jw_object(&w, NULL);
    cay_jw_str(&w, "s", "a\"\\\n\x01/");
    cay_jw_str(&w, "none", NULL);
    cay_jw_strn(&w, "cut", "abc", 2);
    cay_jw_int(&w, "min", INT64_MIN);
    cay_jw_int(&w, "zero", 0);
    cay_jw_real(&w, "two", 2.0);
    cay_jw_real(&w, "tenth", 0.1);
    cay_jw_real(&w, "third", 1.0 / 3);
    cay_jw_real(&w, "nan", NAN);
    cay_jw_array(&w, "list");
    cay_jw_bool(&w, NULL, true);
    cay_jw_null(&w, NULL);
    cay_jw_object(&w, NULL);
    cay_jw_object_end(&w);
    cay_jw_array_end(&w);
    cay_jw_time(&w, "at", 1794736080123);
    cay_jw_time(&w, "never", 0);
    cay_jw_raw(&w, "raw\"", "[1]", 3);
    cay_jw_object_end(&w);
    cay_buf_addc(&b, 0);
    CHECK_STR("written", b.data,
              "{\"s\":\"a\\\"\\\\\\n\\u0001/\",\"none\":null,\"cut\":\"ab\","
              "\"min\":-9223372036854775808,\"zero\":0,\"two\":2,\"tenth\":0.1,"
              "\"third\":0.33333333333333331,\"nan\":null,\"list\":[true,null,{}],"
              "\"at\":\"2026-11-15T09:48:00.123Z\",\"never\":null,\"raw\\\"\":[1]}");
}

static const struct {
    const char *in, *out;
} bytes[] = {
    {"plain text that is long enough", "\"plain text that is long enough\""},
    {"eight by\x1f", "\"eight by\\u001f\""},
    {"caf\xC3\xA9 \xF0\x9F\x98\x80!", "\"caf\xC3\xA9 \xF0\x9F\x98\x80!\""},
    {"bad \xFF\xC3(", "\"bad \xEF\xBF\xBD\xEF\xBF\xBD(\""},
    {"cut \xE2\x82", "\"cut \xEF\xBF\xBD\xEF\xBF\xBD\""},
    {"\x7F", "\"\x7F\""},
    {"\b\f\r\t", "\"\\b\\f\\r\\t\""},
};

TEST(json_writer_makes_any_bytes_a_string)
{
    for (size_t i = 0; i < COUNT(bytes); i++) {
        CAY_AUTO_BUF struct cay_buf b = {0};
        struct cay_json_writer w = {.buf = &b};
        cay_jw_str(&w, NULL, bytes[i].in);
        cay_buf_addc(&b, 0);
        CHECK_STR(bytes[i].in, b.data, bytes[i].out);
    }
}

TEST(json_long_strings_survive_the_round_trip)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    CAY_AUTO_BUF struct cay_buf text = {0}, b = {0};
    struct cay_json_writer w = {.buf = &b};
    struct cay_error err = {0};
    const struct cay_json *v = NULL;
    for (int i = 0; i < 3000; i++) /* characters of every width cross the borders of pieces */
        cay_buf_adds(&text, i % 5 ? "x" : i % 2 ? "\xE2\x82\xAC\x01" : "\xF0\x9F\x98\x80\"");
    cay_jw_strn(&w, NULL, text.data, text.len);
    CHECK_EQ("parse", parse(&a, b.data, b.len, &v, &err), 0);
    CHECK_EQ("length", v->len, text.len);
    CHECK("bytes", memcmp(v->text, text.data, text.len) == 0);
}
