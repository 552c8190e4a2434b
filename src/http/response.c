/* SPDX-License-Identifier: Apache-2.0 */
/* What handlers fill in. A later call replaces what an earlier one began. */
#include "http/response.h"

struct cay_json_writer *cay_resp_json(struct cay_resp *resp, int status)
{
    resp->kind = CAY_RESP_BYTES;
    resp->status = status;
    resp->content_type = "application/json";
    resp->body.len = 0;
    resp->json = (struct cay_json_writer){.buf = &resp->body};
    return &resp->json;
}

void cay_resp_text(struct cay_resp *resp, int status, const char *content_type, const void *data,
                   size_t len)
{
    resp->kind = CAY_RESP_BYTES;
    resp->status = status;
    resp->content_type = content_type;
    resp->body.len = 0;
    cay_buf_add(&resp->body, data, len);
}

/* Values may hold what a client sent: a line break in one would begin a header of his own. */
void cay_resp_header(struct cay_resp *resp, const char *name, const char *value)
{
    cay_buf_adds(&resp->headers, name);
    cay_buf_adds(&resp->headers, ": ");
    for (const unsigned char *p = (const unsigned char *)value; *p; p++)
        cay_buf_addc(&resp->headers, *p < 0x20 || *p == 0x7f ? ' ' : (char)*p);
    cay_buf_adds(&resp->headers, "\r\n");
}

int cay_resp_stream(struct cay_resp *resp, int status, const char *content_type,
                    struct cay_stream *stream)
{
    resp->kind = CAY_RESP_STREAM;
    resp->status = status;
    resp->content_type = content_type;
    resp->stream = stream;
    return 0;
}

int cay_resp_receive(struct cay_resp *resp, const struct cay_receive *to, cay_handler then)
{
    resp->kind = CAY_RESP_RECEIVE;
    resp->receives = true;
    resp->receive = *to;
    resp->then = then;
    return 0;
}

void cay_resp_drop(struct cay_resp *resp)
{
    if (resp->stream)
        resp->stream->ops->close(resp->stream);
    resp->stream = NULL;
    if (!resp->receives)
        return;
    resp->receives = false;
    cay_close_fd(&resp->receive.end_fd);
    cay_close_fd(&resp->receive.sink_fd);
    cay_close_fd(&resp->receive.verdict_fd);
}

int cay_resp_defer(struct cay_resp *resp, struct cay_stream *stream, cay_handler then)
{
    resp->kind = CAY_RESP_DEFER;
    resp->stream = stream;
    resp->then = then;
    return 0;
}
