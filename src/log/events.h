/* SPDX-License-Identifier: Apache-2.0 */
/* What happened to an account's sandboxes, for whoever follows it: EVENTS/<account>.jsonl, one JSON
 * object a line, each appended by one write. Where a line ends is its id: who read up to there goes
 * on there, by the file's own offset.
 *
 * What is old, or more than CAY_EVENTS_BYTES, is punched out of the front: offsets stay, the file
 * stays the same one for those who watch it, and who comes back to a place that is gone is told. */
#pragma once
#include "base/buf.h"
#include "base/error.h"
#include <stdbool.h>
#include <stdint.h>

struct cay_event {
    const char *type; /* a word: "created", "running"… */
    const char *account_id;
    const char *sandbox_id, *name, *status;
    const char *reason, *message; /* why it is so; or NULL */
    const char *from;             /* what it was made of; or NULL */
    const char *snapshot_id;      /* or NULL */
    int64_t time_ms;
};

int cay_events_append(int events_fd, const struct cay_event *e, struct cay_error *err);
/* For reading and for watching; an account without events has an empty file. */
int cay_events_open(int events_fd, const char *account_id, int *fd_out, struct cay_error *err);
/* Of every account: punches out what is older than that, or too much. */
void cay_events_trim(int events_fd, int64_t before_ms);

struct cay_events_reader {
    int fd; /* borrowed */
    uint64_t offset;
    struct cay_buf chunk; /* the file's bytes from `offset` on */
    size_t at;            /* in it */
};

enum cay_events_got {
    CAY_EVENTS_LINE,
    CAY_EVENTS_GAP, /* what was here is gone; reader.offset is where it goes on */
    CAY_EVENTS_END, /* for now */
};

/* May offset be where a line ends? So is 0, and what was punched out; never behind the end. */
bool cay_events_may_resume(int fd, uint64_t offset);
/* The line without its end; it lives until the next call. reader.offset is its id. */
enum cay_events_got cay_events_next(struct cay_events_reader *r, const char **line, size_t *len);
void cay_events_reader_done(struct cay_events_reader *r);
