/* SPDX-License-Identifier: Apache-2.0 */
/* The head of a request, by RFC 9112 and stricter: whatever two readers could take in two ways is
 * refused, and the connection with it. */
#pragma once
#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include <stdbool.h>
#include <stdint.h>

struct cay_head {
    const char *method;
    const char *path;  /* without the query; "*" and "host:port" are for no route */
    const char *query; /* "" when none */
    const char *host;
    struct cay_pairs headers; /* names in lower case; doubled ones joined by ", " */
    bool http10;
    bool keep_alive;
    bool chunked;
    bool expects;    /* 100 Continue */
    uint64_t length; /* of the body; 0 when chunked */
};

/* Looks for the end of a head in what has come so far: its length, 0 when more must come, or a
 * code. `scanned` is 0 at first and carries on between calls on the same growing bytes. */
int cay_parse_scan(const char *data, size_t len, size_t *scanned, struct cay_error *err);
/* Parses a head that cay_parse_scan found whole. All strings are copies in the arena.
 * CAY_ERR_INVALID "BAD_REQUEST", CAY_ERR_TOO_LARGE "HEADERS_TOO_LARGE", CAY_ERR_UNSUPPORTED
 * "HTTP_VERSION_NOT_SUPPORTED". */
int cay_parse_head(struct cay_arena *a, const char *data, size_t len, struct cay_head *out,
                   struct cay_error *err);
/* A list like Connection's or Accept's names this token; parameters behind ';' do not count. */
bool cay_parse_has_token(const char *list, const char *token);
