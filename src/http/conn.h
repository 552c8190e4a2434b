/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of the server: what loop, workers and streams share. No other folder includes this.
 *
 * A connection is held by the loop or by one worker, never by both. `hold` says by whom; whoever
 * holds it may touch everything in it. The loop hands it over with a whole request. A worker that
 * sent its whole answer gives it back by that one word, without a system call; in every other case
 * it queues it for the loop. Sockets are watched edge-triggered, so what happens on one while a
 * worker has it is kept as CAY_HOLD_NEWS, and then it goes back through the queue too. */
#pragma once
#include "http/chunk.h"
#include "http/parse.h"
#include "http/router.h"
#include "http/server.h"
#include "http/tls.h"
#include "http/websocket.h"
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/uio.h>

#define CAY_HTTP_SCRATCH (64 * 1024)
#define CAY_HTTP_WATCHES 1024 /* buckets */

enum cay_hold {
    CAY_HOLD_LOOP,
    CAY_HOLD_WORKER,
    CAY_HOLD_NEWS, /* a worker's, and the socket has something for the loop */
};

enum cay_phase {
    CAY_PHASE_HEAD,  /* idle, or a head is coming */
    CAY_PHASE_GREET, /* before that, under TLS: the handshake */
    CAY_PHASE_BODY,
    CAY_PHASE_WHOLE, /* a request for the workers */
    CAY_PHASE_WRITE, /* the rest of an answer */
    CAY_PHASE_STREAM,
    CAY_PHASE_DEFER,
    CAY_PHASE_RECEIVE, /* a streamed body, on its way to a sink */
    CAY_PHASE_VERDICT, /* it has come; what does the other side say? */
    CAY_PHASE_SOCKET,
    CAY_PHASE_PROXY,
    CAY_PHASE_LINGER, /* answered and shut; what still comes is thrown away */
    CAY_PHASE_CLOSE,
};

/* A streamed body under way. */
struct cay_upload {
    struct cay_receive to;
    struct cay_buf held;   /* what the sink did not take yet */
    bool whole;            /* the decoder saw the end */
    bool broken;           /* the sink's reader is gone */
    uint64_t bytes;        /* of the body, so far */
    int64_t heard_ms;      /* when the client last sent something */
    int64_t taken_ms;      /* when the sink last took something */
    int64_t window_ms;     /* since when the client's pace is measured, */
    uint64_t window_bytes; /* and what came since */
};

/* A WebSocket. Its stream is the connection's. */
struct cay_talk {
    struct cay_socket is;
    struct cay_ws decoder;
    struct cay_buf held;         /* what the sink did not take yet */
    struct cay_ws_piece message; /* for the worker */
    struct cay_buf reply;        /* from it */
    enum cay_socket_next next;
    bool begun, refused;
    int64_t heard_ms, active_ms, pinged_ms;
};

enum cay_relay_state {
    CAY_RELAY_HEAD, /* of the answer is waited for */
    CAY_RELAY_FIXED,
    CAY_RELAY_CHUNKED,
    CAY_RELAY_TO_END, /* of the connection */
    CAY_RELAY_DONE,
    CAY_RELAY_TUNNEL, /* bytes, both ways */
};

/* A request that somebody else answers. Its body's state is the connection's own. */
struct cay_relay {
    struct cay_proxy to;
    enum cay_relay_state state;
    struct cay_buf up; /* what he did not take yet, from up_at on */
    size_t up_at;
    struct cay_buf head; /* of his answer, as far as it has come */
    size_t scanned;
    struct cay_chunks chunks; /* of his answer */
    uint64_t left;
    int interim, status;
    bool upgrade;     /* was asked for */
    bool connected;   /* he took or said something */
    bool readable;    /* his socket may have bytes, or an end */
    bool whole;       /* the request's body has come, to its end */
    bool broken;      /* he takes no more */
    bool reusable;    /* his connection, once all is over */
    bool hung_up;     /* he says no more, as epoll has told, which tells it once */
    bool shut, ended; /* of a tunnel: the client has said all, and has been told all */
    int64_t moved_ms; /* a byte went either way */
};

