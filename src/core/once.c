/* SPDX-License-Identifier: Apache-2.0 */
#include "core/once.h"
#include "base/sha256.h"
#include "core/secret.h"
#include <string.h>

#define FILE_NAME "once.key"

int cay_once_open(struct cay_core *core, int data_fd, struct cay_error *err)
{
    return cay_secret_open(data_fd, FILE_NAME, core->once_key, err);
}

/* Each part with its end, so that no two lists of parts are the same bytes. The secret goes in at
 * both ends, and nobody sees the whole sum: what length extension would need is not there. */
static void derive(const struct cay_core *core, const char *what, const char *whose,
                   const char *key, uint8_t out[32])
{
    struct cay_sha256 s;
    const char *parts[] = {what, whose, key};
    cay_sha256_init(&s);
    cay_sha256_add(&s, core->once_key, sizeof core->once_key);
    for (size_t i = 0; i < CAY_COUNT(parts); i++)
        cay_sha256_add(&s, parts[i], strlen(parts[i]) + 1);
    cay_sha256_add(&s, core->once_key, sizeof core->once_key);
    cay_sha256_done(&s, out);
}

void cay_once_sandbox(const struct cay_core *core, const char *account_id,
                      const struct cay_once *once, char id[CAY_ID_SIZE])
{
    uint8_t sum[32];
    derive(core, "sandbox", account_id, once->key, sum);
    cay_id_sandbox_of(id, sum);
}

void cay_once_snapshot(const struct cay_core *core, const char *account_id,
                       const struct cay_once *once, char id[CAY_ID_SIZE])
{
    uint8_t sum[32];
    derive(core, "snapshot", account_id, once->key, sum);
    cay_id_snapshot_of(id, sum);
}

void cay_once_batch(const struct cay_core *core, const char *account_id,
                    const struct cay_once *once, char id[CAY_ID_SIZE])
{
    uint8_t sum[32];
    derive(core, "batch", account_id, once->key, sum);
    cay_id_batch_of(id, sum);
}

void cay_once_execution(const struct cay_core *core, const char *sandbox_id,
                        const struct cay_once *once, char id[CAY_ID_SIZE])
{
    uint8_t sum[32];
    derive(core, "execution", sandbox_id, once->key, sum);
    cay_id_execution_of(id, sum);
}

int cay_once_same(const struct cay_once *once, const char *fingerprint, struct cay_error *err)
{
    if (fingerprint && strcmp(once->fingerprint, fingerprint) == 0)
        return 0;
    return cay_fail_as(err, CAY_ERR_UNPROCESSABLE, "IDEMPOTENCY_KEY_REUSED",
                       "this Idempotency-Key came before, with another request");
}
