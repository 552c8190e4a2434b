/* SPDX-License-Identifier: Apache-2.0 */
/* /api/v1: what an execution wrote, now or later, from any place. */
#include "api/v1/v1.h"
#include "model/limits.h"
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

static bool is_output(const struct cay_record *rec)
{
    return rec->kind == CAY_RECORD_STDOUT || rec->kind == CAY_RECORD_STDERR;
}

static void open_reader(struct cay_reader *reader, int log_fd, uint64_t offset)
{
    cay_reader_init(reader, fcntl(log_fd, F_DUPFD_CLOEXEC, 3), offset);
}

static size_t count_lines(const char *data, size_t len)
{
    size_t lines = 0;
    for (const char *at = data; (at = memchr(at, '\n', len - (size_t)(at - data))); at++)
        lines++;
    return lines;
}

static int64_t all_lines(int log_fd)
{
    struct cay_reader reader;
    struct cay_record rec;
    struct cay_error ignored; /* then there are no more lines */
    int64_t lines = 0;
    char last = '\n';
    open_reader(&reader, log_fd, 0);
    while (cay_reader_next(&reader, &rec, &ignored) == CAY_READ_RECORD)
        if (is_output(&rec) && rec.len > 0) {
            lines += (int64_t)count_lines(rec.data, rec.len);
            last = rec.data[rec.len - 1];
        }
    cay_reader_done(&reader);
    return lines + (last != '\n');
}

void cay_v1_tail(int log_fd, int64_t lines, struct cay_v1_place *out)
{
    struct cay_reader reader;
    struct cay_record rec;
    struct cay_error ignored;
    int64_t leave_out = all_lines(log_fd) - lines;
    *out = (struct cay_v1_place){0};
    if (leave_out <= 0)
        return;
    open_reader(&reader, log_fd, 0);
    while (leave_out > 0 && cay_reader_next(&reader, &rec, &ignored) == CAY_READ_RECORD) {
        if (!is_output(&rec))
            continue;
        int64_t here = (int64_t)count_lines(rec.data, rec.len);
        *out = (struct cay_v1_place){.offset = rec.next};
        if (here >= leave_out) {
            const char *at = rec.data;
            for (int64_t i = 0; i < leave_out; i++)
                at = (const char *)memchr(at, '\n', rec.len - (size_t)(at - rec.data)) + 1;
            *out = (struct cay_v1_place){.offset = rec.offset, .skip = (uint64_t)(at - rec.data)};
        }
        leave_out -= here;
    }
    cay_reader_done(&reader);
}

struct output_query {
    const char *offset, *stream;
    bool follow;
};

static const char *const streams[] = {"stdout", "stderr", NULL};

static const struct cay_field output_fields[] = {
    CAY_FIELD_STR(struct output_query, offset, "offset", .max_len = 64),
    CAY_FIELD_STR(struct output_query, stream, "stream", .choices = streams),
    CAY_FIELD_BOOL(struct output_query, follow, "follow"),
    CAY_FIELD_END,
};

/* Good is also the end of the file. */
int cay_v1_check_place(int log_fd, const struct cay_v1_place *place, struct cay_error *err)
{
    struct cay_reader reader;
    struct cay_record rec;
    struct stat st;
    if (place->offset == 0)
        return 0;
    if (fstat(log_fd, &st) < 0)
        return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot read the log");
    if (place->offset > (uint64_t)st.st_size)
        return cay_fail_field(err, "offset", "offset is behind the end");
    open_reader(&reader, log_fd, place->offset);
    int r = cay_reader_next(&reader, &rec, err);
    cay_reader_done(&reader);
    return r < 0 ? cay_fail_field(err, "offset", "no record begins at this offset") : 0;
}

static int get_output(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    const char *id = cay_req_param(req, "id"), *eid = cay_req_param(req, "eid");
    const char *last = cay_req_header(req, "last-event-id");
    struct cay_v1_follow how = {.form = cay_v1_form_of(req)};
    struct output_query q = {.follow = how.form != CAY_V1_TEXT};
    CAY_AUTO_FD int fd = -1;
    struct cay_execution ex;

    int r = cay_req_decode_query(req, output_fields, &q, err);
    if (r == 0)
        r = cay_core_execution(req->core, req->owner, id, eid, req->arena, &ex, &fd, err);
    if (r < 0)
        return r;
    const char *from = last && last[0] ? last : q.offset;
    if (from && !cay_v1_place_parse(from, &how.from))
        return cay_fail_field(err, "offset", "offset must be one that an event carried");
    r = cay_v1_check_place(fd, &how.from, err);
    if (r < 0)
        return r;
    how.follow = q.follow;
    if (q.stream)
        how.only = strcmp(q.stream, "stdout") == 0 ? CAY_RECORD_STDOUT : CAY_RECORD_STDERR;
    if (ex.truncated)
        cay_resp_header(resp, "X-Output-Truncated", "true");
    return cay_v1_answer_stream(resp, &ex, how.form,
                                cay_v1_follow(req->core, &ex, cay_take_fd(&fd), &how));
}

const struct cay_route cay_v1_output_routes[] = {
    {"GET", "/api/v1/sandbox/{id}/exec/{eid}/output", CAY_SCOPE_READ, get_output, CAY_BODY_AUTO,
     CAY_DOC("What it wrote, from any place, and as it comes",
             "text/plain, text/event-stream, application/x-ndjson", .topic = "Executions",
             .query = output_fields, .headers = "Last-Event-ID", .ask = "stream=stdout")},
    {0},
};
