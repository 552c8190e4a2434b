/* SPDX-License-Identifier: Apache-2.0 */
/* How large the disk image is, and when it grows. */
#include "engine/disk.h"
#include "tests/test.h"

#define MIB (1ULL << 20)
#define GIB (1ULL << 30)

static const struct {
    const char *name;
    uint64_t host_free, want;
} firsts[] = {
    {"plenty", 80 * GIB, 8 * GIB},
    {"a quarter", 16 * GIB, 4 * GIB},
    {"the least", 2 * GIB, 512 * MIB},
    {"too little", 2 * GIB - 4 * MIB, 0},
    {"nothing", 0, 0},
};

TEST(disk_first_size)
{
    for (size_t i = 0; i < COUNT(firsts); i++)
        CHECK_EQ(firsts[i].name, cay_disk_first_bytes(firsts[i].host_free), firsts[i].want);
}

static const struct {
    const char *name;
    uint64_t size, inside_free, host_free, want;
} steps[] = {
    {"enough inside", 8 * GIB, 3 * GIB, 80 * GIB, 0},
    {"less than a quarter", 16 * GIB, 3 * GIB, 80 * GIB, 8 * GIB},
    {"less than 2 GiB", 4 * GIB, 2 * GIB - 1, 80 * GIB, 2 * GIB},
    {"at most 16 GiB at once", 100 * GIB, GIB, 200 * GIB, 16 * GIB},
    {"at least 1 GiB at once", 512 * MIB, 0, 20 * GIB, GIB},
    {"a smaller step where the host has little", 16 * GIB, GIB, 12 * GIB, 4 * GIB},
    {"none when the host has too little", 16 * GIB, GIB, 4 * GIB - 1, 0},
    {"never more than four fifths", 80 * GIB, GIB, 20 * GIB, 0},
};

TEST(disk_steps)
{
    for (size_t i = 0; i < COUNT(steps); i++)
        CHECK_EQ(steps[i].name,
                 cay_disk_step_bytes(steps[i].size, steps[i].inside_free, steps[i].host_free),
                 steps[i].want);
}

static const struct {
    const char *name;
    uint64_t size, host_free, want;
} reaches[] = {
    {"four fifths of both, to a step", 8 * GIB, 92 * GIB, 71 * GIB + 512 * MIB},
    {"nothing more", 80 * GIB, 20 * GIB, 0},
    {"all but what the host keeps", 512 * MIB, 6 * GIB, 3 * GIB},
    {"a host that is full", 8 * GIB, GIB, 0},
};

TEST(disk_reach)
{
    for (size_t i = 0; i < COUNT(reaches); i++)
        CHECK_EQ(reaches[i].name, cay_disk_reach_bytes(reaches[i].size, reaches[i].host_free),
                 reaches[i].want);
}
