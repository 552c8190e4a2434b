/* SPDX-License-Identifier: Apache-2.0 */
/* Who asks, and may he: every request of every dialect passes here, ahead of its handler, streams
 * and WebSockets too. Whose a thing is, core decides when it looks for it. */
#pragma once
#include "api/jwt.h"
#include "http/request.h"
#include "model/config.h"

struct cay_auth {
    bool on;
    struct cay_jwt *jwt; /* NULL: keys only */
};

int cay_auth_open(struct cay_auth *auth, const struct cay_config *cfg, struct cay_error *err);
void cay_auth_close(struct cay_auth *auth);
/* Sets req->owner; NULL where no token is needed and none that is good was shown. No or no good
 * token: CAY_ERR_UNAUTHORIZED; one that does not open this route: CAY_ERR_FORBIDDEN, and then
 * req->owner is set as well. */
int cay_auth_admit(const struct cay_auth *auth, struct cay_req *req, struct cay_error *err);
/* Whose token is this? As above without a route; NULL: what the request shows as Bearer. */
int cay_auth_identify(const struct cay_auth *auth, struct cay_req *req, const char *token,
                      struct cay_account *out, struct cay_error *err);
/* For a handler that does more than its route says, by a parameter: may it? */
int cay_auth_raise(struct cay_req *req, enum cay_scope scope, struct cay_error *err);
/* "read", "exec", "write", "account"; NULL ends them, in the order of their bits. */
extern const char *const cay_auth_scopes[];
const char *cay_auth_scope_name(enum cay_scope scope); /* one of them, or "admin" */
/* With what it includes; false when it is none of them. */
bool cay_auth_scope(const char *name, unsigned *out);
