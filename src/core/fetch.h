/* SPDX-License-Identifier: Apache-2.0 */
/* Images that creates wait for: each is had once, for all who want it, by a job that pulls it and,
 * where no registry gives it, one that builds it. Nobody's thread waits. */
#pragma once
#include "base/error.h"
#include "model/image.h"
#include "model/limits.h"
#include <pthread.h>
#include <stdatomic.h>

struct cay_core;

struct cay_fetcher {
    pthread_mutex_t lock; /* guards what follows */
    struct cay_fetch *first;
    int count;
    atomic_llong looked_ms;
};

void cay_fetcher_init(struct cay_fetcher *f);
void cay_fetcher_done(struct cay_fetcher *f); /* after the jobs: all were told */
/* Calls `then`, once, from some thread: with NULL when the image is there, or with why it is not.
 * ALWAYS is for one that is there: its registry is asked whether it still is what it was, and
 * nobody else. CAY_ERR_TIMEOUT "IMAGE_NOT_READY" when it takes too long: it is made all the same,
 * for who asks again. CAY_ERR_CONFLICT when the sandbox `id` is to be deleted. */
void cay_fetch(struct cay_core *core, const char *image, enum cay_pull_policy policy,
               const char *id,
               void (*then)(struct cay_core *core, void *arg, const struct cay_error *err),
               void *arg);
/* Whoever works on a job calls this now and then: those who need not wait any more are told. */
void cay_fetch_look(struct cay_core *core);
