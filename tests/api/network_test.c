/* SPDX-License-Identifier: Apache-2.0 */
/* /api/v1: what a sandbox may reach, in each form that it is asked for and told in. */
#include "tests/api/api.h"

#define BOX "/api/v1/sandbox/box"

static const struct {
    const char *what, *asked; /* of a create, and of a PATCH */
    const char *told;         /* what is in the answer, and in each later one */
} taken[] = {
    {"nothing", "",
     "\"networkAccess\":true,\"networkPolicy\":\"allow-all\","
     "\"networkAllowlist\":null,\"networkDenylist\":null"},
    {"access", "\"networkAccess\":true", "\"networkPolicy\":\"allow-all\""},
    {"no access", "\"network_access\":false",
     "\"networkAccess\":false,\"networkPolicy\":\"deny-all\""},
    {"all", "\"networkPolicy\":\"allow-all\"", "\"networkPolicy\":\"allow-all\""},
    {"none", "\"networkPolicy\":\"deny-all\"",
     "\"networkAccess\":false,\"networkPolicy\":\"deny-all\""},
    {"none, twice said", "\"networkAccess\":false,\"networkPolicy\":{\"mode\":\"deny-all\"}",
     "\"networkPolicy\":\"deny-all\""},
    {"observed", "\"networkPolicy\":{\"mode\":\"observe\"}",
     "\"networkAccess\":true,\"networkPolicy\":{\"mode\":\"observe\"}"},
    {"observed, by a flag", "\"networkPolicy\":{\"observe\":true}",
     "\"networkPolicy\":{\"mode\":\"observe\"}"},
    {"lists",
     "\"networkPolicy\":{\"allow\":[\"Registry.npmjs.org\",\"*.debian.org:80\"],"
     "\"subnets\":{\"allow\":[\"192.0.2.0/24\"],\"deny\":[\"192.0.2.7\"]}}",
     "\"networkAccess\":true,\"networkPolicy\":{\"mode\":\"custom\","
     "\"allow\":[\"Registry.npmjs.org\",\"*.debian.org:80\"],"
     "\"subnets\":{\"allow\":[\"192.0.2.0/24\"],\"deny\":[\"192.0.2.7\"]}}"},
    {"as it is told", "\"networkPolicy\":{\"mode\":\"custom\",\"allow\":[\"a.example\"]}",
     "\"networkPolicy\":{\"mode\":\"custom\",\"allow\":[\"a.example\"]}"},
    {"domains by name", "\"networkPolicy\":{\"allow\":{\"a.example\":[],\"*.b.example\":[]}}",
     "\"networkPolicy\":{\"mode\":\"custom\",\"allow\":[\"a.example\",\"*.b.example\"]}"},
    {"headers",
     "\"networkPolicy\":{\"allow\":[\"a.example\",\"b.example\"],\"headers\":{\"a.example\":{"
     "\"Authorization\":\"s3cret\",\"X-Key\":\"s3cret too\"},\"B.example:80\":{\"x\":\"s3cret\"}}}",
     "\"networkPolicy\":{\"mode\":\"custom\",\"allow\":[\"a.example\",\"b.example\"],\"headers\":{"
     "\"a.example\":{\"Authorization\":null,\"X-Key\":null},\"B.example:80\":{\"x\":null}}}"},
    {"headers by rules of a domain",
     "\"networkPolicy\":{\"allow\":{\"a.example\":[{\"transform\":[{\"headers\":{\"x\":\"s3cret\"}}"
     "]}]}}",
     "\"networkPolicy\":{\"mode\":\"custom\",\"allow\":[\"a.example\"],\"headers\":{"
     "\"a.example\":{\"x\":null}}}"},
    {"headers where all is allowed",
     "\"networkPolicy\":{\"mode\":\"allow-all\",\"headers\":{\"*.example\":{\"x\":\"s3cret\"}}}",
     "\"networkPolicy\":{\"mode\":\"allow-all\",\"headers\":{\"*.example\":{\"x\":null}}}"},
    {"an empty object", "\"networkPolicy\":{}",
     "\"networkAccess\":false,\"networkPolicy\":{\"mode\":\"custom\",\"allow\":[]}"},
    {"all but",
     "\"networkPolicy\":{\"mode\":\"allow-all\",\"subnets\":{\"deny\":[\"192.0.2.0/24\"]}}",
     "\"networkPolicy\":{\"mode\":\"allow-all\",\"subnets\":{\"allow\":[],\"deny\":[\"192.0.2.0/"
     "24\"]}}"},
    {"an allowlist", "\"network_allowlist\":[\"pypi.org\",\"192.0.2.1:443\"]",
     "\"networkAllowlist\":[\"pypi.org\",\"192.0.2.1:443\"],\"networkDenylist\":null"},
    {"an empty one", "\"networkAllowlist\":[]",
     "\"networkAccess\":false,\"networkPolicy\":{\"mode\":\"custom\",\"allow\":[]},"
     "\"networkAllowlist\":[]"},
    {"a denylist", "\"networkDenylist\":[\"evil.example\"],\"networkAllowlist\":null",
     "\"networkPolicy\":{\"mode\":\"allow-all\",\"deny\":[\"evil.example\"]},"
     "\"networkAllowlist\":null,\"networkDenylist\":[\"evil.example\"]"},
};

