/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots and volumes, for the rest of this folder.
 *
 * A volume's row names the sandbox that has it; only that sandbox's own operations change it until
 * it is given back. A sandbox's row names the volume that outlives it (`keeps`), from the create
 * that attached it or from the delete that is to keep its /workspace. So whoever finishes a broken
 * delete knows what was meant. */
#pragma once
#include "core/core.h"

/* spec.from must be a snapshot of the owner's; sets spec.image. */
int cay_core_use_snapshot(struct cay_core *core, const struct cay_account *owner,
                          struct cay_spec *spec, struct cay_arena *a, struct cay_error *err);
/* Gives spec.volume to the sandbox, whose row is written already. */
int cay_core_claim_volume(struct cay_core *core, const struct cay_sandbox *sb,
                          struct cay_error *err);
/* A sandbox's own /workspace is about to be kept: its row, before there is such a volume. */
int cay_core_promise_volume(struct cay_core *core, const struct cay_sandbox *sb,
                            struct cay_error *err);
/* The sandbox is gone: its volume's row becomes free or goes, as `keeps` says. Forgets `keeps` when
 * there is no such volume after all. */
int cay_core_release_volume(struct cay_core *core, struct cay_sandbox *sb, struct cay_error *err);
/* Removes the snapshots that are due at that time. */
void cay_core_expire_kept(struct cay_core *core, int64_t now_ms);

/* kept_reconcile.c: rows against what the provider keeps, one pass. */
int cay_core_reconcile_kept(struct cay_core *core, bool at_start, struct cay_error *err);
