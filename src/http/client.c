/* SPDX-License-Identifier: Apache-2.0 */
/* The client's connection: made when first needed, kept between calls, dropped after any doubt.
 *
 * A kept connection may have been closed by the server in the meantime. It is looked at before it
 * is used again, and a GET or DELETE that finds it closed all the same is sent once more; anything
 * else is not, because nobody can tell whether it was carried out. */
#include "http/client.h"
#include "base/clock.h"
#include "base/str.h"
#include "http/tls.h"
#include "http/url.h"
#include "http/websocket.h"
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#define LOST "CONNECTION_LOST"
#define PIECE (256 * 1024) /* of a body that comes in pieces */

struct cay_client {
    struct cay_url url;
    char *ca;                   /* whom to trust, a file; NULL: the system's */
    struct cay_tls_identity as; /* instead of the file, unless it is empty */
    struct ssl_ctx_st *tls;     /* made with the first connection under TLS */
    char *token;                /* or NULL */
    char *account;              /* on whose behalf, by the operator's socket; or NULL */
    struct cay_wire wire;
    int interrupt_fd;
    bool reused; /* the connection has carried an answer before */
    int (*dial)(void *arg, int *fd_out, struct cay_error *err); /* or NULL */
    void *dial_arg;
    struct cay_reply reply;
};

/* One call under way. */
struct call {
    struct cay_client *c;
    const struct cay_client_request *req;
    struct cay_client_answer *out;
    int64_t idle_ms;
    bool any; /* a byte of the answer came */
    bool cut; /* before the body's end: the connection is of no more use */
};

int cay_client_new(const char *url, const char *token, struct cay_client **out,
                   struct cay_error *err)
{
    struct cay_client *c = calloc(1, sizeof *c);
    if (!c)
        abort();
    c->wire.fd = c->interrupt_fd = -1;
    int r = cay_url_parse(url, &c->url, err);
    if (r >= 0 && token && *token) {
        if (cay_url_is_plain(token))
            c->token = strdup(token);
        else
            r = cay_fail(err, CAY_ERR_INVALID, "the token holds characters that no token has");
    }
    if (r < 0) {
        cay_client_free(c);
        return r;
    }
    *out = c;
    return 0;
}

void cay_client_free(struct cay_client *c)
{
    if (!c)
        return;
    cay_wire_close(&c->wire);
    cay_tls_free(c->tls);
    free(c->ca);
    free(c->token);
    free(c->account);
    free(c);
}

int cay_client_act_for(struct cay_client *c, const char *account, struct cay_error *err)
{
    if (!cay_url_is_plain(account))
        return cay_fail(err, CAY_ERR_INVALID, "%s is no account", account);
    c->account = strdup(account);
    return 0;
}

void cay_client_trust(struct cay_client *c, const char *ca)
{
    free(c->ca);
    c->ca = strdup(ca);
}

void cay_client_identify(struct cay_client *c, const char *ca, const char *cert, const char *key)
{
    c->as = (struct cay_tls_identity){ca, cert, key};
}

void cay_client_interrupt_on(struct cay_client *c, int fd)
{
    c->interrupt_fd = fd;
}

void cay_client_use_fd(struct cay_client *c, int fd)
{
    cay_wire_close(&c->wire);
    int flags = fcntl(fd, F_GETFL);
    (void)fcntl(fd, F_SETFL, flags | O_NONBLOCK); /* only a closed one fails: seen at first use */
    c->wire.fd = fd;
    c->reused = false;
}

void cay_client_dial_by(struct cay_client *c,
                        int (*dial)(void *arg, int *fd_out, struct cay_error *err), void *arg)
{
    c->dial = dial;
    c->dial_arg = arg;
}

void cay_client_answer_done(struct cay_client_answer *answer)
{
    cay_buf_done(&answer->body);
}

/* Waits until fd is ready; limit_ms counts from now, until_ms (0: none) is a point in time. */
static int wait_ready(const struct cay_client *c, int fd, short events, int64_t limit_ms,
                      int64_t until_ms, struct cay_error *err)
{
    int64_t end = cay_clock_mono_ms() + limit_ms;
    bool all_over = until_ms && until_ms < end;
    if (all_over)
        end = until_ms;
    for (;;) {
        struct pollfd fds[] = {{.fd = fd, .events = events},
                               {.fd = c->interrupt_fd, .events = POLLIN}};
        int64_t left = end - cay_clock_mono_ms();
        int n = poll(fds, 2, left > 0 ? (int)(left < 60000 ? left : 60000) : 0);
        if (n < 0 && errno != EINTR)
            return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot wait for the server");
        if (n > 0 && fds[1].revents)
            return cay_fail_as(err, CAY_ERR_CONFLICT, "INTERRUPTED", "interrupted");
        if (n > 0)
            return 0;
        if (left <= 0)
            return cay_fail(err, CAY_ERR_TIMEOUT, "the server at %s gave no answer in time",
                            c->url.authority);
    }
}

