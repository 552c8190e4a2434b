/* SPDX-License-Identifier: Apache-2.0 */
#include "base/queue.h"
#include <errno.h>
#include <stdlib.h>
#include <time.h>

void cay_queue_init(struct cay_queue *q, size_t cap)
{
    pthread_condattr_t attr;
    *q = (struct cay_queue){.cap = cap};
    q->ring = calloc(cap, sizeof *q->ring);
    if (!q->ring)
        abort();
    (void)pthread_mutex_init(&q->lock, NULL); /* these four cannot fail on Linux */
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&q->more, &attr);
    (void)pthread_condattr_destroy(&attr);
}

void cay_queue_done(struct cay_queue *q)
{
    if (!q || !q->ring)
        return;
    (void)pthread_cond_destroy(&q->more);
    (void)pthread_mutex_destroy(&q->lock);
    free(q->ring);
    q->ring = NULL;
}

bool cay_queue_push(struct cay_queue *q, void *item)
{
    (void)pthread_mutex_lock(&q->lock);
    bool fits = !q->closed && q->count < q->cap;
    if (fits) {
        q->ring[(q->head + q->count) % q->cap] = item;
        q->count++;
        (void)pthread_cond_signal(&q->more);
    }
    (void)pthread_mutex_unlock(&q->lock);
    return fits;
}

static void deadline(int64_t timeout_ms, struct timespec *out)
{
    (void)clock_gettime(CLOCK_MONOTONIC, out);
    out->tv_sec += timeout_ms / 1000;
    out->tv_nsec += timeout_ms % 1000 * 1000000;
    if (out->tv_nsec >= 1000000000) {
        out->tv_sec++;
        out->tv_nsec -= 1000000000;
    }
}

void *cay_queue_pop(struct cay_queue *q, int64_t timeout_ms)
{
    struct timespec until;
    void *item = NULL;
    int r = 0;
    if (timeout_ms >= 0)
        deadline(timeout_ms, &until);
    (void)pthread_mutex_lock(&q->lock);
    while (q->count == 0 && !q->closed && r != ETIMEDOUT)
        r = timeout_ms < 0 ? pthread_cond_wait(&q->more, &q->lock)
                           : pthread_cond_timedwait(&q->more, &q->lock, &until);
    if (q->count > 0) {
        item = q->ring[q->head];
        q->head = (q->head + 1) % q->cap;
        q->count--;
    }
    (void)pthread_mutex_unlock(&q->lock);
    return item;
}

void cay_queue_close(struct cay_queue *q)
{
    (void)pthread_mutex_lock(&q->lock);
    q->closed = true;
    (void)pthread_cond_broadcast(&q->more);
    (void)pthread_mutex_unlock(&q->lock);
}
