/* SPDX-License-Identifier: Apache-2.0 */
/* Building images by recipe, as a job. */
#pragma once
#include "base/arena.h"
#include "core/jobs.h"
#include "model/image.h"

/* Begins it, or joins the one that builds the same; `then`, or NULL, as struct cay_task_spec has
 * it. What is there already is not built, unless what.again or what.text says so. */
int cay_build_begin(struct cay_core *core, const struct cay_account *owner,
                    const struct cay_recipe *what,
                    void (*then)(struct cay_core *core, void *arg, const struct cay_error *err),
                    void *then_arg, char job_out[CAY_ID_SIZE], struct cay_error *err);
