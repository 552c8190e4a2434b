/* SPDX-License-Identifier: Apache-2.0 */
/* What every store must do with accounts, teams, keys and quotas. */
#include "model/limits.h"
#include "tests/contract/stores.h"
#include <fcntl.h>
#include <pthread.h>

static struct cay_holder put_holder(struct cay_store *s, bool team, const char *name)
{
    struct cay_error err = {0};
    struct cay_holder h = {
        .is_team = team, .name = name, .quota = cay_quota_none(), .created_at_ms = 1000};
    (team ? cay_id_team : cay_id_account)(h.id);
    CHECK_EQ(name, cay_store_holder_put(s, &h, &err), 0);
    return h;
}

static struct cay_key add_key(struct cay_store *s, const char *account, const char *name)
{
    struct cay_error err = {0};
    struct cay_key key = {.account_id = account,
                          .name = name,
                          .scopes = CAY_SCOPE_READ | CAY_SCOPE_WRITE,
                          .created_at_ms = 1000,
                          .expires_at_ms = 5000};
    cay_id_key(key.id);
    cay_id_hex(key.hash, 64);
    CHECK_EQ(name, cay_store_key_add(s, &key, &err), 0);
    return key;
}

static struct cay_sandbox sandbox(const char *account, const char *name)
{
    struct cay_sandbox sb = {.account_id = account,
                             .spec = cay_spec_default(),
                             .state = CAY_RUNNING,
                             .created_at_ms = 1000,
                             .updated_at_ms = 1000};
    cay_id_sandbox(sb.id);
    sb.spec.name = name;
    return sb;
}

static void holders(struct cay_store *s, const char *store)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_error err = {0};
    struct cay_holder alice = put_holder(s, false, "alice"), got;
    struct cay_holder team = put_holder(s, true, "alice"); /* a team may be called the same */
    struct cay_holder_list list;
    alice.quota.at[CAY_QUOTA_MEMORY_BYTES] = 0;
    alice.quota.at[CAY_QUOTA_LOG_BYTES] = 1LL << 40;
    CHECK_EQ(store, cay_store_holder_put(s, &alice, &err), 0);
    CHECK_EQ("by name", cay_store_holder_get(s, "alice", &a, &got, &err), 0);
    CHECK_STR("the account's", got.id, alice.id);
    CHECK_EQ("a quota of nothing", got.quota.at[CAY_QUOTA_MEMORY_BYTES], 0);
    CHECK_EQ("a large one", got.quota.at[CAY_QUOTA_LOG_BYTES], 1LL << 40);
    CHECK_EQ("and none", got.quota.at[CAY_QUOTA_SANDBOXES], CAY_QUOTA_NONE);
    CHECK_EQ("a team by id", cay_store_holder_get(s, team.id, &a, &got, &err), 0);
    CHECK("it is one", got.is_team);
    CHECK_EQ("accounts", cay_store_holder_list(s, false, &a, &list, &err), 0);
    CHECK_EQ("one", list.count, 1);

    struct cay_holder twin = alice;
    cay_id_account(twin.id);
    CHECK_EQ("one name, two accounts", cay_store_holder_put(s, &twin, &err), CAY_ERR_CONFLICT);
    CHECK_STR("says so", cay_error_name(&err), "NAME_TAKEN");
    alice.deleted_at_ms = 2000;
    CHECK_EQ("deleted", cay_store_holder_put(s, &alice, &err), 0);
    CHECK_EQ("is gone", cay_store_holder_get(s, alice.id, &a, &got, &err), CAY_ERR_NOT_FOUND);
    CHECK_EQ("the name is free", cay_store_holder_put(s, &twin, &err), 0);
}

TEST(store_keeps_accounts)
{
    each_store(holders);
}

