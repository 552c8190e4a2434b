/* SPDX-License-Identifier: Apache-2.0 */
/* What accounts have used of the way out today, kept across the server's end. */
#pragma once
#include "base/error.h"

struct cay_core;

/* With the way out open: what was used, and what may be. */
int cay_traffic_begin(struct cay_core *core, struct cay_error *err);
void cay_traffic_keep(struct cay_core *core);
