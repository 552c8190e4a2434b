/* SPDX-License-Identifier: Apache-2.0 */
/* Teams, and what a role allows; quotas of accounts and teams. */
#include "base/clock.h"
#include "core/core.h"
#include "core/network.h"
#include "model/limits.h"
#include <string.h>

static int role_of(struct cay_core *core, const char *account_id, const char *team_id,
                   enum cay_role *out, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_member_list found;
    int r = cay_store_member_list(core->store, team_id, account_id, &a, &found, err);
    if (r == 0)
        *out = found.count > 0 ? found.at[0].role : CAY_ROLE_NONE;
    return r;
}

/* May he do this with what belongs to that account or team? Everybody may with his own. */
static int check_role(struct cay_core *core, const struct cay_account *owner, const char *holder_id,
                      enum cay_role need, struct cay_error *err)
{
    enum cay_role role = CAY_ROLE_NONE;
    if (strcmp(owner->id, holder_id) == 0)
        return 0;
    int r = cay_id_is_team(holder_id) ? role_of(core, owner->id, holder_id, &role, err) : 0;
    if (r < 0)
        return r;
    if (role == CAY_ROLE_NONE)
        return cay_fail(err, CAY_ERR_FORBIDDEN, "this belongs to another account");
    if (role < need)
        return cay_fail(err, CAY_ERR_FORBIDDEN, "the role %s in this team does not allow that",
                        cay_role_name(role));
    return 0;
}

/* With authentication off there are no teams: the name of one is a mark that sandboxes can be
 * listed by. */
int cay_core_as_team(struct cay_core *core, const struct cay_account *owner, const char *team_id,
                     enum cay_role need, struct cay_account *out, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_holder team;
    struct cay_account as = *owner;
    bool is_mark =
        strcmp(owner->id, CAY_LOCAL_ACCOUNT) == 0 && !(team_id && cay_id_is_team(team_id));
    if (team_id && !is_mark) {
        int r = cay_id_is_team(team_id) ? cay_store_holder_get(core->store, team_id, &a, &team, err)
                                        : CAY_ERR_NOT_FOUND;
        if (r == CAY_ERR_NOT_FOUND) {
            (void)cay_fail_as(err, r, "TEAM_NOT_FOUND", "team not found");
            cay_str_copy(err->field, sizeof err->field, "teamId");
        }
        if (r == 0)
            r = check_role(core, owner, team_id, need, err);
        if (r < 0)
            return r;
        as.id = team_id;
    }
    *out = as;
    return 0;
}

int cay_core_find_team(struct cay_core *core, const struct cay_account *owner, const char *id,
                       struct cay_arena *a, const char **team_out, struct cay_error *err)
{
    const char *whose = NULL;
    int r = cay_store_whose(core->store, id, a, &whose, err);
    if (r == 0)
        r = check_role(core, owner, whose, owner->reads ? CAY_ROLE_VIEWER : CAY_ROLE_MEMBER, err);
    if (r == 0)
        *team_out = whose;
    return r;
}

/* A team has a quota of its own, which only the operator sets: whoever has one could leave it by
 * working for a team that he made. */
static int refuse_bounded(struct cay_core *core, const struct cay_account *owner,
                          struct cay_arena *a, struct cay_error *err)
{
    struct cay_holder h;
    int r = cay_core_holder(core, owner->id, a, &h, err);
    for (int i = 0; r == 0 && !(owner->scopes & CAY_SCOPE_ADMIN) && i < CAY_QUOTAS; i++)
        if (h.quota.at[i] != CAY_QUOTA_NONE)
            r = cay_fail_as(err, CAY_ERR_FORBIDDEN, "ACCOUNT_HAS_QUOTA",
                            "an account with a quota makes no teams: ask the operator for one");
    return r;
}

int cay_core_team_create(struct cay_core *core, const struct cay_account *owner, const char *name,
                         struct cay_arena *a, struct cay_holder *out, struct cay_error *err)
{
    struct cay_holder team = {
        .is_team = true, .name = name, .quota = cay_quota_none(), .created_at_ms = cay_clock_ms()};
    struct cay_member_list there;
    size_t len = strlen(name);
    if (len == 0 || len > CAY_MAX_LABEL)
        return cay_fail_field(err, "name", "name must have 1 to %d bytes", CAY_MAX_LABEL);
    if (cay_id_is_team(owner->id))
        return cay_fail(err, CAY_ERR_FORBIDDEN, "a team's key makes no teams");
    int r = refuse_bounded(core, owner, a, err);
    if (r == 0)
        r = cay_store_member_list(core->store, NULL, owner->id, a, &there, err);
    if (r == 0 && there.count >= CAY_MAX_MEMBERS)
        r = cay_fail_as(err, CAY_ERR_LIMIT, "TOO_MANY_TEAMS", "at most %d teams of one account",
                        CAY_MAX_MEMBERS);
    cay_id_team(team.id);
    if (r == 0)
        r = cay_store_holder_put(core->store, &team, err);
    struct cay_member first = {.team_id = team.id,
                               .account_id = owner->id,
                               .role = CAY_ROLE_OWNER,
                               .added_at_ms = team.created_at_ms};
    if (r == 0)
        r = cay_store_member_put(core->store, &first, err);
    if (r == 0)
        *out = team;
    return r;
}

