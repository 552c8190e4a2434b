/* SPDX-License-Identifier: Apache-2.0 */
/* /api/v1: changes below a directory, as server-sent events. */
#include "api/v1/file.h"
#include "model/limits.h"
#include <errno.h>
#include <string.h>

#define DEPTH_MAX 64
#define INPUT_MAX                                                                                  \
    (64 * CAY_KIB) /* read and not yet framed; an event is at most an eighth of it                 \
                    */

struct follow {
    struct cay_stream base; /* its watch_fd is the pipe, owned */
    struct cay_buf in;
    bool begun, over;
};

static void put_event(struct cay_buf *out, const char *kind, const struct cay_file_news *news)
{
    struct cay_json_writer w = {.buf = out};
    cay_buf_addf(out, "event: %s\ndata: ", kind);
    cay_jw_object(&w, NULL);
    if (news && news->path_len > 0) {
        cay_v1_file_path(&w, "path", news->path, news->path_len);
        if (news->to_len > 0)
            cay_v1_file_path(&w, "to", news->to, news->to_len);
        cay_jw_bool(&w, "isDirectory", news->is_dir);
    }
    cay_jw_object_end(&w);
    cay_buf_adds(out, "\n\n");
}

/* Frames what has come whole. False: those bytes are no events. */
static bool frame(struct follow *f, struct cay_buf *out)
{
    static const char *const kinds[CAY_FILE_EVENTS] = {
        [CAY_FILE_EVENT_CREATED] = "created",
        [CAY_FILE_EVENT_MODIFIED] = "modified",
        [CAY_FILE_EVENT_DELETED] = "deleted",
        [CAY_FILE_EVENT_MOVED] = "moved",
        [CAY_FILE_EVENT_ATTRIBUTES] = "attributes",
        [CAY_FILE_EVENT_OVERFLOW] = "overflow",
        [CAY_FILE_EVENT_GONE] = "gone",
    };
    const char *at = f->in.data;
    size_t left = f->in.len;
    struct cay_file_news news;
    int r = 0;
    while (left > 0 && !f->over && (r = cay_file_event_next(&at, &left, &news)) == 0) {
        put_event(out, kinds[news.kind], &news);
        f->over = news.kind == CAY_FILE_EVENT_GONE;
    }
    cay_buf_drop(&f->in, f->in.len - left);
    return r >= 0;
}

static enum cay_pull pull(struct cay_stream *s, struct cay_buf *out, size_t room)
{
    struct follow *f = (struct follow *)s;
    if (!f->begun)
        put_event(out, "ready", NULL);
    f->begun = true;
    size_t want = room / 4 < INPUT_MAX ? room / 4 : INPUT_MAX; /* JSON may be larger than it */
    ssize_t n = read(s->watch_fd, cay_buf_room(&f->in, want), want);
    if (n < 0)
        return errno == EAGAIN ? CAY_PULL_WAIT : errno == EINTR ? CAY_PULL_MORE : CAY_PULL_ABORT;
    f->in.len += (size_t)n;
    if (n == 0 || !frame(f, out))
        return CAY_PULL_ABORT; /* it was ended in there: it must not look finished */
    return f->over ? CAY_PULL_END : CAY_PULL_MORE;
}

static void close_follow(struct cay_stream *s)
{
    struct follow *f = (struct follow *)s;
    cay_close_fd(&s->watch_fd);
    cay_buf_done(&f->in);
    free(f);
}

static const struct cay_stream_ops ops = {.pull = pull, .close = close_follow};

static int answer_watch(struct cay_req *req, struct cay_resp *resp, struct cay_api_file *file,
                        struct cay_error *err)
{
    struct follow *f = calloc(1, sizeof *f);
    (void)file, (void)err;
    if (!f)
        abort();
    *f = (struct follow){.base = {.ops = &ops,
                                  .watch_fd = cay_take_fd(&req->received.verdict_fd),
                                  .keepalive = ": still here\n\n",
                                  .is_pipe = true,
                                  .endless = true}};
    cay_resp_header(resp, "X-Accel-Buffering", "no"); /* proxies that would hold back events */
    return cay_resp_stream(resp, 200, cay_api_form_type(CAY_API_SSE), &f->base);
}

const struct cay_field cay_v1_watch_fields[] = {
    CAY_FIELD_STR(struct cay_api_file_query, path, "path"),
    CAY_FIELD_STR(struct cay_api_file_query, path_base64, "pathBase64"),
    CAY_FIELD_STR(struct cay_api_file_query, user, "user"),
    CAY_FIELD_BOOL(struct cay_api_file_query, recursive, "recursive"),
    CAY_FIELD_INT(struct cay_api_file_query, depth, "depth", .min = 1, .max = DEPTH_MAX),
    CAY_FIELD_END,
};

int cay_v1_file_watch(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct cay_api_file_query q = {.path = ".", .recursive = true};
    struct cay_api_file *f;
    int r = cay_req_decode_query(req, cay_v1_watch_fields, &q, err);
    if (r == 0)
        r = cay_api_file_new(req, CAY_FILE_WATCH, &q, &f, err);
    if (r < 0)
        return r;
    f->rq.depth = q.depth ? (uint64_t)q.depth : q.recursive ? DEPTH_MAX : 1;
    f->head_only = true;
    f->answer = answer_watch;
    return cay_api_file_ask(req, resp, f, err);
}
