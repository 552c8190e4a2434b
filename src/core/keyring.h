/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens that were found good a moment ago, by their hash, so that not every request asks the store
 * or verifies a signature. A slot by hash; who shares it with another pays with a fresh look. */
#pragma once
#include "base/id.h"
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct cay_keyring_entry {
    uint8_t hash[32];
    char account_id[CAY_ID_SIZE];
    char key_id[CAY_ID_SIZE]; /* or empty */
    unsigned scopes;
    int64_t over_at_ms;    /* wall clock: the token's own end; 0: none */
    int64_t look_again_ms; /* monotonic */
};

struct cay_keyring {
    pthread_mutex_t lock;
    struct cay_keyring_entry *slots; /* made when the first one is remembered */
    uint64_t turn;                   /* counts how often all were forgotten */
};

void cay_keyring_init(struct cay_keyring *k);
void cay_keyring_done(struct cay_keyring *k);
/* turn_out: to be given to cay_keyring_put by who now looks himself. */
bool cay_keyring_get(struct cay_keyring *k, const uint8_t hash[32], struct cay_keyring_entry *out,
                     uint64_t *turn_out);
/* Nothing when all were forgotten since: what the caller saw may be what was revoked. */
void cay_keyring_put(struct cay_keyring *k, const struct cay_keyring_entry *entry, uint64_t turn);
void cay_keyring_forget(struct cay_keyring *k);
