/* SPDX-License-Identifier: Apache-2.0 */
/* Was it the kernel for want of memory? A SIGKILL that was not ours, and a counter that rose since
 * the command began. What was seen of the counter is remembered with its time, so that an older
 * kill of some background process is not taken for the end of a later command. */
#pragma once
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct cay_oom {
    pthread_mutex_t lock;
    struct cay_oom_seen *first; /* only sandboxes whose counter is not 0 */
    unsigned count;
};

void cay_oom_init(struct cay_oom *o);
void cay_oom_done(struct cay_oom *o);
/* The counter now. */
void cay_oom_saw(struct cay_oom *o, const char *id, uint64_t kills, int64_t now_ms);
/* The highest count known from before that time; 0 when none. */
uint64_t cay_oom_before(struct cay_oom *o, const char *id, int64_t time_ms);
void cay_oom_forget(struct cay_oom *o,
                    const char *id); /* its counter begins again, or it is gone */
