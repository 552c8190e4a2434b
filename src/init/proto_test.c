/* SPDX-License-Identifier: Apache-2.0 */
#include "init/proto.h"
#include "tests/test.h"

static const struct {
    const char *name, *bytes;
    size_t len, count;
    bool want;
} cases[] = {
    {"as promised", "a\0b\0c", 6, 3, true},        {"empty strings", "\0\0", 2, 2, true},
    {"nothing of nothing", "", 0, 0, true},        {"one too few", "a\0b", 4, 3, false},
    {"one too many", "a\0b\0c", 6, 2, false},      {"no end", "a\0b", 3, 2, false},
    {"nothing where one is due", "", 0, 1, false},
};

TEST(init_proto_unpacks)
{
    for (size_t i = 0; i < COUNT(cases); i++) {
        const char *out[3];
        CHECK_EQ(cases[i].name, cay_init_unpack(cases[i].bytes, cases[i].len, cases[i].count, out),
                 cases[i].want);
    }
}

TEST(init_proto_is_as_long_as_it_was)
{
    CHECK_EQ("an old pid 1 outlives an upgrade", sizeof(struct cay_init_request), 80);
    CHECK_EQ("an old pid 1 outlives an upgrade", sizeof(struct cay_init_reply), 24);
}
