/* SPDX-License-Identifier: Apache-2.0 */
/* GNU tar does the walking: hard links, holes, devices and every attribute, with constant memory,
 * and it lets nothing out of the directory that it unpacks into. */
#include "supervisor/archive.h"
#include "base/sha256.h"
#include "base/str.h"
#include "model/limits.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define BLOCK 512
#define CHUNK (1 << 20)
#define SEAL "cay-backup sha256 "
#define FD_PATH 32

static void fd_path(int fd, char out[FD_PATH])
{
    snprintf(out, FD_PATH, "/proc/self/fd/%d", fd);
}

/* ---- tar ---- */

static void CAY_NORETURN exec_tar(const char *const *args, int in, int out)
{
    sigset_t none;
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    if ((in >= 0 && dup2(in, 0) < 0) || (out >= 0 && dup2(out, 1) < 0))
        _exit(126);
    (void)setenv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin", 1);
    (void)setenv("LC_ALL", "C", 1);
    (void)unsetenv("TAR_OPTIONS");
    execvp("tar", (char *const *)(uintptr_t)args);
    _exit(127);
}

static int start_tar(const char *const *args, int in, int out, pid_t *pid_out,
                     struct cay_error *err)
{
    pid_t pid = fork();
    if (pid == 0)
        exec_tar(args, in, out);
    if (pid < 0)
        return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot start tar");
    *pid_out = pid;
    return 0;
}

static int end_tar(pid_t pid, struct cay_error *err)
{
    int status;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot wait for tar");
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
        return cay_fail(err, CAY_ERR_UNSUPPORTED, "tar is not installed");
    return status == 0 ? 0 : cay_fail(err, CAY_ERR_INTERNAL, "tar failed: status %d", status);
}

/* ---- bytes ---- */

static int put(int fd, const void *data, size_t len, struct cay_error *err)
{
    return cay_write_all(fd, data, len)
               ? 0
               : cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot write the backup");
}

static void make_seal(struct cay_sha256 *sum, char out[BLOCK])
{
    uint8_t digest[32];
    cay_sha256_done(sum, digest);
    memset(out, 0, BLOCK);
    size_t len = (size_t)snprintf(out, BLOCK, SEAL);
    for (size_t i = 0; i < sizeof digest; i++)
        len += (size_t)snprintf(out + len, BLOCK - len, "%02x", digest[i]);
    out[len] = '\n';
}

static int pass_on(int from, int to, struct cay_error *err)
{
    char seal[BLOCK];
    struct cay_sha256 sum;
    CAY_AUTO_FREE char *buffer = malloc(CHUNK);
    int r = buffer ? 0 : cay_fail(err, CAY_ERR_INTERNAL, "no memory");
    cay_sha256_init(&sum);
    for (ssize_t n = 1; r == 0 && n != 0;) {
        n = read(from, buffer, CHUNK);
        if (n < 0 && errno != EINTR)
            r = cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot read from tar");
        if (r == 0 && n > 0) {
            cay_sha256_add(&sum, buffer, (size_t)n);
            r = put(to, buffer, (size_t)n, err);
        }
    }
    make_seal(&sum, seal);
    return r < 0 ? r : put(to, seal, sizeof seal, err);
}

/* ---- writing ---- */

/* A list of names as a file that tar reads. */
static int list_fd(const struct cay_buf *names, struct cay_error *err)
{
    CAY_AUTO_FD int fd = memfd_create("names", 0);
    if (fd < 0)
        return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot make a list");
    int r = put(fd, names->data, names->len, err);
    return r < 0 ? r : cay_take_fd(&fd);
}

static int inherited(int fd, struct cay_error *err)
{
    int copy = fcntl(fd, F_DUPFD, 3);
    return copy < 0 ? cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot open a directory") : copy;
}

int cay_archive_write(const struct cay_archive *what, int out, struct cay_error *err)
{
    char plain_dir[FD_PATH], trees_dir[FD_PATH], plain_list[FD_PATH], trees_list[FD_PATH];
    int ends[2];
    pid_t pid = 0;
    CAY_AUTO_FD int plain_fd = inherited(what->plain_fd, err);
    CAY_AUTO_FD int trees_fd = inherited(what->trees_fd, err);
    CAY_AUTO_FD int plain = list_fd(what->plain, err);
    CAY_AUTO_FD int trees = list_fd(what->trees, err);
    if (plain_fd < 0 || trees_fd < 0 || plain < 0 || trees < 0)
        return err->code;
    fd_path(plain_fd, plain_dir);
    fd_path(trees_fd, trees_dir);
    fd_path(plain, plain_list);
    fd_path(trees, trees_list);
    const char *const args[] = {"tar",
                                "--create",
                                "--file=-",
                                "--format=posix",
                                "--pax-option=delete=atime,delete=ctime",
                                "--numeric-owner",
                                "--sparse",
                                "--xattrs",
                                "--xattrs-include=*",
                                "--acls",
                                "--warning=no-file-ignored", /* sockets */
                                "--transform=flags=rSh;s,^new-bb-," CAY_ARCHIVE_TREES "sb-,",
                                "--transform=flags=rSh;s,^new-bn-," CAY_ARCHIVE_TREES "sn-,",
                                "--transform=flags=rSh;s,^new-bo-," CAY_ARCHIVE_TREES "vo-,",
                                "--null", /* in lists, where nothing is an option then */
                                "--verbatim-files-from",
                                "-C",
                                plain_dir,
                                "-T",
                                plain_list,
                                "-C",
                                trees_dir,
                                "-T",
                                trees_list,
                                NULL};
    if (pipe2(ends, O_CLOEXEC) < 0)
        return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot make a pipe");
    CAY_AUTO_FD int from = ends[0];
    CAY_AUTO_FD int to = ends[1];
    int r = start_tar(args, -1, to, &pid, err);
    cay_close_fd(&to);
    if (r < 0)
        return r;
    struct cay_error tars;
    r = pass_on(from, out, err);
    cay_close_fd(&from); /* tar ends now, if it has not */
    int t = end_tar(pid, &tars);
    if (r == 0 && t < 0)
        *err = tars;
    return r < 0 ? r : t;
}

