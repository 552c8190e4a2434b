/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of a layer: read once, unpacked where they are packed, and hashed on both sides.
 *
 * What is read may change under us (the file is the server's): what counts are the bytes that went
 * through here, and their digests. */
#pragma once
#include "base/error.h"
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct cay_blob;

struct cay_blob_sums {
    uint64_t packed, plain; /* bytes */
    uint8_t digest[32], diff_id[32];
};

/* `size` bytes of fd from `offset` on. What has been read is told to progress_fd, as a number at
 * its beginning, or to nobody with -1. Both are borrowed. Everything that must be allocated or
 * looked up is, so that the rest can be done in a confined process; it goes with that. */
struct cay_blob *cay_blob_new(int fd, uint64_t offset, uint64_t size, int progress_fd);
void cay_blob_free(struct cay_blob *s);
/* The next plain bytes, borrowed until the next call: how many, 0 at the end; see cay_blob_error
 * for what is negative. */
ssize_t cay_blob_next(struct cay_blob *s, const void **out);
/* All of len, or false; see cay_blob_error. A block of zeros where a block should begin behind
 * the end: that is how some tar files end. */
bool cay_blob_get(void *stream, void *data, size_t len);
/* Reads what is left. */
int cay_blob_finish(struct cay_blob *s, struct cay_blob_sums *out, struct cay_error *err);
/* Whether they are what was said: CAY_ERR_UNPROCESSABLE, "DIGEST_MISMATCH". An empty digest is
 * nobody's word. */
int cay_blob_verify(const struct cay_blob_sums *sums, const char *digest, const char *diff_id,
                    uint64_t size, struct cay_error *err);
/* Fills err, if the stream itself failed; otherwise 0. */
int cay_blob_error(const struct cay_blob *s, struct cay_error *err);
uint64_t cay_blob_packed(const struct cay_blob *s); /* bytes so far */
