/* SPDX-License-Identifier: Apache-2.0 */
/* /api/v1: many commands over many sandboxes, answered line by line as they end. */
#include "api/dialect.h"
#include "api/v1/v1.h"
#include "model/limits.h"
#include <string.h>

struct body {
    struct cay_strs sandboxes;
    const struct cay_json *create, *commands;
    const char *mode;
    int64_t concurrency;
    bool keep;
};

struct create_body {
    const struct cay_json *spec;
    int64_t count;
};

static const char *const modes[] = {
    [CAY_BATCH_EACH] = "each", [CAY_BATCH_ZIP] = "zip", [CAY_BATCH_SPREAD] = "spread", NULL};

#define BODY struct body

static const struct cay_field create_fields[] = {
    CAY_FIELD_ANY(struct create_body, spec, "spec", .type = "Spec"),
    CAY_FIELD_INT(struct create_body, count, "count", .min = 1, .max = CAY_BATCH_SANDBOXES),
    CAY_FIELD_END,
};

static const struct cay_field fields[] = {
    CAY_FIELD_STRS(BODY, sandboxes, "sandboxes", .max_count = CAY_BATCH_SANDBOXES),
    CAY_FIELD_ANY(BODY, create, "create", .fields = create_fields),
    CAY_FIELD_ANY(BODY, commands, "commands", .required = true, .type = "[Command]"),
    CAY_FIELD_STR(BODY, mode, "mode", .choices = modes),
    CAY_FIELD_INT(BODY, concurrency, "concurrency", .min = 1, .max = CAY_BATCH_CONCURRENCY),
    CAY_FIELD_BOOL(BODY, keep, "keep"),
    CAY_FIELD_END,
};

/* ---- what is asked ---- */

static int decode_create(struct cay_req *req, struct cay_arena *a, const struct cay_json *v,
                         struct cay_batch_spec *out, struct cay_error *err)
{
    struct create_body body = {.count = 1};
    struct cay_spec *spec = cay_arena_alloc(a, sizeof *spec);
    *spec = cay_spec_default();
    if (v->kind != CAY_JSON_OBJECT)
        return cay_fail_field(err, "create", "create must be an object");
    int r = cay_fields_decode(a, create_fields, v, &body, err);
    if (r < 0)
        return cay_fail_inside(err, "create");
    if (body.spec && body.spec->kind != CAY_JSON_OBJECT)
        return cay_fail_field(err, "create.spec", "create.spec must be an object");
    if (cay_v1_decode_spec_of(req, body.spec, a, spec, err) < 0)
        return cay_fail_inside(err, "create.spec");
    out->make = spec;
    out->make_count = (size_t)body.count;
    return 0;
}

static int decode_command(struct cay_arena *a, const struct cay_json *v,
                          struct cay_batch_command *out, struct cay_error *err)
{
    struct cay_v1_exec exec = {.output_limit = CAY_BATCH_OUTPUT_BYTES};
    if (v->kind != CAY_JSON_OBJECT)
        return cay_fail_field(err, "", "each command must be an object with a command");
    int r = cay_v1_decode_exec(a, v, &exec, err);
    if (r == 0 && exec.detach)
        r = cay_fail_field(err, "detach", "a batch waits for its commands");
    if (r == 0 && exec.spec.open_stdin)
        r = cay_fail_field(err, "openStdin", "nobody writes to a command of a batch");
    *out = (struct cay_batch_command){.spec = exec.spec, .output_limit = exec.output_limit};
    return r;
}

