/* SPDX-License-Identifier: Apache-2.0 */
/* What the operator says about registries: who we are there, whom to trust, which speak plain HTTP,
 * where copies lie.
 *
 * Names of registries come from whoever asks for an image. One that the operator does not name is
 * spoken to over TLS only, and only at public addresses: else a caller could knock on doors inside
 * the operator's network. */
#pragma once
#include "base/error.h"
#include "base/str.h"

struct cay_registry_host {
    const char *host; /* host[:port], as names of images have it */
    const char *username, *password;
    const char *ca;          /* PEM: whom to trust there instead of the system's; or NULL */
    bool insecure;           /* plain HTTP */
    bool named;              /* by the operator: may have a private address */
    struct cay_strs mirrors; /* scheme://host[:port], asked first */
};

struct cay_registry_hosts {
    struct cay_registry_host *at;
    size_t count;
};

struct cay_registry_options {
    struct cay_pairs settings;    /* "HOST.username", "HOST.password", "HOST.ca" (the text itself),
                                     "HOST.insecure", "HOST.private", "HOST.mirror" */
    const char *insecure;         /* HOST,… ; or NULL */
    const char *docker;           /* the text of a ~/.docker/config.json; or NULL */
    const char *proxy, *no_proxy; /* as struct cay_egress_options has them */
};

/* Everything goes into the arena. A fault is CAY_ERR_INVALID. Of Docker's file only what has a name
 * and a password in it is taken: helpers that keep secrets elsewhere are not run. */
int cay_registry_hosts_read(struct cay_arena *a, const struct cay_registry_options *o,
                            struct cay_registry_hosts *out, struct cay_error *err);
/* Never NULL: of one that nobody named all is as it is by default. */
const struct cay_registry_host *cay_registry_host_find(const struct cay_registry_hosts *hosts,
                                                       const char *host);
/* "https://index.docker.io/v1/" and the like to host[:port]. */
const char *cay_registry_host_of(struct cay_arena *a, const char *url);
