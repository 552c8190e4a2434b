/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 (FIPS 180-4), in pieces. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cay_sha256 {
    uint32_t state[8];
    uint64_t bytes;
    uint8_t block[64];
};

void cay_sha256_init(struct cay_sha256 *s);
void cay_sha256_add(struct cay_sha256 *s, const void *data, size_t len);
void cay_sha256_done(struct cay_sha256 *s, uint8_t out[32]);
/* HMAC-SHA-256 (RFC 2104). */
void cay_sha256_hmac(const void *key, size_t key_len, const void *data, size_t len,
                     uint8_t out[32]);
/* In a time that tells nothing about where they differ. */
bool cay_sha256_same(const uint8_t a[32], const uint8_t b[32]);