/* ---- reading ---- */

static int damaged(struct cay_error *err)
{
    return cay_fail(err, CAY_ERR_INVALID, "the backup is damaged, or is none");
}

int cay_archive_check(int file, struct cay_error *err)
{
    struct stat st;
    struct cay_sha256 sum;
    char told[BLOCK], is[BLOCK];
    CAY_AUTO_FREE char *buffer = malloc(CHUNK);
    if (!buffer || fstat(file, &st) < 0)
        return cay_fail_errno(err, CAY_ERR_INVALID, "cannot read the backup");
    if (!S_ISREG(st.st_mode) || st.st_size < 3 * BLOCK || st.st_size % BLOCK != 0)
        return damaged(err);
    off_t end = st.st_size - BLOCK;
    cay_sha256_init(&sum);
    for (off_t at = 0; at < end;) {
        ssize_t n = pread(file, buffer, end - at < CHUNK ? (size_t)(end - at) : CHUNK, at);
        if (n <= 0)
            return cay_fail_errno(err, CAY_ERR_INVALID, "cannot read the backup");
        cay_sha256_add(&sum, buffer, (size_t)n);
        at += n;
    }
    make_seal(&sum, is);
    if (pread(file, told, BLOCK, end) != BLOCK || memcmp(told, is, BLOCK) != 0)
        return damaged(err);
    return 0;
}

int cay_archive_manifest(int file, struct cay_arena *a, char **out, struct cay_error *err)
{
    static const char *const args[] = {"tar",
                                       "--extract",
                                       "--file=-",
                                       "--to-stdout",
                                       "--occurrence=1",
                                       "--warning=none",
                                       CAY_ARCHIVE_MANIFEST,
                                       NULL};
    int ends[2];
    pid_t pid = 0;
    size_t len = 0;
    char *text = cay_arena_alloc(a, CAY_BACKUP_MANIFEST_BYTES + 1);
    if (pipe2(ends, O_CLOEXEC) < 0 || lseek(file, 0, SEEK_SET) < 0)
        return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot make a pipe");
    CAY_AUTO_FD int from = ends[0];
    CAY_AUTO_FD int to = ends[1];
    int r = start_tar(args, file, to, &pid, err);
    cay_close_fd(&to);
    if (r < 0)
        return r;
    for (ssize_t n = 1; n != 0 && len<CAY_BACKUP_MANIFEST_BYTES; len += n> 0 ? (size_t)n : 0) {
        n = read(from, text + len, CAY_BACKUP_MANIFEST_BYTES - len);
        if (n < 0 && errno != EINTR)
            break;
    }
    cay_close_fd(&from);
    text[len] = 0;
    *out = text;
    r = end_tar(pid, err);
    return r < 0 || len == 0 ? damaged(err) : 0;
}

int cay_archive_read(int file, int to, const char *trees, struct cay_error *err)
{
    char dir[FD_PATH], transform[128];
    pid_t pid = 0;
    CAY_AUTO_FD int fd = inherited(to, err);
    if (fd < 0)
        return fd;
    fd_path(fd, dir);
    snprintf(transform, sizeof transform, "--transform=flags=rSh;s,^" CAY_ARCHIVE_TREES ",%s/,",
             trees);
    const char *const args[] = {"tar",
                                "--extract",
                                "--file=-",
                                "--sparse",
                                "--numeric-owner",
                                "--same-owner",
                                "--xattrs",
                                "--same-permissions",
                                "--xattrs-include=*",
                                "--acls",
                                transform,
                                "-C",
                                dir,
                                NULL};
    if (lseek(file, 0, SEEK_SET) < 0)
        return cay_fail_errno(err, CAY_ERR_INVALID, "cannot read the backup");
    int r = start_tar(args, file, -1, &pid, err);
    return r < 0 ? r : end_tar(pid, err);
}
