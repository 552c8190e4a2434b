/* SPDX-License-Identifier: Apache-2.0 */
/* /api/sandbox: files brought, a command run, its result; or all of it live. */
#include "api/attach.h"
#include "api/run.h"
#include "api/sandbox/sandbox.h"
#include <string.h>

struct body {
    const char *container_id, *cwd, *input;
    const struct cay_json *files, *command;
    struct cay_pairs env;
    int64_t timeout_ms; /* 0: the sandbox's */
};

#define BODY struct body

static const struct cay_field fields[] = {
    CAY_FIELD_STR(BODY, container_id, "containerId", .required = true, .max_len = 1024),
    CAY_FIELD_ANY(BODY, files, "files", .type = "{string|Base64}"),
    CAY_FIELD_ANY(BODY, command, "command", .required = true, .type = "string|[string]"),
    CAY_FIELD_PAIRS(BODY, env, "env", .max_len = CAY_MAX_ENV_BYTES),
    CAY_FIELD_STR(BODY, cwd, "cwd", .max_len = CAY_MAX_PATH),
    CAY_FIELD_STR(BODY, input, "stdin", .max_len = CAY_MAX_STDIN_BYTES),
    CAY_FIELD_INT(BODY, timeout_ms, "timeout", .min = 1, .max = (double)CAY_MAX_EXEC_TIMEOUT_MS),
    CAY_FIELD_END,
};

/* What ended it other than its own exit has a word; a command that says no is an error, too. */
static const char *status_of(const struct cay_execution *ex)
{
    if (ex->reason && strcmp(ex->reason, "timeout") == 0)
        return "timeout";
    if (ex->reason && strcmp(ex->reason, "oom") == 0)
        return "oom";
    return ex->exit_code == 0 && !ex->signal ? "success" : "error";
}

static void shape_running(struct cay_json_writer *w, const struct cay_execution *ex)
{
    cay_jw_object(w, NULL);
    cay_jw_str(w, "id", ex->id);
    cay_jw_str(w, "status", "running");
    cay_jw_str(w, "containerId", ex->sandbox_id);
    cay_jw_object_end(w);
}

static void shape_ended(struct cay_json_writer *w, const struct cay_execution *ex, int log_fd,
                        size_t limit)
{
    cay_jw_str(w, "id", ex->id);
    cay_jw_str(w, "status", status_of(ex));
    cay_jw_int(w, "duration", ex->duration_ms);
    bool truncated = cay_api_shape_output(w, ex, log_fd, limit);
    cay_jw_int(w, "exitCode", ex->exit_code);
    cay_jw_str(w, "reason", ex->reason ? ex->reason : "exited");
    if (truncated)
        cay_jw_bool(w, "truncated", true);
}

/* Files are relative to the working directory, which is /workspace unless said. */
static int decode(struct cay_req *req, struct cay_sandbox *sb, struct cay_exec_spec *spec,
                  struct cay_error *err)
{
    struct body body = {0};
    int r = cay_req_decode(req, fields, &body, err);
    if (r == 0)
        r = cay_api_decode_files(req->arena, body.files, spec, err);
    if (r == 0)
        r = cay_api_decode_command(req->arena, body.command, "command", &spec->argv, &spec->text,
                                   err);
    if (r == 0)
        r = cay_core_get(req->core, req->owner, body.container_id, req->arena, sb, err);
    if (r < 0)
        return r;
    spec->cwd = body.cwd;
    spec->env = body.env;
    spec->stdin_text = body.input;
    spec->stdin_len = body.input ? strlen(body.input) : 0;
    spec->timeout_ms = sb->spec.exec_ms ? sb->spec.exec_ms : CAY_SANDBOX_EXEC_MS;
    if (body.timeout_ms)
        spec->timeout_ms = body.timeout_ms;
    return cay_api_once(req, NULL, &spec->once, err);
}

static int exec(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    static const struct cay_api_run how = {shape_running, shape_ended,
                                           CAY_LOG_HEAD_BYTES + CAY_LOG_TAIL_BYTES, false};
    struct cay_exec_spec spec = {0};
    struct cay_sandbox sb;
    int r = decode(req, &sb, &spec, err);
    if (r < 0)
        return r;
    cay_str_copy(req->subject, sizeof req->subject, sb.id);
    return cay_api_run(req, resp, sb.id, &spec, &how, err);
}

const struct cay_route cay_sandbox_exec_routes[] = {
    {"POST", CAY_SANDBOX_PATH "/exec", CAY_SCOPE_EXEC, exec, CAY_BODY_AUTO,
     CAY_DOC("Write files and run a command; live with Accept: text/event-stream",
             "ContainerRun, text/event-stream, application/x-ndjson; 202 ContainerRunning",
             .topic = "Containers", .body = fields, .headers = "Idempotency-Key",
             .send = "{'containerId': 'demo', 'files': {'main.sh': 'echo hello'}, "
                     "'command': ['sh', 'main.sh']}")},
    {"GET", CAY_SANDBOX_PATH "/{id}/exec/{eid}/attach", CAY_SCOPE_EXEC, cay_api_attach,
     CAY_BODY_AUTO,
     CAY_DOC("Its output and input, over a WebSocket", "101", .query = cay_api_attach_fields,
             .ask = "readOnly=true")},
    {"GET", CAY_SANDBOX_PATH "/{id}/terminal", CAY_SCOPE_EXEC, cay_api_terminal, CAY_BODY_AUTO,
     CAY_DOC("A login shell, over a WebSocket", "101", .query = cay_api_terminal_fields,
             .ask = "cols=120&rows=40")},
    {0},
};
