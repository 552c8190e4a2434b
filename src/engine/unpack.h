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

/* Directories that hide those of lower layers are written to opaque_fd, each path with its NUL,
 * because marking them takes rights that we do not have. CAY_ERR_UNPROCESSABLE "BAD_LAYER",
 * CAY_ERR_TOO_LARGE "LAYER_TOO_LARGE", CAY_ERR_LIMIT "IMAGE_STORE_FULL". */
int cay_unpack(struct cay_blob *in, int root, int opaque_fd, struct cay_unpack_counts *out,
               struct cay_error *err);
