/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/serve.h"
#include "tests/test.h"

static const struct {
    const char *name, *listen, *auth, *provider, *rate;
    bool root;
    int want;
} cases[] = {
    {"the default", "127.0.0.1:3000", "off", "native", "1000/60", true, 0},
    {"another loopback", "127.9.9.9:1", "off", "native", "off", true, 0},
    {"loopback of IPv6", "[::1]:3000", "off", "native", "1/1", true, 0},
    {"localhost, any port", "localhost:0", "off", "native", "off", true, 0},
    {"all addresses", "0.0.0.0:3000", "off", "native", "off", true, CAY_ERR_INVALID},
    {"all of IPv6", "[::]:3000", "off", "native", "off", true, CAY_ERR_INVALID},
    {"looks like loopback", "1.127.0.0:3000", "off", "native", "off", true, CAY_ERR_INVALID},
    {"mapped, not loopback", "[::ffff:10.0.0.1]:1", "off", "native", "off", true, CAY_ERR_INVALID},
    {"all, with keys", "0.0.0.0:3000", "keys", "native", "off", true, 0},
    {"JWT without a key", "127.0.0.1:3000", "jwt", "native", "off", true, CAY_ERR_INVALID},
    {"no address", ":3000", "off", "native", "off", true, CAY_ERR_INVALID},
    {"no port", "127.0.0.1", "off", "native", "off", true, CAY_ERR_INVALID},
    {"a port too large", "127.0.0.1:65536", "off", "native", "off", true, CAY_ERR_INVALID},
    {"a name", "example.org:80", "off", "native", "off", true, CAY_ERR_INVALID},
    {"only brackets", "[]:80", "off", "native", "off", true, CAY_ERR_INVALID},
    {"one bracket", "]:80", "off", "native", "off", true, CAY_ERR_INVALID},
    {"a bracket and a colon", "[:80", "off", "native", "off", true, CAY_ERR_INVALID},
    {"not root", "127.0.0.1:3000", "off", "native", "off", false, CAY_ERR_FORBIDDEN},
    {"not root, no engine", "127.0.0.1:3000", "off", "fake", "off", false, 0},
    {"rate of nothing", "127.0.0.1:3000", "off", "native", "0/60", true, CAY_ERR_INVALID},
    {"rate without a time", "127.0.0.1:3000", "off", "native", "10", true, CAY_ERR_INVALID},
    {"rate in no time", "127.0.0.1:3000", "off", "native", "10/0", true, CAY_ERR_INVALID},
    {"rate with a tail", "127.0.0.1:3000", "off", "native", "10/60s", true, CAY_ERR_INVALID},
};

TEST(serve_refuses_what_is_unsafe)
{
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct cay_error err = {0};
        struct cay_serve_options o = {.rate_limit = cases[i].rate};
        o.config.listen = cases[i].listen;
        o.config.auth = cases[i].auth;
        o.config.provider = cases[i].provider;
        CHECK_EQ(cases[i].name, cay_serve_check(&o, cases[i].root, &err), cases[i].want);
    }
}

TEST(serve_knows_where_docker_can_be)
{
    static const struct {
        const char *host;
        int want;
    } hosts[] = {
        {NULL, 0},
        {"unix:///var/run/docker.sock", 0},
        {"tcp://127.0.0.1:2375", 0},
        {"tcp://[::1]:2376", 0},
        {"tcp://docker.example:1", 0},
        {"", CAY_ERR_INVALID},
        {"/var/run/docker.sock", CAY_ERR_INVALID},
        {"unix://docker.sock", CAY_ERR_INVALID},
        {"tcp://", CAY_ERR_INVALID},
        {"tcp://host", CAY_ERR_INVALID},
        {"tcp://:2375", CAY_ERR_INVALID},
        {"tcp://host:0", CAY_ERR_INVALID},
        {"tcp://host:65536", CAY_ERR_INVALID},
        {"ssh://host", CAY_ERR_INVALID},
        {"npipe:////./pipe/docker_engine", CAY_ERR_INVALID},
        {"unix:///a/path/that/is/longer/than/the/kernel/takes/for/a/socket/"
         "which/would/be/cut/off/and/then/be/the/name/of/another/one/that/nobody/meant",
         CAY_ERR_INVALID},
    };
    for (size_t i = 0; i < COUNT(hosts); i++) {
        struct cay_error err = {0};
        struct cay_serve_options o = {.rate_limit = "off"};
        o.config.listen = "127.0.0.1:0";
        o.config.auth = "off";
        o.config.provider = "docker";
        o.config.docker_host = hosts[i].host;
        CHECK_EQ(hosts[i].host ? hosts[i].host : "none", cay_serve_check(&o, true, &err),
                 hosts[i].want);
    }
}

static const char *no_variable(const char *name)
{
    (void)name;
    return NULL;
}

TEST(serve_defaults)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_error err = {0};
    struct cay_serve_options o;
    struct cay_args args;
    const struct cay_option *const tables[] = {cay_serve_table, NULL};
    const struct cay_options set = {.tables = tables, .size = sizeof o, .variable = no_variable};
    CHECK_EQ("parsed", cay_options_parse(&set, &a, 0, NULL, &o, &args, &err), 0);
    CHECK_EQ("accepted", cay_serve_check(&o, true, &err), 0);
    CHECK_STR("data", o.config.data, "/var/lib/cay");
    CHECK_STR("listen", o.config.listen, "127.0.0.1:3000");
    CHECK_STR("provider", o.config.provider, "native");
    CHECK_STR("store", o.config.store, "sqlite");
    CHECK_STR("auth", o.config.auth, "off");
    CHECK_STR("images", o.config.images, NULL);
    CHECK_EQ("rate", o.config.rate_limit, 1000);
    CHECK_EQ("seconds", o.config.rate_seconds, 60);
    CHECK_EQ("head", o.config.log_head_bytes, 8 << 20);
}

static const char *written(struct cay_arena *a, const void *values)
{
    (void)values;
    return cay_arena_printf(a, "%s/aliases", test_dir());
}

/* In the file names of images are parts of keys. */
TEST(serve_aliases)
{
    static const struct {
        const char *name, *text;
        int want;
    } files[] = {
        {"names", "alias.python:3.11-slim = my/python:1\nalias.@a/b=base\n", 0},
        {"no image", "alias.x =\n", CAY_ERR_INVALID},
        {"two images", "alias.x = a b\n", CAY_ERR_INVALID},
    };
    for (size_t i = 0; i < COUNT(files); i++) {
        CAY_AUTO_ARENA struct cay_arena a = {0};
        struct cay_error err = {0};
        struct cay_serve_options o;
        struct cay_args args;
        const struct cay_option *const tables[] = {cay_serve_table, NULL};
        const struct cay_options set = {
            .tables = tables, .size = sizeof o, .variable = no_variable, .file = written};
        FILE *f = fopen(written(&a, NULL), "w");
        (void)fputs(files[i].text, f);
        (void)fclose(f);
        int r = cay_options_parse(&set, &a, 0, NULL, &o, &args, &err);
        if (r == 0)
            r = cay_serve_check(&o, true, &err);
        CHECK_EQ(files[i].name, r, files[i].want);
        if (r == 0) {
            CHECK_STR("one", cay_pairs_get(&o.config.aliases, "python:3.11-slim"), "my/python:1");
            CHECK_STR("other", cay_pairs_get(&o.config.aliases, "@a/b"), "base");
        }
    }
}
