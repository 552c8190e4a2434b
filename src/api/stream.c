/* SPDX-License-Identifier: Apache-2.0 */
/* A log as a stream: SSE, NDJSON, WebSocket frames or the bytes themselves.
 *
 * A record becomes an event. Characters are never cut: what a record ends within is held back and
 * goes out with the next one of the same stream. So that a client can go on after any event without
 * losing or doubling a byte, the event's id then names the bytes that were held back, too. */
#include "api/stream.h"
#include "api/body.h"
#include "http/websocket.h"
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define RECORDS_MAX 1024 /* looked at in one pull, wanted or not */
#define KEEPALIVE_SSE ": still here\n\n"
#define KEEPALIVE_NDJSON "\n"
#define PLACE_SIZE 48

struct follow {
    struct cay_stream base;
    struct cay_reader reader;
    struct cay_core *core;
    char sandbox_id[CAY_ID_SIZE], exec_id[CAY_ID_SIZE];
    struct cay_api_follow how;
    char carry[2][4];
    unsigned carried[2];
    uint64_t skip;
    struct cay_buf json;       /* of a WebSocket: the frame of text that is being written */
    enum cay_record_kind told; /* of a WebSocket: whose bytes the next are, as was said; PAD: not */
    bool tty;
    bool begun, has_exit, asked, gaps, attends;
    struct cay_record_exit end;
    int64_t ended_at_ms;
    const char *reason; /* when it is known beforehand */
};

/* What to say to go on behind this record. */
static void print_place(const struct follow *f, uint64_t offset, char out[PLACE_SIZE])
{
    int len = snprintf(out, PLACE_SIZE, "%llu", (unsigned long long)offset);
    for (int i = 0; i < 2; i++) {
        if (f->carried[0] + f->carried[1] == 0 || (i == 1 && f->carried[1] == 0))
            return;
        len += snprintf(out + len, PLACE_SIZE - (size_t)len, ".");
        for (unsigned k = 0; k < f->carried[i]; k++)
            len += snprintf(out + len, PLACE_SIZE - (size_t)len, "%02x",
                            (unsigned char)f->carry[i][k]);
    }
}

/* Begins an event; the writer is inside its object. */
static void begin_event(struct follow *f, struct cay_buf *out, const char *type, uint64_t offset,
                        struct cay_json_writer *w)
{
    char place[PLACE_SIZE];
    print_place(f, offset, place);
    f->json.len = 0;
    *w = (struct cay_json_writer){.buf = f->how.form == CAY_API_SOCKET ? &f->json : out};
    if (f->how.form == CAY_API_SSE)
        cay_buf_addf(out, "id: %s%s%s\nevent: %s\ndata: ", f->how.named ? f->exec_id : "",
                     f->how.named ? ":" : "", place, type);
    cay_jw_object(w, NULL);
    if (f->how.form == CAY_API_SSE)
        return;
    cay_jw_str(w, "type", type);
    if (strchr(place, '.'))
        cay_jw_str(w, "offset", place);
    else
        cay_jw_int(w, "offset", (int64_t)offset);
}

static void end_event(struct follow *f, struct cay_buf *out, struct cay_json_writer *w)
{
    cay_jw_object_end(w);
    if (f->how.form == CAY_API_SOCKET)
        cay_ws_frame(out, CAY_WS_TEXT, f->json.data, f->json.len, NULL);
    else
        cay_buf_adds(out, f->how.form == CAY_API_SSE ? "\n\n" : "\n");
}

static void put_base64(struct cay_json_writer *w, const char *data, size_t len)
{
    CAY_AUTO_FREE char *text = malloc(4 * ((len + 2) / 3) + 1);
    if (!text)
        abort();
    cay_jw_strn(w, "base64", text, cay_str_base64(data, len, text));
}

static void put_output(struct follow *f, struct cay_buf *out, int which, const char *data,
                       size_t len, uint64_t offset)
{
    struct cay_json_writer w;
    if (len == 0)
        return;
    begin_event(f, out, which == 0 ? "stdout" : "stderr", offset, &w);
    if (cay_str_is_utf8(data, len))
        cay_jw_strn(&w, "data", data, len);
    else
        put_base64(&w, data, len);
    end_event(f, out, &w);
}

/* Bytes as they are; before those of each pull, and where the stream changes, it is said whose they
 * are and where they begin: whoever lost the connection goes on there, less what it has. */
static void put_bytes(struct follow *f, struct cay_buf *out, const struct cay_record *rec,
                      size_t cut)
{
    struct cay_json_writer w;
    if (f->told != rec->kind) {
        begin_event(f, out, "output", rec->offset, &w);
        cay_jw_str(&w, "stream", rec->kind == CAY_RECORD_STDERR ? "stderr" : "stdout");
        if (cut > 0)
            cay_jw_int(&w, "skip", (int64_t)cut);
        end_event(f, out, &w);
    }
    f->told = rec->kind;
    cay_ws_frame(out, CAY_WS_BINARY, rec->data + cut, rec->len - cut, NULL);
}

