/* SPDX-License-Identifier: Apache-2.0 */
/* What stays of a request: a line in the operator's log. */
#pragma once
#include "http/request.h"

/* Once its answer is decided. On any thread. */
void cay_records_request(const struct cay_req *req, int status, int64_t took_us);
