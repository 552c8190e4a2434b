/* SPDX-License-Identifier: Apache-2.0 */
/* /api/v1: the caller's account, its keys, teams and quotas, and tokens of sandboxes. Accounts are
 * the operator's. */
#include "api/auth.h"
#include "api/dialect.h"
#include "api/v1/v1.h"
#include "model/limits.h"
#include <string.h>

static void shape_scopes(struct cay_json_writer *w, unsigned scopes)
{
    cay_jw_array(w, "scopes");
    for (size_t i = 0; cay_auth_scopes[i]; i++)
        if (scopes & (1u << i))
            cay_jw_str(w, NULL, cay_auth_scopes[i]);
    cay_jw_array_end(w);
}

static void shape_holder(struct cay_json_writer *w, const char *key, const struct cay_holder *h)
{
    cay_jw_object(w, key);
    cay_jw_str(w, "id", h->id);
    cay_jw_str(w, "name", h->name);
    cay_jw_str(w, "kind", h->is_team ? "team" : "account");
    cay_jw_time(w, "createdAt", h->created_at_ms);
    cay_jw_object_end(w);
}

static int answer_gone(struct cay_resp *resp, const char *id)
{
    struct cay_json_writer *w = cay_resp_json(resp, 200);
    cay_jw_object(w, NULL);
    cay_jw_str(w, "id", id);
    cay_jw_str(w, "status", "DELETED");
    cay_jw_object_end(w);
    return 0;
}

/* ---- the account ---- */

static int account(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct cay_holder h;
    struct cay_member_list teams;
    int r = cay_core_holder(req->core, req->owner->id, req->arena, &h, err);
    if (r == 0)
        r = cay_core_teams(req->core, req->owner, req->arena, &teams, err);
    if (r < 0)
        return r;
    struct cay_json_writer *w = cay_resp_json(resp, 200);
    cay_jw_object(w, NULL);
    cay_jw_str(w, "id", h.id);
    cay_jw_str(w, "accountId", h.id);
    cay_jw_str(w, "name", h.name);
    cay_jw_str(w, "kind", h.is_team ? "team" : "account");
    cay_jw_str(w, "keyId", req->owner->key_id);
    shape_scopes(w, req->owner->scopes);
    cay_jw_array(w, "teams");
    for (size_t i = 0; i < teams.count; i++) {
        cay_jw_object(w, NULL);
        cay_jw_str(w, "id", teams.at[i].team_id);
        cay_jw_str(w, "name", teams.at[i].team_name);
        cay_jw_str(w, "role", cay_role_name(teams.at[i].role));
        cay_jw_object_end(w);
    }
    cay_jw_array_end(w);
    cay_jw_time(w, "createdAt", h.created_at_ms);
    cay_jw_object_end(w);
    return 0;
}

/* ---- keys ---- */

struct team_query {
    const char *team_id;
};

static const struct cay_field team_fields[] = {
    CAY_FIELD_STR(struct team_query, team_id, "teamId"),
    CAY_FIELD_END,
};

static void shape_key(struct cay_json_writer *w, const struct cay_key *key, const char *token)
{
    cay_jw_object(w, NULL);
    cay_jw_str(w, "id", key->id);
    cay_jw_str(w, "name", key->name);
    cay_jw_str(w, "accountId", key->account_id);
    shape_scopes(w, key->scopes);
    cay_jw_time(w, "createdAt", key->created_at_ms);
    cay_jw_time(w, "expiresAt", key->expires_at_ms);
    cay_jw_time(w, "lastUsedAt", key->last_used_at_ms);
    cay_jw_time(w, "revokedAt", key->revoked_at_ms);
    if (token)
        cay_jw_str(w, "token", token);
    cay_jw_object_end(w);
}

static int list_keys(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct team_query q = {0};
    struct cay_key_list keys;
    int r = cay_req_decode_query(req, team_fields, &q, err);
    if (r == 0)
        r = cay_core_key_list(req->core, req->owner, q.team_id, req->arena, &keys, err);
    if (r < 0)
        return r;
    struct cay_json_writer *w = cay_resp_json(resp, 200);
    cay_jw_object(w, NULL);
    cay_jw_array(w, "keys");
    for (size_t i = 0; i < keys.count; i++)
        shape_key(w, &keys.at[i], NULL);
    cay_jw_array_end(w);
    cay_jw_object_end(w);
    return 0;
}

