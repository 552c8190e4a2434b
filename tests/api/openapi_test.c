/* SPDX-License-Identifier: Apache-2.0 */
/* /openapi.json against the route tables, and the tables that rows name against those that handlers
 * really decode with. */
#include "tests/api/api.h"
#include <stdio.h>

#define SEEN_MAX 64

/* The linker leads every call of cay_fields_decode here (meson.build). */
int __real_cay_fields_decode(struct cay_arena *a, const struct cay_field *table,
                             const struct cay_json *object, void *out, struct cay_error *err);
int __wrap_cay_fields_decode(struct cay_arena *a, const struct cay_field *table,
                             const struct cay_json *object, void *out, struct cay_error *err);

static _Thread_local struct {
    const struct cay_field *at[SEEN_MAX];
    size_t count;
} seen;

int __wrap_cay_fields_decode(struct cay_arena *a, const struct cay_field *table,
                             const struct cay_json *object, void *out, struct cay_error *err)
{
    if (seen.count < SEEN_MAX)
        seen.at[seen.count++] = table;
    return __real_cay_fields_decode(a, table, object, out, err);
}

static bool was_seen(const struct cay_field *table)
{
    for (size_t i = 0; i < seen.count; i++)
        if (seen.at[i] == table)
            return true;
    return false;
}

static bool is_in(const struct cay_field *table, const struct cay_field *wanted)
{
    if (table == wanted)
        return true;
    for (const struct cay_field *f = table; f && f->kind != CAY_FIELD_STOP; f++)
        if (f->fields && is_in(f->fields, wanted))
            return true;
    return false;
}

static bool is_described(const struct cay_route *route, const struct cay_field *table)
{
    const struct cay_doc *doc = route->doc;
    if (is_in(doc->query, table) || is_in(doc->body, table))
        return true;
    for (const struct cay_schema *s = cay_openapi_dialect(route)->schemas; doc->body && s->name;
         s++)
        if (s->fields && is_in(s->fields, table))
            return true; /* by a type like [Command] */
    return false;
}

/* The route's own example, given to its handler: whatever comes of it, it was decoded by then. */
static void handle(struct fixture *f, const struct cay_route *route)
{
    static struct cay_pair headers[] = {{"content-type", "application/json"},
                                        {"upgrade", "websocket"},
                                        {"connection", "upgrade"},
                                        {"sec-websocket-version", "13"},
                                        {"sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="}};
    struct cay_pair params[] = {{"id", "demo"}, {"eid", "exec-1"}, {"pid", "1"}, {"port", "80"}};
    struct cay_error err = {0};
    struct cay_resp resp = {0};
    const char *send = route->doc->send ? route->doc->send : "";
    char *body = cay_arena_strndup(&f->a, send, strlen(send));
    for (char *p = body; route->doc->body && *p; p++)
        *p = *p == '\'' ? '"' : *p;
    struct cay_req req = {.arena = &f->a,
                          .method = route->method,
                          .path = route->pattern,
                          .query = route->doc->ask ? route->doc->ask : "",
                          .host = "localhost",
                          .headers = {headers, COUNT(headers)},
                          .params = {params, COUNT(params)},
                          .body = body,
                          .body_len = strlen(body),
                          .received = {.verdict_fd = -1, .end_fd = -1},
                          .route = route,
                          .core = f->core,
                          .owner = &f->me};
    seen.count = 0;
    (void)route->handler(&req, &resp, &err);
    cay_resp_drop(&resp);
    cay_close_fd(&req.received.verdict_fd);
    cay_close_fd(&req.received.end_fd);
    cay_buf_done(&resp.body);
    cay_buf_done(&resp.headers);
}

static void check_tables(struct fixture *f, const struct cay_route *route)
{
    const struct cay_doc *doc = route->doc;
    struct cay_sandbox sb;
    struct cay_error err;
    if (cay_core_get(f->core, &f->me, "demo", &f->a, &sb, &err) < 0)
        fixture_create(f, "demo", false);
    handle(f, route);
    if (doc->query && !was_seen(doc->query))
        test_failed(__FILE__, __LINE__, "%s %s does not decode the table of its .query",
                    route->method, route->pattern);
    if (doc->body && !was_seen(doc->body))
        test_failed(__FILE__, __LINE__, "%s %s does not decode the table of its .body",
                    route->method, route->pattern);
    for (size_t i = 0; i < seen.count; i++)
        if (!is_described(route, seen.at[i]))
            test_failed(
                __FILE__, __LINE__,
                "%s %s decodes a table with the field %s that its row does not name: add it "
                "to its CAY_DOC as .query or .body",
                route->method, route->pattern, seen.at[i]->name);
}

TEST(openapi_rows_name_what_handlers_decode)
{
    struct cay_error err = {0};
    struct fixture f;
    fixture_open(&f);
    f.me.scopes = CAY_SCOPE_READ | CAY_SCOPE_EXEC | CAY_SCOPE_WRITE | CAY_SCOPE_ACCOUNT;
    CHECK_EQ("keep", cay_core_keep(f.core, &err), 0);
    for (size_t i = 0; cay_app_tables[i]; i++)
        for (const struct cay_route *route = cay_app_tables[i]; route->method; route++)
            if (route->doc)
                check_tables(&f, route);
    fixture_close(&f);
}

