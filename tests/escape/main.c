/* SPDX-License-Identifier: Apache-2.0 */
/* Runs every attempt, each in a child of its own because a filter may answer with a signal. A line
 * per attempt: its name, and `refused ERRNO`, `killed SIGNAL` or `OPEN detail`. Linked statically
 * and run inside by test_escape.py. */
#include "escape.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

char inherited[256];

static void list_inherited(void)
{
    for (int fd = 3; fd < 4096; fd++) {
        char path[32], target[128];
        if (fcntl(fd, F_GETFD) < 0)
            continue;
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        ssize_t n = readlink(path, target, sizeof(target) - 1);
        target[n > 0 ? n : 0] = '\0';
        size_t used = strlen(inherited);
        snprintf(inherited + used, sizeof(inherited) - used, "%d=%s;", fd, target);
    }
}

static void report(const char *name, int status, long result)
{
    const char *why = result < 0 ? strerrorname_np((int)-result) : NULL;
    if (WIFSIGNALED(status))
        printf("%s killed %d\n", name, WTERMSIG(status));
    else if (result < 0)
        printf("%s refused %s\n", name, why ? why : "?");
    else
        printf("%s OPEN %ld %s\n", name, result,
               strcmp(name, "leaked_descriptor") ? "" : inherited);
}

static long run_call(const struct call *c)
{
    long result = syscall(c->number, c->args[0], c->args[1], c->args[2], c->args[3], c->args[4]);
    return result < 0 ? -errno : result;
}

static void attempt(const struct call *call, const struct trick *trick, long *result)
{
    fflush(stdout);
    *result = 0;
    pid_t pid = fork();
    if (pid == 0) {
        alarm(5);
        *result = call ? run_call(call) : trick->run(trick->arg);
        _exit(0);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    report(call ? call->name : trick->name, status, *result);
}

int main(void)
{
    list_inherited();
    long *result =
        mmap(NULL, sizeof(long), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (result == MAP_FAILED)
        return 1;
    for (const struct call *c = calls; c->name; c++)
        attempt(c, NULL, result);
    for (const struct trick *t = tricks; t->name; t++)
        attempt(NULL, t, result);
    return 0;
}
