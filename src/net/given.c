/* SPDX-License-Identifier: Apache-2.0 */
#include "net/given.h"
#include "model/limits.h"
#include <stdlib.h>
#include <string.h>

#define FIRST 8

static struct cay_given_entry *find(const struct cay_given *g, const struct in6_addr *ip,
                                    const char *name)
{
    for (size_t i = 0; i < g->count; i++)
        if (memcmp(&g->at[i].ip, ip, sizeof *ip) == 0 && strcmp(g->at[i].name, name) == 0)
            return &g->at[i];
    return NULL;
}

static struct cay_given_entry *new_entry(struct cay_given *g)
{
    if (g->count == CAY_NET_GIVEN) {
        struct cay_given_entry *old = &g->at[g->next++ % CAY_NET_GIVEN];
        free(old->name);
        return old;
    }
    if (g->count == g->cap) {
        g->cap = g->cap ? g->cap * 2 : FIRST;
        g->at = realloc(g->at, g->cap * sizeof *g->at);
        if (!g->at)
            abort();
    }
    return &g->at[g->count++];
}

void cay_given_add(struct cay_given *g, const struct in6_addr *ip, const char *name,
                   int64_t until_ms)
{
    struct cay_given_entry *e = find(g, ip, name);
    if (!e) {
        e = new_entry(g);
        *e = (struct cay_given_entry){.ip = *ip, .name = strdup(name)};
        if (!e->name)
            abort();
    }
    if (e->until_ms < until_ms)
        e->until_ms = until_ms;
}

size_t cay_given_names(const struct cay_given *g, const struct in6_addr *ip, int64_t now_ms,
                       const char **out, size_t max)
{
    size_t count = 0;
    for (size_t i = 0; i < g->count && count < max; i++)
        if (g->at[i].until_ms > now_ms && memcmp(&g->at[i].ip, ip, sizeof *ip) == 0)
            out[count++] = g->at[i].name;
    return count;
}

void cay_given_done(struct cay_given *g)
{
    for (size_t i = 0; i < g->count; i++)
        free(g->at[i].name);
    free(g->at);
    *g = (struct cay_given){0};
}
