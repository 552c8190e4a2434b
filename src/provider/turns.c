/* SPDX-License-Identifier: Apache-2.0 */
#include "provider/turns.h"
#include "base/clock.h"
#include "base/str.h"
#include "model/limits.h"
#include <string.h>
#include <time.h>

void cay_turns_init(struct cay_turns *t)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->ended, &attr);
    pthread_condattr_destroy(&attr);
    t->first = NULL;
}

void cay_turns_done(struct cay_turns *t)
{
    pthread_mutex_destroy(&t->lock);
    pthread_cond_destroy(&t->ended);
}

/* How many ask this one; oldest_out: since when the first of them waits. */
static int count(const struct cay_turns *t, const char *id, int64_t *oldest_out)
{
    int found = 0;
    *oldest_out = INT64_MAX;
    for (const struct cay_turn *at = t->first; at; at = at->next) {
        if (strcmp(at->id, id) != 0)
            continue;
        found++;
        if (at->began_ms < *oldest_out)
            *oldest_out = at->began_ms;
    }
    return found;
}

int cay_turn_take(struct cay_turns *t, const char *id, struct cay_turn *out, struct cay_error *err)
{
    int64_t oldest_ms;
    int late = 0;
    pthread_mutex_lock(&t->lock);
    while (count(t, id, &oldest_ms) >= CAY_INIT_CALLS && late == 0) {
        int64_t until_ms = oldest_ms + CAY_INIT_SLOW_MS;
        struct timespec until = {.tv_sec = until_ms / 1000, .tv_nsec = until_ms % 1000 * 1000000};
        late = cay_clock_mono_ms() < until_ms ? pthread_cond_timedwait(&t->ended, &t->lock, &until)
                                              : 1;
    }
    bool mine = count(t, id, &oldest_ms) < CAY_INIT_CALLS;
    if (mine) {
        *out = (struct cay_turn){.began_ms = cay_clock_mono_ms(), .of = t, .next = t->first};
        cay_str_copy(out->id, sizeof out->id, id);
        t->first = out;
    }
    pthread_mutex_unlock(&t->lock);
    if (mine)
        return 0;
    return cay_fail_as(err, CAY_ERR_UNAVAILABLE, "SANDBOX_BUSY",
                       "the sandbox is too busy to answer");
}

void cay_turn_end(struct cay_turn *turn)
{
    struct cay_turns *t = turn->of;
    if (!t)
        return;
    pthread_mutex_lock(&t->lock);
    for (struct cay_turn **at = &t->first; *at; at = &(*at)->next)
        if (*at == turn) {
            *at = turn->next;
            break;
        }
    pthread_cond_broadcast(&t->ended);
    pthread_mutex_unlock(&t->lock);
    turn->of = NULL;
}
