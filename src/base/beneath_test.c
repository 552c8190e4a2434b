/* SPDX-License-Identifier: Apache-2.0 */
/* A path with dots in it is found while others rename theirs. */
#include "base/attr.h"
#include "base/beneath.h"
#include "tests/test.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define STEPS 30    /* into a directory and out of it */
#define OPENS 20000 /* without a second try a few in a hundred fail */

struct place {
    int dir;
    atomic_bool over;
    atomic_ulong renames;
};

static void *rename_all_the_time(void *arg)
{
    struct place *p = arg;
    while (!atomic_load(&p->over)) {
        (void)renameat(p->dir, "a", p->dir, "b");
        (void)renameat(p->dir, "b", p->dir, "a");
        atomic_fetch_add(&p->renames, 1);
    }
    return NULL;
}

TEST(beneath_while_others_rename)
{
    char path[5 * STEPS + 2] = "";
    struct place p = {.dir = -1};
    pthread_t thread;
    int failed = 0;
    p.dir = open(test_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK("two in it", mkdirat(p.dir, "a", 0755) == 0 && mkdirat(p.dir, "d", 0755) == 0);
    for (int i = 0; i < STEPS; i++)
        memcpy(path + 5 * i, "d/../", 6);
    memcpy(path + 5 * STEPS, "d", 2);
    CHECK_EQ("a thread", pthread_create(&thread, NULL, rename_all_the_time, &p), 0);
    for (int i = 0; i < OPENS && failed == 0; i++) {
        CAY_AUTO_FD int fd = cay_open_beneath(p.dir, path, O_PATH, RESOLVE_IN_ROOT);
        failed = fd < 0 ? errno : 0;
    }
    atomic_store(&p.over, true);
    pthread_join(thread, NULL);
    CHECK_EQ("every one is opened", failed, 0);
    CHECK("others renamed meanwhile", atomic_load(&p.renames) > 0);
    close(p.dir);
}

TEST(beneath_holds)
{
    CAY_AUTO_FD int dir = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK_EQ("nothing above", cay_open_beneath(dir, "../version", O_RDONLY, RESOLVE_BENEATH), -1);
    CHECK_EQ("and it says why", errno, EXDEV);
}
