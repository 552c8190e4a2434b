/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for a ticket: the loop watches its pipe, a worker answers when it is over. */
#include "api/ticket.h"
#include <stdlib.h>

struct wait {
    struct cay_stream base;
    struct cay_ticket *ticket;
    struct cay_api_waiting *to; /* the request's */
};

static enum cay_pull pull(struct cay_stream *s, struct cay_buf *out, size_t room)
{
    struct wait *w = (struct wait *)s;
    (void)out, (void)room;
    if (!cay_ticket_is_over(w->ticket))
        return CAY_PULL_WAIT;
    w->to->verdict = cay_ticket_verdict(w->ticket, &w->to->err);
    return CAY_PULL_END;
}

static void close_wait(struct cay_stream *s)
{
    cay_ticket_free(((struct wait *)s)->ticket);
    free(s);
}

static const struct cay_stream_ops ops = {.pull = pull, .close = close_wait};

int cay_api_wait_ticket(struct cay_req *req, struct cay_resp *resp, struct cay_ticket *ticket,
                        const struct cay_sandbox *sb, struct cay_api_waiting how,
                        int (*answer)(struct cay_req *req, struct cay_resp *resp,
                                      struct cay_error *err))
{
    struct cay_api_waiting *to = cay_arena_alloc(req->arena, sizeof *to);
    struct wait *w = calloc(1, sizeof *w);
    if (!w)
        abort();
    *to = how;
    cay_str_copy(to->id, sizeof to->id, sb->id);
    *w = (struct wait){
        .base = {.ops = &ops, .watch_fd = cay_ticket_fd(ticket), .is_pipe = true, .endless = true},
        .ticket = ticket,
        .to = to};
    req->data = to;
    return cay_resp_defer(resp, &w->base, answer);
}

int cay_api_waited(struct cay_req *req, struct cay_sandbox *out, struct cay_error *err)
{
    const struct cay_api_waiting *w = req->data;
    if (w->verdict == 0)
        return cay_core_get(req->core, req->owner, w->id, req->arena, out, err);
    *err = w->err;
    return w->verdict;
}
