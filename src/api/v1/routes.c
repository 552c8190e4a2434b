/* SPDX-License-Identifier: Apache-2.0 */
/* /api/v1: rows whose handlers lie in src/api, because other dialects have them as well. */
#include "api/attach.h"
#include "api/health.h"
#include "api/history.h"
#include "api/logs.h"
#include "api/v1/v1.h"

static int logs(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    return cay_api_logs_as(req, resp, cay_api_form_of(req), err);
}

const struct cay_route cay_v1_log_routes[] = {
    {"GET", "/api/v1/sandbox/{id}/logs", CAY_SCOPE_READ, logs, CAY_BODY_AUTO,
     CAY_DOC("What the start command wrote", "Logs, text/event-stream, application/x-ndjson",
             .topic = "Sandboxes", .query = cay_api_logs_fields, .headers = "Last-Event-ID",
             .ask = "tail=10")},
    {0},
};

const struct cay_route cay_v1_attach_routes[] = {
    {"GET", "/api/v1/sandbox/{id}/exec/{eid}/attach", CAY_SCOPE_EXEC, cay_api_attach, CAY_BODY_AUTO,
     CAY_DOC("Its output and input, over a WebSocket", "101", .topic = "Executions",
             .query = cay_api_attach_fields, .ask = "readOnly=true")},
    {"GET", "/api/v1/sandbox/{id}/terminal", CAY_SCOPE_EXEC, cay_api_terminal, CAY_BODY_AUTO,
     CAY_DOC("A login shell, over a WebSocket", "101", .query = cay_api_terminal_fields,
             .ask = "cols=120&rows=40")},
    {0},
};

const struct cay_route cay_v1_health_routes[] = {
    {"GET", "/api/v1/health", CAY_SCOPE_NONE, cay_api_health, CAY_BODY_AUTO,
     CAY_DOC("Is all well? Details only with a token", "Health; 503 Health",
             .topic = "About this server"),
     .unlimited = true},
    {0},
};

#define AT "/api/v1/sandbox/{id}"

const struct cay_route cay_v1_history_routes[] = {
    {"GET", AT "/history", CAY_SCOPE_READ, cay_history_get, CAY_BODY_AUTO,
     CAY_DOC("Versions of the workspace, newest first", "History", .topic = "Code history")},
    {"GET", AT "/history/bundle", CAY_SCOPE_READ, cay_history_get_bundle, CAY_BODY_AUTO,
     CAY_DOC("All of it, for git clone", "application/x-git-bundle")},
    {"POST", AT "/diff", CAY_SCOPE_READ, cay_history_post_diff, CAY_BODY_AUTO,
     CAY_DOC("What differs between two versions; from the first to the last unless named", "Diff",
             .body = cay_history_diff_fields, .send = "{}")},
    {"POST", AT "/rollback", CAY_SCOPE_EXEC, cay_history_post_back, CAY_BODY_AUTO,
     CAY_DOC("Files as they were, as a version of its own; or one of them", "RolledBack",
             .body = cay_history_back_fields, .send = "{'executionId': 'COMMIT'}")},
    {0},
};
