/* SPDX-License-Identifier: Apache-2.0 */
/* Who comes in: keys, sandboxes' own tokens, and names that somebody else vouches for.
 *
 * A key is 256 random bits. What is kept of it is its SHA-256: a slow hash protects secrets that
 * people choose, by making guesses dear; nobody guesses 256 bits, and every request pays. It is
 * looked up by that hash, so no time depends on how much of a secret was right.
 *
 * A sandbox's token says what it opens and until when, signed with a key of the data directory; the
 * server keeps nothing of it. It is good while its sandbox lives. */
#include "core/access.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/sha256.h"
#include "core/core.h"
#include "model/limits.h"
#include <stdio.h>
#include <string.h>

#define ALL_SCOPES (CAY_SCOPE_READ | CAY_SCOPE_EXEC | CAY_SCOPE_WRITE | CAY_SCOPE_ACCOUNT)

int cay_core_refuse(struct cay_error *err)
{
    return cay_fail(err, CAY_ERR_UNAUTHORIZED, "a valid token is needed");
}

static void hash_of(const char *token, uint8_t out[32])
{
    struct cay_sha256 s;
    cay_sha256_init(&s);
    cay_sha256_add(&s, token, strlen(token));
    cay_sha256_done(&s, out);
}

static void hex_of(const uint8_t sum[32], char out[CAY_KEY_HASH_SIZE])
{
    for (size_t i = 0; i < 32; i++)
        (void)snprintf(out + 2 * i, 3, "%02x", sum[i]); /* two digits */
}

static void tell(const struct cay_keyring_entry *e, struct cay_arena *a, struct cay_account *out)
{
    *out = (struct cay_account){.id = cay_arena_strdup(a, e->account_id), .scopes = e->scopes};
    if (e->key_id[0])
        out->key_id = cay_arena_strdup(a, e->key_id);
}

/* At most once a minute and key; a failure costs nobody his request. */
static void note_use(struct cay_core *core, const struct cay_key *key, int64_t now_ms)
{
    struct cay_error err = {0};
    if (now_ms - key->last_used_at_ms >= CAY_KEY_USED_MS &&
        cay_store_key_mark(core->store, key->account_id, key->id, CAY_KEY_USED, now_ms, &err) < 0)
        cay_log_error(&err, "cannot note that key %s was used", key->id);
}

static int admit_key(struct cay_core *core, const char *token, struct cay_arena *a,
                     struct cay_account *out, struct cay_error *err)
{
    struct cay_keyring_entry e = {0};
    struct cay_key key;
    char hex[CAY_KEY_HASH_SIZE];
    uint64_t turn;
    uint8_t hash[32];
    hash_of(token, hash);
    if (cay_keyring_get(&core->keyring, hash, &e, &turn)) {
        tell(&e, a, out);
        return 0;
    }
    hex_of(hash, hex);
    int64_t now_ms = cay_clock_ms();
    int r = cay_store_key_find(core->store, hex, a, &key, err);
    if (r < 0 && r != CAY_ERR_NOT_FOUND)
        return r;
    if (r < 0 || key.revoked_at_ms > 0 || (key.expires_at_ms > 0 && key.expires_at_ms <= now_ms))
        return cay_core_refuse(err);
    note_use(core, &key, now_ms);
    e = (struct cay_keyring_entry){.scopes = key.scopes, .over_at_ms = key.expires_at_ms};
    memcpy(e.hash, hash, sizeof e.hash);
    cay_str_copy(e.account_id, sizeof e.account_id, key.account_id);
    cay_str_copy(e.key_id, sizeof e.key_id, key.id);
    cay_keyring_put(&core->keyring, &e, turn);
    tell(&e, a, out);
    return 0;
}

/* ---- sandboxes' own tokens: cays_ID.ACCOUNT.EXPIRY.SIGNATURE ---- */

static void sign(const struct cay_core *core, const char *said, size_t len,
                 char out[CAY_KEY_HASH_SIZE])
{
    uint8_t sum[32];
    cay_sha256_hmac(core->token_key, sizeof core->token_key, said, len, sum);
    hex_of(sum, out);
}

