/* SPDX-License-Identifier: Apache-2.0 */
/* The gateway: the form of its answers, and of its errors. */
#include "api/gateway/gateway.h"
#include <string.h>

/* No such sandbox: of files it is a field that is told, and what else is unknown has a name. */
static bool is_unknown(const struct cay_error *err)
{
    return strcmp(cay_error_name(err), "NOT_FOUND") == 0 && !err->field[0];
}

static int status_of(const struct cay_error *err)
{
    static const struct {
        const char *name;
        int status;
    } named[] = {{"COMMAND_TIMEOUT", 408}, {"SANDBOX_GONE", 409}};
    for (size_t i = 0; i < CAY_COUNT(named); i++)
        if (strcmp(cay_error_name(err), named[i].name) == 0)
            return named[i].status;
    return cay_api_status(err);
}

static void tell(const struct cay_req *req, const struct cay_error *err, struct cay_resp *resp)
{
    if (!is_unknown(err)) {
        cay_api_error_as(req, err, status_of(err), resp);
        return;
    }
    struct cay_json_writer *w = cay_resp_json(resp, 502);
    cay_jw_object(w, NULL);
    cay_jw_str(w, "error", "sandbox_not_found");
    cay_jw_str(w, "detail", err->msg);
    cay_jw_object_end(w);
}

static const struct cay_schema schemas[] = {
    {"GatewayError", "error ErrorBody|string, detail string"},
    {"CommandOutput", "stdout string, stderr string, exit_code integer"},
    {"Uploaded", "success boolean, path string, size integer, timestamp time"},
    {"FileText", "size integer, total_size integer, offset integer, truncated boolean, "
                 "content string"},
    {0},
};

const struct cay_dialect cay_gateway_dialect = {
    .prefix = CAY_GATEWAY_PATH, .schemas = schemas, .error = "GatewayError", .tell = tell};
