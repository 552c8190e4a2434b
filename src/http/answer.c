/* SPDX-License-Identifier: Apache-2.0 */
/* Answers on their way to the socket: the head, and one sendmsg for all of it. */
#include "http/conn.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define FIXED_MAX 512

static const struct {
    int status;
    const char *reason;
} reasons[] = {
    {101, "Switching Protocols"},
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {204, "No Content"},
    {206, "Partial Content"},
    {301, "Moved Permanently"},
    {302, "Found"},
    {304, "Not Modified"},
    {307, "Temporary Redirect"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {410, "Gone"},
    {412, "Precondition Failed"},
    {413, "Content Too Large"},
    {415, "Unsupported Media Type"},
    {416, "Range Not Satisfiable"},
    {421, "Misdirected Request"},
    {422, "Unprocessable Content"},
    {426, "Upgrade Required"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {505, "HTTP Version Not Supported"},
    {507, "Insufficient Storage"},
};

static const char *reason_of(int status)
{
    for (size_t i = 0; i < CAY_COUNT(reasons); i++)
        if (reasons[i].status == status)
            return reasons[i].reason;
    return "";
}

void cay_answer_error(struct cay_http_server *s, struct cay_req *req, const struct cay_error *err,
                      struct cay_resp *resp)
{
    cay_resp_drop(resp);
    resp->kind = CAY_RESP_BYTES;
    resp->status = 0;
    resp->content_type = NULL;
    cay_buf_done(&resp->body); /* it may have been large, and the error's must not take its room */
    s->app.error(req, err, resp);
    resp->kind = CAY_RESP_BYTES;
    if (resp->status == 0)
        resp->status = 500;
    if (req->allow && err->code == CAY_ERR_METHOD)
        cay_resp_header(resp, "Allow", req->allow);
}

/* The lines that every answer has; framing is how the client finds the body's end. */
static size_t write_fixed(const struct cay_conn *c, const struct cay_resp *resp,
                          const char *framing, char out[FIXED_MAX])
{
    const char *type = resp->content_type;
    int len = snprintf(out, FIXED_MAX,
                       "HTTP/1.1 %d %s\r\n%s%s%s%sX-Request-Id: %s\r\n"
                       "X-Content-Type-Options: nosniff\r\nConnection: %s\r\n",
                       resp->status, reason_of(resp->status), type ? "Content-Type: " : "",
                       type ? type : "", type ? "\r\n" : "", framing, c->req->request_id,
                       resp->status == 101 ? "Upgrade"
                       : c->keep_alive     ? "keep-alive"
                                           : "close");
    return len < FIXED_MAX ? (size_t)len : FIXED_MAX - 1; /* types are static and short */
}

/* How much went out; -1 when the client is gone. */
static ssize_t send_some(struct cay_conn *c, struct iovec *iov, size_t count)
{
    ssize_t n = 0;
    if (cay_conn_pending(c) == 0)
        n = cay_wire_send(&c->wire, iov, count);
    if (n < 0 && errno != EAGAIN && errno != EINTR)
        return -1;
    return n > 0 ? n : 0;
}

/* Queues what is behind the first `sent` bytes. */
static void queue_rest(struct cay_conn *c, const struct iovec *iov, size_t count, size_t sent)
{
    for (size_t i = 0; i < count; i++) {
        size_t skip = sent < iov[i].iov_len ? sent : iov[i].iov_len;
        sent -= skip;
        if (skip < iov[i].iov_len)
            cay_buf_add(&c->out, (const char *)iov[i].iov_base + skip, iov[i].iov_len - skip);
    }
}

bool cay_answer_put(struct cay_conn *c, struct iovec *iov, size_t count)
{
    ssize_t sent = send_some(c, iov, count);
    if (sent >= 0)
        queue_rest(c, iov, count, (size_t)sent);
    return sent >= 0;
}

int cay_answer_weigh(const struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    size_t len = resp->body.len > CAY_HTTP_LARGE ? resp->body.len : 0;
    if (!resp->claimed && len > 0 && cay_req_is_safe(req))
        return cay_budget_take(&resp->claimed, len, err);
    cay_budget_set(&resp->claimed, len); /* what another method did is done, and must be told */
    return 0;
}

/* The rest of an answer. A large body is not copied: it would be there twice. */
static void queue_answer(struct cay_conn *c, struct cay_resp *resp, const struct iovec *iov,
                         size_t count, size_t sent)
{
    const struct iovec *body = &iov[count - 1];
    size_t whole = 0;
    for (size_t i = 0; i < count; i++)
        whole += iov[i].iov_len;
    size_t left = whole - sent;
    if (left > 0 && left <= body->iov_len && cay_conn_pending(c) == 0) {
        cay_buf_done(&c->out);
        c->out = resp->body;
        c->out_at = body->iov_len - left;
        resp->body = (struct cay_buf){0};
    } else {
        queue_rest(c, iov, count, sent);
    }
    if (cay_conn_pending(c) == 0)
        return;
    c->claimed += resp->claimed;
    resp->claimed = 0;
}

bool cay_answer_send(struct cay_conn *c, struct cay_resp *resp)
{
    char fixed[FIXED_MAX], framing[48] = "";
    bool no_body = resp->status == 204 || resp->status == 304;
    if (!no_body)
        (void)snprintf(framing, sizeof framing, "Content-Length: %zu\r\n", resp->body.len);
    struct iovec iov[] = {
        {fixed, write_fixed(c, resp, framing, fixed)},
        {resp->headers.data, resp->headers.len},
        {(void *)(uintptr_t) "\r\n", 2},
        {resp->body.data, no_body || c->head_only ? 0 : resp->body.len},
    };
    ssize_t sent = send_some(c, iov, CAY_COUNT(iov));
    if (sent >= 0)
        queue_answer(c, resp, iov, CAY_COUNT(iov), (size_t)sent);
    return sent >= 0;
}

void cay_answer_begin(struct cay_conn *c, struct cay_resp *resp)
{
    char fixed[FIXED_MAX], framing[96];
    static const char fresh[] = "Cache-Control: no-store\r\n";
    if (resp->kind == CAY_RESP_SOCKET)
        (void)snprintf(framing, sizeof framing, "Upgrade: websocket\r\n");
    else if (resp->counted)
        (void)snprintf(framing, sizeof framing, "Content-Length: %llu\r\n%s",
                       (unsigned long long)resp->length, fresh);
    else
        (void)snprintf(framing, sizeof framing, "%s%s",
                       c->http10 ? "" : "Transfer-Encoding: chunked\r\n", fresh);
    cay_buf_add(&c->out, fixed, write_fixed(c, resp, framing, fixed));
    cay_buf_add(&c->out, resp->headers.data, resp->headers.len);
    cay_buf_adds(&c->out, "\r\n");
}

void cay_answer_forget(struct cay_conn *c)
{
    cay_receive_end(c);
    cay_proxy_end(c);
    c->req = NULL;
    c->then = NULL;
    cay_buf_done(&c->kept);
    cay_buf_done(&c->body);
    cay_arena_done(&c->arena);
}

void cay_answer_done(struct cay_resp *resp)
{
    cay_resp_drop(resp);
    cay_buf_done(&resp->headers);
    cay_buf_done(&resp->body);
}

size_t cay_conn_pending(const struct cay_conn *c)
{
    return c->out.len - c->out_at;
}
