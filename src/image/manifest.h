/* SPDX-License-Identifier: Apache-2.0 */
/* What registries and archives say about an image: OCI's index, manifest and config, and Docker's
 * schema 2, which differ in their media types only. All of it is a stranger's: whatever is missing,
 * of another type or out of bounds is CAY_ERR_UNPROCESSABLE, "BAD_IMAGE", with a sentence. */
#pragma once
#include "base/error.h"
#include "base/str.h"
#include "model/image.h"

enum cay_media {
    CAY_MEDIA_OTHER, /* nothing that we run: attestations, artifacts, foreign layers */
    CAY_MEDIA_INDEX,
    CAY_MEDIA_MANIFEST,
    CAY_MEDIA_CONFIG,
    CAY_MEDIA_LAYER, /* plain, gzip or zstd: the bytes tell */
};

struct cay_descriptor {
    enum cay_media media;
    const char *type;   /* as it was written */
    const char *digest; /* 64 hex digits */
    uint64_t size;
    const char *os, *architecture, *variant; /* in an index; "" where it says none */
    const char *name; /* by annotation: containerd's whole one, or the OCI's tag; or "" */
};

struct cay_manifest {
    bool is_index;
    struct cay_descriptor *at; /* of an index: manifests; else: layers, the lowest first */
    size_t count;
    struct cay_descriptor config; /* not of an index */
};

struct cay_image_config {
    const char *os, *architecture, *variant;
    const char *user, *workdir, *stop_signal; /* "" where it says none */
    int64_t created_ms;                       /* 0: it says none */
    struct cay_strs env, entrypoint, cmd;
    struct cay_strs diff_ids; /* 64 hex digits each, the lowest first */
};

/* The media type that the document was sent with helps where it does not name its own; may be
 * NULL. */
int cay_manifest_parse(struct cay_arena *a, const char *text, size_t len, const char *type,
                       struct cay_manifest *out, struct cay_error *err);
int cay_image_config_parse(struct cay_arena *a, const char *text, size_t len,
                           struct cay_image_config *out, struct cay_error *err);
/* As many layers as diff ids, and for this kind of machine ("amd64", "arm64"). */
int cay_image_config_fits(const struct cay_image_config *config, const struct cay_manifest *m,
                          const char *architecture, struct cay_error *err);
/* The entry of an index for Linux on that architecture. CAY_ERR_NOT_FOUND,
 * "PLATFORM_NOT_FOUND", with what there is. */
int cay_manifest_choose(const struct cay_manifest *index, const char *architecture,
                        const struct cay_descriptor **out, struct cay_error *err);
/* "sha256:" and 64 digits to the digits, which lie in the same string; NULL: it is none. */
const char *cay_digest_hex(const char *digest);
/* Of this machine, as Go spells it. */
const char *cay_image_architecture(void);
