/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps the house: one thread takes deaths, one looks after time. */
#pragma once
#include "core/core.h"

int cay_keeper_start(struct cay_core *core, struct cay_error *err);
void cay_keeper_stop(struct cay_core *core);
/* One death, as the provider told it; false when its sandbox is busy and it must be told again. */
bool cay_keeper_event(struct cay_core *core, const struct cay_provider_entry *entry);
/* Ends what is due at that time. */
void cay_keeper_expire(struct cay_core *core, int64_t now_ms);
/* The clock went that far by itself: what was granted is granted still. */
void cay_keeper_shift(struct cay_core *core, int64_t jump_ms);
