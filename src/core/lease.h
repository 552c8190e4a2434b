/* SPDX-License-Identifier: Apache-2.0 */
/* Who is still wanted: leases, which calls renew, and idle times, which activity puts off.
 *
 * Only sandboxes that have one of both are here, and only in memory: after a restart of the server
 * every lease and every idle time begins anew. The keeper's janitor looks; no sandbox has a thread.
 */
#pragma once
#include "model/sandbox.h"
#include <pthread.h>

#define CAY_LEASE_BUCKETS 1024

struct cay_core;

struct cay_leases {
    pthread_mutex_t lock;
    struct cay_lease *buckets[CAY_LEASE_BUCKETS];
    unsigned first; /* bucket that the next look begins with */
};

void cay_leases_init(struct cay_leases *l);
void cay_leases_done(struct cay_leases *l);
/* As the row says: taken in, changed or let go; and somebody named it just now. Cheap for those
 * that have neither. */
void cay_lease_renew(struct cay_core *core, const struct cay_sandbox *sb);
/* Every living row: after a start of the server, and whenever reconcile may have found one. */
void cay_leases_load(struct cay_core *core);
/* Looks at those whose turn it is, and ends what lapsed. now_ms is monotonic. */
void cay_leases_tick(struct cay_core *core, int64_t now_ms);
