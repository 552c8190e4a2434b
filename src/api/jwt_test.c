/* SPDX-License-Identifier: Apache-2.0 */
#include "api/jwt.h"
#include "base/clock.h"
#include "base/sha256.h"
#include "base/str.h"
#include "model/account.h"
#include "tests/test.h"
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <stdio.h>

#define SECRET "0123456789abcdef0123456789abcdef"
#define CLAIMS(more) "{\"iss\":\"https://id\",\"aud\":\"cay\",\"sub\":\"ann\"," more "}"

static const char *base64url(struct cay_arena *a, const void *data, size_t len)
{
    char *text = cay_arena_alloc(a, 4 * ((len + 2) / 3) + 1);
    size_t made = cay_str_base64(data, len, text);
    while (made > 0 && text[made - 1] == '=')
        text[--made] = 0;
    for (char *c = text; *c; c++)
        *c = *c == '+' ? '-' : *c == '/' ? '_' : *c;
    return text;
}

static const char *said(struct cay_arena *a, const char *head, const char *claims)
{
    return cay_arena_printf(a, "%s.%s", base64url(a, head, strlen(head)),
                            base64url(a, claims, strlen(claims)));
}

static const char *by_secret(struct cay_arena *a, const char *head, const char *claims,
                             const char *secret)
{
    const char *text = said(a, head, claims);
    uint8_t sum[32];
    cay_sha256_hmac(secret, strlen(secret), text, strlen(text), sum);
    return cay_arena_printf(a, "%s.%s", text, base64url(a, sum, sizeof sum));
}

static const char *by_key(struct cay_arena *a, const char *head, const char *claims, EVP_PKEY *key,
                          const EVP_MD *digest)
{
    const char *text = said(a, head, claims);
    unsigned char sig[1024];
    size_t len = sizeof sig;
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    CHECK_EQ("sign", EVP_DigestSignInit(ctx, NULL, digest, NULL, key), 1);
    CHECK_EQ("sign", EVP_DigestSign(ctx, sig, &len, (const unsigned char *)text, strlen(text)), 1);
    EVP_MD_CTX_free(ctx);
    return cay_arena_printf(a, "%s.%s", text, base64url(a, sig, len));
}

static const char *pem_of(struct cay_arena *a, EVP_PKEY *key)
{
    char *data;
    BIO *bio = BIO_new(BIO_s_mem());
    CHECK_EQ("pem", PEM_write_bio_PUBKEY(bio, key), 1);
    long len = BIO_get_mem_data(bio, &data);
    const char *text = cay_arena_strndup(a, data, (size_t)len);
    BIO_free(bio);
    return text;
}

static struct cay_jwt *open_jwt(const char *key, int want)
{
    struct cay_error err = {0};
    struct cay_jwt *jwt = NULL;
    struct cay_config cfg = {.jwt_key = key, .jwt_issuer = "https://id", .jwt_audience = "cay"};
    CHECK_EQ("open", cay_jwt_open(&cfg, &jwt, &err), want);
    return jwt;
}

static int verify(const struct cay_jwt *jwt, const char *token, struct cay_arena *a)
{
    struct cay_jwt_told told = {0};
    int r = cay_jwt_verify(jwt, token, a, &told);
    if (r == 0) {
        CHECK_STR("whose", told.name, "jwt:ann");
        CHECK("its end", told.until_ms > cay_clock_ms());
    }
    return r == 0;
}

#define HS "{\"alg\":\"HS256\",\"typ\":\"JWT\"}"

