/* SPDX-License-Identifier: Apache-2.0 */
#include "init/user.h"
#include "tests/test.h"

static const char passwd[] = "root:x:0:0:root:/root:/bin/sh\n"
                             "broken:x:12\n"
                             "\n"
                             "user:x:1000:1001:,,,:/home/user:/bin/bash\n"
                             "big:x:70000:1::/:\n"
                             "neg:x:-1:1::/:\n"
                             "zero:x:00:1::/:\n"
                             "own:x:65535:65535::/:\n"
                             "lost:x:1005:1005::relative:\n"
                             "toor:x:0:5::/toor:/bin/sh\n"
                             "eight:x:8:8::/:/bin/sh:more\n"
                             "last:x:7:8::/l:/bin/sh";

static const struct {
    const char *user;
    bool want;
    uint32_t uid, gid;
    const char *name, *home;
} cases[] = {
    {"root", true, 0, 0, "root", "/root"},
    {"0", true, 0, 0, "root", "/root"},
    {"0:7", true, 0, 7, "root", "/root"},
    {"user", true, 1000, 1001, "user", "/home/user"},
    {"1000", true, 1000, 1001, "user", "/home/user"},
    {"1000:5", true, 1000, 5, "user", "/home/user"},
    {"4000", true, 4000, 4000, "4000", "/"},
    {"65534", true, 65534, 65534, "65534", "/"},
    {"lost", true, 1005, 1005, "lost", "/"},
    {"toor", true, 0, 5, "toor", "/toor"},
    {"last", true, 7, 8, "last", "/l"},
    {.user = "65535"},
    {.user = "own"},
    {.user = "big"},
    {.user = "neg"},
    {.user = "zero"},
    {.user = "eight"},
    {.user = "broken"},
    {.user = "4294967296"},
    {.user = "4294967295"},
    {.user = "-1"},
    {.user = "01"},
    {.user = "1000:"},
    {.user = "1000:1:1"},
    {.user = "1000 "},
    {.user = "1000:65535"},
    {.user = ""},
    {.user = "user:1"},
    {.user = "nobody-here"},
};

TEST(user_is_read_strictly)
{
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct cay_user u;
        bool got = cay_user_find(passwd, sizeof passwd - 1, cases[i].user, &u);
        CHECK_EQ(cases[i].user, got, cases[i].want);
        if (!got || !cases[i].want)
            continue;
        CHECK_EQ(cases[i].user, u.uid, cases[i].uid);
        CHECK_EQ(cases[i].user, u.gid, cases[i].gid);
        CHECK_STR(cases[i].user, u.name, cases[i].name);
        CHECK_STR(cases[i].user, u.home, cases[i].home);
    }
}
