/* SPDX-License-Identifier: Apache-2.0 */
/* The chain of ids that somebody is working on. It is as long as there are workers,
 * and the forks that one of them makes. */
#include "core/hold.h"
#include "base/clock.h"
#include "base/str.h"
#include "model/limits.h"
#include <string.h>
#include <time.h>

#define WAIT_MS 30000

void cay_holds_init(struct cay_holds *h)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->freed, &attr);
    pthread_condattr_destroy(&attr);
    h->first = h->waiting = NULL;
}

void cay_holds_done(struct cay_holds *h)
{
    pthread_mutex_destroy(&h->lock);
    pthread_cond_destroy(&h->freed);
}

static bool is_in(const struct cay_hold *chain, const char *id, bool but_shared)
{
    for (const struct cay_hold *at = chain; at; at = at->next)
        if (strcmp(at->id, id) == 0 && !(but_shared && at->shared))
            return true;
    return false;
}

static bool taken(const struct cay_holds *h, const char *id, bool shared)
{
    return is_in(h->first, id, shared) || (shared && is_in(h->waiting, id, true));
}

static void add(struct cay_hold **chain, const char *id, bool shared, struct cay_hold *out)
{
    cay_str_copy(out->id, sizeof out->id, id);
    out->shared = shared;
    out->since_ms = cay_clock_mono_ms();
    out->next = *chain;
    *chain = out;
}

static void drop(struct cay_hold **chain, const struct cay_hold *hold)
{
    for (struct cay_hold **at = chain; *at; at = &(*at)->next)
        if (*at == hold) {
            *at = hold->next;
            return;
        }
}

static void take(struct cay_holds *h, const char *id, bool shared, struct cay_hold *out)
{
    out->of = h;
    add(&h->first, id, shared, out);
}

/* When the hold has lasted for long. */
static int64_t long_at_ms(const struct cay_holds *h, const char *id)
{
    int64_t since_ms = INT64_MAX - CAY_HOLD_LONG_MS;
    for (const struct cay_hold *at = h->first; at; at = at->next)
        if (strcmp(at->id, id) == 0 && at->since_ms < since_ms)
            since_ms = at->since_ms;
    return since_ms + CAY_HOLD_LONG_MS;
}

/* Do as many wait already, for whatever, as may? The chain grows at its front. */
static bool is_crowded(const struct cay_hold *wish)
{
    int before = 0;
    for (const struct cay_hold *at = wish->next; at; at = at->next)
        before++;
    return before >= CAY_HOLD_WAITERS;
}

/* Until the id may be had. False when it is given up. */
static bool wait_turn(struct cay_holds *h, const struct cay_hold *wish)
{
    const int64_t late_ms = wish->since_ms + WAIT_MS;
    while (taken(h, wish->id, wish->shared)) {
        int64_t now_ms = cay_clock_mono_ms(), until_ms = long_at_ms(h, wish->id);
        if (now_ms >= late_ms || (now_ms >= until_ms && is_crowded(wish)))
            return false;
        if (now_ms >= until_ms || until_ms > late_ms)
            until_ms = late_ms;
        const struct timespec until = {.tv_sec = until_ms / 1000,
                                       .tv_nsec = until_ms % 1000 * 1000000};
        (void)pthread_cond_timedwait(&h->freed, &h->lock, &until); /* the clock is asked above */
    }
    return true;
}

static int wait_for(struct cay_holds *h, const char *id, bool shared, struct cay_hold *out,
                    struct cay_error *err)
{
    struct cay_hold wish = {0};
    pthread_mutex_lock(&h->lock);
    add(&h->waiting, id, shared, &wish);
    bool mine = wait_turn(h, &wish);
    drop(&h->waiting, &wish);
    if (mine)
        take(h, id, shared, out);
    else
        pthread_cond_broadcast(&h->freed); /* those who let us go first */
    pthread_mutex_unlock(&h->lock);
    if (mine)
        return 0;
    return cay_fail_as(err, CAY_ERR_CONFLICT, "SANDBOX_BUSY",
                       "another operation on this sandbox is still under way");
}

int cay_hold_wait(struct cay_holds *h, const char *id, struct cay_hold *out, struct cay_error *err)
{
    return wait_for(h, id, false, out, err);
}

int cay_hold_share(struct cay_holds *h, const char *id, struct cay_hold *out, struct cay_error *err)
{
    return wait_for(h, id, true, out, err);
}

bool cay_hold_try(struct cay_holds *h, const char *id, struct cay_hold *out)
{
    pthread_mutex_lock(&h->lock);
    bool mine = !taken(h, id, false);
    if (mine)
        take(h, id, false, out);
    pthread_mutex_unlock(&h->lock);
    return mine;
}

bool cay_hold_is(struct cay_holds *h, const char *id)
{
    pthread_mutex_lock(&h->lock);
    bool is = taken(h, id, false);
    pthread_mutex_unlock(&h->lock);
    return is;
}

void cay_hold_move(struct cay_hold *from, struct cay_hold *to)
{
    struct cay_holds *h = from->of;
    if (!h)
        return;
    pthread_mutex_lock(&h->lock);
    drop(&h->first, from);
    take(h, from->id, from->shared, to);
    to->since_ms = from->since_ms;
    pthread_mutex_unlock(&h->lock);
    from->of = NULL;
}

void cay_hold_end(struct cay_hold *hold)
{
    struct cay_holds *h = hold->of;
    if (!h)
        return;
    pthread_mutex_lock(&h->lock);
    drop(&h->first, hold);
    pthread_cond_broadcast(&h->freed);
    pthread_mutex_unlock(&h->lock);
    hold->of = NULL;
}
