/* SPDX-License-Identifier: Apache-2.0 */
/* Every route there is against everybody who may come: who is refused, and how. A route that is
 * not in the table below fails the test, so nobody adds one without saying who may use it. */
#include "base/sha256.h"
#include "tests/api/api.h"

#define FILES "/api/v1/sandbox/{id}/files"
#define EXEC "/api/v1/sandbox/{id}/exec"
#define CONTAINER "/api/sandbox/{id}"
#define PORTS "/api/v1/sandbox/{id}/ports"
#define EXPOSE "/api/v1/sandbox/{id}/expose"
#define UPGRADE                                                                                    \
    "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"                   \
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"

struct entry {
    const char *method, *pattern;
    enum cay_scope scope;
    const char *query, *body; /* that are well in themselves */
    const char *headers;
};

static const struct entry entries[] = {
    {"GET", "/api/v1/health", CAY_SCOPE_NONE},
    {"GET", "/metrics", CAY_SCOPE_READ},
    {"GET", "/api/health", CAY_SCOPE_NONE},
    {"GET", "/api/sandbox", CAY_SCOPE_READ},
    {"POST", "/api/sandbox", CAY_SCOPE_WRITE, "", "{\"memoryLimit\":\"128m\"}"},
    {"POST", "/api/sandbox/exec", CAY_SCOPE_EXEC, "",
     "{\"containerId\":\"x\",\"command\":\"true\"}"},
    {"GET", CONTAINER, CAY_SCOPE_READ},
    {"DELETE", CONTAINER, CAY_SCOPE_WRITE},
    {"POST", CONTAINER "/start", CAY_SCOPE_WRITE},
    {"POST", CONTAINER "/stop", CAY_SCOPE_WRITE, "", "{}"},
    {"POST", CONTAINER "/fork", CAY_SCOPE_WRITE, "", "{}"},
    {"GET", CONTAINER "/logs", CAY_SCOPE_READ},
    {"GET", CONTAINER "/history", CAY_SCOPE_READ},
    {"GET", CONTAINER "/history/bundle", CAY_SCOPE_READ},
    {"POST", CONTAINER "/diff", CAY_SCOPE_READ, "", "{}"},
    {"POST", CONTAINER "/rollback", CAY_SCOPE_EXEC, "", "{\"executionId\":\"exec_0\"}"},
    {"GET", CONTAINER "/exec/{eid}/attach", CAY_SCOPE_EXEC, .headers = UPGRADE},
    {"GET", CONTAINER "/terminal", CAY_SCOPE_EXEC, .headers = UPGRADE},
    {"GET", "/openapi.json", CAY_SCOPE_NONE},
    {"GET", "/docs", CAY_SCOPE_NONE},
    {"GET", "/api/v1/events", CAY_SCOPE_READ},
    {"GET", "/api/v1/audit", CAY_SCOPE_READ},
    {"POST", "/api/v1/batch", CAY_SCOPE_WRITE, "", "{}"},
    {"GET", "/api/v1/account", CAY_SCOPE_READ},
    {"GET", "/api/v1/account/keys", CAY_SCOPE_ACCOUNT},
    {"POST", "/api/v1/account/keys", CAY_SCOPE_ACCOUNT, "", "{\"name\":\"k\"}"},
    {"DELETE", "/api/v1/account/keys/{kid}", CAY_SCOPE_ACCOUNT},
    {"GET", "/api/v1/teams", CAY_SCOPE_READ},
    {"POST", "/api/v1/teams", CAY_SCOPE_ACCOUNT, "", "{\"name\":\"t\"}"},
    {"GET", "/api/v1/teams/{tid}", CAY_SCOPE_READ},
    {"DELETE", "/api/v1/teams/{tid}", CAY_SCOPE_ACCOUNT},
    {"PUT", "/api/v1/teams/{tid}/members/{aid}", CAY_SCOPE_ACCOUNT, "", "{\"role\":\"owner\"}"},
    {"DELETE", "/api/v1/teams/{tid}/members/{aid}", CAY_SCOPE_ACCOUNT},
    {"GET", "/api/v1/quota", CAY_SCOPE_READ},
    {"PUT", "/api/v1/quota", CAY_SCOPE_ADMIN, "", "{}"},
    {"GET", "/api/v1/accounts", CAY_SCOPE_ADMIN},
    {"POST", "/api/v1/accounts", CAY_SCOPE_ADMIN, "", "{\"name\":\"x\"}"},
    {"DELETE", "/api/v1/accounts/{aid}", CAY_SCOPE_ADMIN},
    {"GET", "/api/v1/sandbox", CAY_SCOPE_READ},
    {"POST", "/api/v1/sandbox", CAY_SCOPE_WRITE, "", "{" SMALL "}"},
    {"DELETE", "/api/v1/sandbox", CAY_SCOPE_WRITE, "", "{\"labels\":[\"none\"]}"},
    {"DELETE", "/api/v1/sandbox/bulk", CAY_SCOPE_WRITE, "", "{\"labels\":[\"none\"]}"},
    {"GET", "/api/v1/sandbox/{id}", CAY_SCOPE_READ},
    {"DELETE", "/api/v1/sandbox/{id}", CAY_SCOPE_WRITE},
    {"PATCH", "/api/v1/sandbox/{id}", CAY_SCOPE_WRITE, "", "{}"},
    {"POST", "/api/v1/sandbox/{id}/extend", CAY_SCOPE_WRITE, "", "{\"timeoutMs\":60000}"},
    {"POST", "/api/v1/sandbox/{id}/start", CAY_SCOPE_WRITE},
    {"POST", "/api/v1/sandbox/{id}/stop", CAY_SCOPE_WRITE, "", "{}"},
    {"POST", "/api/v1/sandbox/{id}/pause", CAY_SCOPE_WRITE},
    {"POST", "/api/v1/sandbox/{id}/resume", CAY_SCOPE_WRITE},
    {"POST", "/api/v1/sandbox/{id}/fork", CAY_SCOPE_WRITE, "", "{}"},
    {"POST", "/api/v1/sandbox/{id}/snapshot", CAY_SCOPE_WRITE, "", "{}"},
    {"GET", "/api/v1/sandbox/{id}/history", CAY_SCOPE_READ},
    {"GET", "/api/v1/sandbox/{id}/history/bundle", CAY_SCOPE_READ},
    {"POST", "/api/v1/sandbox/{id}/diff", CAY_SCOPE_READ, "", "{}"},
    {"POST", "/api/v1/sandbox/{id}/rollback", CAY_SCOPE_EXEC, "", "{\"executionId\":\"exec_0\"}"},
    {"GET", "/api/v1/sandbox/{id}/stats", CAY_SCOPE_READ},
    {"GET", "/api/v1/sandbox/{id}/logs", CAY_SCOPE_READ},
    {"POST", "/api/v1/sandbox/{id}/auth-token", CAY_SCOPE_EXEC},
    {"POST", "/api/v1/sandbox/{id}/auth", CAY_SCOPE_EXEC},
    {"POST", "/api/v1/sandbox/status:batchGet", CAY_SCOPE_READ, "", "{\"sandbox_ids\":[\"x\"]}"},
    {"GET", "/api/v1/sandbox/{id}/error-context", CAY_SCOPE_READ},
    {"POST", "/gateway/{ns}/{id}/exec", CAY_SCOPE_EXEC, "", "{\"command\":\"true\"}"},
    {"POST", "/gateway/{ns}/{id}/upload", CAY_SCOPE_EXEC, "?path=/a", "x",
     "Content-Type: multipart/form-data; boundary=x\r\n"},
    {"GET", "/gateway/{ns}/{id}/download", CAY_SCOPE_READ, "?path=/a"},
    {"GET", "/gateway/{ns}/{id}/read-file", CAY_SCOPE_READ, "?path=/a"},
    {"GET", "/api/v1/sandbox/{id}/egress-policy", CAY_SCOPE_READ},
    {"PUT", "/api/v1/sandbox/{id}/egress-policy", CAY_SCOPE_WRITE, "", "{}"},
    {"GET", "/api/v1/sandbox/{id}/network", CAY_SCOPE_READ},
    {"POST", "/api/v1/sandbox/{id}/network/propose", CAY_SCOPE_READ, "", "{}"},
    {"GET", "/api/v1/sandbox/{id}/processes", CAY_SCOPE_READ},
    {"POST", "/api/v1/sandbox/{id}/processes/{pid}/kill", CAY_SCOPE_EXEC, "", "{}"},
    {"GET", "/api/v1/sandbox/{id}/terminal", CAY_SCOPE_EXEC, .headers = UPGRADE},
    {"POST", EXEC, CAY_SCOPE_EXEC, "", "{\"command\":[\"true\"]}"},
    {"GET", EXEC, CAY_SCOPE_READ},
    {"GET", EXEC "/{eid}", CAY_SCOPE_READ},
    {"DELETE", EXEC "/{eid}", CAY_SCOPE_WRITE},
    {"POST", EXEC "/{eid}/kill", CAY_SCOPE_EXEC, "", "{}"},
    {"POST", EXEC "/{eid}/stdin", CAY_SCOPE_EXEC, "", "x"},
    {"POST", EXEC "/{eid}/resize", CAY_SCOPE_EXEC, "", "{\"cols\":80,\"rows\":24}"},
    {"GET", EXEC "/{eid}/output", CAY_SCOPE_READ},
    {"GET", EXEC "/{eid}/attach", CAY_SCOPE_EXEC, .headers = UPGRADE},
    {"GET", FILES, CAY_SCOPE_READ, "?path=/a"},
    {"PUT", FILES, CAY_SCOPE_EXEC, "?path=/a", "x"},
    {"POST", FILES, CAY_SCOPE_EXEC, "?path=/a", "x"},
    {"DELETE", FILES, CAY_SCOPE_EXEC, "?path=/a"},
    {"GET", FILES "/archive", CAY_SCOPE_READ, "?path=/a"},
    {"PUT", FILES "/archive", CAY_SCOPE_EXEC, "?path=/a", "x"},
    {"GET", FILES "/stat", CAY_SCOPE_READ, "?path=/a"},
    {"GET", FILES "/list", CAY_SCOPE_READ, "?path=/a"},
    {"GET", FILES "/watch", CAY_SCOPE_READ, "?path=/a"},
    {"POST", FILES "/mkdir", CAY_SCOPE_EXEC, "", "{\"path\":\"/a\"}"},
    {"POST", FILES "/move", CAY_SCOPE_EXEC, "", "{\"path\":\"/a\",\"to\":\"/b\"}"},
    {"POST", PORTS, CAY_SCOPE_WRITE, "", "{\"port\":3000}"},
    {"GET", PORTS, CAY_SCOPE_READ},
    {"DELETE", PORTS "/{port}", CAY_SCOPE_WRITE},
    {"POST", PORTS "/{port}/link", CAY_SCOPE_EXEC, "", "{}"},
    {"GET", PORTS "/{port}/tunnel", CAY_SCOPE_EXEC, .headers = UPGRADE},
    {"GET", "/api/v1/sandbox/ports", CAY_SCOPE_READ},
    {"POST", EXPOSE, CAY_SCOPE_WRITE, "", "{\"port\":3000}"},
    {"GET", EXPOSE, CAY_SCOPE_READ},
    {"DELETE", EXPOSE "/{xid}", CAY_SCOPE_WRITE},
    {"GET", "/api/v1/sandbox/expose/all", CAY_SCOPE_READ},
    {"GET", "/api/v1/images", CAY_SCOPE_READ},
    {"DELETE", "/api/v1/images", CAY_SCOPE_IMAGES, "?ref=none"},
    {"GET", "/api/v1/images/{ref}", CAY_SCOPE_READ},
    {"DELETE", "/api/v1/images/{ref}", CAY_SCOPE_IMAGES},
    {"POST", "/api/v1/images/pull", CAY_SCOPE_WRITE, "", "{\"image\":\"none\"}"},
    {"POST", "/api/v1/images/build", CAY_SCOPE_WRITE, "", "{\"image\":\"none\"}"},
    {"POST", "/api/v1/images/load", CAY_SCOPE_IMAGES},
    {"POST", "/api/v1/images/prune", CAY_SCOPE_IMAGES},
    {"GET", "/api/v1/images/export", CAY_SCOPE_READ, "?ref=none"},
    {"GET", "/api/v1/jobs", CAY_SCOPE_READ},
    {"GET", "/api/v1/jobs/{jid}", CAY_SCOPE_READ},
    {"DELETE", "/api/v1/jobs/{jid}", CAY_SCOPE_WRITE},
    {"GET", "/api/v1/snapshots", CAY_SCOPE_READ},
    {"GET", "/api/v1/snapshots/{id}", CAY_SCOPE_READ},
    {"DELETE", "/api/v1/snapshots/{id}", CAY_SCOPE_WRITE},
    {"GET", "/api/v1/volumes", CAY_SCOPE_READ},
    {"GET", "/api/v1/volumes/{id}", CAY_SCOPE_READ},
    {"DELETE", "/api/v1/volumes/{id}", CAY_SCOPE_WRITE},
};

