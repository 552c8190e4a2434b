/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of bytes are output one way and input the other. Frames of text are JSON, told apart by
 * `type`: start, output, gap, exit, error, pong from us; resize, signal, eof, ping to us. What a
 * viewer sees comes from the log: it may come late, go and come again, and be one of many. */
#include "api/attach.h"
#include "api/body.h"
#include "api/stream.h"
#include "http/websocket.h"
#include "model/limits.h"
#include <string.h>
#include <sys/stat.h>

#define REPLAY_BYTES CAY_LOG_BLOCK /* at least, of what was there before */

struct attach {
    struct cay_core *core;
    char account_id[64];
    char sandbox_id[CAY_ID_SIZE], exec_id[CAY_ID_SIZE];
    struct cay_error no_input; /* why bytes are not taken; code CAY_OK when they are */
};

static void say_error(struct cay_buf *out, const struct cay_error *err)
{
    CAY_AUTO_BUF struct cay_buf json = {0};
    struct cay_json_writer w = {.buf = &json};
    cay_jw_object(&w, NULL);
    cay_jw_str(&w, "type", "error");
    cay_jw_str(&w, "code", cay_error_name(err));
    cay_jw_str(&w, "message", err->msg);
    if (err->field[0])
        cay_jw_str(&w, "field", err->field);
    cay_jw_object_end(&w);
    cay_ws_frame(out, CAY_WS_TEXT, json.data, json.len, NULL);
}

struct message {
    const char *type;
    int64_t cols, rows;
    const struct cay_json *signal;
};

static const char *const types[] = {"resize", "signal", "eof", "ping", NULL};

static const struct cay_field message_fields[] = {
    CAY_FIELD_STR(struct message, type, "type", .required = true, .choices = types),
    CAY_FIELD_INT(struct message, cols, "cols", .min = 1, .max = CAY_MAX_WINDOW),
    CAY_FIELD_INT(struct message, rows, "rows", .min = 1, .max = CAY_MAX_WINDOW),
    CAY_FIELD_ANY(struct message, signal, "signal"),
    CAY_FIELD_END,
};

static int act(struct attach *at, const struct message *m, struct cay_arena *a, struct cay_buf *out,
               struct cay_error *err)
{
    const struct cay_account owner = {.id = at->account_id};
    if (strcmp(m->type, "resize") == 0) {
        struct cay_window window = {(uint16_t)m->cols, (uint16_t)m->rows};
        return cay_core_resize(at->core, &owner, at->sandbox_id, at->exec_id, window, err);
    }
    if (strcmp(m->type, "signal") == 0) {
        struct cay_execution ignored;
        int sig;
        int r = cay_api_decode_signal(m->signal, &sig, err);
        return r < 0 ? r
                     : cay_core_kill(at->core, &owner, at->sandbox_id, at->exec_id, sig, a,
                                     &ignored, err);
    }
    if (strcmp(m->type, "ping") == 0)
        cay_ws_frame(out, CAY_WS_TEXT, "{\"type\":\"pong\"}", strlen("{\"type\":\"pong\"}"), NULL);
    return 0;
}

static enum cay_socket_next hear(void *ctx, const char *text, size_t len, struct cay_buf *out)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct attach *at = ctx;
    struct message m = {0};
    struct cay_error err;
    const struct cay_json *json;
    int r = cay_json_parse(&a, text, len, &json, &err);
    if (r == 0 && json->kind != CAY_JSON_OBJECT)
        r = cay_fail(&err, CAY_ERR_INVALID, "a message is a JSON object");
    if (r == 0)
        r = cay_fields_decode(&a, message_fields, json, &m, &err);
    if (r == 0)
        r = act(at, &m, &a, out, &err);
    if (r < 0)
        say_error(out, &err);
    if (r < 0 || strcmp(m.type, "eof") != 0)
        return CAY_SOCKET_ON;
    (void)cay_fail_as(&at->no_input, CAY_ERR_CONFLICT, "STDIN_CLOSED", "stdin is closed");
    return CAY_SOCKET_END_INPUT;
}

static void unwanted(void *ctx, struct cay_buf *out)
{
    struct attach *at = ctx;
    if (at->no_input.code == CAY_OK)
        (void)cay_fail_as(&at->no_input, CAY_ERR_CONFLICT, "STDIN_CLOSED",
                          "the execution ended or closed its stdin");
    say_error(out, &at->no_input);
}

static const struct cay_socket_ops ops = {.text = hear, .unwanted = unwanted, .close = free};

