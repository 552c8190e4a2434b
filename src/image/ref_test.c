/* SPDX-License-Identifier: Apache-2.0 */
#include "image/ref.h"
#include "tests/test.h"
#include <string.h>

#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static const struct {
    const char *text, *full, *brief; /* full NULL: refused */
} cases[] = {
    {"node", "docker.io/library/node:latest", "node:latest"},
    {"node:20-bookworm", "docker.io/library/node:20-bookworm", "node:20-bookworm"},
    {"library/node:20", "docker.io/library/node:20", "node:20"},
    {"docker.io/node:20", "docker.io/library/node:20", "node:20"},
    {"index.docker.io/library/node:20", "docker.io/library/node:20", "node:20"},
    {"someone/thing:1.0", "docker.io/someone/thing:1.0", "someone/thing:1.0"},
    {"ghcr.io/a/b/c:x", "ghcr.io/a/b/c:x", "ghcr.io/a/b/c:x"},
    {"GHCR.io/a/b", "ghcr.io/a/b:latest", "ghcr.io/a/b:latest"},
    {"localhost/x", "localhost/x:latest", "localhost/x:latest"},
    {"127.0.0.1:5000/x:y", "127.0.0.1:5000/x:y", "127.0.0.1:5000/x:y"},
    {"[::1]:5000/x", "[::1]:5000/x:latest", "[::1]:5000/x:latest"},
    {"node@sha256:" HEX, "docker.io/library/node@sha256:" HEX, "node@sha256:" HEX},
    {"node:20@sha256:" HEX, "docker.io/library/node:20@sha256:" HEX, "node:20@sha256:" HEX},
    {"a__b", "docker.io/library/a__b:latest", "a__b:latest"},
    {"a--b", "docker.io/library/a--b:latest", "a--b:latest"},
    {"", NULL, NULL},
    {"Node", NULL, NULL},
    {"node:", NULL, NULL},
    {"node:.x", NULL, NULL},
    {"/node", NULL, NULL},
    {"node/", NULL, NULL},
    {"a//b", NULL, NULL},
    {"../etc", NULL, NULL},
    {"a/../b", NULL, NULL},
    {"a___b", NULL, NULL},
    {"a..b", NULL, NULL},
    {"-a", NULL, NULL},
    {"node@sha256:abc", NULL, NULL},
    {"node@md5:" HEX, NULL, NULL},
    {"host:99999999/x", NULL, NULL},
    {"host:/x", NULL, NULL},
    {"a b", NULL, NULL},
    {"x\n", NULL, NULL},
    {"a.b%2f/x", NULL, NULL},
};

TEST(image_refs_are_read_as_docker_reads_them)
{
    for (size_t i = 0; i < COUNT(cases); i++) {
        CAY_AUTO_ARENA struct cay_arena a = {0};
        struct cay_error err = {0};
        struct cay_ref ref;
        int r = cay_ref_parse(&a, cases[i].text, &ref, &err);
        CHECK_EQ(cases[i].text, r, cases[i].full ? 0 : CAY_ERR_INVALID);
        if (!cases[i].full) {
            CHECK_STR(cases[i].text, err.field, "image");
            continue;
        }
        CHECK_STR(cases[i].text, cay_ref_full(&a, &ref), cases[i].full);
        CHECK_STR(cases[i].text, cay_ref_short(&a, &ref), cases[i].brief);
    }
}