enum who {
    NOBODY,
    BAD,
    EXPIRED,
    REVOKED,
    STRANGER,
    VIEWER,
    READER,
    MEMBER,
    THIS,
    ANOTHER,
    WHO_END
};

static const char *const names[] = {"no token",
                                    "a bad token",
                                    "an expired key",
                                    "a revoked key",
                                    "a stranger's key",
                                    "a viewer's key",
                                    "a key that reads",
                                    "the owner's key",
                                    "the sandbox's own token",
                                    "another sandbox's token"};

struct world {
    struct api api;
    const char *tokens[WHO_END];
    struct cay_account owner;
    char sandbox[CAY_ID_SIZE], exec[CAY_ID_SIZE], snapshot[CAY_ID_SIZE], volume[CAY_ID_SIZE];
    char team[CAY_ID_SIZE], key[CAY_ID_SIZE];
};

static struct cay_account someone(struct world *w, const char *name)
{
    struct cay_error err = {0};
    struct cay_holder h = {0};
    CHECK_EQ(name, cay_core_account_create(w->api.f.core, name, &w->api.f.a, &h, &err), 0);
    return (struct cay_account){.id = cay_arena_strdup(&w->api.f.a, h.id),
                                .scopes = CAY_SCOPE_READ | CAY_SCOPE_EXEC | CAY_SCOPE_WRITE |
                                          CAY_SCOPE_ACCOUNT};
}