static bool is_signed(const struct cay_core *core, const char *token, const char *last_dot)
{
    char want[CAY_KEY_HASH_SIZE];
    const char *got = last_dot + 1;
    uint8_t differ = 0;
    sign(core, token, (size_t)(last_dot - token), want);
    if (strlen(got) != sizeof want - 1)
        return false;
    for (size_t i = 0; i < sizeof want - 1; i++) /* all of it, so that time tells nothing */
        differ |= (uint8_t)(got[i] ^ want[i]);
    return differ == 0;
}

static int admit_sandbox(struct cay_core *core, const char *token, struct cay_arena *a,
                         struct cay_account *out, struct cay_error *err)
{
    const char *last = strrchr(token, '.');
    uint64_t until_ms = 0;
    struct cay_sandbox sb;
    if (!last || !is_signed(core, token, last))
        return cay_core_refuse(err);
    /* From here on it is what we wrote. */
    char *id = cay_arena_strndup(a, token + strlen(CAY_SANDBOX_PREFIX),
                                 (size_t)(last - token) - strlen(CAY_SANDBOX_PREFIX));
    char *account = strchr(id, '.'), *until = account ? strchr(account + 1, '.') : NULL;
    if (!until || !cay_str_u64(until + 1, INT64_MAX, &until_ms) ||
        (int64_t)until_ms <= cay_clock_ms())
        return cay_core_refuse(err);
    *account++ = 0;
    *until = 0;
    int r = cay_store_get(core->store, account, id, a, &sb, err);
    if (r == CAY_ERR_NOT_FOUND || r == CAY_ERR_FORBIDDEN)
        return cay_core_refuse(err);
    if (r == 0 && sb.deleted_at_ms > 0) /* who has it may know */
        return cay_fail_as(err, CAY_ERR_UNAUTHORIZED, "SANDBOX_GONE",
                           "the token's sandbox is gone");
    if (r < 0)
        return r;
    *out =
        (struct cay_account){.id = account, .scopes = CAY_SCOPE_READ | CAY_SCOPE_EXEC, .only = id};
    return 0;
}

int cay_core_sandbox_token(struct cay_core *core, const struct cay_account *owner, const char *id,
                           struct cay_arena *a, struct cay_sandbox_token *out,
                           struct cay_error *err)
{
    struct cay_sandbox sb;
    char signature[CAY_KEY_HASH_SIZE];
    if (owner->only)
        return cay_fail(err, CAY_ERR_FORBIDDEN, "a sandbox's token makes no other");
    int r = cay_core_find(core, owner, id, a, &sb, err);
    if (r < 0)
        return r;
    if (sb.deleted_at_ms > 0)
        return cay_fail_as(err, CAY_ERR_CONFLICT, "SANDBOX_NOT_RUNNING", "the sandbox is gone");
    int64_t until_ms = cay_clock_ms() + CAY_SANDBOX_TOKEN_MS;
    const char *said = cay_arena_printf(a, CAY_SANDBOX_PREFIX "%s.%s.%lld", sb.id, sb.account_id,
                                        (long long)until_ms);
    sign(core, said, strlen(said), signature);
    *out = (struct cay_sandbox_token){.token = cay_arena_printf(a, "%s.%s", said, signature),
                                      .sandbox_id = cay_arena_strdup(a, sb.id),
                                      .account_id = sb.account_id,
                                      .expires_at_ms = until_ms};
    return 0;
}

int cay_core_admit(struct cay_core *core, const char *token, struct cay_arena *a,
                   struct cay_account *out, struct cay_error *err)
{
    if (strncmp(token, CAY_SANDBOX_PREFIX, strlen(CAY_SANDBOX_PREFIX)) == 0)
        return admit_sandbox(core, token, a, out, err);
    if (strncmp(token, CAY_KEY_PREFIX, strlen(CAY_KEY_PREFIX)) == 0)
        return admit_key(core, token, a, out, err);
    return cay_core_refuse(err);
}

/* ---- names that somebody else vouches for ---- */

