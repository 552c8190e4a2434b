/* SPDX-License-Identifier: Apache-2.0 */
/* /api/v1: a connection to a port of a sandbox, whatever is spoken there, over WebSocket.
 *
 * Frames of bytes are bytes, both ways. {"type":"eof"} says that one side has said all, and the
 * other may go on; when both have, the WebSocket is closed. The port need not be exposed: who may
 * run commands in a sandbox may speak to what runs there. */
#include "api/preview.h"
#include "api/v1/v1.h"
#include "api/visits.h"
#include "http/websocket.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>

static const char eof[] = "{\"type\":\"eof\"}";

struct tunnel {
    struct cay_stream stream; /* its watch_fd is the connection, owned */
    struct cay_core *core;
    char sandbox_id[CAY_ID_SIZE];
    bool attended;
    bool ended;      /* the other side has said all */
    bool input_over; /* so has the client */
};

static enum cay_pull pull(struct cay_stream *stream, struct cay_buf *out, size_t room)
{
    struct tunnel *t = (struct tunnel *)stream;
    char data[16384];
    if (t->ended)
        return t->input_over ? CAY_PULL_END : CAY_PULL_WAIT;
    ssize_t n = read(stream->watch_fd, data, room < sizeof data ? room : sizeof data);
    if (n < 0)
        return errno == EAGAIN ? CAY_PULL_WAIT : errno == EINTR ? CAY_PULL_MORE : CAY_PULL_ABORT;
    if (n == 0) {
        t->ended = true;
        cay_ws_frame(out, CAY_WS_TEXT, eof, strlen(eof), NULL);
        return CAY_PULL_MORE;
    }
    cay_ws_frame(out, CAY_WS_BINARY, data, (size_t)n, NULL);
    return CAY_PULL_MORE;
}

static void close_stream(struct cay_stream *stream)
{
    cay_close_fd(&stream->watch_fd); /* the rest is freed with the socket, which ends last */
}

static const struct cay_stream_ops stream_ops = {.pull = pull, .close = close_stream};

static enum cay_socket_next hear(void *ctx, const char *text, size_t len, struct cay_buf *out)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct tunnel *t = ctx;
    struct cay_error ignored;
    const struct cay_json *json;
    (void)out;
    if (cay_json_parse(&a, text, len, &json, &ignored) < 0 || json->kind != CAY_JSON_OBJECT ||
        strcmp(cay_json_get_str(json, "type", ""), "eof") != 0)
        return CAY_SOCKET_ON; /* words of a later version */
    t->input_over = true;
    return CAY_SOCKET_END_INPUT;
}

static void unwanted(void *ctx, struct cay_buf *out)
{
    (void)ctx, (void)out; /* the other side is gone, which the stream tells */
}

static void close_tunnel(void *ctx)
{
    struct tunnel *t = ctx;
    if (t->attended)
        cay_core_leave(t->core, t->sandbox_id);
    cay_visit_leave(t->sandbox_id);
    cay_close_fd(&t->stream.watch_fd);
    free(t);
}

static const struct cay_socket_ops socket_ops = {
    .text = hear, .unwanted = unwanted, .close = close_tunnel};

static void leave(const char **sandbox_id)
{
    if (*sandbox_id)
        cay_visit_leave(*sandbox_id);
}

static int tunnel(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    CAY_AUTO_FD int fd = -1;
    CAY_AUTO_FD int copy = -1;
    CAY_CLEANUP(leave) const char *entered = NULL;
    struct cay_sandbox sb;
    uint64_t port;
    int r = cay_preview_port(req, &port, err);
    if (r == 0)
        r = cay_req_check_socket(req, resp, err);
    if (r == 0)
        r = cay_core_get(req->core, req->owner, cay_req_param(req, "id"), req->arena, &sb, err);
    if (r < 0)
        return r;
    if (!cay_visit_enter(sb.id))
        return cay_visit_refuse(err);
    entered = sb.id;
    r = cay_core_dial(req->core, &sb, (unsigned)port, &fd, err);
    if (r < 0)
        return r;
    copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (copy < 0)
        return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot copy a descriptor");
    struct tunnel *t = calloc(1, sizeof *t);
    if (!t)
        abort();
    *t = (struct tunnel){.core = req->core, .stream = {.ops = &stream_ops, .is_pipe = true}};
    t->stream.endless = true;
    t->stream.watch_fd = cay_take_fd(&fd);
    cay_str_copy(t->sandbox_id, sizeof t->sandbox_id, sb.id);
    t->attended = cay_core_attend(req->core, sb.id);
    entered = NULL; /* close_tunnel leaves */
    struct cay_socket socket = {.ops = &socket_ops,
                                .ctx = t,
                                .stream = &t->stream,
                                .duplex = true,
                                .sink_fd = cay_take_fd(&copy),
                                .end_fd = -1};
    return cay_resp_socket(req, resp, &socket);
}

const struct cay_route cay_v1_tunnel_routes[] = {
    {"GET", "/api/v1/sandbox/{id}/ports/{port}/tunnel", CAY_SCOPE_EXEC, tunnel, CAY_BODY_AUTO,
     CAY_DOC("Bytes to and from what listens there, over a WebSocket", "101; 502",
             .topic = "Ports")},
    {0},
};