static const char *key_of(struct world *w, const struct cay_account *who, unsigned scopes,
                          struct cay_key *out)
{
    struct cay_error err = {0};
    const char *token = NULL;
    struct cay_key_spec spec = {.name = "k", .scopes = scopes};
    CHECK_EQ("key", cay_core_key_create(w->api.f.core, who, &spec, &w->api.f.a, out, &token, &err),
             0);
    return token;
}

static const char *expired_key(struct world *w)
{
    static const char token[] = "cay_expired";
    struct cay_error err = {0};
    struct cay_key key = {.account_id = w->owner.id,
                          .name = "old",
                          .scopes = w->owner.scopes,
                          .created_at_ms = 1,
                          .expires_at_ms = 2};
    struct cay_sha256 s;
    uint8_t sum[32];
    cay_sha256_init(&s);
    cay_sha256_add(&s, token, strlen(token));
    cay_sha256_done(&s, sum);
    for (size_t i = 0; i < sizeof sum; i++)
        snprintf(key.hash + 2 * i, 3, "%02x", sum[i]);
    cay_id_key(key.id);
    CHECK_EQ("an old key", cay_store_key_add(w->api.f.store, &key, &err), 0);
    return token;
}

static struct cay_sandbox box(struct world *w, const char *name)
{
    struct cay_error err = {0};
    struct cay_spec spec = cay_spec_default();
    struct cay_sandbox sb = {0};
    spec.name = name;
    spec.memory_bytes = CAY_MIN_MEMORY_BYTES;
    spec.team_id = w->team;
    CHECK_EQ(name, cay_core_create(w->api.f.core, &w->owner, &spec, &w->api.f.a, &sb, &err), 0);
    return sb;
}

