/* SPDX-License-Identifier: Apache-2.0 */
/* Whose certificates sandboxes believe: those of the image's authorities, and of the operator's.
 * Companies open TLS on its way; without their own authority nothing in a sandbox would work. */
#pragma once
#include "base/buf.h"
#include "base/error.h"
#include "base/str.h"

#define CAY_TRUST_BUNDLE "etc/ssl/certs/ca-certificates.crt"
/* Node begins 30 ms later when it has to read a whole bundle: it gets what others lack. */
#define CAY_TRUST_EXTRA "etc/ssl/certs/cay-extra.crt"

struct cay_trust {
    char *text;    /* certificates as PEM; malloc'ed, or NULL: none */
    char mark[17]; /* tells one text from another */
};

/* NULL takes the host's own bundle, if it has one. */
int cay_trust_read(const char *path, struct cay_trust *out, struct cay_error *err);
/* all: the image's bundle, and what it lacks. extra: that alone, for programs that have a list of
 * their own; never empty when there is anything at all, because some complain then. */
void cay_trust_join(const struct cay_trust *trust, const char *of_image, struct cay_buf *all,
                    struct cay_buf *extra);
/* Adds to an environment where the certificates are, for programs that look there. */
void cay_trust_name(struct cay_arena *a, const struct cay_trust *trust, struct cay_strs *env);