static void check_row(const struct cay_json *paths, const struct cay_route *route, bool first)
{
    char method[8] = "";
    if (!route->doc) {
        test_failed(
            __FILE__, __LINE__,
            "%s %s is not described: end its row with CAY_DOC(\"what it does\", \"what it "
            "answers\", .query or .body = its tables, .ask or .send = an example that works), "
            "see api/openapi.h",
            route->method, route->pattern);
        return;
    }
    if (first && !route->doc->topic)
        test_failed(__FILE__, __LINE__, "%s %s is the first row of its table: give it a .topic",
                    route->method, route->pattern);
    CHECK(route->pattern, route->doc->summary[0] && route->doc->answer[0]);
    for (size_t i = 0; i + 1 < sizeof method && route->method[i]; i++)
        method[i] = (char)(route->method[i] | 0x20);
    const struct cay_json *path = cay_json_get(paths, route->pattern);
    const struct cay_json *operation = path ? cay_json_get(path, method) : NULL;
    if (!operation)
        test_failed(__FILE__, __LINE__, "%s %s is not in the document", method, route->pattern);
}

/* Every "$ref" leads to a schema, and every schema is led to. */
static void check_refs(const char *text)
{
    static const char prefix[] = "\"#/components/schemas/";
    char name[64], ref[128];
    const char *schemas = strstr(text, "\"components\":");
    for (const char *p = text; (p = strstr(p, prefix));) {
        p += strlen(prefix);
        snprintf(name, sizeof name, "\"%.*s\":{", (int)strcspn(p, "\""), p);
        if (!schemas || !strstr(schemas, name))
            test_failed(__FILE__, __LINE__, "no type or schema %s is known", name);
    }
    for (size_t i = 0; cay_app_dialects[i]; i++)
        for (const struct cay_schema *s = cay_app_dialects[i]->schemas; s->name; s++) {
            snprintf(ref, sizeof ref, "%s%s\"", prefix, s->name);
            if (!strstr(text, ref))
                test_failed(__FILE__, __LINE__, "the schema %s is not used", s->name);
        }
}

TEST(openapi_names_every_route)
{
    struct api api;
    size_t routes = 0, operations = 0;
    api_open(&api, 0);
    const char *answer = ask(&api, "GET /openapi.json", NULL, NULL);
    CHECK_EQ("given", status_of(answer), 200);
    const struct cay_json *paths = cay_json_get(body_of(&api, answer), "paths");
    for (size_t i = 0; cay_app_tables[i]; i++)
        for (const struct cay_route *route = cay_app_tables[i]; route->method; route++, routes++)
            check_row(paths, route, route == cay_app_tables[i]);
    for (const struct cay_json *path = paths->first; path; path = path->next)
        operations += path->count;
    CHECK_EQ("and nothing else", operations, routes);
    check_refs(answer);
    api_close(&api);
}

/* What one operation takes is not told of another. */
TEST(openapi_tells_create_from_fork)
{
    static const struct {
        const char *path, *takes, *refuses;
    } cases[] = {{"/api/v1/sandbox", "readyWhen", "count"},
                 {"/api/v1/sandbox/{id}/fork", "count", "readyWhen"}};
    static const char *const way[] = {"requestBody", "content", "application/json", "schema",
                                      "properties"};
    struct api api;
    api_open(&api, 0);
    const char *answer = ask(&api, "GET /openapi.json", NULL, NULL);
    const struct cay_json *paths = cay_json_get(body_of(&api, answer), "paths");
    for (size_t i = 0; i < COUNT(cases); i++) {
        const struct cay_json *at = cay_json_get(cay_json_get(paths, cases[i].path), "post");
        for (size_t k = 0; k < COUNT(way); k++)
            at = cay_json_get(at, way[k]);
        CHECK(cases[i].takes, at && cay_json_get(at, cases[i].takes));
        CHECK(cases[i].refuses, at && !cay_json_get(at, cases[i].refuses));
    }
    api_close(&api);
}

TEST(openapi_and_docs_are_for_all_within_the_rate)
{
    struct api api;
    api_open_with(&api, 2, "keys");
    CHECK_EQ("the document", status_of(ask(&api, "GET /openapi.json", NULL, NULL)), 200);
    const char *page = ask(&api, "GET /docs", NULL, NULL);
    CHECK_EQ("the page", status_of(page), 200);
    CHECK("its policy",
          strstr(page, "Content-Security-Policy: default-src 'none'; script-src 'sha") != NULL);
    CHECK("whole", strstr(page, "</html>") != NULL);
    CHECK_EQ("too many", status_of(ask(&api, "GET /docs", NULL, NULL)), 429);
    CHECK_EQ("but health", status_of(ask(&api, "GET /api/v1/health", NULL, NULL)), 200);
    api_close(&api);
}
