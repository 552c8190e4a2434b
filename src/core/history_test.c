/* SPDX-License-Identifier: Apache-2.0 */
#include "core/core.h"
#include "core/history.h"
#include "tests/fixture.h"
#include <stdio.h>

static void name(char id[CAY_ID_SIZE], int i)
{
    (void)snprintf(id, CAY_ID_SIZE, "sb-%020d", i);
}

static struct cay_history *visit(struct fixture *f, int i, bool half_done)
{
    CAY_AUTO_HISTORY_TURN struct cay_history_turn t = {0};
    char id[CAY_ID_SIZE];
    struct cay_error err = {0};
    name(id, i);
    CHECK_EQ("a turn", cay_history_turn_begin(f->core, id, true, &t, &err), 0);
    t.half_done = half_done;
    return t.h;
}

TEST(histories_stay_open)
{
    struct fixture f;
    struct cay_error err = {0};
    char id[CAY_ID_SIZE];
    fixture_open(&f);
    struct cay_historian *all = &f.core->historian;
    int dir_fd = open(test_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK_EQ("open", cay_historian_open(all, dir_fd, &err), 0);
    struct cay_history *first = visit(&f, 0, false);
    CHECK("the same again", visit(&f, 0, false) == first);
    for (int i = 1; i < CAY_HISTORY_OPEN; i++)
        (void)visit(&f, i, false);
    CHECK_EQ("as many as may", all->open_count, CAY_HISTORY_OPEN);
    CHECK("still the same", visit(&f, 0, false) == first);
    (void)visit(&f, CAY_HISTORY_OPEN, false);
    CHECK_EQ("and no more", all->open_count, CAY_HISTORY_OPEN);
    name(id, 1);
    for (size_t i = 0; i < all->open_count; i++)
        CHECK("the one that was used longest ago went", strcmp(all->open[i].id, id) != 0);
    (void)visit(&f, 0, true);
    CHECK_EQ("one that is half done does not stay", all->open_count, CAY_HISTORY_OPEN - 1);
    name(id, 2);
    cay_history_forget(f.core, id);
    CHECK_EQ("nor one that is gone", all->open_count, CAY_HISTORY_OPEN - 2);
    CHECK("with its files", faccessat(all->dir_fd, id, F_OK, 0) < 0);
    for (int i = 0; i <= CAY_HISTORY_OPEN; i++) {
        name(id, i);
        cay_history_forget(f.core, id);
    }
    close(dir_fd);
    fixture_close(&f);
}
