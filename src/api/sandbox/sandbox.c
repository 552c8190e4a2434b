/* SPDX-License-Identifier: Apache-2.0 */
/* /api/sandbox: sandboxes, made, shown, moved and removed. */
#include "api/sandbox/sandbox.h"
#include "api/health.h"
#include "api/history.h"
#include "api/logs.h"
#include "api/ticket.h"
#include <ctype.h>
#include <string.h>

#define AT CAY_SANDBOX_PATH "/{id}"

static int answer_made(struct cay_req *req, struct cay_resp *resp, const struct cay_sandbox *sb)
{
    cay_resp_header(resp, "Location", cay_arena_printf(req->arena, CAY_SANDBOX_PATH "/%s", sb->id));
    cay_sandbox_shape_made(req, resp, sb);
    return 0;
}

static int answer_waited(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    const struct cay_api_waiting *w = req->data;
    struct cay_sandbox sb;
    int r = cay_api_waited(req, &sb, err);
    return r < 0 ? cay_sandbox_not_made(w->data, r, err) : answer_made(req, resp, &sb);
}

static int create(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct cay_spec spec;
    struct cay_sandbox sb;
    struct cay_ticket *ticket;
    int r = cay_sandbox_decode_spec(req, &spec, err);
    if (r < 0)
        return r;
    r = cay_core_make(req->core, req->owner, &spec, req->arena, &sb, &ticket, err);
    if (r < 0)
        return cay_sandbox_not_made(spec.image, r, err);
    cay_str_copy(req->subject, sizeof req->subject, sb.id);
    if (!ticket)
        return answer_made(req, resp, &sb);
    const struct cay_api_waiting how = {.data = spec.image};
    return cay_api_wait_ticket(req, resp, ticket, &sb, how, answer_waited);
}

struct list_query {
    const char *status, *name;
    struct cay_strs labels;
    int64_t page, limit;
};

static const char *const states[] = {"pending", "provisioning", "running",    "paused",
                                     "stopped", "error",        "terminated", NULL};

static const struct cay_field list_fields[] = {
    CAY_FIELD_STR(struct list_query, status, "status", .choices = states),
    CAY_FIELD_STR(struct list_query, name, "name"),
    CAY_FIELD_STRS(struct list_query, labels, "labels", .max_count = CAY_MAX_LABELS),
    CAY_FIELD_INT(struct list_query, page, "page", .min = 1, .max = CAY_MAX_PAGE),
    CAY_FIELD_INT(struct list_query, limit, "limit", .min = 1, .max = CAY_MAX_PER_PAGE),
    CAY_FIELD_END,
};

static bool parse_state(struct cay_arena *a, const char *word, enum cay_state *out)
{
    char *name = cay_arena_strdup(a, word);
    for (char *at = name; *at; at++)
        *at = (char)toupper((unsigned char)*at);
    return cay_state_parse(name, out);
}

static int list(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct list_query q = {.page = 1, .limit = CAY_DEFAULT_PER_PAGE};
    struct cay_sandbox_list found;
    int r = cay_req_decode_query(req, list_fields, &q, err);
    if (r < 0)
        return r;
    struct cay_core_filter filter = {
        .row = {.name = q.name, .labels = q.labels, .page = q.page, .per_page = q.limit}};
    filter.row.has_state = q.status && parse_state(req->arena, q.status, &filter.row.state);
    filter.row.include_terminated = filter.row.has_state && filter.row.state == CAY_TERMINATED;
    r = cay_core_list(req->core, req->owner, &filter, req->arena, &found, err);
    if (r == 0)
        cay_sandbox_shape_list(req, resp, &found);
    return r;
}

static int get(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct cay_sandbox sb;
    int r = cay_core_get(req->core, req->owner, cay_req_param(req, "id"), req->arena, &sb, err);
    if (r == 0)
        cay_sandbox_shape(req, resp, &sb);
    return r;
}

static int start(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct cay_sandbox sb;
    int r = cay_core_start(req->core, req->owner, cay_req_param(req, "id"), req->arena, &sb, err);
    if (r == 0)
        cay_sandbox_shape(req, resp, &sb);
    return r;
}

struct stop_body {
    int64_t timeout_ms;
};

static const struct cay_field stop_fields[] = {
    CAY_FIELD_INT(struct stop_body, timeout_ms, "timeout", .min = 0, .max = CAY_MAX_GRACE_MS),
    CAY_FIELD_END,
};

static int stop(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct stop_body body = {.timeout_ms = CAY_DEFAULT_GRACE_MS};
    struct cay_sandbox sb;
    int r = cay_req_decode(req, stop_fields, &body, err);
    if (r == 0)
        r = cay_core_stop(req->core, req->owner, cay_req_param(req, "id"), body.timeout_ms,
                          req->arena, &sb, err);
    if (r == 0)
        cay_sandbox_shape(req, resp, &sb);
    return r;
}

struct delete_query {
    const char *preserve_volume;
};

static const struct cay_field delete_fields[] = {
    CAY_API_KEEP_FIELD(struct delete_query, preserve_volume),
    CAY_FIELD_END,
};

