/* SPDX-License-Identifier: Apache-2.0 */
#include "provider/docker/docker.h"
#include "tests/test.h"
#include <string.h>

#define HEX "4f3a456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define OTHER "aaaa456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define SNAP "cay-snap-0123456789abcdef:sn-abcdefghij"

/* What the Engine tells of some image, by whatever it was asked for. */
static const char dockers[] =
    "{\"Id\":\"sha256:" HEX "\",\"RepoTags\":[\"" SNAP "\",\"cay-fit:x\",\"node:20\","
    "\"beef:latest\",\"team/box:sha256-" HEX "\",\"team/box:sha256-" HEX ".sig\"],"
    "\"RepoDigests\":[\"node@sha256:" OTHER "\"]}";
static const char podmans[] = "{\"Id\":\"" HEX "\",\"RepoTags\":[\"docker.io/library/node:20\","
                              "\"localhost/team/back:2\",\"localhost/" SNAP "\"]}";
static const char nobodys[] = "{\"Id\":\"sha256:" HEX "\",\"RepoTags\":null}";

static const struct {
    const char *image, *name, *called; /* NULL: it is not called that */
} cases[] = {
    {dockers, "node:20", "node:20"},
    {dockers, "library/node:20", "node:20"},
    {dockers, "docker.io/library/node:20", "node:20"},
    {dockers, "index.docker.io/node:20", "node:20"},
    {dockers, "beef", "beef:latest"},
    {dockers, "node@sha256:" OTHER, "node@sha256:" OTHER},
    {dockers, "node:19@sha256:" OTHER, "node@sha256:" OTHER},
    {dockers, "team/box@sha256:" HEX, "team/box:sha256-" HEX},
    {dockers, "team/box:sha256-" HEX ".sig", "team/box:sha256-" HEX ".sig"},
    {podmans, "node:20", "docker.io/library/node:20"},
    {podmans, "team/back:2", "localhost/team/back:2"},
    {dockers, "node", NULL},
    {dockers, "node:2", NULL},
    {dockers, "someone/node:20", NULL},
    {dockers, "node@sha256:" HEX, NULL},
    {dockers, "4f3a", NULL},
    {dockers, "4f3a456789ab", NULL},
    {dockers, HEX, NULL},
    {dockers, "sha256:" HEX, NULL},
    {dockers, "sha256:4f3a", NULL},
    {podmans, HEX, NULL},
    {nobodys, "4f3a", NULL},
    {dockers, SNAP, NULL},
    {dockers, "library/" SNAP, NULL},
    {dockers, "docker.io/" SNAP, NULL},
    {dockers, "Docker.IO/library/" SNAP, NULL},
    {podmans, "localhost/" SNAP, NULL},
    {dockers, "cay-fit:x", NULL},
    {dockers, "library/cay-fit:x", NULL},
    {dockers, "", NULL},
    {dockers, "<none>:<none>", NULL},
};

TEST(docker_images_count_by_their_names_alone)
{
    for (size_t i = 0; i < COUNT(cases); i++) {
        CAY_AUTO_ARENA struct cay_arena a = {0};
        struct cay_error err = {0};
        const struct cay_json *image = NULL;
        CHECK_EQ(cases[i].name,
                 cay_json_parse(&a, cases[i].image, strlen(cases[i].image), &image, &err), 0);
        const char *called = cay_docker_called(&a, image, cases[i].name);
        CHECK_STR(cases[i].name, called ? called : "-", cases[i].called ? cases[i].called : "-");
    }
}

TEST(docker_names_of_ours_are_given_to_nobody)
{
    static const char *const ours[] = {SNAP, "docker.io/library/" SNAP, "localhost/cay-fit:1",
                                       "cay-fit", "library/cay-fit@sha256:" HEX};
    static const char *const others[] = {"node", "cay-fitting:1", "ghcr.io/a/cay-fit:1",
                                         "team/cay-snap-1:1"};
    CAY_AUTO_ARENA struct cay_arena a = {0};
    for (size_t i = 0; i < COUNT(ours); i++) {
        struct cay_error err = {0};
        CHECK_EQ(ours[i], cay_docker_refuse_inner(&a, ours[i], &err), CAY_ERR_INVALID);
        CHECK_STR(ours[i], err.name, "INVALID_IMAGE_NAME");
    }
    for (size_t i = 0; i < COUNT(others); i++) {
        struct cay_error err = {0};
        CHECK_EQ(others[i], cay_docker_refuse_inner(&a, others[i], &err), 0);
    }
}
