/* SPDX-License-Identifier: Apache-2.0 */
#include "api/jwt.h"
#include "api/auth.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/sha256.h"
#include "model/limits.h"
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <string.h>

#define SCOPE_PREFIX "cay:"
#define NAME_PREFIX "jwt:"
#define SECRET_MIN 32 /* bytes: as long as what HS256 makes of it */
#define RSA_MIN 2048  /* bits */
#define YEAR_9999_S 253402300799

struct cay_jwt {
    const char *alg; /* that a token must name */
    EVP_PKEY *key;   /* or NULL: */
    char *secret;
    char *issuer, *audience, *claim;
};

static int read_public(struct cay_jwt *jwt, const char *pem, struct cay_error *err)
{
    BIO *bio = BIO_new_mem_buf(pem, -1);
    if (!bio)
        abort();
    jwt->key = PEM_read_bio_PUBKEY(bio, NULL, NULL, NULL);
    BIO_free(bio);
    if (!jwt->key)
        return cay_fail(err, CAY_ERR_INVALID, "the JWT key is PEM and no public key");
    int kind = EVP_PKEY_base_id(jwt->key);
    jwt->alg = kind == EVP_PKEY_RSA ? "RS256" : kind == EVP_PKEY_ED25519 ? "EdDSA" : NULL;
    if (!jwt->alg)
        return cay_fail(err, CAY_ERR_INVALID, "the JWT key is neither RSA nor Ed25519");
    if (kind == EVP_PKEY_RSA && EVP_PKEY_bits(jwt->key) < RSA_MIN)
        return cay_fail(err, CAY_ERR_INVALID, "the JWT key has less than %d bits", RSA_MIN);
    return 0;
}

static int read_key(struct cay_jwt *jwt, const char *text, struct cay_error *err)
{
    size_t len = strlen(text);
    if (strstr(text, "-----BEGIN"))
        return read_public(jwt, text, err);
    while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r'))
        len--;
    if (len < SECRET_MIN)
        return cay_fail(err, CAY_ERR_INVALID, "the JWT secret has less than %d bytes", SECRET_MIN);
    jwt->alg = "HS256";
    jwt->secret = strndup(text, len);
    return 0;
}

int cay_jwt_open(const struct cay_config *cfg, struct cay_jwt **out, struct cay_error *err)
{
    struct cay_jwt *jwt = calloc(1, sizeof *jwt);
    if (!jwt)
        abort();
    int r = 0;
    if (!cfg->jwt_key || !cfg->jwt_issuer || !cfg->jwt_audience)
        r = cay_fail(err, CAY_ERR_INVALID,
                     "authentication by JWT needs a key, an issuer and an audience");
    if (r == 0)
        r = read_key(jwt, cfg->jwt_key, err);
    if (r < 0) {
        cay_jwt_free(jwt);
        return r;
    }
    jwt->issuer = strdup(cfg->jwt_issuer);
    jwt->audience = strdup(cfg->jwt_audience);
    jwt->claim = strdup(cfg->jwt_claim ? cfg->jwt_claim : "sub");
    *out = jwt;
    return 0;
}

void cay_jwt_free(struct cay_jwt *jwt)
{
    if (!jwt)
        return;
    EVP_PKEY_free(jwt->key);
    free(jwt->secret);
    free(jwt->issuer);
    free(jwt->audience);
    free(jwt->claim);
    free(jwt);
}

