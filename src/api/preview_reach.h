/* SPDX-License-Identifier: Apache-2.0 */
/* What preview.c found out about a request, for preview_reach.c. No other file includes this. */
#pragma once
#include "api/preview.h"
#include "api/visits.h"
#include "model/sandbox.h"

/* The request's data. */
struct cay_preview_visit {
    struct cay_preview_target to;
    struct cay_sandbox sb;
    const struct cay_port *port;
    const char *cookie; /* ours, which the service does not see */
    bool is_tls;
    bool hides_authorization;
    bool keeps; /* the decision, for others like it: */
    struct cay_visit_key key;
};

int cay_preview_reach(struct cay_req *req, struct cay_resp *resp, struct cay_error *err);
/* The answer: the request goes on to what listens there. Takes over the descriptor. */
int cay_preview_carry(struct cay_req *req, struct cay_resp *resp, int fd, bool reused,
                      struct cay_error *err);
