/* SPDX-License-Identifier: Apache-2.0 */
/* What is run inside a sandbox to fetch its source: a shell, and the image's own programs. */
#pragma once
#include "model/execution.h"
#include "model/source.h"

/* How the scripts end, beside what their programs say. */
enum {
    CAY_FETCH_NO_TOOL = 90, /* the last line says which is missing */
    CAY_FETCH_BAD_ARCHIVE = 92,
};

/* The command, in the arena. `env` is the sandbox's; ours is on top of it. `origin` is whom the
 * login (or NULL) is for: it goes into the environment of these processes and nowhere else. */
struct cay_exec_spec cay_source_command(struct cay_arena *a, const struct cay_spec_source *s,
                                        const struct cay_pairs *env, const char *origin,
                                        const char *login);
