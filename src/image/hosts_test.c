/* SPDX-License-Identifier: Apache-2.0 */
#include "image/hosts.h"
#include "tests/test.h"

static struct cay_registry_options options(struct cay_arena *a, const char *const *pairs)
{
    struct cay_registry_options o = {0};
    for (; pairs && *pairs; pairs += 2)
        cay_pairs_push(a, &o.settings, pairs[0], pairs[1]);
    return o;
}

TEST(registries_as_the_operator_names_them)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_error err = {0};
    struct cay_registry_hosts hosts;
    static const char *const pairs[] = {"R.example:5000.username",
                                        "me",
                                        "r.example:5000.password",
                                        "secret",
                                        "r.example:5000.ca",
                                        "PEM",
                                        "docker.io.mirror",
                                        "http://m:1/, https://n",
                                        "deep.a.b.insecure",
                                        "true",
                                        NULL};
    struct cay_registry_options o = options(&a, pairs);
    o.insecure = "localhost:5000, 10.0.0.1:80";
    o.docker = "{\"auths\":{\"https://index.docker.io/v1/\":{\"auth\":\"aHViOnA6dw==\"},"
               "\"r.example:5000\":{\"auth\":\"eDp5\"},\"empty.example\":{}},"
               "\"credsStore\":\"secretservice\"}";
    CHECK_EQ("read", cay_registry_hosts_read(&a, &o, &hosts, &err), 0);
    const struct cay_registry_host *h = cay_registry_host_find(&hosts, "r.example:5000");
    CHECK_STR("ours stands over Docker's", h->username, "me");
    CHECK_STR("password", h->password, "secret");
    CHECK_STR("ca", h->ca, "PEM");
    CHECK("named, and over TLS", h->named && !h->insecure);
    h = cay_registry_host_find(&hosts, "docker.io");
    CHECK_STR("the hub has another name there", h->username, "hub");
    CHECK_STR("a colon in a password", h->password, "p:w");
    CHECK_EQ("mirrors", h->mirrors.count, 2);
    CHECK_STR("the first", h->mirrors.at[0], "http://m:1");
    CHECK("a mirror is plain when its URL is", cay_registry_host_find(&hosts, "m:1")->insecure);
    CHECK("or not", !cay_registry_host_find(&hosts, "n")->insecure);
    CHECK("dots in a host", cay_registry_host_find(&hosts, "deep.a.b")->insecure);
    CHECK("a list", cay_registry_host_find(&hosts, "10.0.0.1:80")->insecure);
    h = cay_registry_host_find(&hosts, "empty.example");
    CHECK("Docker's file names nobody", !h->named && !h->username);
    CHECK("nor is anybody else", !cay_registry_host_find(&hosts, "other")->named);
}

TEST(settings_of_registries_that_are_wrong)
{
    static const char *const wrong[][2] = {
        {"r.usernam", "x"},          {"username", "x"},      {"r.insecure", "yes"},
        {"r.mirror", "ftp://x"},     {"r.mirror", "x:5000"}, {"r.mirror", "https://"},
        {"r.mirror", "https://x/y"}, {".username", "x"},
    };
    for (size_t i = 0; i < COUNT(wrong); i++) {
        CAY_AUTO_ARENA struct cay_arena a = {0};
        struct cay_error err = {0};
        struct cay_registry_hosts hosts;
        const char *pairs[] = {wrong[i][0], wrong[i][1], NULL};
        struct cay_registry_options o = options(&a, pairs);
        CHECK_EQ(wrong[i][0], cay_registry_hosts_read(&a, &o, &hosts, &err), CAY_ERR_INVALID);
    }
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_error err = {0};
    struct cay_registry_hosts hosts;
    struct cay_registry_options o = {.docker = "{"};
    CHECK("a broken file", cay_registry_hosts_read(&a, &o, &hosts, &err) < 0);
}