static void take_output(struct follow *f, struct cay_buf *out, const struct cay_record *rec)
{
    int which = rec->kind == CAY_RECORD_STDERR;
    size_t cut = f->skip < rec->len ? (size_t)f->skip : rec->len;
    const char *data = rec->data + cut;
    size_t len = rec->len - cut;
    f->skip -= cut;
    if (len == 0)
        return;
    if (f->how.form == CAY_API_SOCKET) {
        put_bytes(f, out, rec, cut);
        return;
    }
    if (f->how.form == CAY_API_TEXT) {
        cay_buf_add(out, data, len);
        return;
    }
    CAY_AUTO_BUF struct cay_buf joined = {0};
    if (f->carried[which] > 0) {
        cay_buf_add(&joined, f->carry[which], f->carried[which]);
        cay_buf_add(&joined, data, len);
        data = joined.data;
        len = joined.len;
    }
    size_t whole = cay_str_utf8_whole(data, len);
    if (len - whole > 3)
        whole = len;
    f->carried[which] = (unsigned)(len - whole);
    memcpy(f->carry[which], data + whole, len - whole);
    put_output(f, out, which, data, whole, rec->next);
}

/* No more will come: what was held back is no character after all. */
static void flush_carry(struct follow *f, struct cay_buf *out)
{
    for (int i = 0; i < 2; i++) {
        char rest[4];
        unsigned len = f->carried[i];
        memcpy(rest, f->carry[i], sizeof rest);
        f->carried[i] = 0;
        if (len > 0 && f->how.form != CAY_API_TEXT)
            put_output(f, out, i, rest, len, f->reader.offset);
    }
}

static void put_gap(struct follow *f, struct cay_buf *out, uint64_t bytes, uint64_t offset)
{
    struct cay_json_writer w;
    f->gaps = true;
    f->carried[0] = f->carried[1] = 0; /* the rest of those characters is gone */
    if (f->how.form == CAY_API_TEXT)
        return;
    begin_event(f, out, "gap", offset, &w);
    cay_jw_int(&w, "bytes", (int64_t)bytes);
    end_event(f, out, &w);
}

static void put_exit(struct follow *f, struct cay_buf *out, const char *reason)
{
    struct cay_json_writer w;
    struct cay_execution ex = {.status = reason ? CAY_EXEC_EXITED : CAY_EXEC_LOST,
                               .reason = reason ? reason : "lost",
                               .exit_code = f->end.signal ? 128 + f->end.signal : f->end.exit_code,
                               .signal = f->end.signal};
    if (f->how.form == CAY_API_TEXT)
        return;
    memcpy(ex.process, f->end.process, sizeof ex.process);
    begin_event(f, out, "exit", f->reader.offset, &w);
    cay_jw_str(&w, "id", f->exec_id);
    cay_jw_str(&w, "sandboxId", f->sandbox_id);
    cay_jw_str(&w, "status", reason ? "exited" : "lost");
    cay_api_shape_exit(&w, &ex);
    if (reason) {
        cay_jw_int(&w, "durationMs", (int64_t)(f->end.duration_us / 1000));
        cay_jw_int(&w, "stdoutBytes", (int64_t)f->end.stdout_bytes);
        cay_jw_int(&w, "stderrBytes", (int64_t)f->end.stderr_bytes);
    }
    cay_jw_bool(&w, "truncated", f->gaps);
    end_event(f, out, &w);
}

static void put_start(struct follow *f, struct cay_buf *out)
{
    struct cay_json_writer w;
    f->begun = true;
    if (f->how.form != CAY_API_NDJSON && f->how.form != CAY_API_SOCKET)
        return;
    begin_event(f, out, "start", f->reader.offset, &w);
    cay_jw_str(&w, "id", f->exec_id);
    cay_jw_str(&w, "sandboxId", f->sandbox_id);
    if (f->how.form == CAY_API_SOCKET)
        cay_jw_bool(&w, "tty", f->tty);
    end_event(f, out, &w);
}

static enum cay_pull at_end(struct follow *f, struct cay_buf *out)
{
    const char *reason = NULL;
    cay_reader_rest(&f->reader);
    if (f->has_exit && cay_core_version_due(f->core, f->exec_id))
        return CAY_PULL_WAIT; /* who hears of the end finds its version */
    if (f->has_exit) {
        reason = f->reason ? f->reason
                           : cay_core_reason(f->core, f->sandbox_id, f->exec_id, &f->end,
                                             f->ended_at_ms, f->asked);
        f->asked = true;
        if (!reason)
            return CAY_PULL_WAIT;
    } else if (!f->how.follow) {
        flush_carry(f, out);
        return CAY_PULL_END;
    } else if (!cay_core_lost(f->core, f->sandbox_id, f->exec_id)) {
        return CAY_PULL_WAIT;
    }
    flush_carry(f, out);
    put_exit(f, out, reason);
    return CAY_PULL_END;
}

