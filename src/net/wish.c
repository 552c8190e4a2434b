/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox wanted of the network. Bounded: the oldest makes room. */
#include "base/clock.h"
#include "model/limits.h"
#include "net/ways.h"
#include <stdlib.h>
#include <string.h>

static struct cay_wish *find(struct cay_way *w, const char *name, const struct cay_address *to,
                             enum cay_verdict verdict)
{
    for (size_t i = 0; i < w->wish_count; i++) {
        struct cay_wanted *s = &w->wishes[i]->seen;
        if (s->verdict == verdict && s->to.port == to->port &&
            memcmp(&s->to.ip, &to->ip, sizeof to->ip) == 0 && strcmp(s->name, name) == 0)
            return w->wishes[i];
    }
    return NULL;
}

static struct cay_wish *add(struct cay_way *w)
{
    if (!w->wishes)
        w->wishes = calloc(CAY_NET_WANTED, sizeof(struct cay_wish *));
    if (!w->wishes)
        abort();
    if (w->wish_count == CAY_NET_WANTED)
        return w->wishes[w->wish_next++ % CAY_NET_WANTED];
    struct cay_wish *wish = malloc(sizeof *wish);
    if (!wish)
        abort();
    w->wishes[w->wish_count++] = wish;
    return wish;
}

struct cay_wish *cay_way_wish(struct cay_way *w, const char *name, const struct cay_address *to,
                              enum cay_verdict verdict)
{
    struct cay_wish *wish = find(w, name ? name : "", to, verdict);
    if (!wish) {
        wish = add(w);
        *wish =
            (struct cay_wish){.seen = {.first_ms = cay_clock_ms(), .to = *to, .verdict = verdict},
                              .serial = ++w->wish_serial};
        cay_str_copy(wish->seen.name, sizeof wish->seen.name, name ? name : "");
    }
    wish->seen.last_ms = cay_clock_ms();
    wish->seen.count++;
    return wish;
}

void cay_wishes_done(struct cay_way *w)
{
    for (size_t i = 0; i < w->wish_count; i++)
        free(w->wishes[i]);
    free(w->wishes);
    w->wishes = NULL;
    w->wish_count = 0;
}
