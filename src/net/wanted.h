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
};
