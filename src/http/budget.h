/* SPDX-License-Identifier: Apache-2.0 */
/* The memory that large answers share, over all connections: what a reader does not take stays
 * until he does or goes, and nobody can say how many such readers come. A claim is a number of
 * bytes; it belongs to an answer until that is sent, then to the connection that still has some of
 * it. Any thread; most answers are small and only compare. */
#pragma once
#include "base/error.h"
#include "base/metrics.h"
#include <stdint.h>

extern struct cay_metric cay_http_large; /* what is claimed */

extern int64_t cay_budget_wait_ms; /* tests shorten it */

/* Adds to what is claimed there already; a few wait a moment for room. CAY_ERR_UNAVAILABLE,
 * "TOO_MANY_LARGE_ANSWERS". Who comes when there is no other always fits. */
int cay_budget_take(uint64_t *claim, uint64_t bytes, struct cay_error *err);
/* Makes it so large, also past the budget: the memory is in use already. 0 gives it back. */
void cay_budget_set(uint64_t *claim, uint64_t bytes);
