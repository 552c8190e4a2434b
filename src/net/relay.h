/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes between two sockets, both ways, without looking at them: what is read on one side is moved
 * by the kernel to the other, or copied when it is little. The end of one direction is passed on
 * and the other goes on; a reset on one side is a reset on the other. Who reads slowly slows down
 * who writes: between the two is one pipe, and only while it holds something. An owner who wants to
 * look at some of the bytes is asked before they are taken, and says how many may pass. In the
 * loop's thread only. */
#pragma once
#include "base/buf.h"
#include "net/loop.h"
#include <sys/epoll.h>

#define CAY_LINK_EVENTS (EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLPRI | EPOLLET)

struct cay_relay { /* what all pairs of a loop share */
    struct cay_loop *loop;
    struct cay_pipe *spare; /* pipes that hold nothing */
    unsigned spare_count, pipe_count, pipes_max;
    struct cay_deadlines idle;
};

struct cay_flow {          /* one direction */
    struct cay_pipe *pipe; /* or NULL: nothing is under way */
    size_t held;           /* bytes in it */
    struct cay_buf ahead;  /* bytes that go first, from ahead_at on; then the pipe is empty */
    size_t ahead_at;
    bool readable;    /* something may have come since nothing was there */
    bool much;        /* the last that came was not little */
    bool urgent;      /* a byte came that a reading stops at: less than asked for is not all then */
    bool last;        /* nothing comes behind what is there */
    bool ended, told; /* no more will come; the other side knows */
    bool looks;       /* its owner does: only so many may pass without asking: */
    uint64_t pass;
    uint64_t bytes; /* moved so far */
};

/* A part of whatever the connection belongs to; zeroed before it begins. The sockets are its
 * owner's, non-blocking, and stay watched by its owner until it is begun. */
struct cay_link {
    struct cay_relay *relay;
    struct cay_watch in, out;
    struct cay_flow sent, received; /* in to out, out to in */
    struct cay_deadline idle;
    struct cay_turn turn;
    const unsigned *sharers; /* how many have to share what one may move in a turn; NULL: none */
    /* Something came on a direction that looks, and nothing more may pass. It changes looks, pass
     * or ahead, or leaves them when more must come; what it takes off the socket it puts ahead.
     * False: the pair is gone. */
    bool (*asks)(struct cay_link *p, struct cay_flow *f);
    /* It is over: both have ended, or a side was reset, or nothing moved for too long. The pair was
     * closed, its sockets too; the owner may free it. */
    void (*over)(struct cay_link *p, bool reset);
};

/* With so many pipes at most: whoever finds none left is copied in small pieces. */
void cay_relay_init(struct cay_relay *r, struct cay_loop *loop, unsigned pipes_max,
                    int64_t idle_ms);
void cay_relay_done(struct cay_relay *r);
/* in.fd and out.fd are connected, and in.fd does not gather small pieces. out may be watched
 * already, for CAY_LINK_EVENTS, by its owner, who then tells it what came so far. False when they
 * cannot be watched; then nothing has changed. */
bool cay_link_begin(struct cay_link *p, struct cay_relay *r);
/* Looks at this direction again, although nothing came: what it waited for is there. */
void cay_link_again(struct cay_link *p, struct cay_flow *f);
/* Closes both sockets, by reset if asked for; over is not called. */
void cay_link_close(struct cay_link *p, bool reset);
/* Closes so that the peer sees a reset. */
void cay_socket_reset(int *fd);
