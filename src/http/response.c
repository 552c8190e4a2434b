/* SPDX-License-Identifier: Apache-2.0 */
/* What handlers fill in. A later call replaces what an earlier one began. */
#include "http/response.h"
#include "http/parse.h"
#include "http/websocket.h"
#include <string.h>

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

int cay_req_check_socket(const struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    const char *upgrade = cay_req_header(req, "upgrade");
    const char *connection = cay_req_header(req, "connection");
    const char *version = cay_req_header(req, "sec-websocket-version");
    if (!cay_parse_has_token(upgrade, "websocket") || !cay_parse_has_token(connection, "upgrade") ||
        !version || strcmp(version, "13") != 0) {
        cay_resp_header(resp, "Sec-WebSocket-Version", "13");
        return cay_fail_as(err, CAY_ERR_INVALID, "UPGRADE_REQUIRED",
                           "this path is for WebSocket connections of version 13");
    }
    if (strcmp(req->method, "GET") != 0 || req->http10 ||
        !cay_ws_key_is_valid(cay_req_header(req, "sec-websocket-key")))
        return cay_fail_as(err, CAY_ERR_INVALID, "BAD_HANDSHAKE",
                           "the WebSocket handshake is not in order");
    return 0;
}

int cay_resp_socket(const struct cay_req *req, struct cay_resp *resp,
                    const struct cay_socket *socket)
{
    char accept[CAY_WS_ACCEPT_SIZE];
    cay_ws_accept(cay_req_header(req, "sec-websocket-key"), accept);
    cay_resp_header(resp, "Sec-WebSocket-Accept", accept);
    resp->kind = CAY_RESP_SOCKET;
    resp->status = 101;
    resp->content_type = NULL;
    resp->socket = *socket;
    resp->stream = socket->stream;
    return 0;
}

int cay_resp_proxy(struct cay_resp *resp, const struct cay_proxy *to)
{
    resp->kind = CAY_RESP_PROXY;
    resp->proxy = malloc(sizeof *resp->proxy);
    if (!resp->proxy)
        abort();
    *resp->proxy = *to;
    return 0;
}

static void drop_proxy(struct cay_proxy *to)
{
    if (!to)
        return;
    cay_close_fd(&to->fd);
    if (to->close)
        to->close(to->ctx);
    free(to);
}

void cay_resp_drop(struct cay_resp *resp)
{
    drop_proxy(resp->proxy);
    resp->proxy = NULL;
    cay_budget_set(&resp->claimed, 0);
    if (resp->stream)
        resp->stream->ops->close(resp->stream);
    resp->stream = NULL;
    if (resp->socket.ops) {
        resp->socket.ops->close(resp->socket.ctx);
        cay_close_fd(&resp->socket.end_fd);
        cay_close_fd(&resp->socket.sink_fd);
        resp->socket.ops = NULL;
    }
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
