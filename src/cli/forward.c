/* SPDX-License-Identifier: Apache-2.0 */
/* cay forward: ports of a sandbox on this machine's loopback. Each connection is a WebSocket of its
 * own; when one side has said all, the other may go on. */
#include "cli/follow.h"
#include "cli/remote.h"
#include "http/websocket.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#define PORTS 16
#define PASSES 128 /* connections at once; more wait in the backlog */
#define PIECE 16384
#define HELD_MAX (64 * 1024)

struct door {
    int fd;
    const char *port; /* inside */
};

struct pass {
    int fd; /* -1: this one is free */
    struct cay_wire wire;
    struct cay_ws decoder;
    struct cay_buf in, out, local; /* from the server; to it; to the program here */
    bool local_ended, far_ended, over;
};

struct forward {
    struct cay_cli *cli;
    struct door doors[PORTS];
    size_t count;
    struct pass passes[PASSES];
};

static void say(struct pass *p, enum cay_ws_op op, const void *data, size_t len)
{
    unsigned char mask[4] = {0};
    (void)!getrandom(mask, sizeof mask, 0); /* against caches on the way, not for secrecy */
    cay_ws_frame(&p->out, op, data, len, mask);
}

static void close_pass(struct pass *p)
{
    cay_wire_close(&p->wire);
    cay_ws_done(&p->decoder);
    cay_buf_done(&p->in);
    cay_buf_done(&p->out);
    cay_buf_done(&p->local);
    cay_close_fd(&p->fd);
    *p = (struct pass){.fd = -1, .wire.fd = -1};
}

static int listen_on(struct forward *f, const char *text, struct cay_error *err)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct door *d = &f->doors[f->count];
    socklen_t len = sizeof at;
    const char *colon = strchr(text, ':');
    char local[8] = "";
    uint64_t here, inside;
    int yes = 1;
    d->port = colon ? colon + 1 : text;
    cay_str_copy(local, colon && colon - text < 7 ? (size_t)(colon - text) + 1 : sizeof local,
                 colon ? text : d->port);
    if (!cay_str_u64(local, 65535, &here) || !cay_str_u64(d->port, 65535, &inside) || inside == 0)
        return cay_fail(err, CAY_ERR_INVALID, "%s is not [LOCAL:]PORT", text);
    at.sin_port = htons((uint16_t)here);
    d->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    f->count++;
    if (d->fd < 0 || setsockopt(d->fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) < 0 ||
        bind(d->fd, (struct sockaddr *)&at, sizeof at) < 0 || listen(d->fd, 64) < 0 ||
        getsockname(d->fd, (struct sockaddr *)&at, &len) < 0)
        return cay_fail_errno(err, CAY_ERR_UNAVAILABLE, "cannot listen on 127.0.0.1:%s", local);
    printf("127.0.0.1:%u -> %s\n", ntohs(at.sin_port), d->port);
    (void)fflush(stdout); /* whoever closed our stdout does not want the line */
    return 0;
}

