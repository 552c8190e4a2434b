/* SPDX-License-Identifier: Apache-2.0 */
/* A bounded queue of pointers between threads. */
#pragma once
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cay_queue {
    pthread_mutex_t lock;
    pthread_cond_t more;
    void **ring;
    size_t cap, head, count;
    bool closed;
};

void cay_queue_init(struct cay_queue *q, size_t cap);
void cay_queue_done(struct cay_queue *q);             /* what is still in it is not freed */
bool cay_queue_push(struct cay_queue *q, void *item); /* false when full or closed */
/* The next item; NULL when closed and empty, or when timeout_ms (< 0: none) passed. */
void *cay_queue_pop(struct cay_queue *q, int64_t timeout_ms);
void cay_queue_close(struct cay_queue *q);
