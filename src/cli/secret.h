/* SPDX-License-Identifier: Apache-2.0 */
/* Values that nobody else is to see: taken from our own variables and files, so that they are not
 * on the command line, which every user of the machine can read. */
#pragma once
#include "base/error.h"
#include "base/str.h"

/* Each "KEY=FILE" of an option: what the file holds, without a last newline. */
int cay_secret_files(struct cay_arena *a, const char *option, const struct cay_strs *texts,
                     struct cay_pairs *out, struct cay_error *err);
/* Each "KEY=VARIABLE": what that one of ours holds. */
int cay_secret_variables(struct cay_arena *a, const char *option, const struct cay_strs *texts,
                         struct cay_pairs *out, struct cay_error *err);