struct key_body {
    const char *name, *team_id, *expires_at;
    struct cay_strs scopes;
};

static const struct cay_field key_fields[] = {
    CAY_FIELD_STR(struct key_body, name, "name", .required = true),
    CAY_FIELD_STR(struct key_body, team_id, "teamId"),
    CAY_FIELD_STR(struct key_body, expires_at, "expiresAt", .max_len = 64),
    CAY_FIELD_STRS(struct key_body, scopes, "scopes", .max_count = 4),
    CAY_FIELD_END,
};

static int create_key(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct key_body body = {0};
    struct cay_key key;
    const char *token;
    int r = cay_req_decode(req, key_fields, &body, err);
    if (r < 0)
        return r;
    struct cay_key_spec spec = {.name = body.name, .team_id = body.team_id};
    if (body.scopes.count == 0) /* all that its maker has, but to make keys */
        spec.scopes = req->owner->scopes & (CAY_SCOPE_READ | CAY_SCOPE_EXEC | CAY_SCOPE_WRITE);
    for (size_t i = 0; i < body.scopes.count; i++) {
        unsigned scope;
        if (!cay_auth_scope(body.scopes.at[i], &scope))
            return cay_fail_field(err, "scopes", "scopes are read, exec, write and account");
        spec.scopes |= scope;
    }
    if (body.expires_at)
        r = cay_v1_moment(req->arena, body.expires_at, "expiresAt", &spec.expires_at_ms, err);
    if (r == 0)
        r = cay_core_key_create(req->core, req->owner, &spec, req->arena, &key, &token, err);
    if (r < 0)
        return r;
    cay_resp_header(resp, "Cache-Control", "no-store");
    shape_key(cay_resp_json(resp, 201), &key, token);
    return 0;
}

static int revoke_key(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct team_query q = {0};
    const char *id = cay_req_param(req, "kid");
    int r = cay_req_decode_query(req, team_fields, &q, err);
    if (r == 0)
        r = cay_core_key_revoke(req->core, req->owner, q.team_id, id, err);
    return r < 0 ? r : answer_gone(resp, id);
}

/* ---- teams ---- */

struct name_body {
    const char *name;
};

static const struct cay_field name_fields[] = {
    CAY_FIELD_STR(struct name_body, name, "name", .required = true),
    CAY_FIELD_END,
};

static int list_teams(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct cay_member_list teams;
    int r = cay_core_teams(req->core, req->owner, req->arena, &teams, err);
    if (r < 0)
        return r;
    struct cay_json_writer *w = cay_resp_json(resp, 200);
    cay_jw_object(w, NULL);
    cay_jw_array(w, "teams");
    for (size_t i = 0; i < teams.count; i++) {
        cay_jw_object(w, NULL);
        cay_jw_str(w, "id", teams.at[i].team_id);
        cay_jw_str(w, "name", teams.at[i].team_name);
        cay_jw_str(w, "role", cay_role_name(teams.at[i].role));
        cay_jw_time(w, "addedAt", teams.at[i].added_at_ms);
        cay_jw_object_end(w);
    }
    cay_jw_array_end(w);
    cay_jw_object_end(w);
    return 0;
}

static int create_team(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct name_body body = {0};
    struct cay_holder team;
    int r = cay_req_decode(req, name_fields, &body, err);
    if (r == 0)
        r = cay_core_team_create(req->core, req->owner, body.name, req->arena, &team, err);
    if (r == 0)
        shape_holder(cay_resp_json(resp, 201), NULL, &team);
    return r;
}

static void shape_member(struct cay_json_writer *w, const struct cay_member *m)
{
    cay_jw_object(w, NULL);
    cay_jw_str(w, "accountId", m->account_id);
    cay_jw_str(w, "name", m->account_name ? m->account_name : m->account_id);
    cay_jw_str(w, "role", cay_role_name(m->role));
    cay_jw_time(w, "addedAt", m->added_at_ms);
    cay_jw_object_end(w);
}

