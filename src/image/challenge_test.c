/* SPDX-License-Identifier: Apache-2.0 */
#include "image/challenge.h"
#include "tests/test.h"

static const struct {
    const char *text;
    enum cay_challenge_kind kind;
    const char *realm, *service, *scope;
} cases[] = {
    {"Bearer realm=\"https://auth.example/token\",service=\"r\",scope=\"repository:a/b:pull\"",
     CAY_CHALLENGE_BEARER, "https://auth.example/token", "r", "repository:a/b:pull"},
    {"bearer realm = \"https://a/\"", CAY_CHALLENGE_BEARER, "https://a/", NULL, NULL},
    {"Basic realm=\"Registry Realm\"", CAY_CHALLENGE_BASIC, "Registry Realm", NULL, NULL},
    {"Basic", CAY_CHALLENGE_BASIC, NULL, NULL, NULL},
    {"Basic realm=\"x\", Bearer realm=\"https://a/\",scope=\"a,b\"", CAY_CHALLENGE_BEARER,
     "https://a/", NULL, "a,b"},
    {"Negotiate, Basic realm=x", CAY_CHALLENGE_BASIC, "x", NULL, NULL},
    {"Bearer realm=\"a\\\"b\"", CAY_CHALLENGE_BEARER, "a\"b", NULL, NULL},
    {"Bearer realm=\"https://a/", CAY_CHALLENGE_NONE, NULL, NULL, NULL},
    {"Bearer realm=\"https://a/\",realm=\"https://b/\"", CAY_CHALLENGE_NONE, NULL, NULL, NULL},
    {"Bearer realm=\"https://a/\r\nX: y\"", CAY_CHALLENGE_NONE, NULL, NULL, NULL},
    {"Bearer realm=\"https://a/\" service=\"s\"", CAY_CHALLENGE_NONE, NULL, NULL, NULL},
    {"Bearer", CAY_CHALLENGE_NONE, NULL, NULL, NULL},
    {"Digest realm=\"x\"", CAY_CHALLENGE_NONE, NULL, NULL, NULL},
    {"=", CAY_CHALLENGE_NONE, NULL, NULL, NULL},
    {"", CAY_CHALLENGE_NONE, NULL, NULL, NULL},
};

TEST(challenges_are_read_strictly)
{
    for (size_t i = 0; i < COUNT(cases); i++) {
        CAY_AUTO_ARENA struct cay_arena a = {0};
        struct cay_challenge c = cay_challenge_read(&a, cases[i].text);
        CHECK_EQ(cases[i].text, c.kind, cases[i].kind);
        CHECK_STR(cases[i].text, c.realm, cases[i].realm);
        CHECK_STR(cases[i].text, c.service, cases[i].service);
        CHECK_STR(cases[i].text, c.scope, cases[i].scope);
    }
}
