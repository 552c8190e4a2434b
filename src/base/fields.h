/* SPDX-License-Identifier: Apache-2.0 */
/* JSON objects to structs, by table.
 *
 * A table names each field of a body, where it goes and what it may hold. camelCase and snake_case
 * are both accepted (the table says camelCase). Two fields that lead to one place are two names for
 * one thing. An unknown field, a field by both names, a wrong type or a value out of bounds is
 * CAY_ERR_INVALID, VALIDATION_ERROR, with err->field set ("resources.vcpus" when nested), in the
 * caller's own spelling. */
#pragma once
#include "base/error.h"
#include "base/json.h"
#include "base/str.h"

enum cay_field_kind {
    CAY_FIELD_STOP, /* ends a table */
    CAY_FIELD_STRING,
    CAY_FIELD_BOOLEAN,
    CAY_FIELD_INTEGER, /* int64_t */
    CAY_FIELD_NUMBER,  /* double */
    CAY_FIELD_STRINGS, /* struct cay_strs */
    CAY_FIELD_MAP,     /* struct cay_pairs */
    CAY_FIELD_OBJECT,  /* a nested table, into the same struct */
    CAY_FIELD_VALUE,   /* const struct cay_json *, as it came */
    CAY_FIELD_IGNORED, /* known, taken, not used */
};

struct cay_field {
    enum cay_field_kind kind;
    const char *name;
    size_t offset;
    bool required;
    double min, max;                /* numbers; both 0 is no bound. Integers up to 2^53 */
    size_t max_len;                 /* of a string or of each element; 0 is CAY_LIMIT_STRING */
    size_t max_count;               /* of a list or map; 0 is CAY_LIMIT_LIST */
    const struct cay_field *fields; /* of an object */
    const char *const *choices;     /* of a string; NULL-terminated */
    const char *type;               /* of a value, for who reads of it: as in api/schema.h */
    const char *about;              /* of a string or a number, likewise: a sentence; or NULL */
};

#define CAY_FIELD_STR(type, member, wire, ...)                                                     \
    {                                                                                              \
        CAY_FIELD_STRING, wire, offsetof(type, member), __VA_ARGS__                                \
    }
#define CAY_FIELD_BOOL(type, member, wire, ...)                                                    \
    {                                                                                              \
        CAY_FIELD_BOOLEAN, wire, offsetof(type, member), __VA_ARGS__                               \
    }
#define CAY_FIELD_INT(type, member, wire, ...)                                                     \
    {                                                                                              \
        CAY_FIELD_INTEGER, wire, offsetof(type, member), __VA_ARGS__                               \
    }
#define CAY_FIELD_NUM(type, member, wire, ...)                                                     \
    {                                                                                              \
        CAY_FIELD_NUMBER, wire, offsetof(type, member), __VA_ARGS__                                \
    }
#define CAY_FIELD_STRS(type, member, wire, ...)                                                    \
    {                                                                                              \
        CAY_FIELD_STRINGS, wire, offsetof(type, member), __VA_ARGS__                               \
    }
#define CAY_FIELD_PAIRS(type, member, wire, ...)                                                   \
    {                                                                                              \
        CAY_FIELD_MAP, wire, offsetof(type, member), __VA_ARGS__                                   \
    }
#define CAY_FIELD_SUB(wire, table)                                                                 \
    {                                                                                              \
        CAY_FIELD_OBJECT, wire, .fields = table                                                    \
    }
#define CAY_FIELD_ANY(type, member, wire, ...)                                                     \
    {                                                                                              \
        CAY_FIELD_VALUE, wire, offsetof(type, member), __VA_ARGS__                                 \
    }
#define CAY_FIELD_SKIP(wire)                                                                       \
    {                                                                                              \
        CAY_FIELD_IGNORED, wire                                                                    \
    }
#define CAY_FIELD_END                                                                              \
    {                                                                                              \
        CAY_FIELD_STOP                                                                             \
    }
/* For bodies of foreign clients: what is unknown is passed over. */
#define CAY_FIELD_END_OPEN                                                                         \
    {                                                                                              \
        CAY_FIELD_STOP, "*"                                                                        \
    }

/* Does the table end with CAY_FIELD_END_OPEN? */
bool cay_fields_open(const struct cay_field *table);
/* Does this key name the field, in either spelling? */
bool cay_field_is(const struct cay_field *f, const char *key);
/* The struct keeps what it held where a field is absent or null (the caller puts defaults there).
 * Strings point into the arena or into the JSON's. An object of NULL counts as {}. */
int cay_fields_decode(struct cay_arena *a, const struct cay_field *table,
                      const struct cay_json *object, void *out, struct cay_error *err);