static int get_team(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct cay_holder team;
    struct cay_member_list members;
    int r = cay_core_team(req->core, req->owner, cay_req_param(req, "tid"), req->arena, &team,
                          &members, err);
    if (r < 0)
        return r;
    struct cay_json_writer *w = cay_resp_json(resp, 200);
    cay_jw_object(w, NULL);
    cay_jw_str(w, "id", team.id);
    cay_jw_str(w, "name", team.name);
    cay_jw_time(w, "createdAt", team.created_at_ms);
    cay_jw_array(w, "members");
    for (size_t i = 0; i < members.count; i++)
        shape_member(w, &members.at[i]);
    cay_jw_array_end(w);
    cay_jw_object_end(w);
    return 0;
}

static int delete_team(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    const char *id = cay_req_param(req, "tid");
    int r = cay_core_team_delete(req->core, req->owner, id, err);
    return r < 0 ? r : answer_gone(resp, id);
}

struct role_body {
    const char *role;
};

static const char *const roles[] = {"viewer", "member", "owner", NULL};

static const struct cay_field role_fields[] = {
    CAY_FIELD_STR(struct role_body, role, "role", .required = true, .choices = roles),
    CAY_FIELD_END,
};

static int put_member(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct role_body body = {0};
    enum cay_role role = CAY_ROLE_NONE;
    struct cay_member m;
    int r = cay_req_decode(req, role_fields, &body, err);
    if (r < 0)
        return r;
    (void)cay_role_parse(body.role, &role); /* it is one of the choices */
    r = cay_core_team_member(req->core, req->owner, cay_req_param(req, "tid"),
                             cay_req_param(req, "aid"), role, req->arena, &m, err);
    if (r == 0)
        shape_member(cay_resp_json(resp, 200), &m);
    return r;
}

static int delete_member(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct cay_member m;
    int r = cay_core_team_member(req->core, req->owner, cay_req_param(req, "tid"),
                                 cay_req_param(req, "aid"), CAY_ROLE_NONE, req->arena, &m, err);
    return r < 0 ? r : answer_gone(resp, m.account_id);
}

/* ---- quotas ---- */

static int get_quota(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct team_query q = {0};
    struct cay_holder h;
    struct cay_quota used;
    int r = cay_req_decode_query(req, team_fields, &q, err);
    if (r == 0)
        r = cay_core_quota(req->core, req->owner, q.team_id, req->arena, &h, &used, err);
    if (r < 0)
        return r;
    struct cay_json_writer *w = cay_resp_json(resp, 200);
    cay_jw_object(w, NULL);
    cay_jw_str(w, "accountId", h.id);
    cay_jw_object(w, "quotas");
    for (int i = 0; i < CAY_QUOTAS; i++) {
        double unit = cay_quota_unit(i);
        cay_jw_object(w, cay_quota_name(i));
        if (h.quota.at[i] == CAY_QUOTA_NONE)
            cay_jw_null(w, "limit");
        else
            cay_jw_real(w, "limit", (double)h.quota.at[i] / unit);
        cay_jw_real(w, "used", (double)used.at[i] / unit);
        cay_jw_object_end(w);
    }
    cay_jw_object_end(w);
    cay_jw_object_end(w);
    return 0;
}

struct quota_body {
    double at[CAY_QUOTAS]; /* on the wire */
};

#define QUOTA_MAX 1e15
#define QUOTA(kind, name)                                                                          \
    CAY_FIELD_NUM(struct quota_body, at[kind], name, .min = 0, .max = QUOTA_MAX)

