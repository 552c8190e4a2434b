/* SPDX-License-Identifier: Apache-2.0 */
/* A sealed value is base64 of nonce, ciphertext and tag. Nonces are random: of one key no two
 * thousand million values are ever sealed, so none comes twice. */
#include "core/seal.h"
#include "core/core.h"
#include "core/validate.h"
#include <openssl/evp.h>
#include <string.h>
#include <sys/random.h>

#define NONCE 12
#define TAG 16

static void free_ctx(EVP_CIPHER_CTX **ctx)
{
    EVP_CIPHER_CTX_free(*ctx);
}

/* A context that has seen to whom the value belongs and what it is called. */
static EVP_CIPHER_CTX *begin(const struct cay_core *core, const char *account_id, const char *name,
                             const uint8_t nonce[NONCE], bool seals)
{
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    int ignored;
    if (ctx && EVP_CipherInit_ex(ctx, EVP_aes_256_gcm(), NULL, core->secrets_key, nonce, seals) &&
        EVP_CipherUpdate(ctx, NULL, &ignored, (const uint8_t *)account_id,
                         (int)strlen(account_id) + 1) &&
        EVP_CipherUpdate(ctx, NULL, &ignored, (const uint8_t *)name, (int)strlen(name)))
        return ctx;
    EVP_CIPHER_CTX_free(ctx);
    return NULL;
}

const char *cay_seal(const struct cay_core *core, const char *account_id, const char *name,
                     const char *plain, struct cay_arena *a)
{
    size_t len = strlen(plain), all = NONCE + len + TAG;
    uint8_t *out = cay_arena_alloc(a, all);
    char *text = cay_arena_alloc(a, 4 * ((all + 2) / 3) + 1);
    int n = 0, last = 0;
    if (getrandom(out, NONCE, 0) != NONCE)
        return NULL;
    CAY_CLEANUP(free_ctx) EVP_CIPHER_CTX *ctx = begin(core, account_id, name, out, true);
    if (!ctx || !EVP_EncryptUpdate(ctx, out + NONCE, &n, (const uint8_t *)plain, (int)len) ||
        !EVP_EncryptFinal_ex(ctx, out + NONCE + n, &last) || (size_t)(n + last) != len ||
        !EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_GET_TAG, TAG, out + NONCE + len))
        return NULL;
    (void)cay_str_base64(out, all, text);
    return text;
}

const char *cay_unseal(const struct cay_core *core, const char *account_id, const char *name,
                       const char *text, struct cay_arena *a)
{
    const char *data;
    size_t all;
    int n = 0, last = 0;
    uint8_t tag[TAG];
    if (!cay_str_unbase64_data(a, text, &data, &all) || all < NONCE + TAG)
        return NULL;
    size_t len = all - NONCE - TAG;
    const uint8_t *in = (const uint8_t *)data;
    uint8_t *plain = cay_arena_alloc(a, len + 1);
    memcpy(tag, in + NONCE + len, TAG);
    CAY_CLEANUP(free_ctx) EVP_CIPHER_CTX *ctx = begin(core, account_id, name, in, false);
    if (!ctx || !EVP_DecryptUpdate(ctx, plain, &n, in + NONCE, (int)len) ||
        !EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_SET_TAG, TAG, tag) ||
        EVP_DecryptFinal_ex(ctx, plain + n, &last) <= 0)
        return NULL;
    plain[len] = 0;
    return (const char *)plain;
}

static void take_out(struct cay_pairs *map, const char *key)
{
    for (size_t i = 0; i < map->count; i++)
        if (strcmp(map->at[i].key, key) == 0) {
            memmove(&map->at[i], &map->at[i + 1], (map->count - i - 1) * sizeof *map->at);
            map->count--;
            return;
        }
}

int cay_seal_all(const struct cay_core *core, const char *account_id, const struct cay_pairs *plain,
                 struct cay_arena *a, struct cay_pairs *sealed, struct cay_error *err)
{
    struct cay_pairs all = cay_pairs_dup(a, sealed);
    int r = cay_validate_secrets(plain, err);
    for (size_t i = 0; i < plain->count && r == 0; i++) {
        const char *key = plain->at[i].key, *value = plain->at[i].value;
        const char *text = value ? cay_seal(core, account_id, key, value, a) : NULL;
        if (value && !text)
            r = cay_fail(err, CAY_ERR_INTERNAL, "cannot seal a secret");
        else if (value)
            cay_pairs_set(a, &all, cay_arena_strdup(a, key), text);
        else
            take_out(&all, key);
    }
    if (r == 0 && all.count > CAY_MAX_SECRETS)
        r = cay_fail_field(err, "secrets", "at most %d secrets", CAY_MAX_SECRETS);
    if (r == 0)
        *sealed = all;
    return r;
}

int cay_unseal_all(const struct cay_core *core, const char *account_id,
                   const struct cay_pairs *sealed, struct cay_arena *a, struct cay_pairs *env,
                   struct cay_error *err)
{
    for (size_t i = 0; i < sealed->count; i++) {
        const char *plain = cay_unseal(core, account_id, sealed->at[i].key, sealed->at[i].value, a);
        if (!plain)
            return cay_fail_as(err, CAY_ERR_INTERNAL, "SECRET_UNREADABLE",
                               "the secret %.64s cannot be read: it was changed, or kept under "
                               "another key; set it again",
                               sealed->at[i].key);
        cay_pairs_set(a, env, sealed->at[i].key, plain);
    }
    return 0;
}
