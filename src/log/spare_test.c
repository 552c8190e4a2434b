/* SPDX-License-Identifier: Apache-2.0 */
#include "log/spare.h"
#include "tests/test.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int64_t born_ns(int fd)
{
    struct statx st;
    if (statx(fd, "", AT_EMPTY_PATH, STATX_BTIME, &st) < 0 || !(st.stx_mask & STATX_BTIME))
        return -1;
    return st.stx_btime.tv_sec * 1000000000LL + st.stx_btime.tv_nsec;
}

static int count_hidden(int dir_fd)
{
    int count = 0;
    DIR *dir = fdopendir(openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    for (struct dirent *d; dir && (d = readdir(dir));)
        count += strncmp(d->d_name, ".spare", 6) == 0;
    if (dir)
        closedir(dir);
    return count;
}

TEST(spares_become_files_in_the_order_of_their_birth)
{
    char path[] = "/tmp/cay-spares-XXXXXX", name[16];
    int64_t last_ns = -1;
    CHECK("a directory", mkdtemp(path) != NULL);
    int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK_EQ("a leftover", mkdirat(dir, ".spare-dir-0", 0700), 0);
    close(openat(dir, ".spare-file-3", O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    struct cay_spares *s = cay_spares_open(dir);
    CHECK_EQ("leftovers are gone", count_hidden(dir), 0);
    for (int i = 0; i < 40; i++) {
        struct stat st;
        snprintf(name, sizeof name, "f%d", i);
        int fd = cay_spares_take(s, i % 2 ? "a" : "b", name);
        CHECK("taken", fd >= 0 && write(fd, "x", 1) == 1);
        CHECK("it is that file, and was empty", fstat(fd, &st) == 0 && st.st_size == 1);
        CHECK("born after the one before", born_ns(fd) >= last_ns);
        last_ns = born_ns(fd);
        close(fd);
    }
    CHECK_EQ("not twice", cay_spares_take(s, "a", "f1"), -1);
    CHECK_EQ("as open says", errno, EEXIST);
    cay_spares_close(s);
    CHECK_EQ("none is left", count_hidden(dir), 0);
    for (int i = 0; i < 40; i++) {
        snprintf(name, sizeof name, "%s/f%d", i % 2 ? "a" : "b", i);
        CHECK_EQ("there", unlinkat(dir, name, 0), 0);
    }
    CHECK("nothing else is there", unlinkat(dir, "a", AT_REMOVEDIR) == 0 &&
                                       unlinkat(dir, "b", AT_REMOVEDIR) == 0 && rmdir(path) == 0);
    close(dir);
}
