/* SPDX-License-Identifier: Apache-2.0 */
/* Packing what changes in between: every look at a name finds something else there. */
#include "file/file.h"
#include "file/tar.h"
#include "file/try.h"
#include "tests/test.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* From here on somebody else is asked before a name is looked at or opened; the descriptor that he
 * is asked by, or -1. */
static int ask_first(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_newfstatat, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {.len = COUNT(code), .filter = code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -1;
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
                        &program);
}

/* Each time he is asked, but for the first few, the two change places. */
static CAY_NORETURN void exchange(int asked, unsigned few, const char *a, const char *b)
{
    for (unsigned n = 0;; n++) {
        struct seccomp_notif who = {0};
        if (ioctl(asked, SECCOMP_IOCTL_NOTIF_RECV, &who) < 0)
            _exit(0);
        struct seccomp_notif_resp go = {.id = who.id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
        if (n >= few)
            (void)renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE);
        (void)ioctl(asked, SECCOMP_IOCTL_NOTIF_SEND, &go);
    }
}

static bool get(void *arg, void *data, size_t len)
{
    struct cay_buf *left = arg;
    if (len > left->len)
        return false;
    memcpy(data, left->data, len);
    cay_buf_drop(left, len);
    return true;
}

#define LOOKS 24 /* more than there are at such a tree */

enum { TORN = 1, REFUSED, CUT, UNTRIED };

/* Whether something is below a name that the same archive calls no directory. */
static int judge(struct tried *packed)
{
    static struct cay_tar_entry e;
    struct cay_tar tar = {.get = get, .arg = &packed->data};
    bool other = false, below = false;
    int r = 0;
    if (packed->reply.code != CAY_FILE_OK)
        return REFUSED;
    while ((r = cay_tar_next(&tar, &e)) > 0) {
        other |= e.type != CAY_TAR_DIR && strcmp(e.path, "a") == 0;
        below |= strncmp(e.path, "a/", 2) == 0 && e.path[2];
    }
    return r < 0 ? CUT : other && below ? TORN : 0;
}

static int pack_while_it_changes(const char *top, unsigned few, const char *a, const char *b)
{
    int status = 0;
    pid_t packer = fork();
    if (packer == 0) {
        int asked = ask_first();
        pid_t other = asked < 0 ? 0 : fork();
        if (asked < 0)
            _exit(UNTRIED);
        if (other == 0)
            exchange(asked, few, a, b);
        AUTO_TRIED struct tried packed =
            try_file((struct cay_file_request){.op = CAY_FILE_PACK, .path = top}, NULL);
        (void)kill(other, SIGKILL);
        (void)waitpid(other, NULL, 0);
        _exit(judge(&packed));
    }
    (void)waitpid(packer, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* A directory takes turns with something else, beginning at each of the looks. */
TEST(pack_goes_by_one_look)
{
    for (unsigned i = 0; i < 2 * LOOKS; i++) {
        const char *what = i % 2 ? "a link" : "a file";
        char top[16], dir[24], below[32], other[16];
        (void)snprintf(top, sizeof top, "t%u", i);
        (void)snprintf(dir, sizeof dir, "t%u/a", i);
        (void)snprintf(below, sizeof below, "t%u/a/d", i);
        (void)snprintf(other, sizeof other, "o%u", i);
        (void)mkdir(try_path(top), 0755);
        (void)mkdir(try_path(dir), 0755);
        (void)mkdir(try_path(below), 0755);
        if (i % 2)
            (void)symlink("b/l", try_path(other));
        else
            try_put(other, "content");
        CHECK_EQ(what, pack_while_it_changes(top, i / 2, try_path(dir), try_path(other)), 0);
    }
}
