/* SPDX-License-Identifier: Apache-2.0 */
/* spawn COUNT PROGRAM [ARGUMENT…]: times posix_spawn until the program is reaped.
 * spawn -u COUNT PROGRAM [ARGUMENT…] [-- PROGRAM…]: times it until the first byte of its output,
 * after which it is killed, or ended by the second program.
 *
 * An `@` in an argument becomes the number of the round, for programs that want a name each time.
 */
#include "wire.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

#define MAX_ARGS 64

static char **numbered(char **from, int round)
{
    static char text[MAX_ARGS][256], *argv[MAX_ARGS + 1];
    int n = 0;
    for (; from[n] && n < MAX_ARGS; n++) {
        char *at = strchr(from[n], '@');
        if (at)
            snprintf(text[n], sizeof(text[n]), "%.*s%d%s", (int)(at - from[n]), from[n], round,
                     at + 1);
        argv[n] = at ? text[n] : from[n];
    }
    argv[n] = NULL;
    return argv;
}

static pid_t start(char **argv, int out_fd)
{
    pid_t pid;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    posix_spawn_file_actions_init(&actions);
    if (out_fd >= 0)
        posix_spawn_file_actions_adddup2(&actions, out_fd, STDOUT_FILENO);
    int r = posix_spawnp(&pid, argv[0], &actions, &attributes, argv, environ);
    if (r != 0)
        die("%s: %s", argv[0], strerror(r));
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return pid;
}

static int reap(pid_t pid)
{
    int status;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            die("waitpid: %s", strerror(errno));
    return status;
}

static void run(char **argv)
{
    int status = reap(start(argv, -1));
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        die("%s failed: status %#x", argv[0], (unsigned)status);
}

static uint64_t time_to_end(char **argv, int round)
{
    char **now = numbered(argv, round);
    uint64_t began = now_ns();
    run(now);
    return now_ns() - began;
}

/* Ends when nobody has the pipe any more: the next round meets a machine at rest. */
static uint64_t time_to_output(char **argv, char **end, int round)
{
    int out[2];
    char byte;
    char **now = numbered(argv, round);
    if (pipe2(out, O_CLOEXEC) < 0)
        die("pipe: %s", strerror(errno));
    uint64_t began = now_ns();
    pid_t pid = start(now, out[1]);
    close(out[1]);
    if (read(out[0], &byte, 1) != 1)
        die("%s ended without a word", argv[0]);
    uint64_t took = now_ns() - began;
    if (!end)
        /* All of its group: bwrap's child may not yet have asked to die with its parent. */
        (void)kill(-pid, SIGKILL);
    (void)reap(
        pid); /* one that has an end leaves by itself: before that it may not be ready for it */
    if (end)
        run(numbered(end, round));
    while (read(out[0], &byte, 1) > 0)
        ;
    close(out[0]);
    return took;
}

static char **split(char **argv)
{
    for (; *argv; argv++)
        if (strcmp(*argv, "--") == 0) {
            *argv = NULL;
            return argv + 1;
        }
    return NULL;
}

int main(int argc, char **argv)
{
    bool until_output = argc > 1 && strcmp(argv[1], "-u") == 0;
    argv += until_output ? 2 : 1;
    if (argc < 3 || !argv[0] || !argv[1])
        die("usage: spawn [-u] COUNT PROGRAM [ARGUMENT…] [-- PROGRAM…]");
    size_t count = strtoul(argv[0], NULL, 10);
    char **program = argv + 1, **end = until_output ? split(program) : NULL;
    uint64_t *ns = calloc(count, sizeof(*ns));
    if (!ns)
        die("out of memory");
    uint64_t first = now_ns();
    for (size_t i = 0; i < count; i++)
        ns[i] = until_output ? time_to_output(program, end, (int)i) : time_to_end(program, (int)i);
    print_times(ns, count, now_ns() - first);
    free(ns);
    return 0;
}
