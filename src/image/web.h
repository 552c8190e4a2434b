/* SPDX-License-Identifier: Apache-2.0 */
/* One answer of a web server, by libcurl, with every bound that a stranger's server needs.
 *
 * Only http and https; plain http only where the operator allows it. The address is judged where it
 * is dialled, so neither a name that changes its mind nor a redirect leads to a private one, unless
 * the operator named that host. Redirects are few, and a secret never goes to another host, nor is
 * another host heard about where it should go. */
#pragma once
#include "image/hosts.h"
#include <stdint.h>

struct cay_web; /* of one thread; connections are kept for the next request */

/* What they share; outlives them. */
struct cay_web_rules {
    struct cay_registry_hosts hosts;
    const char *proxy, *no_proxy; /* or NULL */
};

struct cay_web_request {
    const char *url;
    const char *accept;        /* or NULL */
    const char *authorization; /* the header's value; or NULL */
    uint64_t offset;           /* bytes from here on are wanted */
    int64_t connect_ms, timeout_ms;
    /* A good answer's bytes, the first of which is at `offset` or, when the server does not do
     * parts, at 0 (`from`). False ends it. */
    bool (*data)(void *arg, uint64_t from, const char *bytes, size_t len);
    bool (*go_on)(void *arg); /* asked about once a second; false ends it; or NULL */
    void *arg;
};

struct cay_web_answer {
    long status;
    int64_t length; /* that it said; -1: nothing */
    int64_t retry_after_ms;
    char type[128];
    char challenge[2048];
    char text[256]; /* the beginning of an answer that is no good one, on one line */
};

struct cay_web *cay_web_new(const struct cay_web_rules *rules);
void cay_web_free(struct cay_web *f);
/* 0 for every whole answer, whatever its status. CAY_ERR_FORBIDDEN, "ADDRESS_REFUSED" or
 * "INSECURE_REGISTRY"; CAY_ERR_UNPROCESSABLE, "TOO_MANY_REDIRECTS"; CAY_ERR_CONFLICT, "CANCELLED",
 * when `go_on` or `data` said so; CAY_ERR_FORBIDDEN, "NOT_TRUSTED", for TLS;
 * CAY_ERR_NOT_FOUND, "REGISTRY_NOT_FOUND", for a name without an address; else
 * CAY_ERR_UNAVAILABLE, "REGISTRY_UNREACHABLE": cut, late, not there. */
int cay_web_get(struct cay_web *f, const struct cay_web_request *rq, struct cay_web_answer *out,
                struct cay_error *err);