/* One who came: he is told by the end of his connection when nothing listens inside. */
static void let_in(struct forward *f, const struct door *d)
{
    CAY_AUTO_ANSWER struct cay_client_answer answer = {0};
    struct cay_error err = {0};
    struct pass *p = f->passes;
    while (p < f->passes + PASSES && p->fd >= 0)
        p++;
    if (p == f->passes + PASSES)
        return;
    CAY_AUTO_FD int fd = accept4(d->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return;
    const char *path = cay_remote_path(f->cli, "sandbox", f->cli->args.args.at[0], "ports", d->port,
                                       "tunnel", (const char *)NULL);
    int r = cay_client_upgrade(f->cli->client, path, &answer, &p->wire, &p->in, &err);
    if (r == 0 && answer.status != 101)
        r = cay_remote_check(f->cli, &answer, &err);
    if (r < 0) {
        cay_cli_tell(f->cli, &err);
        close_pass(p);
        return;
    }
    p->decoder = (struct cay_ws){.unmasked = true};
    p->fd = cay_take_fd(&fd);
}

static void take_frames(struct pass *p)
{
    size_t at = 0, used = 0;
    struct cay_ws_piece piece;
    int got;
    while ((got = cay_ws_decode(&p->decoder, p->in.data + at, p->in.len - at, &used, &piece)) > 0) {
        at += used;
        if (piece.op == CAY_WS_BINARY)
            cay_buf_add(&p->local, piece.data, piece.len);
        else if (piece.op == CAY_WS_TEXT)
            p->far_ended = true; /* the only word there is */
        else if (piece.op == CAY_WS_PING)
            say(p, CAY_WS_PONG, piece.data, piece.len);
        else if (piece.op == CAY_WS_CLOSE)
            p->over = true;
    }
    cay_buf_drop(&p->in, at + (got == 0 ? used : 0));
    p->over = p->over || got < 0;
}

static void read_far(struct pass *p)
{
    ssize_t n = cay_wire_recv(&p->wire, cay_buf_room(&p->in, PIECE), PIECE);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    p->over = p->over || n <= 0;
    p->in.len += n > 0 ? (size_t)n : 0;
    take_frames(p);
}

static void read_local(struct pass *p)
{
    static const char eof[] = "{\"type\":\"eof\"}";
    char data[PIECE];
    ssize_t n = recv(p->fd, data, sizeof data, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0) {
        say(p, CAY_WS_BINARY, data, (size_t)n);
        return;
    }
    p->local_ended = true;
    p->over = p->over || n < 0;
    say(p, CAY_WS_TEXT, eof, strlen(eof));
}

/* Writes what is held, both ways; the end of one way is passed on behind its last byte. */
static void flush(struct pass *p)
{
    struct iovec iov = {p->out.data, p->out.len};
    ssize_t n = p->out.len > 0 && !p->over ? cay_wire_send(&p->wire, &iov, 1) : 0;
    p->over = p->over || (n < 0 && errno != EAGAIN && errno != EINTR);
    cay_buf_drop(&p->out, n > 0 ? (size_t)n : 0);
    n = p->local.len > 0 ? send(p->fd, p->local.data, p->local.len, MSG_DONTWAIT | MSG_NOSIGNAL)
                         : 0;
    if (n < 0 && errno != EAGAIN && errno != EINTR) {
        p->over = true;
        p->local.len = 0;
    }
    cay_buf_drop(&p->local, n > 0 ? (size_t)n : 0);
    if (p->far_ended && p->local.len == 0)
        (void)shutdown(p->fd, SHUT_WR); /* again and again is no harm */
    if (p->over && p->local.len == 0)
        close_pass(p);
}

static size_t watch(const struct forward *f, struct pollfd *fds)
{
    size_t n = 0;
    fds[n++] = (struct pollfd){.fd = f->cli->signal_fd, .events = POLLIN};
    for (size_t i = 0; i < f->count; i++)
        fds[n++] = (struct pollfd){.fd = f->doors[i].fd, .events = POLLIN};
    for (size_t i = 0; i < PASSES; i++) {
        const struct pass *p = &f->passes[i];
        bool hears = p->local.len < HELD_MAX && !p->over;
        bool reads = !p->local_ended && p->out.len < HELD_MAX;
        fds[n++] = (struct pollfd){
            .fd = p->fd >= 0 ? p->wire.fd : -1,
            .events = (short)((hears ? POLLIN : 0) | (p->out.len > 0 ? POLLOUT : 0))};
        fds[n++] = (struct pollfd){
            .fd = p->fd >= 0 && (reads || p->local.len > 0) ? p->fd : -1,
            .events = (short)((reads ? POLLIN : 0) | (p->local.len > 0 ? POLLOUT : 0))};
    }
    return n;
}

static bool has_more(const struct forward *f)
{
    for (size_t i = 0; i < PASSES; i++)
        if (f->passes[i].fd >= 0 && f->passes[i].wire.more && f->passes[i].local.len < HELD_MAX)
            return true;
    return false;
}

static void carry(struct forward *f)
{
    struct pollfd fds[1 + PORTS + 2 * PASSES];
    for (;;) {
        size_t n = watch(f, fds);
        (void)poll(fds, (nfds_t)n, has_more(f) ? 0 : -1); /* interrupted: looked at again */
        if (fds[0].revents)
            return;
        for (size_t i = 0; i < PASSES; i++) {
            struct pass *p = &f->passes[i];
            const struct pollfd *both = &fds[1 + f->count + 2 * i];
            if (p->fd < 0)
                continue;
            if (both[0].revents & ~POLLOUT || p->wire.more)
                read_far(p);
            if (both[1].revents & ~POLLOUT && !p->local_ended)
                read_local(p);
            flush(p);
        }
        for (size_t i = 0; i < f->count; i++)
            if (fds[1 + i].revents)
                let_in(f, &f->doors[i]);
    }
}

static int forward(struct cay_cli *cli, struct cay_error *err)
{
    struct forward *f = cay_arena_alloc(&cli->arena, sizeof *f);
    const struct cay_strs *args = &cli->args.args;
    const struct cay_json *root;
    f->cli = cli;
    for (size_t i = 0; i < PASSES; i++)
        f->passes[i].fd = f->passes[i].wire.fd = -1;
    /* Is it there at all? */
    int r = cay_remote_call(cli, "GET",
                            cay_remote_path(cli, "sandbox", args->at[0], (const char *)NULL), NULL,
                            0, &root, err);
    for (size_t i = 1; i < args->count && r == 0; i++)
        r = listen_on(f, args->at[i], err);
    if (r == 0)
        r = cay_follow_catch_signals(cli, err);
    if (r == 0)
        carry(f);
    for (size_t i = 0; i < PASSES; i++)
        close_pass(&f->passes[i]);
    for (size_t i = 0; i < f->count; i++)
        cay_close_fd(&f->doors[i].fd);
    return r;
}

const struct cay_command cay_command_forward = {
    .name = "forward",
    .args = "ID [LOCAL:]PORT...",
    .summary = "have ports of a sandbox on 127.0.0.1 here, until Ctrl-C",
    .notes = "Whatever is spoken there. LOCAL 0 picks a free port, which is printed.",
    .size = sizeof(struct cay_remote_options),
    .args_min = 2,
    .args_max = 1 + PORTS,
    .remote = true,
    .run = forward,
};
