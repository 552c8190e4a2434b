/* SPDX-License-Identifier: Apache-2.0 */
#include "http/request.h"
#include "tests/test.h"

struct page {
    int64_t per_page;
    bool is_active;
    const char *name;
    struct cay_strs labels;
};

static const struct cay_field page_fields[] = {
    CAY_FIELD_INT(struct page, per_page, "perPage", .min = 1, .max = 100),
    CAY_FIELD_BOOL(struct page, is_active, "isActive"),
    CAY_FIELD_STR(struct page, name, "name"),
    CAY_FIELD_STRS(struct page, labels, "labels"),
    CAY_FIELD_END,
};

static const struct {
    const char *query;
    int want;
    int64_t per_page;
    bool is_active;
    const char *name;
    size_t labels;
} queries[] = {
    {"", 0, 0, false, NULL, 0},
    {"perPage=7&isActive=true&name=a%20b+c", 0, 7, true, "a b c", 0},
    {"per_page=7&is_active=0", 0, 7, false, NULL, 0},
    {"labels=a&labels=b&labels=c", 0, 0, false, NULL, 3},
    {"unknown=1&&=&x", 0, 0, false, NULL, 0},
    {"name=", 0, 0, false, "", 0},
    {"perPage=7&perPage=8", CAY_ERR_INVALID, 0, false, NULL, 0},
    {"perPage=7&per_page=8", CAY_ERR_INVALID, 0, false, NULL, 0},
    {"perPage=", CAY_ERR_INVALID, 0, false, NULL, 0},
    {"perPage=0x7", CAY_ERR_INVALID, 0, false, NULL, 0},
    {"perPage=101", CAY_ERR_INVALID, 0, false, NULL, 0},
    {"perPage=1e400", CAY_ERR_INVALID, 0, false, NULL, 0},
    {"perPage=inf", CAY_ERR_INVALID, 0, false, NULL, 0},
    {"isActive=maybe", CAY_ERR_INVALID, 0, false, NULL, 0},
    {"name=%zz", CAY_ERR_INVALID, 0, false, NULL, 0},
    {"name=%00", CAY_ERR_INVALID, 0, false, NULL, 0},
    {"name=%ff", CAY_ERR_INVALID, 0, false, NULL, 0},
};

TEST(request_decodes_the_query)
{
    for (size_t i = 0; i < COUNT(queries); i++) {
        CAY_AUTO_ARENA struct cay_arena a = {0};
        struct cay_req req = {.arena = &a, .query = queries[i].query};
        struct cay_error err;
        struct page page = {0};
        int r = cay_req_decode_query(&req, page_fields, &page, &err);
        CHECK_EQ(queries[i].query, r, queries[i].want);
        if (r < 0)
            continue;
        CHECK_EQ(queries[i].query, page.per_page, queries[i].per_page);
        CHECK_EQ(queries[i].query, page.is_active, queries[i].is_active);
        CHECK_STR(queries[i].query, page.name, queries[i].name);
        CHECK_EQ(queries[i].query, page.labels.count, queries[i].labels);
    }
}

static const struct {
    const char *name, *type, *encoding, *body;
    int want;
} bodies[] = {
    {"json", "application/json", NULL, "{\"name\":\"x\"}", 0},
    {"charset", "Application/JSON; charset=utf-8", NULL, "{}", 0},
    {"+json", "application/vnd.x+json", NULL, "{}", 0},
    {"identity", "application/json", "identity", "{}", 0},
    {"empty", "text/plain", NULL, "", 0},
    {"empty without type", NULL, NULL, "", 0},
    {"no type", NULL, NULL, "{}", CAY_ERR_MEDIA_TYPE},
    {"text", "text/plain", NULL, "{}", CAY_ERR_MEDIA_TYPE},
    {"form", "application/x-www-form-urlencoded", NULL, "{}", CAY_ERR_MEDIA_TYPE},
    {"two types", "text/plain, application/json", NULL, "{}", CAY_ERR_MEDIA_TYPE},
    {"json behind a parameter", "text/plain; a=application/json", NULL, "{}", CAY_ERR_MEDIA_TYPE},
    {"gzip", "application/json", "gzip", "{}", CAY_ERR_MEDIA_TYPE},
    {"broken", "application/json", NULL, "{", CAY_ERR_INVALID},
    {"no object", "application/json", NULL, "[]", CAY_ERR_INVALID},
    {"unknown field", "application/json", NULL, "{\"x\":1}", CAY_ERR_INVALID},
};

TEST(request_decodes_json_only)
{
    for (size_t i = 0; i < COUNT(bodies); i++) {
        CAY_AUTO_ARENA struct cay_arena a = {0};
        struct cay_req req = {.arena = &a, .body = bodies[i].body};
        struct cay_error err;
        struct page page = {0};
        req.body_len = strlen(req.body);
        if (bodies[i].type)
            cay_pairs_set(&a, &req.headers, "content-type", bodies[i].type);
        if (bodies[i].encoding)
            cay_pairs_set(&a, &req.headers, "content-encoding", bodies[i].encoding);
        CHECK_EQ(bodies[i].name, cay_req_decode(&req, page_fields, &page, &err), bodies[i].want);
    }
}

static const struct {
    const char *accept;
    bool want;
} accepts[] = {
    {NULL, false},
    {"*/*", false},
    {"text/event-stream", true},
    {"application/json, Text/Event-Stream;q=0.9", true},
    {"text/event-streams", false},
    {"application/json; x=text/event-stream", false},
};

TEST(request_knows_what_is_accepted_by_name)
{
    for (size_t i = 0; i < COUNT(accepts); i++) {
        CAY_AUTO_ARENA struct cay_arena a = {0};
        struct cay_req req = {.arena = &a};
        if (accepts[i].accept)
            cay_pairs_set(&a, &req.headers, "accept", accepts[i].accept);
        CHECK_EQ(accepts[i].accept ? accepts[i].accept : "none",
                 cay_req_accepts(&req, "text/event-stream"), accepts[i].want);
    }
}
