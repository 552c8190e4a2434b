/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fields.h"
#include "tests/test.h"

struct body {
    const char *name;
    bool on;
    int64_t size, least;
    double vcpus;
    struct cay_strs labels;
    struct cay_pairs env;
    const struct cay_json *any;
    const char *mode;
};

static const char *const modes[] = {"off", "files", NULL};
static const struct cay_field resource_fields[] = {
    CAY_FIELD_NUM(struct body, vcpus, "vcpus", .min = 0.1, .max = 64),
    CAY_FIELD_END,
};
static const struct cay_field fields[] = {
    CAY_FIELD_STR(struct body, name, "name", .required = true, .max_len = 8),
    CAY_FIELD_BOOL(struct body, on, "networkAccess", 0),
    CAY_FIELD_INT(struct body, size, "diskSizeGB", .min = 1, .max = 10),
    CAY_FIELD_INT(struct body, least, "least", .min = 2),
    CAY_FIELD_STRS(struct body, labels, "labels", .max_count = 2, .max_len = 3),
    CAY_FIELD_PAIRS(struct body, env, "env", .max_count = 2),
    CAY_FIELD_PAIRS(struct body, env, "environmentVars", .max_count = 2),
    CAY_FIELD_SUB("resources", resource_fields),
    CAY_FIELD_ANY(struct body, any, "startCommand", 0),
    CAY_FIELD_STR(struct body, mode, "mode", .choices = modes),
    CAY_FIELD_SKIP("teamId"),
    CAY_FIELD_END,
};

static int decode(struct cay_arena *a, const char *text, struct body *out, struct cay_error *err)
{
    const struct cay_json *v = NULL;
    if (text && cay_json_parse(a, text, strlen(text), &v, err) < 0)
        return -100;
    return cay_fields_decode(a, fields, v, out, err);
}

TEST(fields_fill_the_struct)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_error err = {0};
    struct body b = {.size = 5, .mode = "kept"};
    CHECK_EQ("decode",
             decode(&a,
                    "{\"name\":\"n\",\"network_access\":true,\"disk_size_gb\":2.0,\"mode\":null,"
                    "\"labels\":[\"a\",\"b\"],\"env\":{\"K\":\"v\"},\"resources\":{\"vcpus\":0.5},"
                    "\"start_command\":[1],\"team_id\":{\"any\":1}}",
                    &b, &err),
             0);
    CHECK_STR("name", b.name, "n");
    CHECK_EQ("boolean", b.on, true);
    CHECK_EQ("integer", b.size, 2);
    CHECK_EQ("labels", b.labels.count, 2);
    CHECK_STR("label", b.labels.at[1], "b");
    CHECK_STR("env", cay_pairs_get(&b.env, "K"), "v");
    CHECK("nested", b.vcpus == 0.5);
    CHECK_EQ("any", b.any->kind, CAY_JSON_ARRAY);
    CHECK_STR("null leaves what was there", b.mode, "kept");
}

static const struct {
    const char *body, *field;
} refusals[] = {
    {NULL, "name"},
    {"{}", "name"},
    {"{\"name\":null}", "name"},
    {"[]", ""},
    {"{\"name\":1}", "name"},
    {"{\"name\":\"123456789\"}", "name"},
    {"{\"name\":\"n\",\"colour\":1}", "colour"},
    {"{\"name\":\"n\",\"networkAccess\":1}", "networkAccess"},
    {"{\"name\":\"n\",\"network_access\":\"true\"}", "network_access"},
    {"{\"name\":\"n\",\"network_access\":true,\"networkAccess\":true}", "networkAccess"},
    {"{\"name\":\"n\",\"networkaccess\":true}", "networkaccess"},
    {"{\"name\":\"n\",\"disk_size_g_b\":2}", "disk_size_g_b"},
    {"{\"name\":\"n\",\"disk_sizeGB\":2}", "disk_sizeGB"},
    {"{\"name\":\"n\",\"diskSizeGB\":11}", "diskSizeGB"},
    {"{\"name\":\"n\",\"diskSizeGB\":0}", "diskSizeGB"},
    {"{\"name\":\"n\",\"diskSizeGB\":1.5}", "diskSizeGB"},
    {"{\"name\":\"n\",\"diskSizeGB\":\"2\"}", "diskSizeGB"},
    {"{\"name\":\"n\",\"diskSizeGB\":1e400}", "diskSizeGB"},
    {"{\"name\":\"n\",\"least\":1}", "least"},
    {"{\"name\":\"n\",\"least\":9007199254740993}", "least"},
    {"{\"name\":\"n\",\"labels\":\"a\"}", "labels"},
    {"{\"name\":\"n\",\"labels\":[1]}", "labels"},
    {"{\"name\":\"n\",\"labels\":[null]}", "labels"},
    {"{\"name\":\"n\",\"labels\":[\"1234\"]}", "labels"},
    {"{\"name\":\"n\",\"labels\":[\"a\",\"b\",\"c\"]}", "labels"},
    {"{\"name\":\"n\",\"env\":[]}", "env"},
    {"{\"name\":\"n\",\"env\":{\"a\":1}}", "env"},
    {"{\"name\":\"n\",\"env\":{\"a\":\"\",\"b\":\"\",\"c\":\"\"}}", "env"},
    {"{\"name\":\"n\",\"env\":{},\"environment_vars\":{}}", "environment_vars"},
    {"{\"name\":\"n\",\"resources\":1}", "resources"},
    {"{\"name\":\"n\",\"resources\":{\"vcpus\":NaN}}", "resources.vcpus"},
    {"{\"name\":\"n\",\"resources\":{\"vcpus\":65}}", "resources.vcpus"},
    {"{\"name\":\"n\",\"resources\":{\"cpus\":1}}", "resources.cpus"},
    {"{\"name\":\"n\",\"mode\":\"all\"}", "mode"},
};

TEST(fields_name_the_one_at_fault)
{
    for (size_t i = 0; i < COUNT(refusals); i++) {
        CAY_AUTO_ARENA struct cay_arena a = {0};
        struct cay_error err = {0};
        struct body b = {0};
        const char *body = refusals[i].body ? refusals[i].body : "no body";
        CHECK_EQ(body, decode(&a, refusals[i].body, &b, &err), CAY_ERR_INVALID);
        CHECK_STR(body, cay_error_name(&err), "VALIDATION_ERROR");
        CHECK_STR(body, err.field, refusals[i].field);
        CHECK(body, err.msg[0]);
    }
}
