/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/test.h"
#include <ftw.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static struct test *all, *running;
static int failures_here;
static char dir[64];

void test_register(struct test *t)
{
    struct test **at = &all;
    while (*at && strcmp((*at)->name, t->name) < 0)
        at = &(*at)->next;
    t->next = *at;
    *at = t;
}

void test_failed(const char *file, int line, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fprintf(stderr, "  %s:%d: ", file, line);
    vfprintf(stderr, fmt, args);
    fputc('\n', stderr);
    va_end(args);
    failures_here++;
}

uint64_t test_ms(uint64_t ms)
{
    const char *factor = getenv("CAY_SLOW_FACTOR");
    uint64_t times = factor ? strtoull(factor, NULL, 10) : 1;
    return times > 1 ? ms * times : ms;
}

const char *test_dir(void)
{
    if (!dir[0]) {
        snprintf(dir, sizeof dir, "/tmp/cay-test-XXXXXX");
        if (!mkdtemp(dir)) {
            perror("mkdtemp");
            exit(2);
        }
    }
    return dir;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st, (void)type, (void)at;
    return remove(path);
}

static void remove_dir(void)
{
    if (dir[0])
        (void)nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS); /* the next run has its own */
    dir[0] = 0;
}

/* It may hold any lock, so nothing is said by way of stdio. */
static void too_long(int signal)
{
    static const char words[] = " lasts too long, and ends the run\n";
    (void)signal;
    (void)!write(STDERR_FILENO, "FAIL ", 5);
    (void)!write(STDERR_FILENO, running->name, strlen(running->name));
    (void)!write(STDERR_FILENO, words, sizeof words - 1);
    _exit(3);
}

int main(int argc, char **argv)
{
    int passed = 0, failed = 0;
    (void)signal(SIGALRM, too_long);
    for (struct test *t = all; t; t = t->next) {
        if (argc > 1 && !strstr(t->name, argv[1]))
            continue;
        failures_here = 0;
        running = t;
        (void)alarm((unsigned)(test_ms(TEST_MAX_MS) / 1000));
        t->run();
        remove_dir();
        if (failures_here) {
            fprintf(stderr, "FAIL %s (%s)\n", t->name, t->file);
            failed++;
        } else {
            passed++;
        }
    }
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
