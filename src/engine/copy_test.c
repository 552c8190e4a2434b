/* SPDX-License-Identifier: Apache-2.0 */
/* A tree with everything in it that a sandbox can make, copied and compared. */
#include "base/clock.h"
#include "engine/copy.h"
#include "engine/dispatcher.h"
#include "tests/test.h"
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/xattr.h>

#define DEPTH 3000
#define SPARSE_BYTES (64 << 20)

static int open_dir(int at, const char *name)
{
    (void)mkdirat(at, name, 0700);
    return openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void write_file(int dir, const char *name, const char *text, off_t at)
{
    CAY_AUTO_FD int fd = openat(dir, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    CHECK("written", pwrite(fd, text, strlen(text), at) == (ssize_t)strlen(text));
}

static void make_socket(int dir)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    CAY_AUTO_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(addr.sun_path, sizeof addr.sun_path, "/proc/self/fd/%d/socket", dir);
    CHECK("bound", bind(fd, (struct sockaddr *)&addr, sizeof addr) == 0);
}

static void fill(int dir)
{
    const struct timespec times[2] = {{1000, 1}, {2000, 2}};
    write_file(dir, "plain", "text", 0);
    write_file(dir, "sparse", "end", SPARSE_BYTES);
    CHECK("linked", linkat(dir, "plain", dir, "linked", 0) == 0);
    CHECK("symlink", symlinkat("/etc/passwd", dir, "symlink") == 0);
    CHECK("symlink to a directory", symlinkat("..", dir, "up") == 0);
    CHECK("fifo", mkfifoat(dir, "fifo", 0620) == 0);
    make_socket(dir);
    CAY_AUTO_FD int sub = open_dir(dir, "sub");
    write_file(sub, "-rf *\n", "odd", 0);
    CHECK("linked across", linkat(dir, "plain", sub, "linked", 0) == 0);
    if (geteuid() == 0) {
        CHECK("whiteout", mknodat(dir, "gone", S_IFCHR, makedev(0, 0)) == 0);
        CHECK("whiteout linked", linkat(dir, "gone", sub, "gone", 0) == 0);
        CHECK("opaque", fsetxattr(sub, "trusted.overlay.opaque", "y", 1, 0) == 0);
        CHECK("owner", fchownat(dir, "plain", 7, 8, 0) == 0);
        CHECK("owner of a link", fchownat(dir, "symlink", 9, 9, AT_SYMLINK_NOFOLLOW) == 0);
    }
    CHECK("mode", fchmodat(dir, "plain", 04751, 0) == 0 && fchmod(sub, 01000) == 0);
    CHECK("times", utimensat(dir, "plain", times, 0) == 0);
    CHECK("times", utimensat(dir, "symlink", times, AT_SYMLINK_NOFOLLOW) == 0);
    CHECK("times", futimens(sub, times) == 0);
}

static void check_text(int dir, const char *name, const char *want)
{
    char text[16] = "";
    CAY_AUTO_FD int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    CHECK(name, fd >= 0 && read(fd, text, sizeof text - 1) >= 0);
    CHECK_STR(name, text, want);
}

static void check_same(int from, int to, const char *name)
{
    struct stat a, b;
    CHECK(name, fstatat(from, name, &a, AT_SYMLINK_NOFOLLOW) == 0);
    CHECK(name, fstatat(to, name, &b, AT_SYMLINK_NOFOLLOW) == 0);
    CHECK_EQ(name, b.st_mode, a.st_mode);
    CHECK_EQ(name, b.st_uid, a.st_uid);
    CHECK_EQ(name, b.st_gid, a.st_gid);
    CHECK_EQ(name, b.st_rdev, a.st_rdev);
    CHECK_EQ(name, b.st_nlink, a.st_nlink);
    CHECK_EQ(name, b.st_mtim.tv_sec, a.st_mtim.tv_sec);
    CHECK_EQ(name, b.st_mtim.tv_nsec, a.st_mtim.tv_nsec);
    if (!S_ISDIR(a.st_mode))
        CHECK_EQ(name, b.st_size, a.st_size);
}

TEST(copy_everything)
{
    static const char *const names[] = {"plain", ".",   "symlink", "up",
                                        "fifo",  "sub", "sparse",  "sub/-rf *\n"};
    struct cay_error err;
    const char *method = NULL;
    uint64_t bytes = 0;
    struct stat st;
    char link[32] = "", opaque = 0;
    CAY_AUTO_FD int top = open(test_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CAY_AUTO_FD int from = open_dir(top, "from");
    CAY_AUTO_FD int to = open_dir(top, "to");
    CAY_AUTO_FD int links = open_dir(top, "links");

    fill(from);
    int r = cay_copy_tree(from, to, links, cay_clock_mono_ms() + 60000, &method, &bytes, &err);
    CHECK_STR("copied", r < 0 ? err.msg : "", "");
    CHECK("told how", method != NULL);
    CHECK("told how much", bytes > 0 && bytes < SPARSE_BYTES / 2);
    for (size_t i = 0; i < COUNT(names); i++)
        check_same(from, to, names[i]);
    check_text(to, "plain", "text");
    check_text(to, "sub/-rf *\n", "odd");
    CHECK("a link's text", readlinkat(to, "symlink", link, sizeof link - 1) > 0);
    CHECK_STR("a link's text", link, "/etc/passwd");
    CHECK("no socket", faccessat(to, "socket", F_OK, AT_SYMLINK_NOFOLLOW) < 0);
    CHECK("sparse", fstatat(to, "sparse", &st, 0) == 0 && st.st_blocks * 512 < SPARSE_BYTES / 2);
    struct stat one, two;
    CHECK("one file",
          fstatat(to, "plain", &one, 0) == 0 && fstatat(to, "sub/linked", &two, 0) == 0);
    CHECK_EQ("one file", one.st_ino, two.st_ino);
    CHECK_EQ("its mode", one.st_mode & 07777, 04751);
    if (geteuid() != 0)
        return;
    CHECK("whiteout", fstatat(to, "sub/gone", &st, 0) == 0 && S_ISCHR(st.st_mode) && !st.st_rdev);
    CAY_AUTO_FD int sub = openat(to, "sub", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK("opaque", fgetxattr(sub, "trusted.overlay.opaque", &opaque, 1) == 1 && opaque == 'y');
}

TEST(copy_deep)
{
    struct cay_error err;
    const char *method;
    uint64_t bytes;
    CAY_AUTO_FD int top = open(test_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CAY_AUTO_FD int from = open_dir(top, "from");
    CAY_AUTO_FD int to = open_dir(top, "to");
    CAY_AUTO_FD int links = open_dir(top, "links");
    CAY_AUTO_FD int at = openat(from, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    for (int i = 0; i < DEPTH; i++) {
        int next = open_dir(at, "deeper");
        close(at);
        at = next;
    }
    write_file(at, "bottom", "deep", 0);
    CHECK_EQ("in time", cay_copy_tree(from, to, links, 0, &method, &bytes, &err), CAY_ERR_TIMEOUT);
    CAY_AUTO_FD int again = open_dir(top, "again");
    CHECK_EQ("deep",
             cay_copy_tree(from, again, links, cay_clock_mono_ms() + 60000, &method, &bytes, &err),
             0);
    for (int i = 0; i < DEPTH; i++) {
        int next = openat(again, "deeper", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        close(again);
        again = next;
    }
    check_text(again, "bottom", "deep");
    CHECK("unwritable", fchmod(from, 0) == 0);
    cay_trash_remove(top, "from"); /* deeper than what clears up behind a test can go */
    cay_trash_remove(top, "to");
    cay_trash_remove(top, "again");
    CHECK("removed", faccessat(top, "again", F_OK, 0) < 0);
}
