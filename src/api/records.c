/* SPDX-License-Identifier: Apache-2.0 */
/* Fields, and only those that hold no secret: of the query, which may carry tokens, nothing is
 * written, nor of headers and bodies. */
#include "api/records.h"
#include "base/log.h"
#include <string.h>

static const char *subject_of(const struct cay_req *req)
{
    if (req->subject[0])
        return req->subject;
    bool about_one = req->route && strstr(req->route->pattern, "/sandbox/{id}");
    return about_one ? cay_req_param(req, "id") : NULL;
}

/* Reads that went well are for those who look closely; at twenty thousand a second nobody does. */
static bool is_quiet(const struct cay_req *req, int status)
{
    return status < 400 && (strcmp(req->method, "GET") == 0 || !req->method[0]);
}

void cay_records_request(const struct cay_req *req, int status, int64_t took_us)
{
    const char *subject = subject_of(req);
    struct cay_log_field fields[10] = {
        {.name = "request", .text = req->request_id},
        {.name = "method", .text = req->method},
        {.name = "status", .number = status},
        {.name = "ms", .number = (double)took_us / 1000},
        {.name = "peer", .text = req->peer ? req->peer : ""},
    };
    size_t count = 5;
    if (req->owner)
        fields[count++] = (struct cay_log_field){.name = "account", .text = req->owner->id};
    if (req->route)
        fields[count++] = (struct cay_log_field){.name = "route", .text = req->route->pattern};
    if (subject)
        fields[count++] = (struct cay_log_field){.name = "sandbox", .text = subject};
    fields[count++] = (struct cay_log_field){.name = "path", .text = req->path};
    cay_log_fields(is_quiet(req, status), "request", fields, count);
}
