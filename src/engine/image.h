/* SPDX-License-Identifier: Apache-2.0 */
/* Images as the engine needs them: which trees lie on each other, and the settings beside them.
 *
 * IMAGES/refs/<name>     text, one `key=value` a line: layers (topmost first), user, workdir,
 *                        stopsignal; and
 *                        one line each for what is a list: env, entrypoint, cmd
 * IMAGES/layers/<id>/    the tree of one layer
 * IMAGES/fits/<id>/      one fitting layer per image, made here at its first use: the user, the
 *                        working directory and the mount points, so that no sandbox writes them
 *
 * A sandbox keeps its own copy of the text (its ref may be removed or moved while it lives). */
#pragma once
#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "image/trust.h"

#define CAY_MAX_IMAGE_TEXT (64 * 1024)
#define CAY_MAX_LAYERS 64

struct cay_image {
    struct cay_strs layers; /* topmost first; the fitting layer not among them */
    const char *fit;        /* name below fits/ */
    const char *user, *workdir;
    int stop_signal;                      /* 0: it names none */
    struct cay_strs env, entrypoint, cmd; /* the last two: argv of its own command, together */
};

/* CAY_ERR_UNSUPPORTED, "TOO_MANY_LAYERS". */
int cay_image_parse(struct cay_arena *a, const char *text, struct cay_image *out,
                    struct cay_error *err);
/* A name as one file name: '/' would be a directory. */
const char *cay_image_ref_name(struct cay_arena *a, const char *name);
/* By name. CAY_ERR_NOT_FOUND, "IMAGE_NOT_FOUND". */
int cay_image_find(int images_fd, const char *name, struct cay_arena *a, struct cay_image *out,
                   const char **text_out, struct cay_error *err);
/* Sees to its fitting layer, which is another one for other authorities, and names it. */
int cay_image_fit(int images_fd, const struct cay_trust *trust, struct cay_arena *a,
                  struct cay_image *image, struct cay_error *err);
