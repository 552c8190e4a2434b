/* SPDX-License-Identifier: Apache-2.0 */
/* Connections to services that wait for their next request, by a name for the service. Any thread.
 *
 * One that says something unasked, or ends, is closed: it would hold on to what is on its other
 * side. At once if it was here at the last sweep, else at the next. */
#pragma once
#include "base/error.h"
#include <stdbool.h>
#include <stdint.h>

#define CAY_POOL_KEY 40

struct cay_pool;

/* The one that a client's last answer came by. It stays with that client's connection for a while,
 * and watched: most ask the same service again. */
struct cay_spare {
    int fd; /* -1: none */
    int64_t since_ms;
    char key[CAY_POOL_KEY];
};
/* It, if it is of that service, or -1. The caller's from here on. */
int cay_spare_take(struct cay_spare *s, const char *key);

int cay_pool_new(struct cay_pool **out, struct cay_error *err);
void cay_pool_free(struct cay_pool *p);
/* One that was good a moment ago, or -1. The caller's from here on. */
int cay_pool_take(struct cay_pool *p, const char *key);
/* The pool's from here on; it may close it. */
void cay_pool_give(struct cay_pool *p, const char *key, int fd, int64_t now_ms);
/* Readable when cay_pool_sweep has something to do. */
int cay_pool_fd(const struct cay_pool *p);
/* Closes what ended, and what waited too long; to be called each second, too. */
void cay_pool_sweep(struct cay_pool *p, int64_t now_ms);
