/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps the house: one thread takes deaths, one looks after time. */
#pragma once
#include "core/core.h"

int cay_keeper_start(struct cay_core *core, struct cay_error *err);
void cay_keeper_stop(struct cay_core *core);
/* Reconciles out of turn: in so many ms, or sooner when somebody asked for that. */
void cay_keeper_look(struct cay_core *core, int64_t after_ms);
/* One death, as the provider told it; false when its sandbox is busy and it must be told again.
 * Without an id it says that deaths may have gone unheard. */
bool cay_keeper_event(struct cay_core *core, const struct cay_provider_entry *entry);
/* Ends what is due at that time. */
void cay_keeper_expire(struct cay_core *core, int64_t now_ms);
/* Stops those whose start command ended, where that was asked for. */
void cay_keeper_end_with_start(struct cay_core *core);
