/* SPDX-License-Identifier: Apache-2.0 */
/* Requests, counted by route; and GET /metrics, which tells all that is counted. Labels are
 * patterns of the route tables, never paths, so that nobody can make more of them. */
#pragma once
#include "http/request.h"

extern const struct cay_route cay_metrics_routes[];

/* The tables must live until the end; `diverted` is one whose routes take all methods, or NULL.
 * There is one set of counters in a process. */
void cay_metrics_open(const struct cay_route *const *tables, const struct cay_route *diverted);
void cay_metrics_close(void);
/* On any thread. */
void cay_metrics_request(const struct cay_req *req, int status, int64_t took_us);
