/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are kept under an id of their own: a snapshot, which new sandboxes begin with, or a
 * volume, which is the /workspace of at most one sandbox at a time. Strings belong to the arena it
 * was read into. */
#pragma once
#include "base/id.h"
#include "model/once.h"
#include "model/sandbox.h"

enum cay_kept_kind {
    CAY_SNAPSHOT,
    CAY_VOLUME,
};

const char *cay_kept_kind_name(enum cay_kept_kind kind); /* "snapshot" */

struct cay_kept {
    char id[CAY_ID_SIZE];
    enum cay_kept_kind kind;
    bool ready; /* false: it is being made */
    const char *account_id;
    const char *name;             /* a volume's: that of the sandbox whose /workspace it was */
    char sandbox_id[CAY_ID_SIZE]; /* a snapshot's source; who has the volume now, or empty */
    const char *image;
    const char *method;  /* of the copy; NULL: nothing was copied */
    uint64_t size_bytes; /* 0: cannot be told */
    int64_t copied_in_ms;
    int64_t created_at_ms, updated_at_ms;
    int64_t expires_at_ms;   /* 0: never */
    const char *fingerprint; /* of the request that may be repeated; or NULL */
    bool replayed;           /* that request came before; never kept */
};

/* What a snapshot is asked for with. */
struct cay_snapshot_wish {
    const char *name;            /* or NULL */
    int64_t expires_at_ms;       /* 0: never */
    const struct cay_once *once; /* or NULL */
};
