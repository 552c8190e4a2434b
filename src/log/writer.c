/* SPDX-License-Identifier: Apache-2.0 */
/* Appending to a log: what belongs together goes out in one write, behind the last whole record.
 *
 * A write that the disk takes only in part is cut off again, so the file always ends with a whole
 * record; the bytes are counted, and a GAP record goes ahead of the next that is taken. The cap is
 * held by punching before writing: where the file system cannot, output past the cap is dropped. */
#include "log/writer.h"
#include "model/limits.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>

#define BATCH_RECORDS 4
#define PUNCH_STEP_MAX (16 * (uint64_t)CAY_LOG_BLOCK)

/* Records on their way into one write. */
struct batch {
    struct cay_record_head heads[BATCH_RECORDS];
    struct iovec iov[3 * BATCH_RECORDS];
    int records, count;
    uint64_t start, at; /* file offsets: of the first byte, of the next */
};

static uint64_t block_floor(uint64_t offset)
{
    return offset - offset % CAY_LOG_BLOCK;
}

static uint64_t block_ceil(uint64_t offset)
{
    return block_floor(offset + CAY_LOG_BLOCK - 1);
}

void cay_writer_init(struct cay_writer *w, int fd, uint64_t head_bytes, uint64_t tail_bytes)
{
    struct stat st = {0};
    (void)fstat(fd, &st); /* a descriptor that is none fails at the first write, and is counted */
    head_bytes = block_ceil(head_bytes ? head_bytes : 1);
    tail_bytes = block_ceil(tail_bytes ? tail_bytes : 1);
    *w = (struct cay_writer){.fd = fd,
                             .offset = (uint64_t)st.st_size,
                             .punched = head_bytes,
                             .head_bytes = head_bytes,
                             .tail_bytes = tail_bytes};
}

static void add_bytes(struct batch *b, const void *data, size_t len)
{
    b->iov[b->count++] = (struct iovec){.iov_base = (void *)(uintptr_t)data, .iov_len = len};
    b->at += len;
}

/* At least `least` bytes of data get room in one record; what is left of the block goes otherwise.
 */
static void add_pad(struct batch *b, size_t least)
{
    static const char zeros[CAY_RECORD_PAD_MAX];
    uint64_t pad = block_ceil(b->at) - b->at;
    if (pad && cay_record_room(b->at) < least)
        add_bytes(b, zeros, pad <= sizeof zeros ? pad : sizeof zeros);
}

static void add_record(struct batch *b, enum cay_record_kind kind, const void *data, size_t len,
                       int64_t time_ms)
{
    struct cay_record_head *head = &b->heads[b->records++];
    *head = (struct cay_record_head){
        .kind = (uint8_t)kind, .version = 1, .len = (uint32_t)len, .time_ms = time_ms};
    add_bytes(b, head, sizeof *head);
    add_bytes(b, data, len);
}

static void begin(struct batch *b, const struct cay_writer *w, int64_t time_ms)
{
    b->records = b->count = 0;
    b->start = b->at = w->offset;
    if (w->dropped) {
        add_pad(b, sizeof w->dropped);
        add_record(b, CAY_RECORD_GAP, &w->dropped, sizeof w->dropped, time_ms);
    }
}

static bool commit(struct cay_writer *w, const struct batch *b)
{
    ssize_t n;
    do
        n = pwritev(w->fd, b->iov, b->count, (off_t)b->start);
    while (n < 0 && errno == EINTR);
    if (n >= 0 && (uint64_t)n == b->at - b->start) {
        w->offset = b->at;
        w->dropped = 0;
        return true;
    }
    if (n > 0) /* if even this fails, readers meet an unfinished record and wait */
        (void)!ftruncate(w->fd, (off_t)b->start);
    return false;
}

static bool punch_range(const struct cay_writer *w, uint64_t from, uint64_t to)
{
    return from >= to || fallocate(w->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)from,
                                   (off_t)(to - from)) == 0;
}

/* Makes room under the cap; false when the file would pass it. */
static bool hold_cap(struct cay_writer *w)
{
    uint64_t step = block_ceil(w->tail_bytes / 8);
    if (step > PUNCH_STEP_MAX)
        step = PUNCH_STEP_MAX;
    if (w->offset < w->punched + w->tail_bytes + step)
        return true;

    uint64_t to = block_floor(w->offset - w->tail_bytes);
    uint64_t kept = block_floor(w->exit_at);
    bool done;
    if (w->exit_at && kept >= w->punched && kept < to)
        done = punch_range(w, w->punched, kept) && punch_range(w, kept + CAY_LOG_BLOCK, to);
    else
        done = punch_range(w, w->punched, to);
    if (done)
        w->punched = to;
    return done;
}

void cay_writer_output(struct cay_writer *w, enum cay_record_kind kind, const void *data,
                       size_t len, int64_t time_ms)
{
    const char *at = data;
    while (len) {
        struct batch b;
        size_t taken = 0;
        begin(&b, w, time_ms);
        while (taken < len && b.records < BATCH_RECORDS) {
            add_pad(&b, 1);
            size_t n = cay_record_room(b.at);
            if (n > len - taken)
                n = len - taken;
            add_record(&b, kind, at + taken, n, time_ms);
            taken += n;
        }
        if (!hold_cap(w) || !commit(w, &b)) {
            w->dropped += taken;
            w->gaps = true;
        }
        at += taken;
        len -= taken;
    }
}

bool cay_writer_record(struct cay_writer *w, enum cay_record_kind kind, const void *data,
                       size_t len, int64_t time_ms)
{
    struct batch b;
    begin(&b, w, time_ms);
    add_pad(&b, len);
    if (len > cay_record_room(b.at))
        return false; /* only a SPEC is so large, and it stands first */
    uint64_t at = b.at;
    add_record(&b, kind, data, len, time_ms);
    if (!commit(w, &b))
        return false;
    if (kind == CAY_RECORD_EXIT)
        w->exit_at = at;
    return true;
}

bool cay_writer_past_head(const struct cay_writer *w)
{
    return w->offset > w->head_bytes;
}
