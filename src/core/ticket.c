/* SPDX-License-Identifier: Apache-2.0 */
#include "core/ticket.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

struct cay_ticket {
    atomic_int holders;
    atomic_bool over; /* after err was written */
    struct cay_error err;
    int read_fd, write_fd;
    pthread_mutex_t lock; /* of what follows, and of the step to `over` */
    void (*then)(void *arg);
    void *arg;
};

struct cay_ticket *cay_ticket_new(struct cay_error *err)
{
    struct cay_ticket *t = calloc(1, sizeof *t);
    int fds[2];
    if (!t)
        abort();
    if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0) {
        (void)cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot make a pipe");
        free(t);
        return NULL;
    }
    atomic_store(&t->holders, 2);
    pthread_mutex_init(&t->lock, NULL);
    t->read_fd = fds[0];
    t->write_fd = fds[1];
    return t;
}

void cay_ticket_free(struct cay_ticket *t)
{
    if (!t || atomic_fetch_sub(&t->holders, 1) > 1)
        return;
    cay_close_fd(&t->read_fd);
    cay_close_fd(&t->write_fd);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

void cay_ticket_then(struct cay_ticket *t, void (*then)(void *arg), void *arg)
{
    pthread_mutex_lock(&t->lock);
    bool over = atomic_load(&t->over);
    t->then = then;
    t->arg = arg;
    pthread_mutex_unlock(&t->lock);
    if (over)
        then(arg);
}

void cay_ticket_done(struct cay_ticket *t, const struct cay_error *err)
{
    if (!t)
        return;
    if (err)
        t->err = *err;
    pthread_mutex_lock(&t->lock);
    atomic_store(&t->over, true);
    void (*then)(void *arg) = t->then;
    pthread_mutex_unlock(&t->lock);
    (void)!write(t->write_fd, "", 1); /* a pipe of its own has room for one byte */
    if (then)
        then(t->arg);
    cay_ticket_free(t);
}

int cay_ticket_fd(const struct cay_ticket *t)
{
    return t->read_fd;
}

bool cay_ticket_is_over(const struct cay_ticket *t)
{
    return atomic_load(&t->over);
}

int cay_ticket_verdict(struct cay_ticket *t, struct cay_error *err)
{
    struct pollfd p = {.fd = t->read_fd, .events = POLLIN};
    while (!atomic_load(&t->over) && (poll(&p, 1, -1) >= 0 || errno == EINTR))
        continue;
    if (t->err.code != CAY_OK)
        *err = t->err;
    return t->err.code;
}
