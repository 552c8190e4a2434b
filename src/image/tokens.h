/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens of registries, kept for as long as they are good, by whom and for what they are. */
#pragma once
#include "base/str.h"
#include <pthread.h>

struct cay_tokens {
    pthread_mutex_t lock;
    struct cay_token *first;
    size_t count;
};

void cay_tokens_init(struct cay_tokens *t);
void cay_tokens_done(struct cay_tokens *t);
/* The value of Authorization, in the arena; NULL: there is none. */
const char *cay_tokens_get(struct cay_tokens *t, struct cay_arena *a, const char *key);
/* value NULL: it was refused, and is forgotten. */
void cay_tokens_set(struct cay_tokens *t, const char *key, const char *value, int64_t seconds);
