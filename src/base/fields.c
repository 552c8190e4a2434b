/* SPDX-License-Identifier: Apache-2.0 */
/* Each key of the object is looked up in the table; then what is required is looked for. */
#include "base/fields.h"
#include "model/limits.h"
#include <assert.h>
#include <stdio.h>
#include <string.h>

#define TABLE_MAX 128
#define WHOLE_MAX 9007199254740992LL /* 2^53: beyond it, clients' numbers are not exact */

struct decoder {
    struct cay_arena *arena;
    void *out;
    struct cay_error *err;
};

static int decode_object(struct decoder *d, const struct cay_field *table,
                         const struct cay_json *object, const char *prefix);

static bool is_upper(char c)
{
    return c >= 'A' && c <= 'Z';
}

/* diskSizeGB is disk_size_gb, sandboxIDList sandbox_id_list. */
static bool is_snake_of(const char *key, const char *name)
{
    for (size_t i = 0; name[i]; i++) {
        char c = name[i];
        if (is_upper(c)) {
            bool word =
                i > 0 && (!is_upper(name[i - 1]) || (name[i + 1] >= 'a' && name[i + 1] <= 'z'));
            if (word && *key++ != '_')
                return false;
            c = (char)(c - 'A' + 'a');
        }
        if (*key++ != c)
            return false;
    }
    return *key == 0;
}

bool cay_field_is(const struct cay_field *f, const char *key)
{
    return strcmp(f->name, key) == 0 || is_snake_of(key, f->name);
}

static const struct cay_field *find(const struct cay_field *table, const char *key)
{
    for (const struct cay_field *f = table; f->kind != CAY_FIELD_STOP; f++)
        if (cay_field_is(f, key))
            return f;
    return NULL;
}

bool cay_fields_open(const struct cay_field *table)
{
    while (table->kind != CAY_FIELD_STOP)
        table++;
    return table->name != NULL;
}

static size_t max_len(const struct cay_field *f)
{
    return f->max_len ? f->max_len : (size_t)CAY_LIMIT_STRING;
}

static size_t max_count(const struct cay_field *f)
{
    return f->max_count ? f->max_count : (size_t)CAY_LIMIT_LIST;
}

static int wrong_choice(struct decoder *d, const struct cay_field *f, const char *at)
{
    char list[120];
    size_t len = 0;
    list[0] = 0;
    for (const char *const *c = f->choices; *c && len < sizeof list; c++)
        len += (size_t)snprintf(list + len, sizeof list - len, "%s%s", len ? ", " : "", *c);
    return cay_fail_field(d->err, at, "%s must be one of %s", at, list);
}

static int decode_string(struct decoder *d, const struct cay_field *f, const struct cay_json *v,
                         const char *at, const char **out)
{
    if (v->kind != CAY_JSON_STRING)
        return cay_fail_field(d->err, at, "%s must be a string", at);
    if (v->len > max_len(f))
        return cay_fail_field(d->err, at, "%s must be at most %zu bytes long", at, max_len(f));
    if (f->choices) {
        const char *const *c = f->choices;
        while (*c && strcmp(*c, v->text) != 0)
            c++;
        if (!*c)
            return wrong_choice(d, f, at);
    }
    *out = v->text;
    return 0;
}

/* No upper bound when only the lower one is given; none at all when both are 0. */
static int check_bounds(struct decoder *d, const struct cay_field *f, const char *at, double value)
{
    if (f->min == 0 && f->max == 0)
        return 0;
    if (f->max == 0 && f->min > 0) {
        if (value < f->min)
            return cay_fail_field(d->err, at, "%s must be at least %.15g", at, f->min);
        return 0;
    }
    if (value < f->min || value > f->max)
        return cay_fail_field(d->err, at, "%s must be between %.15g and %.15g", at, f->min, f->max);
    return 0;
}

static int decode_integer(struct decoder *d, const struct cay_field *f, const struct cay_json *v,
                          const char *at, int64_t *out)
{
    int64_t value;
    if (v->kind != CAY_JSON_NUMBER)
        return cay_fail_field(d->err, at, "%s must be a number", at);
    if (!cay_json_int(v, &value) || value > WHOLE_MAX || value < -WHOLE_MAX)
        return cay_fail_field(d->err, at, "%s must be a whole number", at);
    int r = check_bounds(d, f, at, (double)value);
    if (r < 0)
        return r;
    *out = value;
    return 0;
}

static int decode_number(struct decoder *d, const struct cay_field *f, const struct cay_json *v,
                         const char *at, double *out)
{
    double value;
    if (v->kind != CAY_JSON_NUMBER)
        return cay_fail_field(d->err, at, "%s must be a number", at);
    if (!cay_json_real(v, &value))
        return cay_fail_field(d->err, at, "%s must be a finite number", at);
    int r = check_bounds(d, f, at, value);
    if (r < 0)
        return r;
    *out = value;
    return 0;
}

static int decode_strings(struct decoder *d, const struct cay_field *f, const struct cay_json *v,
                          const char *at, struct cay_strs *out)
{
    if (v->kind != CAY_JSON_ARRAY)
        return cay_fail_field(d->err, at, "%s must be a list of strings", at);
    if (v->count > max_count(f))
        return cay_fail_field(d->err, at, "%s must have at most %zu entries", at, max_count(f));
    struct cay_strs list = cay_strs_room(d->arena, v->count);
    for (const struct cay_json *item = v->first; item; item = item->next) {
        const char *text;
        if (item->kind != CAY_JSON_STRING)
            return cay_fail_field(d->err, at, "%s must be a list of strings", at);
        int r = decode_string(d, f, item, at, &text);
        if (r < 0)
            return r;
        cay_strs_push(d->arena, &list, text);
    }
    *out = list;
    return 0;
}

