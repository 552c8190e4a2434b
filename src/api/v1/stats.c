/* SPDX-License-Identifier: Apache-2.0 */
/* /api/v1: what a sandbox uses, once or as it changes. A reading asks the engine, so a stream's
 * readings are made on a worker, when their time comes; in between it holds nothing but its socket.
 */
#include "api/v1/v1.h"
#include "base/clock.h"
#include "model/limits.h"
#include <string.h>

struct stats_query {
    int64_t interval_ms;
};

static const struct cay_field fields[] = {
    CAY_FIELD_INT(struct stats_query, interval_ms, "intervalMs", .min = CAY_STATS_MIN_MS,
                  .max = CAY_STATS_MAX_MS),
    CAY_FIELD_END,
};

struct follow {
    struct cay_stream base;
    struct cay_core *core;
    char id[CAY_ID_SIZE];
    char *account_id;
    struct cay_spec limits; /* only its numbers */
    int64_t interval_ms, next_ms;
    struct cay_stats last;
    struct cay_buf event; /* made by a worker, taken by the loop */
    bool over, attends;
};

static struct cay_spec limits_of(const struct cay_sandbox *sb)
{
    return (struct cay_spec){.cpu_milli = sb->spec.cpu_milli,
                             .memory_bytes = sb->spec.memory_bytes,
                             .disk_bytes = sb->spec.disk_bytes,
                             .pids = sb->spec.pids};
}

static void shape_stats(struct cay_json_writer *w, struct cay_core *core, const char *id,
                        const struct cay_spec *limits, const struct cay_stats *stats)
{
    cay_jw_object(w, NULL);
    cay_jw_str(w, "sandboxId", id);
    cay_jw_time(w, "readAt", cay_clock_ms());
    cay_v1_shape_usage(w, core, limits, stats);
    cay_jw_object(w, "network");
    cay_jw_int(w, "rxBytes", (int64_t)stats->received_bytes);
    cay_jw_int(w, "txBytes", (int64_t)stats->sent_bytes);
    cay_jw_object_end(w);
    cay_jw_object_end(w);
}

static void put_stats(struct follow *f)
{
    struct cay_json_writer w = {.buf = &f->event};
    cay_buf_adds(&f->event, "event: stats\ndata: ");
    shape_stats(&w, f->core, f->id, &f->limits, &f->last);
    cay_buf_adds(&f->event, "\n\n");
}

/* It does not run: is that on its row as well, so that it can be told? Else at the next reading. */
static void put_end(struct follow *f)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_account owner = {.id = f->account_id, .reads = true};
    struct cay_error err;
    struct cay_sandbox sb = {.state = CAY_TERMINATED};
    int r = cay_core_get(f->core, &owner, f->id, &a, &sb, &err);
    f->over = r == 0 ? sb.state != CAY_RUNNING && sb.state != CAY_PAUSED : r == CAY_ERR_NOT_FOUND;
    if (f->over)
        cay_buf_addf(&f->event, "event: end\ndata: {\"status\":\"%s\"}\n\n",
                     cay_state_name(sb.state));
}

static void work(struct cay_stream *s)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct follow *f = (struct follow *)s;
    struct cay_account owner = {.id = f->account_id, .reads = true};
    struct cay_sandbox sb;
    struct cay_error err; /* an engine that is away now may answer the next time */
    if (cay_core_get(f->core, &owner, f->id, &a, &sb, &err) == 0)
        f->limits = limits_of(&sb); /* they may have been changed since */
    int r = cay_core_stats_next(f->core, f->id, &f->last, &err);
    if (r == 0)
        put_stats(f);
    else if (r == CAY_ERR_CONFLICT || r == CAY_ERR_NOT_FOUND)
        put_end(f);
}

static enum cay_pull pull(struct cay_stream *s, struct cay_buf *out, size_t room)
{
    struct follow *f = (struct follow *)s;
    int64_t now_ms = cay_clock_mono_ms();
    (void)room; /* one event is small */
    cay_buf_add(out, f->event.data, f->event.len);
    f->event.len = 0;
    if (f->next_ms <= now_ms) /* else it was pulled out of turn */
        f->next_ms += f->interval_ms;
    if (f->next_ms <= now_ms)
        f->next_ms = now_ms + f->interval_ms; /* what was missed is not made up for */
    s->wake_at_ms = f->next_ms;
    return f->over ? CAY_PULL_END : CAY_PULL_WAIT;
}

static void close_follow(struct cay_stream *s)
{
    struct follow *f = (struct follow *)s;
    if (f->attends)
        cay_core_leave(f->core, f->id);
    cay_buf_done(&f->event);
    free(f->account_id);
    free(f);
}

static const struct cay_stream_ops ops = {.pull = pull, .close = close_follow, .work = work};

static struct cay_stream *follow(const struct cay_req *req, const struct cay_sandbox *sb,
                                 const struct cay_stats *first, int64_t interval_ms)
{
    struct follow *f = calloc(1, sizeof *f);
    char *account_id = strdup(req->owner->id);
    if (!f || !account_id)
        abort();
    *f = (struct follow){.base = {.ops = &ops, .watch_fd = -1, .keepalive = ": still here\n\n"},
                         .core = req->core,
                         .account_id = account_id,
                         .limits = limits_of(sb),
                         .interval_ms = interval_ms,
                         .next_ms = cay_clock_mono_ms(),
                         .last = *first};
    memcpy(f->id, sb->id, sizeof f->id);
    f->attends = cay_core_attend(f->core, f->id);
    put_stats(f);
    return &f->base;
}

static int get_stats(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct stats_query q = {.interval_ms = CAY_STATS_DEFAULT_MS};
    struct cay_sandbox sb;
    struct cay_stats stats;
    int r = cay_req_decode_query(req, fields, &q, err);
    if (r == 0)
        r = cay_core_get(req->core, req->owner, cay_req_param(req, "id"), req->arena, &sb, err);
    if (r == 0)
        r = cay_core_stats(req->core, &sb, &stats, err);
    if (r < 0)
        return r;
    if (cay_api_form_of(req) != CAY_API_SSE) {
        shape_stats(cay_resp_json(resp, 200), req->core, sb.id, &sb.spec, &stats);
        return 0;
    }
    cay_resp_header(resp, "X-Accel-Buffering", "no"); /* proxies that would hold back events */
    return cay_resp_stream(resp, 200, cay_api_form_type(CAY_API_SSE),
                           follow(req, &sb, &stats, q.interval_ms));
}

const struct cay_route cay_v1_stats_routes[] = {
    {"GET", "/api/v1/sandbox/{id}/stats", CAY_SCOPE_READ, get_stats, CAY_BODY_AUTO,
     CAY_DOC("What it uses, once or as it changes", "Stats, text/event-stream",
             .topic = "Sandboxes", .query = fields, .ask = "intervalMs=1000")},
    {0},
};
