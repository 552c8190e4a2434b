/* SPDX-License-Identifier: Apache-2.0 */
/* Directories that a layer has only because something lies in them: its tar does not name them, so
 * nobody said what they are like. A lower layer's word counts then, and a layer knows of none: it
 * may lie on any other.
 *
 * So such a directory is marked, and named in meta/DIFFID.dirs. Where an image is put together, its
 * fitting layer has each of them once more, as the topmost layer says that names it. */
#pragma once
#include "base/buf.h"
#include "engine/image.h"

/* On the directory: of overlayfs' own kind, which is neither shown inside nor copied up. */
#define CAY_IMPLIED_MARK "trusted.overlay.cay.implied"

/* Marks one, which is open; or no longer. */
void cay_implied_mark(int dir, bool implied);
/* Whether the layer's `path` is marked; then it is added to `list`, with its NUL. Paths may be
 * anything; too many are not kept. */
void cay_implied_note(int tree, const char *path, struct cay_buf *list);
int cay_implied_write(int images_fd, const char *diff_id, const struct cay_buf *list,
                      struct cay_error *err);
/* Into the fitting layer. */
int cay_implied_fit(int images_fd, const struct cay_image *image, int fit, struct cay_error *err);
