/* SPDX-License-Identifier: Apache-2.0 */
/* /api/v1: forks, snapshots and volumes. */
#include "api/v1/v1.h"
#include "base/clock.h"
#include "model/limits.h"
#include <string.h>

/* One as it is, several in a list. */
static void shape_forks(struct cay_req *req, const struct cay_sandbox_list *made, bool several,
                        struct cay_json_writer *w)
{
    if (!several) {
        cay_v1_shape_sandbox(w, NULL, req->core, &made->at[0], true);
        return;
    }
    cay_jw_object(w, NULL);
    cay_jw_array(w, "sandboxes");
    for (size_t i = 0; i < made->count; i++)
        cay_v1_shape_sandbox(w, NULL, req->core, &made->at[i], false);
    cay_jw_array_end(w);
    cay_jw_object_end(w);
}

static int fork_it(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    const char *id = cay_req_param(req, "id");
    struct cay_sandbox source;
    struct cay_sandbox_list made;
    int64_t count = 0;
    int r = cay_core_get(req->core, req->owner, id, req->arena, &source, err);
    if (r < 0)
        return r;
    struct cay_spec spec = cay_spec_fork(&source.spec);
    r = cay_v1_decode_spec(req, &spec, &count, err);
    if (r == 0)
        r = cay_core_fork(req->core, req->owner, source.id, &spec, count ? (size_t)count : 1,
                          req->arena, &made, err);
    if (r < 0 || (spec.once && cay_api_answered(resp, 201, &made.at[0])))
        return r;
    shape_forks(req, &made, count > 0, cay_resp_json(resp, 201));
    if (spec.once)
        cay_api_keep_answer(req, resp, &made.at[0]);
    return 0;
}

static void shape(struct cay_json_writer *w, const char *key, const struct cay_kept *kept)
{
    const char *sandbox_id = kept->sandbox_id[0] ? kept->sandbox_id : NULL;
    cay_jw_object(w, key);
    cay_jw_str(w, "id", kept->id);
    cay_jw_str(w, "name", kept->name);
    cay_jw_str(w, "accountId", kept->account_id);
    cay_jw_str(w, "sandboxId", sandbox_id);
    cay_jw_str(w, "dockerImage", kept->image);
    if (kept->size_bytes > 0)
        cay_jw_int(w, "sizeBytes", (int64_t)kept->size_bytes);
    else
        cay_jw_null(w, "sizeBytes");
    if (kept->kind == CAY_SNAPSHOT) {
        cay_jw_str(w, "method", kept->method);
        cay_jw_int(w, "snapshotMs", kept->copied_in_ms);
        cay_jw_time(w, "expiresAt", kept->expires_at_ms);
    } else {
        cay_jw_bool(w, "inUse", sandbox_id != NULL);
    }
    cay_jw_time(w, "createdAt", kept->created_at_ms);
    cay_jw_object_end(w);
}

struct snapshot_body {
    const char *name, *expires_at;
};

static const struct cay_field snapshot_fields[] = {
    CAY_FIELD_STR(struct snapshot_body, name, "name"),
    CAY_FIELD_STR(struct snapshot_body, expires_at, "expiresAt", .max_len = 64),
    CAY_FIELD_END,
};

int cay_v1_moment(struct cay_arena *a, const char *text, const char *field, int64_t *out,
                  struct cay_error *err)
{
    size_t len = strlen(text);
    if (len == strlen("2026-01-01T00:00:00Z") && text[len - 1] == 'Z')
        text = cay_arena_printf(a, "%.*s.000Z", (int)len - 1, text);
    if (!cay_clock_parse(text, out))
        return cay_fail_field(err, field, "%s must be like 2026-01-01T00:00:00Z", field);
    return 0;
}

static int snapshot(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct snapshot_body body = {0};
    struct cay_snapshot_wish wish = {0};
    struct cay_kept kept;
    int r = cay_req_decode(req, snapshot_fields, &body, err);
    if (r == 0 && body.expires_at)
        r = cay_v1_moment(req->arena, body.expires_at, "expiresAt", &wish.expires_at_ms, err);
    if (r == 0)
        r = cay_api_once(req, NULL, &wish.once, err);
    wish.name = body.name;
    if (r == 0)
        r = cay_core_snapshot(req->core, req->owner, cay_req_param(req, "id"), &wish, req->arena,
                              &kept, err);
    if (r < 0)
        return r;
    if (kept.replayed)
        cay_resp_header(resp, "Idempotent-Replayed", "true");
    cay_resp_header(resp, "Location",
                    cay_arena_printf(req->arena, "/api/v1/snapshots/%s", kept.id));
    shape(cay_resp_json(resp, 201), NULL, &kept);
    return 0;
}

struct list_query {
    const char *sandbox_id;
    int64_t page, per_page;
};

