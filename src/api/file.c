/* SPDX-License-Identifier: Apache-2.0 */
/* Asking cay-file, and what all its answers share. */
#include "api/file.h"
#include "model/limits.h"
#include <errno.h>
#include <string.h>
#include <strings.h>

#define FIRST_ROOM 4096
/* A page may pass its bound by one entry. */
#define ROOM_MAX (2 * CAY_FILE_PAGE_BYTES)

/* ---- the request ---- */

static int read_mode(const char *text, uint64_t *out, struct cay_error *err)
{
    uint64_t mode = 0;
    size_t len = strlen(text);
    if (len < 1 || len > 5 || strspn(text, "01234567") != len)
        return cay_fail_field(err, "mode", "mode must be octal digits, like 0644");
    for (; *text; text++)
        mode = 8 * mode + (uint64_t)(*text - '0');
    if (mode > 07777)
        return cay_fail_field(err, "mode", "mode must be octal digits, like 0644");
    *out = mode | CAY_FILE_MODE;
    return 0;
}

int cay_api_file_new(struct cay_req *req, enum cay_file_op op, const struct cay_api_file_query *q,
                     struct cay_api_file **out, struct cay_error *err)
{
    struct cay_api_file *f = cay_arena_alloc(req->arena, sizeof *f);
    f->rq = (struct cay_file_request){.op = op,
                                      .path = q->path,
                                      .to = q->to,
                                      .user = q->user,
                                      .length = CAY_FILE_UNKNOWN,
                                      .size = CAY_FILE_UNKNOWN,
                                      .only = q->include,
                                      .except = q->exclude};
    if (q->path_base64 && !cay_str_unbase64(req->arena, q->path_base64, &f->rq.path))
        return cay_fail_field(err, "pathBase64", "this is no base64 of a path");
    req->object = f->rq.path;
    if (q->to_base64 && !cay_str_unbase64(req->arena, q->to_base64, &f->rq.to))
        return cay_fail_field(err, "toBase64", "this is no base64 of a path");
    if (q->hash && strcmp(q->hash, "sha256") != 0)
        return cay_fail_field(err, "hash", "the one hash that can be had is sha256");
    if (q->hash)
        f->rq.flags |= CAY_FILE_HASH;
    *out = f;
    return q->mode ? read_mode(q->mode, &f->rq.mode, err) : 0;
}

const char *cay_api_file_boundary(struct cay_req *req)
{
    static const char form[] = "multipart/form-data";
    const char *type = cay_req_header(req, "content-type");
    if (!type || strncasecmp(type, form, sizeof form - 1) != 0)
        return "";
    const char *at = strcasestr(type, "boundary=");
    if (!at)
        return NULL;
    at += sizeof "boundary=" - 1;
    bool quoted = *at == '"';
    size_t len = strcspn(at + quoted, quoted ? "\"" : "; \t");
    return len < 1 || len > 70 ? NULL : cay_arena_strndup(req->arena, at + quoted, len);
}

/* ---- collecting the reply, on the loop ---- */

struct collect {
    struct cay_stream base;
    struct cay_req *req; /* lives as long as a deferred answer does */
};

/* Room for what comes next; the reply alone, where the rest is not for us. */
static size_t make_room(struct cay_arena *a, struct cay_api_file *f)
{
    size_t max = f->head_only ? sizeof f->reply : ROOM_MAX;
    if (f->got_len == f->room && f->room < max) {
        size_t room = f->head_only ? max : f->room ? 2 * f->room : FIRST_ROOM;
        char *more = cay_arena_alloc(a, room < max ? room : max);
        memcpy(more, f->got ? f->got : "", f->got_len);
        f->got = more;
        f->room = room < max ? room : max;
    }
    return f->room - f->got_len;
}

/* True when all has come that will. */
static bool take(struct cay_req *req, struct cay_api_file *f, bool *wait)
{
    *wait = false;
    size_t room = make_room(req->arena, f);
    if (room == 0)
        return true;
    ssize_t n = read(req->received.verdict_fd, f->got + f->got_len, room);
    *wait = n < 0 && errno == EAGAIN;
    f->ended |= n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
    f->got_len += n > 0 ? (size_t)n : 0;
    return f->ended;
}

static enum cay_pull pull(struct cay_stream *s, struct cay_buf *out, size_t room)
{
    struct cay_req *req = ((struct collect *)s)->req;
    bool wait;
    (void)out, (void)room;
    if (take(req, req->data, &wait))
        return CAY_PULL_END;
    return wait ? CAY_PULL_WAIT : CAY_PULL_MORE;
}

static void close_collect(struct cay_stream *s)
{
    free(s);
}

static const struct cay_stream_ops ops = {.pull = pull, .close = close_collect};

/* ---- the answer ---- */

static int judge(struct cay_req *req, struct cay_resp *resp, struct cay_api_file *f,
                 struct cay_error *err)
{
    bool whole = f->ended || f->got_len == f->room;
    if (!whole)
        return cay_fail(err, CAY_ERR_UNAVAILABLE, "the server is going down");
    bool sound = cay_file_reply_parse(f->got, f->got_len, &f->rq, &f->reply);
    int r = cay_core_file_verdict(&f->rq, sound ? &f->reply : NULL, err);
    if (r < 0 && sound && f->refused)
        return f->refused(req, resp, f, err);
    if (r < 0)
        return r;
    f->data = f->got + sizeof f->reply;
    f->len = f->got_len - sizeof f->reply;
    return f->answer(req, resp, f, err);
}

static int shape(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    return judge(req, resp, req->data, err);
}

/* Most replies are there as soon as anything is; the others are waited for by the loop. */
static int collect(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct cay_api_file *f = req->data;
    bool wait = false;
    while (!wait)
        if (take(req, f, &wait))
            return judge(req, resp, f, err);
    struct collect *c = calloc(1, sizeof *c);
    if (!c)
        abort();
    *c =
        (struct collect){{.ops = &ops, .watch_fd = req->received.verdict_fd, .is_pipe = true}, req};
    return cay_resp_defer(resp, &c->base, shape);
}

int cay_api_file_ask(struct cay_req *req, struct cay_resp *resp, struct cay_api_file *f,
                     struct cay_error *err)
{
    struct cay_file_ends ends;
    int r = cay_core_file(req->core, req->owner, cay_req_param(req, "id"), &f->rq, req->arena,
                          &ends, err);
    if (r < 0)
        return r;
    req->data = f;
    req->received.verdict_fd = ends.out_fd;
    req->received.end_fd = ends.end_fd;
    return collect(req, resp, err);
}

int cay_api_file_send(struct cay_req *req, struct cay_resp *resp, struct cay_api_file *f,
                      struct cay_error *err)
{
    const char *encoding = cay_req_header(req, "content-encoding");
    struct cay_file_ends ends;
    if (encoding && strcmp(encoding, "identity") != 0)
        return cay_fail(err, CAY_ERR_MEDIA_TYPE, "Content-Encoding is not taken");
    int r = cay_core_file(req->core, req->owner, cay_req_param(req, "id"), &f->rq, req->arena,
                          &ends, err);
    if (r < 0)
        return r;
    req->data = f;
    struct cay_receive to = {.sink_fd = ends.in_fd,
                             .end_fd = ends.end_fd,
                             .verdict_fd = ends.out_fd,
                             .verdict_ms = CAY_FILE_VERDICT_MS};
    return cay_resp_receive(resp, &to, collect);
}
