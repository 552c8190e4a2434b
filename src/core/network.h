/* SPDX-License-Identifier: Apache-2.0 */
/* The sandboxes' way out, at the moments of their lives. Without one a sandbox is closed, so every
 * step may fail or be cut: reconcile gives the way again, and never more than the row allows. */
#pragma once
#include "core/service.h"
#include "model/access.h"
#include "net/wanted.h"
#include "provider/provider.h"

struct cay_core;

int cay_network_begin(struct cay_core *core, const struct cay_config *cfg, struct cay_error *err);
void cay_network_end(struct cay_core *core);
/* What the request says of headers becomes what is kept; a value of NULL is that of `before`, which
 * may be NULL itself. CAY_ERR_INVALID. In the arena. */
int cay_network_seal(struct cay_core *core, const char *account_id, const struct cay_pairs *before,
                     struct cay_arena *a, struct cay_network *network, struct cay_error *err);
/* It runs: before its first command. */
int cay_network_up(struct cay_core *core, const struct cay_sandbox *sb, struct cay_error *err);
/* The same, and beside what its policy allows, unless that denies it, this rule: until settle. */
int cay_network_up_with(struct cay_core *core, const struct cay_sandbox *sb, const char *rule,
                        struct cay_error *err);
int cay_network_settle(struct cay_core *core, const struct cay_sandbox *sb, struct cay_error *err);
/* Its policy is another one: what that does not allow is cut on return. */
int cay_network_change(struct cay_core *core, const struct cay_sandbox *sb, struct cay_error *err);
/* Is the policy of its row the one that holds? */
bool cay_network_holds(struct cay_core *core, const struct cay_sandbox *sb);
/* As cay_egress_wanted. */
size_t cay_network_wanted(struct cay_core *core, const char *id, struct cay_wanted *out,
                          size_t max);
/* It does not run any more: its death has what it moved, unless that is of an earlier end. */
void cay_network_down(struct cay_core *core, struct cay_sandbox *sb);
void cay_network_moved(struct cay_core *core, const char *id, uint64_t *sent_out,
                       uint64_t *received_out);
void cay_network_forget(struct cay_core *core, const char *id);
/* Those that run and have no way out get theirs. */
void cay_network_reconcile(struct cay_core *core, const struct cay_sandbox_list *rows);
/* The account's quota is another, and holds from now on. */
void cay_network_limit(struct cay_core *core, const struct cay_holder *holder);
/* Fills in what only the way out knows. */
void cay_network_usage(struct cay_core *core, const char *account_id, struct cay_quota *used);