static int delete (struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct delete_query q = {0};
    struct cay_sandbox sb;
    int r = cay_req_decode_query(req, delete_fields, &q, err);
    if (r == 0)
        r = cay_core_delete(req->core, req->owner, cay_req_param(req, "id"),
                            cay_api_workspace(q.preserve_volume), req->arena, &sb, err);
    if (r < 0)
        return r;
    struct cay_json_writer *w = cay_resp_json(resp, 200);
    cay_jw_object(w, NULL);
    cay_jw_str(w, "status", "deleted");
    cay_jw_str(w, "containerId", sb.id);
    if (sb.keeps[0])
        cay_jw_str(w, "volumeId", sb.keeps);
    cay_jw_object_end(w);
    return 0;
}

struct fork_body {
    const char *name, *execution_id;
};

static const struct cay_field fork_fields[] = {
    CAY_FIELD_STR(struct fork_body, name, "name", .max_len = 1024),
    CAY_FIELD_STR(struct fork_body, execution_id, "executionId", .max_len = 64),
    CAY_FIELD_END,
};

static int fork_it(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct fork_body body = {0};
    struct cay_sandbox source;
    struct cay_sandbox_list made;
    int r = cay_req_decode(req, fork_fields, &body, err);
    if (r == 0)
        r = cay_core_get(req->core, req->owner, cay_req_param(req, "id"), req->arena, &source, err);
    if (r < 0)
        return r;
    struct cay_spec spec = cay_spec_fork(&source.spec);
    spec.name = body.name;
    spec.at = body.execution_id;
    r = cay_core_fork(req->core, req->owner, source.id, &spec, 1, req->arena, &made, err);
    if (r == 0)
        cay_sandbox_shape_made(req, resp, &made.at[0]);
    return r;
}

/* Events, unless lines of JSON are asked for. */
static int logs(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    enum cay_api_form form = cay_api_form_of(req);
    return cay_api_logs_as(req, resp, form == CAY_API_TEXT ? CAY_API_SSE : form, err);
}

const struct cay_route cay_sandbox_routes[] = {
    {"POST", CAY_SANDBOX_PATH, CAY_SCOPE_WRITE, create, CAY_BODY_AUTO,
     CAY_DOC("Make a sandbox", "201 Container", .topic = "Containers",
             .body = cay_sandbox_spec_fields, .headers = "Idempotency-Key",
             .send = "{'image': 'busybox', 'options': {'timeout': 30000, 'memoryLimit': '128m', "
                     "'cpuLimit': '0.5'}}")},
    {"GET", CAY_SANDBOX_PATH, CAY_SCOPE_READ, list, CAY_BODY_AUTO,
     CAY_DOC("Sandboxes, newest first", "[ContainerListed]", .query = list_fields,
             .ask = "status=running&limit=10")},
    {"GET", AT, CAY_SCOPE_READ, get, CAY_BODY_AUTO,
     CAY_DOC("One sandbox, with what it uses", "ContainerStatus")},
    {"DELETE", AT, CAY_SCOPE_WRITE, delete, CAY_BODY_AUTO,
     CAY_DOC("Remove it; its workspace may stay as a volume", "ContainerDeleted",
             .query = delete_fields, .ask = "preserveVolume=false")},
    {"POST", AT "/start", CAY_SCOPE_WRITE, start, CAY_BODY_AUTO,
     CAY_DOC("Start one that is stopped", "ContainerStatus")},
    {"POST", AT "/stop", CAY_SCOPE_WRITE, stop, CAY_BODY_AUTO,
     CAY_DOC("Stop it, within so many milliseconds", "ContainerStatus", .body = stop_fields,
             .send = "{'timeout': 1000}")},
    {"POST", AT "/fork", CAY_SCOPE_WRITE, fork_it, CAY_BODY_AUTO,
     CAY_DOC("Copy it as it is, or as it was", "201 Container; 501", .body = fork_fields,
             .send = "{'name': 'copy'}")},
    {"GET", AT "/logs", CAY_SCOPE_READ, logs, CAY_BODY_AUTO,
     CAY_DOC("What the start command writes, as events", "text/event-stream, application/x-ndjson",
             .query = cay_api_logs_fields, .headers = "Last-Event-ID", .ask = "tail=100")},
    {"GET", "/api/health", CAY_SCOPE_NONE, cay_api_health, CAY_BODY_AUTO,
     CAY_DOC("Is all well? Details only with a token", "Health; 503 Health"), .unlimited = true},
    {0},
};

const struct cay_route cay_sandbox_history_routes[] = {
    {"GET", AT "/history", CAY_SCOPE_READ, cay_history_get, CAY_BODY_AUTO,
     CAY_DOC("Versions of its workspace, newest first", "History", .topic = "Containers")},
    {"GET", AT "/history/bundle", CAY_SCOPE_READ, cay_history_get_bundle, CAY_BODY_AUTO,
     CAY_DOC("All of it, for git clone", "application/x-git-bundle")},
    {"POST", AT "/diff", CAY_SCOPE_READ, cay_history_post_diff, CAY_BODY_AUTO,
     CAY_DOC("What differs between two versions", "Diff", .body = cay_history_diff_fields,
             .send = "{}")},
    {"POST", AT "/rollback", CAY_SCOPE_EXEC, cay_history_post_back, CAY_BODY_AUTO,
     CAY_DOC("Files as they were, as a version of its own; or one of them", "RolledBack",
             .body = cay_history_back_fields, .send = "{'executionId': 'COMMIT'}")},
    {0},
};
