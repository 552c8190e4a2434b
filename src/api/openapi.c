/* SPDX-License-Identifier: Apache-2.0 */
#include "api/openapi.h"
#include "api/app.h"
#include "api/auth.h"
#include "api/docs.h"
#include "http/response.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char about[] =
    "Sandboxes: made, run in, copied and removed.\n\n"
    "Bodies and answers are JSON in UTF-8. Requests may spell a field in camelCase or snake_case; "
    "an "
    "unknown field is refused by its name, null is as good as absent. Unknown parameters of a "
    "query "
    "are ignored. Times are ISO-8601 in UTC. A sandbox is named by its id or its name.\n\n"
    "Send a token as `Authorization: Bearer …`; each operation says which scope it needs. A server "
    "that was started without tokens takes requests without.\n\n"
    "An error has a `code` for programs, a `message` for people, and in `details` the field at "
    "fault. Wait as long as `Retry-After` says after 429 and 503.";

/* ---- the tables ---- */

/* The next route, NULL behind the last. The topic is that of its table. */
static const struct cay_route *next_route(size_t *table, size_t *at, const char **topic)
{
    const struct cay_route *const *tables = cay_app_tables;
    while (tables[*table] && !tables[*table][*at].method) {
        ++*table;
        *at = 0;
    }
    if (!tables[*table])
        return NULL;
    const struct cay_route *route = &tables[*table][(*at)++];
    if (topic && route->doc && route->doc->topic)
        *topic = route->doc->topic;
    return route;
}

const struct cay_dialect *cay_openapi_dialect(const struct cay_route *route)
{
    const struct cay_dialect *found = cay_app_dialects[0];
    size_t best = 0;
    for (size_t i = 0; cay_app_dialects[i]; i++) {
        size_t len = strlen(cay_app_dialects[i]->prefix);
        if (len > best && strncmp(route->pattern, cay_app_dialects[i]->prefix, len) == 0) {
            found = cay_app_dialects[i];
            best = len;
        }
    }
    return found;
}

/* ---- a request ---- */

/* The value of a parameter in an example's "a=1&b=2"; NULL when it has none. */
static const char *value_in(const char *ask, const char *name, size_t *len)
{
    size_t n = strlen(name);
    for (const char *p = ask; p && *p; p += strcspn(p, "&"), p += *p == '&')
        if (strncmp(p, name, n) == 0 && p[n] == '=') {
            *len = strcspn(p + n + 1, "&");
            return p + n + 1;
        }
    return NULL;
}

static void put_example(struct cay_json_writer *w, const struct cay_field *f, const char *value,
                        size_t len)
{
    bool raw =
        f->kind == CAY_FIELD_INTEGER || f->kind == CAY_FIELD_NUMBER || f->kind == CAY_FIELD_BOOLEAN;
    if (raw) {
        cay_jw_raw(w, "example", value, len);
        return;
    }
    if (f->kind == CAY_FIELD_STRINGS) {
        cay_jw_array(w, "example");
        cay_jw_strn(w, NULL, value, len);
        cay_jw_array_end(w);
        return;
    }
    cay_jw_strn(w, "example", value, len);
}

static void begin_parameter(struct cay_json_writer *w, const char *where, const char *name,
                            size_t len, bool required)
{
    cay_jw_object(w, NULL);
    cay_jw_strn(w, "name", name, len);
    cay_jw_str(w, "in", where);
    cay_jw_bool(w, "required", required);
}

static void put_text_parameter(struct cay_json_writer *w, const char *where, const char *name,
                               size_t len)
{
    begin_parameter(w, where, name, len, strcmp(where, "path") == 0);
    cay_schema_type(w, "schema", "string", strlen("string"));
    cay_jw_object_end(w);
}

static void put_parameters(struct cay_json_writer *w, const struct cay_route *route)
{
    const struct cay_doc *doc = route->doc;
    const char *value;
    size_t len;
    cay_jw_array(w, "parameters");
    for (const char *p = strchr(route->pattern, '{'); p; p = strchr(p, '{')) {
        p++;
        put_text_parameter(w, "path", p, strcspn(p, "}"));
    }
    for (const struct cay_field *f = doc->query; f && f->kind != CAY_FIELD_STOP; f++) {
        begin_parameter(w, "query", f->name, strlen(f->name), f->required);
        cay_schema_field(w, "schema", f);
        value = value_in(doc->ask, f->name, &len);
        if (value)
            put_example(w, f, value, len);
        cay_jw_object_end(w);
    }
    for (const char *p = doc->headers; p && *p; p += strspn(p, ", ")) {
        len = strcspn(p, ",");
        put_text_parameter(w, "header", p, len);
        p += len;
    }
    cay_jw_array_end(w);
}