static const struct cay_field quota_fields[] = {
    QUOTA(CAY_QUOTA_SANDBOXES, "sandboxes"),
    QUOTA(CAY_QUOTA_CPU_MILLI, "vcpus"),
    QUOTA(CAY_QUOTA_MEMORY_BYTES, "memoryBytes"),
    QUOTA(CAY_QUOTA_DISK_BYTES, "diskBytes"),
    QUOTA(CAY_QUOTA_EXECUTIONS, "executions"),
    QUOTA(CAY_QUOTA_LOG_BYTES, "logBytes"),
    QUOTA(CAY_QUOTA_EGRESS_BYTES, "egressBytes"),
    QUOTA(CAY_QUOTA_CONNECTIONS, "connections"),
    CAY_FIELD_END,
};

/* The whole of it: what is not named has no bound. */
static int put_quota(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct team_query q = {0};
    struct quota_body body;
    struct cay_quota quota;
    for (int i = 0; i < CAY_QUOTAS; i++)
        body.at[i] = CAY_QUOTA_NONE;
    int r = cay_req_decode_query(req, team_fields, &q, err);
    if (r == 0)
        r = cay_req_decode(req, quota_fields, &body, err);
    if (r < 0)
        return r;
    for (int i = 0; i < CAY_QUOTAS; i++)
        quota.at[i] =
            body.at[i] < 0 ? CAY_QUOTA_NONE : (int64_t)(body.at[i] * cay_quota_unit(i) + 0.5);
    struct cay_holder of;
    struct cay_quota used;
    r = cay_core_quota(req->core, req->owner, q.team_id, req->arena, &of, &used, err);
    if (r == 0)
        r = cay_core_quota_set(req->core, of.id, &quota, err);
    return r < 0 ? r : get_quota(req, resp, err);
}

/* ---- the operator's: accounts ---- */

static int list_accounts(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct cay_holder_list found;
    int r = cay_core_accounts(req->core, req->arena, &found, err);
    if (r < 0)
        return r;
    struct cay_json_writer *w = cay_resp_json(resp, 200);
    cay_jw_object(w, NULL);
    cay_jw_array(w, "accounts");
    for (size_t i = 0; i < found.count; i++)
        shape_holder(w, NULL, &found.at[i]);
    cay_jw_array_end(w);
    cay_jw_object_end(w);
    return 0;
}

static int create_account(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct name_body body = {0};
    struct cay_holder h;
    int r = cay_req_decode(req, name_fields, &body, err);
    if (r == 0)
        r = cay_core_account_create(req->core, body.name, req->arena, &h, err);
    if (r == 0)
        shape_holder(cay_resp_json(resp, 201), NULL, &h);
    return r;
}

static int delete_account(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct cay_holder h;
    int r = cay_core_account_delete(req->core, cay_req_param(req, "aid"), req->arena, &h, err);
    return r < 0 ? r : answer_gone(resp, h.id);
}

/* ---- tokens of sandboxes ---- */

/* For two kinds of readers: ours, and clients that know this answer in snake_case. */
static int auth_token(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct cay_sandbox_token t;
    int r = cay_core_sandbox_token(req->core, req->owner, cay_req_param(req, "id"), req->arena, &t,
                                   err);
    if (r < 0)
        return r;
    const char *gateway = cay_arena_printf(req->arena, "%s://%s" CAY_GATEWAY_PATH,
                                           req->is_tls ? "https" : "http", req->host);
    struct cay_json_writer *w = cay_resp_json(resp, 200);
    cay_resp_header(resp, "Cache-Control", "no-store");
    cay_jw_object(w, NULL);
    cay_jw_str(w, "token", t.token);
    cay_jw_str(w, "sandboxId", t.sandbox_id);
    cay_jw_str(w, "sandbox_id", t.sandbox_id);
    cay_jw_str(w, "gatewayUrl", gateway);
    cay_jw_str(w, "gateway_url", gateway);
    cay_jw_str(w, "userNs", t.account_id);
    cay_jw_str(w, "user_ns", t.account_id);
    cay_jw_str(w, "jobId", t.sandbox_id);
    cay_jw_str(w, "job_id", t.sandbox_id);
    cay_jw_time(w, "expiresAt", t.expires_at_ms);
    cay_jw_time(w, "expires_at", t.expires_at_ms);
    cay_jw_bool(w, "isVm", false);
    cay_jw_bool(w, "is_vm", false);
    cay_jw_object_end(w);
    return 0;
}

