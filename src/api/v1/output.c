/* SPDX-License-Identifier: Apache-2.0 */
/* /api/v1: what an execution wrote, now or later, from any place. */
#include "api/v1/v1.h"
#include "model/limits.h"
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

struct output_query {
    const char *offset, *stream;
    bool follow;
};

static const char *const streams[] = {"stdout", "stderr", NULL};

static const struct cay_field output_fields[] = {
    CAY_FIELD_STR(struct output_query, offset, "offset", .max_len = 64),
    CAY_FIELD_STR(struct output_query, stream, "stream", .choices = streams),
    CAY_FIELD_BOOL(struct output_query, follow, "follow"),
    CAY_FIELD_END,
};

static int get_output(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    const char *id = cay_req_param(req, "id"), *eid = cay_req_param(req, "eid");
    const char *last = cay_req_header(req, "last-event-id");
    struct cay_api_follow how = {.form = cay_api_form_of(req)};
    struct output_query q = {.follow = how.form != CAY_API_TEXT};
    CAY_AUTO_FD int fd = -1;
    struct cay_execution ex;

    int r = cay_req_decode_query(req, output_fields, &q, err);
    if (r == 0)
        r = cay_core_execution(req->core, req->owner, id, eid, req->arena, &ex, &fd, err);
    if (r < 0)
        return r;
    const char *from = last && last[0] ? last : q.offset;
    if (from && !cay_api_place_parse(from, &how.from))
        return cay_fail_field(err, "offset", "offset must be one that an event carried");
    r = cay_api_check_place(fd, &how.from, err);
    if (r < 0)
        return r;
    how.follow = q.follow;
    if (q.stream)
        how.only = strcmp(q.stream, "stdout") == 0 ? CAY_RECORD_STDOUT : CAY_RECORD_STDERR;
    if (ex.truncated)
        cay_resp_header(resp, "X-Output-Truncated", "true");
    return cay_api_answer_stream(resp, &ex, how.form,
                                 cay_api_follow(req->core, &ex, cay_take_fd(&fd), &how));
}

const struct cay_route cay_v1_output_routes[] = {
    {"GET", "/api/v1/sandbox/{id}/exec/{eid}/output", CAY_SCOPE_READ, get_output, CAY_BODY_AUTO,
     CAY_DOC("What it wrote, from any place, and as it comes",
             "text/plain, text/event-stream, application/x-ndjson", .topic = "Executions",
             .query = output_fields, .headers = "Last-Event-ID", .ask = "stream=stdout")},
    {0},
};
