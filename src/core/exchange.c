/* SPDX-License-Identifier: Apache-2.0 */
#include "core/exchange.h"
#include "base/clock.h"
#include "core/core.h"
#include <errno.h>
#include <poll.h>
#include <string.h>

#define PIECE (64 * 1024)

void cay_exchange_done(struct cay_exchange *x)
{
    if (x->until_ms > 0) { /* else it never began, and has no ends */
        cay_close_fd(&x->ends.out_fd);
        cay_close_fd(&x->ends.in_fd);
        cay_close_fd(&x->ends.end_fd);
    }
    cay_buf_done(&x->in);
    cay_buf_done(&x->out);
}

int cay_exchange_begin(struct cay_core *core, const struct cay_sandbox *sb, struct cay_exchange *x,
                       int64_t ms, struct cay_error *err)
{
    x->ends = (struct cay_file_ends){-1, -1, -1};
    x->until_ms = cay_clock_mono_ms() + ms;
    return cay_core_file_in(core, sb, x->rq, &x->ends, err);
}

/* A reader that closed its end has said why, or is gone: the reply tells. */
static void send_some(struct cay_exchange *x)
{
    ssize_t n = write(x->ends.in_fd, x->in.data + x->sent, x->in.len - x->sent);
    if (n > 0)
        x->sent += (size_t)n;
    if (n < 0 && errno != EAGAIN && errno != EINTR)
        cay_close_fd(&x->ends.in_fd);
    if (x->sent == x->in.len)
        x->sent = x->in.len = 0;
}

static int take_reply(struct cay_exchange *x, struct cay_error *err)
{
    if (x->out.len < sizeof x->reply)
        return 0;
    if (!cay_file_reply_parse(x->out.data, x->out.len, x->rq, &x->reply))
        return cay_core_file_verdict(x->rq, NULL, err);
    x->has_reply = true;
    cay_buf_drop(&x->out, sizeof x->reply);
    return 0;
}

static int take_some(struct cay_exchange *x, struct cay_error *err)
{
    ssize_t n = read(x->ends.out_fd, cay_buf_room(&x->out, PIECE), PIECE);
    int r = 0;
    if (n > 0)
        x->out.len += (size_t)n;
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        x->ended = true;
    if (!x->has_reply)
        r = take_reply(x, err);
    if (r == 0 && x->has_reply && !x->take)
        x->ended = true;
    if (r == 0 && x->has_reply && x->take && x->out.len > 0) {
        int64_t began_ms = cay_clock_mono_ms();
        r = x->take(x->arg, &x->out, err);
        x->until_ms += cay_clock_mono_ms() - began_ms; /* our own time is not the sandbox's */
    }
    return r;
}

static int turn(struct cay_exchange *x, struct cay_error *err)
{
    bool sends = x->ends.in_fd >= 0 && x->sent < x->in.len;
    struct pollfd fds[] = {{.fd = x->ends.out_fd, .events = POLLIN},
                           {.fd = sends ? x->ends.in_fd : -1, .events = POLLOUT}};
    int64_t left = x->until_ms - cay_clock_mono_ms();
    int ready = left > 0 ? poll(fds, CAY_COUNT(fds), (int)left) : 0;
    if (ready == 0)
        return cay_fail_as(err, CAY_ERR_TIMEOUT, "FILES_TIMEOUT",
                           "the files of the sandbox were not at hand in time");
    if (ready > 0 && fds[1].revents)
        send_some(x);
    return ready > 0 && fds[0].revents ? take_some(x, err) : 0;
}

int cay_exchange_send(struct cay_exchange *x, struct cay_error *err)
{
    int r = 0;
    while (r == 0 && !x->ended && x->ends.in_fd >= 0 && x->sent < x->in.len)
        r = turn(x, err);
    return r;
}

int cay_exchange_until(struct cay_exchange *x, bool (*done)(void *arg), struct cay_error *err)
{
    int r = 0;
    while (r == 0 && !x->ended && !(x->sent == x->in.len && done(x->arg)))
        r = turn(x, err);
    return r;
}

int cay_exchange_finish(struct cay_exchange *x, struct cay_error *err)
{
    int r = cay_exchange_send(x, err);
    cay_close_fd(&x->ends.in_fd);
    while (r == 0 && !x->ended)
        r = turn(x, err);
    return r;
}
