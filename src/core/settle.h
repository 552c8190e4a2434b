/* SPDX-License-Identifier: Apache-2.0 */
/* Finding out what a log alone cannot tell: that a command is lost, that memory ran out. Done by a
 * thread of its own where the asker may not block; the answer is a fact beside the log, and a touch
 * of the log wakes whoever follows it. What cannot be recorded, as on a full disk, is tried again
 * until it is: somebody may be waiting for it. */
#pragma once
#include "base/error.h"
#include "base/id.h"
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct cay_core;

struct cay_settler {
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct cay_settler_job *first, *last; /* the first is under work */
    struct cay_settler_job *later;        /* those that failed, until again_ms (monotonic) */
    int64_t again_ms;
    unsigned count; /* of both */
    bool running, closing;
    pthread_t thread;
};

void cay_settler_init(struct cay_settler *s);
int cay_settler_start(struct cay_core *core, struct cay_error *err);
void cay_settler_done(struct cay_settler *s); /* what is not begun is left: a restart finds it */
/* Settles one execution, or with exec_id NULL all of a sandbox that ended; false when too many
 * wait, which is told of single ones only. Without its thread it is done at once. */
bool cay_settle(struct cay_core *core, const char *sandbox_id, const char *exec_id);
