/* SPDX-License-Identifier: Apache-2.0 */
/* JSON Web Tokens that an identity provider signed for us. The kind of the configured key says how
 * they must be signed, never the token: a secret is HS256, an RSA key RS256, an Ed25519 key EdDSA.
 * One that says anything else, `none` among it, is refused. */
#pragma once
#include "base/arena.h"
#include "base/error.h"
#include "model/config.h"

struct cay_jwt;

/* A key that is too weak, private, or of another kind: CAY_ERR_INVALID. */
int cay_jwt_open(const struct cay_config *cfg, struct cay_jwt **out, struct cay_error *err);
void cay_jwt_free(struct cay_jwt *jwt);
struct cay_jwt_told {
    const char *name; /* of the account: "jwt:" and the claim */
    int64_t until_ms; /* then it is over */
    unsigned scopes;  /* those that its `scope` names as cay:read, cay:exec…; every one if none */
};
/* A negative code, without a reason, for any token that is not good. Any thread. */
int cay_jwt_verify(const struct cay_jwt *jwt, const char *token, struct cay_arena *a,
                   struct cay_jwt_told *out);
