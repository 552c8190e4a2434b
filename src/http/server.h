/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP server: one loop, a bounded pool of workers. Whoever runs it gives it meaning. */
#pragma once
#include "base/error.h"
#include "base/metrics.h"
#include "http/request.h"
#include "http/response.h"

struct cay_http_app {
    const struct cay_route *const *tables; /* NULL-terminated */
    struct cay_core *core;
    /* Optional, ahead of the router, on any thread and at once: the route that takes this request
     * whatever its path and method are; or NULL. It has no parameters. */
    const struct cay_route *(*divert)(const struct cay_req *req);
    /* Optional, on the loop, where it may not wait: was this just decided, so that the request goes
     * on to somebody else at once (cay_resp_proxy)? False: a worker decides. */
    bool (*recall)(struct cay_req *req, struct cay_resp *resp);
    /* Ahead of every handler, on a worker: who asks, and may he. May add headers. Also called
     * when no route fits (req->route is NULL), so that a stranger learns no paths. */
    int (*before)(struct cay_req *req, struct cay_resp *resp, struct cay_error *err);
    /* Renders an error in the dialect of req->path. When the head could not be parsed, method,
     * path and host are "". */
    void (*error)(const struct cay_req *req, const struct cay_error *err, struct cay_resp *resp);
    /* After the answer is decided: the request log. On any thread. */
    void (*done)(const struct cay_req *req, int status, int64_t took_us);
    int workers;
    /* A certificate with its key (see cay_tls_server_from), borrowed: what comes to listen_fd is
     * under TLS. 0: it is plain. */
    int tls_fd;
    int news_fd;  /* a seqpacket socket by which others like it come later; borrowed; 0: none */
    int local_fd; /* a unix socket to listen on as well, borrowed; 0: none. See cay_req.is_local */
};

struct cay_http_server;

extern struct cay_metric *const cay_http_metrics[]; /* NULL-terminated */

/* listen_fd is borrowed: what waits in its backlog at the end is for whoever listens next. */
int cay_http_new(const struct cay_http_app *app, int listen_fd, struct cay_http_server **out,
                 struct cay_error *err);
/* SIGPIPE must be ignored: what handlers give the loop to write to may close.
 * Runs the loop on the calling thread until cay_http_stop; then drains for at most
 * CAY_HTTP_DRAIN_MS: no new connections, requests under way are answered, deferred ones are given
 * to their `then` at once (which answers 202 when its execution still runs), streams that wait for
 * more are cut without a last chunk, so that they do not look finished. */
int cay_http_run(struct cay_http_server *s, struct cay_error *err);
/* From a signal handler or any thread. A second call ends at once. */
void cay_http_stop(struct cay_http_server *s);
/* Waits for handlers that still run; after a second stop a process may rather exit without it. */
void cay_http_free(struct cay_http_server *s);