TEST(v1_network_is_told_as_it_was_asked_for)
{
    struct api api;
    api_open(&api, 0);
    for (size_t i = 0; i < COUNT(taken); i++) {
        const char *what = taken[i].what;
        const char *body = cay_arena_printf(&api.f.a, "{\"name\":\"box\"," SMALL "%s%s}",
                                            taken[i].asked[0] ? "," : "", taken[i].asked);
        const char *answer = ask(&api, "POST /api/v1/sandbox", NULL, body);
        CHECK_EQ(what, status_of(answer), 201);
        CHECK(what, strstr(answer, taken[i].told));
        CHECK(what, !strstr(answer, "s3cret"));
        CHECK(what, strstr(ask(&api, "GET " BOX, NULL, NULL), taken[i].told));
        answer = ask(&api, "POST " BOX "/fork", NULL, "{\"name\":\"fork\"}");
        CHECK(what, strstr(answer, taken[i].told));
        CHECK_EQ(what, status_of(ask(&api, "DELETE " BOX, NULL, NULL)), 200);
        CHECK_EQ(what, status_of(ask(&api, "DELETE /api/v1/sandbox/fork", NULL, NULL)), 200);
    }
    api_close(&api);
}

TEST(v1_network_changes_while_it_runs)
{
    struct api api;
    api_open(&api, 0);
    fixture_create(&api.f, "box", false);
    for (size_t i = 0; i < COUNT(taken); i++) {
        const char *what = taken[i].what;
        const char *body = cay_arena_printf(&api.f.a, "{%s}", taken[i].asked);
        CHECK("told", strstr(ask(&api, "PATCH " BOX, NULL, body), taken[i].told));
        const struct cay_json *now =
            body_of(&api, ask(&api, "GET " BOX "/egress-policy", NULL, NULL));
        CHECK_EQ(what, cay_json_get_int(now, "generation", 0), (long long)i + 1);
    }
    CHECK_EQ("other things", status_of(ask(&api, "PATCH " BOX, NULL, "{\"labels\":[\"x\"]}")), 200);
    const struct cay_json *now = body_of(&api, ask(&api, "GET " BOX "/egress-policy", NULL, NULL));
    CHECK_EQ("do not count", cay_json_get_int(now, "generation", 0), COUNT(taken));
    api_close(&api);
}

#define HEADERS(text) "\"networkPolicy\":{\"allow\":[\"a.example\"],\"headers\":{" text "}}"

