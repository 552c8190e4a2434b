/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox wanted of the network, and the policy that it would have needed. */
#pragma once
#include "net/policy.h"

/* Counted by name, address, port and verdict. */
struct cay_wanted {
    int64_t first_ms, last_ms;
    char name[256];        /* that the address was given for, or was asked for; or empty */
    struct cay_address to; /* port 0: a name was asked for, and not given */
    enum cay_verdict verdict;
    bool failed; /* allowed, but the last one did not come about */
    uint64_t count, sent_bytes, received_bytes;
    uint64_t injected; /* requests that were given headers */
};

/* Can a policy allow it? What is guarded is the operator's, what is denied was so on purpose. */
bool cay_wanted_open(const struct cay_wanted *w);
/* The smallest policy that allows all of these but what none can: by name where there is one, with
 * the ports that were wanted. In the arena; in the order of the alphabet. */
void cay_wanted_propose(struct cay_arena *a, const struct cay_wanted *wanted, size_t count,
                        struct cay_network *out);
