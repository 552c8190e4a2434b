/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for a command without holding a thread, and what it wrote. */
#pragma once
#include "core/service.h"
#include "http/response.h"

/* For cay_resp_defer: sends nothing and ends when the execution does, and the version that it is
 * due has been made. Takes over the descriptor. */
struct cay_stream *cay_api_wait(struct cay_core *core, const struct cay_execution *ex, int log_fd);
/* Has it ended, and was the version that it is due made? */
bool cay_api_is_over(struct cay_core *core, const struct cay_execution *ex);
/* Before so much output is collected and made a string of. As cay_resp_claim. */
int cay_api_claim(struct cay_resp *resp, uint64_t bytes, struct cay_error *err);
/* What is kept of a stream (CAY_RECORD_PAD: of both) from a record on, without its first `skip`
 * bytes, at most limit bytes; true when some is missing. */
bool cay_api_collect(int log_fd, uint64_t offset, uint64_t skip, enum cay_record_kind only,
                     size_t limit, struct cay_buf *out);
