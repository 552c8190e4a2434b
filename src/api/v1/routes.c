/* SPDX-License-Identifier: Apache-2.0 */
/* What every route of /api/v1 shares: which form of an answer a client wants. */
#include "api/v1/v1.h"

enum cay_v1_form cay_v1_form_of(const struct cay_req *req)
{
    if (cay_req_accepts(req, "text/event-stream"))
        return CAY_V1_SSE;
    if (cay_req_accepts(req, "application/x-ndjson"))
        return CAY_V1_NDJSON;
    return CAY_V1_TEXT;
}

const char *cay_v1_form_type(enum cay_v1_form form)
{
    static const char *const types[] = {
        [CAY_V1_TEXT] = "text/plain; charset=utf-8",
        [CAY_V1_SSE] = "text/event-stream",
        [CAY_V1_NDJSON] = "application/x-ndjson",
    };
    return types[form];
}

int cay_v1_answer_stream(struct cay_resp *resp, const struct cay_execution *ex,
                         enum cay_v1_form form, struct cay_stream *stream)
{
    cay_resp_header(resp, "X-Execution-Id", ex->id);
    cay_resp_header(resp, "Cache-Control", "no-cache");
    cay_resp_header(resp, "X-Accel-Buffering", "no"); /* proxies that would hold back events */
    return cay_resp_stream(resp, 200, cay_v1_form_type(form), stream);
}