/* %lld is now, in seconds. */
static const struct {
    const char *name, *head, *claims, *secret;
    int64_t exp_in_s, nbf_in_s;
    bool good;
} cases[] = {
    {"a good one", HS, CLAIMS("\"exp\":%lld,\"nbf\":%lld"), SECRET, 60, -60, true},
    {"several audiences", HS,
     "{\"iss\":\"https://id\",\"aud\":[\"x\",\"cay\"],\"sub\":\"ann\",\"exp\":%lld,\"nbf\":%lld}",
     SECRET, 60, 0, true},
    {"clocks that differ a little", HS, CLAIMS("\"exp\":%lld,\"nbf\":%lld"), SECRET, -5, 5, true},
    {"over", HS, CLAIMS("\"exp\":%lld,\"nbf\":%lld"), SECRET, -60, -120, false},
    {"not begun", HS, CLAIMS("\"exp\":%lld,\"nbf\":%lld"), SECRET, 600, 300, false},
    {"another secret", HS, CLAIMS("\"exp\":%lld,\"nbf\":%lld"), SECRET "x", 60, 0, false},
    {"alg none", "{\"alg\":\"none\"}", CLAIMS("\"exp\":%lld,\"nbf\":%lld"), SECRET, 60, 0, false},
    {"another alg", "{\"alg\":\"RS256\"}", CLAIMS("\"exp\":%lld,\"nbf\":%lld"), SECRET, 60, 0,
     false},
    {"no alg", "{}", CLAIMS("\"exp\":%lld,\"nbf\":%lld"), SECRET, 60, 0, false},
    {"what must be understood", "{\"alg\":\"HS256\",\"crit\":[\"x\"]}",
     CLAIMS("\"exp\":%lld,\"nbf\":%lld"), SECRET, 60, 0, false},
    {"no end", HS, CLAIMS("\"iat\":%lld,\"nbf\":%lld"), SECRET, 60, 0, false},
    {"an end in words", HS, CLAIMS("\"exp\":\"%lld\",\"nbf\":%lld"), SECRET, 60, 0, false},
    {"another issuer", HS,
     "{\"iss\":\"https://evil\",\"aud\":\"cay\",\"sub\":\"ann\",\"exp\":%lld,\"nbf\":%lld}", SECRET,
     60, 0, false},
    {"another audience", HS,
     "{\"iss\":\"https://id\",\"aud\":\"other\",\"sub\":\"ann\",\"exp\":%lld,\"nbf\":%lld}", SECRET,
     60, 0, false},
    {"nobody", HS, "{\"iss\":\"https://id\",\"aud\":\"cay\",\"exp\":%lld,\"nbf\":%lld}", SECRET, 60,
     0, false},
    {"an empty name", HS,
     "{\"iss\":\"https://id\",\"aud\":\"cay\",\"sub\":\"\",\"exp\":%lld,\"nbf\":%lld}", SECRET, 60,
     0, false},
};

static const char *claims_of(struct cay_arena *a, const char *fmt, int64_t exp_in_s,
                             int64_t nbf_in_s)
{
    char text[300];
    int64_t now = cay_clock_ms() / 1000;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(text, sizeof text, fmt, (long long)(now + exp_in_s), (long long)(now + nbf_in_s));
#pragma GCC diagnostic pop
    return cay_arena_strdup(a, text);
}

TEST(jwt_takes_what_is_signed_for_us)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_jwt *jwt = open_jwt(SECRET "\n", 0);
    for (size_t i = 0; i < COUNT(cases); i++) {
        const char *claims = claims_of(&a, cases[i].claims, cases[i].exp_in_s, cases[i].nbf_in_s);
        CHECK_EQ(cases[i].name,
                 verify(jwt, by_secret(&a, cases[i].head, claims, cases[i].secret), &a),
                 cases[i].good);
    }
    cay_jwt_free(jwt);
}

