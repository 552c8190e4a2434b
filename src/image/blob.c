/* SPDX-License-Identifier: Apache-2.0 */
#include "image/blob.h"
#include "image/packed.h"
#include "model/limits.h"
#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#define CHUNK (256 * 1024)
#define TELL_BYTES (1 * CAY_MIB) /* between two reports of progress */
#define BLOCK 512

struct cay_blob {
    int fd, progress_fd;
    uint64_t offset, left; /* of the file */
    uint64_t packed, plain, told;
    EVP_MD_CTX *packed_sum, *plain_sum;
    struct cay_packed *unpacker;
    struct cay_packed_in in; /* of in_buf, what was not used up */
    unsigned char *in_buf, *out_buf;
    size_t out_at, out_len;
    struct cay_error err; /* code 0: none */
};

struct cay_blob *cay_blob_new(int fd, uint64_t offset, uint64_t size, int progress_fd)
{
    struct cay_blob *s = calloc(1, sizeof *s);
    if (!s)
        abort();
    *s = (struct cay_blob){.fd = fd, .progress_fd = progress_fd, .offset = offset, .left = size};
    s->packed_sum = EVP_MD_CTX_new();
    s->plain_sum = EVP_MD_CTX_new();
    s->in_buf = malloc(CHUNK);
    s->out_buf = malloc(CHUNK);
    s->unpacker = cay_packed_new();
    if (!s->packed_sum || !s->plain_sum || !s->in_buf || !s->out_buf ||
        EVP_DigestInit_ex(s->packed_sum, EVP_sha256(), NULL) != 1 ||
        EVP_DigestInit_ex(s->plain_sum, EVP_sha256(), NULL) != 1)
        abort();
    return s;
}

static int bad(struct cay_blob *s, const char *why)
{
    return cay_fail_as(&s->err, CAY_ERR_UNPROCESSABLE, "BAD_LAYER", "the layer cannot be read: %s",
                       why);
}

/* ---- the packed side ---- */

static void tell(struct cay_blob *s)
{
    if (s->progress_fd >= 0 && (s->packed - s->told >= TELL_BYTES || s->left == 0)) {
        (void)!pwrite(s->progress_fd, &s->packed, sizeof s->packed, 0); /* nobody may be there */
        s->told = s->packed;
    }
}

/* More of the file, behind what was used up. 0 at its end. */
static ssize_t refill(struct cay_blob *s)
{
    size_t want = s->left < CHUNK ? (size_t)s->left : CHUNK;
    ssize_t n;
    do
        n = want ? pread(s->fd, s->in_buf, want, (off_t)s->offset) : 0;
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return cay_fail_errno(&s->err, CAY_ERR_PROVIDER, "cannot read the layer");
    if (n == 0 && s->left)
        return bad(s, "the file is shorter than it should be");
    (void)EVP_DigestUpdate(s->packed_sum, s->in_buf, (size_t)n);
    s->offset += (uint64_t)n;
    s->left -= (uint64_t)n;
    s->packed += (uint64_t)n;
    s->in = (struct cay_packed_in){s->in_buf, (size_t)n};
    tell(s);
    return n;
}

/* ---- the plain side ---- */

static int hold_against_limits(struct cay_blob *s)
{
    if (s->plain > (uint64_t)CAY_LAYER_BYTES)
        return cay_fail_as(&s->err, CAY_ERR_TOO_LARGE, "LAYER_TOO_LARGE",
                           "the layer unpacks to more than %lld bytes", (long long)CAY_LAYER_BYTES);
    if (s->plain > (uint64_t)CAY_LAYER_RATIO_BYTES && s->plain / CAY_LAYER_RATIO > s->packed)
        return cay_fail_as(&s->err, CAY_ERR_TOO_LARGE, "LAYER_TOO_LARGE",
                           "the layer unpacks to more than %d times its size", CAY_LAYER_RATIO);
    return 0;
}

