/* SPDX-License-Identifier: Apache-2.0 */
/* What a handler gives back: bytes; a stream; or the wish to be called again when a stream ends. */
#pragma once
#include "base/buf.h"
#include "base/json.h"
#include "http/request.h"
#include "http/stream.h"

enum cay_resp_kind {
    CAY_RESP_BYTES,
    CAY_RESP_STREAM, /* chunked, from the stream, until it ends */
    CAY_RESP_DEFER,  /* the loop follows the stream; at its end `then` runs on a worker */
};

struct cay_resp {
    enum cay_resp_kind kind;
    int status;
    const char *content_type; /* static */
    struct cay_buf headers;   /* "Name: value\r\n"… */
    struct cay_buf body;
    struct cay_json_writer json;
    struct cay_stream *stream; /* owned */
    cay_handler then;
};

/* Begins a JSON answer; the caller writes one value with the writer. */
struct cay_json_writer *cay_resp_json(struct cay_resp *resp, int status);
void cay_resp_text(struct cay_resp *resp, int status, const char *content_type, const void *data,
                   size_t len);
void cay_resp_header(struct cay_resp *resp, const char *name, const char *value);
int cay_resp_stream(struct cay_resp *resp, int status, const char *content_type,
                    struct cay_stream *stream);
/* The request's arena lives on; what the stream wrote to its output is dropped. */
int cay_resp_defer(struct cay_resp *resp, struct cay_stream *stream, cay_handler then);
