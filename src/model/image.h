/* SPDX-License-Identifier: Apache-2.0 */
/* Images as a provider keeps them: layers by the digest of what is in them, and names. */
#pragma once
#include "base/str.h"

#define CAY_DIGEST_HEX 64 /* digits of a SHA-256; everywhere without "sha256:" */

/* One layer as it lies somewhere: a tar file, plain or packed with gzip or zstd (its first bytes
 * tell). */
struct cay_layer {
    const char *digest;    /* of these bytes; NULL: nobody said, and the diff id says enough */
    const char *diff_id;   /* of the unpacked tar: names the layer in the store */
    uint64_t offset, size; /* where the bytes are in their file */
};

/* What is to be built. */
struct cay_recipe {
    const char *image; /* that it makes */
    const char *text;  /* of a recipe that somebody brought; NULL: the operator's for that image */
    bool again;        /* also when there is one of that name; with a text it always is */
};

/* When an image's registry is asked. */
enum cay_pull_policy {
    CAY_PULL_AS_SET,  /* as the operator's configuration says */
    CAY_PULL_MISSING, /* what is there is good */
    CAY_PULL_ALWAYS,  /* whether it is still the same */
    CAY_PULL_NEVER,
};

struct cay_unpacked {
    bool found;              /* it was there already: nothing was done */
    uint64_t bytes, entries; /* of the files in it */
};

/* How far it is, in bytes of what is read; called a few times in a second from the thread that
 * waits. False: give up. */
struct cay_progress {
    bool (*step)(void *arg, uint64_t done);
    void *arg;
};

struct cay_image_entry {
    const char *name;
    const char *text; /* see image/text.h */
    uint64_t bytes;   /* of its layers, unpacked; those that others share are counted too */
    uint32_t uses;    /* sandboxes and snapshots that were made from its layers */
};

struct cay_image_list {
    struct cay_image_entry *at;
    size_t count;
};

struct cay_pruned {
    uint64_t bytes;
    uint32_t layers;
};
