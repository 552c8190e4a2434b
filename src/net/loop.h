/* SPDX-License-Identifier: Apache-2.0 */
/* One thread that waits for many sockets. All that it owns is touched by itself alone: whoever else
 * wants something hands it a function to run. */
#pragma once
#include "base/error.h"
#include <stdbool.h>
#include <stdint.h>

struct cay_loop;

int cay_loop_open(const char *name, struct cay_loop **out, struct cay_error *err);
/* What still waits to be run is run; what is watched stays its owner's. */
void cay_loop_close(struct cay_loop *loop);

/* From any thread. post returns at once; `run` is called with arg in the loop's thread, in the
 * order of the calls. ask returns when it was. */
void cay_loop_post(struct cay_loop *loop, void (*run)(void *arg), void *arg);
void cay_loop_ask(struct cay_loop *loop, void (*run)(void *arg), void *arg);

/* From here on in the loop's thread only. */

struct cay_watch { /* a part of whatever the socket belongs to */
    int fd;
    void (*ready)(struct cay_watch *w, uint32_t events); /* EPOLL… */
};
bool cay_loop_watch(struct cay_loop *loop, struct cay_watch *w, uint32_t events);
/* Before the socket is closed; no event comes afterwards, not even one that was read already. */
void cay_loop_unwatch(struct cay_loop *loop, struct cay_watch *w);
/* The same for a socket that is closed at once and that nobody else has: the kernel forgets it. */
void cay_loop_forget(struct cay_loop *loop, struct cay_watch *w);

/* A moment that may come. Those of one kind have the same delay, so a list in the order of their
 * beginning is in the order of their end as well. */
struct cay_deadline {
    struct cay_deadline *next, *prev; /* NULL: it is not set */
    int64_t at_ms;
};
struct cay_deadlines {
    struct cay_deadline list;
    struct cay_deadlines *others;
    int64_t delay_ms;
    void (*due)(struct cay_deadline *t); /* it is not set any more */
};
void cay_deadlines_init(struct cay_loop *loop, struct cay_deadlines *kind, int64_t delay_ms,
                        void (*due)(struct cay_deadline *t));
/* Before its memory goes, if the loop stays; none is set any more. */
void cay_deadlines_done(struct cay_loop *loop, struct cay_deadlines *kind);
void cay_deadline_set(struct cay_deadlines *kind, struct cay_deadline *t); /* anew, if it was set */
void cay_deadline_clear(struct cay_deadline *t);

/* Called once before the loop waits again: for who has more to do than was his turn. */
struct cay_turn {
    struct cay_turn *next, *prev;
    void (*run)(struct cay_turn *t);
};
void cay_loop_again(struct cay_loop *loop, struct cay_turn *t);
void cay_turn_clear(struct cay_turn *t);