static int digit_of(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* base64url without padding, in its one spelling: bits that are left over must be 0. */
static bool decode(struct cay_arena *a, const char *s, size_t len, char **out, size_t *len_out)
{
    char *text = cay_arena_alloc(a, len + 1);
    size_t made = 0;
    uint32_t bits = 0;
    int have = 0;
    for (size_t i = 0; i < len; i++) {
        int digit = digit_of(s[i]);
        if (digit < 0)
            return false;
        bits = bits << 6 | (uint32_t)digit;
        have += 6;
        if (have >= 8) {
            have -= 8;
            text[made++] = (char)(bits >> have);
            bits &= (1u << have) - 1;
        }
    }
    text[made] = 0;
    *out = text;
    *len_out = made;
    return len % 4 != 1 && bits == 0;
}

static const struct cay_json *decode_json(struct cay_arena *a, const char *s, size_t len)
{
    struct cay_error ignored; /* see the header */
    const struct cay_json *json;
    char *text;
    size_t text_len;
    if (!decode(a, s, len, &text, &text_len) ||
        cay_json_parse(a, text, text_len, &json, &ignored) < 0 || json->kind != CAY_JSON_OBJECT)
        return NULL;
    return json;
}

static bool is_signed(const struct cay_jwt *jwt, const char *said, size_t said_len, const char *sig,
                      size_t sig_len)
{
    if (jwt->secret) {
        uint8_t want[32];
        cay_sha256_hmac(jwt->secret, strlen(jwt->secret), said, said_len, want);
        return sig_len == sizeof want && cay_sha256_same(want, (const uint8_t *)sig);
    }
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    if (!ctx)
        abort();
    const EVP_MD *digest = EVP_PKEY_base_id(jwt->key) == EVP_PKEY_RSA ? EVP_sha256() : NULL;
    bool good = EVP_DigestVerifyInit(ctx, NULL, digest, NULL, jwt->key) == 1 &&
                EVP_DigestVerify(ctx, (const unsigned char *)sig, sig_len,
                                 (const unsigned char *)said, said_len) == 1;
    EVP_MD_CTX_free(ctx);
    return good;
}

static bool says(const struct cay_json *object, const char *key, const char *want)
{
    const char *got = cay_json_get_str(object, key, NULL);
    return got && strcmp(got, want) == 0;
}

static bool is_for_us(const struct cay_jwt *jwt, const struct cay_json *claims)
{
    const struct cay_json *aud = cay_json_get(claims, "aud");
    if (!aud || aud->kind != CAY_JSON_ARRAY)
        return says(claims, "aud", jwt->audience);
    for (const struct cay_json *v = aud->first; v; v = v->next)
        if (v->kind == CAY_JSON_STRING && strcmp(v->text, jwt->audience) == 0)
            return true;
    return false;
}

/* One without an end is refused: it could never be taken back. */
static bool is_time(const struct cay_json *claims, int64_t *until_ms_out)
{
    const struct cay_json *exp = cay_json_get(claims, "exp"), *nbf = cay_json_get(claims, "nbf");
    double ends, begins = 0, now = (double)cay_clock_ms() / 1000;
    if (!exp || !cay_json_real(exp, &ends) || (nbf && !cay_json_real(nbf, &begins)) ||
        ends > YEAR_9999_S || now >= ends + CAY_JWT_LEEWAY_S || now < begins - CAY_JWT_LEEWAY_S)
        return false;
    *until_ms_out = (int64_t)((ends + CAY_JWT_LEEWAY_S) * 1000);
    return true;
}

static bool is_name(const char *name)
{
    size_t len = name ? strlen(name) : 0;
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)name[i] < 0x20 || name[i] == 0x7f)
            return false;
    return len > 0 && len <= CAY_MAX_ACCOUNT_NAME;
}

/* Words for other services stand there too, so only ours narrow it; one of ours that we do not know
 * gives nothing. */
static unsigned scopes_of(const struct cay_json *claims, struct cay_arena *a)
{
    const char *at = cay_json_get_str(claims, "scope", "");
    unsigned sum = 0, one;
    bool named = false;
    for (size_t len; *(at += strspn(at, " ")); at += len) {
        len = strcspn(at, " ");
        if (strncmp(at, SCOPE_PREFIX, sizeof SCOPE_PREFIX - 1) != 0)
            continue;
        const char *name = at + sizeof SCOPE_PREFIX - 1;
        named = true;
        if (cay_auth_scope(cay_arena_strndup(a, name, (size_t)(at + len - name)), &one))
            sum |= one;
    }
    return named ? sum : ~0U;
}

int cay_jwt_verify(const struct cay_jwt *jwt, const char *token, struct cay_arena *a,
                   struct cay_jwt_told *out)
{
    const char *dot = strchr(token, '.'), *last = strrchr(token, '.');
    char *sig;
    size_t sig_len;
    if (!dot || last == dot || memchr(dot + 1, '.', (size_t)(last - dot - 1)))
        return CAY_ERR_UNAUTHORIZED;
    const struct cay_json *head = decode_json(a, token, (size_t)(dot - token));
    if (!head || !says(head, "alg", jwt->alg) || cay_json_get(head, "crit") ||
        !decode(a, last + 1, strlen(last + 1), &sig, &sig_len) ||
        !is_signed(jwt, token, (size_t)(last - token), sig, sig_len))
        return CAY_ERR_UNAUTHORIZED;
    const struct cay_json *claims = decode_json(a, dot + 1, (size_t)(last - dot - 1));
    const char *name = claims ? cay_json_get_str(claims, jwt->claim, NULL) : NULL;
    if (!claims || !says(claims, "iss", jwt->issuer) || !is_for_us(jwt, claims) || !is_name(name) ||
        !is_time(claims, &out->until_ms))
        return CAY_ERR_UNAUTHORIZED;
    out->name = cay_arena_printf(a, NAME_PREFIX "%s", name);
    out->scopes = scopes_of(claims, a);
    return 0;
}
