/* SPDX-License-Identifier: Apache-2.0 */
/* What handlers ask of a request: headers, parameters, the query and the body by table. */
#include "http/request.h"
#include "http/parse.h"
#include <string.h>
#include <strings.h>

#define QUERY_MAX 4096 /* parameters; a head has room for more, in shortest form */

const char *cay_req_header(const struct cay_req *req, const char *lower_name)
{
    return cay_pairs_get(&req->headers, lower_name);
}

const char *cay_req_param(const struct cay_req *req, const char *name)
{
    const char *value = cay_pairs_get(&req->params, name);
    return value ? value : "";
}

bool cay_req_is_safe(const struct cay_req *req)
{
    return strcmp(req->method, "GET") == 0 || strcmp(req->method, "HEAD") == 0 ||
           strcmp(req->method, "OPTIONS") == 0;
}

bool cay_req_accepts(const struct cay_req *req, const char *media_type)
{
    return cay_parse_has_token(cay_req_header(req, "accept"), media_type);
}

static int decode_part(struct cay_arena *a, const char *s, size_t len, const char **out,
                       struct cay_error *err)
{
    char *copy = cay_arena_strndup(a, s, len);
    for (size_t i = 0; i < len; i++)
        if (copy[i] == '+')
            copy[i] = ' ';
    if (!cay_str_percent(a, copy, len, out) || !cay_str_is_utf8(*out, strlen(*out)))
        return cay_fail_as(err, CAY_ERR_INVALID, "INVALID_QUERY",
                           "the query has a broken escape or is not UTF-8");
    return 0;
}

int cay_req_query(struct cay_req *req, struct cay_pairs *out, struct cay_error *err)
{
    size_t count = 1;
    for (const char *p = req->query; *p; p++)
        count += *p == '&';
    if (count > QUERY_MAX)
        return cay_fail_as(err, CAY_ERR_INVALID, "INVALID_QUERY",
                           "the query has more than %d parameters", QUERY_MAX);
    struct cay_pairs found = {cay_arena_alloc(req->arena, count * sizeof(found.at[0])), 0};
    for (const char *p = req->query; *p;) {
        size_t len = strcspn(p, "&"), key = strcspn(p, "=&");
        struct cay_pair *pair = &found.at[found.count];
        if (len > 0) {
            size_t value = key < len ? key + 1 : len;
            int r = decode_part(req->arena, p, key, &pair->key, err);
            if (r == 0)
                r = decode_part(req->arena, p + value, len - value, &pair->value, err);
            if (r < 0)
                return r;
            found.count++;
        }
        p += len + (p[len] == '&');
    }
    *out = found;
    return 0;
}

/* JSON's own form of a number; what comes from a query is held to the same. */
static bool is_number(const char *s)
{
    s += *s == '-';
    size_t digits = strspn(s, "0123456789");
    if (digits == 0 || (digits > 1 && *s == '0'))
        return false;
    s += digits;
    if (*s == '.') {
        digits = strspn(++s, "0123456789");
        if (digits == 0)
            return false;
        s += digits;
    }
    if (*s == 'e' || *s == 'E') {
        s++;
        s += *s == '+' || *s == '-';
        digits = strspn(s, "0123456789");
        return digits > 0 && s[digits] == 0;
    }
    return *s == 0;
}

static int to_json(enum cay_field_kind kind, const struct cay_pair *given, struct cay_json *out,
                   struct cay_error *err)
{
    const char *text = given->value;
    out->key = given->key;
    out->text = text;
    out->len = strlen(text);
    switch (kind) {
    case CAY_FIELD_INTEGER:
    case CAY_FIELD_NUMBER:
        if (!is_number(text))
            return cay_fail_field(err, given->key, "%s must be a number", given->key);
        out->kind = CAY_JSON_NUMBER;
        return 0;
    case CAY_FIELD_BOOLEAN:
        out->truth = strcmp(text, "true") == 0 || strcmp(text, "1") == 0;
        if (!out->truth && strcmp(text, "false") != 0 && strcmp(text, "0") != 0)
            return cay_fail_field(err, given->key, "%s must be true or false", given->key);
        out->kind = CAY_JSON_BOOL;
        return 0;
    default:
        out->kind = CAY_JSON_STRING;
        return 0;
    }
}