static int decode_map(struct decoder *d, const struct cay_field *f, const struct cay_json *v,
                      const char *at, struct cay_pairs *out)
{
    if (v->kind != CAY_JSON_OBJECT)
        return cay_fail_field(d->err, at, "%s must be an object of strings", at);
    if (v->count > max_count(f))
        return cay_fail_field(d->err, at, "%s must have at most %zu entries", at, max_count(f));
    struct cay_pairs map = cay_pairs_room(d->arena, v->count);
    for (const struct cay_json *item = v->first; item; item = item->next) {
        const char *text;
        if (item->kind != CAY_JSON_STRING)
            return cay_fail_field(d->err, at, "%s must be an object of strings", at);
        if (strlen(item->key) > max_len(f))
            return cay_fail_field(d->err, at, "a key of %s is longer than %zu bytes", at,
                                  max_len(f));
        int r = decode_string(d, f, item, at, &text);
        if (r < 0)
            return r;
        cay_pairs_push(d->arena, &map, item->key, text);
    }
    *out = map;
    return 0;
}

static int decode_boolean(struct decoder *d, const struct cay_json *v, const char *at, bool *out)
{
    if (v->kind != CAY_JSON_BOOL)
        return cay_fail_field(d->err, at, "%s must be true or false", at);
    *out = v->truth;
    return 0;
}

static int decode_field(struct decoder *d, const struct cay_field *f, const struct cay_json *v,
                        const char *at)
{
    void *to = (char *)d->out + f->offset;
    switch (f->kind) {
    case CAY_FIELD_STRING:
        return decode_string(d, f, v, at, to);
    case CAY_FIELD_BOOLEAN:
        return decode_boolean(d, v, at, to);
    case CAY_FIELD_INTEGER:
        return decode_integer(d, f, v, at, to);
    case CAY_FIELD_NUMBER:
        return decode_number(d, f, v, at, to);
    case CAY_FIELD_STRINGS:
        return decode_strings(d, f, v, at, to);
    case CAY_FIELD_MAP:
        return decode_map(d, f, v, at, to);
    case CAY_FIELD_OBJECT:
        return decode_object(d, f->fields, v, at);
    case CAY_FIELD_VALUE:
        *(const struct cay_json **)to = v;
        return 0;
    case CAY_FIELD_IGNORED:
    case CAY_FIELD_STOP:
        break;
    }
    return 0;
}

static void path_of(char *out, size_t size, const char *prefix, const char *name)
{
    (void)snprintf(out, size, "%s%s%s", prefix, prefix[0] ? "." : "", name); /* cut is fine */
}

static bool is_kept(const struct cay_field *f)
{
    return f->kind != CAY_FIELD_OBJECT && f->kind != CAY_FIELD_IGNORED;
}

/* Another name for the same thing, that came as well; NULL when none did. */
static const struct cay_field *find_twin(const struct cay_field *table, const struct cay_field *f,
                                         const bool *given)
{
    for (const struct cay_field *g = table; g->kind != CAY_FIELD_STOP; g++)
        if (g != f && given[g - table] && is_kept(f) && is_kept(g) && g->offset == f->offset)
            return g;
    return NULL;
}

static int decode_object(struct decoder *d, const struct cay_field *table,
                         const struct cay_json *object, const char *prefix)
{
    bool seen[TABLE_MAX] = {0}, given[TABLE_MAX] = {0};
    char at[sizeof d->err->field];
    if (object && object->kind != CAY_JSON_OBJECT && prefix[0])
        return cay_fail_field(d->err, prefix, "%s must be an object", prefix);
    if (object && object->kind != CAY_JSON_OBJECT)
        return cay_fail_field(d->err, "", "the body must be a JSON object");

    for (const struct cay_json *v = object ? object->first : NULL; v; v = v->next) {
        const struct cay_field *f = find(table, v->key);
        path_of(at, sizeof at, prefix, v->key);
        if (!f && cay_fields_open(table))
            continue;
        if (!f)
            return cay_fail_field(d->err, at, "unknown field %s", at);
        size_t i = (size_t)(f - table);
        assert(i < TABLE_MAX);
        if (seen[i]) /* the same key cannot come twice, so it came in both spellings */
            return cay_fail_field(d->err, at, "%s is given twice", at);
        seen[i] = true;
        given[i] = v->kind != CAY_JSON_NULL;
        const struct cay_field *twin = given[i] ? find_twin(table, f, given) : NULL;
        if (twin)
            return cay_fail_field(d->err, at, "%s and %s are one and the same: give one of them",
                                  at, twin->name);
        int r = given[i] ? decode_field(d, f, v, at) : 0;
        if (r < 0)
            return r;
    }
    for (const struct cay_field *f = table; f->kind != CAY_FIELD_STOP; f++) {
        path_of(at, sizeof at, prefix, f->name);
        if (f->required && !given[f - table])
            return cay_fail_field(d->err, at, "%s is required", at);
    }
    return 0;
}

int cay_fields_decode(struct cay_arena *a, const struct cay_field *table,
                      const struct cay_json *object, void *out, struct cay_error *err)
{
    struct decoder d = {a, out, err};
    return decode_object(&d, table, object, "");
}
