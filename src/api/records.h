/* SPDX-License-Identifier: Apache-2.0 */
/* What stays of a request: a line in the operator's log and, if it changed or touched something,
 * one in the audit. */
#pragma once
#include "http/request.h"

/* Ahead of the handler: a name may mean nothing any more when it is done. */
void cay_records_begin(struct cay_req *req);
/* Once its answer is decided. On any thread. */
void cay_records_request(const struct cay_req *req, int status, int64_t took_us);
