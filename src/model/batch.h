/* SPDX-License-Identifier: Apache-2.0 */
/* Many commands over many sandboxes, and what is told of them on the way. */
#pragma once
#include "model/execution.h"
#include "model/spec.h"

enum cay_batch_mode {
    CAY_BATCH_EACH,   /* every command in every sandbox */
    CAY_BATCH_ZIP,    /* the first command in the first sandbox, and so on */
    CAY_BATCH_SPREAD, /* the commands dealt out to the sandboxes in turn */
};

struct cay_batch_command {
    struct cay_exec_spec spec;
    size_t output_limit; /* of each stream, in its result */
};

struct cay_batch_spec {
    struct cay_strs sandboxes;   /* ids or names; or none: */
    const struct cay_spec *make; /* so many of these are made */
    size_t make_count;
    bool keep; /* what was made stays */
    struct cay_batch_command *commands;
    size_t command_count;
    enum cay_batch_mode mode;
    size_t concurrency;
    const struct cay_once *once; /* or NULL */
};

enum cay_batch_event_kind {
    CAY_BATCH_BEGINS,
    CAY_BATCH_MADE,   /* a sandbox */
    CAY_BATCH_RESULT, /* of an item */
    CAY_BATCH_ERROR,  /* of an item that has none */
    CAY_BATCH_ENDS,
};

/* One line of what is told. What does not belong to its kind is zero. */
struct cay_batch_event {
    enum cay_batch_event_kind kind;
    const char *batch_id;
    const struct cay_batch_spec *spec;
    size_t items;
    size_t index, command, sandbox; /* of an item; of MADE: sandbox alone */
    const char *sandbox_id;         /* or the name it was given by */
    const struct cay_execution *ex;
    int log_fd;
    size_t output_limit;
    const struct cay_error *err;
    size_t succeeded, failed, lost; /* lost: lines that the disk did not take */
    int64_t duration_ms;
};
