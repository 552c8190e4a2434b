/* SPDX-License-Identifier: Apache-2.0 */
/* The gateway: files, written whole, read whole, and read in part as text. */
#include "api/gateway/gateway.h"
#include "base/clock.h"

struct query {
    const char *path;
    int64_t offset, length; /* length -1: absent */
};

const struct cay_field cay_gateway_path_fields[] = {
    CAY_FIELD_STR(struct query, path, "path", .max_len = CAY_MAX_PATH + 1),
    CAY_FIELD_END,
};

const struct cay_field cay_gateway_window_fields[] = {
    CAY_FIELD_STR(struct query, path, "path", .max_len = CAY_MAX_PATH + 1),
    CAY_FIELD_INT(struct query, offset, "offset"), /* below 0: from the end */
    CAY_FIELD_INT(struct query, length, "length", .min = 0, .max = 9e15),
    CAY_FIELD_END,
};

static int new_file(struct cay_req *req, enum cay_file_op op, const struct cay_field *fields,
                    struct query *q, struct cay_api_file **out, struct cay_error *err)
{
    int r = cay_req_decode_query(req, fields, q, err);
    struct cay_api_file_query asked = {.path = q->path};
    return r < 0 ? r : cay_api_file_new(req, op, &asked, out, err);
}

/* ---- upload ---- */

static int answer_upload(struct cay_req *req, struct cay_resp *resp, struct cay_api_file *f,
                         struct cay_error *err)
{
    (void)req, (void)err;
    struct cay_json_writer *w = cay_resp_json(resp, 200);
    cay_jw_object(w, NULL);
    cay_jw_bool(w, "success", true);
    cay_jw_str(w, "path", f->rq.path);
    cay_jw_int(w, "size", (int64_t)f->reply.info.size);
    cay_jw_time(w, "timestamp", cay_clock_ms());
    cay_jw_object_end(w);
    return 0;
}

int cay_gateway_upload(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct query q = {0};
    struct cay_api_file *f;
    const char *boundary = cay_api_file_boundary(req);
    int r = new_file(req, CAY_FILE_FORM, cay_gateway_path_fields, &q, &f, err);
    if (r == 0 && (!boundary || !boundary[0]))
        r = cay_fail(err, CAY_ERR_MEDIA_TYPE, "a file comes as multipart/form-data");
    if (r < 0)
        return r;
    f->rq.boundary = boundary;
    if (req->body_announced >= 0)
        f->rq.size = (uint64_t)req->body_announced;
    f->answer = answer_upload;
    return cay_api_file_send(req, resp, f, err);
}

/* ---- download ---- */

static int answer_download(struct cay_req *req, struct cay_resp *resp, struct cay_api_file *f,
                           struct cay_error *err)
{
    (void)err;
    return cay_resp_fd(resp, 200, "application/octet-stream",
                       cay_take_fd(&req->received.verdict_fd), (int64_t)f->reply.length, -1);
}

int cay_gateway_download(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct query q = {0};
    struct cay_api_file *f;
    int r = new_file(req, CAY_FILE_READ, cay_gateway_path_fields, &q, &f, err);
    if (r < 0)
        return r;
    f->head_only = true;
    f->answer = answer_download;
    return cay_api_file_ask(req, resp, f, err);
}

/* ---- read-file ---- */

/* A length that is less than what a negative offset names counts from there on. */
static int answer_text(struct cay_req *req, struct cay_resp *resp, struct cay_api_file *f,
                       struct cay_error *err)
{
    struct cay_gateway_window w = {f->reply.offset, f->reply.length, f->reply.info.size};
    if (w.length > f->window)
        w.length = f->window;
    if (w.length > CAY_FILE_TEXT_MAX)
        return cay_fail_as(err, CAY_ERR_TOO_LARGE, "TOO_LARGE",
                           "the file has %llu bytes: read parts of at most %lld, or download it",
                           (unsigned long long)w.total, CAY_FILE_TEXT_MAX);
    return cay_gateway_text(resp, &w, cay_take_fd(&req->received.verdict_fd));
}

/* Nothing in the window is no error here: a log may be empty. */
static int answer_nothing(struct cay_req *req, struct cay_resp *resp, struct cay_api_file *f,
                          struct cay_error *err)
{
    struct cay_gateway_window w = {f->reply.offset, 0, f->reply.info.size};
    (void)req;
    return f->reply.code == CAY_FILE_BAD_RANGE ? cay_gateway_text(resp, &w, -1) : err->code;
}

int cay_gateway_read(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct query q = {.length = -1};
    struct cay_api_file *f;
    int r = new_file(req, CAY_FILE_READ, cay_gateway_window_fields, &q, &f, err);
    if (r < 0)
        return r;
    f->window = q.length >= 0 ? (uint64_t)q.length : UINT64_MAX;
    if (q.offset < 0) {
        f->rq.offset = CAY_FILE_UNKNOWN;
        f->rq.length = (uint64_t)-q.offset;
    } else if (q.offset > 0 || q.length >= 0) {
        f->rq.offset = (uint64_t)q.offset;
        f->rq.length = q.length >= 0 ? (uint64_t)q.length : INT64_MAX;
    }
    f->head_only = true;
    f->answer = answer_text;
    f->refused = answer_nothing;
    return cay_api_file_ask(req, resp, f, err);
}