static const char *token_of(struct world *w, const char *id)
{
    struct cay_error err = {0};
    struct cay_sandbox_token t = {0};
    CHECK_EQ("a sandbox's token",
             cay_core_sandbox_token(w->api.f.core, &w->owner, id, &w->api.f.a, &t, &err), 0);
    return t.token;
}

/* All things are a team's: one account owns it, one may look, one is a stranger. */
static void make_things(struct world *w)
{
    struct cay_core *core = w->api.f.core;
    struct cay_arena *a = &w->api.f.a;
    struct cay_error err = {0};
    struct cay_holder team = {0};
    struct cay_member m;
    struct cay_kept kept = {0};
    struct cay_execution ex = {0};
    struct cay_exec_spec spec = {0};
    struct cay_sandbox gone = {0};
    struct cay_snapshot_wish wish = {0};
    CHECK_EQ("team", cay_core_team_create(core, &w->owner, "crew", a, &team, &err), 0);
    cay_str_copy(w->team, sizeof w->team, team.id);
    CHECK_EQ("viewer",
             cay_core_team_member(core, &w->owner, team.id, "vera", CAY_ROLE_VIEWER, a, &m, &err),
             0);
    struct cay_sandbox one = box(w, "one"), two = box(w, "two"), three = box(w, "three");
    cay_str_copy(w->sandbox, sizeof w->sandbox, one.id);
    w->tokens[THIS] = token_of(w, one.id);
    w->tokens[ANOTHER] = token_of(w, two.id);
    cay_strs_push(a, &spec.argv, "true");
    CHECK_EQ("exec", cay_core_exec(core, &w->owner, one.id, &spec, a, &ex, NULL, &err), 0);
    cay_str_copy(w->exec, sizeof w->exec, ex.id);
    CHECK_EQ("snapshot", cay_core_snapshot(core, &w->owner, one.id, &wish, a, &kept, &err), 0);
    cay_str_copy(w->snapshot, sizeof w->snapshot, kept.id);
    CHECK_EQ("volume",
             cay_core_delete(core, &w->owner, three.id, CAY_WORKSPACE_KEPT, a, &gone, &err), 0);
    cay_str_copy(w->volume, sizeof w->volume, gone.keeps);
}

