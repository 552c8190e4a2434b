/* SPDX-License-Identifier: Apache-2.0 */
/* Fields, and only those that hold no secret: of the query, which may carry tokens, nothing is
 * written, nor of headers and bodies. */
#include "api/records.h"
#include "api/dialect.h"
#include "base/log.h"
#include "core/service.h"
#include <stdio.h>
#include <string.h>

#define ACTION_MAX 128

static bool is_gateway(const struct cay_route *route)
{
    return strncmp(route->pattern, CAY_GATEWAY_PATH, strlen(CAY_GATEWAY_PATH)) == 0;
}

/* Which parameter of the path is a sandbox, from 1 on; 0 none. */
static size_t place_of_sandbox(const struct cay_route *route)
{
    if (!route)
        return 0;
    return strstr(route->pattern, "/sandbox/{id}") ? 1 : is_gateway(route) ? 2 : 0;
}

static const char *subject_of(const struct cay_req *req)
{
    if (req->subject[0])
        return req->subject;
    return place_of_sandbox(req->route) ? cay_req_param(req, "id") : NULL;
}

/* Reads that went well are for those who look closely; at twenty thousand a second nobody does. */
static bool is_quiet(const struct cay_req *req, int status)
{
    return status < 400 && (strcmp(req->method, "GET") == 0 || !req->method[0]);
}

/* Changes, and what touches a sandbox's inside: its files, its terminals. */
static bool is_audited(const struct cay_req *req)
{
    if (!req->route || !req->owner)
        return false;
    const char *pattern = req->route->pattern;
    if (strcmp(req->route->method, "GET") != 0)
        return req->route->scope != CAY_SCOPE_READ; /* some questions are too long for a query */
    return strstr(pattern, "/files") || is_gateway(req->route) ||
           cay_str_ends(pattern, "/attach") || cay_str_ends(pattern, "/terminal");
}

void cay_records_begin(struct cay_req *req)
{
    struct cay_error ignored; /* the handler meets the same one, and tells it */
    struct cay_sandbox sb;
    if (!is_audited(req))
        return;
    const char *subject = subject_of(req);
    if (subject && !cay_id_is_sandbox(subject) &&
        cay_core_get(req->core, req->owner, subject, req->arena, &sb, &ignored) == 0)
        cay_str_copy(req->subject, sizeof req->subject, sb.id);
}

/* What is done through the gateway has the names that /api/v1 has for it. */
static bool name_gateway(const struct cay_route *route, char *out, size_t size)
{
    static const struct {
        const char *end, *action;
    } known[] = {{"/exec", "sandbox.exec"},
                 {"/upload", "sandbox.files.write"},
                 {"/download", "sandbox.files.read"},
                 {"/read-file", "sandbox.files.read"}};
    for (size_t i = 0; i < CAY_COUNT(known) && is_gateway(route); i++)
        if (cay_str_ends(route->pattern, known[i].end)) {
            cay_str_copy(out, size, known[i].action);
            return true;
        }
    return false;
}

/* "/api/v1/sandbox/{id}/files" and PUT: "sandbox.files.write". */
static void name_action(const struct cay_route *route, char *out, size_t size)
{
    static const char prefix[] = "/api/v1";
    static const struct {
        const char *method, *verb;
    } verbs[] = {{"GET", ".read"}, {"PUT", ".write"}, {"PATCH", ".update"}, {"DELETE", ".delete"}};
    const char *p = route->pattern, *verb = "";
    size_t len = 0, words = 0;
    if (strncmp(p, prefix, strlen(prefix)) == 0)
        p += strlen(prefix);
    for (size_t step; *p == '/'; p += step) {
        step = strcspn(++p, "/");
        if (*p == '{')
            continue;
        int n = snprintf(out + len, size - len, "%s%.*s", words++ ? "." : "", (int)step, p);
        len = n > 0 && (size_t)n < size - len ? len + (size_t)n : len;
    }
    bool opens =
        cay_str_ends(route->pattern, "/attach") || cay_str_ends(route->pattern, "/terminal");
    for (size_t i = 0; i < CAY_COUNT(verbs) && !opens; i++)
        if (strcmp(route->method, verbs[i].method) == 0)
            verb = verbs[i].verb;
    if (strcmp(route->method, "POST") == 0 && words == 1)
        verb = ".create";
    (void)snprintf(out + len, size - len, "%s", verb); /* patterns are short */
}

static void audit(const struct cay_req *req, int status)
{
    char action[ACTION_MAX] = "";
    const char *object = req->object, *subject = subject_of(req);
    size_t others = place_of_sandbox(req->route); /* it is the subject */
    if (!object && req->params.count > others)
        object = req->params.at[req->params.count - 1].value;
    if (!name_gateway(req->route, action, sizeof action))
        name_action(req->route, action, sizeof action);
    struct cay_audit_entry e = {.account_id = req->owner->id,
                                .key_id = req->owner->key_id,
                                .peer = req->peer,
                                .action = action,
                                .sandbox = subject,
                                .object = object,
                                .request = req->request_id,
                                .status = status};
    cay_core_record(req->core, &e);
}

void cay_records_request(const struct cay_req *req, int status, int64_t took_us)
{
    const char *subject = subject_of(req);
    if (is_audited(req))
        audit(req, status);
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
