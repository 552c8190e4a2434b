/* SPDX-License-Identifier: Apache-2.0 */
/* /api/v1: sandboxes, made, shown, moved and removed. */
#include "api/auth.h"
#include "api/ticket.h"
#include "api/v1/v1.h"
#include "model/limits.h"
#include <string.h>

static int answer(struct cay_req *req, struct cay_resp *resp, int status,
                  const struct cay_sandbox *sb)
{
    cay_v1_shape_sandbox(cay_resp_json(resp, status), NULL, req->core, sb, true);
    return 0;
}

/* Without what it uses: that is next to nothing, and asking would take longer than telling. */
static int answer_made(struct cay_req *req, struct cay_resp *resp, int status,
                       const struct cay_sandbox *sb)
{
    cay_v1_shape_sandbox(cay_resp_json(resp, status), NULL, req->core, sb, false);
    return 0;
}

/* The first answer again where the request came before; else it is kept for when it does. */
static int answer_once(struct cay_req *req, struct cay_resp *resp, int status,
                       const struct cay_sandbox *sb)
{
    if (cay_api_answered(resp, status, sb))
        return 0;
    (void)answer_made(req, resp, status, sb);
    cay_api_keep_answer(req, resp, sb);
    return 0;
}

static void name_place(struct cay_req *req, struct cay_resp *resp, const struct cay_sandbox *sb)
{
    cay_resp_header(resp, "Location", cay_arena_printf(req->arena, "/api/v1/sandbox/%s", sb->id));
}

struct create_query {
    bool wait;
};

static const struct cay_field create_fields[] = {
    CAY_FIELD_BOOL(struct create_query, wait, "wait"),
    CAY_FIELD_END,
};

/* ---- who must be ready first ---- */

static int answer_ready(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    const struct cay_api_waiting *w = req->data;
    struct cay_sandbox sb;
    int r = cay_api_waited(req, &sb, err);
    if (r < 0)
        return r;
    if (w->status == 201)
        name_place(req, resp, &sb);
    return w->once ? answer_once(req, resp, w->status, &sb) : answer(req, resp, w->status, &sb);
}

/* Takes the ticket. */
static int defer(struct cay_req *req, struct cay_resp *resp, struct cay_ticket *ticket,
                 const struct cay_sandbox *sb, int status, bool once)
{
    const struct cay_api_waiting how = {.status = status, .once = once};
    return cay_api_wait_ticket(req, resp, ticket, sb, how, answer_ready);
}

/* A ticket comes out when it must be waited for. */
static int make_named(struct cay_req *req, bool wait, struct cay_spec *spec,
                      struct cay_sandbox *out, struct cay_ticket **ticket, struct cay_error *err)
{
    if (wait)
        return cay_core_make(req->core, req->owner, spec, req->arena, out, ticket, err);
    return cay_core_begin_create(req->core, req->owner, spec, req->arena, out, NULL, err);
}

static int make_titled(struct cay_req *req, bool wait, struct cay_spec *spec,
                       struct cay_sandbox *out, struct cay_ticket **ticket, struct cay_error *err)
{
    const char *title = spec->name;
    spec->name = cay_v1_title_name(req->arena, title, true);
    int r = make_named(req, wait, spec, out, ticket, err);
    if (r == 0 || !cay_v1_title_refused(err))
        return r;
    spec->name = cay_v1_title_name(req->arena, title, false);
    return make_named(req, wait, spec, out, ticket, err);
}

static int create(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct create_query q = {.wait = true};
    struct cay_spec spec = cay_spec_default();
    struct cay_ticket *ticket = NULL;
    struct cay_sandbox sb;

    int r = cay_req_decode_query(req, create_fields, &q, err);
    if (r == 0)
        r = cay_v1_decode_spec(req, &spec, NULL, err);
    if (r < 0)
        return r;
    r = (spec.name && cay_v1_titles(req) ? make_titled : make_named)(req, q.wait, &spec, &sb,
                                                                     &ticket, err);
    if (r < 0)
        return r;
    cay_str_copy(req->subject, sizeof req->subject, sb.id);
    if (ticket)
        return defer(req, resp, ticket, &sb, 201, spec.once != NULL);
    name_place(req, resp, &sb);
    return (spec.once ? answer_once : answer_made)(req, resp, q.wait ? 201 : 202, &sb);
}

struct get_query {
    bool resume;
};

