/* SPDX-License-Identifier: Apache-2.0 */
/* Every kind of store, for the tests of what all of them must do. */
#pragma once
#include "store/store.h"
#include "tests/test.h"
#include <fcntl.h>
#include <stdio.h>

static const char *const stores[] = {"sqlite", "fake"};

static inline struct cay_store *open_store(const char *name)
{
    struct cay_error err = {0};
    struct cay_store *s = NULL;
    CAY_AUTO_FD int dir = open(test_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct cay_config cfg = {.data_fd = strcmp(name, "fake") == 0 ? -1 : dir};
    CHECK_EQ(name, cay_store_open(name, &cfg, &s, &err), 0);
    if (!s)
        fprintf(stderr, "%s: %s: %s\n", name, err.msg, err.cause);
    return s;
}

/* Runs the body once per store, on `s`. */
static inline void each_store(void (*body)(struct cay_store *s, const char *store))
{
    for (size_t i = 0; i < COUNT(stores); i++) {
        struct cay_store *s = open_store(stores[i]);
        if (s)
            body(s, stores[i]);
        cay_store_close(s);
    }
}
