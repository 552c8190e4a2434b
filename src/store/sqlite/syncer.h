/* SPDX-License-Identifier: Apache-2.0 */
/* A thread that brings the log to the disk while those who asked do something else. */
#pragma once
#include "store/sqlite/checkpoint.h"
#include <stdint.h>

struct cay_sqlite_syncer {
    int dir_fd; /* borrowed */
    int log_fd; /* opened when it is first needed */
    struct cay_sqlite_checkpoint *checkpoint;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t more, done;
    uint64_t wanted, finished;         /* by number of wish */
    uint64_t failed_from, failed_upto; /* wishes that the last failure was about */
    bool started, closed;
};

int cay_sqlite_syncer_open(struct cay_sqlite_syncer *y, int dir_fd,
                           struct cay_sqlite_checkpoint *checkpoint, struct cay_error *err);
void cay_sqlite_syncer_close(struct cay_sqlite_syncer *y);
/* Everything committed by now, whoever did it. */
uint64_t cay_sqlite_syncer_begin(struct cay_sqlite_syncer *y);
int cay_sqlite_syncer_end(struct cay_sqlite_syncer *y, uint64_t wish, struct cay_error *err);
