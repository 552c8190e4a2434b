/* SPDX-License-Identifier: Apache-2.0 */
#include "api/auth.h"
#include "core/access.h"
#include "model/limits.h"
#include <string.h>
#include <strings.h>

#define WITHOUT_TOKEN (CAY_SCOPE_READ | CAY_SCOPE_EXEC | CAY_SCOPE_WRITE | CAY_SCOPE_IMAGES)

const char *const cay_auth_scopes[] = {"read", "exec", "write", "account", NULL};

bool cay_auth_scope(const char *name, unsigned *out)
{
    static const unsigned with[] = {CAY_SCOPE_READ, CAY_SCOPE_READ | CAY_SCOPE_EXEC,
                                    CAY_SCOPE_READ | CAY_SCOPE_EXEC | CAY_SCOPE_WRITE,
                                    CAY_SCOPE_ACCOUNT};
    for (size_t i = 0; cay_auth_scopes[i]; i++)
        if (strcmp(cay_auth_scopes[i], name) == 0) {
            *out = with[i];
            return true;
        }
    return false;
}

int cay_auth_open(struct cay_auth *auth, const struct cay_config *cfg, struct cay_error *err)
{
    *auth = (struct cay_auth){.on = cfg->auth && strcmp(cfg->auth, "off") != 0};
    bool jwt = cfg->auth && strcmp(cfg->auth, "jwt") == 0;
    return jwt ? cay_jwt_open(cfg, &auth->jwt, err) : 0;
}

void cay_auth_close(struct cay_auth *auth)
{
    cay_jwt_free(auth->jwt);
    auth->jwt = NULL;
}

/* What stands behind `Bearer`; NULL when there is no such thing. A doubled header was joined by a
 * comma, which no token has. */
static const char *bearer(const struct cay_req *req)
{
    const char *header = cay_req_header(req, "authorization");
    if (!header || strncasecmp(header, "Bearer ", 7) != 0)
        return NULL;
    const char *token = header + 7 + strspn(header + 7, " ");
    size_t len = strlen(token);
    return len > 0 && len <= CAY_MAX_TOKEN && strcspn(token, " ,") == len ? token : NULL;
}

static int by_jwt(const struct cay_auth *auth, struct cay_req *req, const char *token,
                  struct cay_account *out, struct cay_error *err)
{
    struct cay_jwt_told told;
    if (cay_core_recall(req->core, token, req->arena, out))
        return 0;
    int r = cay_jwt_verify(auth->jwt, token, req->arena, &told);
    if (r < 0)
        return cay_core_refuse(err); /* why is of no use but to forgers */
    return cay_core_admit_as(req->core, token, told.name, told.scopes, told.until_ms, req->arena,
                             out, err);
}

/* The socket is the credential: only root and the server's own user can open it. */
static int by_socket(struct cay_req *req, struct cay_account *out, struct cay_error *err)
{
    const char *whom = cay_req_header(req, "x-cay-account");
    if (req->uid != 0 && req->uid != geteuid())
        return cay_core_refuse(err);
    return cay_core_act_for(req->core, whom ? whom : CAY_LOCAL_ACCOUNT, req->arena, out, err);
}

int cay_auth_identify(const struct cay_auth *auth, struct cay_req *req, const char *token,
                      struct cay_account *out, struct cay_error *err)
{
    if (req->is_local)
        return by_socket(req, out, err);
    if (!auth->on) {
        *out = (struct cay_account){.id = CAY_LOCAL_ACCOUNT, .scopes = WITHOUT_TOKEN};
        return 0;
    }
    token = token ? token : bearer(req);
    if (!token || strlen(token) > CAY_MAX_TOKEN)
        return cay_core_refuse(err);
    bool ours = strncmp(token, CAY_KEY_PREFIX, strlen(CAY_KEY_PREFIX)) == 0 ||
                strncmp(token, CAY_SANDBOX_PREFIX, strlen(CAY_SANDBOX_PREFIX)) == 0;
    return auth->jwt && !ours ? by_jwt(auth, req, token, out, err)
                              : cay_core_admit(req->core, token, req->arena, out, err);
}

const char *cay_auth_scope_name(enum cay_scope scope)
{
    for (size_t i = 0; cay_auth_scopes[i]; i++)
        if (scope == (1u << i))
            return cay_auth_scopes[i];
    return "admin";
}

static int allow(const struct cay_req *req, const struct cay_account *who, enum cay_scope scope,
                 struct cay_error *err)
{
    if (who->only && strcmp(cay_req_param(req, "id"), who->only) != 0)
        return cay_fail(err, CAY_ERR_FORBIDDEN, "this token opens one sandbox and nothing else");
    if (!(who->scopes & scope) && (scope == CAY_SCOPE_ADMIN || scope == CAY_SCOPE_IMAGES))
        return cay_fail(err, CAY_ERR_FORBIDDEN,
                        "this is for the operator, on the server's machine");
    if (!(who->scopes & scope))
        return cay_fail(err, CAY_ERR_FORBIDDEN, "this needs a token with the scope %s",
                        cay_auth_scope_name(scope));
    return 0;
}

int cay_auth_admit(const struct cay_auth *auth, struct cay_req *req, struct cay_error *err)
{
    enum cay_scope scope = req->route ? req->route->scope : CAY_SCOPE_READ;
    struct cay_account *who = cay_arena_alloc(req->arena, sizeof *who);
    int r = cay_auth_identify(auth, req, NULL, who, err);
    if (scope == CAY_SCOPE_NONE) {
        req->owner = r == 0 ? who : NULL;
        return 0;
    }
    if (r < 0)
        return r;
    who->reads = scope == CAY_SCOPE_READ;
    req->owner = who;
    return req->route ? allow(req, who, scope, err) : 0;
}

int cay_auth_raise(struct cay_req *req, enum cay_scope scope, struct cay_error *err)
{
    struct cay_account *who = cay_arena_alloc(req->arena, sizeof *who);
    *who = *req->owner;
    who->reads = scope == CAY_SCOPE_READ;
    req->owner = who;
    return allow(req, who, scope, err);
}
