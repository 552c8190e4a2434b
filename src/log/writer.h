/* SPDX-License-Identifier: Apache-2.0 */
/* Appends records to an execution's log and keeps it under its cap. Part of cay-init: it allocates
 * nothing and opens nothing. */
#pragma once
#include "log/record.h"
#include <stdbool.h>
#include <stddef.h>

struct cay_writer {
    int fd;                          /* borrowed; a regular file, not O_APPEND */
    uint64_t offset;                 /* where the next record goes */
    uint64_t punched;                /* everything between head and here is gone */
    uint64_t head_bytes, tail_bytes; /* whole blocks; what is kept of the file */
    uint64_t exit_at;                /* of the EXIT record, whose block stays; 0: none yet */
    uint64_t dropped;                /* bytes not written since the disk is full */
    bool gaps;                       /* some bytes were dropped, ever */
};

/* Starts behind what the file already holds (the SPEC record). The caps are rounded up to blocks.
 */
void cay_writer_init(struct cay_writer *w, int fd, uint64_t head_bytes, uint64_t tail_bytes);
/* Bytes of any length, cut into records. A full disk is not an error: they are counted in dropped
 * and told by a GAP record as soon as there is room. */
void cay_writer_output(struct cay_writer *w, enum cay_record_kind kind, const void *data,
                       size_t len, int64_t time_ms);
/* One whole record (SPEC, EXIT) that fits a block; false when the disk did not take it: the caller
 * tries again. */
bool cay_writer_record(struct cay_writer *w, enum cay_record_kind kind, const void *data,
                       size_t len, int64_t time_ms);
/* Past the head, output is limited by CAY_LOG_RATE_BYTES; whoever pumps asks here first. */
bool cay_writer_past_head(const struct cay_writer *w);
