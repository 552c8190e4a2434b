/* SPDX-License-Identifier: Apache-2.0 */
/* The two forms of a wire. OpenSSL reads and writes the socket itself, which must be non-blocking;
 * what it says of errors stays here, since strangers must not learn it. */
#include "http/wire.h"
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define RECORD 16384 /* bytes, the most that TLS has in one */

/* After a call that failed: true when it only has to wait. */
static bool must_wait(struct cay_wire *w)
{
    int why = SSL_get_error(w->ssl, 0);
    if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE)
        return true;
    w->ended = true;
    w->broken = w->broken || why != SSL_ERROR_ZERO_RETURN;
    ERR_clear_error();
    return false;
}

static ssize_t nothing(const struct cay_wire *w)
{
    if (w->ended && !w->broken)
        return 0;
    errno = w->broken ? ECONNRESET : EAGAIN;
    return -1;
}

static ssize_t tls_recv(struct cay_wire *w, char *data, size_t size)
{
    size_t at = 0, n;
    bool waits = false;
    ERR_clear_error(); /* what another connection left would be taken for ours */
    while (at < size && !waits && !w->ended) {
        if (SSL_read_ex(w->ssl, data + at, size - at, &n))
            at += n;
        else
            waits = must_wait(w);
    }
    w->more = at > 0 && !waits;
    return at > 0 ? (ssize_t)at : nothing(w);
}

ssize_t cay_wire_recv(struct cay_wire *w, void *data, size_t size)
{
    return w->ssl ? tls_recv(w, data, size) : recv(w->fd, data, size, MSG_DONTWAIT);
}

ssize_t cay_wire_peek(struct cay_wire *w)
{
    char byte;
    size_t n;
    if (!w->ssl)
        return recv(w->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    ERR_clear_error();
    if (!w->ended && SSL_peek_ex(w->ssl, &byte, 1, &n))
        return 1;
    if (!w->ended)
        (void)must_wait(w);
    return nothing(w);
}

/* What comes behind the first `skip` bytes, one record of it at most. */
static size_t gather(const struct iovec *iov, size_t count, size_t skip, char *out)
{
    size_t len = 0;
    for (size_t i = 0; i < count && len < RECORD; i++) {
        size_t from = skip < iov[i].iov_len ? skip : iov[i].iov_len;
        size_t n = iov[i].iov_len - from;
        skip -= from;
        if (n > RECORD - len)
            n = RECORD - len;
        if (n > 0)
            memcpy(out + len, (const char *)iov[i].iov_base + from, n);
        len += n;
    }
    return len;
}

static ssize_t tls_send(struct cay_wire *w, const struct iovec *iov, size_t count)
{
    char record[RECORD];
    size_t sent = 0, len, n;
    ERR_clear_error();
    while (!w->broken && (len = gather(iov, count, sent, record)) > 0) {
        if (SSL_write_ex(w->ssl, record, len, &n)) {
            sent += n;
        } else if (must_wait(w)) {
            errno = EAGAIN;
            return sent > 0 ? (ssize_t)sent : -1;
        } else { /* OpenSSL calls it a proper end when the client said goodbye before */
            w->broken = true;
        }
    }
    if (!w->broken)
        return (ssize_t)sent;
    errno = EPIPE;
    return -1;
}

ssize_t cay_wire_send(struct cay_wire *w, const struct iovec *iov, size_t count)
{
    struct msghdr msg = {.msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = count};
    return w->ssl ? tls_send(w, iov, count) : sendmsg(w->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void say_goodbye(struct cay_wire *w)
{
    if (!w->ssl || w->broken || !SSL_is_init_finished(w->ssl))
        return;
    (void)SSL_shutdown(w->ssl); /* where there is no room for it, the socket's end must do */
    ERR_clear_error();
}

void cay_wire_shut(struct cay_wire *w)
{
    say_goodbye(w);
    (void)shutdown(w->fd, SHUT_WR);
}

void cay_wire_close(struct cay_wire *w)
{
    say_goodbye(w);
    SSL_free(w->ssl);
    if (w->fd >= 0)
        (void)close(w->fd);
    *w = (struct cay_wire){.fd = -1};
}

int cay_wire_greet(struct cay_wire *w)
{
    ERR_clear_error();
    if (SSL_do_handshake(w->ssl) == 1)
        return 0;
    errno = must_wait(w) ? EAGAIN : EPROTO;
    return -1;
}

short cay_wire_wants(const struct cay_wire *w)
{
    return w->ssl && SSL_want_write(w->ssl) ? POLLOUT : POLLIN;
}
