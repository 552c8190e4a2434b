/* SPDX-License-Identifier: Apache-2.0 */
/* /api/v1: who did what in the caller's account. */
#include "api/v1/v1.h"
#include "base/clock.h"
#include "model/limits.h"
#include <string.h>

struct audit_query {
    const char *sandbox, *action, *key, *peer, *result, *from, *to, *cursor;
    int64_t limit;
};

static const char *const results[] = {"ok", "refused", "failed", NULL};

static const struct cay_field fields[] = {
    CAY_FIELD_STR(struct audit_query, sandbox, "sandbox", .max_len = 63),
    CAY_FIELD_STR(struct audit_query, action, "action", .max_len = 100),
    CAY_FIELD_STR(struct audit_query, key, "key", .max_len = 63),
    CAY_FIELD_STR(struct audit_query, peer, "peer", .max_len = 63),
    CAY_FIELD_STR(struct audit_query, result, "result", .choices = results),
    CAY_FIELD_STR(struct audit_query, from, "from", .max_len = 24),
    CAY_FIELD_STR(struct audit_query, to, "to", .max_len = 24),
    CAY_FIELD_STR(struct audit_query, cursor, "cursor", .max_len = CAY_AUDIT_CURSOR),
    CAY_FIELD_INT(struct audit_query, limit, "limit", .min = 1, .max = CAY_MAX_PER_PAGE),
    CAY_FIELD_END,
};

/* A day, or a moment with or without milliseconds. */
static int decode_time(struct cay_arena *a, const char *text, const char *field, int64_t *out,
                       struct cay_error *err)
{
    size_t len = text ? strlen(text) : 0;
    if (!text)
        return 0;
    if (len == 10)
        text = cay_arena_printf(a, "%sT00:00:00.000Z", text);
    else if (len == 20)
        text = cay_arena_printf(a, "%.19s.000Z", text);
    if (!cay_clock_parse(text, out))
        return cay_fail_field(err, field, "%s must be like 2026-11-15 or 2026-11-15T09:48:00Z",
                              field);
    return 0;
}

static int get_audit(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct audit_query q = {.limit = CAY_DEFAULT_PER_PAGE};
    struct cay_audit_filter filter = {.account_id = req->owner->id};
    struct cay_audit_page page;
    struct cay_sandbox sb;
    struct cay_error ignored; /* one that is gone is found by its id all the same */
    int r = cay_req_decode_query(req, fields, &q, err);
    if (r == 0)
        r = decode_time(req->arena, q.from, "from", &filter.from_ms, err);
    if (r == 0)
        r = decode_time(req->arena, q.to, "to", &filter.to_ms, err);
    if (r < 0)
        return r;
    filter.sandbox = req->owner->only ? req->owner->only : q.sandbox;
    if (filter.sandbox && !cay_id_is_sandbox(filter.sandbox) &&
        cay_core_get(req->core, req->owner, filter.sandbox, req->arena, &sb, &ignored) == 0)
        filter.sandbox = sb.id;
    filter.action = q.action;
    filter.key = q.key;
    filter.peer = q.peer;
    filter.result = q.result;
    filter.cursor = q.cursor;
    filter.limit = (size_t)q.limit;
    r = cay_core_records(req->core, &filter, req->arena, &page, err);
    if (r < 0)
        return r;
    struct cay_json_writer *w = cay_resp_json(resp, 200);
    cay_jw_object(w, NULL);
    cay_jw_array(w, "entries");
    for (size_t i = 0; i < page.lines.count; i++)
        cay_jw_raw(w, NULL, page.lines.at[i], strlen(page.lines.at[i]));
    cay_jw_array_end(w);
    cay_jw_str(w, "nextCursor", page.next[0] ? page.next : NULL);
    cay_jw_bool(w, "hasNext", page.next[0] != 0);
    cay_jw_object_end(w);
    return 0;
}

const struct cay_route cay_v1_audit_routes[] = {
    {"GET", "/api/v1/audit", CAY_SCOPE_READ, get_audit, CAY_BODY_AUTO,
     CAY_DOC("Who did what, newest first", "AuditPage", .topic = "Events and audit",
             .query = fields, .ask = "limit=10")},
    {0},
};