static void put_json_example(struct cay_json_writer *w, const char *text)
{
    CAY_AUTO_BUF struct cay_buf json = {0};
    for (; *text; text++)
        cay_buf_addc(&json, *text == '\'' ? '"' : *text);
    cay_jw_raw(w, "example", json.data, json.len);
}

static bool needs_body(const struct cay_field *table)
{
    bool needs = false;
    for (const struct cay_field *f = table; f && f->kind != CAY_FIELD_STOP; f++)
        needs = needs || f->required;
    return needs;
}

/* Of a body that is no JSON. */
static void put_media(struct cay_json_writer *w, const struct cay_doc *doc)
{
    char type[64];
    const char *list = doc->media ? doc->media : "application/octet-stream";
    for (const char *p = list; *p; p += strspn(p, ", ")) {
        size_t len = strcspn(p, ",");
        cay_str_copy(type, len < sizeof type ? len + 1 : sizeof type, p);
        cay_jw_object(w, type);
        if (p == list && doc->send)
            cay_jw_str(w, "example", doc->send);
        cay_jw_object_end(w);
        p += len;
    }
}

static void put_body(struct cay_json_writer *w, const struct cay_route *route)
{
    const struct cay_doc *doc = route->doc;
    if (!doc->body && !doc->media && route->body != CAY_BODY_STREAM)
        return;
    cay_jw_object(w, "requestBody");
    cay_jw_bool(w, "required", needs_body(doc->body));
    cay_jw_object(w, "content");
    if (doc->body) {
        cay_jw_object(w, "application/json");
        cay_schema_table(w, "schema", doc->body);
        if (doc->send)
            put_json_example(w, doc->send);
        cay_jw_object_end(w);
    } else {
        put_media(w, doc);
    }
    cay_jw_object_end(w);
    cay_jw_object_end(w);
}

/* ---- answers ---- */

static const char *phrase(long status)
{
    static const struct {
        long status;
        const char *text;
    } phrases[] = {{101, "A WebSocket."},        {200, "It is done."},
                   {201, "It is made."},         {202, "It is begun."},
                   {206, "A part of it."},       {304, "It has not changed."},
                   {501, "Not to be had here."}, {503, "Something is away: try again later."},
                   {507, "There is no room."}};
    for (size_t i = 0; i < CAY_COUNT(phrases); i++)
        if (phrases[i].status == status)
            return phrases[i].text;
    return status >= 400 ? "It failed." : "It is done.";
}

/* "Result, text/event-stream" */
static void put_content(struct cay_json_writer *w, const char *p, size_t len)
{
    char type[64];
    cay_jw_object(w, "content");
    for (size_t at = 0, step; at < len; at += step + 1) {
        at += strspn(p + at, " ");
        step = strcspn(p + at, ",;");
        bool media = memchr(p + at, '/', step) != NULL;
        cay_str_copy(type, step < sizeof type ? step + 1 : sizeof type, p + at);
        cay_jw_object(w, media ? type : "application/json");
        if (!media)
            cay_schema_type(w, "schema", p + at, step);
        else if (strncmp(type, "text/", 5) == 0)
            cay_schema_type(w, "schema", "string", strlen("string"));
        cay_jw_object_end(w);
    }
    cay_jw_object_end(w);
}

static void put_answer(struct cay_json_writer *w, const char *key, const char *text, size_t len,
                       const char *error)
{
    long status = strtol(key, NULL, 10);
    cay_jw_object(w, key);
    cay_jw_str(w, "description", phrase(status));
    if (len > 0)
        put_content(w, text, len);
    else if (status == 0 || status >= 400)
        put_content(w, error, strlen(error));
    cay_jw_object_end(w);
}

static void put_answers(struct cay_json_writer *w, const struct cay_route *route)
{
    const char *error = cay_openapi_dialect(route)->error;
    char key[8];
    cay_jw_object(w, "responses");
    for (const char *p = route->doc->answer; *p; p += strspn(p, "; ")) {
        size_t digits = strspn(p, "0123456789");
        cay_str_copy(key, sizeof key, "200");
        if (digits > 0)
            cay_str_copy(key, digits < sizeof key ? digits + 1 : sizeof key, p);
        p += digits + strspn(p + digits, " ");
        size_t len = strcspn(p, ";");
        put_answer(w, key, p, len, error);
        p += len;
    }
    if (!strstr(route->doc->answer, "503"))
        put_answer(w, "503", "", 0, error);
    put_answer(w, "default", "", 0, error);
    cay_jw_object_end(w);
}

