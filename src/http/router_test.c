/* SPDX-License-Identifier: Apache-2.0 */
#include "http/router.h"
#include "tests/test.h"

static const struct cay_route sandbox[] = {
    {"GET", "/sandbox"},
    {"POST", "/sandbox"},
    {"GET", "/sandbox/{id}"},
    {"DELETE", "/sandbox/bulk"},
    {"GET", "/sandbox/{id}/exec/{eid}"},
    {"GET", "/sandbox/ports/all"},
    {0},
};
static const struct cay_route others[] = {
    {"POST", "/sandbox/status:batchGet"},
    {"DELETE", "/sandbox/{name}"},
    {"GET", "/"},
    {0},
};
static const struct cay_route *const tables[] = {sandbox, others, NULL};

static const struct {
    const char *name, *method, *path;
    int want;
    const char *pattern, *allow, *key, *value;
} cases[] = {
    {"literal", "GET", "/sandbox", 0, "/sandbox", NULL, NULL, NULL},
    {"method", "POST", "/sandbox", 0, "/sandbox", NULL, NULL, NULL},
    {"root", "GET", "/", 0, "/", NULL, NULL, NULL},
    {"parameter", "GET", "/sandbox/x", 0, "/sandbox/{id}", NULL, "id", "x"},
    {"its name is the route's own", "DELETE", "/sandbox/x", 0, "/sandbox/{name}", NULL, "name",
     "x"},
    {"literal wins", "DELETE", "/sandbox/bulk", 0, "/sandbox/bulk", NULL, NULL, NULL},
    {"literal wins over the method too", "GET", "/sandbox/bulk", CAY_ERR_METHOD, NULL, "DELETE",
     NULL, NULL},
    {"a literal hides nothing deeper", "GET", "/sandbox/ports/exec/e1", 0,
     "/sandbox/{id}/exec/{eid}", NULL, "eid", "e1"},
    {"two parameters", "GET", "/sandbox/s/exec/e", 0, "/sandbox/{id}/exec/{eid}", NULL, "id", "s"},
    {"colon", "POST", "/sandbox/status:batchGet", 0, "/sandbox/status:batchGet", NULL, NULL, NULL},
    {"encoded literal", "GET", "/%73andbox", 0, "/sandbox", NULL, NULL, NULL},
    {"decoded once", "GET", "/sandbox/a%2525", 0, "/sandbox/{id}", NULL, "id", "a%25"},
    {"encoded dots are a name", "GET", "/sandbox/%2e%2e", 0, "/sandbox/{id}", NULL, "id", ".."},
    {"head is get", "HEAD", "/sandbox", 0, "/sandbox", NULL, NULL, NULL},
    {"unknown", "GET", "/nope", CAY_ERR_NOT_FOUND, NULL, NULL, NULL, NULL},
    {"longer", "GET", "/sandbox/x/y", CAY_ERR_NOT_FOUND, NULL, NULL, NULL, NULL},
    {"slash at the end", "GET", "/sandbox/", CAY_ERR_NOT_FOUND, NULL, NULL, NULL, NULL},
    {"two slashes", "GET", "//sandbox", CAY_ERR_NOT_FOUND, NULL, NULL, NULL, NULL},
    {"deep", "GET", "/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a", CAY_ERR_NOT_FOUND, NULL, NULL, NULL,
     NULL},
    {"wrong method", "PUT", "/sandbox", CAY_ERR_METHOD, NULL, "GET, HEAD, POST", NULL, NULL},
    {"methods are exact", "get", "/sandbox", CAY_ERR_METHOD, NULL, "GET, HEAD, POST", NULL, NULL},
    {"encoded slash", "GET", "/sandbox/a%2Fb", CAY_ERR_INVALID, NULL, NULL, NULL, NULL},
    {"encoded NUL", "GET", "/sandbox/a%00b", CAY_ERR_INVALID, NULL, NULL, NULL, NULL},
    {"broken escape", "GET", "/sandbox/a%2", CAY_ERR_INVALID, NULL, NULL, NULL, NULL},
    {"no UTF-8", "GET", "/sandbox/%ff", CAY_ERR_INVALID, NULL, NULL, NULL, NULL},
};

TEST(router_finds_routes)
{
    struct cay_router *router;
    struct cay_error err;
    CHECK_EQ("compiles", cay_router_new(tables, &router, &err), 0);
    for (size_t i = 0; i < COUNT(cases); i++) {
        CAY_AUTO_ARENA struct cay_arena a = {0};
        struct cay_req req = {.arena = &a, .method = cases[i].method, .path = cases[i].path};
        CHECK_EQ(cases[i].name, cay_router_match(router, &req, &err), cases[i].want);
        CHECK_STR(cases[i].name, req.route ? req.route->pattern : NULL, cases[i].pattern);
        CHECK_STR(cases[i].name, req.allow, cases[i].allow);
        if (cases[i].key)
            CHECK_STR(cases[i].name, cay_req_param(&req, cases[i].key), cases[i].value);
    }
    cay_router_free(router);
}

TEST(router_refuses_a_doubled_route)
{
    static const struct cay_route first[] = {{"GET", "/a/{x}"}, {0}};
    static const struct cay_route second[] = {{"GET", "/a/{y}"}, {0}};
    static const struct cay_route *const both[] = {first, second, NULL};
    struct cay_router *router;
    struct cay_error err;
    CHECK_EQ("twice", cay_router_new(both, &router, &err), CAY_ERR_INVALID);
}
