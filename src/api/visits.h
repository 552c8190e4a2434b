/* SPDX-License-Identifier: Apache-2.0 */
/* Visits to previews: how many each sandbox has now, and what was decided about one a moment ago.
 * Any thread; nothing here waits. There is one set in a process.
 *
 * A decision is used again only for a request that is the same in all that was looked at, while
 * neither the sandbox's row nor anybody's rights were written, and for CAY_PREVIEW_RECALL_MS. */
#pragma once
#include "base/id.h"
#include "http/request.h"

struct cay_visit {
    char sandbox_id[CAY_ID_SIZE];
    char account_id[CAY_ID_SIZE]; /* who showed a token; or empty */
    unsigned port;
    size_t prefix; /* of the path; 0: the host named it */
    bool hides_authorization;
};

/* What a decision stands on, to be taken before it is made. */
struct cay_visit_key {
    uint8_t sum[32]; /* of all that is looked at */
    uint64_t version;
    int64_t at_ms; /* monotonic */
};

/* False for a request whose decision is nobody else's: one that acts, has a body, wants another
 * protocol or waits, or opens a signed link. */
bool cay_visit_key(const struct cay_req *req, const char *sandbox_id, size_t prefix,
                   struct cay_visit_key *out);
void cay_visit_keep(const struct cay_visit_key *key, const struct cay_visit *visit);
bool cay_visit_recall(const struct cay_visit_key *key, struct cay_visit *out);

/* False when the sandbox has CAY_PREVIEW_OPEN of them; then no leave is due. */
bool cay_visit_enter(const char *sandbox_id);
void cay_visit_leave(const char *sandbox_id);
int cay_visit_refuse(struct cay_error *err); /* CAY_ERR_LIMIT, "TOO_MANY_VISITS" */