static int decode_commands(struct cay_arena *a, const struct cay_json *list,
                           struct cay_batch_spec *out, struct cay_error *err)
{
    if (!list || list->kind != CAY_JSON_ARRAY)
        return cay_fail_field(err, "commands", "commands must be an array");
    if (list->count > CAY_BATCH_ITEMS)
        return cay_fail_field(err, "commands", "a batch has at most %d items", CAY_BATCH_ITEMS);
    out->commands = cay_arena_alloc(a, list->count * sizeof *out->commands + 1);
    for (const struct cay_json *v = list->first; v; v = v->next, out->command_count++)
        if (decode_command(a, v, &out->commands[out->command_count], err) < 0)
            return cay_fail_inside(err, "commands[%zu]", out->command_count);
    return 0;
}

static int decode(struct cay_req *req, struct cay_batch_asked *asked, struct cay_error *err)
{
    struct body body = {.concurrency = CAY_BATCH_DEFAULT_CONCURRENCY};
    struct cay_batch_spec *spec = &asked->spec;
    const struct cay_json *json;
    int r = cay_req_json(req, &asked->arena, &json, err);
    if (r == 0)
        r = cay_fields_decode(&asked->arena, fields, json, &body, err);
    if (r == 0 && (body.sandboxes.count > 0) == (body.create != NULL))
        r = cay_fail_field(err, "sandboxes", "give sandboxes, or create some");
    if (r == 0 && body.create)
        r = decode_create(req, &asked->arena, body.create, spec, err);
    if (r == 0)
        r = decode_commands(&asked->arena, body.commands, spec, err);
    if (r < 0)
        return r;
    for (int i = 0; body.mode && modes[i]; i++)
        if (strcmp(modes[i], body.mode) == 0)
            spec->mode = (enum cay_batch_mode)i;
    spec->sandboxes = body.sandboxes;
    spec->concurrency = (size_t)body.concurrency;
    spec->keep = body.keep;
    asked->bytes = req->body_len;
    return cay_api_once(req, NULL, &spec->once, err);
}

/* ---- what is told ---- */

static void shape_begin(struct cay_json_writer *w, const struct cay_batch_event *e)
{
    cay_jw_str(w, "id", e->batch_id);
    cay_jw_int(w, "items", (int64_t)e->items);
    cay_jw_int(w, "commands", (int64_t)e->spec->command_count);
    cay_jw_int(w, "sandboxes",
               (int64_t)(e->spec->make ? e->spec->make_count : e->spec->sandboxes.count));
    cay_jw_str(w, "mode", modes[e->spec->mode]);
    cay_jw_int(w, "concurrency", (int64_t)e->spec->concurrency);
}

static void shape_place(struct cay_json_writer *w, const struct cay_batch_event *e)
{
    cay_jw_int(w, "index", (int64_t)e->index);
    cay_jw_int(w, "command", (int64_t)e->command);
    cay_jw_int(w, "sandbox", (int64_t)e->sandbox);
}

static void shape_end(struct cay_json_writer *w, const struct cay_batch_event *e)
{
    cay_jw_int(w, "succeeded", (int64_t)e->succeeded);
    cay_jw_int(w, "failed", (int64_t)e->failed);
    if (e->lost)
        cay_jw_int(w, "lost", (int64_t)e->lost);
    cay_jw_int(w, "durationMs", e->duration_ms);
}

static void shape(const struct cay_batch_event *e, struct cay_buf *out)
{
    static const char *const types[] = {[CAY_BATCH_BEGINS] = "start",
                                        [CAY_BATCH_MADE] = "sandbox",
                                        [CAY_BATCH_RESULT] = "result",
                                        [CAY_BATCH_ERROR] = "error",
                                        [CAY_BATCH_ENDS] = "end"};
    struct cay_json_writer w = {.buf = out};
    bool item = e->kind == CAY_BATCH_RESULT || e->kind == CAY_BATCH_ERROR;
    cay_jw_object(&w, NULL);
    cay_jw_str(&w, "type", types[e->kind]);
    if (e->kind == CAY_BATCH_BEGINS)
        shape_begin(&w, e);
    if (item)
        shape_place(&w, e);
    if (e->kind == CAY_BATCH_RESULT)
        cay_v1_shape_result(&w, e->ex, e->log_fd, e->output_limit);
    if (e->kind == CAY_BATCH_MADE)
        cay_jw_int(&w, "sandbox", (int64_t)e->sandbox);
    if (e->kind == CAY_BATCH_MADE || e->kind == CAY_BATCH_ERROR)
        cay_jw_str(&w, "sandboxId", e->sandbox_id[0] ? e->sandbox_id : NULL);
    if (e->kind == CAY_BATCH_ERROR)
        cay_api_shape_error(&w, e->err);
    if (e->kind == CAY_BATCH_ENDS)
        shape_end(&w, e);
    cay_jw_object_end(&w);
    cay_buf_addc(out, '\n');
}

