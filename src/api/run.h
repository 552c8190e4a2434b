/* SPDX-License-Identifier: Apache-2.0 */
/* A command from its spec to its answer. */
#pragma once
#include "core/service.h"
#include "http/response.h"

/* How a dialect tells of it. */
struct cay_api_run {
    void (*running)(struct cay_json_writer *w, const struct cay_execution *ex);
    /* Into the object that is open. */
    void (*ended)(struct cay_json_writer *w, const struct cay_execution *ex, int log_fd,
                  size_t limit);
    size_t limit; /* of the output that is told, of each stream */
    bool detach;  /* who asks does not wait for its end */
};
/* Who waits holds no thread: the answer is deferred until the log ends; or it is a stream, where
 * that is asked for. */
int cay_api_run(struct cay_req *req, struct cay_resp *resp, const char *id,
                const struct cay_exec_spec *spec, const struct cay_api_run *how,
                struct cay_error *err);
/* Before cay_api_shape_output; as cay_resp_claim, and the error names the execution. */
int cay_api_claim_output(struct cay_resp *resp, const struct cay_execution *ex, size_t limit,
                         struct cay_error *err);
/* What it wrote, as `stdout` and `stderr`, at most limit bytes of each; true when some is missing.
 */
bool cay_api_shape_output(struct cay_json_writer *w, const struct cay_execution *ex, int log_fd,
                          size_t limit);
