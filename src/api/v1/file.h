/* SPDX-License-Identifier: Apache-2.0 */
/* One operation on files, from its request to its answer. Whoever waits for cay-file holds no
 * thread: its pipe is read on the loop, and the second half of the handler shapes what came. */
#pragma once
#include "api/v1/v1.h"

struct cay_v1_file {
    struct cay_file_request rq;
    struct cay_file_reply reply;
    const char *data; /* what followed the reply, all of it */
    size_t len;
    /* Shapes the answer to a good reply. */
    int (*answer)(struct cay_req *req, struct cay_resp *resp, struct cay_v1_file *f,
                  struct cay_error *err);
    /* Optional: what to do about a reply that is an error, before it is told. */
    void (*refused)(struct cay_v1_file *f, struct cay_resp *resp);
    const char *if_none_match;
    bool head_only; /* data is not collected: it stays in the pipe */
    char *got;      /* the bytes so far */
    size_t room, got_len;
    bool ended;
};

/* Names the query or body has. */
struct cay_v1_file_query {
    const char *path, *to, *user, *mode, *hash, *cursor, *format;
    const char *path_base64, *to_base64; /* for names that are no text */
    struct cay_strs include, exclude;
    int64_t depth, limit;
    bool recursive, append, parents, overwrite;
};
/* From query and path to the request: mode and hash are checked, the rest is core's. */
int cay_v1_file_new(struct cay_req *req, enum cay_file_op op, const struct cay_v1_file_query *q,
                    struct cay_v1_file **out, struct cay_error *err);
/* Begins it; the answer comes later. */
int cay_v1_file_ask(struct cay_req *req, struct cay_resp *resp, struct cay_v1_file *f,
                    struct cay_error *err);
/* The same with the request's body as its data. */
int cay_v1_file_send(struct cay_req *req, struct cay_resp *resp, struct cay_v1_file *f,
                     struct cay_error *err);

/* A path that may be no text: then `key` has what can be shown of it, keyBase64 all. */
void cay_v1_file_path(struct cay_json_writer *w, const char *key, const char *path, size_t len);
/* type, size, mode, uid, gid, mtime, etag, into the object that is open. */
void cay_v1_file_info(struct cay_json_writer *w, const struct cay_file_info *info);
/* sha256 where the reply has one. */
void cay_v1_file_hash(struct cay_json_writer *w, const struct cay_file_reply *reply);
const char *cay_v1_file_hex(const uint8_t sha256[32], char out[65]);

/* file_watch.c */
extern const struct cay_field cay_v1_watch_fields[];
int cay_v1_file_watch(struct cay_req *req, struct cay_resp *resp, struct cay_error *err);