bool cay_core_recall(struct cay_core *core, const char *token, struct cay_arena *a,
                     struct cay_account *out)
{
    struct cay_keyring_entry e;
    uint64_t turn;
    uint8_t hash[32];
    hash_of(token, hash);
    bool known = cay_keyring_get(&core->keyring, hash, &e, &turn);
    if (known)
        tell(&e, a, out);
    return known;
}

static int make_account(struct cay_core *core, const char *name, struct cay_arena *a,
                        struct cay_holder *out, struct cay_error *err)
{
    struct cay_holder h = {.name = cay_arena_strdup(a, name),
                           .quota = cay_quota_none(),
                           .created_at_ms = cay_clock_ms()};
    cay_id_account(h.id);
    int r = cay_store_holder_put(core->store, &h, err);
    if (r == 0)
        *out = h;
    return r;
}

int cay_core_admit_as(struct cay_core *core, const char *token, const char *name, unsigned scopes,
                      int64_t until_ms, struct cay_arena *a, struct cay_account *out,
                      struct cay_error *err)
{
    struct cay_keyring_entry e = {.scopes = scopes & ALL_SCOPES, .over_at_ms = until_ms};
    struct cay_holder h;
    uint64_t turn;
    uint8_t hash[32];
    hash_of(token, hash);
    (void)cay_keyring_get(&core->keyring, hash, &e, &turn); /* for the turn */
    int r = cay_store_holder_get(core->store, name, a, &h, err);
    if (r == CAY_ERR_NOT_FOUND)
        r = make_account(core, name, a, &h, err);
    if (r == CAY_ERR_CONFLICT) /* another request with the same name was faster */
        r = cay_store_holder_get(core->store, name, a, &h, err);
    if (r < 0)
        return r;
    memcpy(e.hash, hash, sizeof e.hash);
    cay_str_copy(e.account_id, sizeof e.account_id, h.id);
    cay_keyring_put(&core->keyring, &e, turn);
    tell(&e, a, out);
    return 0;
}

int cay_core_act_for(struct cay_core *core, const char *id_or_name, struct cay_arena *a,
                     struct cay_account *out, struct cay_error *err)
{
    struct cay_holder h;
    int r = cay_core_holder(core, id_or_name, a, &h, err);
    if (r == 0)
        *out = (struct cay_account){.id = cay_arena_strdup(a, h.id),
                                    .scopes = ALL_SCOPES | CAY_SCOPE_ADMIN | CAY_SCOPE_IMAGES};
    return r;
}

/* ---- keys ---- */

static int key_holder(struct cay_core *core, const struct cay_account *owner, const char *team_id,
                      struct cay_account *out, struct cay_error *err)
{
    return cay_core_as_team(core, owner, team_id, CAY_ROLE_OWNER, out, err);
}

static int check_key(const struct cay_account *owner, const struct cay_key_spec *spec,
                     int64_t now_ms, struct cay_error *err)
{
    size_t len = strlen(spec->name);
    if (len == 0 || len > CAY_MAX_LABEL)
        return cay_fail_field(err, "name", "name must have 1 to %d bytes", CAY_MAX_LABEL);
    if (spec->expires_at_ms != 0 && spec->expires_at_ms <= now_ms)
        return cay_fail_field(err, "expiresAt", "expiresAt must be in the future");
    if (spec->scopes & ~owner->scopes & ALL_SCOPES)
        return cay_fail(err, CAY_ERR_FORBIDDEN, "a key cannot have scopes that its maker has not");
    return 0;
}

int cay_core_key_create(struct cay_core *core, const struct cay_account *owner,
                        const struct cay_key_spec *spec, struct cay_arena *a, struct cay_key *out,
                        const char **token_out, struct cay_error *err)
{
    struct cay_account as;
    struct cay_key_list there;
    struct cay_key key = {.name = spec->name,
                          .scopes = spec->scopes & ALL_SCOPES,
                          .created_at_ms = cay_clock_ms(),
                          .expires_at_ms = spec->expires_at_ms};
    char token[sizeof CAY_KEY_PREFIX + CAY_KEY_SECRET] = CAY_KEY_PREFIX;
    uint8_t hash[32];
    int r = key_holder(core, owner, spec->team_id, &as, err);
    if (r == 0)
        r = check_key(owner, spec, key.created_at_ms, err);
    if (r == 0)
        r = cay_store_key_list(core->store, as.id, a, &there, err);
    if (r == 0 && there.count >= CAY_MAX_KEYS)
        r = cay_fail_as(err, CAY_ERR_LIMIT, "TOO_MANY_KEYS", "at most %d keys of one account",
                        CAY_MAX_KEYS);
    if (r < 0)
        return r;
    cay_id_hex(token + strlen(CAY_KEY_PREFIX), CAY_KEY_SECRET);
    hash_of(token, hash);
    hex_of(hash, key.hash);
    cay_id_key(key.id);
    key.account_id = as.id;
    r = cay_store_key_add(core->store, &key, err);
    if (r < 0)
        return r;
    *out = key;
    *token_out = cay_arena_strdup(a, token);
    return 0;
}

