/* SPDX-License-Identifier: Apache-2.0 */
#include "http/tls.h"
#include "model/limits.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define CIPHERS "ECDHE+AESGCM:ECDHE+CHACHA20" /* of TLS 1.2; all of 1.3's are good */

static const unsigned char protocols[] = "\x08http/1.1";

/* For those who run the server or ask as a client: never for whoever is at the other end. */
static int fail(struct cay_error *err, const char *what)
{
    const char *why = ERR_reason_error_string(ERR_peek_last_error());
    (void)cay_fail(err, CAY_ERR_INVALID, "%s", what);
    (void)snprintf(err->cause, sizeof err->cause, "%s", why ? why : "");
    ERR_clear_error();
    return CAY_ERR_INVALID;
}

void cay_tls_free(struct ssl_ctx_st *tls)
{
    SSL_CTX_free(tls);
}

static void free_ctx(SSL_CTX **ctx)
{
    SSL_CTX_free(*ctx);
}

static void free_bio(BIO **bio)
{
    BIO_free(*bio);
}

static void free_pkey(EVP_PKEY **key)
{
    EVP_PKEY_free(*key);
}

static SSL_CTX *new_ctx(const SSL_METHOD *method)
{
    SSL_CTX *ctx = SSL_CTX_new(method);
    if (!ctx || SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) != 1 ||
        SSL_CTX_set_cipher_list(ctx, CIPHERS) != 1)
        abort(); /* memory is out, or this OpenSSL is none */
    SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                 SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
    /* Unsent bytes move to a queue of ours, and idle connections need no buffers. */
    SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                              SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_read_ahead(ctx, 1); /* one read for a record instead of two */
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    return ctx;
}

/* ---- the server ---- */

