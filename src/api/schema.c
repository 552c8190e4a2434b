/* SPDX-License-Identifier: Apache-2.0 */
#include "api/schema.h"
#include "model/limits.h"
#include <string.h>

static void put_one(struct cay_json_writer *w, const char *type, size_t len)
{
    static const struct {
        const char *word, *type, *format;
    } words[] = {{"string", "string"},   {"integer", "integer"},          {"number", "number"},
                 {"boolean", "boolean"}, {"time", "string", "date-time"}, {"null", "null"}};
    char ref[128] = "#/components/schemas/";
    if (len > 1 && type[0] == '[') {
        cay_jw_str(w, "type", "array");
        cay_schema_type(w, "items", type + 1, len - 2);
        return;
    }
    if (len > 1 && type[0] == '{') {
        cay_jw_str(w, "type", "object");
        cay_schema_type(w, "additionalProperties", type + 1, len - 2);
        return;
    }
    if (len > 1 && type[0] == '\'') {
        cay_jw_str(w, "type", "string");
        cay_jw_strn(w, "const", type + 1, len - 2);
        return;
    }
    for (size_t i = 0; i < CAY_COUNT(words); i++)
        if (strlen(words[i].word) == len && memcmp(words[i].word, type, len) == 0) {
            cay_jw_str(w, "type", words[i].type);
            if (words[i].format)
                cay_jw_str(w, "format", words[i].format);
            return;
        }
    if (len == 3 && memcmp(type, "any", 3) == 0)
        return;
    (void)strncat(ref, type, len < 64 ? len : 64);
    cay_jw_str(w, "$ref", ref);
}

/* Up to the first of these characters that stands in no bracket. */
static size_t until(const char *text, size_t len, char stop)
{
    int depth = 0;
    size_t i = 0;
    for (; i < len && (depth > 0 || text[i] != stop); i++)
        depth += (text[i] == '[' || text[i] == '{') - (text[i] == ']' || text[i] == '}');
    return i;
}

void cay_schema_type(struct cay_json_writer *w, const char *key, const char *type, size_t len)
{
    cay_jw_object(w, key);
    if (until(type, len, '|') == len) {
        put_one(w, type, len);
        cay_jw_object_end(w);
        return;
    }
    cay_jw_array(w, "anyOf");
    for (size_t at = 0, step; at < len; at += step + 1) {
        step = until(type + at, len - at, '|');
        cay_jw_object(w, NULL);
        put_one(w, type + at, step);
        cay_jw_object_end(w);
    }
    cay_jw_array_end(w);
    cay_jw_object_end(w);
}

/* The next member: its name, and its type up to the comma. False behind the last. */
static bool next_member(const char **at, size_t *name, const char **type, size_t *len)
{
    *at += strspn(*at, ", ");
    *name = strcspn(*at, " ");
    *type = *at + *name + strspn(*at + *name, " ");
    *len = strcspn(*type, ",");
    return **at != 0;
}

void cay_schema_members(struct cay_json_writer *w, const char *key, const char *members)
{
    char text[64];
    size_t name, len;
    const char *type, *at = members;
    cay_jw_object(w, key);
    cay_jw_str(w, "type", "object");
    cay_jw_object(w, "properties");
    for (; next_member(&at, &name, &type, &len); at = type + len) {
        size_t bare = name - (at[name - 1] == '?');
        cay_str_copy(text, bare < sizeof text ? bare + 1 : sizeof text, at);
        cay_schema_type(w, text, type, len);
    }
    cay_jw_object_end(w);
    cay_jw_array(w, "required");
    for (at = members; next_member(&at, &name, &type, &len); at = type + len)
        if (at[name - 1] != '?')
            cay_jw_strn(w, NULL, at, name);
    cay_jw_array_end(w);
    cay_jw_object_end(w);
}

/* ---- from field tables ---- */

static void put_string(struct cay_json_writer *w, const struct cay_field *f)
{
    cay_jw_str(w, "type", "string");
    if (!f->choices) {
        cay_jw_int(w, "maxLength", (int64_t)(f->max_len ? f->max_len : CAY_LIMIT_STRING));
        return;
    }
    cay_jw_array(w, "enum");
    for (const char *const *c = f->choices; *c; c++)
        cay_jw_str(w, NULL, *c);
    cay_jw_array_end(w);
}

/* Bounds as the decoder understands them. */
static void put_number(struct cay_json_writer *w, const struct cay_field *f, const char *type)
{
    cay_jw_str(w, "type", type);
    if (f->min == 0 && f->max == 0)
        return;
    cay_jw_real(w, "minimum", f->min);
    if (f->max != 0 || f->min < 0)
        cay_jw_real(w, "maximum", f->max);
}

/* A list's elements, or a map's values. */
static void put_many(struct cay_json_writer *w, const struct cay_field *f, bool map)
{
    cay_jw_str(w, "type", map ? "object" : "array");
    cay_jw_int(w, map ? "maxProperties" : "maxItems",
               (int64_t)(f->max_count ? f->max_count : CAY_LIMIT_LIST));
    cay_jw_object(w, map ? "additionalProperties" : "items");
    put_string(w, f);
    cay_jw_object_end(w);
}

void cay_schema_field(struct cay_json_writer *w, const char *key, const struct cay_field *f)
{
    if (f->kind == CAY_FIELD_OBJECT || (f->kind == CAY_FIELD_VALUE && f->fields)) {
        cay_schema_table(w, key, f->fields);
        return;
    }
    if (f->kind == CAY_FIELD_VALUE && f->type) {
        cay_schema_type(w, key, f->type, strlen(f->type));
        return;
    }
    cay_jw_object(w, key);
    if (f->kind == CAY_FIELD_STRING)
        put_string(w, f);
    else if (f->kind == CAY_FIELD_BOOLEAN)
        cay_jw_str(w, "type", "boolean");
    else if (f->kind == CAY_FIELD_INTEGER || f->kind == CAY_FIELD_NUMBER)
        put_number(w, f, f->kind == CAY_FIELD_INTEGER ? "integer" : "number");
    else if (f->kind == CAY_FIELD_STRINGS || f->kind == CAY_FIELD_MAP)
        put_many(w, f, f->kind == CAY_FIELD_MAP);
    if (f->about)
        cay_jw_str(w, "description", f->about);
    if (f->kind == CAY_FIELD_IGNORED)
        cay_jw_str(w, "description", "Taken for the sake of other clients, and not used.");
    cay_jw_object_end(w);
}

void cay_schema_table(struct cay_json_writer *w, const char *key, const struct cay_field *table)
{
    cay_jw_object(w, key);
    cay_jw_str(w, "type", "object");
    cay_jw_bool(w, "additionalProperties", cay_fields_open(table));
    cay_jw_object(w, "properties");
    for (const struct cay_field *f = table; f->kind != CAY_FIELD_STOP; f++)
        cay_schema_field(w, f->name, f);
    cay_jw_object_end(w);
    cay_jw_array(w, "required");
    for (const struct cay_field *f = table; f->kind != CAY_FIELD_STOP; f++)
        if (f->required)
            cay_jw_str(w, NULL, f->name);
    cay_jw_array_end(w);
    cay_jw_object_end(w);
}
