/* SPDX-License-Identifier: Apache-2.0 */
/* Who is asking which pid 1 something. A sandbox can keep its pid 1 from answering for as long as
 * we wait, so only a few callers may wait for the same one: the others are refused at once, and go
 * on with other sandboxes. Where answers come quickly nobody notices. */
#pragma once
#include "base/error.h"
#include "base/id.h"
#include <pthread.h>
#include <stdint.h>

struct cay_turn {
    char id[CAY_ID_SIZE];
    int64_t began_ms;
    struct cay_turns *of;
    struct cay_turn *next;
};

struct cay_turns {
    pthread_mutex_t lock;
    pthread_cond_t ended;
    struct cay_turn *first; /* as long as there are callers */
};

void cay_turns_init(struct cay_turns *t);
void cay_turns_done(struct cay_turns *t);
/* CAY_ERR_UNAVAILABLE, "SANDBOX_BUSY": CAY_INIT_CALLS wait already, one of them for long. */
int cay_turn_take(struct cay_turns *t, const char *id, struct cay_turn *out, struct cay_error *err);
void cay_turn_end(struct cay_turn *turn);
