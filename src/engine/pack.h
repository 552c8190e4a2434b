/* SPDX-License-Identifier: Apache-2.0 */
/* A tree that overlayfs has as a layer, as the tar file that others have. */
#pragma once
#include "base/error.h"
#include <stdbool.h>
#include <stddef.h>

/* Where the bytes go; false: give up. */
struct cay_pack_sink {
    bool (*put)(void *arg, const void *data, size_t len);
    void *arg;
};

/* What overlayfs hides by a device or a mark is hidden by files with special names. Hard links stay
 * together; sockets and pipes are left out. No link is followed. */
int cay_pack(int tree, const struct cay_pack_sink *sink, struct cay_error *err);
