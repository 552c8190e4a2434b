/* SPDX-License-Identifier: Apache-2.0 */
/* /api/v1: jobs, looked at, followed and given up. */
#include "api/dialect.h"
#include "api/v1/v1.h"
#include "base/clock.h"
#include <string.h>

static const char *const states[] = {
    [CAY_JOB_WAITING] = "waiting",     [CAY_JOB_RUNNING] = "running",
    [CAY_JOB_SUCCEEDED] = "succeeded", [CAY_JOB_FAILED] = "failed",
    [CAY_JOB_CANCELLED] = "cancelled", [CAY_JOB_LOST] = "lost",
};

static void shape_layers(struct cay_json_writer *w, const struct cay_job *job)
{
    cay_jw_array(w, "layers");
    for (size_t i = 0; i < job->part_count; i++) {
        cay_jw_object(w, NULL);
        cay_jw_str(w, "digest", job->parts[i].name);
        cay_jw_str(w, "step", job->parts[i].step);
        cay_jw_int(w, "bytes", (int64_t)job->parts[i].done_bytes);
        cay_jw_int(w, "totalBytes", (int64_t)job->parts[i].total_bytes);
        cay_jw_object_end(w);
    }
    cay_jw_array_end(w);
}

static void shape_job(struct cay_json_writer *w, const char *key, const struct cay_job *job)
{
    cay_jw_object(w, key);
    cay_jw_str(w, "id", job->id);
    cay_jw_str(w, "kind", job->kind);
    cay_jw_str(w, "image", job->subject);
    cay_jw_str(w, "status", states[job->state]);
    cay_jw_str(w, "step", job->step);
    cay_jw_str(w, "note", job->note[0] ? job->note : NULL);
    cay_jw_int(w, "bytes", (int64_t)job->done_bytes);
    cay_jw_int(w, "totalBytes", (int64_t)job->total_bytes);
    cay_jw_int(w, "bytesPerSecond", (int64_t)job->bytes_per_second);
    shape_layers(w, job);
    cay_jw_time(w, "createdAt", job->created_at_ms);
    cay_jw_time(w, "startedAt", job->started_at_ms);
    cay_jw_time(w, "endedAt", job->ended_at_ms);
    if (job->err.code)
        cay_api_shape_error(w, &job->err);
    cay_jw_object_end(w);
}

int cay_v1_answer_job(struct cay_req *req, struct cay_resp *resp, const char *id,
                      struct cay_error *err)
{
    struct cay_job job;
    int r = cay_core_job(req->core, req->owner, id, req->arena, &job, err);
    if (r < 0)
        return r;
    cay_resp_header(resp, "Location", cay_arena_printf(req->arena, "/api/v1/jobs/%s", id));
    shape_job(cay_resp_json(resp, 202), NULL, &job);
    return 0;
}

/* ---- following ---- */

struct follow {
    struct cay_stream base;
    struct cay_core *core;
    char *account_id;
    char id[CAY_ID_SIZE];
    struct cay_buf event, last;
    bool over;
};

static void look(struct follow *f)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    CAY_AUTO_BUF struct cay_buf text = {0};
    struct cay_json_writer w = {.buf = &text};
    struct cay_account owner = {.id = f->account_id};
    struct cay_job job;
    struct cay_error err;
    if (cay_core_job(f->core, &owner, f->id, &a, &job, &err) < 0) {
        f->over = true; /* given up by this caller */
        return;
    }
    shape_job(&w, NULL, &job);
    f->over = job.state > CAY_JOB_RUNNING;
    if (!f->over && text.len == f->last.len && memcmp(text.data, f->last.data, text.len) == 0)
        return;
    cay_buf_addf(&f->event, "event: %s\ndata: ", f->over ? "end" : "progress");
    cay_buf_add(&f->event, text.data, text.len);
    cay_buf_adds(&f->event, "\n\n");
    f->last.len = 0;
    cay_buf_add(&f->last, text.data, text.len);
}

static void work(struct cay_stream *s)
{
    look((struct follow *)s);
}

static enum cay_pull pull(struct cay_stream *s, struct cay_buf *out, size_t room)
{
    struct follow *f = (struct follow *)s;
    (void)room; /* one event is small */
    cay_buf_add(out, f->event.data, f->event.len);
    f->event.len = 0;
    s->wake_at_ms = cay_clock_mono_ms() + CAY_JOB_LOOK_MS;
    return f->over ? CAY_PULL_END : CAY_PULL_WAIT;
}

static void close_follow(struct cay_stream *s)
{
    struct follow *f = (struct follow *)s;
    cay_buf_done(&f->event);
    cay_buf_done(&f->last);
    free(f->account_id);
    free(f);
}

static const struct cay_stream_ops ops = {.pull = pull, .close = close_follow, .work = work};

static struct cay_stream *follow(const struct cay_req *req, const char *id)
{
    struct follow *f = calloc(1, sizeof *f);
    char *account_id = strdup(req->owner->id);
    if (!f || !account_id)
        abort();
    *f = (struct follow){.base = {.ops = &ops, .watch_fd = -1, .keepalive = ": still here\n\n"},
                         .core = req->core,
                         .account_id = account_id};
    cay_str_copy(f->id, sizeof f->id, id);
    look(f);
    return &f->base;
}

/* ---- routes ---- */

static int get(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct cay_job job;
    const char *id = cay_req_param(req, "jid");
    int r = cay_core_job(req->core, req->owner, id, req->arena, &job, err);
    if (r < 0)
        return r;
    if (cay_api_form_of(req) != CAY_API_SSE) {
        shape_job(cay_resp_json(resp, 200), NULL, &job);
        return 0;
    }
    cay_resp_header(resp, "X-Accel-Buffering", "no"); /* proxies that would hold back events */
    return cay_resp_stream(resp, 200, cay_api_form_type(CAY_API_SSE), follow(req, id));
}

static int list(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct cay_job_list found;
    int r = cay_core_jobs(req->core, req->owner, req->arena, &found, err);
    if (r < 0)
        return r;
    struct cay_json_writer *w = cay_resp_json(resp, 200);
    cay_jw_object(w, NULL);
    cay_jw_array(w, "jobs");
    for (size_t i = 0; i < found.count; i++)
        shape_job(w, NULL, &found.at[i]);
    cay_jw_array_end(w);
    cay_jw_object_end(w);
    return 0;
}

static int cancel(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct cay_job job;
    int r = cay_core_job_cancel(req->core, req->owner, cay_req_param(req, "jid"), req->arena, &job,
                                err);
    if (r == 0)
        shape_job(cay_resp_json(resp, 200), NULL, &job);
    return r;
}

const struct cay_route cay_v1_job_routes[] = {
    {"GET", "/api/v1/jobs", CAY_SCOPE_READ, list, CAY_BODY_AUTO,
     CAY_DOC("Jobs, newest first", "JobList", .topic = "Jobs")},
    {"GET", "/api/v1/jobs/{jid}", CAY_SCOPE_READ, get, CAY_BODY_AUTO,
     CAY_DOC("How far it is, once or as it goes on", "Job, text/event-stream")},
    {"DELETE", "/api/v1/jobs/{jid}", CAY_SCOPE_WRITE, cancel, CAY_BODY_AUTO,
     CAY_DOC("Give it up; it goes on for others who want it", "Job")},
    {0},
};
