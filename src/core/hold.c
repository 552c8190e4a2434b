/* SPDX-License-Identifier: Apache-2.0 */
/* The chain of ids that somebody is working on. It is as long as there are workers. */
#include "core/hold.h"
#include "base/str.h"
#include <string.h>
#include <time.h>

#define WAIT_SECONDS 30

void cay_holds_init(struct cay_holds *h)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->freed, &attr);
    pthread_condattr_destroy(&attr);
    h->first = NULL;
}

void cay_holds_done(struct cay_holds *h)
{
    pthread_mutex_destroy(&h->lock);
    pthread_cond_destroy(&h->freed);
}

static bool taken(const struct cay_holds *h, const char *id)
{
    for (const struct cay_hold *at = h->first; at; at = at->next)
        if (strcmp(at->id, id) == 0)
            return true;
    return false;
}

static void take(struct cay_holds *h, const char *id, struct cay_hold *out)
{
    cay_str_copy(out->id, sizeof out->id, id);
    out->of = h;
    out->next = h->first;
    h->first = out;
}

int cay_hold_wait(struct cay_holds *h, const char *id, struct cay_hold *out, struct cay_error *err)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += WAIT_SECONDS;
    pthread_mutex_lock(&h->lock);
    int late = 0;
    while (taken(h, id) && late == 0)
        late = pthread_cond_timedwait(&h->freed, &h->lock, &until);
    bool mine = !taken(h, id);
    if (mine)
        take(h, id, out);
    pthread_mutex_unlock(&h->lock);
    if (mine)
        return 0;
    return cay_fail_as(err, CAY_ERR_CONFLICT, "SANDBOX_BUSY",
                       "another operation on this sandbox is still under way");
}

bool cay_hold_try(struct cay_holds *h, const char *id, struct cay_hold *out)
{
    pthread_mutex_lock(&h->lock);
    bool mine = !taken(h, id);
    if (mine)
        take(h, id, out);
    pthread_mutex_unlock(&h->lock);
    return mine;
}

bool cay_hold_is(struct cay_holds *h, const char *id)
{
    pthread_mutex_lock(&h->lock);
    bool is = taken(h, id);
    pthread_mutex_unlock(&h->lock);
    return is;
}

void cay_hold_end(struct cay_hold *hold)
{
    struct cay_holds *h = hold->of;
    if (!h)
        return;
    pthread_mutex_lock(&h->lock);
    for (struct cay_hold **at = &h->first; *at; at = &(*at)->next)
        if (*at == hold) {
            *at = hold->next;
            break;
        }
    pthread_cond_broadcast(&h->freed);
    pthread_mutex_unlock(&h->lock);
    hold->of = NULL;
}
