/* SPDX-License-Identifier: Apache-2.0 */
/* Unit tests: TEST(name) { CHECK…; }. One program runs them all; a word on its command line
 * chooses those whose name holds it. One that lasts longer than TEST_MAX_MS ends the run. */
#pragma once
#include "base/attr.h"
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define TEST_MAX_MS 300000
#define COUNT(array) CAY_COUNT(array)

struct test {
    const char *name, *file;
    void (*run)(void);
    struct test *next;
};

void test_register(struct test *t);
void test_failed(const char *file, int line, const char *fmt, ...) CAY_PRINTF(3, 4);
/* A fresh directory that is removed with all in it when the test ends. */
const char *test_dir(void);
/* A time as this machine needs it: CAY_SLOW_FACTOR times as long. */
uint64_t test_ms(uint64_t ms);

#define TEST(id)                                                                                   \
    static void test_##id(void);                                                                   \
    __attribute__((constructor)) static void test_add_##id(void)                                   \
    {                                                                                              \
        static struct test t = {#id, __FILE__, test_##id, NULL};                                   \
        test_register(&t);                                                                         \
    }                                                                                              \
    static void test_##id(void)

#define CHECK(what, cond)                                                                          \
    do {                                                                                           \
        if (!(cond))                                                                               \
            test_failed(__FILE__, __LINE__, "%s: %s", what, #cond);                                \
    } while (0)
#define CHECK_EQ(what, got, want)                                                                  \
    do {                                                                                           \
        long long got_ = (long long)(got), want_ = (long long)(want);                              \
        if (got_ != want_)                                                                         \
            test_failed(__FILE__, __LINE__, "%s: %s is %lld, not %lld", what, #got, got_, want_);  \
    } while (0)
#define CHECK_STR(what, got, want)                                                                 \
    do {                                                                                           \
        const char *got_ = (got), *want_ = (want);                                                 \
        if (!got_ || !want_ ? got_ != want_ : strcmp(got_, want_) != 0)                            \
            test_failed(__FILE__, __LINE__, "%s: %s is \"%s\", not \"%s\"", what, #got,            \
                        got_ ? got_ : "(null)", want_ ? want_ : "(null)");                         \
    } while (0)
