/* SPDX-License-Identifier: Apache-2.0 */
/* What the fake remembers of files: of each sandbox two words, one in its root and one in its
 * workspace; and the trees that are kept without a sandbox. */
#pragma once
#include "base/error.h"
#include "base/id.h"
#include "base/str.h"

struct cay_fake_files {
    char root[32], work[32];
    char volume[CAY_ID_SIZE]; /* that is its workspace, or empty */
};

struct cay_fake_tree { /* a snapshot or a volume */
    struct cay_fake_tree *next;
    char id[CAY_ID_SIZE];
    struct cay_fake_files files;
    bool attached;
};

struct cay_fake_tree *cay_fake_find(struct cay_fake_tree *first, const char *id); /* or NULL */
void cay_fake_keep(struct cay_fake_tree **first, const char *id,
                   const struct cay_fake_files *files);
void cay_fake_forget(struct cay_fake_tree **first, const char *id);
/* Gives a sandbox the volume. */
int cay_fake_attach(struct cay_fake_tree *first, const char *id, struct cay_fake_files *to,
                    struct cay_error *err);
/* What becomes of a sandbox's workspace, as provider.h says of destroy. */
void cay_fake_detach(struct cay_fake_tree **first, const struct cay_fake_files *from,
                     const char *volume);