static void open_world(struct world *w)
{
    struct cay_error err = {0};
    struct cay_key key;
    *w = (struct world){0};
    api_open_with(&w->api, 0, "keys");
    w->owner = someone(w, "olga");
    struct cay_account vera = someone(w, "vera"), sam = someone(w, "sam");
    make_things(w);
    w->tokens[BAD] = "cay_0000000000000000000000000000000000000000000000000000000000000000";
    w->tokens[EXPIRED] = expired_key(w);
    w->tokens[REVOKED] = key_of(w, &w->owner, w->owner.scopes, &key);
    CHECK_EQ("revoked", cay_core_key_revoke(w->api.f.core, &w->owner, NULL, key.id, &err), 0);
    w->tokens[STRANGER] = key_of(w, &sam, sam.scopes, &key);
    w->tokens[VIEWER] = key_of(w, &vera, vera.scopes, &key);
    w->tokens[READER] = key_of(w, &w->owner, CAY_SCOPE_READ, &key);
    w->tokens[MEMBER] = key_of(w, &w->owner, w->owner.scopes, &key);
    cay_str_copy(w->key, sizeof w->key, key.id);
}

/* The pattern with its parameters filled in; NULL when nobody told what one of them is. */
static const char *path_of(struct world *w, const char *pattern)
{
    const char *id = strstr(pattern, "/snapshots/") ? w->snapshot
                     : strstr(pattern, "/volumes/") ? w->volume
                     : strstr(pattern, "/sandbox/") ? w->sandbox
                     : strstr(pattern, "/gateway/") ? w->sandbox
                                                    : NULL;
    const struct cay_pair known[] = {{"{id}", id},       {"{eid}", w->exec}, {"{pid}", "1"},
                                     {"{tid}", w->team}, {"{kid}", w->key},  {"{aid}", w->owner.id},
                                     {"{ns}", w->team},  {"{port}", "3000"}, {"{xid}", "3000"},
                                     {"{ref}", "none"},  {"{jid}", "job_0"}};
    const char *path = pattern;
    for (size_t i = 0; i < COUNT(known); i++) {
        const char *at = strstr(path, known[i].key);
        if (at && known[i].value)
            path = cay_arena_printf(&w->api.f.a, "%.*s%s%s", (int)(at - path), path, known[i].value,
                                    at + strlen(known[i].key));
    }
    return strchr(path, '{') ? NULL : path;
}

