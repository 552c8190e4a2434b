/* SPDX-License-Identifier: Apache-2.0 */
/* One operation of cay-file from beginning to end, for a thread that may wait: bytes in while bytes
 * come out, within a time. */
#pragma once
#include "core/service.h"

struct cay_exchange {
    struct cay_file_request *rq;
    struct cay_file_ends ends;
    struct cay_buf in; /* still to be sent; more may be added as long as it is not finished */
    size_t sent;
    struct cay_buf out;          /* what came behind the reply and was not taken yet */
    struct cay_file_reply reply; /* once has_reply */
    bool has_reply, ended;
    int64_t until_ms; /* monotonic */
    /* Takes what it can off out's front. NULL: nothing but the reply is expected. */
    int (*take)(void *arg, struct cay_buf *out, struct cay_error *err);
    void *arg;
};

/* Begins it; ends and times are set here. */
int cay_exchange_begin(struct cay_core *core, const struct cay_sandbox *sb, struct cay_exchange *x,
                       int64_t ms, struct cay_error *err);
/* Sends what is in `in`; returns when all of it went, or nobody takes it any more. */
int cay_exchange_send(struct cay_exchange *x, struct cay_error *err);
/* Sends what is in `in`, and goes on until `done` says so of arg, or the other side ends. */
int cay_exchange_until(struct cay_exchange *x, bool (*done)(void *arg), struct cay_error *err);
/* Sends the rest, and waits for the end. 0 also when the reply is bad: see the reply. */
int cay_exchange_finish(struct cay_exchange *x, struct cay_error *err);
void cay_exchange_done(struct cay_exchange *x);
#define CAY_AUTO_EXCHANGE CAY_CLEANUP(cay_exchange_done)