static void take_record(struct follow *f, struct cay_buf *out, const struct cay_record *rec)
{
    uint64_t dropped = 0;
    bool output = rec->kind == CAY_RECORD_STDOUT || rec->kind == CAY_RECORD_STDERR;
    if (f->reader.skipped > 0)
        put_gap(f, out, f->reader.skipped, rec->offset);
    if (rec->kind == CAY_RECORD_GAP && rec->len >= sizeof dropped) {
        memcpy(&dropped, rec->data, sizeof dropped);
        put_gap(f, out, dropped, rec->next);
    } else if (rec->kind == CAY_RECORD_EXIT && !f->has_exit) {
        f->has_exit = cay_record_exit_read(rec->data, rec->len, &f->end);
        f->ended_at_ms = rec->time_ms;
    } else if (output && (f->how.only == CAY_RECORD_PAD || f->how.only == rec->kind)) {
        take_output(f, out, rec);
    }
}

static enum cay_pull pull(struct cay_stream *s, struct cay_buf *out, size_t room)
{
    struct follow *f = (struct follow *)s;
    struct cay_record rec;
    struct cay_error ignored; /* a log that is none is told by cutting the answer */
    size_t full = out->len + room;
    f->told = CAY_RECORD_PAD;
    if (!f->begun)
        put_start(f, out);
    for (int i = 0; i < RECORDS_MAX && out->len < full; i++) {
        int r = cay_reader_next(&f->reader, &rec, &ignored);
        if (r < 0)
            return CAY_PULL_ABORT;
        if (r == CAY_READ_END)
            return at_end(f, out);
        take_record(f, out, &rec);
    }
    return CAY_PULL_MORE;
}

static void close_stream(struct cay_stream *s)
{
    struct follow *f = (struct follow *)s;
    if (f->attends)
        cay_core_leave(f->core, f->sandbox_id);
    cay_reader_done(&f->reader);
    cay_buf_done(&f->json);
    free(f);
}

static void rest(struct cay_stream *s)
{
    cay_reader_rest(&((struct follow *)s)->reader);
}

static const struct cay_stream_ops follow_ops = {.pull = pull, .close = close_stream, .rest = rest};

static struct follow *new_follow(struct cay_core *core, const struct cay_execution *ex, int log_fd,
                                 uint64_t offset)
{
    struct follow *f = calloc(1, sizeof *f);
    if (!f)
        abort();
    f->base.ops = &follow_ops;
    f->base.watch_fd = log_fd;
    f->core = core;
    cay_str_copy(f->sandbox_id, sizeof f->sandbox_id, ex->sandbox_id);
    cay_str_copy(f->exec_id, sizeof f->exec_id, ex->id);
    f->attends = cay_core_attend(core, ex->sandbox_id);
    cay_reader_init(&f->reader, log_fd, offset);
    return f;
}

/* Who goes on behind the exit record still wants to hear how it ended. */
static void remember_exit(struct follow *f, const struct cay_execution *ex)
{
    f->has_exit = true;
    f->reason = ex->reason;
    f->end = (struct cay_record_exit){.exit_code = (uint8_t)ex->exit_code,
                                      .signal = (uint8_t)ex->signal,
                                      .duration_us = (uint64_t)ex->duration_ms * 1000,
                                      .stdout_bytes = ex->stdout_bytes,
                                      .stderr_bytes = ex->stderr_bytes};
    memcpy(f->end.process, ex->process, sizeof f->end.process);
}

struct cay_stream *cay_api_follow(struct cay_core *core, const struct cay_execution *ex, int log_fd,
                                  const struct cay_api_follow *how)
{
    struct follow *f = new_follow(core, ex, log_fd, how->from.offset);
    f->how = *how;
    f->skip = how->from.skip;
    memcpy(f->carry, how->from.carry, sizeof f->carry);
    memcpy(f->carried, how->from.carried, sizeof f->carried);
    f->gaps = ex->truncated;
    f->tty = ex->tty;
    if (how->form == CAY_API_SSE)
        f->base.keepalive = KEEPALIVE_SSE;
    else if (how->form == CAY_API_NDJSON)
        f->base.keepalive = KEEPALIVE_NDJSON;
    if (ex->status == CAY_EXEC_EXITED)
        remember_exit(f, ex);
    return &f->base;
}

/* ---- which form an answer has ---- */

enum cay_api_form cay_api_form_of(const struct cay_req *req)
{
    if (cay_req_accepts(req, "text/event-stream"))
        return CAY_API_SSE;
    if (cay_req_accepts(req, "application/x-ndjson"))
        return CAY_API_NDJSON;
    return CAY_API_TEXT;
}

const char *cay_api_form_type(enum cay_api_form form)
{
    static const char *const types[] = {
        [CAY_API_TEXT] = "text/plain; charset=utf-8",
        [CAY_API_SSE] = "text/event-stream",
        [CAY_API_NDJSON] = "application/x-ndjson",
    };
    return types[form];
}

int cay_api_answer_stream(struct cay_resp *resp, const struct cay_execution *ex,
                          enum cay_api_form form, struct cay_stream *stream)
{
    cay_resp_header(resp, "X-Execution-Id", ex->id);
    cay_resp_header(resp, "Cache-Control", "no-cache");
    cay_resp_header(resp, "X-Accel-Buffering", "no"); /* proxies that would hold back events */
    return cay_resp_stream(resp, 200, cay_api_form_type(form), stream);
}
