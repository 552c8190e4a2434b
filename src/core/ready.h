/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes that run and do not count as running yet: until their source is there, and then until
 * somebody listens on a port inside, or a line stands in the start command's log. A few threads
 * look at all of them in turn. */
#pragma once
#include "core/hold.h"
#include "model/limits.h"
#include "model/sandbox.h"
#include <pthread.h>

struct cay_core;
struct cay_bringing;
struct cay_ticket;

struct cay_readier {
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct cay_readying *first;
    struct cay_ready_cancel *cancels;
    pthread_t threads[CAY_READIERS];
    int started;
    bool closing;
};

void cay_readier_init(struct cay_readier *r);
int cay_readier_start(struct cay_core *core, struct cay_error *err);
void cay_readier_done(struct cay_core *core); /* what is not ready is left to the next start */
/* Takes the hold and the ticket (or NULL). A create's row says PENDING; `starts`: a start's, as it
 * was before. Then the row says RUNNING; or it was too late, and all is taken back:
 * CAY_ERR_TIMEOUT, "NOT_READY". With a fetch (copied) that comes first, and the start command is
 * run behind it. Without threads it waits here. */
void cay_ready_add(struct cay_core *core, const struct cay_sandbox *sb,
                   const struct cay_bringing *fetch, bool starts, int64_t began_ms,
                   struct cay_hold *hold, struct cay_ticket *ticket);
/* Who wants the sandbox gone does not wait for it: as if its time were over, also if it is only now
 * being made. Lasts until the end. */
struct cay_ready_cancel {
    struct cay_readier *of;
    struct cay_ready_cancel *next;
    char id[CAY_ID_SIZE];
};
void cay_ready_cancel(struct cay_core *core, const char *id, struct cay_ready_cancel *c);
/* Somebody does now. */
bool cay_ready_is_cancelled(struct cay_core *core, const char *id);
void cay_ready_cancel_end(struct cay_ready_cancel *c);
