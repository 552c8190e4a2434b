/* SPDX-License-Identifier: Apache-2.0 */
/* The beginning of a connection under TLS. Signing takes longer than anything else that a
 * connection asks of the loop, so each step of the handshake is a worker's, as a request is. All of
 * it has one deadline, which is a head's. */
#include "base/clock.h"
#include "base/log.h"
#include "base/packet.h"
#include "http/conn.h"
#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define HANDSHAKE 0x16 /* what the first record of every client is */

/* Somebody was given http:// for https://: told in the only way that he can read. */
static void refuse_plain(struct cay_http_server *s, struct cay_conn *c)
{
    struct cay_error err;
    (void)cay_fail_as(&err, CAY_ERR_INVALID, "TLS_REQUIRED",
                      "this port speaks TLS: the URL must begin with https://");
    cay_conn_refuse(s, c, &err);
}

/* The first byte is looked at where it lies. True when it is there and TLS's. */
static bool hear(struct cay_http_server *s, struct cay_conn *c)
{
    char first;
    ssize_t n = recv(c->wire.fd, &first, 1, MSG_PEEK | MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (n <= 0) {
        cay_conn_close(s, c);
        return false;
    }
    if (first != HANDSHAKE) {
        refuse_plain(s, c);
        return false;
    }
    c->greeting = true;
    if (cay_tls_accept(s->tls, &c->wire) == 0)
        return true;
    cay_conn_close(s, c);
    return false;
}

void cay_greet(struct cay_http_server *s, struct cay_conn *c)
{
    if (!c->unread || (!c->greeting && !hear(s, c)))
        return; /* the next event tells */
    c->unread = false;
    cay_conn_dispatch(s, c);
}

enum cay_phase cay_greet_work(struct cay_http_server *s, struct cay_conn *c)
{
    if (cay_wire_greet(&c->wire) < 0)
        return errno == EAGAIN ? CAY_PHASE_GREET : CAY_PHASE_CLOSE;
    c->greeting = false;
    c->deadline_ms = cay_clock_mono_ms() + s->times.idle_ms;
    return CAY_PHASE_HEAD; /* the loop reads on: a request may have come with the last step */
}

void cay_greet_renew(struct cay_http_server *s)
{
    char byte;
    int fd = -1, count = 0;
    struct cay_error err;
    struct ssl_ctx_st *tls;
    ssize_t n = cay_packet_recv(s->news_fd, &byte, sizeof byte, &fd, 1, &count);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0 || count < 1) { /* whoever could renew it is gone */
        (void)epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, s->news_fd, NULL);
        return;
    }
    if (cay_tls_server_from(fd, &tls, &err) < 0) {
        cay_log_error(&err, "a new certificate cannot be used; the old one stays");
    } else {
        cay_tls_free(s->tls); /* connections that were made with it keep it */
        s->tls = tls;
    }
    cay_close_fd(&fd);
}
