/* SPDX-License-Identifier: Apache-2.0 */
/* Reads one HTTP/1.1 answer from bytes as they come. The other side may be hostile: what is
 * ambiguous (two lengths, a length beside chunked, no length at all) or larger than its bound is
 * refused with CAY_ERR_PROVIDER, "BAD_ANSWER". Interim answers (1xx) are stepped over. */
#pragma once
#include "base/error.h"
#include <stdbool.h>
#include <stdint.h>

#define CAY_REPLY_HEAD_MAX 32768
#define CAY_REPLY_HEADERS_MAX 100
#define CAY_REPLY_INTERIM_MAX 8
#define CAY_REPLY_CHUNK_LINE_MAX 256
#define CAY_REPLY_TRAILER_MAX 4096

enum cay_reply_state {
    CAY_REPLY_STATUS,
    CAY_REPLY_HEADERS,
    CAY_REPLY_FIXED,
    CAY_REPLY_CHUNK_SIZE,
    CAY_REPLY_CHUNK_DATA,
    CAY_REPLY_CHUNK_END,
    CAY_REPLY_TRAILER,
    CAY_REPLY_DONE,
};

struct cay_reply {
    enum cay_reply_state state;
    int status;
    bool keep_alive;
    char content_type[64]; /* without parameters; empty when none */
    int64_t retry_after_s; /* 0: not told */

    bool has_length, chunked, old; /* old: HTTP/1.0 */
    uint64_t left;                 /* of the body or of the chunk */
    size_t head_bytes;             /* of this head, or of the trailer */
    int headers, interim;
    size_t line_len;
    char line[CAY_REPLY_HEAD_MAX + 1]; /* the line under way */
};

/* Gets the body's bytes in order; a negative result ends the reading and is passed on. */
typedef int (*cay_reply_sink)(void *arg, const struct cay_reply *a, const char *data, size_t len,
                              struct cay_error *err);

void cay_reply_init(struct cay_reply *a);
/* Takes bytes up to the answer's end at most; used_out says how many. */
int cay_reply_feed(struct cay_reply *a, const char *data, size_t len, cay_reply_sink sink,
                   void *arg, size_t *used_out, struct cay_error *err);
