/* SPDX-License-Identifier: Apache-2.0 */
/* The gateway: a command, waited for; and the routes. */
#include "api/gateway/gateway.h"
#include "api/run.h"
#include "api/wait.h"
#include <string.h>

#define DEFAULT_TIMEOUT_S 300
#define OUTPUT_LIMIT (CAY_LOG_HEAD_BYTES + CAY_LOG_TAIL_BYTES)

struct body {
    const char *command, *cwd, *user;
    struct cay_pairs env;
    double timeout_s;
};

static const struct cay_field fields[] = {
    CAY_FIELD_STR(struct body, command, "command", .required = true, .max_len = CAY_MAX_ARG_BYTES),
    CAY_FIELD_STR(struct body, cwd, "workingDir", .max_len = CAY_MAX_PATH),
    CAY_FIELD_PAIRS(struct body, env, "env", .max_len = CAY_MAX_ENV_BYTES),
    CAY_FIELD_NUM(struct body, timeout_s, "timeout", .min = 0.001,
                  .max = (double)(CAY_MAX_EXEC_TIMEOUT_MS / 1000)),
    CAY_FIELD_STR(struct body, user, "user", .max_len = 1024),
    CAY_FIELD_END_OPEN,
};

static int answer(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    const struct cay_execution *begun = req->data;
    CAY_AUTO_FD int fd = -1;
    struct cay_execution ex;
    int r = cay_core_outcome(req->core, req->owner, begun, req->arena, &ex, &fd, err);
    if (r < 0)
        return r;
    if (ex.status == CAY_EXEC_RUNNING)
        return cay_fail(err, CAY_ERR_UNAVAILABLE, "the server is going down; the command goes on");
    if (ex.status == CAY_EXEC_LOST)
        return cay_fail_as(err, CAY_ERR_CONFLICT, "EXEC_LOST",
                           "the sandbox ended before the command did");
    if (ex.reason && strcmp(ex.reason, "timeout") == 0)
        return cay_fail_as(err, CAY_ERR_CONFLICT, "COMMAND_TIMEOUT", "the command's time was over");
    r = cay_api_claim_output(resp, &ex, OUTPUT_LIMIT, err);
    if (r < 0)
        return r;
    struct cay_json_writer *w = cay_resp_json(resp, 200);
    cay_jw_object(w, NULL);
    (void)cay_api_shape_output(w, &ex, fd, OUTPUT_LIMIT);
    cay_jw_int(w, "exit_code", ex.exit_code);
    cay_jw_object_end(w);
    return 0;
}

static int exec(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct body body = {.timeout_s = DEFAULT_TIMEOUT_S};
    struct cay_execution *ex = cay_arena_alloc(req->arena, sizeof *ex);
    CAY_AUTO_FD int fd = -1;
    int r = cay_req_decode(req, fields, &body, err);
    if (r < 0)
        return r;
    struct cay_exec_spec spec = {.text = body.command,
                                 .cwd = body.cwd,
                                 .user = body.user,
                                 .env = body.env,
                                 .timeout_ms = (int64_t)(body.timeout_s * 1000 + 0.5),
                                 .awaited = true};
    cay_strs_push(req->arena, &spec.argv, "/bin/sh");
    cay_strs_push(req->arena, &spec.argv, "-c");
    cay_strs_push(req->arena, &spec.argv, body.command);
    r = cay_core_exec(req->core, req->owner, cay_req_param(req, "id"), &spec, req->arena, ex, &fd,
                      err);
    if (r < 0 && strcmp(err->field, "cwd") == 0)
        cay_str_copy(err->field, sizeof err->field, "working_dir"); /* as this body has it */
    if (r < 0)
        return r;
    req->object = ex->id;
    req->data = ex;
    if (cay_api_is_over(req->core, ex))
        return answer(req, resp, err);
    return cay_resp_defer(resp, cay_api_wait(req->core, ex, cay_take_fd(&fd)), answer);
}

const struct cay_route cay_gateway_routes[] = {
    {"POST", GATEWAY "/exec", CAY_SCOPE_EXEC, exec, CAY_BODY_AUTO,
     CAY_DOC("Run a command and wait for it", "CommandOutput; 502",
             .topic = "Gateway of prime-sandboxes", .body = fields,
             .send = "{'command': 'echo hello', 'timeout': 10}")},
    {"POST", GATEWAY "/upload", CAY_SCOPE_EXEC, cay_gateway_upload, CAY_BODY_STREAM,
     CAY_DOC("Write a file; directories are made", "Uploaded; 502; 507",
             .query = cay_gateway_path_fields, .media = "multipart/form-data",
             .ask = "path=/workspace/new.txt")},
    {"GET", GATEWAY "/download", CAY_SCOPE_READ, cay_gateway_download, CAY_BODY_AUTO,
     CAY_DOC("Read a file", "application/octet-stream; 502", .query = cay_gateway_path_fields,
             .ask = "path=hello.txt")},
    {"GET", GATEWAY "/read-file", CAY_SCOPE_READ, cay_gateway_read, CAY_BODY_AUTO,
     CAY_DOC("A text, or a part of it; a negative offset counts from the end", "FileText; 502",
             .query = cay_gateway_window_fields, .ask = "path=hello.txt&offset=-2")},
    {0},
};