const struct cay_route cay_v1_access_routes[] = {
    {"GET", "/api/v1/account", CAY_SCOPE_READ, account, CAY_BODY_AUTO,
     CAY_DOC("Who am I", "Account", .topic = "Accounts")},
    {"GET", "/api/v1/account/keys", CAY_SCOPE_ACCOUNT, list_keys, CAY_BODY_AUTO,
     CAY_DOC("Keys of the account, or of a team", "KeyList", .query = team_fields)},
    {"POST", "/api/v1/account/keys", CAY_SCOPE_ACCOUNT, create_key, CAY_BODY_AUTO,
     CAY_DOC("Make a key; its token is shown once", "201 Key", .body = key_fields,
             .send = "{'name': 'ci', 'scopes': ['read', 'exec']}")},
    {"DELETE", "/api/v1/account/keys/{kid}", CAY_SCOPE_ACCOUNT, revoke_key, CAY_BODY_AUTO,
     CAY_DOC("Revoke a key", "Deleted", .query = team_fields)},
    {"GET", "/api/v1/teams", CAY_SCOPE_READ, list_teams, CAY_BODY_AUTO,
     CAY_DOC("Teams of the account", "TeamList")},
    {"POST", "/api/v1/teams", CAY_SCOPE_ACCOUNT, create_team, CAY_BODY_AUTO,
     CAY_DOC("Make a team", "201 Holder", .body = name_fields, .send = "{'name': 'builders'}")},
    {"GET", "/api/v1/teams/{tid}", CAY_SCOPE_READ, get_team, CAY_BODY_AUTO,
     CAY_DOC("One team, with its members", "Team")},
    {"DELETE", "/api/v1/teams/{tid}", CAY_SCOPE_ACCOUNT, delete_team, CAY_BODY_AUTO,
     CAY_DOC("Remove a team that has nothing", "Deleted")},
    {"PUT", "/api/v1/teams/{tid}/members/{aid}", CAY_SCOPE_ACCOUNT, put_member, CAY_BODY_AUTO,
     CAY_DOC("Add a member, or change his role", "Member", .body = role_fields,
             .send = "{'role': 'viewer'}")},
    {"DELETE", "/api/v1/teams/{tid}/members/{aid}", CAY_SCOPE_ACCOUNT, delete_member, CAY_BODY_AUTO,
     CAY_DOC("Take a member out", "Deleted")},
    {"GET", "/api/v1/quota", CAY_SCOPE_READ, get_quota, CAY_BODY_AUTO,
     CAY_DOC("What the account, or a team, may have and has", "Quota", .query = team_fields)},
    {"PUT", "/api/v1/quota", CAY_SCOPE_ADMIN, put_quota, CAY_BODY_AUTO,
     CAY_DOC("Set it; what is not named has no bound", "Quota", .query = team_fields,
             .body = quota_fields, .send = "{'sandboxes': 100, 'vcpus': 64}")},
    {"GET", "/api/v1/accounts", CAY_SCOPE_ADMIN, list_accounts, CAY_BODY_AUTO,
     CAY_DOC("All accounts", "AccountList")},
    {"POST", "/api/v1/accounts", CAY_SCOPE_ADMIN, create_account, CAY_BODY_AUTO,
     CAY_DOC("Make an account", "201 Holder", .body = name_fields, .send = "{'name': 'mary'}")},
    {"DELETE", "/api/v1/accounts/{aid}", CAY_SCOPE_ADMIN, delete_account, CAY_BODY_AUTO,
     CAY_DOC("Remove an account that has nothing", "Deleted")},
    {"POST", "/api/v1/sandbox/{id}/auth-token", CAY_SCOPE_EXEC, auth_token, CAY_BODY_AUTO,
     CAY_DOC("A token that opens this sandbox and nothing else", "SandboxToken")},
    {"POST", "/api/v1/sandbox/{id}/auth", CAY_SCOPE_EXEC, auth_token, CAY_BODY_AUTO,
     CAY_DOC("The same", "SandboxToken")},
    {0},
};
