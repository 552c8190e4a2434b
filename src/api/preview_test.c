/* SPDX-License-Identifier: Apache-2.0 */
#include "api/preview.h"
#include "tests/test.h"
#include <string.h>

#define ID "sb-0123456789abcdefghij"

static const struct {
    const char *name, *host, *domain;
    enum cay_preview_kind want;
    unsigned port;
} hosts[] = {
    {"a preview", "3000-" ID ".localhost", "localhost", CAY_PREVIEW_NAMED, 3000},
    {"with the server's port", "3000-" ID ".localhost:80", "localhost", CAY_PREVIEW_NAMED, 3000},
    {"in capitals", "3000-SB-0123456789ABCDEFGHIJ.LOCALHOST", "localhost", CAY_PREVIEW_NAMED, 3000},
    {"a final dot", "1-" ID ".localhost.:80", "localhost", CAY_PREVIEW_NAMED, 1},
    {"a longer domain", "65535-" ID ".p.example.com", "p.example.com", CAY_PREVIEW_NAMED, 65535},
    {"the domain itself", "localhost:80", "localhost", CAY_PREVIEW_NONE, 0},
    {"an address", "127.0.0.1:80", "localhost", CAY_PREVIEW_NONE, 0},
    {"ends like the domain", "1-" ID ".notlocalhost", "localhost", CAY_PREVIEW_NONE, 0},
    {"another domain", "1-" ID ".localhost.evil", "localhost", CAY_PREVIEW_NONE, 0},
    {"no port", ID ".localhost", "localhost", CAY_PREVIEW_WRONG, 0},
    {"port 0", "0-" ID ".localhost", "localhost", CAY_PREVIEW_WRONG, 0},
    {"a port too large", "65536-" ID ".localhost", "localhost", CAY_PREVIEW_WRONG, 0},
    {"zeros ahead", "03000-" ID ".localhost", "localhost", CAY_PREVIEW_WRONG, 0},
    {"a name instead", "3000-box.localhost", "localhost", CAY_PREVIEW_WRONG, 0},
    {"too long an id", "3000-" ID "k.localhost", "localhost", CAY_PREVIEW_WRONG, 0},
    {"one label more", "a.3000-" ID ".localhost", "localhost", CAY_PREVIEW_WRONG, 0},
    {"a label behind", "3000-" ID ".a.localhost", "localhost", CAY_PREVIEW_WRONG, 0},
    {"nothing ahead", ".localhost", "localhost", CAY_PREVIEW_NONE, 0},
    {"empty", "", "localhost", CAY_PREVIEW_NONE, 0},
};

TEST(preview_reads_hosts)
{
    for (size_t i = 0; i < COUNT(hosts); i++) {
        struct cay_preview_target to = {0};
        enum cay_preview_kind kind = cay_preview_of_host(hosts[i].host, hosts[i].domain, &to);
        CHECK_EQ(hosts[i].name, kind, hosts[i].want);
        if (kind != CAY_PREVIEW_NAMED)
            continue;
        CHECK_EQ(hosts[i].name, to.port, hosts[i].port);
        CHECK_STR(hosts[i].name, to.sandbox_id, ID);
        CHECK_EQ(hosts[i].name, to.prefix, 0);
    }
}

TEST(preview_reads_paths)
{
    static const struct {
        const char *name, *path;
        enum cay_preview_kind want;
        size_t prefix;
    } cases[] = {
        {"a preview", "/p/" ID "/3000/a/b", CAY_PREVIEW_NAMED, 31},
        {"nothing behind", "/p/" ID "/3000", CAY_PREVIEW_NAMED, 31},
        {"another path", "/api/v1/sandbox", CAY_PREVIEW_NONE, 0},
        {"one that begins alike", "/px/" ID "/3000/", CAY_PREVIEW_NONE, 0},
        {"no port", "/p/" ID, CAY_PREVIEW_WRONG, 0},
        {"an empty port", "/p/" ID "//", CAY_PREVIEW_WRONG, 0},
        {"a port that is none", "/p/" ID "/3000x/", CAY_PREVIEW_WRONG, 0},
        {"an id that is none", "/p/../3000/", CAY_PREVIEW_WRONG, 0},
        {"an escape", "/p/%73b-0123456789abcdefghij/3000/", CAY_PREVIEW_WRONG, 0},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct cay_preview_target to = {0};
        enum cay_preview_kind kind = cay_preview_of_path(cases[i].path, &to);
        CHECK_EQ(cases[i].name, kind, cases[i].want);
        if (kind == CAY_PREVIEW_NAMED)
            CHECK_EQ(cases[i].name, to.prefix, cases[i].prefix);
    }
}

TEST(preview_domains)
{
    static const struct {
        const char *name, *domain, *url, *want; /* NULL: refused */
    } cases[] = {
        {"by default", NULL, "http://127.0.0.1:3000", "http://80-" ID ".localhost:3000/"},
        {"the server's scheme", "p.example", "https://0.0.0.0:8443",
         "https://80-" ID ".p.example:8443/"},
        {"behind a proxy", "https://p.example:443", "http://127.0.0.1:3000",
         "https://80-" ID ".p.example/"},
        {"in capitals", "P.Example", "http://127.0.0.1:80", "http://80-" ID ".p.example/"},
        {"a star", "*.example", "http://127.0.0.1:80", NULL},
        {"an empty label", "a..b", "http://127.0.0.1:80", NULL},
        {"empty", "", "http://127.0.0.1:80", NULL},
        {"a port that is none", "a:b", "http://127.0.0.1:80", NULL},
    };
    struct cay_auth auth = {0};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct cay_config cfg = {.preview_domain = cases[i].domain};
        struct cay_error err = {0};
        char url[CAY_PREVIEW_URL] = "";
        cay_str_copy(cfg.url, sizeof cfg.url, cases[i].url);
        CHECK_EQ(cases[i].name, cay_preview_open(&cfg, &auth, &err),
                 cases[i].want ? 0 : CAY_ERR_INVALID);
        if (!cases[i].want)
            continue;
        cay_preview_url(ID, 80, url);
        CHECK_STR(cases[i].name, url, cases[i].want);
    }
}
