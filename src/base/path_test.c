/* SPDX-License-Identifier: Apache-2.0 */
#include "base/path.h"
#include "tests/test.h"
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>

static int open_new(const char *name)
{
    struct cay_error err;
    int fd = -1;
    CAY_AUTO_FD int dir = open(test_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK_EQ(name, cay_path_open_dir(dir, name, 0700, &fd, &err), 0);
    return fd;
}

/* A filesystem may not know the flag: then it is as if nobody had asked. */
TEST(path_spreads_what_is_made_in_a_directory)
{
    int by_hand = FS_TOPDIR_FL, before = 0, after = 0;
    CAY_AUTO_FD int other = open_new("other"), fd = open_new("spread");
    (void)ioctl(other, FS_IOC_GETFLAGS, &before);
    by_hand |= before;
    bool known = ioctl(other, FS_IOC_SETFLAGS, &by_hand) == 0;
    cay_path_spread(fd);
    cay_path_spread(fd); /* a directory of the last run */
    (void)ioctl(fd, FS_IOC_GETFLAGS, &after);
    CHECK_EQ("the flag, and no other", after, known ? before | FS_TOPDIR_FL : before);
}
