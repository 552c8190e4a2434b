/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sha256.h"
#include <string.h>

static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t turn(uint32_t x, int by)
{
    return x >> by | x << (32 - by);
}

static void absorb(struct cay_sha256 *s, const uint8_t *p)
{
    uint32_t w[64];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 |
               (uint32_t)p[4 * i + 2] << 8 | p[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        uint32_t near = w[i - 15], late = w[i - 2];
        w[i] = w[i - 16] + (turn(near, 7) ^ turn(near, 18) ^ near >> 3) + w[i - 7] +
               (turn(late, 17) ^ turn(late, 19) ^ late >> 10);
    }
    uint32_t a = s->state[0], b = s->state[1], c = s->state[2], d = s->state[3];
    uint32_t e = s->state[4], f = s->state[5], g = s->state[6], h = s->state[7];
    for (int i = 0; i < 64; i++) {
        uint32_t one = h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) +
                       round_constants[i] + w[i];
        uint32_t two = (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
        h = g;
        g = f;
        f = e;
        e = d + one;
        d = c;
        c = b;
        b = a;
        a = one + two;
    }
    const uint32_t v[8] = {a, b, c, d, e, f, g, h};
    for (int i = 0; i < 8; i++)
        s->state[i] += v[i];
}

void cay_sha256_init(struct cay_sha256 *s)
{
    *s = (struct cay_sha256){.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f,
                                       0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

void cay_sha256_add(struct cay_sha256 *s, const void *data, size_t len)
{
    const uint8_t *p = data;
    size_t held = s->bytes % 64;
    s->bytes += len;
    if (held && held + len >= 64) {
        memcpy(s->block + held, p, 64 - held);
        absorb(s, s->block);
        p += 64 - held;
        len -= 64 - held;
        held = 0;
    }
    for (; len >= 64; p += 64, len -= 64)
        absorb(s, p);
    if (len)
        memcpy(s->block + held, p, len);
}

void cay_sha256_done(struct cay_sha256 *s, uint8_t out[32])
{
    static const uint8_t pad[64] = {0x80};
    uint64_t bits = s->bytes * 8;
    uint8_t length[8];
    for (int i = 0; i < 8; i++)
        length[i] = (uint8_t)(bits >> (56 - 8 * i));
    cay_sha256_add(s, pad, 1 + (119 - s->bytes % 64) % 64);
    cay_sha256_add(s, length, sizeof length);
    for (int i = 0; i < 32; i++)
        out[i] = (uint8_t)(s->state[i / 4] >> (24 - 8 * (i % 4)));
}

void cay_sha256_hmac(const void *key, size_t key_len, const void *data, size_t len, uint8_t out[32])
{
    struct cay_sha256 s;
    uint8_t block[sizeof s.block] = {0}, pad[sizeof block], inner[32];
    if (key_len <= sizeof block) {
        memcpy(block, key, key_len);
    } else {
        cay_sha256_init(&s);
        cay_sha256_add(&s, key, key_len);
        cay_sha256_done(&s, block);
    }
    for (size_t i = 0; i < sizeof pad; i++)
        pad[i] = block[i] ^ 0x36;
    cay_sha256_init(&s);
    cay_sha256_add(&s, pad, sizeof pad);
    cay_sha256_add(&s, data, len);
    cay_sha256_done(&s, inner);
    for (size_t i = 0; i < sizeof pad; i++)
        pad[i] = block[i] ^ 0x5c;
    cay_sha256_init(&s);
    cay_sha256_add(&s, pad, sizeof pad);
    cay_sha256_add(&s, inner, sizeof inner);
    cay_sha256_done(&s, out);
}

bool cay_sha256_same(const uint8_t a[32], const uint8_t b[32])
{
    uint8_t differ = 0;
    for (size_t i = 0; i < 32; i++)
        differ |= a[i] ^ b[i];
    return differ == 0;
}
