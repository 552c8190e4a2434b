/* SPDX-License-Identifier: Apache-2.0 */
/* Accounts, keys, teams and quotas through HTTP, on the fakes; the operator's socket too. */
#include "tests/api/api.h"
#include <sys/un.h>

struct house {
    struct api api;
    char path[108];
};

/* The operator's socket is there before the server listens on it. */
static void open_house(struct house *h, const char *auth)
{
    struct cay_error err = {0};
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    *h = (struct house){0};
    api_open_with(&h->api, 0, auth);
    cay_http_stop(h->api.server);
    pthread_join(h->api.thread, NULL);
    cay_app_close(h->api.server);
    snprintf(h->path, sizeof h->path, "%s/admin.sock", test_dir());
    cay_str_copy(addr.sun_path, sizeof addr.sun_path, h->path);
    h->api.cfg.admin_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ("bind", bind(h->api.cfg.admin_fd, (struct sockaddr *)&addr, sizeof addr), 0);
    CHECK_EQ("listen", listen(h->api.cfg.admin_fd, 16), 0);
    CHECK_EQ("open", cay_app_open(&h->api.cfg, h->api.f.core, &h->api.server, &err), 0);
    pthread_create(&h->api.thread, NULL, serve, &h->api);
}

static void close_house(struct house *h)
{
    api_close(&h->api);
    close(h->api.cfg.admin_fd);
}

static const char *operate(struct house *h, const char *line, const char *account, const char *body)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    char headers[100] = "";
    CAY_AUTO_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cay_str_copy(addr.sun_path, sizeof addr.sun_path, h->path);
    CHECK_EQ("connect", connect(fd, (struct sockaddr *)&addr, sizeof addr), 0);
    if (account)
        snprintf(headers, sizeof headers, "X-Cay-Account: %s\r\n", account);
    send_request(&h->api, fd, line, headers, body);
    return receive(&h->api, fd);
}

static const char *bearer(struct house *h, const char *token)
{
    return cay_arena_printf(&h->api.f.a, "Authorization: Bearer %s\r\n", token);
}

static const char *field(struct house *h, const char *answer, const char *name)
{
    return cay_json_get_str(body_of(&h->api, answer), name, "");
}

TEST(access_first_key_comes_by_the_socket)
{
    struct house h;
    open_house(&h, "keys");
    CHECK_EQ("no key yet", status_of(ask(&h.api, "GET /api/v1/sandbox", NULL, NULL)), 401);
    CHECK("says how",
          strstr(ask(&h.api, "GET /api/v1/sandbox", NULL, NULL), "WWW-Authenticate: Bearer\r\n"));
    CHECK_EQ("paths are not told either", status_of(ask(&h.api, "GET /nothing", NULL, NULL)), 401);
    const char *said = operate(&h, "POST /api/v1/accounts", NULL, "{\"name\":\"ann\"}");
    CHECK_EQ("an account", status_of(said), 201);
    said = operate(&h, "POST /api/v1/account/keys", "ann",
                   "{\"name\":\"first\",\"scopes\":[\"write\",\"account\"]}");
    CHECK_EQ("a key", status_of(said), 201);
    const char *token = field(&h, said, "token"), *id = field(&h, said, "id");
    said = ask(&h.api, "GET /api/v1/account", bearer(&h, token), NULL);
    CHECK_EQ("it opens", status_of(said), 200);
    CHECK_STR("as ann", field(&h, said, "name"), "ann");
    said = ask(&h.api, "POST /api/v1/sandbox", bearer(&h, token), "{\"name\":\"box\"," SMALL "}");
    CHECK_EQ("creates", status_of(said), 201);
    CHECK_STR("as its own", field(&h, said, "accountId"),
              field(&h, ask(&h.api, "GET /api/v1/account", bearer(&h, token), NULL), "id"));
    said = ask(&h.api, "GET /api/v1/account/keys", bearer(&h, token), NULL);
    CHECK("is listed", strstr(said, id) != NULL);
    CHECK("but never told again", !strstr(said, token));
    CHECK("as used", !strstr(said, "\"lastUsedAt\":null"));
    said = ask(&h.api, cay_arena_printf(&h.api.f.a, "DELETE /api/v1/account/keys/%s", id),
               bearer(&h, token), NULL);
    CHECK_EQ("it revokes itself", status_of(said), 200);
    CHECK_EQ("at once", status_of(ask(&h.api, "GET /api/v1/account", bearer(&h, token), NULL)),
             401);
    close_house(&h);
}

TEST(access_tokens_are_read_from_one_place)
{
    static const char *const wrong[] = {"Authorization: Basic %s\r\n",
                                        "Authorization: %s\r\n",
                                        "Authorization: Bearer\r\nX: %s\r\n",
                                        "Cookie: token=%s\r\n",
                                        "Authorization: Bearer %s, Bearer x\r\n",
                                        "X-Cay-Account: local\r\nX: %s\r\n"};
    struct house h;
    char headers[300];
    open_house(&h, "keys");
    const char *token =
        field(&h, operate(&h, "POST /api/v1/account/keys", NULL, "{\"name\":\"k\"}"), "token");
    CHECK_EQ("it is good", status_of(ask(&h.api, "GET /api/v1/sandbox", bearer(&h, token), NULL)),
             200);
    for (size_t i = 0; i < COUNT(wrong); i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(headers, sizeof headers, wrong[i], token);
#pragma GCC diagnostic pop
        CHECK_EQ(wrong[i], status_of(ask(&h.api, "GET /api/v1/sandbox", headers, NULL)), 401);
    }
    const char *line =
        cay_arena_printf(&h.api.f.a, "GET /api/v1/sandbox?token=%s&access_token=%s", token, token);
    CHECK_EQ("in the query", status_of(ask(&h.api, line, NULL, NULL)), 401);
    CHECK_EQ("health needs none", status_of(ask(&h.api, "GET /api/v1/health", NULL, NULL)), 200);
    CHECK("and tells little", !strstr(ask(&h.api, "GET /api/v1/health", NULL, NULL), "provider"));
    CHECK("more to who may come in",
          strstr(ask(&h.api, "GET /api/v1/health", bearer(&h, token), NULL), "provider"));
    close_house(&h);
}

