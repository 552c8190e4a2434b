/* SPDX-License-Identifier: Apache-2.0 */
/* What the store keeps of an image under its name: text, one `key=value` a line.
 *
 *   layers       diff ids, the topmost first, with blanks between
 *   user, workdir, stopsignal, created, arch
 *   env, entrypoint, cmd     one line for each
 *   digest       of the manifest that it came by, 64 digits; absent for what was built here
 *   source       the full name that it was pulled by, or how it came in
 *
 * A value with a line break in it has a `%` behind its key, and %0A and %25 for what they stand
 * for.
 */
#pragma once
#include "image/manifest.h"

struct cay_image_about {
    struct cay_image_config config; /* diff_ids: the lowest first, as everywhere but in the text */
    const char *digest, *source;    /* "" where there is none */
};

/* CAY_ERR_UNPROCESSABLE, "BAD_IMAGE": more than the store takes. */
int cay_image_text_write(struct cay_arena *a, const struct cay_image_about *about, const char **out,
                         struct cay_error *err);
/* The next line of a text that is taken apart: its key and its value; false at the end. */
bool cay_image_text_next(struct cay_arena *a, char **rest, const char **key, char **value);
/* Lines that nobody knows are passed over. */
int cay_image_text_read(struct cay_arena *a, const char *text, struct cay_image_about *out,
                        struct cay_error *err);
