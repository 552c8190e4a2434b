/* SPDX-License-Identifier: Apache-2.0 */
/* One layer, from a file to the store. The work of a child of the dispatcher, which has a child of
 * its own for what is a stranger's. */
#pragma once
#include "engine/berth.h"
#include "engine/engine.h"
#include "engine/message.h"

/* See cay_provider_ops.image_layer. progress_fd may be -1. */
int cay_layer_unpack(const struct cay_engine *e, const struct cay_berth *berth,
                     const struct cay_engine_layer *layer, int fd, int progress_fd,
                     struct cay_engine_unpacked *out, struct cay_error *err);
/* Removes what was being unpacked by processes that are dead, and what is known of layers that are
 * gone. */
void cay_layer_sweep(int images_fd);