/* Only its first line: some answers never end. */
static int ask_as(struct world *w, const struct entry *e, const char *path, enum who who)
{
    char line[400], headers[700], first[13] = "";
    CAY_AUTO_FD int fd = dial(&w->api);
    struct timeval patience = {.tv_sec = 10};
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    snprintf(line, sizeof line, "%s %s%s", e->method, path, e->query ? e->query : "");
    snprintf(headers, sizeof headers, "%s%s%s%s", e->headers ? e->headers : "",
             w->tokens[who] ? "Authorization: Bearer " : "", w->tokens[who] ? w->tokens[who] : "",
             w->tokens[who] ? "\r\n" : "");
    send_request(&w->api, fd, line, headers, e->body);
    ssize_t n = recv(fd, first, 12, MSG_WAITALL);
    return n == 12 ? status_of(cay_arena_printf(&w->api.f.a, "%s ", first)) : 0;
}

/* 401 or 403; 0: let in, whatever comes of it. */
static int expected(const struct entry *e, enum who who)
{
    bool has_id = strstr(e->pattern, "{id}") || strstr(e->pattern, "{tid}");
    bool in_sandbox = (strstr(e->pattern, "/sandbox/{id}") || strstr(e->pattern, "/gateway/")) &&
                      (e->scope == CAY_SCOPE_READ || e->scope == CAY_SCOPE_EXEC) &&
                      !strstr(e->pattern, "/auth");
    if (e->scope == CAY_SCOPE_NONE)
        return 0;
    if (who <= REVOKED)
        return 401;
    if (e->scope == CAY_SCOPE_ADMIN || e->scope == CAY_SCOPE_IMAGES)
        return 403;
    switch (who) {
    case STRANGER:
        return has_id ? 403 : 0;
    case VIEWER:
        return has_id && e->scope != CAY_SCOPE_READ ? 403 : 0;
    case READER:
        return e->scope == CAY_SCOPE_READ ? 0 : 403;
    case THIS:
        return in_sandbox ? 0 : 403;
    case ANOTHER:
        return 403;
    default:
        return 0;
    }
}

static void walk(struct world *w, const struct entry *e)
{
    const char *path = path_of(w, e->pattern);
    CHECK(e->pattern, path != NULL);
    for (enum who who = 0; path && who < WHO_END; who++) {
        int want = expected(e, who);
        char what[200];
        /* What the owner may he may; nothing is removed here that others are still to try. */
        if (who == MEMBER && strcmp(e->method, "GET") != 0)
            continue;
        snprintf(what, sizeof what, "%s %s with %s", e->method, e->pattern, names[who]);
        int got = ask_as(w, e, path, who);
        if (want != 0)
            CHECK_EQ(what, got, want);
        else
            CHECK(what, got != 0 && got != 401 && got != 403);
    }
}

static const struct entry *entry_of(const struct cay_route *route)
{
    for (size_t i = 0; i < COUNT(entries); i++)
        if (strcmp(entries[i].method, route->method) == 0 &&
            strcmp(entries[i].pattern, route->pattern) == 0)
            return &entries[i];
    return NULL;
}

TEST(matrix_of_routes_and_callers)
{
    static struct world w;
    size_t routes = 0;
    open_world(&w);
    for (size_t i = 0; cay_app_tables[i]; i++)
        for (const struct cay_route *route = cay_app_tables[i]; route->method; route++) {
            const struct entry *e = entry_of(route);
            routes++;
            if (!e) {
                test_failed(__FILE__, __LINE__, "who may %s %s? Say so in this file's table",
                            route->method, route->pattern);
                continue;
            }
            CHECK_EQ(route->pattern, route->scope, e->scope);
            walk(&w, e);
        }
    CHECK_EQ("no route is missing", routes, COUNT(entries));
    CHECK_EQ("the sandbox is still there", fixture_rows(&w.api.f) >= 2, 1);
    api_close(&w.api);
}

TEST(matrix_get_that_starts_needs_write)
{
    static struct world w;
    struct entry e = {"GET", "/api/v1/sandbox/{id}", CAY_SCOPE_READ, "?resume=true"};
    open_world(&w);
    const char *path = path_of(&w, e.pattern);
    CHECK_EQ("a viewer", ask_as(&w, &e, path, VIEWER), 403);
    CHECK_EQ("a key that reads", ask_as(&w, &e, path, READER), 403);
    CHECK_EQ("the sandbox's own", ask_as(&w, &e, path, THIS), 403);
    CHECK_EQ("the owner", ask_as(&w, &e, path, MEMBER), 200);
    e.query = "?resume=false";
    CHECK_EQ("a viewer who looks", ask_as(&w, &e, path, VIEWER), 200);
    api_close(&w.api);
}