static const struct {
    const char *what, *asked, *field;
    int status;
} refused[] = {
    {"a word", "\"networkPolicy\":\"some\"", "networkPolicy", 400},
    {"a number", "\"networkPolicy\":1", "networkPolicy", 400},
    {"custom without lists", "\"networkPolicy\":\"custom\"", "networkPolicy", 400},
    {"a mode", "\"networkPolicy\":{\"mode\":\"some\"}", "networkPolicy.mode", 400},
    {"a field", "\"networkPolicy\":{\"allows\":[]}", "networkPolicy.allows", 400},
    {"a deeper field", "\"networkPolicy\":{\"subnets\":{\"x\":1}}", "networkPolicy.subnets.x", 400},
    {"no list", "\"networkPolicy\":{\"allow\":\"a.example\"}", "networkPolicy.allow", 400},
    {"no string", "\"networkPolicy\":{\"allow\":[\"a.example\",1]}", "networkPolicy.allow[1]", 400},
    {"IDN", "\"networkPolicy\":{\"allow\":[\"a\",\"b\",\"c\",\"m\xC3\xBCnchen.de\"]}",
     "networkPolicy.allow[3]", 400},
    {"a bare pattern", "\"networkPolicy\":{\"allow\":[\"*.\"]}", "networkPolicy.allow[0]", 400},
    {"a bad CIDR", "\"networkPolicy\":{\"subnets\":{\"allow\":[\"10.0.0.0/33\"]}}",
     "networkPolicy.subnets.allow[0]", 400},
    {"a name as a subnet", "\"networkPolicy\":{\"subnets\":{\"deny\":[\"a.example\"]}}",
     "networkPolicy.subnets.deny[0]", 400},
    {"both ways",
     "\"networkPolicy\":{\"subnets\":{\"allow\":[\"0.0.0.0/0\"],\"deny\":[\"0.0.0.0/0\"]}}",
     "networkPolicy.subnets.deny[0]", 400},
    {"a list without meaning", "\"networkPolicy\":{\"mode\":\"allow-all\",\"allow\":[\"a\"]}",
     "networkPolicy.mode", 400},
    {"observed and listed", "\"networkPolicy\":{\"observe\":true,\"allow\":[\"a\"]}",
     "networkPolicy.mode", 400},
    {"observed and closed", "\"networkPolicy\":{\"observe\":true,\"mode\":\"deny-all\"}",
     "networkPolicy.observe", 400},
    {"other rules of a domain",
     "\"networkPolicy\":{\"allow\":{\"a.example\":[{\"forwardURL\":\"http://b.example\"}]}}",
     "networkPolicy.allow[0]", 501},
    {"headers of nobody", HEADERS("\"b.example\":{\"x\":\"y\"}"), "networkPolicy.headers.b.example",
     400},
    {"headers of an address", HEADERS("\"192.0.2.1\":{\"x\":\"y\"}"),
     "networkPolicy.headers.192.0.2.1", 400},
    {"headers in a list", "\"networkPolicy\":{\"headers\":[]}", "networkPolicy.headers", 400},
    {"headers as a word", HEADERS("\"a.example\":\"x\""), "networkPolicy.headers.a.example", 400},
    {"a header as a number", HEADERS("\"a.example\":{\"x\":1}"), "networkPolicy.headers.a.example",
     400},
    {"a header of the connection", HEADERS("\"a.example\":{\"Host\":\"y\"}"),
     "networkPolicy.headers.a.example", 400},
    {"a header's name", HEADERS("\"a.example\":{\"x y\":\"z\"}"), "networkPolicy.headers.a.example",
     400},
    {"two lines", HEADERS("\"a.example\":{\"x\":\"y\\r\\nz: a\"}"),
     "networkPolicy.headers.a.example", 400},
    {"an empty header", HEADERS("\"a.example\":{\"x\":\"\"}"), "networkPolicy.headers.a.example",
     400},
    {"a header twice", HEADERS("\"a.example\":{\"x\":\"y\",\"X\":\"z\"}"),
     "networkPolicy.headers.a.example", 400},
    {"a header that is not there", HEADERS("\"a.example\":{\"x\":null}"),
     "networkPolicy.headers.a.example", 400},
    {"headers without a way out",
     "\"networkPolicy\":{\"mode\":\"deny-all\",\"headers\":{\"a\":{\"x\":\"y\"}}}",
     "networkPolicy.mode", 400},
    {"no rules of a domain", "\"networkPolicy\":{\"allow\":{\"a.example\":1}}",
     "networkPolicy.allow[0]", 400},
    {"both lists", "\"networkAllowlist\":[],\"networkDenylist\":[]", "networkDenylist", 400},
    {"a bad rule", "\"networkDenylist\":[\"a.example\",\"https://b.example\"]",
     "networkDenylist[1]", 400},
    {"a list and a policy", "\"networkAllowlist\":[],\"networkPolicy\":\"allow-all\"",
     "networkPolicy", 400},
    {"no access and a rule", "\"networkAccess\":false,\"networkAllowlist\":[\"a.example\"]",
     "networkAccess", 400},
    {"access as a word", "\"network_access\":\"yes\"", "network_access", 400},
};

