/* SPDX-License-Identifier: Apache-2.0 */
/* Names of images: [REGISTRY/]REPOSITORY[:TAG][@DIGEST], read the way Docker reads them. */
#pragma once
#include "base/arena.h"
#include "base/error.h"

#define CAY_REF_HUB "docker.io" /* the registry of names that say none */

struct cay_ref {
    const char *registry;   /* host[:port], lower case; never empty */
    const char *repository; /* "library/node" */
    const char *tag; /* "latest" where neither tag nor digest is given; NULL with a digest only */
    const char *digest; /* 64 hex digits, or NULL */
};

/* CAY_ERR_INVALID, "INVALID_IMAGE_NAME", with the field "image". */
int cay_ref_parse(struct cay_arena *a, const char *text, struct cay_ref *out,
                  struct cay_error *err);
/* With everything: "docker.io/library/node:20". */
const char *cay_ref_full(struct cay_arena *a, const struct cay_ref *ref);
/* As people write it, and as the store has it: "node:20", "ghcr.io/a/b:1", "node@sha256:…". */
const char *cay_ref_short(struct cay_arena *a, const struct cay_ref *ref);