int cay_core_key_list(struct cay_core *core, const struct cay_account *owner, const char *team_id,
                      struct cay_arena *a, struct cay_key_list *out, struct cay_error *err)
{
    struct cay_account as;
    int r = key_holder(core, owner, team_id, &as, err);
    return r < 0 ? r : cay_store_key_list(core->store, as.id, a, out, err);
}

int cay_core_key_revoke(struct cay_core *core, const struct cay_account *owner, const char *team_id,
                        const char *key_id, struct cay_error *err)
{
    struct cay_account as;
    int r = key_holder(core, owner, team_id, &as, err);
    if (r == 0)
        r = cay_store_key_mark(core->store, as.id, key_id, CAY_KEY_REVOKED, cay_clock_ms(), err);
    if (r == 0)
        cay_keyring_forget(&core->keyring);
    return r;
}

/* ---- accounts, by the operator ---- */

int cay_core_holder(struct cay_core *core, const char *id, struct cay_arena *a,
                    struct cay_holder *out, struct cay_error *err)
{
    int r = cay_store_holder_get(core->store, id, a, out, err);
    if (r != CAY_ERR_NOT_FOUND || strcmp(id, CAY_LOCAL_ACCOUNT) != 0)
        return r;
    *out = (struct cay_holder){
        .id = CAY_LOCAL_ACCOUNT, .name = CAY_LOCAL_ACCOUNT, .quota = cay_quota_none()};
    return 0;
}

/* A colon would make it look like a name that a JWT said. */
static bool is_name(const char *name)
{
    static const char first[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    size_t len = strlen(name);
    if (len < 1 || len > CAY_MAX_NAME || !strchr(first, name[0]))
        return false;
    for (const char *c = name; *c; c++)
        if (!strchr(first, *c) && !strchr("._@+-", *c))
            return false;
    return true;
}

int cay_core_account_create(struct cay_core *core, const char *name, struct cay_arena *a,
                            struct cay_holder *out, struct cay_error *err)
{
    if (!is_name(name))
        return cay_fail_field(err, "name",
                              "name must be of letters, digits and . _ @ + -, at most "
                              "%d, and begin with one of the first two",
                              CAY_MAX_NAME);
    if (strcmp(name, CAY_LOCAL_ACCOUNT) == 0)
        return cay_fail_as(err, CAY_ERR_CONFLICT, "NAME_TAKEN", "%s is there already", name);
    return make_account(core, name, a, out, err);
}

int cay_core_account_delete(struct cay_core *core, const char *id_or_name, struct cay_arena *a,
                            struct cay_holder *out, struct cay_error *err)
{
    struct cay_holder h;
    int r = cay_core_holder(core, id_or_name, a, &h, err);
    if (r == 0 && strcmp(h.id, CAY_LOCAL_ACCOUNT) == 0)
        r = cay_fail(err, CAY_ERR_CONFLICT, "the account local cannot be removed");
    if (r < 0)
        return r;
    h.deleted_at_ms = cay_clock_ms();
    r = cay_store_holder_put(core->store, &h, err);
    if (r < 0)
        return r;
    cay_keyring_forget(&core->keyring);
    *out = h;
    return 0;
}

int cay_core_accounts(struct cay_core *core, struct cay_arena *a, struct cay_holder_list *out,
                      struct cay_error *err)
{
    return cay_store_holder_list(core->store, false, a, out, err);
}
