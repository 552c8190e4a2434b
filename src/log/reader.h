/* SPDX-License-Identifier: Apache-2.0 */
/* Reads an execution's log from any offset. The input is hostile: every length is checked. */
#pragma once
#include "base/arena.h"
#include "base/error.h"
#include "log/record.h"
#include "model/execution.h"

struct cay_record {
    enum cay_record_kind kind;
    uint64_t offset; /* of this record: what `id:` carries is `next`, where to go on */
    uint64_t next;
    int64_t time_ms;
    const char *data; /* valid until the next call */
    uint32_t len;
};

struct cay_reader {
    int fd; /* cay_reader_done closes it; who borrows it ends with cay_reader_rest */
    uint64_t offset;
    uint64_t skipped;  /* file bytes of a punched hole that the last call stepped over, else 0 */
    bool headers_only; /* do not fetch the bytes of output records (data is NULL, len is right) */
    char *block;       /* made at the first read, given back by cay_reader_rest */
    uint64_t block_at;
    uint32_t block_len;
    bool ended;   /* the block reached the end of the file when it was read */
    bool checked; /* offset is known to be the start of a record */
};

enum cay_read {
    CAY_READ_RECORD = 1,
    CAY_READ_END = 0, /* nothing more yet */
};

void cay_reader_init(struct cay_reader *r, int fd, uint64_t offset);
/* CAY_READ_RECORD, CAY_READ_END, or CAY_ERR_INTERNAL "LOG_DAMAGED" when the file is no log. A
 * record whose bytes are not all there yet counts as END. A first offset inside a record or behind
 * the end is CAY_ERR_INVALID. What was written after the call before last may be told by the next
 * call only: whoever follows waits for a change of the file after each END, with a watch that is
 * older. */
int cay_reader_next(struct cay_reader *r, struct cay_record *out, struct cay_error *err);
void cay_reader_rest(
    struct cay_reader *r); /* frees the block: followers that wait hold no memory */
void cay_reader_done(struct cay_reader *r); /* closes fd too */

/* The whole story: spec, output sizes, exit; the ids are the caller's to fill. `lost` is not
 * decided here (status is RUNNING without an exit record). One read for a log of one block. */
int cay_log_summary(int fd, struct cay_arena *a, struct cay_execution *out, struct cay_error *err);
