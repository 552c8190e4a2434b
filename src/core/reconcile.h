/* SPDX-License-Identifier: Apache-2.0 */
/* Makes record and reality agree. Both sides are read without error, or nothing is done. */
#pragma once
#include "base/error.h"
#include <stdbool.h>
#include <stddef.h>

struct cay_core;

/* At start nobody else creates, so that a resource without a row needs no grace. */
int cay_reconcile(struct cay_core *core, bool at_start, struct cay_error *err);
/* A store that never held a row, beside resources of ours, is a store that was lost: whoever put it
 * there did not mean all of them to be destroyed. */
int cay_reconcile_refuse_empty(struct cay_core *core, const char *what, const char *instead,
                               size_t count, struct cay_error *err);
