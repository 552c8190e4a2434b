/* SPDX-License-Identifier: Apache-2.0 */
/* A table of fixed size: when every place near an address's own is taken, the oldest window goes.
 */
#include "api/ratelimit.h"
#include "base/id.h"
#include "base/str.h"
#include <stdlib.h>
#include <string.h>

#define SLOTS 8192
#define NEAR 8

struct cay_ratelimit_slot {
    char who[46 + CAY_ID_SIZE]; /* an address, and whose token */
    int64_t begun_ms;           /* 0: free */
    int64_t count;
};

void cay_ratelimit_init(struct cay_ratelimit *rl, int64_t limit, int64_t seconds)
{
    *rl = (struct cay_ratelimit){.limit = limit, .window_ms = (seconds > 0 ? seconds : 1) * 1000};
    pthread_mutex_init(&rl->lock, NULL);
    if (limit > 0 && !(rl->slots = calloc(SLOTS, sizeof *rl->slots)))
        abort();
}

void cay_ratelimit_done(struct cay_ratelimit *rl)
{
    free(rl->slots);
    rl->slots = NULL;
    pthread_mutex_destroy(&rl->lock);
}

static struct cay_ratelimit_slot *slot_for(struct cay_ratelimit *rl, const char *who)
{
    unsigned h = 2166136261u;
    for (const char *c = who; *c; c++)
        h = (h ^ (unsigned char)*c) * 16777619u;
    struct cay_ratelimit_slot *oldest = &rl->slots[h % SLOTS];
    for (unsigned i = 0; i < NEAR; i++) {
        struct cay_ratelimit_slot *slot = &rl->slots[(h + i) % SLOTS];
        if (slot->begun_ms && strcmp(slot->who, who) == 0)
            return slot;
        if (slot->begun_ms < oldest->begun_ms)
            oldest = slot;
    }
    *oldest = (struct cay_ratelimit_slot){0};
    cay_str_copy(oldest->who, sizeof oldest->who, who);
    return oldest;
}

bool cay_ratelimit_take(struct cay_ratelimit *rl, const char *who, int64_t now_ms,
                        struct cay_rate *out)
{
    *out = (struct cay_rate){.limit = rl->limit};
    if (rl->limit <= 0)
        return true;
    pthread_mutex_lock(&rl->lock);
    struct cay_ratelimit_slot *slot = slot_for(rl, who);
    if (slot->begun_ms == 0 || now_ms - slot->begun_ms >= rl->window_ms) {
        slot->begun_ms = now_ms > 0 ? now_ms : 1;
        slot->count = 0;
    }
    bool fits = slot->count < rl->limit;
    slot->count += fits;
    out->remaining = rl->limit - slot->count;
    out->reset_s = (slot->begun_ms + rl->window_ms - now_ms + 999) / 1000;
    pthread_mutex_unlock(&rl->lock);
    return fits;
}
