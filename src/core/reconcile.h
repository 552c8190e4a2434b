/* SPDX-License-Identifier: Apache-2.0 */
/* Makes record and reality agree. Both sides are read without error, or nothing is done. */
#pragma once
#include "base/error.h"
#include <stdbool.h>

struct cay_core;

/* At start nobody else creates, so that a resource without a row needs no grace. */
int cay_reconcile(struct cay_core *core, bool at_start, struct cay_error *err);