/* ---- the stream ---- */

struct lines {
    struct cay_stream base;
    struct cay_core *core;
    char id[CAY_ID_SIZE];
    int fd;
    uint64_t offset;
};

/* Whether it runs is asked first: what is not there by then will not come. */
static enum cay_pull pull(struct cay_stream *s, struct cay_buf *out, size_t room)
{
    struct lines *l = (struct lines *)s;
    bool runs = cay_core_batch_runs(l->core, l->id);
    char *to = cay_buf_room(out, room);
    ssize_t n = pread(l->fd, to, room, (off_t)l->offset);
    if (n <= 0)
        return n == 0 && runs ? CAY_PULL_WAIT : CAY_PULL_ABORT;
    const char *end = memchr(to, 0, (size_t)n);
    out->len += end ? (size_t)(end - to) : (size_t)n;
    l->offset += (uint64_t)n;
    return end ? CAY_PULL_END : CAY_PULL_MORE;
}

static void close_lines(struct cay_stream *s)
{
    struct lines *l = (struct lines *)s;
    cay_close_fd(&l->fd);
    free(l);
}

static const struct cay_stream_ops ops = {.pull = pull, .close = close_lines};

static struct cay_stream *follow(struct cay_core *core, const struct cay_batch_ref *ref)
{
    struct lines *l = calloc(1, sizeof *l);
    if (!l)
        abort();
    l->base = (struct cay_stream){.ops = &ops, .watch_fd = ref->fd, .keepalive = "\n"};
    l->core = core;
    l->fd = ref->fd;
    l->offset = CAY_BATCH_HEAD;
    memcpy(l->id, ref->id, sizeof l->id);
    return &l->base;
}

static void asked_done(struct cay_batch_asked *asked)
{
    cay_arena_done(&asked->arena);
}

static int batch(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    CAY_CLEANUP(asked_done) struct cay_batch_asked asked = {.shape = shape};
    struct cay_batch_ref ref;
    int r = decode(req, &asked, err);
    if (r == 0)
        r = cay_core_batch(req->core, req->owner, &asked, &ref, err);
    if (r < 0)
        return r;
    cay_resp_header(resp, "X-Batch-Id", ref.id);
    cay_resp_header(resp, "Cache-Control", "no-cache");
    cay_resp_header(resp, "X-Accel-Buffering", "no"); /* proxies that would hold back lines */
    if (ref.replayed)
        cay_resp_header(resp, "Idempotent-Replayed", "true");
    return cay_resp_stream(resp, 200, cay_api_form_type(CAY_API_NDJSON), follow(req->core, &ref));
}

const struct cay_route cay_v1_batch_routes[] = {
    {"POST", "/api/v1/batch", CAY_SCOPE_WRITE, batch, CAY_BODY_AUTO,
     CAY_DOC("Many commands over many sandboxes, told line by line as they end",
             "application/x-ndjson; 501", .topic = "Executions", .body = fields,
             .headers = "Idempotency-Key",
             .send = "{'create': {'spec': {'dockerImage': 'busybox', 'memoryGB': 0.125}, 'count': "
                     "2}, 'commands': [{'command': 'echo hello'}]}")},
    {0},
};
