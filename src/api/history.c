/* SPDX-License-Identifier: Apache-2.0 */
#include "api/history.h"
#include "base/clock.h"
#include "core/service.h"
#include <string.h>

/* As git's %aI says it: 2025-05-13T10:15:30+00:00. */
static const char *moment(struct cay_arena *a, int64_t time_ms)
{
    char iso[CAY_ISO_SIZE];
    (void)cay_clock_iso(time_ms, iso);
    return cay_arena_printf(a, "%.19s+00:00", iso);
}

static void shape_paths(struct cay_json_writer *w, const char *key, const char *count_key,
                        const struct cay_strs *paths, int64_t count)
{
    cay_jw_array(w, key);
    for (size_t i = 0; i < paths->count; i++)
        cay_jw_str(w, NULL, paths->at[i]);
    cay_jw_array_end(w);
    if (count > (int64_t)paths->count) /* not all are named */
        cay_jw_int(w, count_key, count);
}

int cay_history_get(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct cay_versions all;
    int r =
        cay_core_history(req->core, req->owner, cay_req_param(req, "id"), req->arena, &all, err);
    if (r < 0)
        return r;
    struct cay_json_writer *w = cay_resp_json(resp, 200);
    cay_jw_object(w, NULL);
    cay_jw_array(w, "history");
    for (size_t i = 0; i < all.count; i++) {
        const struct cay_version *v = &all.at[i];
        cay_jw_object(w, NULL);
        cay_jw_str(w, "id", v->id);
        cay_jw_str(w, "commitId", v->commit);
        cay_jw_str(w, "timestamp", moment(req->arena, v->time_ms));
        cay_jw_str(w, "message", v->message);
        shape_paths(w, "files", "fileCount", &v->files, v->file_count);
        if (v->left_out_count > 0)
            shape_paths(w, "leftOut", "leftOutCount", &v->left_out, v->left_out_count);
        cay_jw_object_end(w);
    }
    cay_jw_array_end(w);
    if (all.full)
        cay_jw_bool(w, "full", true);
    cay_jw_object_end(w);
    return 0;
}

struct diff_body {
    const char *from, *to;
};

const struct cay_field cay_history_diff_fields[] = {
    CAY_FIELD_STR(struct diff_body, from, "fromExecId", .max_len = 64),
    CAY_FIELD_STR(struct diff_body, to, "toExecId", .max_len = 64),
    CAY_FIELD_END,
};

static void shape_diff(void *arg, const char *path, const char *diff, size_t len)
{
    cay_jw_strn(arg, path, diff, len);
}

/* Nothing may be left of an answer that failed half way: it is written beside. */
int cay_history_post_diff(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct diff_body body = {0};
    CAY_AUTO_BUF struct cay_buf text = {0};
    struct cay_json_writer diff = {.buf = &text};
    int r = cay_req_decode(req, cay_history_diff_fields, &body, err);
    if (r < 0)
        return r;
    struct cay_history_ask ask = {body.from, body.to, "fromExecId", "toExecId"};
    cay_jw_object(&diff, NULL);
    r = cay_core_diff(req->core, req->owner, cay_req_param(req, "id"), &ask, shape_diff, &diff,
                      req->arena, err);
    if (r < 0)
        return r;
    cay_jw_object_end(&diff);
    struct cay_json_writer *w = cay_resp_json(resp, 200);
    cay_jw_object(w, NULL);
    cay_jw_raw(w, "diff", text.data, text.len);
    cay_jw_object_end(w);
    return 0;
}

struct back_body {
    const char *id, *path;
};

const struct cay_field cay_history_back_fields[] = {
    CAY_FIELD_STR(struct back_body, id, "executionId", .required = true, .max_len = 64),
    CAY_FIELD_STR(struct back_body, path, "path", .max_len = CAY_MAX_PATH),
    CAY_FIELD_END,
};

int cay_history_post_back(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct back_body body = {0};
    struct cay_version made;
    struct cay_sandbox sb;
    int r = cay_req_decode(req, cay_history_back_fields, &body, err);
    if (r == 0)
        r = cay_core_get(req->core, req->owner, cay_req_param(req, "id"), req->arena, &sb, err);
    if (r < 0)
        return r;
    struct cay_back back = {body.id, "executionId", body.path};
    req->object = body.id;
    r = cay_core_rollback(req->core, req->owner, sb.id, &back, req->arena, &made, err);
    if (r < 0)
        return r;
    struct cay_json_writer *w = cay_resp_json(resp, 200);
    cay_jw_object(w, NULL);
    cay_jw_str(w, "status", "rolled_back");
    cay_jw_str(w, "containerId", sb.id);
    cay_jw_str(w, "executionId", body.id);
    cay_jw_str(w, "commitId", made.commit);
    shape_paths(w, "files", "fileCount", &made.files, made.file_count);
    cay_jw_object_end(w);
    return 0;
}

int cay_history_get_bundle(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    CAY_AUTO_FD int fd = -1;
    CAY_AUTO_FD int end_fd = -1;
    int r = cay_core_bundle(req->core, req->owner, cay_req_param(req, "id"), req->arena, &fd,
                            &end_fd, err);
    if (r < 0)
        return r;
    int64_t len = lseek(fd, 0, SEEK_CUR);
    if (len < 0 || lseek(fd, 0, SEEK_SET) < 0)
        return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot read the bundle");
    cay_resp_header(resp, "Content-Disposition", "attachment; filename=\"history.bundle\"");
    return cay_resp_fd(resp, 200, "application/x-git-bundle", cay_take_fd(&fd), len,
                       cay_take_fd(&end_fd));
}
