/* SPDX-License-Identifier: Apache-2.0 */
/* Bringing an image in from its registry. */
#pragma once
#include "core/images.h"

struct cay_ref;

/* On a job's thread. What is there already is not fetched again; the name stands for the new image
 * when all of it is there, and not before. */
int cay_pull_image(struct cay_core *core, struct cay_task *task, const struct cay_image_wish *wish,
                   struct cay_error *err);