static void check_refused(struct api *api, const char *line, const char *what, const char *body,
                          int status, const char *field)
{
    const char *answer = ask(api, line, NULL, body);
    const struct cay_json *error = cay_json_get(body_of(api, answer), "error");
    const struct cay_json *details = error ? cay_json_get(error, "details") : NULL;
    CHECK_EQ(what, status_of(answer), status);
    CHECK_STR(what, details ? cay_json_get_str(details, "field", NULL) : NULL, field);
}

TEST(v1_network_faults_name_their_field)
{
    struct api api;
    api_open(&api, 0);
    fixture_create(&api.f, "box", false);
    for (size_t i = 0; i < COUNT(refused); i++) {
        const char *body = cay_arena_printf(&api.f.a, "{" SMALL ",%s}", refused[i].asked);
        check_refused(&api, "POST /api/v1/sandbox", refused[i].what, body, refused[i].status,
                      refused[i].field);
        check_refused(&api, "PATCH " BOX, refused[i].what,
                      cay_arena_printf(&api.f.a, "{%s}", refused[i].asked), refused[i].status,
                      refused[i].field);
    }
    CAY_AUTO_BUF struct cay_buf many = {0};
    for (int i = 0; i < 5; i++)
        cay_buf_addf(&many, "%s\"h%d\":\"%08000d\"", i ? "," : "", i, 0);
    check_refused(&api, "PATCH " BOX, "too much of them",
                  cay_arena_printf(&api.f.a, "{" HEADERS("\"a.example\":{%.*s}") "}", (int)many.len,
                                   many.data),
                  400, "networkPolicy.headers");
    const char *answer = ask(&api, "GET " BOX "/egress-policy", NULL, NULL);
    CHECK_EQ("nothing changed", cay_json_get_int(body_of(&api, answer), "generation", 0), 1);
    answer = ask(&api, "GET /api/v1/sandbox", NULL, NULL);
    CHECK_EQ("nothing made", cay_json_get_int(body_of(&api, answer), "total", 0), 1);
    api_close(&api);
}

/* What a sandbox tells of itself can be sent back. */
TEST(v1_network_keeps_headers_that_are_null)
{
    struct api api;
    api_open(&api, 0);
    fixture_create(&api.f, "box", false);
    CHECK_EQ("set",
             status_of(ask(&api, "PATCH " BOX, NULL,
                           "{" HEADERS("\"a.example\":{\"x\":\"s3cret\",\"y\":\"z\"}") "}")),
             200);
    const char *kept = ask(&api, "PATCH " BOX, NULL, "{" HEADERS("\"a.example\":{\"x\":null}") "}");
    CHECK_EQ("kept", status_of(kept), 200);
    CHECK("one", strstr(kept, "\"headers\":{\"a.example\":{\"x\":null}}"));
    CHECK_EQ(
        "the other is gone",
        status_of(ask(&api, "PATCH " BOX, NULL, "{" HEADERS("\"a.example\":{\"y\":null}") "}")),
        400);
    CHECK("none", !strstr(ask(&api, "PATCH " BOX, NULL, "{\"networkPolicy\":{\"allow\":[\"a\"]}}"),
                          "headers"));
    api_close(&api);
}

TEST(v1_network_has_so_many_rules)
{
    struct api api;
    CAY_AUTO_BUF struct cay_buf body = {0};
    api_open(&api, 0);
    cay_buf_adds(&body, "{" SMALL ",\"networkPolicy\":{\"allow\":[\"a\"");
    for (int i = 1; i < 100000; i++)
        cay_buf_adds(&body, ",\"a\"");
    cay_buf_adds(&body, "]}}");
    cay_buf_addc(&body, 0);
    check_refused(&api, "POST /api/v1/sandbox", "rules", body.data, 400, "networkPolicy.allow");
    api_close(&api);
}