struct cay_conn {
    atomic_int hold;
    enum cay_phase phase;
    struct cay_wire wire;
    bool unread;     /* the socket may have bytes or an end that no event will tell again */
    bool greeting;   /* GREET: the first byte came, and is TLS; the handshake is not over */
    bool closed;     /* only memory is left, until the end of the loop's round */
    bool queued;     /* on the ready list */
    bool keep_alive; /* of the request under way, as are the next four */
    bool http10;
    bool chunked;
    bool head_only;
    bool bodyless; /* a method whose body is read and not shown */
    bool streamed; /* the body is still in the socket: the handler runs on the head alone */
    bool expects;  /* 100 Continue before it */
    bool raw;      /* the stream under way goes out as it is, not in chunks */
    struct cay_conn *prev, *next;
    struct cay_conn *link; /* in the workers' queue, or on the way back from them */
    struct cay_conn *ready_next, *dead_next;
    int64_t deadline_ms; /* 0 is none */
    struct cay_buf in;   /* bytes that came and are not used yet, from in_at on */
    size_t in_at, scanned;
    struct cay_chunks chunks;
    uint64_t left; /* of a body with Content-Length; of what LINGER throws away */
    struct cay_buf body;
    struct cay_arena arena;
    struct cay_req *req; /* in the arena; NULL before a head is whole */
    cay_handler then;    /* instead of the route's handler, at the end of a DEFER */
    struct cay_buf kept; /* headers that were set before a DEFER */
    struct cay_buf out;  /* bytes to send, from out_at on */
    size_t out_at;
    uint64_t claimed; /* for what is in there; see budget.h */
    int64_t moved_ms; /* when the client came, or last took something */
    struct cay_stream *stream;
    struct cay_watch *watch;
    struct cay_conn *watch_prev, *watch_next;
    bool begun, waiting, polled; /* pulled once; said WAIT; without a watch */
    int far_fd;                  /* the pipe that epoll watches for this one; borrowed; -1 none */
    struct cay_upload *upload;
    struct cay_talk *talk;
    struct cay_relay *relay;
    struct cay_spare spare; /* epoll watches it as far_fd; a worker never finds one */
    int64_t quiet_ms;       /* since when nothing was sent on the stream */
    size_t timer;           /* its place in the heap, from 1; 0: none */
    bool working;           /* a worker has it for its stream's `work` */
    char peer[48];
    bool is_local; /* by the unix socket, from: */
    unsigned uid;
};

/* Tests shorten these. */
struct cay_http_times {
    int64_t head_ms, body_ms, idle_ms, write_ms, keepalive_ms, drain_ms, linger_ms, tick_ms;
    int64_t large_ms, silence_ms, slow_ms, sink_ms, ws_ping_ms, ws_silence_ms;
    int64_t connect_ms, proxy_body_ms, proxy_idle_ms;
};

struct cay_worker {
    struct cay_http_server *server;
    pthread_t thread;
    sem_t wake;
    struct cay_conn *job;
    struct cay_worker *idle_next;
};

struct cay_workers {
    pthread_mutex_t lock;
    struct cay_conn *first, *last; /* waiting */
    size_t waiting, waiting_max;
    struct cay_worker *idle; /* the one that slept least comes first: its caches are warm */
    struct cay_worker *all;
    int started;
    bool closed;
};

struct cay_timers {
    struct cay_conn **at;
    size_t count, room;
};

struct cay_http_server {
    struct cay_http_app app;
    struct cay_http_times times;
    struct cay_router *router;
    struct cay_workers workers;
    atomic_int stops; /* calls of cay_http_stop */
    int listen_fd;    /* borrowed */
    int local_fd;     /* the same; 0: none */
    int news_fd;      /* the same: where new certificates come from */
    int epoll_fd, event_fd, inotify_fd;
    struct cay_pool *pool;
    int pool_fd; /* the pool's */
    pthread_mutex_t back_lock;
    struct cay_conn *back_first, *back_last; /* from the workers */

