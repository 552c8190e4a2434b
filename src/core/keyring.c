/* SPDX-License-Identifier: Apache-2.0 */
#include "core/keyring.h"
#include "base/clock.h"
#include "model/limits.h"
#include <stdlib.h>
#include <string.h>

void cay_keyring_init(struct cay_keyring *k)
{
    (void)pthread_mutex_init(&k->lock, NULL); /* cannot fail on Linux */
}

void cay_keyring_done(struct cay_keyring *k)
{
    free(k->slots);
    (void)pthread_mutex_destroy(&k->lock);
}

/* A hash is as good as random, so any of its bits choose a slot. */
static size_t slot_of(const uint8_t hash[32])
{
    return ((size_t)hash[0] << 8 | hash[1]) % CAY_KEYRING;
}

bool cay_keyring_get(struct cay_keyring *k, const uint8_t hash[32], struct cay_keyring_entry *out,
                     uint64_t *turn_out)
{
    bool good = false;
    (void)pthread_mutex_lock(&k->lock);
    const struct cay_keyring_entry *e = k->slots ? &k->slots[slot_of(hash)] : NULL;
    if (e && memcmp(e->hash, hash, sizeof e->hash) == 0 && e->look_again_ms > cay_clock_mono_ms() &&
        (e->over_at_ms == 0 || e->over_at_ms > cay_clock_ms())) {
        *out = *e;
        good = true;
    }
    *turn_out = k->turn;
    (void)pthread_mutex_unlock(&k->lock);
    return good;
}

void cay_keyring_put(struct cay_keyring *k, const struct cay_keyring_entry *entry, uint64_t turn)
{
    (void)pthread_mutex_lock(&k->lock);
    if (!k->slots)
        k->slots = calloc(CAY_KEYRING, sizeof *k->slots);
    if (!k->slots)
        abort();
    if (k->turn == turn) {
        struct cay_keyring_entry *e = &k->slots[slot_of(entry->hash)];
        *e = *entry;
        e->look_again_ms = cay_clock_mono_ms() + CAY_KEYRING_MS;
    }
    (void)pthread_mutex_unlock(&k->lock);
}

void cay_keyring_forget(struct cay_keyring *k)
{
    (void)pthread_mutex_lock(&k->lock);
    k->turn++;
    if (k->slots)
        memset(k->slots, 0, CAY_KEYRING * sizeof *k->slots);
    (void)pthread_mutex_unlock(&k->lock);
}