/* Nothing has to be waited for: only whether the user has had enough. */
static int look_up(const struct cay_client *c, struct cay_error *err)
{
    struct pollfd fd = {.fd = c->interrupt_fd, .events = POLLIN};
    if (c->interrupt_fd >= 0 && poll(&fd, 1, 0) > 0)
        return cay_fail_as(err, CAY_ERR_CONFLICT, "INTERRUPTED", "interrupted");
    return 0;
}

static int connect_one(struct cay_client *c, const struct addrinfo *ai, int64_t until_ms,
                       int *fd_out, struct cay_error *err)
{
    int on = 1, failed = 0;
    socklen_t len = sizeof failed;
    CAY_AUTO_FD int fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return cay_fail_errno(err, CAY_ERR_UNAVAILABLE, "cannot make a socket");
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* it is only slower without */
    if (connect(fd, ai->ai_addr, ai->ai_addrlen) < 0) {
        if (errno != EINPROGRESS)
            return cay_fail_errno(err, CAY_ERR_UNAVAILABLE, "cannot connect");
        int r = wait_ready(c, fd, POLLOUT, CAY_CLIENT_CONNECT_MS, until_ms, err);
        if (r < 0)
            return r;
        if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &len) == 0 && failed) {
            errno = failed;
            return cay_fail_errno(err, CAY_ERR_UNAVAILABLE, "cannot connect");
        }
    }
    *fd_out = cay_take_fd(&fd);
    return 0;
}

static int no_server(const struct cay_client *c, const char *why, struct cay_error *err)
{
    char cause[sizeof err->cause];
    (void)snprintf(cause, sizeof cause, "%s", why);
    cause[0] = (char)tolower((unsigned char)cause[0]); /* the C library's begin in upper case */
    int r = cay_fail_as(err, CAY_ERR_UNAVAILABLE, "NO_SERVER", "no server at %s://%s%s",
                        cay_url_scheme(&c->url), c->url.authority, c->url.base);
    (void)snprintf(err->cause, sizeof err->cause, "%s", cause);
    return r;
}

/* The handshake; a server that cannot prove who it is gets nothing of ours. */
static int greet(struct cay_client *c, int64_t until_ms, struct cay_error *err)
{
    int r = c->tls     ? 0
            : c->as.ca ? cay_tls_client_as(&c->as, &c->tls, err)
                       : cay_tls_client(c->ca, &c->tls, err);
    if (r == 0)
        r = cay_tls_connect(c->tls, c->url.host, &c->wire, err);
    while (r == 0 && cay_wire_greet(&c->wire) < 0) {
        const char *why = cay_tls_distrust(&c->wire);
        if (errno == EAGAIN)
            r = wait_ready(c, c->wire.fd, cay_wire_wants(&c->wire), CAY_CLIENT_CONNECT_MS, until_ms,
                           err);
        else if (why)
            r = cay_fail_as(err, CAY_ERR_FORBIDDEN, "NOT_TRUSTED",
                            "the certificate of https://%s is not trusted: %s; name one that is "
                            "with --ca FILE or CAY_CA",
                            c->url.authority, why);
        else
            r = cay_fail_as(err, CAY_ERR_PROVIDER, "NO_TLS",
                            "the server at %s does not speak TLS as we do; is it http://?",
                            c->url.authority);
    }
    if (r < 0)
        cay_wire_close(&c->wire);
    return r;
}

static int connect_any(struct cay_client *c, int64_t until_ms, struct cay_error *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    struct cay_error last = {0};
    int r = c->dial ? c->dial(c->dial_arg, &c->wire.fd, err) : 0;
    if (c->dial) {
        c->reused = false;
        return r;
    }
    r = getaddrinfo(c->url.host, c->url.port, &hints, &list);
    if (r != 0)
        return no_server(c, gai_strerror(r), err);
    r = CAY_ERR_UNAVAILABLE;
    for (struct addrinfo *ai = list; ai && r < 0 && last.code != CAY_ERR_CONFLICT; ai = ai->ai_next)
        r = connect_one(c, ai, until_ms, &c->wire.fd, &last);
    freeaddrinfo(list);
    if (r >= 0) {
        c->reused = false;
        return c->url.tls ? greet(c, until_ms, err) : 0;
    }
    if (last.code == CAY_ERR_CONFLICT) {
        *err = last;
        return r;
    }
    return no_server(c, last.cause[0] ? last.cause : last.msg, err);
}

