/* SPDX-License-Identifier: Apache-2.0 */
/* The one form of URL that sources have: https://HOST[:PORT]/PATH. */
#pragma once
#include "base/error.h"
#include "model/limits.h"

struct cay_source_url {
    char origin[CAY_MAX_URL + 1]; /* https://HOST[:PORT]/ */
    char rule[CAY_MAX_RULE + 1];  /* HOST:PORT, as policies have it */
};

/* Strict. CAY_ERR_INVALID, "INVALID_SOURCE", at source.url; the text itself is not repeated. */
int cay_source_url_read(const char *url, struct cay_source_url *out, struct cay_error *err);
