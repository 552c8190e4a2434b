/* SPDX-License-Identifier: Apache-2.0 */
/* A chunked body, decoded as it comes. Extensions and trailers are bounded and dropped. */
#pragma once
#include "base/buf.h"
#include "base/error.h"
#include <stdint.h>

struct cay_chunks { /* a zeroed one is at the beginning */
    int state;
    unsigned digits;
    uint64_t left; /* of the chunk under way */
    size_t extra;  /* bytes of extensions and trailers so far */
};

/* Appends what is decoded to out, which may grow to max. 1 when the body is whole, 0 when more must
 * come, or a code: CAY_ERR_INVALID "BAD_REQUEST", CAY_ERR_TOO_LARGE "PAYLOAD_TOO_LARGE" as soon
 * as a chunk is announced that does not fit. used_out tells how many bytes were taken. */
int cay_chunks_decode(struct cay_chunks *d, const char *data, size_t len, size_t max,
                      struct cay_buf *out, size_t *used_out, struct cay_error *err);
