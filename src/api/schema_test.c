/* SPDX-License-Identifier: Apache-2.0 */
#include "api/schema.h"
#include "tests/test.h"

static const struct {
    const char *type, *json;
} types[] = {
    {"string", "{\"type\":\"string\"}"},
    {"any", "{}"},
    {"time", "{\"type\":\"string\",\"format\":\"date-time\"}"},
    {"Box", "{\"$ref\":\"#/components/schemas/Box\"}"},
    {"'a b'", "{\"type\":\"string\",\"const\":\"a b\"}"},
    {"[string]", "{\"type\":\"array\",\"items\":{\"type\":\"string\"}}"},
    {"{integer}", "{\"type\":\"object\",\"additionalProperties\":{\"type\":\"integer\"}}"},
    {"Box|null", "{\"anyOf\":[{\"$ref\":\"#/components/schemas/Box\"},{\"type\":\"null\"}]}"},
    {"[string|null]", "{\"type\":\"array\",\"items\":{\"anyOf\":[{\"type\":\"string\"},"
                      "{\"type\":\"null\"}]}}"},
};

TEST(schema_of_types)
{
    for (size_t i = 0; i < COUNT(types); i++) {
        CAY_AUTO_BUF struct cay_buf out = {0};
        struct cay_json_writer w = {.buf = &out};
        cay_schema_type(&w, NULL, types[i].type, strlen(types[i].type));
        cay_buf_addc(&out, 0);
        CHECK_STR(types[i].type, out.data, types[i].json);
    }
}

TEST(schema_of_members)
{
    CAY_AUTO_BUF struct cay_buf out = {0};
    struct cay_json_writer w = {.buf = &out};
    cay_schema_members(&w, NULL, "id string, size? [integer]");
    cay_buf_addc(&out, 0);
    CHECK_STR(
        "members", out.data,
        "{\"type\":\"object\",\"properties\":{\"id\":{\"type\":\"string\"},\"size\":{\"type\":"
        "\"array\",\"items\":{\"type\":\"integer\"}}},\"required\":[\"id\"]}");
}

struct body {
    const char *name;
    int64_t from, count;
    double share;
    struct cay_strs list;
};

static const char *const names[] = {"a", "b", NULL};

static const struct cay_field inner[] = {
    CAY_FIELD_NUM(struct body, share, "share", .min = 0.5),
    CAY_FIELD_END,
};

static const struct cay_field fields[] = {
    CAY_FIELD_STR(struct body, name, "name", .required = true, .choices = names),
    CAY_FIELD_INT(struct body, count, "count", .min = 0, .max = 9),
    CAY_FIELD_INT(struct body, from, "from"),
    CAY_FIELD_STRS(struct body, list, "list", .max_len = 5, .max_count = 2),
    CAY_FIELD_SUB("inner", inner),
    CAY_FIELD_END,
};

TEST(schema_of_a_table)
{
    CAY_AUTO_BUF struct cay_buf out = {0};
    struct cay_json_writer w = {.buf = &out};
    cay_schema_table(&w, NULL, fields);
    cay_buf_addc(&out, 0);
    CHECK_STR("a table", out.data,
              "{\"type\":\"object\",\"additionalProperties\":false,\"properties\":{"
              "\"name\":{\"type\":\"string\",\"enum\":[\"a\",\"b\"]},"
              "\"count\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":9},"
              "\"from\":{\"type\":\"integer\"},"
              "\"list\":{\"type\":\"array\",\"maxItems\":2,\"items\":{\"type\":\"string\","
              "\"maxLength\":5}},"
              "\"inner\":{\"type\":\"object\",\"additionalProperties\":false,\"properties\":{"
              "\"share\":{\"type\":\"number\",\"minimum\":0.5}},\"required\":[]}},"
              "\"required\":[\"name\"]}");
}
