/* SPDX-License-Identifier: Apache-2.0 */
/* One operation on files, from its request to its answer. Whoever waits for cay-file holds no
 * thread: its pipe is read on the loop, and the second half of the handler shapes what came. */
#pragma once
#include "core/service.h"
#include "http/response.h"

struct cay_api_file {
    struct cay_file_request rq;
    struct cay_file_reply reply;
    const char *data; /* what followed the reply, all of it */
    size_t len;
    /* Shapes the answer to a good reply. */
    int (*answer)(struct cay_req *req, struct cay_resp *resp, struct cay_api_file *f,
                  struct cay_error *err);
    /* Optional: answers to a reply that is an error, or returns that error to be told. */
    int (*refused)(struct cay_req *req, struct cay_resp *resp, struct cay_api_file *f,
                   struct cay_error *err);
    const char *if_none_match;
    uint64_t window; /* so much of what is read is answered, where a dialect has such a bound */
    bool head_only;  /* data is not collected: it stays in the pipe */
    char *got;       /* the bytes so far */
    size_t room, got_len;
    bool ended;
};

/* Names the query or body has. */
struct cay_api_file_query {
    const char *path, *to, *user, *mode, *hash, *cursor, *format;
    const char *path_base64, *to_base64; /* for names that are no text */
    struct cay_strs include, exclude;
    int64_t depth, limit;
    bool recursive, append, parents, overwrite;
};
/* From query and path to the request: mode and hash are checked, the rest is core's. */
int cay_api_file_new(struct cay_req *req, enum cay_file_op op, const struct cay_api_file_query *q,
                     struct cay_api_file **out, struct cay_error *err);
/* Begins it; the answer comes later. */
int cay_api_file_ask(struct cay_req *req, struct cay_resp *resp, struct cay_api_file *f,
                     struct cay_error *err);
/* The same with the request's body as its data. */
int cay_api_file_send(struct cay_req *req, struct cay_resp *resp, struct cay_api_file *f,
                      struct cay_error *err);
/* The boundary of multipart/form-data; "" when it is none, NULL when it lacks one. */
const char *cay_api_file_boundary(struct cay_req *req);
