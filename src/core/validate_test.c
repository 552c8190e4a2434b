/* SPDX-License-Identifier: Apache-2.0 */
/* What a host can give, and how that is told. */
#include "core/validate.h"
#include "model/limits.h"
#include "tests/test.h"

#define GB 1000000000ULL

static const struct {
    const char *name;
    struct cay_host host;
    struct cay_spec ask; /* 0: the default */
    const char *field, *says;
} cases[] = {
    {"as it comes", {8 * CAY_GIB, 100 * GB}, {0}, NULL, NULL},
    {"all its memory", {8 * CAY_GIB, 100 * GB}, {.memory_bytes = 8 * CAY_GIB}, NULL, NULL},
    {"more memory",
     {8 * CAY_GIB, 100 * GB},
     {.memory_bytes = 8 * CAY_GIB + 1},
     "memoryGB",
     "64 MiB to this host's 8192 MiB"},
    {"more memory by cores",
     {5 * CAY_GIB, 100 * GB},
     {.memory_bytes = 6 * CAY_GIB, .memory_by_vcpus = true},
     "resources.vcpus",
     "2048 MiB each, and this host has 5120 MiB for sandboxes: at most 2.5"},
    {"no memory", {8 * CAY_GIB, 100 * GB}, {.memory_bytes = 1}, "memoryGB", "64 MiB"},
    {"all its disk", {8 * CAY_GIB, 100 * GB}, {.disk_bytes = 100 * GB}, NULL, NULL},
    {"more disk",
     {8 * CAY_GIB, 100 * GB},
     {.disk_bytes = 100 * GB + 1},
     "diskSizeGB",
     "0.1 to the 100.0 that"},
    {"no disk", {8 * CAY_GIB, 100 * GB}, {.disk_bytes = 1}, "diskSizeGB", "0.1"},
    {"disk that nobody can tell of", {8 * CAY_GIB, 0}, {.disk_bytes = 500 * GB}, NULL, NULL},
    {"a full disk", {8 * CAY_GIB, 1}, {.disk_bytes = GB}, "diskSizeGB", "0.1 to the 0.1"},
    {"a tenth of a core", {8 * CAY_GIB, 0}, {.cpu_milli = 100}, NULL, NULL},
    {"more cores than it has", {8 * CAY_GIB, 0}, {.cpu_milli = 64000}, NULL, NULL},
    {"no core", {8 * CAY_GIB, 0}, {.cpu_milli = 99}, "cpuCores", "from 0.1 to 64"},
    {"65 cores", {8 * CAY_GIB, 0}, {.cpu_milli = 64001}, "cpuCores", "from 0.1 to 64"},
    {"a graphics card", {8 * CAY_GIB, 0}, {.gpu_count = 1}, "gpuCount", "GPU"},
};

TEST(validate_what_a_host_can_give)
{
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct cay_error err = {0};
        struct cay_spec spec = cay_spec_default();
        if (cases[i].ask.memory_bytes)
            spec.memory_bytes = cases[i].ask.memory_bytes;
        if (cases[i].ask.disk_bytes)
            spec.disk_bytes = cases[i].ask.disk_bytes;
        if (cases[i].ask.cpu_milli)
            spec.cpu_milli = cases[i].ask.cpu_milli;
        spec.memory_by_vcpus = cases[i].ask.memory_by_vcpus;
        spec.gpu_count = cases[i].ask.gpu_count;
        int r = cay_validate_spec(&spec, &cases[i].host, &err);
        CHECK_EQ(cases[i].name, r, cases[i].field ? CAY_ERR_INVALID : 0);
        if (!cases[i].field)
            continue;
        CHECK_STR(cases[i].name, err.field, cases[i].field);
        CHECK(cases[i].name, strstr(err.msg, cases[i].says) != NULL);
    }
}

TEST(validate_fits_defaults_to_a_small_host)
{
    static const struct {
        const char *name;
        struct cay_host host;
        uint64_t memory_bytes, disk_bytes;
    } hosts[] = {
        {"a large one", {8 * CAY_GIB, 100 * GB}, CAY_DEFAULT_MEMORY_BYTES, CAY_DEFAULT_DISK_BYTES},
        {"a small one", {CAY_GIB, 3 * GB}, CAY_GIB, 3 * GB},
        {"a full one", {CAY_GIB, 1}, CAY_GIB, CAY_MIN_DISK_BYTES},
        {"one that cannot tell", {CAY_GIB, 0}, CAY_GIB, CAY_DEFAULT_DISK_BYTES},
    };
    for (size_t i = 0; i < COUNT(hosts); i++) {
        struct cay_error err = {0};
        struct cay_spec spec = cay_spec_default();
        cay_validate_fit(&spec, &hosts[i].host);
        CHECK_EQ(hosts[i].name, spec.memory_bytes, hosts[i].memory_bytes);
        CHECK_EQ(hosts[i].name, spec.disk_bytes, hosts[i].disk_bytes);
        CHECK_EQ(hosts[i].name, cay_validate_spec(&spec, &hosts[i].host, &err), 0);
    }
    struct cay_spec asked = cay_spec_default();
    asked.memory_fits = asked.disk_fits = false;
    cay_validate_fit(&asked, &hosts[1].host);
    CHECK_EQ("what was asked for is not changed", asked.disk_bytes, CAY_DEFAULT_DISK_BYTES);
    CHECK_EQ("nor its memory", asked.memory_bytes, CAY_DEFAULT_MEMORY_BYTES);
    struct cay_spec fork = cay_spec_fork(&asked);
    cay_validate_fit(&fork, &hosts[1].host);
    CHECK_EQ("what a fork has of its source is", fork.disk_bytes, 3 * GB);
    CHECK_EQ("and its memory", fork.memory_bytes, CAY_GIB);
}