TEST(access_off_is_as_it_was)
{
    struct house h;
    open_house(&h, "off");
    CHECK_EQ("no token", status_of(ask(&h.api, "GET /api/v1/sandbox", NULL, NULL)), 200);
    CHECK_STR("local", field(&h, ask(&h.api, "GET /api/v1/account", NULL, NULL), "id"), "local");
    CHECK_EQ("but no keys for whoever can reach the port",
             status_of(ask(&h.api, "POST /api/v1/account/keys", NULL, "{\"name\":\"k\"}")), 403);
    CHECK_EQ("nor accounts", status_of(ask(&h.api, "GET /api/v1/accounts", NULL, NULL)), 403);
    close_house(&h);
}

TEST(access_quota_is_429_and_says_which)
{
    struct house h;
    open_house(&h, "keys");
    (void)operate(&h, "POST /api/v1/accounts", NULL, "{\"name\":\"ann\"}");
    const char *token =
        field(&h, operate(&h, "POST /api/v1/account/keys", "ann", "{\"name\":\"k\"}"), "token");
    CHECK_EQ("set", status_of(operate(&h, "PUT /api/v1/quota", "ann", "{\"vcpus\":1.5}")), 200);
    CHECK_EQ("the first",
             status_of(ask(&h.api, "POST /api/v1/sandbox", bearer(&h, token),
                           "{\"cpuCores\":1," SMALL "}")),
             201);
    const char *said =
        ask(&h.api, "POST /api/v1/sandbox", bearer(&h, token), "{\"cpuCores\":1," SMALL "}");
    CHECK_EQ("the second", status_of(said), 429);
    CHECK("which", strstr(said, "\"quota\":\"vcpus\",\"limit\":1.5,\"used\":1}"));
    CHECK("by its code", strstr(said, "\"QUOTA_EXCEEDED\""));
    said = ask(&h.api, "GET /api/v1/quota", bearer(&h, token), NULL);
    CHECK("told", strstr(said, "\"vcpus\":{\"limit\":1.5,\"used\":1}"));
    CHECK("no bound", strstr(said, "\"sandboxes\":{\"limit\":null,\"used\":1}"));
    close_house(&h);
}

TEST(access_auth_token_has_both_spellings)
{
    static const char *const names[] = {"token",     "sandboxId",  "gatewayUrl", "gateway_url",
                                        "expiresAt", "expires_at", "user_ns",    "job_id"};
    struct house h;
    open_house(&h, "off");
    struct cay_sandbox sb = fixture_create(&h.api.f, "box", false);
    const char *said = ask(&h.api, "POST /api/v1/sandbox/box/auth", NULL, NULL);
    CHECK_EQ("made", status_of(said), 200);
    for (size_t i = 0; i < COUNT(names); i++)
        CHECK(names[i], *field(&h, said, names[i]));
    CHECK_STR("of this one", field(&h, said, "sandboxId"), sb.id);
    close_house(&h);
}

static const char *ask_from_afar(struct api *api, const char *headers)
{
    struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000002)};
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)api->port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    CAY_AUTO_FD int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ("bind", bind(fd, (struct sockaddr *)&from, sizeof from), 0);
    CHECK_EQ("connect", connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    send_request(api, fd, "GET /api/v1/sandbox", headers, NULL);
    return receive(api, fd);
}

TEST(access_limits_count_by_token)
{
    struct house h;
    open_house(&h, "keys");
    close_house(&h);
    struct api api;
    api_open_with(&api, 3, "keys");
    const char *good[2];
    for (int i = 0; i < 2; i++) {
        struct cay_error err = {0};
        struct cay_key key;
        struct cay_account me = {.id = "local", .scopes = CAY_SCOPE_READ};
        struct cay_key_spec spec = {.name = "k", .scopes = CAY_SCOPE_READ};
        CHECK_EQ("key", cay_core_key_create(api.f.core, &me, &spec, &api.f.a, &key, &good[i], &err),
                 0);
    }
    for (int i = 0; i < 4; i++) {
        const char *one = cay_arena_printf(&api.f.a, "Authorization: Bearer %s\r\n", good[0]);
        CHECK_EQ("one token", status_of(ask(&api, "GET /api/v1/sandbox", one, NULL)),
                 i < 3 ? 200 : 429);
        CHECK_EQ("guesses",
                 status_of(ask(&api, "GET /api/v1/sandbox", "Authorization: Bearer x\r\n", NULL)),
                 i < 3 ? 401 : 429);
    }
    const char *two = cay_arena_printf(&api.f.a, "Authorization: Bearer %s\r\n", good[1]);
    CHECK_EQ("another token", status_of(ask(&api, "GET /api/v1/sandbox", two, NULL)), 200);
    const char *one = cay_arena_printf(&api.f.a, "Authorization: Bearer %s\r\n", good[0]);
    CHECK_EQ("the first from another address", status_of(ask_from_afar(&api, one)), 200);
    api_close(&api);
}
