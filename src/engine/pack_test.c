/* SPDX-License-Identifier: Apache-2.0 */
/* Trees that were made to be too much for whoever packs them. */
#include "engine/pack.h"
#include "tests/test.h"
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#define NAME 250
#define DEEP 16 /* so that a path is about as long as one may be */
#define PAIRS 17000

static bool drop(void *arg, const void *data, size_t len)
{
    (void)data;
    *(size_t *)arg += len;
    return true;
}

TEST(pack_remembers_no_more_than_it_may)
{
    char name[NAME + 1] = "", file[16];
    size_t bytes = 0;
    const struct cay_pack_sink sink = {drop, &bytes};
    struct cay_error err = {0};
    CAY_AUTO_FD int top = open(test_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int at = fcntl(top, F_DUPFD_CLOEXEC, 3);
    memset(name, 'd', NAME);
    for (int i = 0; i < DEEP; i++) {
        CHECK_EQ("a directory", mkdirat(at, name, 0755), 0);
        int next = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        close(at);
        at = next;
    }
    CHECK_EQ("a small tree", cay_pack(top, &sink, &err), 0);
    CHECK("is packed", bytes > DEEP * NAME);
    for (int i = 0; i < PAIRS; i++) {
        char twin[24];
        snprintf(file, sizeof file, "%d", i);
        snprintf(twin, sizeof twin, "%d.twin", i);
        CAY_AUTO_FD int fd = openat(at, file, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        CHECK("a pair", fd >= 0 && linkat(at, file, at, twin, 0) == 0);
    }
    close(at);
    CHECK_EQ("too many", cay_pack(top, &sink, &err), CAY_ERR_TOO_LARGE);
    CHECK_STR("by name", err.name, "LAYER_TOO_LARGE");
}
