/* SPDX-License-Identifier: Apache-2.0 */
/* /api/v1: commands, begun, shown and killed. Who waits for one holds no thread: the answer is
 * deferred until its log ends. */
#include "api/v1/v1.h"
#include "api/wait.h"
#include "model/limits.h"
#include <ctype.h>
#include <signal.h>
#include <string.h>

struct call { /* what the second half must know */
    struct cay_execution ex;
    size_t limit;
};

static int answer_running(struct cay_resp *resp, const struct cay_execution *ex)
{
    cay_v1_shape_execution(cay_resp_json(resp, 202), NULL, ex);
    return 0;
}

static void shape_output(struct cay_json_writer *w, const char *key, int log_fd,
                         enum cay_record_kind only, size_t limit, bool *truncated)
{
    CAY_AUTO_BUF struct cay_buf text = {0};
    *truncated |= cay_api_collect(log_fd, 0, 0, only, limit, &text);
    cay_jw_strn(w, key, text.data ? text.data : "", text.len);
}

void cay_v1_shape_result(struct cay_json_writer *w, const struct cay_execution *ex, int log_fd,
                         size_t limit)
{
    bool truncated = ex->truncated;
    cay_jw_str(w, "id", ex->id);
    cay_jw_str(w, "sandboxId", ex->sandbox_id);
    cay_jw_str(w, "status", "exited");
    cay_v1_shape_exit(w, ex);
    shape_output(w, "stdout", log_fd, CAY_RECORD_STDOUT, limit, &truncated);
    shape_output(w, "stderr", log_fd, CAY_RECORD_STDERR, limit, &truncated);
    cay_jw_bool(w, "truncated", truncated);
    cay_jw_int(w, "durationMs", ex->duration_ms);
}

static int answer_result(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    const struct call *call = req->data;
    CAY_AUTO_FD int fd = -1;
    struct cay_execution ex;
    int r = cay_core_execution(req->core, req->owner, call->ex.sandbox_id, call->ex.id, req->arena,
                               &ex, &fd, err);
    if (r < 0)
        return r;
    if (ex.status == CAY_EXEC_RUNNING) /* we are going, it is not */
        return answer_running(resp, &ex);
    if (ex.status == CAY_EXEC_LOST)
        return cay_fail_as(err, CAY_ERR_CONFLICT, "EXEC_LOST",
                           "the sandbox ended before %s did; what it wrote is kept", ex.id);
    struct cay_json_writer *w = cay_resp_json(resp, 200);
    cay_jw_object(w, NULL);
    cay_v1_shape_result(w, &ex, fd, call->limit);
    cay_jw_object_end(w);
    return 0;
}

static int decode(struct cay_req *req, struct cay_v1_exec *out, struct cay_error *err)
{
    const struct cay_json *body;
    int r = cay_req_json(req, req->arena, &body, err);
    if (r == 0)
        r = cay_v1_decode_exec(req->arena, body, out, err);
    return r < 0 ? r : cay_v1_once(req, NULL, &out->spec.once, err);
}

static int exec(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct cay_v1_exec asked = {.output_limit = CAY_LOG_HEAD_BYTES + CAY_LOG_TAIL_BYTES};
    struct call *call = cay_arena_alloc(req->arena, sizeof *call);
    CAY_AUTO_FD int fd = -1;

    int r = decode(req, &asked, err);
    if (r == 0)
        r = cay_core_exec(req->core, req->owner, cay_req_param(req, "id"), &asked.spec, req->arena,
                          &call->ex, &fd, err);
    if (r < 0)
        return r;
    req->object = call->ex.id;
    if (asked.detach)
        return answer_running(resp, &call->ex);

    enum cay_v1_form form = cay_v1_form_of(req);
    if (form != CAY_V1_TEXT) {
        struct cay_v1_follow how = {.form = form, .follow = true};
        return cay_v1_answer_stream(resp, &call->ex, form,
                                    cay_v1_follow(req->core, &call->ex, cay_take_fd(&fd), &how));
    }
    call->limit = asked.output_limit;
    req->data = call;
    return cay_resp_defer(resp, cay_api_wait(req->core, &call->ex, cay_take_fd(&fd)),
                          answer_result);
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

int cay_v1_decode_signal(const struct cay_json *v, int *out, struct cay_error *err)
{
    int64_t number = SIGTERM;
    bool known = true;
    if (v && v->kind == CAY_JSON_NUMBER) {
        known = cay_json_int(v, &number) && number >= 1 && number <= 64;
    } else if (v && v->kind == CAY_JSON_STRING) {
        const char *name = strncmp(v->text, "SIG", 3) == 0 ? v->text + 3 : v->text;
        known = false;
        for (int i = 1; i < NSIG && !known; i++) {
            const char *abbrev = sigabbrev_np(i);
            known = abbrev && strcmp(abbrev, name) == 0;
            number = i;
        }
    } else if (v && v->kind != CAY_JSON_NULL) {
        known = false;
    }
    if (!known)
        return cay_fail_field(err, "signal", "signal must be a name like SIGTERM or from 1 to 64");
    *out = (int)number;
    return 0;
}

static int kill_one(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct kill_body body = {0};
    struct cay_execution ex;
    int sig = SIGTERM;
    int r = cay_req_decode(req, kill_fields, &body, err);
    if (r == 0)
        r = cay_v1_decode_signal(body.signal, &sig, err);
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
