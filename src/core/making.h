/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox between the first step of its create and the last. It may not move meanwhile. */
#pragma once
#include "core/core.h"
#include "model/limits.h"

struct cay_making {
    struct cay_core *core; /* NULL: there is nothing to undo */
    struct cay_sandbox sb;
    struct cay_hold hold;
    char name[CAY_MAX_NAME + 1]; /* when it was made up */
    int64_t began_ms;
    bool in_store;
    bool overlaps; /* the row goes to the disk while the rest is done */
    uint64_t wish;
};

/* What an earlier request with the same key made, if spec has one and there was one; equal requests
 * come one after the other, each at its turn. */
int cay_making_first(struct cay_core *core, const struct cay_account *owner,
                     const struct cay_spec *spec, struct cay_hold *turn, struct cay_arena *a,
                     struct cay_sandbox *out, bool *found, struct cay_error *err);
/* All but the last step: it runs, and its row says PENDING. A zeroed making goes in. A spec.from
 * is held by the caller, and its image is spec.image. */
int cay_making_begin(struct cay_making *m, struct cay_core *core, const struct cay_account *owner,
                     const struct cay_spec *spec, struct cay_error *err);
/* The row says RUNNING, and is on the disk when this returns: with `overlaps` as it was at first,
 * which is enough for reconcile, whatever `durable` says. */
int cay_making_end(struct cay_making *m, enum cay_durable durable, struct cay_error *err);
/* It is the caller's now: undo has nothing left to do. */
void cay_making_release(struct cay_making *m, struct cay_arena *a, struct cay_sandbox *out);
/* Takes back whatever was done; nothing after a release. */
void cay_making_undo(struct cay_making *m);
