/* SPDX-License-Identifier: Apache-2.0 */
/* Asking cay-file, and what all its answers share. */
#include "api/dialect.h"
#include "api/v1/file.h"
#include "base/clock.h"
#include "model/limits.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

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

int cay_v1_file_new(struct cay_req *req, enum cay_file_op op, const struct cay_v1_file_query *q,
                    struct cay_v1_file **out, struct cay_error *err)
{
    struct cay_v1_file *f = cay_arena_alloc(req->arena, sizeof *f);
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

/* ---- collecting the reply, on the loop ---- */

struct collect {
    struct cay_stream base;
    struct cay_req *req; /* lives as long as a deferred answer does */
};

/* Room for what comes next; the reply alone, where the rest is not for us. */
static size_t make_room(struct cay_arena *a, struct cay_v1_file *f)
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
static bool take(struct cay_req *req, struct cay_v1_file *f, bool *wait)
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

static int judge(struct cay_req *req, struct cay_resp *resp, struct cay_v1_file *f,
                 struct cay_error *err)
{
    bool whole = f->ended || f->got_len == f->room;
    if (!whole)
        return cay_fail(err, CAY_ERR_UNAVAILABLE, "the server is going down");
    bool sound = cay_file_reply_parse(f->got, f->got_len, &f->rq, &f->reply);
    int r = cay_core_file_verdict(&f->rq, sound ? &f->reply : NULL, err);
    if (r < 0 && sound && f->refused) {
        cay_api_error(req, err, resp);
        f->refused(f, resp);
        return 0;
    }
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
    struct cay_v1_file *f = req->data;
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

int cay_v1_file_ask(struct cay_req *req, struct cay_resp *resp, struct cay_v1_file *f,
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

int cay_v1_file_send(struct cay_req *req, struct cay_resp *resp, struct cay_v1_file *f,
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

/* ---- shapes ---- */

void cay_v1_file_path(struct cay_json_writer *w, const char *key, const char *path, size_t len)
{
    char name[32], text[4 * ((CAY_MAX_PATH * 2 + 4) / 3) + 1];
    cay_jw_strn(w, key, path, len);
    if (cay_str_is_utf8(path, len) || len > 2 * CAY_MAX_PATH)
        return;
    (void)snprintf(name, sizeof name, "%sBase64", key);
    cay_jw_strn(w, name, text, cay_str_base64(path, len, text));
}

static const char *type_of(uint32_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFREG:
        return "file";
    case S_IFDIR:
        return "directory";
    case S_IFLNK:
        return "symlink";
    case S_IFIFO:
        return "fifo";
    case S_IFSOCK:
        return "socket";
    default:
        return "device";
    }
}

void cay_v1_file_info(struct cay_json_writer *w, const struct cay_file_info *info)
{
    char mode[8], etag[CAY_FILE_ETAG_SIZE];
    (void)snprintf(mode, sizeof mode, "%04o", info->mode & 07777);
    cay_file_etag(info, etag);
    cay_jw_str(w, "type", type_of(info->mode));
    cay_jw_int(w, "size", (int64_t)info->size);
    cay_jw_str(w, "mode", mode);
    cay_jw_int(w, "uid", info->uid);
    cay_jw_int(w, "gid", info->gid);
    cay_jw_time(w, "mtime", info->mtime_ns / 1000000);
    cay_jw_str(w, "etag", etag);
}

const char *cay_v1_file_hex(const uint8_t sha256[32], char out[65])
{
    for (int i = 0; i < 32; i++)
        (void)snprintf(out + 2 * i, 3, "%02x", sha256[i]);
    return out;
}

void cay_v1_file_hash(struct cay_json_writer *w, const struct cay_file_reply *reply)
{
    char hex[65];
    if (reply->flags & CAY_FILE_HAS_SHA256)
        cay_jw_str(w, "sha256", cay_v1_file_hex(reply->sha256, hex));
}