static int team_for(struct cay_core *core, const struct cay_account *owner, const char *team_id,
                    enum cay_role need, struct cay_arena *a, struct cay_holder *out,
                    struct cay_error *err)
{
    int r = cay_id_is_team(team_id) ? cay_store_holder_get(core->store, team_id, a, out, err)
                                    : CAY_ERR_NOT_FOUND;
    if (r == CAY_ERR_NOT_FOUND)
        return cay_fail_as(err, r, "TEAM_NOT_FOUND", "team not found");
    return r < 0 ? r : check_role(core, owner, team_id, need, err);
}

int cay_core_team_delete(struct cay_core *core, const struct cay_account *owner,
                         const char *team_id, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_holder team;
    int r = team_for(core, owner, team_id, CAY_ROLE_OWNER, &a, &team, err);
    if (r < 0)
        return r;
    team.deleted_at_ms = cay_clock_ms();
    r = cay_store_holder_put(core->store, &team, err);
    if (r == 0)
        cay_keyring_forget(&core->keyring); /* its keys */
    return r;
}

int cay_core_teams(struct cay_core *core, const struct cay_account *owner, struct cay_arena *a,
                   struct cay_member_list *out, struct cay_error *err)
{
    return cay_store_member_list(core->store, NULL, owner->id, a, out, err);
}

int cay_core_team(struct cay_core *core, const struct cay_account *owner, const char *team_id,
                  struct cay_arena *a, struct cay_holder *out, struct cay_member_list *members_out,
                  struct cay_error *err)
{
    int r = team_for(core, owner, team_id, CAY_ROLE_VIEWER, a, out, err);
    return r < 0 ? r : cay_store_member_list(core->store, team_id, NULL, a, members_out, err);
}

static int check_owners(const struct cay_member_list *members, const struct cay_member *changed,
                        struct cay_error *err)
{
    bool there = false, owned = changed->role == CAY_ROLE_OWNER;
    for (size_t i = 0; i < members->count; i++) {
        bool same = strcmp(members->at[i].account_id, changed->account_id) == 0;
        there = there || same;
        owned = owned || (!same && members->at[i].role == CAY_ROLE_OWNER);
    }
    if (!there && changed->role == CAY_ROLE_NONE)
        return cay_fail_as(err, CAY_ERR_NOT_FOUND, "MEMBER_NOT_FOUND",
                           "this account is no member of the team");
    if (!owned)
        return cay_fail_as(err, CAY_ERR_CONFLICT, "LAST_OWNER", "a team has at least one owner");
    if (!there && members->count >= CAY_MAX_MEMBERS)
        return cay_fail_as(err, CAY_ERR_LIMIT, "TOO_MANY_MEMBERS", "at most %d members of one team",
                           CAY_MAX_MEMBERS);
    return 0;
}

int cay_core_team_member(struct cay_core *core, const struct cay_account *owner,
                         const char *team_id, const char *who, enum cay_role role,
                         struct cay_arena *a, struct cay_member *out, struct cay_error *err)
{
    CAY_AUTO_HOLD struct cay_hold turn = {0}; /* two owners that take each other out come in turn */
    struct cay_holder team, account;
    struct cay_member_list members;
    int r = cay_core_holder(core, who, a, &account, err);
    bool leaves = r == 0 && role == CAY_ROLE_NONE && strcmp(account.id, owner->id) == 0;
    if (r == 0)
        r = team_for(core, owner, team_id, leaves ? CAY_ROLE_VIEWER : CAY_ROLE_OWNER, a, &team,
                     err);
    if (r == 0 && account.is_team)
        r = cay_fail(err, CAY_ERR_INVALID, "a team cannot be a member of a team");
    if (r == 0)
        r = cay_hold_wait(&core->holds, team.id, &turn, err);
    if (r == 0)
        r = cay_store_member_list(core->store, team_id, NULL, a, &members, err);
    if (r < 0)
        return r;
    struct cay_member m = {.team_id = cay_arena_strdup(a, team.id),
                           .account_id = cay_arena_strdup(a, account.id),
                           .role = role,
                           .added_at_ms = cay_clock_ms(),
                           .team_name = team.name,
                           .account_name = account.name};
    r = check_owners(&members, &m, err);
    if (r == 0)
        r = cay_store_member_put(core->store, &m, err);
    if (r == 0)
        *out = m;
    return r;
}

/* ---- quotas ---- */

int cay_core_quota_set(struct cay_core *core, const char *holder_id, const struct cay_quota *quota,
                       struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_holder h;
    int r = cay_core_holder(core, holder_id, &a, &h, err);
    if (r < 0)
        return r;
    h.quota = *quota;
    r = cay_store_holder_put(core->store, &h, err);
    cay_running_forget(core, h.id);
    if (r == 0)
        cay_network_limit(core, &h);
    return r;
}

int cay_core_quota(struct cay_core *core, const struct cay_account *owner, const char *team_id,
                   struct cay_arena *a, struct cay_holder *out, struct cay_quota *used_out,
                   struct cay_error *err)
{
    struct cay_account as;
    int r = cay_core_as_team(core, owner, team_id, CAY_ROLE_VIEWER, &as, err);
    if (r == 0)
        r = cay_core_holder(core, as.id, a, out, err);
    if (r == 0)
        r = cay_store_usage(core->store, as.id, used_out, err);
    if (r == 0)
        cay_network_usage(core, as.id, used_out);
    return r < 0 ? r : cay_running_usage(core, out, used_out, err);
}
