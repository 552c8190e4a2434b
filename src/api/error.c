/* SPDX-License-Identifier: Apache-2.0 */
/* From error codes to HTTP, in one table. */
#include "api/dialect.h"
#include "base/log.h"
#include <string.h>

static const struct {
    enum cay_err code;
    int status;
    bool is_ours; /* the cause is for the operator: it may hold a path or a statement */
} statuses[] = {
    {CAY_ERR_INVALID, 400, false},       {CAY_ERR_NOT_FOUND, 404, false},
    {CAY_ERR_FORBIDDEN, 403, false},     {CAY_ERR_CONFLICT, 409, false},
    {CAY_ERR_LIMIT, 429, false},         {CAY_ERR_TIMEOUT, 504, false},
    {CAY_ERR_UNSUPPORTED, 501, false},   {CAY_ERR_PROVIDER, 502, false},
    {CAY_ERR_STORE, 500, true},          {CAY_ERR_INTERNAL, 500, true},
    {CAY_ERR_UNAUTHORIZED, 401, false},  {CAY_ERR_TOO_LARGE, 413, false},
    {CAY_ERR_MEDIA_TYPE, 415, false},    {CAY_ERR_UNAVAILABLE, 503, false},
    {CAY_ERR_METHOD, 405, false},        {CAY_ERR_MISDIRECTED, 421, false},
    {CAY_ERR_UNPROCESSABLE, 422, false}, {CAY_ERR_HOST_BUSY, 503, false},
    {CAY_ERR_HOST_FULL, 507, false},
};

/* Those for which HTTP has a status of its own. */
static const struct {
    const char *name;
    int status;
} named[] = {
    {"HEADERS_TOO_LARGE", 431}, {"UPGRADE_REQUIRED", 426}, {"HTTP_VERSION_NOT_SUPPORTED", 505},
    {"NO_SPACE", 507},          {"CHANGED", 412},          {"RANGE_NOT_SATISFIABLE", 416}};

int cay_api_status(const struct cay_error *err)
{
    for (size_t i = 0; i < CAY_COUNT(named); i++)
        if (strcmp(cay_error_name(err), named[i].name) == 0)
            return named[i].status;
    for (size_t i = 0; i < CAY_COUNT(statuses); i++)
        if (statuses[i].code == err->code)
            return statuses[i].status;
    return 500;
}

static bool is_ours(enum cay_err code)
{
    for (size_t i = 0; i < CAY_COUNT(statuses); i++)
        if (statuses[i].code == code)
            return statuses[i].is_ours;
    return true;
}

static bool has_header(const struct cay_resp *resp, const char *name)
{
    return resp->headers.len > 0 &&
           memmem(resp->headers.data, resp->headers.len, name, strlen(name)) != NULL;
}

static void add_headers(const struct cay_req *req, const struct cay_error *err,
                        struct cay_resp *resp)
{
    bool later = err->code == CAY_ERR_LIMIT || err->code == CAY_ERR_UNAVAILABLE ||
                 err->code == CAY_ERR_HOST_BUSY;
    if (later && !has_header(resp, "Retry-After:"))
        cay_resp_header(resp, "Retry-After", "1");
    if (err->code == CAY_ERR_UNAUTHORIZED)
        cay_resp_header(resp, "WWW-Authenticate", "Bearer");
    if (err->code == CAY_ERR_METHOD && req->allow && !has_header(resp, "Allow:"))
        cay_resp_header(resp, "Allow", req->allow);
}

/* "WHAT\tWHY\n"… */
static void shape_tried(struct cay_json_writer *w, const char *at)
{
    cay_jw_array(w, "tried");
    while (*at) {
        size_t what = strcspn(at, "\t"), why = strcspn(at + what, "\n");
        cay_jw_object(w, NULL);
        cay_jw_strn(w, "what", at, what);
        cay_jw_strn(w, "why", at + what + 1, why - 1);
        cay_jw_object_end(w);
        at += what + why + 1;
    }
    cay_jw_array_end(w);
}

void cay_api_shape_error(struct cay_json_writer *w, const struct cay_error *err)
{
    cay_jw_object(w, "error");
    cay_jw_str(w, "code", cay_error_name(err));
    cay_jw_str(w, "message", err->msg);
    cay_jw_object(w, "details");
    if (err->field[0])
        cay_jw_str(w, "field", err->field);
    if (err->cause[0] && !is_ours(err->code))
        cay_jw_str(w, "cause", err->cause);
    if (err->quota) {
        cay_jw_str(w, "quota", err->quota);
        cay_jw_real(w, "limit", err->limit);
        cay_jw_real(w, "used", err->used);
    }
    if (err->tried[0])
        shape_tried(w, err->tried);
    cay_jw_object_end(w);
    cay_jw_object_end(w);
}

void cay_api_error(const struct cay_req *req, const struct cay_error *err, struct cay_resp *resp)
{
    cay_api_error_as(req, err, cay_api_status(err), resp);
}

static void tell(const struct cay_req *req, const struct cay_error *err, int status, bool detail,
                 struct cay_resp *resp)
{
    bool callers = err->code == CAY_ERR_UNSUPPORTED || err->code == CAY_ERR_CONFLICT;
    if (status >= 500 && !callers)
        cay_log_error(err, "%s %s failed, request %s", req->method, req->path, req->request_id);
    struct cay_json_writer *w = cay_resp_json(resp, status);
    cay_jw_object(w, NULL);
    cay_api_shape_error(w, err);
    if (detail)
        cay_jw_str(w, "detail", err->msg);
    cay_jw_object_end(w);
    add_headers(req, err, resp);
}

void cay_api_error_as(const struct cay_req *req, const struct cay_error *err, int status,
                      struct cay_resp *resp)
{
    tell(req, err, status, true, resp);
}

void cay_api_error_bare(const struct cay_req *req, const struct cay_error *err,
                        struct cay_resp *resp)
{
    tell(req, err, cay_api_status(err), false, resp);
}
