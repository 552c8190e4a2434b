/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a log from any offset, through one block of memory.
 *
 * Nothing in the file is believed: a length must fit its block, a kind must be known, and a call
 * steps over a bounded number of empty blocks. Followers wake for every write, so a wake is one
 * read: when a read came back short, the end it saw is told without asking again. */
#include "log/reader.h"
#include "model/limits.h"
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define EMPTY_BLOCKS_MAX 256 /* that one call looks at; a hole is one step, whatever its size */
#define HEADERS_WINDOW 4096  /* what headers_only reads at once */

void cay_reader_init(struct cay_reader *r, int fd, uint64_t offset)
{
    *r = (struct cay_reader){.fd = fd, .offset = offset, .checked = offset == 0};
}

void cay_reader_rest(struct cay_reader *r)
{
    free(r->block);
    r->block = NULL;
    r->block_len = 0;
    r->ended = false;
}

void cay_reader_done(struct cay_reader *r)
{
    cay_reader_rest(r);
    cay_close_fd(&r->fd);
}

static int damaged(struct cay_error *err, uint64_t at, const char *what)
{
    return cay_fail_as(err, CAY_ERR_INTERNAL, "LOG_DAMAGED", "execution log is damaged: %s at %llu",
                       what, (unsigned long long)at);
}

static uint64_t next_border(uint64_t at)
{
    return at - at % CAY_LOG_BLOCK + CAY_LOG_BLOCK;
}

static int fill(struct cay_reader *r, uint64_t at, size_t want, struct cay_error *err)
{
    if (!r->block)
        r->block = malloc(CAY_LOG_BLOCK);
    if (!r->block)
        abort();
    r->block_len = 0;
    ssize_t n;
    do
        n = pread(r->fd, r->block, want, (off_t)at);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot read an execution log");
    r->block_at = at;
    r->block_len = (uint32_t)n;
    r->ended = (size_t)n < want;
    return 0;
}

static bool holds(const struct cay_reader *r, uint64_t at, size_t len)
{
    return at >= r->block_at && at + len <= r->block_at + r->block_len;
}

/* 1 with len bytes of the file at hand, 0 when they are not there yet: then the block is forgotten,
 * because a record that was cut off may be written anew. */
static int need(struct cay_reader *r, uint64_t at, size_t len, struct cay_error *err)
{
    if (holds(r, at, len))
        return 1;
    if (!r->ended || at < r->block_at || at > r->block_at + r->block_len) {
        size_t want = r->headers_only ? HEADERS_WINDOW : next_border(at) - at;
        int ret = fill(r, at, want > len ? want : len, err);
        if (ret < 0)
            return ret;
        if (holds(r, at, len))
            return 1;
    }
    r->block_len = 0;
    r->ended = false;
    r->skipped = 0;
    return 0;
}

static const char *check_head(const struct cay_record_head *head, uint64_t at)
{
    if (head->version != 1 || head->kind > CAY_RECORD_EXIT)
        return "unknown record";
    if (head->len > cay_record_room(at))
        return "record too long";
    if ((head->kind == CAY_RECORD_SPEC) != (at == 0))
        return "spec record not in its place";
    if (head->kind == CAY_RECORD_GAP && head->len != sizeof(uint64_t))
        return "gap record of a wrong size";
    if (head->kind == CAY_RECORD_EXIT && head->len < CAY_RECORD_EXIT_MIN)
        return "exit record of a wrong size";
    return NULL;
}

static struct cay_record_head head_at(const struct cay_reader *r, uint64_t at)
{
    struct cay_record_head head;
    memcpy(&head, r->block + (at - r->block_at), sizeof head);
    return head;
}

/* Walks the block up to the offset that a caller named: it must be the start of a record, or of
 * what is empty now. */
static int check_offset(struct cay_reader *r, struct cay_error *err)
{
    struct stat st;
    if (fstat(r->fd, &st) < 0)
        return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot look at an execution log");
    if (r->offset > (uint64_t)st.st_size)
        return cay_fail(err, CAY_ERR_INVALID, "offset %llu is behind the end of the log",
                        (unsigned long long)r->offset);
    uint64_t at = r->offset - r->offset % CAY_LOG_BLOCK;
    int ret = fill(r, at, CAY_LOG_BLOCK, err);
    if (ret < 0)
        return ret;
    while (at < r->offset && cay_record_room(at) && holds(r, at, sizeof(struct cay_record_head))) {
        struct cay_record_head head = head_at(r, at);
        if (head.kind == CAY_RECORD_PAD) /* whatever was there is gone */
            at = r->offset;
        else if (check_head(&head, at))
            break;
        else
            at += sizeof head + head.len;
    }
    bool in_pad = at < r->offset && !cay_record_room(at);
    if (at != r->offset && !in_pad)
        return cay_fail(err, CAY_ERR_INVALID, "no record begins at offset %llu",
                        (unsigned long long)r->offset);
    r->checked = true;
    return 0;
}

/* From the start of something empty to the next place that may hold a record; 0 when the rest of
 * the file is a hole. */
static uint64_t step_over(struct cay_reader *r, uint64_t at)
{
    uint64_t border = next_border(at);
    if (border - at <= CAY_RECORD_PAD_MAX)
        return border;
    off_t data = lseek(r->fd, (off_t)at, SEEK_DATA);
    if (data < 0 && errno == ENXIO)
        return 0;
    uint64_t to = data < 0 ? 0 : (uint64_t)data - (uint64_t)data % CAY_LOG_BLOCK;
    if (to < border)
        to = border;
    r->skipped += to - at;
    return to;
}

/* The bytes of the record at `at` are at hand, or known to exist when only its head is wanted. */
static int need_body(struct cay_reader *r, uint64_t at, const struct cay_record_head *head,
                     bool head_only, struct cay_error *err)
{
    size_t len = sizeof *head + head->len;
    if (!head_only || holds(r, at, len))
        return need(r, at, len, err);
    return need(r, at + len - 1, 1, err); /* the window goes on to the next head */
}

int cay_reader_next(struct cay_reader *r, struct cay_record *out, struct cay_error *err)
{
    r->skipped = 0;
    int ret = r->checked ? 0 : check_offset(r, err);
    if (ret < 0)
        return ret;

    uint64_t at = r->offset;
    for (int empty = 0; empty < EMPTY_BLOCKS_MAX; empty++) {
        if (!cay_record_room(at))
            at = next_border(at);
        ret = need(r, at, sizeof(struct cay_record_head), err);
        if (ret <= 0)
            return ret;
        struct cay_record_head head = head_at(r, at);
        if (head.kind == CAY_RECORD_PAD) {
            at = step_over(r, at);
            if (!at) {
                r->skipped = 0;
                return CAY_READ_END;
            }
            continue;
        }
        const char *fault = check_head(&head, at);
        if (fault)
            return damaged(err, at, fault);
        bool head_only =
            r->headers_only && (head.kind == CAY_RECORD_STDOUT || head.kind == CAY_RECORD_STDERR);
        ret = need_body(r, at, &head, head_only, err);
        if (ret <= 0)
            return ret;
        *out = (struct cay_record){.kind = head.kind,
                                   .offset = at,
                                   .next = at + sizeof head + head.len,
                                   .time_ms = head.time_ms,
                                   .len = head.len};
        if (!head_only)
            out->data = r->block + (at + sizeof head - r->block_at);
        r->offset = out->next;
        return CAY_READ_RECORD;
    }
    return damaged(err, at, "too many empty blocks");
}
