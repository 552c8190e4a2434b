/* SPDX-License-Identifier: Apache-2.0 */
/* The state machine of a sandbox: pure, no store and no provider. */
#pragma once
#include "base/error.h"
#include "model/sandbox.h"

enum cay_event {
    CAY_CREATED, /* the provider has it and it runs */
    CAY_START,
    CAY_STOP,
    CAY_PAUSE,
    CAY_RESUME,
    CAY_EXEC,
    CAY_COPY,   /* a fork or a snapshot of it */
    CAY_CHANGE, /* an update of what it is called, or may have */
    CAY_DELETE,
    CAY_DIE,  /* it ended by itself and will not be looked for */
    CAY_REST, /* it ended, and its files are kept for the next start */
};

/* Moves the state; CAY_ERR_CONFLICT, "SANDBOX_NOT_RUNNING", "SANDBOX_PAUSED" or "INVALID_STATE",
 * leaves it. */
int cay_state_apply(enum cay_state *state, enum cay_event event, struct cay_error *err);
