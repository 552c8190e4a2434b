/* SPDX-License-Identifier: Apache-2.0 */
/* Runs every attempt, each in a child of its own because a filter may answer with a signal. A line
 * per attempt: its name, its severity, and `refused ERRNO`, `killed SIGNAL` or `OPEN detail`.
 * Linked statically; harness/probes.py runs it inside and judges. */
#include "escape.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
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

static void report(const char *name, enum severity severity, int status, long result)
{
    const char *why = result < 0 ? strerrorname_np((int)-result) : NULL;
    printf("%s %c ", name, severity);
    if (WIFSIGNALED(status))
        printf("killed %d\n", WTERMSIG(status));
    else if (result < 0)
        printf("refused %s\n", why ? why : "?");
    else
        printf("OPEN %ld %s\n", result, strcmp(name, "leaked_descriptor") ? "" : inherited);
}

static long run_call(const void *what)
{
    const struct call *c = what;
    long result = syscall(c->number, c->args[0], c->args[1], c->args[2], c->args[3], c->args[4]);
    return result < 0 ? -errno : result;
}

static long run_trick(const void *what)
{
    const struct trick *t = what;
    return t->run(t->arg);
}

static long run_path(const void *what)
{
    return try_path(what);
}

static void attempt(const char *name, enum severity severity, long (*run)(const void *what),
                    const void *what)
{
    static long *result;
    if (!result)
        result =
            mmap(NULL, sizeof(long), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (result == MAP_FAILED)
        exit(1);
    fflush(stdout);
    *result = 0;
    pid_t pid = fork();
    if (pid == 0) {
        alarm(5);
        *result = run(what);
        _exit(0);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    report(name, severity, status, *result);
}

int main(void)
{
    char name[128];
    list_inherited();
    for (const struct call *c = calls; c->name; c++)
        attempt(c->name, c->severity, run_call, c);
    for (const struct trick *t = tricks; t->name; t++)
        attempt(t->name, t->severity, run_trick, t);
    for (const struct trick *t = facts; t->name; t++)
        attempt(t->name, t->severity, run_trick, t);
    for (const struct path *p = paths; p->path; p++) {
        snprintf(name, sizeof(name), "%s:%s", p->how, p->path);
        attempt(name, p->severity, run_path, p);
    }
    return 0;
}
