/* SPDX-License-Identifier: Apache-2.0 */
/* What a log says of its execution, with as little reading as the file allows: the first block,
 * then the last, where the exit record of a long log is; the whole of it only when neither has it.
 */
#include "log/reader.h"
#include "log/spec.h"
#include "model/limits.h"
#include <string.h>
#include <sys/stat.h>

#define WALK_BYTES_MAX (4 * (uint64_t)(CAY_LOG_HEAD_BYTES + CAY_LOG_TAIL_BYTES))

static void take_exit(const struct cay_record *rec, struct cay_execution *x)
{
    struct cay_record_exit e;
    if (!cay_record_exit_read(rec->data, rec->len, &e))
        return; /* the reader lets none such through */
    x->status = CAY_EXEC_EXITED;
    x->reason = cay_record_exit_reason(&e);
    x->exit_code = e.signal ? 128 + e.signal % 128 : e.exit_code;
    x->signal = e.signal;
    x->counted = e.counted;
    memcpy(x->process, e.process, sizeof x->process);
    x->ended_at_ms = rec->time_ms;
    x->duration_ms = (int64_t)(e.duration_us / 1000);
    x->stdout_bytes = e.stdout_bytes;
    x->stderr_bytes = e.stderr_bytes;
    x->cpu_ms = e.cpu_us / 1000;
    x->peak_bytes = e.peak_bytes;
    if (e.gaps)
        x->truncated = true;
}

/* Adds up records until the exit, the end, or the bound. 1 with the exit, else 0. */
static int walk(struct cay_reader *r, uint64_t until, struct cay_execution *x,
                struct cay_error *err)
{
    uint64_t read_bytes = 0;
    while (r->offset < until && read_bytes < WALK_BYTES_MAX) {
        struct cay_record rec;
        int ret = cay_reader_next(r, &rec, err);
        if (ret <= 0)
            return ret;
        read_bytes += rec.next - rec.offset;
        if (r->skipped || rec.kind == CAY_RECORD_GAP)
            x->truncated = true;
        if (rec.kind == CAY_RECORD_STDOUT)
            x->stdout_bytes += rec.len;
        else if (rec.kind == CAY_RECORD_STDERR)
            x->stderr_bytes += rec.len;
        else if (rec.kind == CAY_RECORD_EXIT) {
            take_exit(&rec, x);
            return 1;
        }
    }
    return 0;
}

/* The log goes on behind its first block, which r has read. */
static int walk_rest(struct cay_reader *r, struct cay_execution *x, struct cay_error *err)
{
    struct stat st;
    if (fstat(r->fd, &st) < 0)
        return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot look at an execution log");
    uint64_t size = (uint64_t)st.st_size;
    if (size <= CAY_LOG_BLOCK)
        return 0;
    struct cay_execution tail = *x;
    struct cay_reader last = *r; /* takes the block over */
    r->block = NULL;
    cay_reader_rest(r);
    last.offset = (size - 1) - (size - 1) % CAY_LOG_BLOCK;
    int ret = walk(&last, UINT64_MAX, &tail, err);
    cay_reader_rest(&last);
    if (ret == 1) {
        /* one more question tells whether there is a hole of a block or more before it */
        off_t hole = lseek(r->fd, 0, SEEK_HOLE);
        tail.truncated |= hole >= 0 && (uint64_t)hole + CAY_LOG_BLOCK <= size;
        *x = tail;
        return 0;
    }
    r->headers_only = true;
    ret = walk(r, UINT64_MAX, x, err);
    return ret < 0 ? ret : 0;
}

int cay_log_summary(int fd, struct cay_arena *a, struct cay_execution *out, struct cay_error *err)
{
    struct cay_execution x = *out;
    x.status = CAY_EXEC_RUNNING;
    x.reason = NULL;
    x.exit_code = x.signal = 0;
    x.ended_at_ms = x.duration_ms = 0;
    x.stdout_bytes = x.stderr_bytes = x.cpu_ms = x.peak_bytes = 0;
    x.truncated = x.counted = false;
    x.process[0] = 0;

    CAY_CLEANUP(cay_reader_rest) struct cay_reader r;
    struct cay_record rec;
    cay_reader_init(&r, fd, 0);
    int ret = cay_reader_next(&r, &rec, err);
    if (ret < 0)
        return ret;
    if (ret == CAY_READ_END)
        return cay_fail_as(err, CAY_ERR_INTERNAL, "LOG_DAMAGED", "execution log is empty");
    x.started_at_ms = rec.time_ms;
    ret = cay_log_spec_read(a, rec.data, rec.len, &x, err);
    if (ret < 0)
        return ret;

    bool one_block = r.ended; /* the read saw the end of the file */
    ret = walk(&r, CAY_LOG_BLOCK, &x, err);
    if (ret == 0 && !one_block)
        ret = walk_rest(&r, &x, err);
    if (ret < 0)
        return ret;
    *out = x;
    return 0;
}
