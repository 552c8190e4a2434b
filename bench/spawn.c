/* SPDX-License-Identifier: Apache-2.0 */
/* spawn COUNT PROGRAM [ARGUMENT…]: times posix_spawn until the program is reaped. An `@` in an
 * argument becomes the number of the round, for programs that want a name each time. */
#include "wire.h"
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

#define MAX_ARGS 64

static void number_arguments(char **from, char to[MAX_ARGS][256], char **argv, int count, int round)
{
    for (int i = 0; i < count; i++) {
        char *at = strchr(from[i], '@');
        if (at)
            snprintf(to[i], 256, "%.*s%d%s", (int)(at - from[i]), from[i], round, at + 1);
        argv[i] = at ? to[i] : from[i];
    }
    argv[count] = NULL;
}

int main(int argc, char **argv)
{
    static char numbered[MAX_ARGS][256];
    char *child_argv[MAX_ARGS + 1];
    if (argc < 3 || argc - 2 > MAX_ARGS)
        die("usage: spawn COUNT PROGRAM [ARGUMENT…]");
    size_t count = strtoul(argv[1], NULL, 10);
    uint64_t *ns = calloc(count, sizeof(*ns));
    if (!ns)
        die("out of memory");
    uint64_t first = now_ns();
    for (size_t i = 0; i < count; i++) {
        pid_t pid;
        int status;
        number_arguments(argv + 2, numbered, child_argv, argc - 2, (int)i);
        uint64_t began = now_ns();
        int r = posix_spawnp(&pid, child_argv[0], NULL, NULL, child_argv, environ);
        if (r != 0)
            die("%s: %s", child_argv[0], strerror(r));
        while (waitpid(pid, &status, 0) < 0)
            if (errno != EINTR)
                die("waitpid: %s", strerror(errno));
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
            die("%s failed: status %#x", child_argv[0], (unsigned)status);
        ns[i] = now_ns() - began;
    }
    print_times(ns, count, now_ns() - first);
    free(ns);
    return 0;
}
