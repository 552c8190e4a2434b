/* SPDX-License-Identifier: Apache-2.0 */
/* Archives with images in them, as `docker save` and tools for OCI layouts write them: a tar file
 * that is read in place. All of it is a stranger's: CAY_ERR_UNPROCESSABLE, "BAD_ARCHIVE" or
 * "BAD_IMAGE", with a sentence. What it says of its blobs is verified here for documents; layers
 * are, when they are unpacked. */
#pragma once
#include "image/text.h"

struct cay_archive_member {
    const char *path; /* without "./" */
    const char *link; /* another member that it stands for, or NULL */
    uint64_t offset, size;
};

struct cay_archive {
    struct cay_arena *arena;
    int fd; /* borrowed; a regular file */
    struct cay_archive_member *at;
    size_t count;
};

struct cay_archive_image {
    struct cay_strs names; /* short, as cay_ref_short has them; none: the archive does not say */
    struct cay_image_about about;
    struct cay_layer *layers; /* the lowest first, as many as diff ids */
};

struct cay_archive_images {
    struct cay_archive_image *at;
    size_t count;
};

/* Reads its table of contents. */
int cay_archive_open(struct cay_arena *a, int fd, struct cay_archive *out, struct cay_error *err);
/* The images in it that are for this kind of machine; none is CAY_ERR_NOT_FOUND,
 * "PLATFORM_NOT_FOUND". */
int cay_archive_images(struct cay_archive *archive, const char *architecture,
                       struct cay_archive_images *out, struct cay_error *err);
