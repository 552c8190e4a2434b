/* SPDX-License-Identifier: Apache-2.0 */
/* /api/v1: many sandboxes removed by one request; each succeeds or fails for itself. */
#include "api/v1/v1.h"
#include "model/limits.h"

struct bulk_body {
    struct cay_strs ids, labels;
    const char *team_id;
};

static const struct cay_field fields[] = {
    CAY_FIELD_STRS(struct bulk_body, ids, "sandboxIds", .max_count = CAY_MAX_PER_PAGE),
    CAY_FIELD_STRS(struct bulk_body, labels, "labels", .max_count = CAY_MAX_LABELS),
    CAY_FIELD_SKIP("allUsers"),
    CAY_FIELD_STR(struct bulk_body, team_id, "teamId", .max_len = CAY_MAX_LABEL),
    CAY_FIELD_SKIP("userId"),
    CAY_FIELD_END,
};

/* At most CAY_MAX_PER_PAGE at once: who has more asks again. */
static int find_labelled(struct cay_req *req, const struct bulk_body *body, struct cay_strs *out,
                         struct cay_error *err)
{
    struct cay_core_filter filter = {
        .row = {.labels = body->labels, .page = 1, .per_page = CAY_MAX_PER_PAGE},
        .team_id = body->team_id};
    struct cay_sandbox_list found;
    int r = cay_core_list(req->core, req->owner, &filter, req->arena, &found, err);
    for (size_t i = 0; r == 0 && i < found.count; i++)
        cay_strs_push(req->arena, out, found.at[i].id);
    return r;
}

static int delete_many(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct bulk_body body = {0};
    int r = cay_req_decode(req, fields, &body, err);
    if (r == 0 && body.ids.count == 0 && body.labels.count == 0)
        r = cay_fail_field(err, "sandboxIds", "name sandboxIds or labels");
    if (r == 0 && body.ids.count == 0)
        r = find_labelled(req, &body, &body.ids, err);
    if (r < 0)
        return r;

    struct cay_error *errors = cay_arena_alloc(req->arena, (body.ids.count + 1) * sizeof *errors);
    size_t gone = 0;
    struct cay_json_writer *w = cay_resp_json(resp, 200);
    cay_jw_object(w, NULL);
    cay_jw_array(w, "succeeded");
    for (size_t i = 0; i < body.ids.count; i++) {
        struct cay_sandbox sb;
        if (cay_core_delete(req->core, req->owner, body.ids.at[i], CAY_WORKSPACE_AS_IT_IS,
                            req->arena, &sb, &errors[i]) < 0)
            continue;
        errors[i].code = CAY_OK; /* whatever was tried first */
        cay_jw_str(w, NULL, sb.id);
        gone++;
    }
    cay_jw_array_end(w);
    cay_jw_array(w, "failed");
    for (size_t i = 0; i < body.ids.count; i++) {
        if (errors[i].code == CAY_OK)
            continue;
        cay_jw_object(w, NULL);
        cay_jw_str(w, "id", body.ids.at[i]);
        cay_jw_str(w, "code", cay_error_name(&errors[i]));
        cay_jw_str(w, "message", errors[i].msg);
        cay_jw_object_end(w);
    }
    cay_jw_array_end(w);
    cay_jw_str(w, "message",
               cay_arena_printf(req->arena, "%zu of %zu sandboxes deleted", gone, body.ids.count));
    cay_jw_object_end(w);
    return 0;
}

const struct cay_route cay_v1_bulk_routes[] = {
    {"DELETE", "/api/v1/sandbox", CAY_SCOPE_WRITE, delete_many, CAY_BODY_AUTO,
     CAY_DOC("Remove many, by their ids or their labels", "BulkResult", .topic = "Sandboxes",
             .body = fields, .send = "{'labels': ['demo']}")},
    {"DELETE", "/api/v1/sandbox/bulk", CAY_SCOPE_WRITE, delete_many, CAY_BODY_AUTO,
     CAY_DOC("The same", "BulkResult", .body = fields, .send = "{'labels': ['demo']}")},
    {0},
};
