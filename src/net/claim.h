/* SPDX-License-Identifier: Apache-2.0 */
/* Which host a connection says it wants: the server name of a TLS ClientHello, or the Host of an
 * HTTP/1 request, out of its first bytes. A claim, nothing more: what it says can take away a right
 * and never gives one. */
#pragma once
#include "net/request.h"

enum cay_claim_result {
    CAY_CLAIM_MORE,  /* too early to tell: come back with more bytes */
    CAY_CLAIM_NONE,  /* it names no host: an address, another protocol, or nothing that we read */
    CAY_CLAIM_NAMED, /* name_out is filled */
    CAY_CLAIM_BAD,   /* who answers may believe another name than we */
};

enum cay_claim_protocol {
    CAY_CLAIM_OTHER,
    CAY_CLAIM_TLS,
    CAY_CLAIM_HTTP,
};

#define CAY_CLAIM_TLS_BYTE 22 /* the first */

struct cay_claim {
    enum cay_claim_protocol protocol;
    char name[CAY_HOST_SIZE];
    struct cay_request request; /* of HTTP */
};

/* All bytes that have come so far. From CAY_CLAIM_MAX on, and when the sender is done (`ended`), it
 * is never MORE. */
enum cay_claim_result cay_claim_read(const void *data, size_t len, bool ended,
                                     struct cay_claim *out);