static const struct cay_field list_fields[] = {
    CAY_FIELD_STR(struct list_query, sandbox_id, "sandboxId"),
    CAY_FIELD_INT(struct list_query, page, "page", .min = 1, .max = CAY_MAX_PAGE),
    CAY_FIELD_INT(struct list_query, per_page, "perPage", .min = 1, .max = CAY_MAX_PER_PAGE),
    CAY_FIELD_INT(struct list_query, per_page, "limit", .min = 1, .max = CAY_MAX_PER_PAGE),
    CAY_FIELD_END,
};

static int list(struct cay_req *req, enum cay_kept_kind kind, struct cay_resp *resp,
                struct cay_error *err)
{
    struct list_query q = {.page = 1, .per_page = CAY_DEFAULT_PER_PAGE};
    struct cay_kept_list found;
    int r = cay_req_decode_query(req, list_fields, &q, err);
    if (r < 0)
        return r;
    struct cay_kept_filter filter = {
        .kind = kind, .sandbox_id = q.sandbox_id, .page = q.page, .per_page = q.per_page};
    r = cay_core_kept_list(req->core, req->owner, &filter, req->arena, &found, err);
    if (r < 0)
        return r;
    struct cay_json_writer *w = cay_resp_json(resp, 200);
    cay_jw_object(w, NULL);
    cay_jw_array(w, kind == CAY_SNAPSHOT ? "snapshots" : "volumes");
    for (size_t i = 0; i < found.count; i++)
        shape(w, NULL, &found.at[i]);
    cay_jw_array_end(w);
    cay_v1_shape_page(w, found.total, q.page, q.per_page);
    cay_jw_object_end(w);
    return 0;
}

static int get(struct cay_req *req, enum cay_kept_kind kind, struct cay_resp *resp,
               struct cay_error *err)
{
    struct cay_kept kept;
    int r = cay_core_kept(req->core, req->owner, kind, cay_req_param(req, "id"), req->arena, &kept,
                          err);
    if (r == 0)
        shape(cay_resp_json(resp, 200), NULL, &kept);
    return r;
}

static int delete (struct cay_req *req, enum cay_kept_kind kind, struct cay_resp *resp,
                   struct cay_error *err)
{
    struct cay_kept kept;
    int r = cay_core_kept_delete(req->core, req->owner, kind, cay_req_param(req, "id"), req->arena,
                                 &kept, err);
    if (r < 0)
        return r;
    struct cay_json_writer *w = cay_resp_json(resp, 200);
    cay_jw_object(w, NULL);
    cay_jw_str(w, "id", kept.id);
    cay_jw_str(w, "status", "DELETED");
    cay_jw_object_end(w);
    return 0;
}

#define FOR_BOTH(verb)                                                                             \
    static int verb##_snapshot(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)  \
    {                                                                                              \
        return verb(req, CAY_SNAPSHOT, resp, err);                                                 \
    }                                                                                              \
    static int verb##_volume(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)    \
    {                                                                                              \
        return verb(req, CAY_VOLUME, resp, err);                                                   \
    }

FOR_BOTH(list)
FOR_BOTH(get)
FOR_BOTH(delete)

const struct cay_route cay_v1_kept_routes[] = {
    {"POST", "/api/v1/sandbox/{id}/fork", CAY_SCOPE_WRITE, fork_it, CAY_BODY_AUTO,
     CAY_DOC("Copy it, once or `count` times, as it is now", "201 Sandbox|SandboxList; 501",
             .topic = "Snapshots and volumes", .body = cay_v1_fork_fields,
             .headers = "Idempotency-Key", .send = "{'name': 'copy'}")},
    {"POST", "/api/v1/sandbox/{id}/snapshot", CAY_SCOPE_WRITE, snapshot, CAY_BODY_AUTO,
     CAY_DOC("Keep its files as they are now", "201 Snapshot", .body = snapshot_fields,
             .headers = "Idempotency-Key", .send = "{'name': 'before-tests'}")},
    {"GET", "/api/v1/snapshots", CAY_SCOPE_READ, list_snapshot, CAY_BODY_AUTO,
     CAY_DOC("Snapshots, newest first", "SnapshotPage", .query = list_fields, .ask = "perPage=10")},
    {"GET", "/api/v1/snapshots/{id}", CAY_SCOPE_READ, get_snapshot, CAY_BODY_AUTO,
     CAY_DOC("One snapshot", "Snapshot")},
    {"DELETE", "/api/v1/snapshots/{id}", CAY_SCOPE_WRITE, delete_snapshot, CAY_BODY_AUTO,
     CAY_DOC("Remove it", "Deleted")},
    {"GET", "/api/v1/volumes", CAY_SCOPE_READ, list_volume, CAY_BODY_AUTO,
     CAY_DOC("Volumes, newest first", "VolumePage", .query = list_fields, .ask = "perPage=10")},
    {"GET", "/api/v1/volumes/{id}", CAY_SCOPE_READ, get_volume, CAY_BODY_AUTO,
     CAY_DOC("One volume", "Volume")},
    {"DELETE", "/api/v1/volumes/{id}", CAY_SCOPE_WRITE, delete_volume, CAY_BODY_AUTO,
     CAY_DOC("Remove it", "Deleted")},
    {0},
};
