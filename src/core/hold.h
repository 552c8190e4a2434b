/* SPDX-License-Identifier: Apache-2.0 */
/* One operation at a time per id, or several that share it. Who holds an id keeps a link of the
 * chain on its own stack, so that a slow stop delays nobody but those who want the same sandbox. */
#pragma once
#include "base/error.h"
#include "base/id.h"
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct cay_hold {
    struct cay_holds *of; /* NULL: holds nothing */
    struct cay_hold *next;
    char id[CAY_ID_SIZE];
    bool shared;
    int64_t since_ms; /* monotonic */
};

struct cay_holds {
    pthread_mutex_t lock;
    pthread_cond_t freed;
    struct cay_hold *first;
    struct cay_hold *waiting; /* who wants an id for himself goes before those who share */
};

void cay_holds_init(struct cay_holds *h);
void cay_holds_done(struct cay_holds *h);
/* Waits for its turn; after half a minute CAY_ERR_CONFLICT, "SANDBOX_BUSY". Once somebody has held
 * it for long, only a few wait on, because each takes a thread from all others. */
int cay_hold_wait(struct cay_holds *h, const char *id, struct cay_hold *out, struct cay_error *err);
/* As above, beside others who share it. */
int cay_hold_share(struct cay_holds *h, const char *id, struct cay_hold *out,
                   struct cay_error *err);
bool cay_hold_try(struct cay_holds *h, const char *id, struct cay_hold *out);
bool cay_hold_is(struct cay_holds *h, const char *id);
/* It is another link that holds it now; `to` holds nothing before. */
void cay_hold_move(struct cay_hold *from, struct cay_hold *to);
void cay_hold_end(struct cay_hold *hold);

#define CAY_AUTO_HOLD CAY_CLEANUP(cay_hold_end)
