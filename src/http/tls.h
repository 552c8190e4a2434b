/* SPDX-License-Identifier: Apache-2.0 */
/* What a server shows under TLS, and what a client trusts: TLS 1.2 and 1.3, ciphers with forward
 * secrecy alone, HTTP/1.1 by ALPN. Connections count the context that they were made with, so one
 * may be freed, and another take its place, while they go on. */
#pragma once
#include "base/error.h"
#include "http/wire.h"

struct ssl_ctx_st;

/* A certificate with those that sign it, and its private key, as PEM. */
int cay_tls_server(const char *cert, size_t cert_len, const char *key, size_t key_len,
                   struct ssl_ctx_st **out, struct cay_error *err);
/* The same from a file in which a NUL stands between the two. */
int cay_tls_server_from(int fd, struct ssl_ctx_st **out, struct cay_error *err);
/* Trusts whoever is signed by a certificate in ca, a file, or by the system's when it is NULL. */
int cay_tls_client(const char *ca, struct ssl_ctx_st **out, struct cay_error *err);
/* Trusts whoever is signed by a certificate in `ca`, and shows its own; all are PEM. */
struct cay_tls_identity {
    const char *ca, *cert, *key; /* the last two may be NULL */
};
int cay_tls_client_as(const struct cay_tls_identity *as, struct ssl_ctx_st **out,
                      struct cay_error *err);
void cay_tls_free(struct ssl_ctx_st *tls);

/* Puts TLS on a wire whose socket is connected; then cay_wire_greet. */
int cay_tls_accept(struct ssl_ctx_st *tls, struct cay_wire *w);
/* host is what the certificate must be for: a name or an address. */
int cay_tls_connect(struct ssl_ctx_st *tls, const char *host, struct cay_wire *w,
                    struct cay_error *err);
/* Why the other side's certificate was refused; NULL when it was not. */
const char *cay_tls_distrust(const struct cay_wire *w);
