/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes that are made behind an answer: a few threads, and a bounded number of jobs, each of
 * which holds its sandbox's id from before its row is written until it is done. */
#pragma once
#include "base/queue.h"
#include "core/hold.h"
#include "model/limits.h"
#include <stdatomic.h>

struct cay_awaited;
struct cay_core;
struct cay_maker_job;
struct cay_spec_source;
struct cay_ticket;

struct cay_maker {
    struct cay_queue jobs;
    atomic_int count; /* waiting or under work */
    pthread_t threads[CAY_MAKERS];
    int started;
    atomic_llong until_ms; /* closing: what is not begun by then is left to the next start */
};

void cay_maker_init(struct cay_maker *m);
int cay_maker_start(struct cay_core *core, struct cay_error *err);
void cay_maker_done(struct cay_core *core); /* waits for what is under work */
/* A place for one sandbox; NULL with CAY_ERR_UNAVAILABLE when there is none. */
struct cay_maker_job *cay_maker_reserve(struct cay_core *core, const char *id,
                                        const char *account_id,
                                        const struct cay_spec_source *source,
                                        struct cay_error *err);
/* What the job knows beside the row; to be filled in before it goes. */
struct cay_awaited *cay_maker_awaited(struct cay_maker_job *job);
/* Its row is there: makes it; without threads at once. Takes the job, and the ticket of who waits
 * (or NULL). */
void cay_maker_go(struct cay_core *core, struct cay_maker_job *job, struct cay_ticket *ticket);
void cay_maker_cancel(struct cay_core *core, struct cay_maker_job *job); /* there is no row */
