/* SPDX-License-Identifier: Apache-2.0 */
/* A short memory of OOM counters, by sandbox. */
#include "core/oom.h"
#include "base/id.h"
#include "base/str.h"
#include <stdlib.h>
#include <string.h>

#define SEEN_MAX 1024 /* sandboxes remembered; the oldest goes */
#define STEPS 8       /* rises remembered of each */

struct cay_oom_seen {
    struct cay_oom_seen *next;
    char id[CAY_ID_SIZE];
    unsigned count;
    struct {
        int64_t time_ms;
        uint64_t kills;
    } at[STEPS]; /* oldest first */
};

void cay_oom_init(struct cay_oom *o)
{
    pthread_mutex_init(&o->lock, NULL);
    o->first = NULL;
    o->count = 0;
}

static void drop(struct cay_oom *o, struct cay_oom_seen **at)
{
    struct cay_oom_seen *gone = *at;
    *at = gone->next;
    free(gone);
    o->count--;
}

void cay_oom_done(struct cay_oom *o)
{
    while (o->first)
        drop(o, &o->first);
    pthread_mutex_destroy(&o->lock);
}

static struct cay_oom_seen **find(struct cay_oom *o, const char *id)
{
    struct cay_oom_seen **at = &o->first;
    while (*at && strcmp((*at)->id, id) != 0)
        at = &(*at)->next;
    return at;
}

static struct cay_oom_seen *add(struct cay_oom *o, const char *id)
{
    struct cay_oom_seen *seen = calloc(1, sizeof *seen);
    if (!seen)
        abort();
    if (o->count >= SEEN_MAX) {
        struct cay_oom_seen **last = &o->first;
        while ((*last)->next)
            last = &(*last)->next;
        drop(o, last);
    }
    cay_str_copy(seen->id, sizeof seen->id, id);
    seen->next = o->first;
    o->first = seen;
    o->count++;
    return seen;
}

void cay_oom_saw(struct cay_oom *o, const char *id, uint64_t kills, int64_t now_ms)
{
    if (kills == 0)
        return;
    pthread_mutex_lock(&o->lock);
    struct cay_oom_seen *seen = *find(o, id);
    if (!seen)
        seen = add(o, id);
    if (seen->count == 0 || seen->at[seen->count - 1].kills < kills) {
        if (seen->count == STEPS) {
            memmove(&seen->at[0], &seen->at[1], (STEPS - 1) * sizeof seen->at[0]);
            seen->count--;
        }
        seen->at[seen->count].time_ms = now_ms;
        seen->at[seen->count].kills = kills;
        seen->count++;
    }
    pthread_mutex_unlock(&o->lock);
}

uint64_t cay_oom_before(struct cay_oom *o, const char *id, int64_t time_ms)
{
    uint64_t kills = 0;
    pthread_mutex_lock(&o->lock);
    const struct cay_oom_seen *seen = *find(o, id);
    for (unsigned i = 0; seen && i < seen->count; i++)
        if (seen->at[i].time_ms <= time_ms)
            kills = seen->at[i].kills;
    pthread_mutex_unlock(&o->lock);
    return kills;
}

void cay_oom_forget(struct cay_oom *o, const char *id)
{
    pthread_mutex_lock(&o->lock);
    struct cay_oom_seen **at = find(o, id);
    if (*at)
        drop(o, at);
    pthread_mutex_unlock(&o->lock);
}
