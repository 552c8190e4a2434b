/* SPDX-License-Identifier: Apache-2.0 */
/* The second half of service.h: who comes in, whose keys and teams there are, and what each may
 * use. What comes back lives in the arena. */
#pragma once
#include "model/account.h"
#include "store/store.h"

struct cay_core;

#define CAY_KEY_PREFIX "cay_"      /* of an API key */
#define CAY_SANDBOX_PREFIX "cays_" /* of a sandbox's own token */

/* Whose token is this? CAY_ERR_UNAUTHORIZED, always in the same words, when it is nobody's, or
 * over, or revoked. A key is remembered as good for CAY_KEYRING_MS; a key that is revoked here is
 * forgotten at once. */
int cay_core_admit(struct cay_core *core, const char *token, struct cay_arena *a,
                   struct cay_account *out, struct cay_error *err);
/* The words. */
int cay_core_refuse(struct cay_error *err);
/* For tokens that the caller verifies: was it found good a moment ago? */
bool cay_core_recall(struct cay_core *core, const char *token, struct cay_arena *a,
                     struct cay_account *out);
/* It was verified, and says this name: the account that has it, made on first sight. until_ms is
 * when the token is over (wall clock). */
int cay_core_admit_as(struct cay_core *core, const char *token, const char *name, unsigned scopes,
                      int64_t until_ms, struct cay_arena *a, struct cay_account *out,
                      struct cay_error *err);
/* The operator, acting for an account: by id or name. CAY_ERR_NOT_FOUND, "ACCOUNT_NOT_FOUND". */
int cay_core_act_for(struct cay_core *core, const char *id_or_name, struct cay_arena *a,
                     struct cay_account *out, struct cay_error *err);

/* A token that opens this one sandbox, for at most CAY_SANDBOX_TOKEN_MS and as long as it lives.
 * The server keeps nothing of it. CAY_ERR_FORBIDDEN for whoever came with such a one himself. */
struct cay_sandbox_token {
    const char *token;
    const char *sandbox_id, *account_id;
    int64_t expires_at_ms;
};
int cay_core_sandbox_token(struct cay_core *core, const struct cay_account *owner, const char *id,
                           struct cay_arena *a, struct cay_sandbox_token *out,
                           struct cay_error *err);

/* For a request that names a team: the team, as the owner, if he may. NULL: himself. */
int cay_core_as_team(struct cay_core *core, const struct cay_account *owner, const char *team_id,
                     enum cay_role need, struct cay_account *out, struct cay_error *err);

/* The account's own record; `local` has one too. */
int cay_core_holder(struct cay_core *core, const char *id, struct cay_arena *a,
                    struct cay_holder *out, struct cay_error *err);

/* Keys, of the account or of a team that he owns (team_id, or NULL). */
struct cay_key_spec {
    const char *name, *team_id;
    unsigned scopes;       /* none that the caller has not himself: CAY_ERR_FORBIDDEN */
    int64_t expires_at_ms; /* 0: never */
};
/* The token is told here and never again; what is kept is its hash. */
int cay_core_key_create(struct cay_core *core, const struct cay_account *owner,
                        const struct cay_key_spec *spec, struct cay_arena *a, struct cay_key *out,
                        const char **token_out, struct cay_error *err);
int cay_core_key_list(struct cay_core *core, const struct cay_account *owner, const char *team_id,
                      struct cay_arena *a, struct cay_key_list *out, struct cay_error *err);
int cay_core_key_revoke(struct cay_core *core, const struct cay_account *owner, const char *team_id,
                        const char *key_id, struct cay_error *err);

/* Teams. Members see them, owners change them; the last owner stays ("LAST_OWNER"). */
int cay_core_team_create(struct cay_core *core, const struct cay_account *owner, const char *name,
                         struct cay_arena *a, struct cay_holder *out, struct cay_error *err);
int cay_core_team_delete(struct cay_core *core, const struct cay_account *owner,
                         const char *team_id, struct cay_error *err);
int cay_core_teams(struct cay_core *core, const struct cay_account *owner, struct cay_arena *a,
                   struct cay_member_list *out, struct cay_error *err);
int cay_core_team(struct cay_core *core, const struct cay_account *owner, const char *team_id,
                  struct cay_arena *a, struct cay_holder *out, struct cay_member_list *members_out,
                  struct cay_error *err);
/* By id, or by an account's name. CAY_ROLE_NONE takes him out; everybody may take out himself. */
int cay_core_team_member(struct cay_core *core, const struct cay_account *owner,
                         const char *team_id, const char *who, enum cay_role role,
                         struct cay_arena *a, struct cay_member *out, struct cay_error *err);

/* The operator's. */
int cay_core_account_create(struct cay_core *core, const char *name, struct cay_arena *a,
                            struct cay_holder *out, struct cay_error *err);
int cay_core_account_delete(struct cay_core *core, const char *id_or_name, struct cay_arena *a,
                            struct cay_holder *out, struct cay_error *err);
int cay_core_accounts(struct cay_core *core, struct cay_arena *a, struct cay_holder_list *out,
                      struct cay_error *err);
int cay_core_quota_set(struct cay_core *core, const char *holder_id, const struct cay_quota *quota,
                       struct cay_error *err);

/* What he, or a team of his, may use and does use. */
int cay_core_quota(struct cay_core *core, const struct cay_account *owner, const char *team_id,
                   struct cay_arena *a, struct cay_holder *out, struct cay_quota *used_out,
                   struct cay_error *err);
