/* SPDX-License-Identifier: Apache-2.0 */
/* Streams that time wakes: a heap of connections, the next one on top. What is due is given to a
 * worker, for work that may block; no more than CAY_HTTP_STREAMS_AT_WORK of them at once, so that a
 * backend which hangs holds up streams and not requests. */
#include "http/conn.h"

#define AGAIN_MS 100 /* when all workers are busy and their queue is full */

static int64_t due_ms(const struct cay_http_server *s, size_t at)
{
    return s->timers.at[at - 1]->stream->wake_at_ms;
}

static void put(struct cay_http_server *s, size_t at, struct cay_conn *c)
{
    s->timers.at[at - 1] = c;
    c->timer = at;
}

static void swap(struct cay_http_server *s, size_t a, size_t b)
{
    struct cay_conn *was = s->timers.at[a - 1];
    put(s, a, s->timers.at[b - 1]);
    put(s, b, was);
}

/* Moves an entry to where it belongs; places count from 1. */
static void settle(struct cay_http_server *s, size_t at)
{
    for (; at > 1 && due_ms(s, at) < due_ms(s, at / 2); at /= 2)
        swap(s, at, at / 2);
    for (size_t least = at;; at = least) {
        for (size_t child = 2 * at; child <= 2 * at + 1 && child <= s->timers.count; child++)
            if (due_ms(s, child) < due_ms(s, least))
                least = child;
        if (least == at)
            return;
        swap(s, at, least);
    }
}

void cay_timer_set(struct cay_http_server *s, struct cay_conn *c)
{
    struct cay_timers *t = &s->timers;
    if (!c->timer) {
        if (t->count == t->room) {
            t->room = t->room ? 2 * t->room : 64;
            t->at = realloc(t->at, t->room * sizeof(struct cay_conn *));
            if (!t->at)
                abort();
        }
        put(s, ++t->count, c);
    }
    settle(s, c->timer);
}

void cay_timer_remove(struct cay_http_server *s, struct cay_conn *c)
{
    size_t at = c->timer;
    if (!at)
        return;
    c->timer = 0;
    size_t last = s->timers.count--;
    if (at == last)
        return;
    put(s, at, s->timers.at[last - 1]);
    settle(s, at);
}

int64_t cay_timers_next_ms(const struct cay_http_server *s)
{
    bool none = s->timers.count == 0 || s->at_work >= CAY_HTTP_STREAMS_AT_WORK;
    return none ? INT64_MAX : due_ms(s, 1);
}

static bool give_work(struct cay_http_server *s, struct cay_conn *c)
{
    c->working = true;
    atomic_store(&c->hold, CAY_HOLD_WORKER);
    if (cay_workers_give(&s->workers, c)) {
        s->at_work++; /* only the loop counts, and it comes back to the loop */
        return true;
    }
    atomic_store(&c->hold, CAY_HOLD_LOOP);
    c->working = false;
    return false;
}

void cay_timers_run(struct cay_http_server *s)
{
    while (cay_timers_next_ms(s) <= s->now_ms) {
        struct cay_conn *c = s->timers.at[0];
        cay_timer_remove(s, c);
        if (c->queued || give_work(s, c)) /* on the ready list: pulled first, then set again */
            continue;
        c->stream->wake_at_ms = s->now_ms + AGAIN_MS;
        cay_timer_set(s, c);
        return;
    }
}