/* More plain bytes: 1, or 0 at the end, or an error. */
static int more(struct cay_blob *s)
{
    if (s->err.code)
        return s->err.code;
    s->out_at = s->out_len = 0;
    /* A decoder may take input and give nothing, or hold output when there is no input left. */
    for (bool flushed = false; s->out_len == 0;) {
        if (s->in.len == 0) {
            ssize_t n = refill(s);
            bool inside = cay_packed_is_inside(s->unpacker);
            if (n < 0)
                return (int)n;
            if (n == 0 && (flushed || !inside))
                return inside ? bad(s, "it ends in the middle") : 0;
            flushed = n == 0;
        }
        const char *why;
        long len = cay_packed_step(s->unpacker, &s->in, s->out_buf, CHUNK, &why);
        if (len < 0)
            return bad(s, why);
        s->out_len = (size_t)len;
    }
    (void)EVP_DigestUpdate(s->plain_sum, s->out_buf, s->out_len);
    s->plain += s->out_len;
    int r = hold_against_limits(s);
    return r < 0 ? r : 1;
}

void cay_blob_free(struct cay_blob *s)
{
    if (!s)
        return;
    EVP_MD_CTX_free(s->packed_sum);
    EVP_MD_CTX_free(s->plain_sum);
    cay_packed_free(s->unpacker);
    free(s->in_buf);
    free(s->out_buf);
    free(s);
}

ssize_t cay_blob_next(struct cay_blob *s, const void **out)
{
    int r = more(s);
    *out = s->out_buf;
    return r > 0 ? (ssize_t)s->out_len : r;
}

bool cay_blob_get(void *stream, void *data, size_t len)
{
    struct cay_blob *s = stream;
    bool whole_block = len == BLOCK;
    for (char *to = data; len > 0;) {
        if (s->out_at == s->out_len) {
            int r = more(s);
            if (r == 0 && whole_block && len == BLOCK) {
                memset(data, 0, BLOCK);
                return true;
            }
            if (r <= 0)
                return false;
        }
        size_t n = s->out_len - s->out_at < len ? s->out_len - s->out_at : len;
        memcpy(to, s->out_buf + s->out_at, n);
        s->out_at += n;
        to += n;
        len -= n;
    }
    return true;
}

int cay_blob_error(const struct cay_blob *s, struct cay_error *err)
{
    if (s->err.code)
        *err = s->err;
    return s->err.code;
}

uint64_t cay_blob_packed(const struct cay_blob *s)
{
    return s->packed;
}

int cay_blob_finish(struct cay_blob *s, struct cay_blob_sums *out, struct cay_error *err)
{
    int r;
    do
        r = more(s);
    while (r > 0);
    if (r < 0)
        return cay_blob_error(s, err);
    *out = (struct cay_blob_sums){.packed = s->packed, .plain = s->plain};
    (void)EVP_DigestFinal_ex(s->packed_sum, out->digest, NULL);
    (void)EVP_DigestFinal_ex(s->plain_sum, out->diff_id, NULL);
    return 0;
}

static bool is_sum(const uint8_t sum[32], const char *hex)
{
    char text[65];
    for (int i = 0; i < 32; i++)
        snprintf(text + 2 * i, 3, "%02x", sum[i]);
    return strcmp(text, hex) == 0;
}

int cay_blob_verify(const struct cay_blob_sums *sums, const char *digest, const char *diff_id,
                    uint64_t size, struct cay_error *err)
{
    bool same = !*digest || is_sum(sums->digest, digest);
    if (same && sums->packed == size && is_sum(sums->diff_id, diff_id))
        return 0;
    return cay_fail_as(err, CAY_ERR_UNPROCESSABLE, "DIGEST_MISMATCH",
                       "the layer is not what it should be: its %s differs from sha256:%.12s…",
                       same ? "diff id" : "digest", same ? diff_id : digest);
}