/* A connection that the server closed, or on which bytes wait that nobody asked for, is of no use.
 */
static bool still_good(struct cay_client *c)
{
    ssize_t n = cay_wire_peek(&c->wire);
    return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

static int lost(const struct cay_client *c, struct cay_error *err)
{
    return cay_fail_as(err, CAY_ERR_UNAVAILABLE, LOST, "the connection to %s://%s broke",
                       cay_url_scheme(&c->url), c->url.authority);
}

static int wire_write(struct call *call, const char *data, size_t len, struct cay_error *err)
{
    struct cay_client *c = call->c;
    while (len) {
        struct iovec iov = {(void *)(uintptr_t)data, len};
        ssize_t n = cay_wire_send(&c->wire, &iov, 1);
        if (n > 0) {
            data += n;
            len -= (size_t)n;
            continue;
        }
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno != EAGAIN)
            return lost(c, err);
        int r = wait_ready(c, c->wire.fd, POLLOUT, call->idle_ms, call->req->until_ms, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static int wire_read(struct call *call, char *data, size_t size, size_t *len_out,
                     struct cay_error *err)
{
    struct cay_client *c = call->c;
    for (;;) {
        int r = c->wire.more
                    ? look_up(c, err)
                    : wait_ready(c, c->wire.fd, POLLIN, call->idle_ms, call->req->until_ms, err);
        if (r < 0)
            return r;
        ssize_t n = cay_wire_recv(&c->wire, data, size);
        if (n > 0) {
            *len_out = (size_t)n;
            return 0;
        }
        if (n == 0 || (errno != EAGAIN && errno != EINTR))
            return lost(c, err);
    }
}

static int send_piece(struct call *call, char *piece, size_t len, struct cay_error *err)
{
    char size[24];
    if (call->req->more_length >= 0)
        return len ? wire_write(call, piece, len, err) : 0;
    (void)snprintf(size, sizeof size, "%zx\r\n", len);
    int r = wire_write(call, size, strlen(size), err);
    memcpy(piece + len, "\r\n", 2);
    return r < 0 ? r : wire_write(call, piece, len + 2, err);
}

/* Until its end, or until the server has said what it thinks of it. */
static int send_pieces(struct call *call, struct cay_error *err)
{
    CAY_AUTO_FREE char *piece = malloc(PIECE + 2);
    if (!piece)
        abort();
    for (size_t len = 1; len > 0;) {
        if (cay_wire_peek(&call->c->wire) > 0) {
            call->cut = true;
            return 0;
        }
        int r = call->req->more(call->req->arg, piece, PIECE, &len, err);
        if (r == 0)
            r = send_piece(call, piece, len, err);
        if (r == CAY_ERR_UNAVAILABLE && cay_wire_peek(&call->c->wire) > 0) {
            call->cut = true; /* it answered and went */
            return 0;
        }
        if (r < 0)
            return r;
    }
    return 0;
}

static int send_request(struct call *call, struct cay_error *err)
{
    const struct cay_client_request *req = call->req;
    struct cay_client *c = call->c;
    CAY_AUTO_BUF struct cay_buf out = {0};

    if (!cay_url_is_plain(req->path) ||
        (req->last_event_id && !cay_url_is_plain(req->last_event_id)))
        return cay_fail(err, CAY_ERR_INVALID, "the request's path holds what no path may hold");
    cay_buf_addf(&out, "%s %s%s HTTP/1.1\r\nHost: %s\r\nUser-Agent: cay/%s\r\nAccept: %s\r\n",
                 req->method, c->url.base, req->path, c->url.authority, CAY_VERSION,
                 req->accept ? req->accept : "application/json");
    if (c->token)
        cay_buf_addf(&out, "Authorization: Bearer %s\r\n", c->token);
    if (c->account)
        cay_buf_addf(&out, "X-Cay-Account: %s\r\n", c->account);
    if (req->last_event_id)
        cay_buf_addf(&out, "Last-Event-ID: %s\r\n", req->last_event_id);
    if (req->body)
        cay_buf_addf(&out, "Content-Type: application/json\r\nContent-Length: %zu\r\n",
                     req->body_len);
    else if (req->more && req->more_length >= 0)
        cay_buf_addf(&out, "Content-Type: application/octet-stream\r\nContent-Length: %lld\r\n",
                     (long long)req->more_length);
    else if (req->more)
        cay_buf_adds(&out, "Content-Type: application/octet-stream\r\n"
                           "Transfer-Encoding: chunked\r\n");
    else if (strcmp(req->method, "POST") == 0)
        cay_buf_adds(&out, "Content-Length: 0\r\n");
    cay_buf_adds(&out, "\r\n");
    if (req->body)
        cay_buf_add(&out, req->body, req->body_len);
    int r = wire_write(call, out.data, out.len, err);
    return r == 0 && req->more ? send_pieces(call, err) : r;
}

static int take_body(void *arg, const struct cay_reply *a, const char *data, size_t len,
                     struct cay_error *err)
{
    struct call *call = arg;
    struct cay_buf *body = &call->out->body;
    bool good = a->status >= 200 && a->status < 300;
    size_t max = good ? CAY_CLIENT_BODY_MAX : CAY_CLIENT_ERROR_MAX;
    if (good && call->req->on_data)
        return call->req->on_data(call->req->arg, data, len, err);
    if (len > max || body->len > max - len)
        return cay_fail(err, CAY_ERR_TOO_LARGE, "the answer is larger than %zu bytes", max);
    cay_buf_add(body, data, len);
    return 0;
}

/* Reads until the answer is whole; what comes behind it makes the connection unfit for a next. */
static int read_answer(struct call *call, struct cay_error *err)
{
    struct cay_client *c = call->c;
    CAY_AUTO_FREE char *data = malloc(65536);
    if (!data)
        abort();
    cay_reply_init(&c->reply);
    while (c->reply.state != CAY_REPLY_DONE) {
        size_t len = 0, used = 0;
        int r = wire_read(call, data, 65536, &len, err);
        if (r >= 0) {
            call->any = true;
            r = cay_reply_feed(&c->reply, data, len, take_body, call, &used, err);
        }
        if (r < 0)
            return r;
        if (used < len)
            c->reply.keep_alive = false;
    }
    return 0;
}

static int call_once(struct call *call, struct cay_error *err)
{
    struct cay_client *c = call->c;
    int r = 0;
    if (c->wire.fd >= 0 && c->reused && !still_good(c))
        cay_wire_close(&c->wire);
    if (c->wire.fd < 0)
        r = connect_any(c, call->req->until_ms, err);
    if (r >= 0)
        r = send_request(call, err);
    if (r >= 0)
        r = read_answer(call, err);
    if (r < 0 || call->cut || !c->reply.keep_alive)
        cay_wire_close(&c->wire);
    return r;
}

/* ---- WebSocket ---- */

#define UPGRADED "HTTP/1.1 101 "

static int send_upgrade(struct call *call, const char *key, struct cay_error *err)
{
    const struct cay_client *c = call->c;
    CAY_AUTO_BUF struct cay_buf out = {0};
    if (!cay_url_is_plain(call->req->path))
        return cay_fail(err, CAY_ERR_INVALID, "the request's path holds what no path may hold");
    cay_buf_addf(&out,
                 "GET %s%s HTTP/1.1\r\nHost: %s\r\nUser-Agent: cay/%s\r\nUpgrade: websocket\r\n"
                 "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\n",
                 c->url.base, call->req->path, c->url.authority, CAY_VERSION, key);
    if (c->token)
        cay_buf_addf(&out, "Authorization: Bearer %s\r\n", c->token);
    cay_buf_adds(&out, "\r\n");
    return wire_write(call, out.data, out.len, err);
}

/* The head of the answer, and whatever came with it. */
static int read_head(struct call *call, struct cay_buf *in, size_t *head_len, struct cay_error *err)
{
    for (;;) {
        const char *end = in->len ? memmem(in->data, in->len, "\r\n\r\n", 4) : NULL;
        *head_len = end ? (size_t)(end - in->data) + 4 : 0;
        if (end)
            return 0;
        if (in->len > CAY_REPLY_HEAD_MAX)
            return cay_fail_as(err, CAY_ERR_PROVIDER, "BAD_ANSWER", "the answer's head is endless");
        size_t len = 0;
        int r = wire_read(call, cay_buf_room(in, 4096), 4096, &len, err);
        if (r < 0)
            return r;
        in->len += len;
    }
}

static bool is_accepted(const char *head, size_t len, const char *key)
{
    char accept[CAY_WS_ACCEPT_SIZE], line[80];
    CAY_AUTO_FREE char *text = strndup(head, len);
    if (!text)
        abort();
    cay_ws_accept(key, accept);
    (void)snprintf(line, sizeof line, "\r\nSec-WebSocket-Accept: %s\r\n", accept);
    return strcasestr(text, line) != NULL && strstr(text, accept) != NULL;
}

/* A refusal is an answer like any other. */
static int read_refusal(struct call *call, const struct cay_buf *in, struct cay_error *err)
{
    struct cay_reply *reply = &call->c->reply;
    char data[4096];
    size_t used = 0;
    cay_reply_init(reply);
    int r = cay_reply_feed(reply, in->data, in->len, take_body, call, &used, err);
    while (r >= 0 && reply->state != CAY_REPLY_DONE) {
        size_t len = 0;
        r = wire_read(call, data, sizeof data, &len, err);
        if (r >= 0)
            r = cay_reply_feed(reply, data, len, take_body, call, &used, err);
    }
    return r;
}

static struct cay_wire take_wire(struct cay_client *c)
{
    struct cay_wire taken = c->wire;
    c->wire = (struct cay_wire){.fd = -1};
    return taken;
}

int cay_client_upgrade(struct cay_client *c, const char *path, struct cay_client_answer *out,
                       struct cay_wire *wire_out, struct cay_buf *more, struct cay_error *err)
{
    const struct cay_client_request req = {.method = "GET", .path = path};
    struct cay_client_answer answer = {0};
    struct call call = {.c = c, .req = &req, .out = &answer, .idle_ms = CAY_CLIENT_CONNECT_MS * 2};
    CAY_AUTO_BUF struct cay_buf in = {0};
    unsigned char nonce[16] = {0};
    char key[28];
    size_t head_len = 0;
    if (getrandom(nonce, sizeof nonce, 0) < 0)
        return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot make a key");
    key[cay_str_base64(nonce, sizeof nonce, key)] = 0;
    cay_wire_close(&c->wire);
    int r = connect_any(c, 0, err);
    if (r == 0)
        r = send_upgrade(&call, key, err);
    if (r == 0)
        r = read_head(&call, &in, &head_len, err);
    if (r == 0 && in.len > strlen(UPGRADED) && memcmp(in.data, UPGRADED, strlen(UPGRADED)) == 0) {
        answer.status = 101;
        if (!is_accepted(in.data, head_len, key))
            r = cay_fail_as(err, CAY_ERR_PROVIDER, "BAD_ANSWER", "the answer is no WebSocket's");
        else
            *wire_out = take_wire(c);
        cay_buf_add(more, in.data + head_len, in.len - head_len);
    } else if (r == 0) {
        r = read_refusal(&call, &in, err);
        answer.status = c->reply.status;
    }
    cay_wire_close(&c->wire);
    cay_buf_addc(&answer.body, 0);
    answer.body.len--;
    if (r < 0)
        cay_client_answer_done(&answer);
    else
        *out = answer;
    return r;
}

int cay_client_call(struct cay_client *c, const struct cay_client_request *req,
                    struct cay_client_answer *out, struct cay_error *err)
{
    struct cay_client_answer answer = {0};
    struct call call = {.c = c, .req = req, .out = &answer};
    call.idle_ms = req->idle_ms ? req->idle_ms : CAY_CLIENT_IDLE_MS;
    bool again = c->wire.fd >= 0 && c->reused && strcmp(req->method, "POST") != 0 && !req->more;

    struct cay_error first = {0};
    int r = call_once(&call, &first);
    if (r == CAY_ERR_UNAVAILABLE && again && !call.any && first.name &&
        strcmp(first.name, LOST) == 0)
        r = call_once(&call, &first);
    if (r < 0) {
        cay_buf_done(&answer.body);
        *err = first;
        return r;
    }
    c->reused = true;
    answer.status = c->reply.status;
    answer.retry_after_s = c->reply.retry_after_s;
    memcpy(answer.content_type, c->reply.content_type, sizeof answer.content_type);
    cay_buf_addc(&answer.body, 0);
    answer.body.len--;
    *out = answer;
    return 0;
}
