/* SPDX-License-Identifier: Apache-2.0 */
/* /api/v1: in which state sandboxes are and why, without the rest. */
#include "api/v1/v1.h"
#include <string.h>

/* Words that clients know failures by; what was asked for is none. */
static const char *failure_of(const struct cay_sandbox *sb)
{
    static const struct {
        const char *reason, *type;
    } known[] = {{"oom", "OOM_KILLED"},    {"timeout", "TIMEOUT"},
                 {"idle", "IDLE_TIMEOUT"}, {"lease", "LEASE_EXPIRED"},
                 {"disk", "DISK_FULL"},    {"signal", "KILLED"},
                 {"error", "ERROR"},       {"host_restart", "HOST_RESTART"}};
    bool ended = sb->state == CAY_ERROR || sb->state == CAY_TERMINATED || sb->state == CAY_STOPPED;
    for (size_t i = 0; ended && sb->has_death && i < CAY_COUNT(known); i++)
        if (sb->death.reason && strcmp(sb->death.reason, known[i].reason) == 0)
            return known[i].type;
    return sb->state == CAY_ERROR ? "ERROR" : NULL;
}

void cay_v1_shape_failure(struct cay_json_writer *w, const char *type, const char *message,
                          const struct cay_sandbox *sb)
{
    const char *failure = failure_of(sb);
    const char *why = sb->status_reason ? sb->status_reason : sb->death.message;
    cay_jw_str(w, type, failure);
    cay_jw_str(w, message, failure ? why : NULL);
}

static int error_context(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct cay_sandbox sb;
    int r = cay_core_get(req->core, req->owner, cay_req_param(req, "id"), req->arena, &sb, err);
    if (r < 0)
        return r;
    struct cay_json_writer *w = cay_resp_json(resp, 200);
    cay_jw_object(w, NULL);
    cay_jw_str(w, "status", cay_state_name(sb.state));
    cay_v1_shape_failure(w, "errorType", "errorMessage", &sb);
    cay_jw_object_end(w);
    return 0;
}

struct batch_body {
    struct cay_strs ids;
};

static const struct cay_field batch_fields[] = {
    CAY_FIELD_STRS(struct batch_body, ids, "sandboxIds", .required = true,
                   .max_count = CAY_MAX_STATUSES),
    CAY_FIELD_END,
};

/* Whoever reads this form knows no STOPPED. */
static void shape_status(struct cay_json_writer *w, const char *asked, const struct cay_sandbox *sb)
{
    cay_jw_object(w, NULL);
    cay_jw_str(w, "sandbox_id", asked);
    cay_jw_str(w, "status", cay_state_name(sb->state == CAY_STOPPED ? CAY_PAUSED : sb->state));
    cay_v1_shape_failure(w, "error_type", "error_message", sb);
    cay_jw_object_end(w);
}

static int batch_get(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct batch_body body = {0};
    int r = cay_req_decode(req, batch_fields, &body, err);
    if (r == 0 && body.ids.count == 0)
        r = cay_fail_field(err, "sandboxIds", "name 1 to %d sandboxes", CAY_MAX_STATUSES);
    if (r < 0)
        return r;
    struct cay_error *errors = cay_arena_alloc(req->arena, body.ids.count * sizeof *errors);
    struct cay_sandbox *found = cay_arena_alloc(req->arena, body.ids.count * sizeof *found);
    for (size_t i = 0; i < body.ids.count; i++) {
        r = cay_core_get(req->core, req->owner, body.ids.at[i], req->arena, &found[i], &errors[i]);
        if (r < 0 && r != CAY_ERR_NOT_FOUND && r != CAY_ERR_FORBIDDEN) {
            *err = errors[i];
            return r;
        }
        if (r == 0)
            errors[i].code = CAY_OK; /* whatever was tried first */
    }
    struct cay_json_writer *w = cay_resp_json(resp, 200);
    cay_jw_object(w, NULL);
    cay_jw_array(w, "statuses");
    for (size_t i = 0; i < body.ids.count; i++)
        if (errors[i].code == CAY_OK)
            shape_status(w, body.ids.at[i], &found[i]);
    cay_jw_array_end(w);
    cay_jw_array(w, "errors");
    for (size_t i = 0; i < body.ids.count; i++) {
        if (errors[i].code == CAY_OK)
            continue;
        cay_jw_object(w, NULL);
        cay_jw_str(w, "sandbox_id", body.ids.at[i]);
        cay_jw_str(w, "code", cay_error_name(&errors[i]));
        cay_jw_str(w, "message", errors[i].msg);
        cay_jw_object_end(w);
    }
    cay_jw_array_end(w);
    cay_jw_object_end(w);
    return 0;
}

const struct cay_route cay_v1_status_routes[] = {
    {"POST", "/api/v1/sandbox/status:batchGet", CAY_SCOPE_READ, batch_get, CAY_BODY_AUTO,
     CAY_DOC("The states of up to 100 sandboxes; STOPPED is told as PAUSED", "Statuses",
             .topic = "Sandboxes", .body = batch_fields, .send = "{'sandbox_ids': ['demo']}")},
    {"GET", "/api/v1/sandbox/{id}/error-context", CAY_SCOPE_READ, error_context, CAY_BODY_AUTO,
     CAY_DOC("In which state a sandbox is, and why it failed", "ErrorContext")},
    {0},
};
