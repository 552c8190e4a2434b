/* SPDX-License-Identifier: Apache-2.0 */
/* JSON: a strict reader into an arena, and a writer onto a buffer.
 *
 * The reader keeps numbers as they were written, so that whoever knows the field can refuse 1e400
 * by the field's name. NaN and Infinity are read as such numbers for the same reason. */
#pragma once
#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include <stdbool.h>
#include <stdint.h>

enum cay_json_kind {
    CAY_JSON_NULL,
    CAY_JSON_BOOL,
    CAY_JSON_NUMBER,
    CAY_JSON_STRING,
    CAY_JSON_ARRAY,
    CAY_JSON_OBJECT,
};

struct cay_json {
    enum cay_json_kind kind;
    bool truth;                   /* of a bool */
    const char *text;             /* a string decoded, a number as written; terminated */
    size_t len;                   /* of text */
    const char *key;              /* in an object */
    const struct cay_json *first; /* of an array or object */
    const struct cay_json *next;  /* sibling */
    size_t count;                 /* children */
};

/* Text must be one value in UTF-8, at most 64 levels deep, without doubled keys and without NUL.
 * Otherwise CAY_ERR_INVALID, "INVALID_JSON". Strings are copied into the arena. */
int cay_json_parse(struct cay_arena *a, const char *text, size_t len, const struct cay_json **out,
                   struct cay_error *err);
const struct cay_json *cay_json_get(const struct cay_json *object, const char *key); /* or NULL */
/* The value of a key of that kind, else the default: for documents that we wrote ourselves. */
const char *cay_json_get_str(const struct cay_json *object, const char *key, const char *otherwise);
int64_t cay_json_get_int(const struct cay_json *object, const char *key, int64_t otherwise);
bool cay_json_get_bool(const struct cay_json *object, const char *key, bool otherwise);
/* False when it is not a number, not finite, out of range, "-0", or (int) not whole. 2.0 and 1e3
 * are whole. */
bool cay_json_int(const struct cay_json *v, int64_t *out);
bool cay_json_real(const struct cay_json *v, double *out);

/* The writer. Keys are given inside objects and NULL inside arrays and at the top. */
struct cay_json_writer {
    struct cay_buf *buf;
    bool comma;
};

void cay_jw_object(struct cay_json_writer *w, const char *key);
void cay_jw_object_end(struct cay_json_writer *w);
void cay_jw_array(struct cay_json_writer *w, const char *key);
void cay_jw_array_end(struct cay_json_writer *w);
void cay_jw_str(struct cay_json_writer *w, const char *key, const char *value); /* NULL is null */
void cay_jw_strn(struct cay_json_writer *w, const char *key, const char *value, size_t len);
void cay_jw_int(struct cay_json_writer *w, const char *key, int64_t value);
void cay_jw_real(struct cay_json_writer *w, const char *key, double value); /* 2.0 is written 2 */
void cay_jw_bool(struct cay_json_writer *w, const char *key, bool value);
void cay_jw_null(struct cay_json_writer *w, const char *key);
void cay_jw_time(struct cay_json_writer *w, const char *key, int64_t time_ms); /* 0 is null */
void cay_jw_raw(struct cay_json_writer *w, const char *key, const char *json, size_t len);
#define CAY_JSON_WORST 6 /* what a byte of a string becomes at most: \u001f */
/* The inside of a string, for one that is written in pieces; no piece may cut a character. */
void cay_json_escape(struct cay_buf *b, const char *s, size_t len);
/* Bytes that are no UTF-8 are replaced by U+FFFD; control characters are escaped. */
