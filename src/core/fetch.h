/* SPDX-License-Identifier: Apache-2.0 */
/* Images that are being made because somebody wants a sandbox of them: each once, for all who
 * wait. */
#pragma once
#include "base/error.h"
#include "model/limits.h"
#include <pthread.h>
#include <stdbool.h>

struct cay_core;

struct cay_fetcher {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct cay_fetch *first;
    int count; /* threads, one for each */
    bool closing;
};

void cay_fetcher_init(struct cay_fetcher *f);
void cay_fetcher_done(struct cay_core *core); /* what is not there by now is given up */
/* Calls `then`, once, from some thread: with NULL when the image is there, or with why it is not.
 * CAY_ERR_TIMEOUT "IMAGE_NOT_READY" when it takes too long: it is made all the same, for who asks
 * again. CAY_ERR_CONFLICT when the sandbox `id` is to be deleted. */
void cay_fetch(struct cay_core *core, const char *image, const char *id,
               void (*then)(struct cay_core *core, void *arg, const struct cay_error *err),
               void *arg);
