/* SPDX-License-Identifier: Apache-2.0 */
/* A layer's tar file becomes a tree that overlayfs takes.
 *
 * The work of a confined process whose root is that tree (engine/layer.c): no name in the tar can
 * mean anything outside of it. What cannot be taken is refused with a reason, never half taken:
 * nobody sees the tree before all of it is right. */
#pragma once
#include "image/blob.h"

struct cay_unpack_counts {
    uint64_t bytes, entries; /* of files; of everything */
    uint64_t dropped;        /* devices, pipes */
};

/* What directories are, where their mode does not say it. */
enum cay_unpack_mark {
    CAY_UNPACK_OPAQUE = 'o',  /* it hides what lower layers have there */
    CAY_UNPACK_IMPLIED = 'i', /* no entry names it: something lies in it */
    CAY_UNPACK_NAMED = 'n',   /* one does after all */
};

/* Those are written to marks_fd, in their order, each path behind its letter and with a NUL,
 * because marking takes rights that we do not have. CAY_ERR_UNPROCESSABLE "BAD_LAYER",
 * CAY_ERR_TOO_LARGE "LAYER_TOO_LARGE", CAY_ERR_LIMIT "IMAGE_STORE_FULL". */
int cay_unpack(struct cay_blob *in, int root, int marks_fd, struct cay_unpack_counts *out,
               struct cay_error *err);
