/* SPDX-License-Identifier: Apache-2.0 */
/* /api/v1: what files hold: read and written, one by one and as archives. */
#include "api/dialect.h"
#include "api/v1/file.h"
#include "model/limits.h"
#include <stdio.h>
#include <string.h>
#include <time.h>

#define Q struct cay_api_file_query

static const char *const formats[] = {"tar", "tar.gz", "tgz", NULL};

static const struct cay_field fields[] = {
    CAY_FIELD_STR(Q, path, "path"),
    CAY_FIELD_STR(Q, path_base64, "pathBase64"),
    CAY_FIELD_STR(Q, user, "user"),
    CAY_FIELD_STR(Q, mode, "mode"),
    CAY_FIELD_STR(Q, hash, "hash"),
    CAY_FIELD_BOOL(Q, append, "append"),
    CAY_FIELD_STR(Q, format, "format", .choices = formats),
    CAY_FIELD_STRS(Q, include, "include"),
    CAY_FIELD_STRS(Q, exclude, "exclude"),
    CAY_FIELD_END,
};

/* ---- reading ---- */

/* "bytes=2-5", "bytes=2-", "bytes=-5". Anything else, several ranges among it, is as if it were not
 * there, as RFC 9110 allows. */
static void read_range(const char *text, struct cay_file_request *rq)
{
    char first[24] = "", last[24] = "";
    uint64_t from = 0, to = 0;
    if (sscanf(text, "bytes=%20[0-9]-%20[0-9]", first, last) == 0 &&
        sscanf(text, "bytes=-%20[0-9]", last) == 0)
        return;
    char again[64];
    (void)snprintf(again, sizeof again, "bytes=%s-%s", first, last);
    bool has_first = first[0], has_last = last[0];
    if ((!has_first && !has_last) || strcmp(again, text) != 0 ||
        (has_first && !cay_str_u64(first, INT64_MAX, &from)) ||
        (has_last && !cay_str_u64(last, INT64_MAX, &to)) || (has_first && has_last && to < from))
        return;
    rq->offset = has_first ? from : CAY_FILE_UNKNOWN;
    rq->length = !has_first ? to : has_last ? to - from + 1 : INT64_MAX;
}

static void put_headers(struct cay_resp *resp, const struct cay_api_file *f, const char *etag)
{
    char text[80];
    const time_t seconds = (time_t)(f->reply.info.mtime_ns / 1000000000);
    struct tm tm;
    cay_resp_header(resp, "ETag", etag);
    cay_resp_header(resp, "Accept-Ranges", "bytes");
    if (gmtime_r(&seconds, &tm) && strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &tm))
        cay_resp_header(resp, "Last-Modified", text);
    (void)snprintf(text, sizeof text, "%04o", f->reply.info.mode & 07777);
    cay_resp_header(resp, "X-File-Mode", text);
    if (f->reply.flags & CAY_FILE_HAS_SHA256)
        cay_resp_header(resp, "X-Content-SHA256", cay_v1_file_hex(f->reply.sha256, text));
    if (!(f->reply.flags & CAY_FILE_PARTIAL))
        return;
    (void)snprintf(text, sizeof text, "bytes %llu-%llu/%llu", (unsigned long long)f->reply.offset,
                   (unsigned long long)(f->reply.offset + f->reply.length - 1),
                   (unsigned long long)f->reply.info.size);
    cay_resp_header(resp, "Content-Range", text);
}

static int answer_read(struct cay_req *req, struct cay_resp *resp, struct cay_api_file *f,
                       struct cay_error *err)
{
    char etag[CAY_FILE_ETAG_SIZE];
    (void)err;
    cay_file_etag(&f->reply.info, etag);
    put_headers(resp, f, etag);
    if (f->if_none_match &&
        (strcmp(f->if_none_match, "*") == 0 || strstr(f->if_none_match, etag))) {
        cay_resp_text(resp, 304, "application/octet-stream", "", 0);
        return 0;
    }
    return cay_resp_fd(resp, f->reply.flags & CAY_FILE_PARTIAL ? 206 : 200,
                       "application/octet-stream", cay_take_fd(&req->received.verdict_fd),
                       (int64_t)f->reply.length, -1);
}

