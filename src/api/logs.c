/* SPDX-License-Identifier: Apache-2.0 */
#include "api/logs.h"
#include "api/wait.h"
#include "model/limits.h"
#include <string.h>
#include <sys/stat.h>

struct logs_query {
    int64_t tail; /* lines; -1 all */
    bool follow;
};

const struct cay_field cay_api_logs_fields[] = {
    CAY_FIELD_INT(struct logs_query, tail, "tail", .min = 0, .max = 1e6),
    CAY_FIELD_BOOL(struct logs_query, follow, "follow"),
    CAY_FIELD_END,
};

#define TEXT_MAX (CAY_LOG_HEAD_BYTES + CAY_LOG_TAIL_BYTES)

/* A log that still grows may bring a little more. */
static int claim(struct cay_resp *resp, int log_fd, uint64_t from, struct cay_error *err)
{
    struct stat st;
    uint64_t bytes = TEXT_MAX;
    if (fstat(log_fd, &st) == 0 && (uint64_t)st.st_size < from + TEXT_MAX)
        bytes = (uint64_t)st.st_size > from ? (uint64_t)st.st_size - from : 0;
    return cay_api_claim(resp, bytes, err);
}

static int answer_text(struct cay_resp *resp, int log_fd, const struct cay_api_place *from,
                       struct cay_error *err)
{
    int r = log_fd >= 0 ? claim(resp, log_fd, from->offset, err) : 0;
    if (r < 0)
        return r;
    CAY_AUTO_BUF struct cay_buf text = {0};
    bool truncated = log_fd >= 0 && cay_api_collect(log_fd, from->offset, from->skip,
                                                    CAY_RECORD_PAD, TEXT_MAX, &text);
    struct cay_json_writer *w = cay_resp_json(resp, 200);
    cay_jw_object(w, NULL);
    cay_jw_strn(w, "logs", text.data ? text.data : "", text.len);
    cay_jw_bool(w, "truncated", truncated);
    cay_jw_object_end(w);
    return 0;
}

/* Where a reader goes on that was cut off: "exec_…:4096". A sandbox that was started again has a
 * new start command; what is left of the old one's log comes first. */
static int go_on(struct cay_req *req, const struct cay_sandbox *sb, const char *last,
                 struct cay_execution *ex, int *fd, struct cay_api_follow *how,
                 struct cay_error *err)
{
    char exec_id[CAY_ID_SIZE];
    const char *colon = strchr(last, ':');
    size_t len = colon ? (size_t)(colon - last) : sizeof exec_id;
    struct stat st;
    if (len < sizeof exec_id)
        cay_str_copy(exec_id, len + 1, last);
    if (len >= sizeof exec_id || !cay_id_is_execution(exec_id) ||
        !cay_api_place_parse(colon + 1, &how->from))
        return cay_fail_field(err, "Last-Event-ID", "this is no id that an event carried");
    int r = cay_core_execution(req->core, req->owner, sb->id, exec_id, req->arena, ex, fd, err);
    if (r == CAY_ERR_NOT_FOUND ||
        (r == 0 && strcmp(exec_id, sb->start_exec) != 0 && fstat(*fd, &st) == 0 &&
         (uint64_t)st.st_size <= how->from.offset)) {
        cay_close_fd(fd);
        how->from = (struct cay_api_place){0};
        r = cay_core_execution(req->core, req->owner, sb->id, sb->start_exec, req->arena, ex, fd,
                               err);
    }
    return r < 0 ? r : cay_api_check_place(*fd, &how->from, err);
}

int cay_api_logs_as(struct cay_req *req, struct cay_resp *resp, enum cay_api_form form,
                    struct cay_error *err)
{
    struct cay_api_follow how = {.form = form, .named = true};
    struct logs_query q = {.tail = -1, .follow = how.form != CAY_API_TEXT};
    const char *last = cay_req_header(req, "last-event-id");
    CAY_AUTO_FD int fd = -1;
    struct cay_sandbox sb;
    struct cay_execution ex;

    int r = cay_req_decode_query(req, cay_api_logs_fields, &q, err);
    if (r == 0)
        r = cay_core_get(req->core, req->owner, cay_req_param(req, "id"), req->arena, &sb, err);
    if (r < 0)
        return r;
    if (how.form == CAY_API_TEXT && q.follow)
        how.form = CAY_API_SSE;
    if (!sb.start_exec[0]) { /* nothing was started, so nothing was said */
        if (how.form == CAY_API_TEXT)
            return answer_text(resp, -1, NULL, err);
        cay_resp_text(resp, 200, cay_api_form_type(how.form), "", 0);
        return 0;
    }
    bool again = last && last[0] && how.form == CAY_API_SSE;
    r = again ? go_on(req, &sb, last, &ex, &fd, &how, err)
              : cay_core_execution(req->core, req->owner, sb.id, sb.start_exec, req->arena, &ex,
                                   &fd, err);
    if (r < 0)
        return r;
    if (!again && q.tail >= 0)
        cay_api_tail(fd, q.tail, &how.from);
    if (how.form == CAY_API_TEXT)
        return answer_text(resp, fd, &how.from, err);
    how.follow = q.follow;
    return cay_api_answer_stream(resp, &ex, how.form,
                                 cay_api_follow(req->core, &ex, cay_take_fd(&fd), &how));
}
