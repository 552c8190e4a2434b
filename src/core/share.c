/* SPDX-License-Identifier: Apache-2.0 */
#include "core/share.h"
#include <stdlib.h>
#include <string.h>

struct cay_share {
    struct cay_share *next;
    char *account_id;
    size_t amount; /* none: it is not in the list */
};

static struct cay_share **find(struct cay_shares *s, const char *account_id)
{
    struct cay_share **at = &s->first;
    while (*at && strcmp((*at)->account_id, account_id) != 0)
        at = &(*at)->next;
    return at;
}

bool cay_share_take(struct cay_shares *s, const char *account_id, size_t amount, size_t all)
{
    struct cay_share **at = find(s, account_id);
    size_t own = *at ? (*at)->amount : 0, left = all - s->taken;
    if (amount > left || (own > 0 && own + amount > left))
        return false;
    if (amount == 0)
        return true;
    if (!*at) {
        *at = calloc(1, sizeof **at);
        if (!*at || !((*at)->account_id = strdup(account_id)))
            abort();
    }
    (*at)->amount += amount;
    s->taken += amount;
    return true;
}

void cay_share_give(struct cay_shares *s, const char *account_id, size_t amount)
{
    struct cay_share **at = find(s, account_id);
    if (amount == 0)
        return;
    s->taken -= amount;
    (*at)->amount -= amount;
    if ((*at)->amount > 0)
        return;
    struct cay_share *gone = *at;
    *at = gone->next;
    free(gone->account_id);
    free(gone);
}
