/* SPDX-License-Identifier: Apache-2.0 */
#include "api/wait.h"
#include "log/reader.h"

#define RECORDS_MAX 1024 /* looked at in one pull */

struct wait {
    struct cay_stream base;
    struct cay_reader reader;
    struct cay_core *core;
    char sandbox_id[CAY_ID_SIZE], exec_id[CAY_ID_SIZE];
    bool attends, ended;
};

static enum cay_pull pull(struct cay_stream *s, struct cay_buf *out, size_t room)
{
    struct wait *w = (struct wait *)s;
    struct cay_record rec;
    struct cay_error ignored; /* the second half meets the same error and tells it */
    (void)out, (void)room;
    if (w->ended)
        return cay_core_version_due(w->core, w->exec_id) ? CAY_PULL_WAIT : CAY_PULL_END;
    for (int i = 0; i < RECORDS_MAX; i++) {
        int r = cay_reader_next(&w->reader, &rec, &ignored);
        if (r < 0)
            return CAY_PULL_END;
        if (r == CAY_READ_RECORD && rec.kind == CAY_RECORD_EXIT) {
            w->ended = true;
            cay_reader_rest(&w->reader);
            return pull(s, out, room);
        }
        if (r == CAY_READ_END) {
            cay_reader_rest(&w->reader);
            return cay_core_lost(w->core, w->sandbox_id, w->exec_id) ? CAY_PULL_END : CAY_PULL_WAIT;
        }
    }
    return CAY_PULL_MORE;
}

static void close_wait(struct cay_stream *s)
{
    struct wait *w = (struct wait *)s;
    if (w->attends)
        cay_core_leave(w->core, w->sandbox_id);
    cay_reader_done(&w->reader);
    free(w);
}

static const struct cay_stream_ops ops = {.pull = pull, .close = close_wait};

struct cay_stream *cay_api_wait(struct cay_core *core, const struct cay_execution *ex, int log_fd)
{
    struct wait *w = calloc(1, sizeof *w);
    if (!w)
        abort();
    w->base = (struct cay_stream){.ops = &ops, .watch_fd = log_fd};
    w->core = core;
    cay_str_copy(w->sandbox_id, sizeof w->sandbox_id, ex->sandbox_id);
    cay_str_copy(w->exec_id, sizeof w->exec_id, ex->id);
    w->attends = cay_core_attend(core, ex->sandbox_id);
    cay_reader_init(&w->reader, log_fd, 0);
    w->reader.headers_only = true;
    return &w->base;
}

bool cay_api_is_over(struct cay_core *core, const struct cay_execution *ex)
{
    return ex->status == CAY_EXEC_EXITED && !cay_core_version_due(core, ex->id);
}

static bool is_wanted(const struct cay_record *rec, enum cay_record_kind only)
{
    if (only != CAY_RECORD_PAD)
        return rec->kind == only;
    return rec->kind == CAY_RECORD_STDOUT || rec->kind == CAY_RECORD_STDERR;
}

int cay_api_claim(struct cay_resp *resp, uint64_t bytes, struct cay_error *err)
{
    return cay_resp_claim(resp, (CAY_JSON_WORST + 1) * bytes, err); /* both are there at once */
}

bool cay_api_collect(int log_fd, uint64_t offset, uint64_t skip, enum cay_record_kind only,
                     size_t limit, struct cay_buf *out)
{
    CAY_CLEANUP(cay_reader_rest) struct cay_reader reader;
    struct cay_record rec;
    struct cay_error ignored; /* what cannot be read is missing */
    bool missing = false;
    int r;
    cay_reader_init(&reader, log_fd, offset);
    while ((r = cay_reader_next(&reader, &rec, &ignored)) == CAY_READ_RECORD) {
        missing |= reader.skipped > 0 || rec.kind == CAY_RECORD_GAP;
        if (!is_wanted(&rec, only))
            continue;
        size_t cut = skip < rec.len ? (size_t)skip : rec.len;
        size_t len = rec.len - cut, room = limit - out->len;
        skip = 0;
        missing |= len > room;
        cay_buf_add(out, rec.data + cut, len < room ? len : room);
        if (len > room)
            break;
    }
    return missing || r < 0;
}
