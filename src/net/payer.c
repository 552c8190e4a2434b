/* SPDX-License-Identifier: Apache-2.0 */
/* What accounts use of the way out, and may use. Connections are counted as they come and go, bytes
 * when a connection ends, when somebody asks, and every CAY_NET_TALLY_MS while there is a limit of
 * them: so much more than that may pass. */
#include "base/clock.h"
#include "model/limits.h"
#include "net/ways.h"
#include <stdlib.h>
#include <string.h>

#define DAY_MS (24 * 60 * 60 * 1000LL)

static const struct cay_egress_limit no_limit = {UINT64_MAX, UINT32_MAX};

/* It begins anew each day. */
static struct cay_payer *of_today(struct cay_payer *p)
{
    int64_t day = cay_clock_ms() / DAY_MS;
    if (p->day != day)
        p->bytes = 0;
    p->day = day;
    return p;
}

static struct cay_payer **place_of(struct cay_egress *e, const char *id)
{
    struct cay_payer **at = &e->payers;
    while (*at && strcmp((*at)->id, id) != 0)
        at = &(*at)->next;
    return at;
}

static struct cay_payer *find(struct cay_egress *e, const char *id)
{
    struct cay_payer **at = place_of(e, id);
    if (!*at) {
        *at = calloc(1, sizeof **at);
        if (!*at)
            abort();
        cay_str_copy((*at)->id, sizeof(*at)->id, id);
        (*at)->limit = no_limit;
    }
    return of_today(*at);
}

static bool is_limited(const struct cay_payer *p)
{
    return p->limit.day_bytes != UINT64_MAX || p->limit.connections != UINT32_MAX;
}

struct cay_payer *cay_payer_join(struct cay_egress *e, const char *id)
{
    struct cay_payer *p = find(e, id);
    p->ways++;
    return p;
}

void cay_payer_leave(struct cay_egress *e, struct cay_payer *payer)
{
    struct cay_payer **at = &e->payers;
    if (--payer->ways > 0 || of_today(payer)->bytes > 0 || is_limited(payer))
        return;
    while (*at != payer)
        at = &(*at)->next;
    *at = payer->next;
    free(payer);
}

void cay_payer_count(struct cay_payer *payer, uint64_t bytes)
{
    of_today(payer)->bytes += bytes;
}

bool cay_payer_may_open(struct cay_payer *payer)
{
    return payer->connections < payer->limit.connections &&
           of_today(payer)->bytes < payer->limit.day_bytes;
}

static void tally(struct cay_deadline *t)
{
    struct cay_egress *e = (struct cay_egress *)((char *)t - offsetof(struct cay_egress, tally));
    struct cay_traffic ignored;
    bool any = false;
    for (size_t i = 0; i < CAY_WAY_BUCKETS; i++)
        for (struct cay_way *w = e->ways[i]; w; w = w->next) {
            if (w->payer->limit.day_bytes == UINT64_MAX)
                continue;
            any = true;
            cay_way_count(w, &ignored);
            if (of_today(w->payer)->bytes >= w->payer->limit.day_bytes)
                cay_way_overdrawn(w);
        }
    if (any)
        cay_deadline_set(&e->tallying, &e->tally);
}

void cay_payers_init(struct cay_egress *e)
{
    cay_deadlines_init(e->loop, &e->tallying, CAY_NET_TALLY_MS, tally);
}

void cay_payers_done(struct cay_egress *e)
{
    while (e->payers) {
        struct cay_payer *p = e->payers;
        e->payers = p->next;
        free(p);
    }
}

/* ---- from any thread ---- */

struct order {
    struct cay_egress *egress;
    const char *id;
    const struct cay_egress_limit *limit;
    const struct cay_egress_use *before;
    struct cay_egress_use *out;
    size_t max, count;
};

static void do_limit(void *arg)
{
    struct order *o = arg;
    bool none = o->limit->day_bytes == UINT64_MAX && o->limit->connections == UINT32_MAX;
    if (none && !*place_of(o->egress, o->id))
        return;
    struct cay_payer *p = find(o->egress, o->id);
    p->limit = *o->limit;
    if (p->limit.day_bytes != UINT64_MAX)
        tally(&o->egress->tally);
}

void cay_egress_limit(struct cay_egress *e, const char *account_id,
                      const struct cay_egress_limit *limit)
{
    struct order o = {.egress = e, .id = account_id, .limit = limit};
    cay_loop_ask(e->loop, do_limit, &o);
}

static void do_used(void *arg)
{
    struct order *o = arg;
    struct cay_traffic ignored;
    for (size_t i = 0; i < CAY_WAY_BUCKETS; i++)
        for (struct cay_way *w = o->egress->ways[i]; w; w = w->next)
            cay_way_count(w, &ignored);
    for (struct cay_payer *p = o->egress->payers; p && o->count < o->max; p = p->next) {
        if (o->id ? strcmp(p->id, o->id) != 0 : of_today(p)->bytes == 0)
            continue;
        struct cay_egress_use *use = &o->out[o->count++];
        *use = (struct cay_egress_use){
            .day = p->day, .bytes = of_today(p)->bytes, .connections = p->connections};
        cay_str_copy(use->account_id, sizeof use->account_id, p->id);
    }
}

size_t cay_egress_used(struct cay_egress *e, const char *account_id, struct cay_egress_use *out,
                       size_t max)
{
    struct order o = {.egress = e, .id = account_id, .out = out, .max = max};
    cay_loop_ask(e->loop, do_used, &o);
    return o.count;
}

static void do_recall(void *arg)
{
    struct order *o = arg;
    struct cay_payer *p = find(o->egress, o->before->account_id);
    if (p->day == o->before->day)
        p->bytes += o->before->bytes;
}

void cay_egress_recall(struct cay_egress *e, const struct cay_egress_use *use)
{
    struct order o = {.egress = e, .before = use};
    cay_loop_ask(e->loop, do_recall, &o);
}
