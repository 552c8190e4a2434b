/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that may be repeated.
 *
 * The caller's key, under a secret of this data directory, is the id of what the request makes. So
 * whoever asks again finds by its id what the first one made, whatever client or server went
 * through in between, and there is nothing to be kept in step. What was asked stands beside it as a
 * fingerprint: the same key with something else is refused. */
#pragma once
#include "core/core.h"

/* Reads the secret, or makes it at the first start. Without, all keys mean the same everywhere. */
int cay_once_open(struct cay_core *core, int data_fd, struct cay_error *err);
/* The id that a sandbox, a snapshot or a batch gets by this key, and an execution in a sandbox. */
void cay_once_sandbox(const struct cay_core *core, const char *account_id,
                      const struct cay_once *once, char id[CAY_ID_SIZE]);
void cay_once_snapshot(const struct cay_core *core, const char *account_id,
                       const struct cay_once *once, char id[CAY_ID_SIZE]);
void cay_once_batch(const struct cay_core *core, const char *account_id,
                    const struct cay_once *once, char id[CAY_ID_SIZE]);
void cay_once_execution(const struct cay_core *core, const char *sandbox_id,
                        const struct cay_once *once, char id[CAY_ID_SIZE]);
/* Is this what was asked the first time? `fingerprint` NULL: nothing is known of it.
 * CAY_ERR_UNPROCESSABLE, "IDEMPOTENCY_KEY_REUSED". */
int cay_once_same(const struct cay_once *once, const char *fingerprint, struct cay_error *err);