/* ---- operations ---- */

/* "get_v1_sandbox_id_exec" */
static void put_id(struct cay_json_writer *w, const struct cay_route *route)
{
    char id[160];
    size_t len = 0;
    const char *p = route->pattern;
    for (const char *m = route->method; *m; m++)
        id[len++] = (char)(*m | 0x20); /* lower case */
    if (strncmp(p, "/api/", 5) == 0)
        p += 4;
    for (; *p && len + 1 < sizeof id; p++)
        if (*p != '{' && *p != '}')
            id[len++] = strchr("/-.:", *p) ? '_' : *p;
    cay_jw_strn(w, "operationId", id, len);
}

static void put_operation(struct cay_json_writer *w, const struct cay_route *route,
                          const char *topic)
{
    char key[8] = "";
    for (size_t i = 0; route->method[i] && i + 1 < sizeof key; i++)
        key[i] = (char)(route->method[i] | 0x20);
    cay_jw_object(w, key);
    cay_jw_str(w, "summary", route->doc->summary);
    put_id(w, route);
    cay_jw_array(w, "tags");
    cay_jw_str(w, NULL, topic);
    cay_jw_array_end(w);
    put_parameters(w, route);
    put_body(w, route);
    put_answers(w, route);
    cay_jw_array(w, "security");
    if (route->scope != CAY_SCOPE_NONE) {
        cay_jw_object(w, NULL);
        cay_jw_array(w, "token");
        cay_jw_str(w, NULL, cay_auth_scope_name(route->scope));
        cay_jw_array_end(w);
        cay_jw_object_end(w);
    }
    cay_jw_array_end(w);
    cay_jw_object_end(w);
}

/* All methods of a path stand together, where its first route is. */
static void put_path(struct cay_json_writer *w, const struct cay_route *first)
{
    size_t table = 0, at = 0;
    const char *topic = "";
    bool open = false;
    for (const struct cay_route *r; (r = next_route(&table, &at, &topic));) {
        if (!r->doc || strcmp(r->pattern, first->pattern) != 0)
            continue;
        if (!open && r != first)
            return; /* it was written before */
        if (!open)
            cay_jw_object(w, r->pattern);
        open = true;
        put_operation(w, r, topic);
    }
    cay_jw_object_end(w);
}

static void put_schemas(struct cay_json_writer *w)
{
    cay_jw_object(w, "schemas");
    for (size_t i = 0; cay_app_dialects[i]; i++)
        for (const struct cay_schema *s = cay_app_dialects[i]->schemas; s->name; s++) {
            if (s->fields)
                cay_schema_table(w, s->name, s->fields);
            else
                cay_schema_members(w, s->name, s->members);
        }
    cay_jw_object_end(w);
}

static int get_document(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    static const char token[] = "{\"token\":{\"type\":\"http\",\"scheme\":\"bearer\"}}";
    struct cay_json_writer *w = cay_resp_json(resp, 200);
    size_t table = 0, at = 0;
    (void)req, (void)err;
    cay_jw_object(w, NULL);
    cay_jw_str(w, "openapi", "3.1.0");
    cay_jw_object(w, "info");
    cay_jw_str(w, "title", "cay");
    cay_jw_str(w, "version", CAY_VERSION);
    cay_jw_str(w, "description", about);
    cay_jw_object_end(w);
    cay_jw_raw(w, "servers", "[{\"url\":\"/\"}]", strlen("[{\"url\":\"/\"}]"));
    cay_jw_object(w, "paths");
    for (const struct cay_route *r; (r = next_route(&table, &at, NULL));)
        if (r->doc)
            put_path(w, r);
    cay_jw_object_end(w);
    cay_jw_object(w, "components");
    put_schemas(w);
    cay_jw_raw(w, "securitySchemes", token, strlen(token));
    cay_jw_object_end(w);
    cay_jw_object_end(w);
    return 0;
}

const struct cay_route cay_openapi_routes[] = {
    {"GET", "/openapi.json", CAY_SCOPE_NONE, get_document, CAY_BODY_AUTO,
     CAY_DOC("This document", "{any}", .topic = "About this API")},
    {"GET", "/docs", CAY_SCOPE_NONE, cay_docs_page, CAY_BODY_AUTO,
     CAY_DOC("A page to read it", "text/html")},
    {0},
};
