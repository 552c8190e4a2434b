/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "tests/fixture.h"
#include <stdio.h>

#define FULL (CAY_SCOPE_READ | CAY_SCOPE_EXEC | CAY_SCOPE_WRITE | CAY_SCOPE_ACCOUNT)

static struct cay_account someone(struct fixture *f, const char *name)
{
    struct cay_error err = {0};
    struct cay_holder h = {0};
    CHECK_EQ(name, cay_core_account_create(f->core, name, &f->a, &h, &err), 0);
    return (struct cay_account){.id = cay_arena_strdup(&f->a, h.id), .scopes = FULL};
}

static const char *make_key(struct fixture *f, const struct cay_account *who, unsigned scopes,
                            int64_t expires_at_ms, struct cay_key *out)
{
    struct cay_error err = {0};
    const char *token = "";
    struct cay_key_spec spec = {.name = "k", .scopes = scopes, .expires_at_ms = expires_at_ms};
    CHECK_EQ("a key", cay_core_key_create(f->core, who, &spec, &f->a, out, &token, &err), 0);
    return token;
}

TEST(access_admits_by_key)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_account got;
    struct cay_key key, other;
    fixture_open(&f);
    struct cay_account alice = someone(&f, "alice");
    const char *token = make_key(&f, &alice, CAY_SCOPE_READ, 0, &key);
    CHECK_EQ("its form", strlen(token), strlen("cay_") + CAY_KEY_SECRET);
    CHECK("the secret is not what is kept", !strstr(key.hash, token + 4));
    for (int i = 0; i < 2; i++) { /* from the store, then from memory */
        CHECK_EQ("it opens", cay_core_admit(f.core, token, &f.a, &got, &err), 0);
        CHECK_STR("as whom", got.id, alice.id);
        CHECK_STR("by which", got.key_id, key.id);
        CHECK_EQ("for what", got.scopes, CAY_SCOPE_READ);
    }
    make_key(&f, &alice, CAY_SCOPE_READ, 0, &other);
    CHECK_EQ("another is revoked", cay_core_key_revoke(f.core, &alice, NULL, other.id, &err), 0);
    CHECK_EQ("this one stays", cay_core_admit(f.core, token, &f.a, &got, &err), 0);
    CHECK_EQ("revoked", cay_core_key_revoke(f.core, &alice, NULL, key.id, &err), 0);
    CHECK_EQ("at once", cay_core_admit(f.core, token, &f.a, &got, &err), CAY_ERR_UNAUTHORIZED);
    CHECK_STR("in these words", err.msg, "a valid token is needed");

    token = make_key(&f, &alice, CAY_SCOPE_READ, cay_clock_ms() + 3600000, &key);
    CHECK_EQ("the account goes",
             cay_core_account_delete(f.core, "alice", &f.a, &(struct cay_holder){0}, &err), 0);
    CHECK_EQ("with its keys", cay_core_admit(f.core, token, &f.a, &got, &err),
             CAY_ERR_UNAUTHORIZED);
    fixture_close(&f);
}

TEST(access_refuses_what_is_no_token)
{
    static const char *const bad[] = {"",
                                      "cay_",
                                      "cay_00",
                                      "cays_",
                                      "cays_x.y.1.z",
                                      "x",
                                      "cays_...",
                                      "cays_sb-00000000000000000000.local.9999999999999."};
    struct fixture f;
    struct cay_error err = {0};
    struct cay_account got;
    fixture_open(&f);
    for (size_t i = 0; i < COUNT(bad); i++)
        CHECK_EQ(bad[i], cay_core_admit(f.core, bad[i], &f.a, &got, &err), CAY_ERR_UNAUTHORIZED);
    fixture_close(&f);
}

