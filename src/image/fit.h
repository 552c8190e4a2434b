/* SPDX-License-Identifier: Apache-2.0 */
/* The fitting layer: what sandboxes need and no image has, laid over each image once. The user, the
 * working directory, the mount points, the resolver, and whom the operator believes. */
#pragma once
#include "image/trust.h"
#include <stdint.h>

#define CAY_FIT_USER 1000

/* Files of the image that the layer has, too, with more in them. */
enum { CAY_FIT_PASSWD, CAY_FIT_GROUP, CAY_FIT_BUNDLE, CAY_FIT_TEXTS };
extern const struct cay_fit_text {
    const char *path;
    size_t max; /* a larger one counts as none */
} cay_fit_texts[CAY_FIT_TEXTS];

struct cay_fit_file {
    const char *path;
    uint32_t mode, owner;
    const char *data; /* NULL: a directory */
    size_t len;
};

/* `put` gets one after the other, directories before what is in them. `own`: the image's, "" where
 * it has none. */
int cay_fit_fill(const char *const own[CAY_FIT_TEXTS], const struct cay_trust *trust,
                 int (*put)(void *arg, const struct cay_fit_file *file, struct cay_error *err),
                 void *arg, struct cay_error *err);
