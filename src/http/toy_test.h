/* SPDX-License-Identifier: Apache-2.0 */
/* A server with toy routes in a thread of its own, and a client that trusts nothing it says. */
#pragma once
#include "http/conn.h"
#include <stdbool.h>

struct toy {
    struct cay_http_server *server;
    pthread_t thread;
    _Atomic pid_t tid; /* of the thread */
    int listen_fd, port, result;
    bool tunnelled; /* under TLS, of which its clients know nothing */
    int file_fd;    /* what /follow and /defer read; ends at a '$' */
    /* The other ends of what the latest /take or /give was given. */
    int sink_fd, end_fd, verdict_fd, source_fd;
};

/* /big answers 32 MiB; /claim is /hold with a claim, and fails behind it with ?fail.
 * /tick?N ticks N times, with a worker's help each time; /tick?0 lasts in there like /hold.
 * Of /talk's messages "hold" waits like /hold, and "eof" ends the input.
 * Times are the server's to change before toy_start. /hold waits until toy_release. */
void toy_init(struct toy *t, int workers);
void toy_init_tls(struct toy *t, int workers, int tls_fd, int news_fd);
void toy_start(struct toy *t);
void toy_stop(struct toy *t);
void toy_append(struct toy *t, const char *text);
void toy_release(int requests);
/* The loop stands still between two rounds, at what its workers have given back, and has seen all
 * that came before; what comes until it goes on, it sees in one round and in that order. */
void toy_halt(struct toy *t);
void toy_go_on(struct toy *t);
int toy_taken(void);                         /* requests of /take and /give since toy_init */
int toy_held(void);                          /* requests that wait in /hold */
int toy_streams(void);                       /* streams that are open */
int toy_logged(void);                        /* calls of `done` since toy_init */
bool toy_until(int (*what)(void), int want); /* waits for it, at most 5 s */

struct toy_client {
    int fd;
    char bytes[256 * 1024];
    size_t len;
};

struct toy_answer {
    int status;
    char head[4096];
    char body[128 * 1024];
    size_t body_len;
};

void toy_connect(struct toy *t, struct toy_client *c);
void toy_send(struct toy_client *c, const char *bytes);
/* The next answer; status 0 when the connection ended before it was whole. */
void toy_read(struct toy_client *c, struct toy_answer *out);
void toy_read_head(struct toy_client *c, struct toy_answer *out); /* and nothing of a body */
/* The next chunk of a stream; false at its end or the connection's. */
bool toy_read_chunk(struct toy_client *c, struct toy_answer *out);
bool toy_is_closed(struct toy_client *c); /* waits for the end; false when bytes come */
void toy_close(struct toy_client *c);
