/* SPDX-License-Identifier: Apache-2.0 */
#include "api/guard.h"
#include "tests/test.h"

static const struct {
    const char *name, *host, *origin, *site;
    int want;
    bool tls;
} cases[] = {
    {"an address with our port", "127.0.0.1:3000", NULL, NULL, 0},
    {"a v6 address", "[::1]:3000", NULL, NULL, 0},
    {"localhost in capitals", "LOCALHOST:3000", NULL, NULL, 0},
    {"another name (rebinding)", "evil.example:3000", NULL, NULL, CAY_ERR_MISDIRECTED},
    {"a name that begins like ours", "localhost.evil.example:3000", NULL, NULL,
     CAY_ERR_MISDIRECTED},
    {"another port", "127.0.0.1:3001", NULL, NULL, CAY_ERR_MISDIRECTED},
    {"no port", "127.0.0.1", NULL, NULL, CAY_ERR_MISDIRECTED},
    {"no number for a port", "127.0.0.1:x", NULL, NULL, CAY_ERR_MISDIRECTED},
    {"no host", NULL, NULL, NULL, CAY_ERR_MISDIRECTED},
    {"an empty host", "", NULL, NULL, CAY_ERR_MISDIRECTED},
    {"half a v6 address", "[::1:3000", NULL, NULL, CAY_ERR_MISDIRECTED},
    {"our own origin", "localhost:3000", "http://localhost:3000", "same-origin", 0},
    {"a foreign origin", "localhost:3000", "http://evil.example", NULL, CAY_ERR_FORBIDDEN},
    {"no origin at all", "localhost:3000", "null", NULL, CAY_ERR_FORBIDDEN},
    {"our address by another name", "localhost:3000", "http://127.0.0.1:3000", NULL,
     CAY_ERR_FORBIDDEN},
    {"a foreign page without an origin", "localhost:3000", NULL, "cross-site", CAY_ERR_FORBIDDEN},
    {"a preview beside us", "localhost:3000", NULL, "same-site", CAY_ERR_FORBIDDEN},
    {"typed by the user", "localhost:3000", NULL, "none", 0},
    {"our own origin under TLS", "localhost:3000", "https://localhost:3000", "same-origin", 0,
     true},
    {"TLS where there is none", "localhost:3000", "https://localhost:3000", NULL,
     CAY_ERR_FORBIDDEN},
    {"a page without TLS beside us", "localhost:3000", "http://localhost:3000", NULL,
     CAY_ERR_FORBIDDEN, true},
};

TEST(guard_lets_in_only_our_own)
{
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct cay_error err = {0};
        CHECK_EQ(cases[i].name,
                 cay_guard_check(cases[i].host, cases[i].origin, cases[i].site, 3000, cases[i].tls,
                                 &err),
                 cases[i].want);
    }
}

TEST(guard_knows_the_port_that_is_left_out)
{
    CHECK("80", cay_guard_host("localhost", 80, false));
    CHECK("443 under TLS", cay_guard_host("localhost", 443, true));
    CHECK("80 under TLS", !cay_guard_host("localhost", 80, true));
    CHECK("443 without it", !cay_guard_host("localhost", 443, false));
}
