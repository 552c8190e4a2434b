/* SPDX-License-Identifier: Apache-2.0 */
#include "image/tokens.h"
#include "base/clock.h"
#include "model/limits.h"
#include <string.h>

struct cay_token {
    struct cay_token *next;
    char *key, *value;
    int64_t until_ms;
};

void cay_tokens_init(struct cay_tokens *t)
{
    *t = (struct cay_tokens){0};
    pthread_mutex_init(&t->lock, NULL);
}

static void drop(struct cay_tokens *t, struct cay_token **link)
{
    struct cay_token *one = *link;
    *link = one->next;
    t->count--;
    explicit_bzero(one->value, strlen(one->value));
    free(one->value);
    free(one->key);
    free(one);
}

void cay_tokens_done(struct cay_tokens *t)
{
    while (t->first)
        drop(t, &t->first);
    pthread_mutex_destroy(&t->lock);
}

const char *cay_tokens_get(struct cay_tokens *t, struct cay_arena *a, const char *key)
{
    const char *found = NULL;
    int64_t now_ms = cay_clock_mono_ms();
    pthread_mutex_lock(&t->lock);
    for (struct cay_token *i = t->first; i && !found; i = i->next)
        if (strcmp(i->key, key) == 0 && i->until_ms > now_ms)
            found = cay_arena_strdup(a, i->value);
    pthread_mutex_unlock(&t->lock);
    return found;
}

/* The one of that key, and all that are over; the last one when there are too many. */
static void make_room(struct cay_tokens *t, const char *key, int64_t now_ms)
{
    struct cay_token **i = &t->first;
    while (*i)
        if (strcmp((*i)->key, key) == 0 || (*i)->until_ms <= now_ms ||
            (!(*i)->next && t->count >= CAY_REGISTRY_TOKENS))
            drop(t, i);
        else
            i = &(*i)->next;
}

void cay_tokens_set(struct cay_tokens *t, const char *key, const char *value, int64_t seconds)
{
    int64_t now_ms = cay_clock_mono_ms();
    pthread_mutex_lock(&t->lock);
    make_room(t, key, now_ms);
    struct cay_token *one = value ? calloc(1, sizeof *one) : NULL;
    if (one) {
        *one = (struct cay_token){.next = t->first,
                                  .key = strdup(key),
                                  .value = strdup(value),
                                  .until_ms = now_ms + seconds * 1000};
        if (!one->key || !one->value)
            abort();
        t->first = one;
        t->count++;
    }
    pthread_mutex_unlock(&t->lock);
}
