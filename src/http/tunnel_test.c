/* SPDX-License-Identifier: Apache-2.0 */
#include "http/tunnel_test.h"
#include "tests/test.h"
#include <errno.h>
#include <fcntl.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>

struct tunnel {
    int near, far;
    SSL_CTX *ctx;
    SSL *ssl;
    char up[4096], down[4096];
    size_t up_len, down_len; /* what the other side did not take yet */
    bool shut, gone, over;   /* the client says no more; it is not there any more; all is over */
};

const char *tunnel_identity(void)
{
    return getenv("CAY_TEST_TLS");
}

/* What the server says. False when nothing could be moved: a client that does not read holds up
 * this direction alone. */
static bool move_down(struct tunnel *t)
{
    if (t->down_len == 0) {
        if (SSL_read_ex(t->ssl, t->down, sizeof t->down, &t->down_len))
            return true;
        t->down_len = 0;
        t->over = SSL_get_error(t->ssl, 0) != SSL_ERROR_WANT_READ;
        return false;
    }
    ssize_t n = t->gone ? (ssize_t)t->down_len
                        : send(t->near, t->down, t->down_len, MSG_NOSIGNAL | MSG_DONTWAIT);
    t->over = n < 0 && errno != EAGAIN;
    if (n <= 0)
        return false;
    memmove(t->down, t->down + n, t->down_len - (size_t)n);
    t->down_len -= (size_t)n;
    return true;
}

/* What the client says. */
static bool move_up(struct tunnel *t)
{
    size_t n;
    if (t->up_len > 0 && SSL_write_ex(t->ssl, t->up, t->up_len, &n)) {
        memmove(t->up, t->up + n, t->up_len - n);
        t->up_len -= n;
        return true;
    }
    if (t->up_len > 0) {
        t->over = t->over || SSL_get_error(t->ssl, 0) != SSL_ERROR_WANT_WRITE;
        return false;
    }
    ssize_t got = t->shut ? -1 : recv(t->near, t->up, sizeof t->up, MSG_DONTWAIT);
    t->up_len = got > 0 ? (size_t)got : 0;
    if (got == 0) {
        t->shut = true;
        (void)SSL_shutdown(t->ssl);
        (void)shutdown(t->far, SHUT_WR);
    }
    return got >= 0;
}

static void wait_for_both(struct tunnel *t)
{
    short take = t->shut || t->up_len > 0 ? 0 : POLLIN, give = t->down_len > 0 ? POLLOUT : 0;
    bool blind = t->gone || (t->up_len > 0 && !give);
    struct pollfd fds[] = {
        {.fd = blind ? -1 : t->near, .events = (short)(take | give)},
        {.fd = t->far, .events = (short)((give ? 0 : POLLIN) | (t->up_len > 0 ? POLLOUT : 0))},
    };
    t->over = poll(fds, COUNT(fds), 20000) <= 0;
    /* What is said to one that is gone is still read: closing over it would be a reset, which takes
     * the client's last words with it. */
    t->gone = t->gone || (t->shut && fds[0].revents & POLLHUP);
}

static void *run(void *arg)
{
    struct tunnel *t = arg;
    t->over = SSL_connect(t->ssl) != 1;
    (void)fcntl(t->far, F_SETFL, O_NONBLOCK);
    while (!t->over) {
        bool down = move_down(t);
        bool up = !t->over && move_up(t);
        if (!down && !up && !t->over)
            wait_for_both(t);
    }
    SSL_free(t->ssl);
    SSL_CTX_free(t->ctx);
    cay_close_fd(&t->near);
    cay_close_fd(&t->far);
    free(t);
    return NULL;
}

int tunnel_open(int fd)
{
    int pair[2];
    pthread_t thread;
    struct tunnel *t = calloc(1, sizeof *t);
    CHECK_EQ("a pair", socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    t->near = pair[1];
    t->far = fd;
    t->ctx = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_mode(t->ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    t->ssl = SSL_new(t->ctx);
    (void)SSL_set_fd(t->ssl, fd);
    CHECK_EQ("a thread", pthread_create(&thread, NULL, run, t), 0);
    (void)pthread_detach(thread); /* ends with the connection */
    return pair[0];
}
