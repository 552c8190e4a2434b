/* SPDX-License-Identifier: Apache-2.0 */
#include "api/run.h"
#include "api/stream.h"
#include "api/wait.h"

struct call { /* what the second half must know */
    struct cay_execution ex;
    struct cay_api_run how;
};

static int answer_running(struct cay_resp *resp, const struct call *call,
                          const struct cay_execution *ex)
{
    call->how.running(cay_resp_json(resp, 202), ex);
    return 0;
}

static int answer_exited(struct cay_resp *resp, const struct call *call,
                         const struct cay_execution *ex, int log_fd, struct cay_error *err)
{
    int r = cay_api_claim_output(resp, ex, call->how.limit, err);
    if (r < 0)
        return r;
    struct cay_json_writer *w = cay_resp_json(resp, 200);
    cay_jw_object(w, NULL);
    call->how.ended(w, ex, log_fd, call->how.limit);
    cay_jw_object_end(w);
    return 0;
}

static int answer_ended(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    const struct call *call = req->data;
    CAY_AUTO_FD int fd = -1;
    struct cay_execution ex;
    int r = cay_core_outcome(req->core, req->owner, &call->ex, req->arena, &ex, &fd, err);
    if (r < 0)
        return r;
    if (ex.status == CAY_EXEC_RUNNING) /* we are going, it is not */
        return answer_running(resp, call, &ex);
    if (ex.status == CAY_EXEC_LOST)
        return cay_fail_as(err, CAY_ERR_CONFLICT, "EXEC_LOST",
                           "the sandbox ended before %s did; what it wrote is kept", ex.id);
    return answer_exited(resp, call, &ex, fd, err);
}

int cay_api_run(struct cay_req *req, struct cay_resp *resp, const char *id,
                const struct cay_exec_spec *asked, const struct cay_api_run *how,
                struct cay_error *err)
{
    struct cay_api_follow follow = {.form = cay_api_form_of(req), .follow = true};
    struct cay_exec_spec spec = *asked;
    struct call *call = cay_arena_alloc(req->arena, sizeof *call);
    CAY_AUTO_FD int fd = -1;
    spec.awaited = !how->detach && follow.form == CAY_API_TEXT;
    int r = cay_core_exec(req->core, req->owner, id, &spec, req->arena, &call->ex, &fd, err);
    if (r < 0)
        return r;
    call->how = *how;
    req->object = call->ex.id;
    if (how->detach)
        return answer_running(resp, call, &call->ex);
    if (follow.form != CAY_API_TEXT)
        return cay_api_answer_stream(
            resp, &call->ex, follow.form,
            cay_api_follow(req->core, &call->ex, cay_take_fd(&fd), &follow));
    if (cay_api_is_over(req->core, &call->ex))
        return answer_exited(resp, call, &call->ex, fd, err);
    req->data = call;
    return cay_resp_defer(resp, cay_api_wait(req->core, &call->ex, cay_take_fd(&fd)), answer_ended);
}

/* How much of a stream is told: what the command said it wrote, whatever its log holds. */
static size_t told(uint64_t bytes, size_t limit)
{
    return bytes < limit ? (size_t)bytes : limit;
}

int cay_api_claim_output(struct cay_resp *resp, const struct cay_execution *ex, size_t limit,
                         struct cay_error *err)
{
    int r = cay_api_claim(resp, told(ex->stdout_bytes, limit) + told(ex->stderr_bytes, limit), err);
    if (r < 0) /* it has run, and must not be run again for its output */
        return cay_wrap(err,
                        "%s has ended and its output is kept; it is too large for an answer now: "
                        "read it as a stream, or ask for a smaller outputLimit",
                        ex->id);
    return 0;
}

static bool shape_stream(struct cay_json_writer *w, const char *key, int log_fd,
                         enum cay_record_kind only, uint64_t bytes, size_t limit)
{
    CAY_AUTO_BUF struct cay_buf text = {0};
    bool cut = bytes > 0 && cay_api_collect(log_fd, 0, 0, only, told(bytes, limit), &text);
    cay_jw_strn(w, key, text.data ? text.data : "", text.len);
    return cut && bytes > limit; /* else it is what others wrote behind its end */
}

bool cay_api_shape_output(struct cay_json_writer *w, const struct cay_execution *ex, int log_fd,
                          size_t limit)
{
    bool cut = shape_stream(w, "stdout", log_fd, CAY_RECORD_STDOUT, ex->stdout_bytes, limit);
    cut |= shape_stream(w, "stderr", log_fd, CAY_RECORD_STDERR, ex->stderr_bytes, limit);
    return cut || ex->truncated;
}
