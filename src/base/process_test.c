/* SPDX-License-Identifier: Apache-2.0 */
#include "base/process.h"
#include "tests/test.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define TRIES 50

/* A child that waits to be killed, and has the other end of the pipe or has closed it by itself. */
static pid_t make(bool holds, int *fd_out)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) < 0)
        return -1;
    pid_t pid = fork();
    if (pid == 0) {
        close(fds[0]);
        if (!holds)
            close(fds[1]);
        for (;;)
            pause();
    }
    close(fds[1]);
    *fd_out = fds[0];
    return pid;
}

/* In a group of its own, which is all that may come to harm. */
TEST(process_that_is_nobody_is_not_killed)
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        if (setpgid(0, 0) < 0)
            _exit(1);
        cay_process_kill(0);
        _exit(7);
    }
    CHECK_EQ("it ended", waitpid(pid, &status, 0), pid);
    CHECK("by itself", WIFEXITED(status) && WEXITSTATUS(status) == 7);
    if ((pid = fork()) == 0)
        for (;;)
            pause();
    cay_process_kill(pid);
    CHECK_EQ("somebody is", waitpid(pid, &status, 0), pid);
    CHECK("killed", WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

TEST(process_that_ends_is_told_by_what_it_held)
{
    char byte;
    for (int i = 0; i < TRIES; i++) {
        bool killed = i % 2;
        const char *what = killed ? "killed" : "it let go by itself";
        CAY_AUTO_FD int fd = -1;
        pid_t pid = make(killed, &fd);
        CHECK(what, pid > 0 && !cay_process_ends(pid));
        CHECK(what, cay_process_start(pid) >= cay_process_start(getpid()));
        if (killed)
            CHECK_EQ(what, kill(pid, SIGKILL), 0);
        CHECK_EQ(what, read(fd, &byte, 1), 0);
        CHECK_EQ(what, cay_process_ends(pid), killed);
        (void)kill(pid, SIGKILL);
        CHECK_EQ(what, waitpid(pid, NULL, 0), pid);
        CHECK("gone", cay_process_ends(pid) && cay_process_start(pid) == 0);
    }
}
