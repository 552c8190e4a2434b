/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/output.h"
#include "tests/test.h"

TEST(output_shows_no_control_characters)
{
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"plain", "plain"},
        {"\x1b[31mred\n", "?[31mred?"},
        {"gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f"},
        {"\xc2\x9b"
         "31m",
         "?31m"},
        {"bad\xff\xc3", "bad??"},
        {"cut\xc2", "cut?"},
        {"", ""},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        CAY_AUTO_BUF struct cay_buf got = {0};
        cay_output_clean(&got, cases[i].text);
        cay_buf_addc(&got, 0);
        CHECK_STR(cases[i].text, got.data, cases[i].want);
    }
}

TEST(output_json_is_the_same_and_tame)
{
    static const struct {
        const char *json, *want;
    } cases[] = {
        {"{\"a\":\"plain\"}\n", "{\"a\":\"plain\"}\n"},
        {"\"\xc2\x9b"
         "31m\x7f\"",
         "\"\\u009b31m\\u007f\""},
        {"\"\xc2\x80\xc2\x9f\xc2\xa0\"", "\"\\u0080\\u009f\xc2\xa0\""},
        {"\"gr\xc3\xbc\xc3\x9f \xe2\x82\x9b\"", "\"gr\xc3\xbc\xc3\x9f \xe2\x82\x9b\""},
        {"[1,\r\n\t2]", "[1, \n\t2]"},
        {"no JSON \x1b[31m\xff", "no JSON \\u001b[31m?"},
        {"", ""},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        CAY_AUTO_BUF struct cay_buf got = {0};
        cay_output_tame(&got, cases[i].json, strlen(cases[i].json));
        cay_buf_addc(&got, 0);
        CHECK_STR(cases[i].json, got.data, cases[i].want);
    }
}

TEST(output_is_human)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    CHECK_STR("bytes", cay_output_size(&a, 5), "5 B");
    CHECK_STR("half", cay_output_size(&a, 512 * 0x1p20), "512 MiB");
    CHECK_STR("more", cay_output_size(&a, 1.5 * 0x1p30), "1.5 GiB");
    CHECK_STR("ms", cay_output_duration(&a, 350), "350ms");
    CHECK_STR("s", cay_output_duration(&a, 12000), "12s");
    CHECK_STR("m", cay_output_duration(&a, 185000), "3m 5s");
    CHECK_STR("h", cay_output_duration(&a, 3600000 * 3LL + 300000), "3h 5m");
    CHECK_STR("d", cay_output_duration(&a, 86400000 * 2LL), "2d 0h");
    CHECK_STR("age", cay_output_age(&a, "1970-01-01T00:00:10.500Z", 70000), "1m 0s");
    CHECK_STR("ahead", cay_output_age(&a, "1970-01-01T00:10:00Z", 0), "0ms");
    CHECK_STR("no time", cay_output_age(&a, "yesterday", 0), "-");
}

TEST(output_tables)
{
    static const char *const headings[] = {"A", "B", NULL};
    CAY_AUTO_ARENA struct cay_arena a = {0};
    for (int human = 0; human < 2; human++) {
        struct cay_table t;
        CAY_AUTO_FREE char *text = NULL;
        size_t len = 0;
        FILE *to = open_memstream(&text, &len);
        cay_table_init(&t, &a, headings);
        t.human = human;
        cay_table_add(&t, "\xc3\xbc"
                          "12");
        cay_table_add(&t, "x\ty");
        cay_table_add(&t, "");
        cay_table_add(&t, "z");
        cay_table_print(&t, to);
        (void)fclose(to);
        CHECK_STR("table", text,
                  human ? "A    B\n\xc3\xbc"
                          "12  x?y\n-    z\n"
                        : "\xc3\xbc"
                          "12\tx?y\n-\tz\n");
    }
}
