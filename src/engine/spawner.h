/* SPDX-License-Identifier: Apache-2.0 */
/* Spawners: single-threaded processes that do the engine's real work, one job at a time, while the
 * dispatcher goes on. One that is late is killed and replaced. */
#pragma once
#include "engine/berth.h"
#include "engine/engine.h"
#include "engine/message.h"
#include <sys/types.h>

enum cay_job_op {
    CAY_JOB_CREATE = 1, /* from nothing to running; brings a berth */
    CAY_JOB_START = 2,  /* from its files to running; brings a berth */
    CAY_JOB_CLEAN = 3,  /* it is down: cgroup away */
    CAY_JOB_REMOVE = 4, /* cgroup, files and record away; or `volume` kept of it */
    CAY_JOB_FREEZE = 5, /* every process stands still */
    CAY_JOB_THAW = 6,
    CAY_JOB_SNAPSHOT = 7, /* `id` from the files of `other` */
    CAY_JOB_UNDO = 8,     /* what one that was lost left unfinished */
    CAY_JOB_LIMIT = 9,    /* what it may have, from now on */
};

struct cay_job {
    uint32_t op;
    uint32_t base; /* of the berth; its descriptors come beside */
    pid_t hull;
    struct cay_engine_request request;
};

struct cay_job_reply {
    int32_t code;
    struct cay_error err;
    char err_name[32];
    uint32_t left; /* a create failed, and so did taking it back */
    pid_t pid;
    uint64_t start_ticks;
    int64_t started_at_ms;
    struct cay_engine_copied copied;
};

/* The spawner's life; returns when the dispatcher is gone. */
void cay_spawner_serve(struct cay_engine *engine, int sock);
