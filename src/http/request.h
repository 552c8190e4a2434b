/* SPDX-License-Identifier: Apache-2.0 */
/* One request, as a handler sees it. It lives in its arena until its answer is out. */
#pragma once
#include "base/arena.h"
#include "base/error.h"
#include "base/fields.h"
#include "base/id.h"
#include "base/str.h"
#include "model/account.h"
#include "model/limits.h"
#include <stdbool.h>

struct cay_core; /* carried through for the handlers; this layer never looks inside */
struct cay_doc;  /* what the application's document says of a route; the same */
struct cay_req;
struct cay_resp;
typedef int (*cay_handler)(struct cay_req *req, struct cay_resp *resp, struct cay_error *err);

enum cay_body {
    CAY_BODY_AUTO = 0, /* JSON on POST, PUT, PATCH and DELETE; none otherwise */
    CAY_BODY_STREAM,   /* the handler runs on the head alone: cay_resp_receive */
};

struct cay_route {
    const char *method;  /* NULL ends a table */
    const char *pattern; /* "/api/v1/sandbox/{id}/exec"; a literal wins over a parameter */
    enum cay_scope scope;
    cay_handler handler;
    enum cay_body body;
    const struct cay_doc *doc;
    bool unlimited; /* no rate limit counts it */
};

/* A streamed body, for the second half of its handler (see cay_resp_receive). A handler that
 * defers may leave descriptors here itself. */
struct cay_received {
    uint64_t bytes;
    bool whole;     /* came to its end, and the sink took every byte */
    int verdict_fd; /* to read, non-blocking; the server closes both unless they were taken */
    int end_fd;
};

struct cay_req {
    struct cay_arena *arena;
    const char *method;
    const char *path;  /* as it came, without the query */
    const char *query; /* as it came; "" when none */
    const char *host;
    const char *peer; /* the client's address, without port */
    bool is_tls;
    bool is_local; /* it came by the unix socket, from a process of this user: */
    unsigned uid;
    struct cay_pairs headers; /* names in lower case; doubled ones joined by ", " */
    struct cay_pairs params;  /* of the route's pattern, percent-decoded once */
    const char *body;
    size_t body_len;
    bool http10;
    int64_t body_announced; /* Content-Length of a streamed body; -1 when it is chunked */
    struct cay_received received;
    char request_id[24];
    int64_t began_us;              /* monotonic */
    const struct cay_route *route; /* NULL when none fits */
    const char *allow;             /* methods the path knows, when the method was wrong */
    struct cay_core *core;
    const struct cay_account *owner; /* set by the application's `before` */
    /* For the records of who did what, set by handlers that know better than the path: */
    char subject[CAY_ID_SIZE]; /* which sandbox; empty: the pattern's {id} */
    const char *object;        /* which file, execution or the like in it; or NULL */
    void *data;                /* from a handler to its second half */
    struct cay_pool *pool;     /* connections that wait for a request like this; see pool.h */
    struct cay_spare *spare;
};

const char *cay_req_header(const struct cay_req *req, const char *lower_name); /* or NULL */
const char *cay_req_param(const struct cay_req *req, const char *name);        /* never NULL */
bool cay_req_is_safe(const struct cay_req *req); /* its method changes nothing */
bool cay_req_accepts(const struct cay_req *req, const char *media_type); /* named in Accept */
/* Query parameters, decoded: of unknown names nothing is told. Repeated ones: all. */
int cay_req_query(struct cay_req *req, struct cay_pairs *out, struct cay_error *err);
/* Decodes the query by table like a body: numbers and booleans from their text; a parameter that
 * is a CAY_FIELD_STRINGS may be repeated. Unknown parameters are ignored. */
int cay_req_decode_query(struct cay_req *req, const struct cay_field *table, void *out,
                         struct cay_error *err);
/* The JSON body, an object in the arena; NULL when it is empty. A body that is not application/json
 * (or +json): CAY_ERR_MEDIA_TYPE; Content-Encoding: the same. */
int cay_req_json(const struct cay_req *req, struct cay_arena *a, const struct cay_json **out,
                 struct cay_error *err);
/* Decodes it by table; an empty one is {} . */
int cay_req_decode(struct cay_req *req, const struct cay_field *table, void *out,
                   struct cay_error *err);
