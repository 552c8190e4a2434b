/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/1 requests on their way out: whom each says it wants, where it ends, and its head with other
 * lines in it.
 *
 * Strict: who answers must not see another host, or another request, than was seen here. So what
 * two readers could take in two ways is CAY_REQUEST_BAD. Bytes only; nothing here touches a socket.
 */
#pragma once
#include "base/buf.h"
#include "model/network.h"
#include "net/name.h"

enum cay_request_result {
    CAY_REQUEST_MORE, /* too early to tell: come back with more bytes */
    CAY_REQUEST_NOT,  /* no HTTP/1: another protocol */
    CAY_REQUEST_BAD,
    CAY_REQUEST_WHOLE,
};

struct cay_request {
    size_t len;               /* of the head, with blank lines before it */
    char host[CAY_HOST_SIZE]; /* in its one form; empty: none, or an address */
    bool chunked;
    uint64_t length; /* of the body, unless it comes in chunks */
    bool connects;   /* CONNECT: no HTTP follows, if the answer is 2xx */
    bool upgrades;   /* it wants another protocol, */
    bool websocket;  /* namely this one: no HTTP follows, if the answer is 101 */
    bool echoes;     /* TRACE: the answer has what was said */
    bool loose;      /* some lines end without a carriage return, which not all take for an end */
};

/* All bytes that have come so far, from a request's beginning; ended: no more will. Blank lines
 * alone are CAY_REQUEST_MORE even then. */
enum cay_request_result cay_request_read(const void *data, size_t len, bool ended,
                                         struct cay_request *out);
/* What stands before a chunk's bytes, and behind those of the one before it: len_out bytes, and
 * size_out of the chunk follow. The last one has none: behind it comes the trailer. */
enum cay_request_result cay_request_chunk(const void *data, size_t len, bool first, size_t *len_out,
                                          uint64_t *size_out);
enum cay_request_result cay_request_trailer(const void *data, size_t len, size_t *len_out);

/* Writes the head once more, with these headers and no others of their names; without what asks for
 * another protocol, unless that is kept. */
void cay_request_write(const void *head, const struct cay_request *r, bool keeps_upgrade,
                       const struct cay_header_rule *const *add, size_t count, struct cay_buf *out);
/* May this header be set for others? It has a proper name, and says nothing of the connection or of
 * the message's length. */
bool cay_request_may_set(const char *name);
