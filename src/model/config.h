/* SPDX-License-Identifier: Apache-2.0 */
/* What `cay serve` was told, by option, variable or file. */
#pragma once
#include "base/str.h"
#include <stdbool.h>
#include <stdint.h>

struct cay_config {
    const char *data;         /* data directory */
    const char *listen;       /* ADDR:PORT */
    const char *provider;     /* "native" */
    const char *store;        /* "sqlite" */
    const char *images;       /* image store; NULL is DATA/images */
    const char *recipes;      /* directory of recipes; NULL: there are none */
    const char *store_path;   /* the image store, from the root; found by the supervisor */
    const char *builder;      /* the program that follows them; found by the supervisor, or NULL */
    struct cay_pairs aliases; /* names of images: what they stand for */
    const char *user;         /* whom the server runs as */
    const char *auth;         /* "off", "keys", "jwt" */
    const char *jwt_issuer, *jwt_audience, *jwt_claim; /* who signs, for whom, which is the name */
    const char *jwt_key;            /* what verifies a JWT: a secret, or a public key as PEM */
    const char *tls_cert, *tls_key; /* files; NULL: plain HTTP */
    const char *docker_host;        /* URL of a Docker Engine; NULL is its usual socket */
    const char *docker_runtime;     /* of its containers; NULL: the Engine's default */
    bool docker_read_only;          /* their roots cannot be written to */
    const char *docker_certs;       /* directory: TLS with what is in it; NULL: none */
    const char *docker_ca, *docker_cert, *docker_key; /* which is this; the last two may be NULL */
    const char *preview_domain;  /* [SCHEME://]DOMAIN[:PORT]; NULL is localhost */
    const char *egress_allow;    /* guarded nets that sandboxes may reach all the same; or NULL */
    const char *egress_proxy;    /* that their connections go through; or NULL */
    const char *egress_no_proxy; /* but for these */
    const char *trust_ca;        /* authorities that sandboxes believe; NULL: the host's */
    const char *resolv_conf;     /* whom names are asked of; NULL: /etc/resolv.conf */
    const char *pull;            /* "missing", "always", "never" */
    struct cay_pairs registries; /* as struct cay_registry_options has them */
    const char *registry_insecure, *registry_docker; /* the same */
    int64_t rate_limit;                              /* requests; 0 is off */
    int64_t rate_seconds;
    int64_t log_head_bytes, log_tail_bytes; /* kept of each execution */

    /* What the supervisor opened before it forked. */
    int data_fd;                     /* the data directory */
    int listen_fd;                   /* the port */
    int tls_fd;                      /* certificate and key, from those files; 0: none */
    int tls_news_fd;                 /* where later ones come from; 0: none */
    int admin_fd;                    /* DATA/run/admin.sock, listening; 0: none */
    unsigned server_uid, server_gid; /* whom it drops to; the engine answers nobody else */
    bool closing;                    /* `cay down`: nothing new is made */
    bool announce;                   /* say `ready URL` on stdout when requests are taken */
    char url[80];                    /* http[s]://ADDR:PORT as it is bound */
};
