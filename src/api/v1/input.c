/* SPDX-License-Identifier: Apache-2.0 */
/* /api/v1: what goes into an execution while it runs: bytes for its stdin, the size of its
 * terminal. A body is given on as it comes; a process that does not read holds up its writer and
 * nobody else. */
#include "api/v1/v1.h"
#include "model/limits.h"

struct stdin_query {
    bool close;
};

static const struct cay_field stdin_fields[] = {
    CAY_FIELD_BOOL(struct stdin_query, close, "close"),
    CAY_FIELD_END,
};

static int answer_stdin(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    const struct stdin_query *q = req->data;
    if (!req->received.whole)
        return cay_fail_as(err, CAY_ERR_CONFLICT, "STDIN_CLOSED",
                           "the execution ended or closed its stdin before it had read all");
    struct cay_json_writer *w = cay_resp_json(resp, 200);
    cay_jw_object(w, NULL);
    cay_jw_int(w, "bytes", (int64_t)req->received.bytes);
    cay_jw_bool(w, "closed", q->close);
    cay_jw_object_end(w);
    return 0;
}

static int post_stdin(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct stdin_query *q = cay_arena_alloc(req->arena, sizeof *q);
    struct cay_input_ends ends;
    int r = cay_req_decode_query(req, stdin_fields, q, err);
    if (r == 0)
        r = cay_core_input(req->core, req->owner, cay_req_param(req, "id"),
                           cay_req_param(req, "eid"), q->close, &ends, err);
    if (r < 0)
        return r;
    struct cay_receive to = {.sink_fd = ends.sink_fd, .end_fd = ends.end_fd, .verdict_fd = -1};
    req->data = q;
    return cay_resp_receive(resp, &to, answer_stdin);
}

struct resize_body {
    int64_t cols, rows;
};

static const struct cay_field resize_fields[] = {
    CAY_FIELD_INT(struct resize_body, cols, "cols", .required = true, .min = 1,
                  .max = CAY_MAX_WINDOW),
    CAY_FIELD_INT(struct resize_body, rows, "rows", .required = true, .min = 1,
                  .max = CAY_MAX_WINDOW),
    CAY_FIELD_END,
};

static int resize(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct resize_body body = {0};
    int r = cay_req_decode(req, resize_fields, &body, err);
    struct cay_window window = {(uint16_t)body.cols, (uint16_t)body.rows};
    if (r == 0)
        r = cay_core_resize(req->core, req->owner, cay_req_param(req, "id"),
                            cay_req_param(req, "eid"), window, err);
    if (r < 0)
        return r;
    struct cay_json_writer *w = cay_resp_json(resp, 200);
    cay_jw_object(w, NULL);
    cay_jw_int(w, "cols", body.cols);
    cay_jw_int(w, "rows", body.rows);
    cay_jw_object_end(w);
    return 0;
}

const struct cay_route cay_v1_input_routes[] = {
    {"POST", "/api/v1/sandbox/{id}/exec/{eid}/stdin", CAY_SCOPE_EXEC, post_stdin, CAY_BODY_STREAM,
     CAY_DOC("Write to its stdin; with close=true also end it", "Written", .topic = "Executions",
             .query = stdin_fields, .ask = "close=true", .send = "hello")},
    {"POST", "/api/v1/sandbox/{id}/exec/{eid}/resize", CAY_SCOPE_EXEC, resize, CAY_BODY_AUTO,
     CAY_DOC("Change the size of its terminal", "Window", .body = resize_fields,
             .send = "{'cols': 120, 'rows': 40}")},
    {0},
};
