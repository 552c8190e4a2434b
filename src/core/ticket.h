/* SPDX-License-Identifier: Apache-2.0 */
/* For who waits, without a thread, for what others finish: a pipe that ends then, and the verdict.
 */
#pragma once
#include "base/error.h"
#include <stdbool.h>

struct cay_ticket;

/* Two hold it: who waits, and who works. NULL with an error. */
struct cay_ticket *cay_ticket_new(struct cay_error *err);
void cay_ticket_free(struct cay_ticket *t);
/* The worker's: it is over; err NULL is well. Frees his share. NULL does nothing. */
void cay_ticket_done(struct cay_ticket *t, const struct cay_error *err);
/* The waiter's. Readable once it is over; borrowed. */
int cay_ticket_fd(const struct cay_ticket *t);
bool cay_ticket_is_over(const struct cay_ticket *t);
/* `then` is called once when it is over: now, or by the worker, who does not wait meanwhile. */
void cay_ticket_then(struct cay_ticket *t, void (*then)(void *arg), void *arg);
/* How it went; blocks until it is over. */
int cay_ticket_verdict(struct cay_ticket *t, struct cay_error *err);
