/* SPDX-License-Identifier: Apache-2.0 */
/* /api/v1: who runs in a sandbox, as its own /proc tells it, and signals to them. */
#include "api/v1/file.h"
#include "base/clock.h"
#include <string.h>

static void shape(struct cay_json_writer *w, const struct cay_file_task *t, int64_t now_ms)
{
    const struct cay_file_process *p = &t->info;
    int64_t age_ms = now_ms - p->started_at_ms;
    const char state[] = {(char)p->state, 0};
    cay_jw_object(w, NULL);
    cay_jw_int(w, "pid", p->pid);
    cay_jw_int(w, "parent", p->parent);
    cay_jw_strn(w, "user", t->user, p->user_len);
    cay_jw_int(w, "uid", p->uid);
    cay_jw_strn(w, "command", t->command, p->command_len);
    cay_jw_str(w, "state", state);
    cay_jw_int(w, "threads", p->threads);
    cay_jw_int(w, "cpuMs", (int64_t)p->cpu_ms);
    /* over its whole life, as ps has it: who wants it of a moment asks twice */
    cay_jw_real(w, "cpuPercent", age_ms > 0 ? 100.0 * (double)p->cpu_ms / (double)age_ms : 0);
    cay_jw_int(w, "memoryBytes", (int64_t)p->memory_bytes);
    cay_jw_time(w, "startedAt", p->started_at_ms);
    cay_jw_str(w, "executionId", cay_id_is_execution(p->execution) ? p->execution : NULL);
    cay_jw_object_end(w);
}

static int answer_list(struct cay_req *req, struct cay_resp *resp, struct cay_api_file *f,
                       struct cay_error *err)
{
    struct cay_file_task t;
    int64_t now_ms = cay_clock_ms();
    const char *at = f->data;
    size_t left = f->len;
    (void)req;
    struct cay_json_writer *w = cay_resp_json(resp, 200);
    cay_jw_object(w, NULL);
    cay_jw_array(w, "processes");
    for (uint32_t i = 0; i < f->reply.count; i++) {
        if (cay_file_process_next(&at, &left, &t) != 0)
            return cay_core_file_verdict(&f->rq, NULL, err);
        shape(w, &t, now_ms);
    }
    cay_jw_array_end(w);
    cay_jw_bool(w, "truncated", f->reply.flags & CAY_FILE_MORE);
    cay_jw_object_end(w);
    return 0;
}

static int ask(struct cay_req *req, struct cay_resp *resp, struct cay_file_request rq,
               int (*answer)(struct cay_req *, struct cay_resp *, struct cay_api_file *,
                             struct cay_error *),
               struct cay_error *err)
{
    struct cay_api_file *f = cay_arena_alloc(req->arena, sizeof *f);
    f->rq = rq;
    f->answer = answer;
    return cay_api_file_ask(req, resp, f, err);
}

static int list(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    return ask(req, resp, (struct cay_file_request){.op = CAY_FILE_PROCESSES}, answer_list, err);
}

struct kill_body {
    const struct cay_json *signal;
};

static const struct cay_field kill_fields[] = {
    CAY_FIELD_ANY(struct kill_body, signal, "signal", .type = "string|integer"),
    CAY_FIELD_END,
};

static int answer_kill(struct cay_req *req, struct cay_resp *resp, struct cay_api_file *f,
                       struct cay_error *err)
{
    (void)req, (void)err;
    struct cay_json_writer *w = cay_resp_json(resp, 200);
    cay_jw_object(w, NULL);
    cay_jw_int(w, "pid", (int64_t)f->rq.pid);
    cay_jw_int(w, "signal", (int64_t)f->rq.signal);
    cay_jw_object_end(w);
    return 0;
}

static int kill_one(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct cay_file_request rq = {.op = CAY_FILE_SIGNAL};
    struct kill_body body = {0};
    int sig = 0;
    int r = cay_req_decode(req, kill_fields, &body, err);
    if (r == 0)
        r = cay_api_decode_signal(body.signal, &sig, err);
    if (r == 0 && !cay_str_u64(cay_req_param(req, "pid"), INT32_MAX, &rq.pid))
        r = cay_fail_field(err, "pid", "pid must be a number");
    if (r < 0)
        return r;
    rq.signal = (uint64_t)sig;
    return ask(req, resp, rq, answer_kill, err);
}

const struct cay_route cay_v1_process_routes[] = {
    {"GET", "/api/v1/sandbox/{id}/processes", CAY_SCOPE_READ, list, CAY_BODY_AUTO,
     CAY_DOC("Its processes", "ProcessList", .topic = "Processes")},
    {"POST", "/api/v1/sandbox/{id}/processes/{pid}/kill", CAY_SCOPE_EXEC, kill_one, CAY_BODY_AUTO,
     CAY_DOC("Send one of them a signal", "Signalled", .body = kill_fields,
             .send = "{'signal': 'SIGCONT'}")},
    {0},
};
