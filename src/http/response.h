/* SPDX-License-Identifier: Apache-2.0 */
/* What a handler gives back: bytes; a stream; or the wish to be called again when a stream ends. */
#pragma once
#include "base/buf.h"
#include "base/json.h"
#include "http/budget.h"
#include "http/forward.h"
#include "http/pool.h"
#include "http/request.h"
#include "http/stream.h"

enum cay_resp_kind {
    CAY_RESP_BYTES,
    CAY_RESP_STREAM,  /* chunked, from the stream, until it ends */
    CAY_RESP_DEFER,   /* the loop follows the stream; at its end `then` runs on a worker */
    CAY_RESP_SOCKET,  /* a WebSocket, until its stream ends or the client goes */
    CAY_RESP_PROXY,   /* somebody else answers, and the loop carries it, both ways */
    CAY_RESP_RECEIVE, /* the loop gives the body to a sink; then `then` runs on a worker */
};

/* Where a streamed body goes: three ends of pipes, non-blocking, the server's from here on. No
 * other process may hold the same ends (dup'ed or inherited), or their closing would not be seen.
 */
struct cay_receive {
    int sink_fd;        /* to write: gets the body's bytes, and its end when the body has come */
    int end_fd;         /* to write, or -1: gets one byte when the body was whole, and only then */
    int verdict_fd;     /* to read, or -1: `then` waits until there is something or the end */
    int64_t verdict_ms; /* after the body's end; later is 504 */
};

enum cay_socket_next {
    CAY_SOCKET_ON,
    CAY_SOCKET_END_INPUT, /* the sink is closed, with a byte in end_fd before */
};

struct cay_socket_ops {
    /* A message of text, on a worker, one after the other; may wait as handlers may. Frames for the
     * client are added to out. */
    enum cay_socket_next (*text)(void *ctx, const char *text, size_t len, struct cay_buf *out);
    /* Bytes came and there is no sink, or its reader is gone; told once, on the loop, by frames. */
    void (*unwanted)(void *ctx, struct cay_buf *out);
    void (*close)(void *ctx); /* frees */
};

/* A WebSocket: frames out of a stream, bytes into a sink, and messages of text to `ops`. All that
 * is in here is the server's from cay_resp_socket on. */
struct cay_socket {
    const struct cay_socket_ops *ops;
    void *ctx;
    struct cay_stream *stream; /* of whole frames, see websocket.h; its end closes the connection.
                                  It follows a file, not a pipe, unless: */
    bool duplex;               /* both are the same connection: the stream's watch_fd, of which
                                  sink_fd is a copy. Its input is shut, not only closed */
    int sink_fd;               /* as of cay_receive; -1: no bytes are taken */
    int end_fd;                /* or -1 */
};

/* Who answers instead of us. All that is in here is the server's from cay_resp_proxy on. */
struct cay_proxy {
    int fd;                 /* to him: non-blocking, perhaps still connecting */
    bool reused;            /* it served others before, and may have ended since: then */
    cay_handler again;      /* runs on a worker, for a new one */
    char key[CAY_POOL_KEY]; /* where the connection waits for the next request; empty: nowhere */
    struct cay_forward how;
    void (*close)(void *ctx); /* at the end; or NULL */
    void *ctx;
};

struct cay_resp {
    enum cay_resp_kind kind;
    int status;
    const char *content_type; /* static */
    struct cay_buf headers;   /* "Name: value\r\n"… */
    struct cay_buf body;
    struct cay_json_writer json;
    struct cay_stream *stream; /* owned */
    bool counted;              /* the stream has exactly so many bytes: */
    uint64_t length;
    bool receives;
    struct cay_receive receive; /* owned when `receives` */
    struct cay_socket socket;   /* owned when its ops are set */
    struct cay_proxy *proxy;    /* owned */
    cay_handler then;
    uint64_t claimed; /* see budget.h; given back with the rest */
};

/* For an answer whose body, with what is gathered for it, takes at most so many bytes: before any
 * of it is gathered. What it takes less is given back when the handler returns, and all of it when
 * the answer has left. As cay_budget_take. */
static inline int cay_resp_claim(struct cay_resp *resp, uint64_t bytes, struct cay_error *err)
{
    return bytes <= CAY_HTTP_LARGE ? 0 : cay_budget_take(&resp->claimed, bytes, err);
}
/* Begins a JSON answer; the caller writes one value with the writer. */
struct cay_json_writer *cay_resp_json(struct cay_resp *resp, int status);
void cay_resp_text(struct cay_resp *resp, int status, const char *content_type, const void *data,
                   size_t len);
void cay_resp_header(struct cay_resp *resp, const char *name, const char *value);
int cay_resp_stream(struct cay_resp *resp, int status, const char *content_type,
                    struct cay_stream *stream);
/* The answer's body comes from a descriptor, which is the server's from here on: the read end of a
 * pipe, non-blocking, or a file. With a length (>= 0) it goes out under Content-Length; a source
 * that has less cuts the connection. Without one it goes out in chunks, and the source's end alone
 * is no proof that it was whole: whoever writes it puts one byte into the pipe behind end_fd before
 * it closes the source; without that byte the connection is cut. Where a length is given end_fd may
 * be -1; it is closed with the source. */
int cay_resp_fd(struct cay_resp *resp, int status, const char *content_type, int fd, int64_t length,
                int end_fd);
/* The request's arena lives on; what the stream wrote to its output is dropped. */
int cay_resp_defer(struct cay_resp *resp, struct cay_stream *stream, cay_handler then);
/* For a route with CAY_BODY_STREAM: only now is the client told to go on (100 Continue), and the
 * loop pumps the body into the sink; a full pipe stops the socket. At the body's end the end_fd
 * gets its byte, then both are closed, in this order: who reads the end of the sink finds the byte
 * there, or will never get it (the client went away or was too slow, the body was broken, the
 * server died). So nobody takes half a body for a whole one, whichever way it was framed.
 *
 * `then` shapes the answer, on a worker, from req->received: at the body's end, or when the verdict
 * is ready. Also when the sink was closed by its reader before the body's end (an error there, in
 * general): whole is false then, the rest of the body is not read. It does not run when the client
 * is gone: nobody is there to be answered, and the other side learns it by the missing byte.
 * The request's arena lives on. An empty body, or none, is a whole one of 0 bytes. */
int cay_resp_receive(struct cay_resp *resp, const struct cay_receive *to, cay_handler then);
/* Does the request ask for a WebSocket, and in good order? Before a handler does anything:
 * CAY_ERR_INVALID "BAD_HANDSHAKE", or "UPGRADE_REQUIRED" for a plain request. */
int cay_req_check_socket(const struct cay_req *req, struct cay_resp *resp, struct cay_error *err);
/* Only after that. */
int cay_resp_socket(const struct cay_req *req, struct cay_resp *resp,
                    const struct cay_socket *socket);
/* The request goes on to somebody else, for a route with CAY_BODY_STREAM. Head and body go in as
 * cay_forward says, his answer comes back the same way, neither is gathered. Headers that are set
 * already are added to his. A request with a body is never sent on a connection that is reused. */
int cay_resp_proxy(struct cay_resp *resp, const struct cay_proxy *to);
/* Closes what the answer holds; for whoever does not give it after all. */
void cay_resp_drop(struct cay_resp *resp);