static int tell_size(struct cay_req *req, struct cay_resp *resp, struct cay_api_file *f,
                     struct cay_error *err)
{
    char text[48];
    if (f->reply.code != CAY_FILE_BAD_RANGE)
        return err->code;
    (void)snprintf(text, sizeof text, "bytes */%llu", (unsigned long long)f->reply.info.size);
    cay_api_error(req, err, resp); /* here, because headers of a handler that fails are dropped */
    cay_resp_header(resp, "Content-Range", text);
    return 0;
}

static int get_file(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct cay_api_file_query q = {0};
    struct cay_api_file *f;
    const char *range = cay_req_header(req, "range");
    int r = cay_req_decode_query(req, fields, &q, err);
    if (r == 0)
        r = cay_api_file_new(req, CAY_FILE_READ, &q, &f, err);
    if (r < 0)
        return r;
    if (range)
        read_range(range, &f->rq);
    f->rq.match = cay_req_header(req, "if-range");
    f->if_none_match = cay_req_header(req, "if-none-match");
    f->head_only = true;
    f->answer = answer_read;
    f->refused = tell_size;
    return cay_api_file_ask(req, resp, f, err);
}

/* ---- writing ---- */

static void shape_written(struct cay_json_writer *w, const struct cay_api_file *f)
{
    cay_v1_file_path(w, "path", f->rq.path, strlen(f->rq.path));
    cay_jw_bool(w, "created", f->reply.flags & CAY_FILE_CREATED);
    cay_v1_file_info(w, &f->reply.info);
    cay_v1_file_hash(w, &f->reply);
}

static int answer_written(struct cay_req *req, struct cay_resp *resp, struct cay_api_file *f,
                          struct cay_error *err)
{
    (void)req, (void)err;
    struct cay_json_writer *w = cay_resp_json(resp, f->reply.flags & CAY_FILE_CREATED ? 201 : 200);
    cay_jw_object(w, NULL);
    shape_written(w, f);
    cay_jw_object_end(w);
    return 0;
}

static int answer_form(struct cay_req *req, struct cay_resp *resp, struct cay_api_file *f,
                       struct cay_error *err)
{
    const char *at = f->data;
    size_t left = f->len;
    struct cay_file_item item;
    struct cay_json_writer *w = cay_resp_json(resp, 201);
    cay_jw_object(w, NULL);
    cay_jw_array(w, "files");
    for (uint32_t i = 0; i < f->reply.count; i++) {
        if (cay_file_entry_next(&at, &left, &item) != 0)
            return cay_core_file_verdict(&f->rq, NULL, err);
        cay_jw_object(w, NULL);
        cay_v1_file_path(w, "path", item.path, item.path_len);
        cay_v1_file_info(w, &item.info);
        cay_jw_object_end(w);
    }
    cay_jw_array_end(w);
    if (f->reply.count == 1) { /* one file is answered like one that came alone */
        f->rq.path = cay_arena_strndup(req->arena, item.path, item.path_len);
        shape_written(w, f);
    }
    cay_jw_object_end(w);
    return 0;
}

static int put_file(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct cay_api_file_query q = {0};
    struct cay_api_file *f;
    const char *boundary = cay_api_file_boundary(req), *none = cay_req_header(req, "if-none-match");
    bool form = boundary && boundary[0];
    int r = cay_req_decode_query(req, fields, &q, err);
    if (r == 0 && !boundary)
        r = cay_fail(err, CAY_ERR_INVALID, "multipart/form-data without a boundary");
    if (r == 0 && form && !q.path)
        q.path = "."; /* the form says it */
    if (r == 0)
        r = cay_api_file_new(req,
                             form       ? CAY_FILE_FORM
                             : q.append ? CAY_FILE_APPEND
                                        : CAY_FILE_WRITE,
                             &q, &f, err);
    if (r < 0)
        return r;
    if (none && strcmp(none, "*") == 0)
        f->rq.flags |= CAY_FILE_NEW;
    f->rq.match = cay_req_header(req, "if-match");
    f->rq.boundary = form ? boundary : NULL;
    if (req->body_announced >= 0)
        f->rq.size = (uint64_t)req->body_announced;
    f->answer = form ? answer_form : answer_written;
    return cay_api_file_send(req, resp, f, err);
}

