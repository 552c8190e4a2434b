/* SPDX-License-Identifier: Apache-2.0 */
/* Images out of an archive. */
#pragma once
#include "base/str.h"
#include "model/image.h"
#include "provider/provider.h"

/* Everything in the archive that is for this machine: all layers first, then the names, so that a
 * name stands for a whole image or for what it was. `as` names the image where the archive does not
 * or should not, and then there may be only one; or NULL. CAY_ERR_INVALID with the field "name"
 * where neither says. `names_out` are those that stand for something new now. */
int cay_load_images(struct cay_provider *p, int fd, const char *as,
                    const struct cay_progress *progress, struct cay_arena *a,
                    struct cay_strs *names_out, struct cay_error *err);
