/* SPDX-License-Identifier: Apache-2.0 */
/* How things look to people: tables, sizes, times; and nothing from a server reaches the terminal
 * with control characters in it. */
#pragma once
#include "base/buf.h"
#include "base/json.h"
#include "base/str.h"
#include <stdio.h>

/* Adds the text with control characters and broken UTF-8 replaced by '?'. */
void cay_output_clean(struct cay_buf *to, const char *text);
const char *cay_output_size(struct cay_arena *a, double bytes);   /* "512 MiB" */
const char *cay_output_duration(struct cay_arena *a, int64_t ms); /* "350ms", "12s", "3h 5m" */
/* How long ago an ISO-8601 UTC time was; "-" when it is none. */
const char *cay_output_age(struct cay_arena *a, const char *iso, int64_t now_ms);
/* A scalar as text: strings as they are, numbers as written, null and missing "-". */
const char *cay_output_value(const struct cay_json *v);
/* Adds the same JSON without a byte that a terminal would obey: U+007F and U+0080 to U+009F, which
 * JSON may hold as they are, are escaped. */
void cay_output_tame(struct cay_buf *to, const char *json, size_t len);
/* JSON and a line end to stdout, as it came; tamed where that is a terminal. False: errno. */
bool cay_output_line(const char *json, size_t len);
void cay_output_json(const char *raw); /* the same; a closed stdout is noticed at its flush */

/* On a terminal columns in line below a heading; otherwise tabs, no heading. */
struct cay_table {
    struct cay_arena *arena;
    bool human;
    size_t columns;
    struct cay_strs cells; /* row by row; the heading first */
};

void cay_table_init(struct cay_table *t, struct cay_arena *a, const char *const *headings);
void cay_table_add(struct cay_table *t, const char *cell);
void cay_table_print(const struct cay_table *t, FILE *to);