static void keys(struct cay_store *s, const char *store)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_error err = {0};
    struct cay_holder alice = put_holder(s, false, "alice");
    struct cay_key one = add_key(s, alice.id, "one"), two = add_key(s, "local", "two"), got;
    struct cay_key_list list;
    CHECK_EQ(store, cay_store_key_find(s, one.hash, &a, &got, &err), 0);
    CHECK_STR("id", got.id, one.id);
    CHECK_STR("account", got.account_id, alice.id);
    CHECK_EQ("scopes", got.scopes, one.scopes);
    CHECK_EQ("expires", got.expires_at_ms, 5000);
    CHECK_EQ("never used", got.last_used_at_ms, 0);
    CHECK_EQ("no such", cay_store_key_find(s, "00", &a, &got, &err), CAY_ERR_NOT_FOUND);
    CHECK_EQ("used", cay_store_key_mark(s, alice.id, one.id, CAY_KEY_USED, 3000, &err), 0);
    CHECK_EQ("revoked", cay_store_key_mark(s, alice.id, one.id, CAY_KEY_REVOKED, 4000, &err), 0);
    CHECK_EQ("again", cay_store_key_mark(s, alice.id, one.id, CAY_KEY_REVOKED, 4500, &err), 0);
    CHECK_EQ("another's", cay_store_key_mark(s, "local", one.id, CAY_KEY_REVOKED, 1, &err),
             CAY_ERR_NOT_FOUND);
    CHECK_EQ("a list", cay_store_key_list(s, alice.id, &a, &list, &err), 0);
    CHECK_EQ("of its own", list.count, 1);
    CHECK_EQ("used then", list.at[0].last_used_at_ms, 3000);
    CHECK_EQ("revoked first then", list.at[0].revoked_at_ms, 4000);
    CHECK_EQ("local has no row", cay_store_key_find(s, two.hash, &a, &got, &err), 0);
    alice.deleted_at_ms = 6000;
    CHECK_EQ("the account goes", cay_store_holder_put(s, &alice, &err), 0);
    CHECK_EQ("its keys too", cay_store_key_find(s, one.hash, &a, &got, &err), CAY_ERR_NOT_FOUND);
}

TEST(store_keeps_keys)
{
    each_store(keys);
}

static void members(struct cay_store *s, const char *store)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_error err = {0};
    struct cay_holder alice = put_holder(s, false, "alice"), bob = put_holder(s, false, "bob");
    struct cay_holder team = put_holder(s, true, "crew"), other = put_holder(s, true, "others");
    struct cay_member m[] = {{team.id, alice.id, CAY_ROLE_OWNER, 1000},
                             {team.id, bob.id, CAY_ROLE_VIEWER, 2000},
                             {other.id, bob.id, CAY_ROLE_OWNER, 3000}};
    struct cay_member_list list;
    for (size_t i = 0; i < COUNT(m); i++)
        CHECK_EQ(store, cay_store_member_put(s, &m[i], &err), 0);
    m[1].role = CAY_ROLE_MEMBER;
    CHECK_EQ("a new role", cay_store_member_put(s, &m[1], &err), 0);
    CHECK_EQ("of a team", cay_store_member_list(s, team.id, NULL, &a, &list, &err), 0);
    CHECK_EQ("two", list.count, 2);
    CHECK_STR("by name", list.at[0].account_name, "alice");
    CHECK_EQ("as a member", list.at[1].role, CAY_ROLE_MEMBER);
    CHECK_EQ("of an account", cay_store_member_list(s, NULL, bob.id, &a, &list, &err), 0);
    CHECK_EQ("two teams", list.count, 2);
    CHECK_STR("by name", list.at[0].team_name, "crew");
    CHECK_EQ("both", cay_store_member_list(s, other.id, alice.id, &a, &list, &err), 0);
    CHECK_EQ("nobody", list.count, 0);
    m[1].role = CAY_ROLE_NONE;
    CHECK_EQ("taken out", cay_store_member_put(s, &m[1], &err), 0);
    CHECK_EQ("asked", cay_store_member_list(s, team.id, bob.id, &a, &list, &err), 0);
    CHECK_EQ("gone", list.count, 0);
    other.deleted_at_ms = 4000;
    CHECK_EQ("a team goes", cay_store_holder_put(s, &other, &err), 0);
    CHECK_EQ("with its members", cay_store_member_list(s, NULL, bob.id, &a, &list, &err), 0);
    CHECK_EQ("all", list.count, 0);
}

TEST(store_keeps_members)
{
    each_store(members);
}

static void owners(struct cay_store *s, const char *store)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_error err = {0};
    struct cay_sandbox sb = sandbox("local", "box");
    const char *whose = NULL;
    CHECK_EQ(store, cay_store_insert(s, &sb, CAY_NOW, &err), 0);
    CHECK_EQ("known", cay_store_whose(s, sb.id, &a, &whose, &err), 0);
    CHECK_STR("local's", whose, "local");
    CHECK_EQ("unknown", cay_store_whose(s, "sb-00000000000000000000", &a, &whose, &err),
             CAY_ERR_NOT_FOUND);
}

TEST(store_tells_whose_it_is)
{
    each_store(owners);
}

#define PARALLEL 24

struct rush {
    struct cay_store *s;
    const char *account;
    int made, refused;
    pthread_mutex_t lock;
};