TEST(jwt_scopes)
{
    static const struct {
        const char *scope;
        unsigned want;
    } words[] = {
        {"", ~0U},
        {"\"scope\":\"openid profile\",", ~0U},
        {"\"scope\":\"openid cay:read\",", CAY_SCOPE_READ},
        {"\"scope\":\" cay:exec  cay:account \",",
         CAY_SCOPE_READ | CAY_SCOPE_EXEC | CAY_SCOPE_ACCOUNT},
        {"\"scope\":\"cay:admin\",", 0},
        {"\"scope\":\"cay: mcay:write\",", 0},
        {"\"scope\":\"mcay:write cay\",", ~0U},
    };
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_jwt *jwt = open_jwt(SECRET, 0);
    for (size_t i = 0; i < COUNT(words); i++) {
        const char *fmt =
            cay_arena_printf(&a, CLAIMS("%s\"exp\":%%lld,\"nbf\":%%lld"), words[i].scope);
        struct cay_jwt_told told = {0};
        CHECK_EQ(
            words[i].scope,
            cay_jwt_verify(jwt, by_secret(&a, HS, claims_of(&a, fmt, 60, 0), SECRET), &a, &told),
            0);
        CHECK_EQ(words[i].scope, told.scopes, words[i].want);
    }
    cay_jwt_free(jwt);
}

TEST(jwt_forms_that_are_none)
{
    static const char *const bad[] = {"", ".", "..", "a.b", "a.b.c.d", "e30.e30.", "e30=.e30.e30"};
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_jwt *jwt = open_jwt(SECRET, 0);
    for (size_t i = 0; i < COUNT(bad); i++)
        CHECK_EQ(bad[i], verify(jwt, bad[i], &a), 0);
    const char *claims = claims_of(&a, CLAIMS("\"exp\":%lld,\"nbf\":%lld"), 60, 0);
    char *token = cay_arena_strdup(&a, by_secret(&a, HS, claims, SECRET));
    CHECK_EQ("whole", verify(jwt, token, &a), 1);
    size_t len = strlen(token);
    for (size_t i = 0; i < len; i += 5) {
        char was = token[i];
        token[i] = was == 'A' ? 'B' : 'A';
        CHECK_EQ(token, verify(jwt, token, &a), 0);
        token[i] = was;
    }
    CHECK_EQ("with a tail", verify(jwt, cay_arena_printf(&a, "%s=", token), &a), 0);
    cay_jwt_free(jwt);
}

/* The key says how a token is signed: a public key is never taken for a secret. */
TEST(jwt_kinds_of_keys)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    const char *claims = claims_of(&a, CLAIMS("\"exp\":%lld,\"nbf\":%lld"), 60, 0);
    EVP_PKEY *rsa = EVP_RSA_gen(2048), *weak = EVP_RSA_gen(1024);
    EVP_PKEY *ed = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519"), *ec = EVP_EC_gen("P-256");
    const char *pem = pem_of(&a, rsa);
    struct cay_jwt *jwt = open_jwt(pem, 0);
    CHECK_EQ("RS256", verify(jwt, by_key(&a, "{\"alg\":\"RS256\"}", claims, rsa, EVP_sha256()), &a),
             1);
    CHECK_EQ("another key",
             verify(jwt, by_key(&a, "{\"alg\":\"RS256\"}", claims, weak, EVP_sha256()), &a), 0);
    CHECK_EQ("the public key as a secret", verify(jwt, by_secret(&a, HS, claims, pem), &a), 0);
    cay_jwt_free(jwt);
    jwt = open_jwt(pem_of(&a, ed), 0);
    CHECK_EQ("EdDSA", verify(jwt, by_key(&a, "{\"alg\":\"EdDSA\"}", claims, ed, NULL), &a), 1);
    CHECK_EQ("called otherwise",
             verify(jwt, by_key(&a, "{\"alg\":\"RS256\"}", claims, ed, NULL), &a), 0);
    cay_jwt_free(jwt);
    cay_jwt_free(open_jwt(pem_of(&a, weak), CAY_ERR_INVALID));
    cay_jwt_free(open_jwt(pem_of(&a, ec), CAY_ERR_INVALID));
    cay_jwt_free(open_jwt("-----BEGIN PRIVATE KEY-----\nx\n", CAY_ERR_INVALID));
    cay_jwt_free(open_jwt("short", CAY_ERR_INVALID));
    cay_jwt_free(open_jwt(NULL, CAY_ERR_INVALID));
    EVP_PKEY_free(rsa);
    EVP_PKEY_free(weak);
    EVP_PKEY_free(ed);
    EVP_PKEY_free(ec);
}
