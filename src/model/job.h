/* SPDX-License-Identifier: Apache-2.0 */
/* Work that lasts longer than a request: an image that is pulled, loaded or built. */
#pragma once
#include "base/error.h"
#include "base/id.h"
#include <stddef.h>
#include <stdint.h>

enum cay_job_state {
    CAY_JOB_WAITING,
    CAY_JOB_RUNNING,
    CAY_JOB_SUCCEEDED,
    CAY_JOB_FAILED,
    CAY_JOB_CANCELLED,
    CAY_JOB_LOST, /* one that this server gave out and knows no more: jobs do not outlive it */
};

struct cay_job_part { /* a layer */
    char name[16];
    const char *step; /* static: "waiting", "downloading", "unpacking", "done" */
    uint64_t done_bytes, total_bytes;
};

struct cay_job {
    char id[CAY_ID_SIZE];
    const char *kind;    /* static: "pull", "load", "build"; NULL when it is lost */
    const char *subject; /* the image; or NULL */
    enum cay_job_state state;
    const char *step;                 /* what it is at; static */
    char note[160];                   /* the last thing it said; or empty */
    uint64_t done_bytes, total_bytes; /* total 0: nobody knows */
    uint64_t bytes_per_second;
    struct cay_job_part *parts;
    size_t part_count;
    int64_t created_at_ms, started_at_ms, ended_at_ms;
    struct cay_error err; /* of one that failed */
};

struct cay_job_list {
    struct cay_job *at;
    size_t count;
};
