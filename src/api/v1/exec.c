/* SPDX-License-Identifier: Apache-2.0 */
/* /api/v1: commands, begun, shown and killed. */
#include "api/run.h"
#include "api/v1/v1.h"
#include "model/limits.h"
#include <signal.h>

void cay_v1_shape_result(struct cay_json_writer *w, const struct cay_execution *ex, int log_fd,
                         size_t limit)
{
    cay_jw_str(w, "id", ex->id);
    cay_jw_str(w, "sandboxId", ex->sandbox_id);
    cay_jw_str(w, "status", "exited");
    cay_api_shape_exit(w, ex);
    bool truncated = cay_api_shape_output(w, ex, log_fd, limit);
    cay_jw_bool(w, "truncated", truncated);
    cay_jw_int(w, "durationMs", ex->duration_ms);
}

static void shape_running(struct cay_json_writer *w, const struct cay_execution *ex)
{
    cay_v1_shape_execution(w, NULL, ex);
}

static int decode(struct cay_req *req, struct cay_v1_exec *out, struct cay_error *err)
{
    const struct cay_json *body;
    int r = cay_req_json(req, req->arena, &body, err);
    if (r == 0)
        r = cay_v1_decode_exec(req->arena, body, out, err);
    return r < 0 ? r : cay_api_once(req, NULL, &out->spec.once, err);
}

static int exec(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct cay_v1_exec asked = {.output_limit = CAY_LOG_HEAD_BYTES + CAY_LOG_TAIL_BYTES};
    int r = decode(req, &asked, err);
    if (r < 0)
        return r;
    struct cay_api_run how = {shape_running, cay_v1_shape_result, asked.output_limit, asked.detach};
    return cay_api_run(req, resp, cay_req_param(req, "id"), &asked.spec, &how, err);
}

struct list_query {
    int64_t page, per_page;
};

static const struct cay_field list_fields[] = {
    CAY_FIELD_INT(struct list_query, page, "page", .min = 1, .max = CAY_MAX_PAGE),
    CAY_FIELD_INT(struct list_query, per_page, "perPage", .min = 1, .max = CAY_MAX_PER_PAGE),
    CAY_FIELD_INT(struct list_query, per_page, "limit", .min = 1, .max = CAY_MAX_PER_PAGE),
    CAY_FIELD_END,
};

static int list(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct list_query q = {.page = 1, .per_page = CAY_DEFAULT_PER_PAGE};
    struct cay_execution_list found;
    int r = cay_req_decode_query(req, list_fields, &q, err);
    if (r == 0)
        r = cay_core_executions(req->core, req->owner, cay_req_param(req, "id"), q.page, q.per_page,
                                req->arena, &found, err);
    if (r < 0)
        return r;
    struct cay_json_writer *w = cay_resp_json(resp, 200);
    cay_jw_object(w, NULL);
    cay_jw_array(w, "executions");
    for (size_t i = 0; i < found.count; i++)
        cay_v1_shape_execution(w, NULL, &found.at[i]);
    cay_jw_array_end(w);
    cay_v1_shape_page(w, found.total, q.page, q.per_page);
    cay_jw_object_end(w);
    return 0;
}

static int get(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct cay_execution ex;
    int r = cay_core_execution(req->core, req->owner, cay_req_param(req, "id"),
                               cay_req_param(req, "eid"), req->arena, &ex, NULL, err);
    if (r < 0)
        return r;
    cay_v1_shape_execution(cay_resp_json(resp, 200), NULL, &ex);
    return 0;
}

static int forget(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    const char *eid = cay_req_param(req, "eid");
    int r = cay_core_forget(req->core, req->owner, cay_req_param(req, "id"), eid, err);
    if (r < 0)
        return r;
    struct cay_json_writer *w = cay_resp_json(resp, 200);
    cay_jw_object(w, NULL);
    cay_jw_str(w, "id", eid);
    cay_jw_bool(w, "deleted", true);
    cay_jw_object_end(w);
    return 0;
}

struct kill_body {
    const struct cay_json *signal;
};

static const struct cay_field kill_fields[] = {
    CAY_FIELD_ANY(struct kill_body, signal, "signal", .type = "string|integer"),
    CAY_FIELD_END,
};

static int kill_one(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct kill_body body = {0};
    struct cay_execution ex;
    int sig = SIGTERM;
    int r = cay_req_decode(req, kill_fields, &body, err);
    if (r == 0)
        r = cay_api_decode_signal(body.signal, &sig, err);
    if (r == 0)
        r = cay_core_kill(req->core, req->owner, cay_req_param(req, "id"),
                          cay_req_param(req, "eid"), sig, req->arena, &ex, err);
    if (r < 0)
        return r;
    cay_v1_shape_execution(cay_resp_json(resp, 200), NULL, &ex);
    return 0;
}

const struct cay_route cay_v1_exec_routes[] = {
    {"POST", "/api/v1/sandbox/{id}/exec", CAY_SCOPE_EXEC, exec, CAY_BODY_AUTO,
     CAY_DOC("Run a command, to its end or detached",
             "Result, text/event-stream, application/x-ndjson; 202 Execution",
             .topic = "Executions", .body = cay_v1_exec_fields, .headers = "Idempotency-Key",
             .send = "{'command': 'echo hello', 'timeoutMs': 10000}")},
    {"GET", "/api/v1/sandbox/{id}/exec", CAY_SCOPE_READ, list, CAY_BODY_AUTO,
     CAY_DOC("Its executions, newest first", "ExecutionPage", .query = list_fields,
             .ask = "page=1")},
    {"GET", "/api/v1/sandbox/{id}/exec/{eid}", CAY_SCOPE_READ, get, CAY_BODY_AUTO,
     CAY_DOC("One execution", "Execution")},
    {"DELETE", "/api/v1/sandbox/{id}/exec/{eid}", CAY_SCOPE_WRITE, forget, CAY_BODY_AUTO,
     CAY_DOC("Forget one that has ended, and what it wrote", "Forgotten")},
    {"POST", "/api/v1/sandbox/{id}/exec/{eid}/kill", CAY_SCOPE_EXEC, kill_one, CAY_BODY_AUTO,
     CAY_DOC("Send it a signal", "Execution", .body = kill_fields,
             .send = "{'signal': 'SIGTERM'}")},
    {0},
};