static const struct cay_field get_fields[] = {
    CAY_FIELD_BOOL(struct get_query, resume, "resume"),
    CAY_FIELD_END,
};

static int get(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct get_query q = {0};
    struct cay_ticket *ticket = NULL;
    struct cay_sandbox sb;
    const char *id = cay_req_param(req, "id");
    int r = cay_req_decode_query(req, get_fields, &q, err);
    if (r == 0 && q.resume)
        r = cay_auth_raise(req, CAY_SCOPE_WRITE, err);
    if (r == 0)
        r = q.resume ? cay_core_wake(req->core, req->owner, id, req->arena, &sb, &ticket, err)
                     : cay_core_get(req->core, req->owner, id, req->arena, &sb, err);
    if (r < 0)
        return r;
    return ticket ? defer(req, resp, ticket, &sb, 200, false) : answer(req, resp, 200, &sb);
}

struct list_query {
    const char *status, *name, *team_id;
    bool is_active, include_terminated;
    struct cay_strs labels, tags;
    int64_t page, per_page;
};

static const char *const states[] = {"PENDING", "PROVISIONING", "RUNNING",    "PAUSED",
                                     "STOPPED", "ERROR",        "TERMINATED", NULL};

static const struct cay_field list_fields[] = {
    CAY_FIELD_STR(struct list_query, status, "status", .choices = states),
    CAY_FIELD_STR(struct list_query, name, "name"),
    CAY_FIELD_STR(struct list_query, team_id, "teamId"),
    CAY_FIELD_BOOL(struct list_query, is_active, "isActive"),
    CAY_FIELD_BOOL(struct list_query, include_terminated, "includeTerminated"),
    CAY_FIELD_STRS(struct list_query, labels, "labels", .max_count = CAY_MAX_LABELS),
    CAY_FIELD_STRS(struct list_query, tags, "tags", .max_count = CAY_MAX_TAGS),
    CAY_FIELD_INT(struct list_query, page, "page", .min = 1, .max = CAY_MAX_PAGE),
    CAY_FIELD_INT(struct list_query, per_page, "perPage", .min = 1, .max = CAY_MAX_PER_PAGE),
    CAY_FIELD_INT(struct list_query, per_page, "limit", .min = 1, .max = CAY_MAX_PER_PAGE),
    CAY_FIELD_END,
};

static int list(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct list_query q = {.is_active = true, .page = 1, .per_page = CAY_DEFAULT_PER_PAGE};
    struct cay_sandbox_list found;

    int r = cay_req_decode_query(req, list_fields, &q, err);
    if (r < 0)
        return r;
    struct cay_core_filter filter = {
        .row = {.name = q.name, .labels = q.labels, .page = q.page, .per_page = q.per_page},
        .team_id = q.team_id,
        .tags = q.tags};
    filter.row.has_state = q.status && cay_state_parse(q.status, &filter.row.state);
    filter.row.include_terminated = q.include_terminated || !q.is_active ||
                                    (filter.row.has_state && filter.row.state == CAY_TERMINATED);
    r = cay_core_list(req->core, req->owner, &filter, req->arena, &found, err);
    if (r < 0)
        return r;

    struct cay_json_writer *w = cay_resp_json(resp, 200);
    cay_jw_object(w, NULL);
    cay_jw_array(w, "sandboxes");
    for (size_t i = 0; i < found.count; i++)
        cay_v1_shape_sandbox(w, NULL, req->core, &found.at[i], false);
    cay_jw_array_end(w);
    cay_v1_shape_page(w, found.total, q.page, q.per_page);
    cay_jw_object_end(w);
    return 0;
}

static int start(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct cay_ticket *ticket;
    struct cay_sandbox sb;
    int r = cay_core_begin_start(req->core, req->owner, cay_req_param(req, "id"), req->arena, &sb,
                                 &ticket, err);
    if (r < 0)
        return r;
    return ticket ? defer(req, resp, ticket, &sb, 200, false) : answer(req, resp, 200, &sb);
}

static int pause_it(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct cay_sandbox sb;
    int r = cay_core_pause(req->core, req->owner, cay_req_param(req, "id"), req->arena, &sb, err);
    return r < 0 ? r : answer(req, resp, 200, &sb);
}

