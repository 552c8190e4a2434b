/* SPDX-License-Identifier: Apache-2.0 */
/* Answers that hold what a command wrote: that may have NULs in it, which our JSON reader takes in
 * no string. So they are told in another way before it reads. */
#pragma once
#include "base/json.h"

/* cay_json_parse, for what is only looked at: a NUL becomes U+FFFD. */
int cay_nuls_parse(struct cay_arena *a, const char *json, size_t len, const struct cay_json **out,
                   struct cay_error *err);
/* cay_json_parse, for what must come out to the letter: when *hidden_out, a string is to be read by
 * cay_nuls_show. */
int cay_nuls_parse_hidden(struct cay_arena *a, const char *json, size_t len,
                          const struct cay_json **out, bool *hidden_out, struct cay_error *err);
void cay_nuls_show(struct cay_buf *out, const char *text, size_t len);
