/* SPDX-License-Identifier: Apache-2.0 */
/* A connection's socket, plain or under TLS. All bytes of a connection go through these few, and
 * whoever calls them need not know which form it has: each behaves as its system call does on a
 * non-blocking socket, errno included. One thread at a time. */
#pragma once
#include <stdbool.h>
#include <sys/types.h>
#include <sys/uio.h>

struct cay_wire {
    int fd;             /* -1: none */
    struct ssl_st *ssl; /* NULL: plain */
    bool more;          /* of the last read: there may be more, or an end, that no poll tells of */
    bool ended, broken; /* under TLS: nothing more comes; nor can anything be said */
};

/* A read that does not fill its buffer has emptied the socket, under TLS too. */
ssize_t cay_wire_recv(struct cay_wire *w, void *data, size_t size);
/* One byte, or an end, is there: as recv with MSG_PEEK. */
ssize_t cay_wire_peek(struct cay_wire *w);
/* Bytes that were not sent must be the next ones to be sent: a part of them may be on its way. */
ssize_t cay_wire_send(struct cay_wire *w, const struct iovec *iov, size_t count);
void cay_wire_shut(struct cay_wire *w); /* nothing more goes out, and the other side is told */
void cay_wire_close(struct cay_wire *w);
/* A step of the handshake: 0 at its end, -1 with EAGAIN before that, with EPROTO when it failed. */
int cay_wire_greet(struct cay_wire *w);
short cay_wire_wants(const struct cay_wire *w); /* what that step waits for: POLLIN or POLLOUT */

static inline bool cay_wire_is_plain(const struct cay_wire *w)
{
    return !w->ssl;
}
