/* SPDX-License-Identifier: Apache-2.0 */
/* Secrets of sandboxes, as they are kept: AES-256-GCM under a key of the data directory, bound to
 * the account and to their name, so that a value that was moved or changed does not open. */
#pragma once
#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"

struct cay_core;

/* One value, bound to that name; NULL when it cannot be done, or is not what was sealed so. */
const char *cay_seal(const struct cay_core *core, const char *account_id, const char *name,
                     const char *plain, struct cay_arena *a);
const char *cay_unseal(const struct cay_core *core, const char *account_id, const char *name,
                       const char *sealed, struct cay_arena *a);
/* Brings `plain` into `sealed`: replaces what has the same name; a value of NULL removes it.
 * CAY_ERR_INVALID, "secrets". What is added lives in the arena. */
int cay_seal_all(const struct cay_core *core, const char *account_id, const struct cay_pairs *plain,
                 struct cay_arena *a, struct cay_pairs *sealed, struct cay_error *err);
/* Adds them to an environment. CAY_ERR_INTERNAL, "SECRET_UNREADABLE". */
int cay_unseal_all(const struct cay_core *core, const char *account_id,
                   const struct cay_pairs *sealed, struct cay_arena *a, struct cay_pairs *env,
                   struct cay_error *err);