static const struct {
    const char *what, *policy, *lists;
} egress[] = {
    {"all", "\"allow-all\"", "{\"allowlist\":null,\"denylist\":[]}"},
    {"nothing", "\"deny-all\"", "{\"allowlist\":[],\"denylist\":null}"},
    {"lists", "{\"allow\":[\"a.example\"],\"subnets\":{\"allow\":[\"192.0.2.0/24\"]}}",
     "{\"allowlist\":[\"a.example\",\"192.0.2.0/24\"],\"denylist\":null}"},
    {"some of them", "{\"allow\":[\"a.example\"],\"subnets\":{\"deny\":[\"192.0.2.0/24\"]}}",
     "{\"allowlist\":[\"a.example\"],\"denylist\":[\"192.0.2.0/24\"]}"},
    {"all but", "{\"mode\":\"allow-all\",\"subnets\":{\"deny\":[\"192.0.2.0/24\"]}}",
     "{\"allowlist\":null,\"denylist\":[\"192.0.2.0/24\"]}"},
};

TEST(v1_egress_policy_is_the_policy_as_lists)
{
    struct api api;
    api_open(&api, 0);
    fixture_create(&api.f, "box", false);
    for (size_t i = 0; i < COUNT(egress); i++) {
        (void)ask(&api, "PATCH " BOX, NULL,
                  cay_arena_printf(&api.f.a, "{\"networkPolicy\":%s}", egress[i].policy));
        CHECK(egress[i].what,
              strstr(ask(&api, "GET " BOX "/egress-policy", NULL, NULL), egress[i].lists));
    }
    api_close(&api);
}

TEST(v1_egress_policy_is_replaced)
{
    struct api api;
    static const char put[] = "PUT " BOX "/egress-policy";
    api_open(&api, 0);
    fixture_create(&api.f, "box", false);
    const char *answer = ask(&api, put, NULL, "{\"allowlist\":[\"a.example\"],\"denylist\":null}");
    CHECK("lists", strstr(answer, "\"policy\":{\"allowlist\":[\"a.example\"],\"denylist\":null},"
                                  "\"generation\":2,"));
    CHECK("in the sandbox",
          strstr(ask(&api, "GET " BOX, NULL, NULL), "\"networkAllowlist\":[\"a.example\"]"));
    answer = ask(&api, put, NULL, "{\"denylist\":[],\"generation\":1}");
    CHECK_EQ("not the present one", status_of(answer), 409);
    CHECK("by name", strstr(answer, "\"GENERATION_PASSED\""));
    CHECK_EQ("the present one",
             status_of(ask(&api, put, NULL, "{\"denylist\":[],\"generation\":2}")), 200);
    answer = ask(&api, put, NULL, "{}");
    CHECK("neither", strstr(answer, "{\"allowlist\":null,\"denylist\":[]},\"generation\":4,"));
    check_refused(&api, put, "both", "{\"allowlist\":[],\"denylist\":[]}", 400, "denylist");
    check_refused(&api, put, "a rule", "{\"allowlist\":[\"a\",\"*.\"]}", 400, "allowlist[1]");
    check_refused(&api, put, "no list", "{\"denylist\":1}", 400, "denylist");
    check_refused(&api, put, "a generation", "{\"generation\":0}", 400, "generation");
    CHECK_EQ("of nobody",
             status_of(ask(&api, "PUT /api/v1/sandbox/none/egress-policy", NULL, "{}")), 404);
    api_close(&api);
}

TEST(v1_network_wanted_and_proposed)
{
    struct api api;
    api_open(&api, 0);
    fixture_create(&api.f, "box", false);
    const char *answer = ask(&api, "GET " BOX "/network", NULL, NULL);
    CHECK_EQ("told", status_of(answer), 200);
    CHECK("nothing yet", strstr(answer, "\"wanted\":[]"));
    answer = ask(&api, "POST " BOX "/network/propose", NULL, NULL);
    CHECK_EQ("proposed", status_of(answer), 200);
    CHECK("nothing is enough",
          strstr(answer, "\"networkPolicy\":{\"mode\":\"custom\",\"allow\":[]},\"leftOut\":[]"));
    CHECK_EQ("of nobody", status_of(ask(&api, "GET /api/v1/sandbox/none/network", NULL, NULL)),
             404);
    api_close(&api);
}
