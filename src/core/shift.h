/* SPDX-License-Identifier: Apache-2.0 */
/* The clock was set: what was granted is granted still. A row that cannot be moved at once, because
 * somebody is at it or the store fails, is remembered, and does not expire before it is. All of
 * this is the keeper's thread's own. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct cay_core;

struct cay_shifts {
    struct cay_shift *first; /* rows that are not moved yet; malloc'ed */
    int64_t unread_ms;       /* a jump for which the rows could not even be read */
};

/* The clock went that far by itself; 0: goes on with what is left of earlier jumps. Never waits. */
void cay_keeper_shift(struct cay_core *core, int64_t jump_ms);
/* Its end is not what its row says. */
bool cay_shift_is_due(const struct cay_core *core, const char *id);
void cay_shifts_done(struct cay_shifts *s);