static void *insert_one(void *arg)
{
    struct rush *rush = arg;
    struct cay_error err = {0};
    char name[20];
    cay_id_hex(name, 16);
    struct cay_sandbox sb = sandbox(rush->account, name);
    int r = cay_store_insert(rush->s, &sb, CAY_SOON, &err);
    pthread_mutex_lock(&rush->lock);
    rush->made += r == 0;
    rush->refused += r == CAY_ERR_LIMIT && strcmp(cay_error_name(&err), "QUOTA_EXCEEDED") == 0;
    pthread_mutex_unlock(&rush->lock);
    return NULL;
}

static void quotas(struct cay_store *s, const char *store)
{
    struct cay_error err = {0};
    struct cay_holder alice = put_holder(s, false, "alice");
    struct cay_quota used;
    struct rush rush = {.s = s, .account = alice.id};
    pthread_t threads[PARALLEL];
    pthread_mutex_init(&rush.lock, NULL);
    alice.quota.at[CAY_QUOTA_SANDBOXES] = 5;
    alice.quota.at[CAY_QUOTA_CPU_MILLI] = 100 * CAY_DEFAULT_CPU_MILLI;
    CHECK_EQ(store, cay_store_holder_put(s, &alice, &err), 0);
    for (int i = 0; i < PARALLEL; i++)
        pthread_create(&threads[i], NULL, insert_one, &rush);
    for (int i = 0; i < PARALLEL; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQ("as many as it allows", rush.made, 5);
    CHECK_EQ("the others are told so", rush.refused, PARALLEL - 5);
    CHECK_EQ("usage", cay_store_usage(s, alice.id, &used, &err), 0);
    CHECK_EQ("sandboxes", used.at[CAY_QUOTA_SANDBOXES], 5);
    CHECK_EQ("cores", used.at[CAY_QUOTA_CPU_MILLI], 5 * CAY_DEFAULT_CPU_MILLI);
    CHECK_EQ("disk", used.at[CAY_QUOTA_DISK_BYTES], 5 * CAY_DEFAULT_DISK_BYTES);

    alice.quota.at[CAY_QUOTA_SANDBOXES] = CAY_QUOTA_NONE;
    alice.quota.at[CAY_QUOTA_CPU_MILLI] = 5 * CAY_DEFAULT_CPU_MILLI + 500;
    CHECK_EQ("another bound", cay_store_holder_put(s, &alice, &err), 0);
    struct cay_sandbox sb = sandbox(alice.id, "large");
    CHECK_EQ("too large", cay_store_insert(s, &sb, CAY_NOW, &err), CAY_ERR_LIMIT);
    CHECK_STR("which", err.quota, "vcpus");
    CHECK("limit", err.limit == 5.5);
    CHECK("used", err.used == 5.0);
    sb.spec.cpu_milli = 500;
    CHECK_EQ("what fits exactly", cay_store_insert(s, &sb, CAY_NOW, &err), 0);
    sb.spec.cpu_milli = 501;
    CHECK_EQ("it cannot grow", cay_store_update(s, &sb, CAY_NOW, &err), CAY_ERR_LIMIT);
    sb.spec.cpu_milli = 500;
    alice.quota.at[CAY_QUOTA_CPU_MILLI] = 0;
    CHECK_EQ("less than it has", cay_store_holder_put(s, &alice, &err), 0);
    CHECK_EQ("what is there goes on", cay_store_update(s, &sb, CAY_NOW, &err), 0);
    sb.spec.cpu_milli = 400;
    CHECK_EQ("and may shrink", cay_store_update(s, &sb, CAY_NOW, &err), 0);
    alice.deleted_at_ms = 7000;
    CHECK_EQ("not while it has any", cay_store_holder_put(s, &alice, &err), CAY_ERR_CONFLICT);
    CHECK_STR("says so", cay_error_name(&err), "ACCOUNT_IN_USE");
    struct cay_holder bob = put_holder(s, false, "bob");
    bob.deleted_at_ms = 7000;
    CHECK_EQ("who has none may go", cay_store_holder_put(s, &bob, &err), 0);
    sb = sandbox(bob.id, "late");
    CHECK_EQ("and gets none", cay_store_insert(s, &sb, CAY_NOW, &err), CAY_ERR_FORBIDDEN);
    sb = sandbox("local", "free");
    CHECK_EQ("others have none", cay_store_insert(s, &sb, CAY_NOW, &err), 0);
    pthread_mutex_destroy(&rush.lock);
}

TEST(store_holds_quotas_against_rows)
{
    each_store(quotas);
}