TEST(access_bounds_a_key_by_its_maker)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_key key;
    const char *token;
    fixture_open(&f);
    struct cay_account alice = someone(&f, "alice");
    struct cay_key_spec spec = {.name = "k", .scopes = CAY_SCOPE_WRITE};
    alice.scopes = CAY_SCOPE_READ | CAY_SCOPE_ACCOUNT;
    CHECK_EQ("more than it has",
             cay_core_key_create(f.core, &alice, &spec, &f.a, &key, &token, &err),
             CAY_ERR_FORBIDDEN);
    spec = (struct cay_key_spec){.name = "k", .scopes = CAY_SCOPE_READ, .expires_at_ms = 1000};
    CHECK_EQ("over before it begins",
             cay_core_key_create(f.core, &alice, &spec, &f.a, &key, &token, &err), CAY_ERR_INVALID);
    fixture_close(&f);
}

TEST(access_sandbox_token_lives_with_its_sandbox)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_account got;
    struct cay_sandbox_token t = {0};
    fixture_open(&f);
    struct cay_sandbox sb = fixture_create(&f, "box", false), gone;
    CHECK_EQ("made", cay_core_sandbox_token(f.core, &f.me, "box", &f.a, &t, &err), 0);
    CHECK("not for ever", t.expires_at_ms <= cay_clock_ms() + CAY_SANDBOX_TOKEN_MS);
    CHECK_EQ("it opens", cay_core_admit(f.core, t.token, &f.a, &got, &err), 0);
    CHECK_STR("this one", got.only, sb.id);
    CHECK_EQ("not to write", got.scopes, CAY_SCOPE_READ | CAY_SCOPE_EXEC);
    CHECK_EQ("nor to make another", cay_core_sandbox_token(f.core, &got, sb.id, &f.a, &t, &err),
             CAY_ERR_FORBIDDEN);
    for (size_t i = 0; i < strlen(t.token); i += 7) { /* each part is signed */
        char *forged = cay_arena_strdup(&f.a, t.token);
        forged[i] = forged[i] == '1' ? '2' : '1';
        CHECK_EQ(forged, cay_core_admit(f.core, forged, &f.a, &got, &err), CAY_ERR_UNAUTHORIZED);
    }
    CHECK_EQ("deleted",
             cay_core_delete(f.core, &f.me, sb.id, CAY_WORKSPACE_AS_IT_IS, &f.a, &gone, &err), 0);
    CHECK_EQ("and the token with it", cay_core_admit(f.core, t.token, &f.a, &got, &err),
             CAY_ERR_UNAUTHORIZED);
    fixture_close(&f);
}

TEST(access_makes_an_account_on_first_sight)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_account one, two, three;
    fixture_open(&f);
    int64_t later = cay_clock_ms() + 60000;
    CHECK("not known yet", !cay_core_recall(f.core, "t1", &f.a, &one));
    CHECK_EQ("made", cay_core_admit_as(f.core, "t1", "jwt:ann", ~0U, later, &f.a, &one, &err), 0);
    CHECK_EQ("found", cay_core_admit_as(f.core, "t2", "jwt:ann", ~0U, later, &f.a, &two, &err), 0);
    CHECK_STR("the same", one.id, two.id);
    CHECK("remembered", cay_core_recall(f.core, "t1", &f.a, &three));
    CHECK_STR("as the same", three.id, one.id);
    CHECK_EQ("over", cay_core_admit_as(f.core, "t3", "jwt:ann", ~0U, 1000, &f.a, &two, &err), 0);
    CHECK("is not remembered", !cay_core_recall(f.core, "t3", &f.a, &three));
    fixture_close(&f);
}

static int create(struct fixture *f, const struct cay_account *who, const char *team_id,
                  struct cay_sandbox *out, struct cay_error *err)
{
    struct cay_spec spec = cay_spec_default();
    spec.memory_bytes = CAY_MIN_MEMORY_BYTES;
    spec.team_id = team_id;
    return cay_core_create(f->core, who, &spec, &f->a, out, err);
}