/* The value of one field of the table, or NULL when the query does not name it. */
static int field_value(struct cay_arena *a, const struct cay_field *field,
                       const struct cay_pairs *query, struct cay_json **out, struct cay_error *err)
{
    struct cay_json *value = NULL, *list = NULL;
    for (size_t i = 0; i < query->count; i++) {
        const char *key = query->at[i].key;
        if (!cay_field_is(field, key))
            continue;
        if (value && !list)
            return cay_fail_field(err, key, "%s is given twice", key);
        struct cay_json *one = cay_arena_alloc(a, sizeof *one);
        int r = to_json(field->kind, &query->at[i], one, err);
        if (r < 0)
            return r;
        if (field->kind == CAY_FIELD_STRINGS && !list) {
            list = cay_arena_alloc(a, sizeof *list);
            *list = (struct cay_json){.kind = CAY_JSON_ARRAY, .key = key, .first = one};
        } else if (list) {
            value->next = one;
        }
        if (list)
            list->count++;
        value = one;
    }
    *out = list ? list : value;
    return 0;
}

int cay_req_decode_query(struct cay_req *req, const struct cay_field *table, void *out,
                         struct cay_error *err)
{
    struct cay_pairs query;
    struct cay_json object = {.kind = CAY_JSON_OBJECT}, *last = NULL;
    int r = cay_req_query(req, &query, err);
    if (r < 0)
        return r;
    for (const struct cay_field *f = table; f->kind != CAY_FIELD_STOP; f++) {
        struct cay_json *value = NULL;
        r = f->name ? field_value(req->arena, f, &query, &value, err) : 0;
        if (r < 0)
            return r;
        if (!value)
            continue;
        if (last)
            last->next = value;
        else
            object.first = value;
        last = value;
        object.count++;
    }
    return cay_fields_decode(req->arena, table, &object, out, err);
}

static bool is_json_type(const char *type)
{
    size_t len = type ? strcspn(type, "; \t") : 0;
    if (len == 0 || !memchr(type, '/', len) || memchr(type, ',', strlen(type)))
        return false;
    if (len == strlen("application/json") && strncasecmp(type, "application/json", len) == 0)
        return true;
    return len > 5 && strncasecmp(type + len - 5, "+json", 5) == 0;
}

int cay_req_json(const struct cay_req *req, struct cay_arena *a, const struct cay_json **out,
                 struct cay_error *err)
{
    const char *encoding = cay_req_header(req, "content-encoding");
    const struct cay_json *json = NULL;
    if (encoding && strcasecmp(encoding, "identity") != 0)
        return cay_fail_as(err, CAY_ERR_MEDIA_TYPE, "UNSUPPORTED_MEDIA_TYPE",
                           "encoded bodies are not taken");
    if (req->body_len > 0) {
        if (!is_json_type(cay_req_header(req, "content-type")))
            return cay_fail_as(err, CAY_ERR_MEDIA_TYPE, "UNSUPPORTED_MEDIA_TYPE",
                               "the body must be sent as application/json");
        int r = cay_json_parse(a, req->body, req->body_len, &json, err);
        if (r < 0)
            return r;
        if (json->kind != CAY_JSON_OBJECT)
            return cay_fail_as(err, CAY_ERR_INVALID, "VALIDATION_ERROR",
                               "the body must be a JSON object");
    }
    *out = json;
    return 0;
}

int cay_req_decode(struct cay_req *req, const struct cay_field *table, void *out,
                   struct cay_error *err)
{
    const struct cay_json *json;
    int r = cay_req_json(req, req->arena, &json, err);
    return r < 0 ? r : cay_fields_decode(req->arena, table, json, out, err);
}