static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                           const unsigned char *in, unsigned in_len, void *arg)
{
    (void)ssl, (void)arg;
    unsigned char *chosen;
    int r = SSL_select_next_proto(&chosen, out_len, protocols, sizeof protocols - 1, in, in_len);
    *out = chosen;
    return r == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

/* OpenSSL answers both of the following itself, for as long as they come, and gives back no control
 * meanwhile: without an end to what can be read, one client could have the loop to itself. */
static void stop_reading(const SSL *ssl)
{
    (void)shutdown(SSL_get_fd(ssl), SHUT_RD);
}

static void on_info(const SSL *ssl, int where, int what)
{
    if (where == SSL_CB_WRITE_ALERT && (what & 0xff) == SSL_AD_NO_RENEGOTIATION)
        stop_reading(ssl);
}

static void on_message(int writing, int version, int type, const void *data, size_t len, SSL *ssl,
                       void *arg)
{
    (void)version, (void)arg;
    bool is_update = !writing && type == SSL3_RT_HANDSHAKE && len > 0 &&
                     *(const unsigned char *)data == SSL3_MT_KEY_UPDATE;
    if (!is_update)
        return;
    uintptr_t seen = (uintptr_t)SSL_get_app_data(ssl) + 1;
    (void)SSL_set_app_data(ssl, (void *)seen);
    if (seen > CAY_TLS_KEY_UPDATES)
        stop_reading(ssl);
}

/* A key with a pass phrase: there is nobody to ask. */
static int no_phrase(char *buf, int size, int writing, void *arg)
{
    (void)buf, (void)size, (void)writing, (void)arg;
    return -1;
}

static int use_chain(SSL_CTX *ctx, const char *pem, size_t len, struct cay_error *err)
{
    CAY_CLEANUP(free_bio) BIO *bio = BIO_new_mem_buf(pem, (int)len);
    X509 *cert = PEM_read_bio_X509(bio, NULL, no_phrase, NULL);
    int r = cert ? SSL_CTX_use_certificate(ctx, cert) : 0;
    X509_free(cert);
    if (r != 1)
        return fail(err, cert ? "the certificate cannot be used" : "there is no certificate");
    while ((cert = PEM_read_bio_X509(bio, NULL, no_phrase, NULL))) {
        if (SSL_CTX_add0_chain_cert(ctx, cert) != 1) {
            X509_free(cert);
            return fail(err, "a certificate that signs it cannot be used");
        }
    }
    if (ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE)
        return fail(err, "a certificate that signs it is broken");
    ERR_clear_error(); /* the file's end */
    return 0;
}

static int use_key(SSL_CTX *ctx, const char *pem, size_t len, struct cay_error *err)
{
    CAY_CLEANUP(free_bio) BIO *bio = BIO_new_mem_buf(pem, (int)len);
    CAY_CLEANUP(free_pkey) EVP_PKEY *secret = PEM_read_bio_PrivateKey(bio, NULL, no_phrase, NULL);
    if (!secret)
        return fail(err, "there is no private key, or it has a pass phrase");
    if (SSL_CTX_use_PrivateKey(ctx, secret) != 1 || SSL_CTX_check_private_key(ctx) != 1)
        return fail(err, "the private key is not the certificate's");
    return 0;
}

int cay_tls_server(const char *cert, size_t cert_len, const char *key, size_t key_len,
                   struct ssl_ctx_st **out, struct cay_error *err)
{
    CAY_CLEANUP(free_ctx) SSL_CTX *ctx = new_ctx(TLS_server_method());
    if (cert_len > CAY_TLS_PEM_MAX || key_len > CAY_TLS_PEM_MAX)
        return cay_fail(err, CAY_ERR_TOO_LARGE, "the certificate or its key is too large");
    int r = use_chain(ctx, cert, cert_len, err);
    if (r == 0)
        r = use_key(ctx, key, key_len, err);
    if (r < 0)
        return r;
    SSL_CTX_set_alpn_select_cb(ctx, choose_protocol, NULL);
    SSL_CTX_set_info_callback(ctx, on_info);
    SSL_CTX_set_msg_callback(ctx, on_message);
    *out = cay_take_ptr(&ctx);
    return 0;
}

int cay_tls_server_from(int fd, struct ssl_ctx_st **out, struct cay_error *err)
{
    struct stat st;
    if (fstat(fd, &st) < 0 || st.st_size <= 0 || st.st_size > 2 * CAY_TLS_PEM_MAX + 1)
        return cay_fail(err, CAY_ERR_INVALID, "that is no certificate with its key");
    size_t size = (size_t)st.st_size;
    CAY_AUTO_FREE char *pem = malloc(size);
    if (!pem)
        abort();
    if (pread(fd, pem, size, 0) != (ssize_t)size)
        return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot read the certificate");
    size_t cert_len = strnlen(pem, size - 1);
    const char *key = pem + cert_len + 1;
    int r = cay_tls_server(pem, cert_len, key, size - cert_len - 1, out, err);
    explicit_bzero(pem, size);
    return r;
}

int cay_tls_accept(struct ssl_ctx_st *tls, struct cay_wire *w)
{
    w->ssl = SSL_new(tls);
    if (!w->ssl || SSL_set_fd(w->ssl, w->fd) != 1)
        return -1;
    SSL_set_accept_state(w->ssl);
    return 0;
}

/* ---- the client ---- */

static SSL_CTX *new_client(void)
{
    SSL_CTX *ctx = new_ctx(TLS_client_method());
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
    if (SSL_CTX_set_alpn_protos(ctx, protocols, sizeof protocols - 1) != 0)
        abort();
    return ctx;
}

static int trust_text(SSL_CTX *ctx, const char *pem, struct cay_error *err)
{
    CAY_CLEANUP(free_bio) BIO *bio = BIO_new_mem_buf(pem, -1);
    int count = 0;
    for (X509 *cert; (cert = PEM_read_bio_X509(bio, NULL, no_phrase, NULL)); count++) {
        int r = X509_STORE_add_cert(SSL_CTX_get_cert_store(ctx), cert);
        X509_free(cert);
        if (r != 1)
            return fail(err, "a certificate to trust cannot be used");
    }
    if (count == 0)
        return fail(err, "there is no certificate to trust");
    ERR_clear_error(); /* the text's end */
    return 0;
}

int cay_tls_client_as(const struct cay_tls_identity *as, struct ssl_ctx_st **out,
                      struct cay_error *err)
{
    CAY_CLEANUP(free_ctx) SSL_CTX *ctx = new_client();
    int r = trust_text(ctx, as->ca, err);
    if (r == 0 && as->cert)
        r = use_chain(ctx, as->cert, strlen(as->cert), err);
    if (r == 0 && as->cert)
        r = use_key(ctx, as->key, strlen(as->key), err);
    if (r == 0)
        *out = cay_take_ptr(&ctx);
    return r;
}

int cay_tls_client(const char *ca, struct ssl_ctx_st **out, struct cay_error *err)
{
    CAY_CLEANUP(free_ctx) SSL_CTX *ctx = new_client();
    int r = ca ? SSL_CTX_load_verify_file(ctx, ca) : SSL_CTX_set_default_verify_paths(ctx);
    if (r != 1) {
        (void)fail(err, "");
        return cay_fail(err, CAY_ERR_INVALID, "cannot read certificates to trust from %s",
                        ca ? ca : "the system's store");
    }
    *out = cay_take_ptr(&ctx);
    return 0;
}

int cay_tls_connect(struct ssl_ctx_st *tls, const char *host, struct cay_wire *w,
                    struct cay_error *err)
{
    unsigned char address[sizeof(struct in6_addr)];
    bool is_address =
        inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1;
    w->ssl = SSL_new(tls);
    if (!w->ssl || SSL_set_fd(w->ssl, w->fd) != 1)
        abort();
    SSL_set_connect_state(w->ssl);
    SSL_set_hostflags(w->ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    int r = is_address ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(w->ssl), host)
                       : SSL_set1_host(w->ssl, host);
    if (r == 1 && !is_address) /* RFC 6066: no addresses */
        r = (int)SSL_set_tlsext_host_name(w->ssl, host);
    return r == 1 ? 0 : fail(err, "no certificate can be for that host");
}

const char *cay_tls_distrust(const struct cay_wire *w)
{
    long r = w->ssl ? SSL_get_verify_result(w->ssl) : X509_V_OK;
    return r == X509_V_OK ? NULL : X509_verify_cert_error_string(r);
}
