/* SPDX-License-Identifier: Apache-2.0 */
/* Something scarce that accounts have at once, so that none of them keeps the others from it: an
 * account gets more only while as much as it then has is left, which is half of all at most. Who
 * has nothing gets what there is. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct cay_shares { /* the caller locks; zeroed: nobody has anything */
    struct cay_share *first;
    size_t taken;
};

/* False: not so much of `all` can be had by this account. */
bool cay_share_take(struct cay_shares *s, const char *account_id, size_t amount, size_t all);
void cay_share_give(struct cay_shares *s, const char *account_id, size_t amount);