    /* the loop's alone */
    struct ssl_ctx_st *tls;          /* NULL: plain */
    struct cay_conn *conns, *oldest; /* the newest first */
    size_t conn_count, conn_max;
    struct cay_conn *ready_first, *ready_last; /* streams to pump in the next round */
    struct cay_conn *dead;
    struct cay_watch *watches[CAY_HTTP_WATCHES];
    size_t polled; /* streams that no watch wakes */
    struct cay_timers timers;
    size_t at_work; /* streams that a worker has */
    struct cay_buf pulled;
    char *scratch;
    int64_t now_ms, now_us, tick_at_ms, poll_at_ms, accept_at_ms, drain_until_ms;
    bool accepting, draining;
    uint64_t ids;
};

extern struct cay_metric cay_http_accepted, cay_http_open, cay_http_streams, cay_http_sockets,
    cay_http_unmet, cay_http_proxied, cay_http_recalled;

/* conn.c: reading and ending. On the loop. */
void cay_conn_open(struct cay_http_server *s, int fd, const char *peer, bool is_local);
void cay_conn_read(struct cay_http_server *s, struct cay_conn *c);
void cay_conn_dispatch(struct cay_http_server *s, struct cay_conn *c);
/* Sends what is queued. True when nothing is left and the connection lives. */
bool cay_conn_flush(struct cay_http_server *s, struct cay_conn *c);
/* Goes on with a connection that came back from a worker, or whose socket has news. */
void cay_conn_resume(struct cay_http_server *s, struct cay_conn *c);
void cay_conn_close(struct cay_http_server *s, struct cay_conn *c);
/* Answers an error that the loop itself found, and ends the connection: what follows on it could
 * be anything. */
void cay_conn_refuse(struct cay_http_server *s, struct cay_conn *c, const struct cay_error *err);
void cay_conn_go_on(struct cay_http_server *s, struct cay_conn *c); /* 100 Continue */
void cay_conn_used(struct cay_conn *c, size_t len);                 /* so many bytes of `in` */
bool cay_conn_is_held(struct cay_conn *c);                          /* by the loop */
/* As cay_router_match, behind whoever diverts; on any thread. */
int cay_conn_route(const struct cay_http_server *s, struct cay_req *req, struct cay_error *err);
bool cay_conn_is_idle(const struct cay_conn *c);

/* greet.c: the beginning of a connection under TLS. */
void cay_greet(struct cay_http_server *s, struct cay_conn *c);
enum cay_phase cay_greet_work(struct cay_http_server *s, struct cay_conn *c); /* on a worker */
void cay_greet_renew(struct cay_http_server *s); /* a new certificate, for those who come now */

/* answer.c: on whichever thread holds the connection. */
void cay_answer_error(struct cay_http_server *s, struct cay_req *req, const struct cay_error *err,
                      struct cay_resp *resp);
/* What a large body takes is known now, so its claim is made to fit; one that nobody claimed for is
 * weighed here. Fails as cay_budget_take does, and only where asking again does no harm. */
int cay_answer_weigh(const struct cay_req *req, struct cay_resp *resp, struct cay_error *err);
/* Sends head and body; what the socket does not take is queued in c->out, with the answer's claim.
 * False when the client is gone. */
bool cay_answer_send(struct cay_conn *c, struct cay_resp *resp);
/* The same for pieces of a stream; behind what is queued already they are queued too. */
bool cay_answer_put(struct cay_conn *c, struct iovec *iov, size_t count);
/* Queues the head of a stream. */
void cay_answer_begin(struct cay_conn *c, struct cay_resp *resp);
void cay_answer_forget(struct cay_conn *c); /* the request's memory */
void cay_answer_done(struct cay_resp *resp);
size_t cay_conn_pending(const struct cay_conn *c);

/* pump.c: streams, on the loop. */
/* Goes on with a stream that a worker worked for. */
void cay_pump_back(struct cay_http_server *s, struct cay_conn *c);
void cay_pump_begin(struct cay_http_server *s, struct cay_conn *c);
void cay_pump(struct cay_http_server *s, struct cay_conn *c);
/* Sends one piece, framed unless c->raw; `last` ends the body. False when the client is gone. */
bool cay_pump_piece(struct cay_http_server *s, struct cay_conn *c, const char *data, size_t len,
                    bool last);
