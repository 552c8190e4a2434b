/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that are packed with gzip or zstd, or not at all: the first of them tell. */
#pragma once
#include "base/attr.h"
#include <stdbool.h>
#include <stddef.h>

struct cay_packed;

struct cay_packed_in {
    const unsigned char *at;
    size_t len;
};

/* Everything that must be allocated or looked up is by now, so that the rest can be done in a
 * confined process. */
struct cay_packed *cay_packed_new(void);
void cay_packed_free(struct cay_packed *p);
/* Takes some of `in`, which moves on, and writes plain bytes to `out`: their number, which may be 0
 * when more is needed, or -1 and *why. With nothing in it gives what it holds back. */
long cay_packed_step(struct cay_packed *p, struct cay_packed_in *in, void *out, size_t room,
                     const char **why);
/* Something has begun that has not ended: if nothing more comes, it was cut. */
bool cay_packed_is_inside(const struct cay_packed *p);