/* The WebSocket's answer to the request, once the execution is there. */
static int answer(struct cay_req *req, struct cay_resp *resp, const struct cay_execution *ex,
                  int *log_fd, const struct cay_api_follow *how, bool read_only)
{
    struct cay_input_ends ends = {-1, -1};
    struct attach *at = calloc(1, sizeof *at);
    if (!at)
        abort();
    at->core = req->core;
    cay_str_copy(at->account_id, sizeof at->account_id, req->owner->id);
    cay_str_copy(at->sandbox_id, sizeof at->sandbox_id, ex->sandbox_id);
    cay_str_copy(at->exec_id, sizeof at->exec_id, ex->id);
    if (read_only)
        (void)cay_fail_as(&at->no_input, CAY_ERR_CONFLICT, "READ_ONLY", "only to look at");
    else if (cay_core_input(req->core, req->owner, ex->sandbox_id, ex->id, true, &ends,
                            &at->no_input) < 0)
        ends = (struct cay_input_ends){-1, -1}; /* told to whoever types */
    else
        at->no_input.code = CAY_OK; /* whatever was tried first */
    struct cay_socket socket = {
        .ops = &ops,
        .ctx = at,
        .stream = cay_api_follow(req->core, ex, cay_take_fd(log_fd), how),
        .sink_fd = ends.sink_fd,
        .end_fd = ends.end_fd,
    };
    cay_resp_header(resp, "X-Execution-Id", ex->id);
    return cay_resp_socket(req, resp, &socket);
}

/* Where blocks begin, records do: so the last one or two of them are a good enough screenful. */
static uint64_t replay_from(int log_fd)
{
    struct stat st;
    if (fstat(log_fd, &st) < 0 || st.st_size <= REPLAY_BYTES)
        return 0;
    uint64_t from = (uint64_t)st.st_size - REPLAY_BYTES;
    return from - from % CAY_LOG_BLOCK;
}

struct attach_query {
    const char *offset;
    int64_t skip;
    bool read_only;
};

const struct cay_field cay_api_attach_fields[] = {
    CAY_FIELD_STR(struct attach_query, offset, "offset", .max_len = 64),
    CAY_FIELD_INT(struct attach_query, skip, "skip", .min = 0, .max = 1e15),
    CAY_FIELD_BOOL(struct attach_query, read_only, "readOnly"),
    CAY_FIELD_END,
};

int cay_api_attach(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct cay_api_follow how = {.form = CAY_API_SOCKET, .follow = true};
    struct attach_query q = {0};
    CAY_AUTO_FD int fd = -1;
    struct cay_execution ex;
    int r = cay_req_check_socket(req, resp, err);
    if (r == 0)
        r = cay_req_decode_query(req, cay_api_attach_fields, &q, err);
    if (r == 0)
        r = cay_core_execution(req->core, req->owner, cay_req_param(req, "id"),
                               cay_req_param(req, "eid"), req->arena, &ex, &fd, err);
    if (r < 0)
        return r;
    if (q.offset && !cay_api_place_parse(q.offset, &how.from))
        return cay_fail_field(err, "offset", "offset must be one that was told");
    if (!q.offset)
        how.from.offset = replay_from(fd);
    how.from.skip = (uint64_t)q.skip;
    r = cay_api_check_place(fd, &how.from, err);
    return r < 0 ? r : answer(req, resp, &ex, &fd, &how, q.read_only);
}

struct terminal_query {
    int64_t cols, rows;
    const char *command, *user, *cwd;
};

const struct cay_field cay_api_terminal_fields[] = {
    CAY_FIELD_INT(struct terminal_query, cols, "cols", .min = 1, .max = CAY_MAX_WINDOW),
    CAY_FIELD_INT(struct terminal_query, rows, "rows", .min = 1, .max = CAY_MAX_WINDOW),
    CAY_FIELD_STR(struct terminal_query, command, "command"),
    CAY_FIELD_STR(struct terminal_query, user, "user", .max_len = 1024),
    CAY_FIELD_STR(struct terminal_query, cwd, "cwd", .max_len = CAY_MAX_PATH),
    CAY_FIELD_END,
};

/* A login shell, bash where there is one, unless something else is asked for. */
int cay_api_terminal(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    static const char login[] = "command -v bash >/dev/null && exec bash -l; exec sh -l";
    struct cay_api_follow how = {.form = CAY_API_SOCKET, .follow = true};
    struct terminal_query q = {.cols = CAY_DEFAULT_COLS, .rows = CAY_DEFAULT_ROWS};
    CAY_AUTO_FD int fd = -1;
    struct cay_execution ex;
    int r = cay_req_check_socket(req, resp, err);
    if (r == 0)
        r = cay_req_decode_query(req, cay_api_terminal_fields, &q, err);
    if (r < 0)
        return r;
    const char *argv[] = {"/bin/sh", "-c", q.command ? q.command : login};
    const struct cay_exec_spec spec = {.argv = {argv, 3},
                                       .text = q.command ? q.command : "login shell",
                                       .user = q.user,
                                       .cwd = q.cwd,
                                       .window = {(uint16_t)q.cols, (uint16_t)q.rows}};
    r = cay_core_exec(req->core, req->owner, cay_req_param(req, "id"), &spec, req->arena, &ex, &fd,
                      err);
    if (r == 0)
        req->object = cay_arena_strdup(req->arena, ex.id);
    return r < 0 ? r : answer(req, resp, &ex, &fd, &how, false);
}