void cay_pump_later(struct cay_http_server *s, struct cay_conn *c);
void cay_pump_ready(struct cay_http_server *s);
void cay_pump_tick(struct cay_http_server *s, struct cay_conn *c);
void cay_pump_drain(struct cay_http_server *s, struct cay_conn *c);
void cay_pump_end(struct cay_http_server *s, struct cay_conn *c); /* closes the stream */

/* receive.c: streamed bodies, on the loop. */
void cay_receive_begin(struct cay_http_server *s, struct cay_conn *c);
void cay_receive(struct cay_http_server *s, struct cay_conn *c);
/* Its pipe has news. */
void cay_receive_wake(struct cay_http_server *s, struct cay_conn *c, uint32_t events);
void cay_receive_tick(struct cay_http_server *s, struct cay_conn *c);
void cay_receive_end(struct cay_conn *c); /* closes and frees; on whichever thread holds it */

/* socket.c: WebSockets, on the loop. */
void cay_socket(struct cay_http_server *s, struct cay_conn *c);
void cay_socket_back(struct cay_http_server *s, struct cay_conn *c);
void cay_socket_event(struct cay_http_server *s, struct cay_conn *c, uint32_t events);
void cay_socket_wake(struct cay_http_server *s, struct cay_conn *c, uint32_t events);
void cay_socket_tick(struct cay_http_server *s, struct cay_conn *c);
void cay_socket_end(struct cay_http_server *s, struct cay_conn *c, enum cay_ws_code code,
                    const char *why);
void cay_socket_free(struct cay_conn *c);
void cay_socket_work(struct cay_conn *c); /* on a worker */

/* proxy.c: requests that somebody else answers, on the loop. */
void cay_proxy_begin(struct cay_http_server *s, struct cay_conn *c);
void cay_proxy(struct cay_http_server *s, struct cay_conn *c);
void cay_proxy_event(struct cay_http_server *s, struct cay_conn *c, uint32_t events);
void cay_proxy_wake(struct cay_http_server *s, struct cay_conn *c, uint32_t events);
void cay_proxy_tick(struct cay_http_server *s, struct cay_conn *c);
void cay_proxy_drain(struct cay_http_server *s, struct cay_conn *c);
/* What becomes of its spare: it goes to the pool, for others; it is closed. */
void cay_proxy_let_go(struct cay_http_server *s, struct cay_conn *c);
void cay_proxy_drop(struct cay_http_server *s, struct cay_conn *c);
void cay_proxy_take(struct cay_conn *c, struct cay_resp *resp); /* on a worker */
void cay_proxy_end(struct cay_conn *c); /* closes and frees; on whichever thread holds it */

/* watch.c: which streams a changed file wakes. On the loop. */
void cay_watch_add(struct cay_http_server *s, struct cay_conn *c);
void cay_watch_remove(struct cay_http_server *s, struct cay_conn *c);
void cay_watch_read(struct cay_http_server *s);
/* One pipe may be watched for a connection; epoll names it by a tag. */
bool cay_far_watch(struct cay_http_server *s, struct cay_conn *c, int fd, uint32_t events);
void cay_far_forget(struct cay_http_server *s, struct cay_conn *c);
struct cay_conn *cay_far_of(void *tag); /* NULL when it is none */

/* timer.c: streams that time wakes. On the loop. */
void cay_timer_set(struct cay_http_server *s, struct cay_conn *c); /* to its stream's wake_at_ms */
void cay_timer_remove(struct cay_http_server *s, struct cay_conn *c);
int64_t cay_timers_next_ms(const struct cay_http_server *s); /* INT64_MAX: none can be served */
void cay_timers_run(struct cay_http_server *s);

/* workers.c */
int cay_workers_start(struct cay_http_server *s, struct cay_error *err);
bool cay_workers_give(struct cay_workers *w, struct cay_conn *c); /* false when the queue is full */
void cay_workers_stop(struct cay_workers *w);                     /* waits for them */
