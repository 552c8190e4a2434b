/* SPDX-License-Identifier: Apache-2.0 */
/* Strings from outside, read strictly, and the two plain collections of them. */
#pragma once
#include "base/arena.h"
#include <stdbool.h>
#include <stdint.h>

struct cay_strs { /* list of strings */
    const char **at;
    size_t count;
    size_t cap; /* room in `at`, for push; 0 when that array is not the arena's */
};

struct cay_pair {
    const char *key, *value;
};

struct cay_pairs { /* map of strings, in the order they came */
    struct cay_pair *at;
    size_t count;
    size_t cap; /* as above */
};

/* Whole decimal numbers without sign, blanks or leading zeros; false leaves out untouched. */
bool cay_str_u64(const char *s, uint64_t max, uint64_t *out);
bool cay_str_i64(const char *s, int64_t *out); /* with an optional '-' */
/* The length of the UTF-8 character at s: 1 to 4; 0 when it goes on behind len; -1 when the bytes
 * are none. */
int cay_str_utf8_step(const char *s, size_t len);
bool cay_str_is_utf8(const char *s, size_t len);
/* How many of the len bytes end on a character border: a character may be cut at the end only.
 * Bytes that are no UTF-8 at all count as they are. */
size_t cay_str_utf8_whole(const char *s, size_t len);
size_t cay_str_base64(const void *data, size_t len, char *out); /* out has 4*((len+2)/3)+1 bytes */
/* Strict: padding is needed, and nothing but those letters. False when it is not base64 or has a
 * NUL in it; out is terminated. */
/* Bytes of any value, with a NUL behind them. */
bool cay_str_unbase64_data(struct cay_arena *a, const char *s, const char **out, size_t *len_out);
bool cay_str_unbase64(struct cay_arena *a, const char *s, const char **out);
/* Decodes %XX once; false on a broken escape or an encoded NUL. */
bool cay_str_percent(struct cay_arena *a, const char *s, size_t len, const char **out);
/* Copies with truncation; always terminated. */
void cay_str_copy(char *dst, size_t size, const char *src);
bool cay_str_ends(const char *s, const char *suffix);
bool cay_str_has_line(const char *text, const char *start); /* one that begins so */
/* With all strings copied into the arena. */
struct cay_strs cay_strs_dup(struct cay_arena *a, const struct cay_strs *from);
struct cay_pairs cay_pairs_dup(struct cay_arena *a, const struct cay_pairs *from);
/* Room for so many, so that filling it takes one allocation. */
struct cay_strs cay_strs_room(struct cay_arena *a, size_t cap);
struct cay_pairs cay_pairs_room(struct cay_arena *a, size_t cap);
void cay_strs_push(struct cay_arena *a, struct cay_strs *list, const char *s);
/* push adds even when the key is there; set replaces. Neither copies the strings. */
void cay_pairs_push(struct cay_arena *a, struct cay_pairs *map, const char *key, const char *value);
void cay_pairs_set(struct cay_arena *a, struct cay_pairs *map, const char *key, const char *value);
const char *cay_pairs_get(const struct cay_pairs *map, const char *key); /* or NULL */
