/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox that others make ready; no thread waits for it. */
#pragma once
#include "core/service.h"
#include "core/ticket.h"
#include "http/response.h"

struct cay_api_waiting {
    char id[CAY_ID_SIZE];
    int status;       /* to be answered then */
    bool once;        /* see cay_core_answered */
    const char *data; /* the caller's */
    int verdict;
    struct cay_error err;
};
/* `answer` is called when the ticket, which is taken, is over. Of `how` status, once and data are
 * kept. */
int cay_api_wait_ticket(struct cay_req *req, struct cay_resp *resp, struct cay_ticket *ticket,
                        const struct cay_sandbox *sb, struct cay_api_waiting how,
                        int (*answer)(struct cay_req *req, struct cay_resp *resp,
                                      struct cay_error *err));
/* In there: how it went, and the sandbox as it is now. */
int cay_api_waited(struct cay_req *req, struct cay_sandbox *out, struct cay_error *err);
