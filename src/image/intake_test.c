/* SPDX-License-Identifier: Apache-2.0 */
#include "image/intake.h"
#include "tests/test.h"
#include <fcntl.h>

static bool go_on(void *arg, int64_t more)
{
    (void)arg, (void)more;
    return true;
}

static const struct {
    const char *name;
    uint64_t keep_free;
    bool taken;
    const char *want;
} cases[] = {
    {"there is room", 0, true, NULL},
    {"others need more than is free", UINT64_MAX / 2, false, "DISK_FULL"},
};

TEST(intake_leaves_room_for_others)
{
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct cay_error err = {0};
        CAY_AUTO_FD int fd = open(test_dir(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
        CAY_AUTO_INTAKE struct cay_intake in = {
            .size = 3, .fd = fd, .keep_free = cases[i].keep_free, .step = go_on, .fresh = true};
        cay_intake_init(&in);
        CHECK_EQ(cases[i].name, cay_intake_take(&in, 0, "abc", 3), cases[i].taken);
        (void)cay_intake_problem(&in, &err);
        CHECK_STR(cases[i].name, err.name, cases[i].want);
    }
}