static int resume(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct cay_sandbox sb;
    int r = cay_core_resume(req->core, req->owner, cay_req_param(req, "id"), req->arena, &sb, err);
    return r < 0 ? r : answer(req, resp, 200, &sb);
}

struct stop_body {
    int64_t grace_ms;
};

static const struct cay_field stop_fields[] = {
    CAY_FIELD_INT(struct stop_body, grace_ms, "graceMs", .min = 0, .max = CAY_MAX_GRACE_MS),
    CAY_FIELD_END,
};

static int stop(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct stop_body body = {.grace_ms = CAY_DEFAULT_GRACE_MS};
    struct cay_sandbox sb;
    int r = cay_req_decode(req, stop_fields, &body, err);
    if (r == 0)
        r = cay_core_stop(req->core, req->owner, cay_req_param(req, "id"), body.grace_ms,
                          req->arena, &sb, err);
    return r < 0 ? r : answer(req, resp, 200, &sb);
}

struct delete_query {
    const char *preserve_volume;
    bool sync;
};

static const struct cay_field delete_fields[] = {
    CAY_API_KEEP_FIELD(struct delete_query, preserve_volume),
    CAY_FIELD_BOOL(struct delete_query, sync, "sync"),
    CAY_FIELD_END,
};

static int delete (struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct delete_query q = {0};
    struct cay_sandbox sb;
    int r = cay_req_decode_query(req, delete_fields, &q, err);
    if (r == 0 && q.sync)
        r = cay_fail(err, CAY_ERR_UNSUPPORTED, "sync is not available yet");
    if (r == 0)
        r = cay_core_delete(req->core, req->owner, cay_req_param(req, "id"),
                            cay_api_workspace(q.preserve_volume), req->arena, &sb, err);
    if (r < 0)
        return r;
    struct cay_json_writer *w = cay_resp_json(resp, 200);
    cay_jw_object(w, NULL);
    cay_jw_str(w, "id", sb.id);
    cay_jw_str(w, "status", cay_state_name(sb.state));
    if (sb.keeps[0])
        cay_jw_str(w, "volumeId", sb.keeps);
    cay_jw_object_end(w);
    return 0;
}

const struct cay_route cay_v1_sandbox_routes[] = {
    {"GET", "/api/v1/sandbox", CAY_SCOPE_READ, list, CAY_BODY_AUTO,
     CAY_DOC("Sandboxes, newest first", "SandboxPage", .topic = "Sandboxes", .query = list_fields,
             .ask = "perPage=10&labels=demo")},
    {"POST", "/api/v1/sandbox", CAY_SCOPE_WRITE, create, CAY_BODY_AUTO,
     CAY_DOC(
         "Make a sandbox; with wait=false without waiting for it", "201 Sandbox; 202 Sandbox; 501",
         .query = create_fields, .body = cay_v1_spec_fields, .headers = "Idempotency-Key",
         .send =
             "{'name': 'demo', 'dockerImage': 'busybox', 'memoryGB': 0.125, 'labels': ['demo']}")},
    {"GET", "/api/v1/sandbox/{id}", CAY_SCOPE_READ, get, CAY_BODY_AUTO,
     CAY_DOC("One sandbox, with what it uses", "Sandbox", .query = get_fields)},
    {"DELETE", "/api/v1/sandbox/{id}", CAY_SCOPE_WRITE, delete, CAY_BODY_AUTO,
     CAY_DOC("Remove it; its workspace may stay as a volume", "Deleted; 501",
             .query = delete_fields, .ask = "preserveVolume=false")},
    {"POST", "/api/v1/sandbox/{id}/start", CAY_SCOPE_WRITE, start, CAY_BODY_AUTO,
     CAY_DOC("Start one that is stopped", "Sandbox")},
    {"POST", "/api/v1/sandbox/{id}/stop", CAY_SCOPE_WRITE, stop, CAY_BODY_AUTO,
     CAY_DOC("Stop it, with time to end by itself", "Sandbox", .body = stop_fields,
             .send = "{'graceMs': 1000}")},
    {"POST", "/api/v1/sandbox/{id}/pause", CAY_SCOPE_WRITE, pause_it, CAY_BODY_AUTO,
     CAY_DOC("Let it stand still", "Sandbox")},
    {"POST", "/api/v1/sandbox/{id}/resume", CAY_SCOPE_WRITE, resume, CAY_BODY_AUTO,
     CAY_DOC("Let it go on", "Sandbox")},
    {0},
};