TEST(access_roles_decide_about_a_teams_sandboxes)
{
    static const struct {
        const char *name;
        enum cay_role role;
        bool reads;
        int get, stop;
    } cases[] = {
        {"a viewer who looks", CAY_ROLE_VIEWER, true, 0, CAY_ERR_FORBIDDEN},
        {"a viewer who changes", CAY_ROLE_VIEWER, false, CAY_ERR_FORBIDDEN, CAY_ERR_FORBIDDEN},
        {"a member", CAY_ROLE_MEMBER, false, 0, 0},
        {"an owner", CAY_ROLE_OWNER, false, 0, 0},
        {"a stranger", CAY_ROLE_NONE, true, CAY_ERR_FORBIDDEN, CAY_ERR_FORBIDDEN},
    };
    struct fixture f;
    struct cay_error err = {0};
    struct cay_holder team;
    struct cay_member m;
    struct cay_sandbox sb, got;
    fixture_open(&f);
    struct cay_account ann = someone(&f, "ann"), bob = someone(&f, "bob");
    CHECK_EQ("a team", cay_core_team_create(f.core, &ann, "crew", &f.a, &team, &err), 0);
    CHECK_EQ("its sandbox", create(&f, &ann, team.id, &sb, &err), 0);
    CHECK_STR("is the team's", sb.account_id, team.id);
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct cay_account who = bob;
        who.reads = cases[i].reads;
        if (cases[i].role != CAY_ROLE_NONE || i > 0)
            CHECK_EQ(
                "role",
                cay_core_team_member(f.core, &ann, team.id, "bob", cases[i].role, &f.a, &m, &err),
                0);
        CHECK_EQ(cases[i].name, cay_core_get(f.core, &who, sb.id, &f.a, &got, &err), cases[i].get);
        who.reads = false;
        CHECK_EQ(cases[i].name, cay_core_stop(f.core, &who, sb.id, 0, &f.a, &got, &err),
                 cases[i].stop);
        struct cay_core_filter filter = {.row = {.page = 1, .per_page = 10}, .team_id = team.id};
        struct cay_sandbox_list list = {0};
        int want = cases[i].role == CAY_ROLE_NONE ? CAY_ERR_FORBIDDEN : 0;
        CHECK_EQ(cases[i].name, cay_core_list(f.core, &who, &filter, &f.a, &list, &err), want);
        CHECK_EQ(cases[i].name, list.count, want == 0 ? 1 : 0);
    }
    CHECK_EQ("no team of his", create(&f, &bob, team.id, &sb, &err), CAY_ERR_FORBIDDEN);
    CHECK_EQ("no team at all", create(&f, &bob, "tm-00000000000000000000", &sb, &err),
             CAY_ERR_NOT_FOUND);
    CHECK_EQ("the last owner",
             cay_core_team_member(f.core, &ann, team.id, "ann", CAY_ROLE_NONE, &f.a, &m, &err),
             CAY_ERR_CONFLICT);
    CHECK_EQ("a team in use", cay_core_team_delete(f.core, &ann, team.id, &err), CAY_ERR_CONFLICT);
    fixture_close(&f);
}

TEST(access_quota_is_told)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_sandbox sb;
    struct cay_holder h;
    struct cay_quota quota = cay_quota_none(), used;
    fixture_open(&f);
    struct cay_account ann = someone(&f, "ann");
    quota.at[CAY_QUOTA_SANDBOXES] = 1;
    CHECK_EQ("set", cay_core_quota_set(f.core, ann.id, &quota, &err), 0);
    CHECK_EQ("the first", create(&f, &ann, NULL, &sb, &err), 0);
    CHECK_EQ("the second", create(&f, &ann, NULL, &sb, &err), CAY_ERR_LIMIT);
    CHECK_STR("says so", cay_error_name(&err), "QUOTA_EXCEEDED");
    CHECK_STR("of what", err.quota, "sandboxes");
    CHECK_EQ("leaves nothing", fixture_rows(&f), 1);
    CHECK_EQ("told", cay_core_quota(f.core, &ann, NULL, &f.a, &h, &used, &err), 0);
    CHECK_EQ("limit", h.quota.at[CAY_QUOTA_SANDBOXES], 1);
    CHECK_EQ("used", used.at[CAY_QUOTA_SANDBOXES], 1);
    CHECK_EQ("local has none", create(&f, &f.me, NULL, &sb, &err), 0);
    fixture_close(&f);
}
