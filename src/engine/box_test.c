/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "engine/box.h"
#include "tests/test.h"
#include <fcntl.h>

TEST(box_a_spare_is_nobodys_record)
{
    struct cay_error err = {0};
    struct cay_box_record one = {.running = true, .pid = 7, .entry.id = "sb-aaaaaaaaaaaaaaaaaaaa"},
                          out;
    const char *other = "sb-bbbbbbbbbbbbbbbbbbbb";
    CAY_AUTO_FD int dir = open(test_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK_EQ("saved", cay_box_save(dir, &one, &err), 0);
    CHECK_EQ("read back", cay_box_load(dir, one.entry.id, &out, &err), 0);
    CHECK_EQ("as it was", out.pid, 7);
    CHECK_EQ("removed", cay_box_remove(dir, one.entry.id, &err), 0);
    CHECK_EQ("gone", cay_box_load(dir, one.entry.id, &out, &err), CAY_ERR_NOT_FOUND);
    cay_box_begin(dir, other);
    CHECK("its file serves again", faccessat(dir, other, F_OK, 0) == 0);
    CHECK_EQ("and says nothing yet", cay_box_load(dir, other, &out, &err), CAY_ERR_NOT_FOUND);
    cay_str_copy(one.entry.id, sizeof one.entry.id, other);
    CHECK_EQ("saved anew", cay_box_save(dir, &one, &err), 0);
    CHECK_EQ("it does", cay_box_load(dir, other, &out, &err), 0);
    CHECK_EQ("removing what is gone", cay_box_remove(dir, "sb-cccccccccccccccccccc", &err), 0);
}