/* ---- archives ---- */

static bool wants_gzip(const struct cay_req *req, const char *format)
{
    return format ? strcmp(format, "tar") != 0 : cay_req_accepts(req, "application/gzip");
}

static int answer_packed(struct cay_req *req, struct cay_resp *resp, struct cay_api_file *f,
                         struct cay_error *err)
{
    (void)err;
    return cay_resp_fd(
        resp, 200, f->rq.flags & CAY_FILE_GZIP ? "application/gzip" : "application/x-tar",
        cay_take_fd(&req->received.verdict_fd), -1, cay_take_fd(&req->received.end_fd));
}

static int get_archive(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct cay_api_file_query q = {.path = "."};
    struct cay_api_file *f;
    int r = cay_req_decode_query(req, fields, &q, err);
    if (r == 0)
        r = cay_api_file_new(req, CAY_FILE_PACK, &q, &f, err);
    if (r < 0)
        return r;
    f->rq.flags |= wants_gzip(req, q.format) ? CAY_FILE_GZIP : 0;
    f->head_only = true;
    f->answer = answer_packed;
    return cay_api_file_ask(req, resp, f, err);
}

static int answer_unpacked(struct cay_req *req, struct cay_resp *resp, struct cay_api_file *f,
                           struct cay_error *err)
{
    (void)req, (void)err;
    struct cay_json_writer *w = cay_resp_json(resp, 200);
    cay_jw_object(w, NULL);
    cay_v1_file_path(w, "path", f->rq.path, strlen(f->rq.path));
    cay_jw_int(w, "entries", f->reply.count);
    cay_jw_int(w, "bytes", (int64_t)f->reply.bytes);
    cay_jw_int(w, "skipped", f->reply.skipped);
    cay_jw_object_end(w);
    return 0;
}

static int put_archive(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct cay_api_file_query q = {.path = "."};
    struct cay_api_file *f;
    int r = cay_req_decode_query(req, fields, &q, err);
    if (r == 0)
        r = cay_api_file_new(req, CAY_FILE_UNPACK, &q, &f, err);
    if (r < 0)
        return r;
    f->answer = answer_unpacked;
    return cay_api_file_send(req, resp, f, err);
}

#define FILES "/api/v1/sandbox/{id}/files"

const struct cay_route cay_v1_file_data_routes[] = {
    {"GET", FILES, CAY_SCOPE_READ, get_file, CAY_BODY_AUTO,
     CAY_DOC("Read a file, or a part of it",
             "application/octet-stream; 206 application/octet-stream; 304", .topic = "Files",
             .query = fields, .headers = "Range, If-Range, If-None-Match",
             .ask = "path=hello.txt")},
    {"PUT", FILES, CAY_SCOPE_EXEC, put_file, CAY_BODY_STREAM,
     CAY_DOC("Write a file, or several as a form; directories are made",
             "201 FileWritten; 200 FileWritten; 507", .query = fields,
             .media = "application/octet-stream, multipart/form-data",
             .headers = "If-Match, If-None-Match", .ask = "path=data/new.txt&mode=0644",
             .send = "hello")},
    {"POST", FILES, CAY_SCOPE_EXEC, put_file, CAY_BODY_STREAM,
     CAY_DOC("The same", "201 FileWritten; 200 FileWritten; 507", .query = fields,
             .media = "application/octet-stream, multipart/form-data",
             .headers = "If-Match, If-None-Match", .ask = "path=data/new.txt", .send = "hello")},
    {"GET", FILES "/archive", CAY_SCOPE_READ, get_archive, CAY_BODY_AUTO,
     CAY_DOC("A directory as tar or tar.gz", "application/x-tar, application/gzip", .query = fields,
             .ask = "path=.&format=tar")},
    {"PUT", FILES "/archive", CAY_SCOPE_EXEC, put_archive, CAY_BODY_STREAM,
     CAY_DOC("Unpack a tar or tar.gz into a directory", "Unpacked; 507", .query = fields,
             .media = "application/x-tar, application/gzip", .ask = "path=unpacked")},
    {0},
};
