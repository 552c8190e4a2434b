/* SPDX-License-Identifier: Apache-2.0 */
#include "file/try.h"
#include "tests/test.h"
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

/* A child that waits for signals, called `name` and with that variable. */
static pid_t start(const char *name, const char *variable)
{
    const char *argv[] = {name, "600", NULL};
    const char *env[] = {"A=1", variable, NULL};
    int ready[2];
    char byte;
    if (pipe2(ready, O_CLOEXEC) < 0)
        return -1;
    pid_t pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)execve("/bin/sleep", (char **)(uintptr_t)argv, (char **)(uintptr_t)env);
        _exit(127);
    }
    (void)close(ready[1]);
    (void)!read(ready[0], &byte, 1); /* closed by its exec */
    (void)close(ready[0]);
    return pid;
}

static bool find(const struct tried *t, pid_t pid, struct cay_file_task *out)
{
    const char *at = t->data.data;
    size_t left = t->data.len;
    for (uint32_t i = 0; i < t->reply.count; i++)
        if (cay_file_process_next(&at, &left, out) != 0)
            break;
        else if (out->info.pid == (uint32_t)pid)
            return true;
    return false;
}

TEST(processes_are_listed_with_their_execution)
{
    pid_t pid = start("sleeper of mine", "CAY_EXECUTION_ID=exec_0123456789abcdef");
    pid_t other = start("sleep", "B=2");
    struct cay_file_task task = {0};
    AUTO_TRIED struct tried t =
        try_file((struct cay_file_request){.op = CAY_FILE_PROCESSES, .path = "/proc"}, NULL);
    CHECK_EQ("a good reply", t.reply.code, CAY_FILE_OK);
    CHECK("it is there", find(&t, pid, &task));
    CHECK_EQ("parent", task.info.parent, (uint32_t)getpid());
    CHECK_EQ("user", task.info.uid, getuid());
    CHECK_STR("execution", task.info.execution, "exec_0123456789abcdef");
    CHECK("command",
          task.info.command_len == 19 && memcmp(task.command, "sleeper of mine 600", 19) == 0);
    CHECK("memory", task.info.memory_bytes > 0);
    CHECK("threads", task.info.threads == 1);
    CHECK("the other is there", find(&t, other, &task));
    CHECK_STR("nobody's", task.info.execution, "");
    (void)kill(other, SIGKILL);
    (void)waitpid(other, NULL, 0);
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
}

static uint32_t send_signal(pid_t pid, int number)
{
    AUTO_TRIED struct tried t = try_file((struct cay_file_request){.op = CAY_FILE_SIGNAL,
                                                                   .path = "/proc",
                                                                   .pid = (uint64_t)pid,
                                                                   .signal = (uint64_t)number},
                                         NULL);
    return t.reply.code;
}

TEST(processes_are_signalled)
{
    pid_t pid = start("sleep", "A=2");
    int status = 0;
    CHECK_EQ("never pid 1", send_signal(1, SIGCONT), CAY_FILE_BAD_REQUEST);
    CHECK_EQ("no signal 0", send_signal(pid, 0), CAY_FILE_BAD_REQUEST);
    CHECK_EQ("signalled", send_signal(pid, SIGUSR1), CAY_FILE_OK);
    (void)waitpid(pid, &status, 0);
    CHECK("by that signal", WIFSIGNALED(status) && WTERMSIG(status) == SIGUSR1);
    CHECK_EQ("gone", send_signal(pid, SIGUSR1), CAY_FILE_NOT_FOUND);
}

TEST(processes_as_told_by_a_liar)
{
    struct cay_file_process p = {.state = 'S', .user_len = 1, .command_len = 1};
    struct cay_file_task task;
    char bytes[sizeof p + 2] = {0};
    static const struct {
        const char *name;
        size_t cut;
        uint64_t cpu_ms;
        uint8_t state;
        int want;
    } cases[] = {
        {"whole", 0, 0, 'S', 0},          {"half a head", sizeof p, 0, 'S', 1},
        {"half a command", 1, 0, 'S', 1}, {"no time", 0, UINT64_MAX, 'S', -1},
        {"no state", 0, 0, 0, -1},
    };
    memset(p.execution, 'x', sizeof p.execution);
    for (size_t i = 0; i < CAY_COUNT(cases); i++) {
        const char *at = bytes;
        size_t left = sizeof bytes - cases[i].cut;
        p.cpu_ms = cases[i].cpu_ms;
        p.state = cases[i].state;
        memcpy(bytes, &p, sizeof p);
        CHECK_EQ(cases[i].name, cay_file_process_next(&at, &left, &task), cases[i].want);
        if (cases[i].want == 0)
            CHECK("an id that ends", strlen(task.info.execution) < CAY_ID_SIZE);
    }
}
