/* SPDX-License-Identifier: Apache-2.0 */
/* A short list, the newest last: who comes takes the newest, so that the rest grow old and go. An
 * epoll of its own watches those that lay here at the last sweep, and is itself one descriptor in
 * the loop's: one that is taken again at once costs no call of epoll. */
#include "http/pool.h"
#include "base/attr.h"
#include "base/str.h"
#include "model/limits.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define EVENTS 64

struct idle {
    int fd;
    bool watched;
    int64_t since_ms;
    char key[CAY_POOL_KEY];
};

struct cay_pool {
    pthread_mutex_t lock;
    int epoll_fd;
    size_t count;
    struct idle at[CAY_PROXY_POOL];
};

int cay_pool_new(struct cay_pool **out, struct cay_error *err)
{
    struct cay_pool *p = calloc(1, sizeof *p);
    if (!p)
        abort();
    p->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (p->epoll_fd < 0) {
        free(p);
        return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot set up the pool of connections");
    }
    (void)pthread_mutex_init(&p->lock, NULL); /* cannot fail on Linux */
    *out = p;
    return 0;
}

void cay_pool_free(struct cay_pool *p)
{
    if (!p)
        return;
    for (size_t i = 0; i < p->count; i++)
        cay_close_fd(&p->at[i].fd);
    cay_close_fd(&p->epoll_fd);
    (void)pthread_mutex_destroy(&p->lock);
    free(p);
}

int cay_pool_fd(const struct cay_pool *p)
{
    return p->epoll_fd;
}

static int remove_at(struct cay_pool *p, size_t i)
{
    int fd = p->at[i].fd;
    if (p->at[i].watched)
        (void)epoll_ctl(p->epoll_fd, EPOLL_CTL_DEL, fd, NULL); /* it is in the set */
    memmove(&p->at[i], &p->at[i + 1], (--p->count - i) * sizeof p->at[0]);
    return fd;
}

static void close_at(struct cay_pool *p, size_t i)
{
    int fd = remove_at(p, i);
    cay_close_fd(&fd);
}

static bool is_quiet(int fd)
{
    char byte;
    return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0;
}

int cay_pool_take(struct cay_pool *p, const char *key)
{
    int found = -1;
    (void)pthread_mutex_lock(&p->lock);
    for (size_t i = p->count; i-- > 0 && found < 0;) {
        if (strcmp(p->at[i].key, key) != 0)
            continue;
        if (is_quiet(p->at[i].fd))
            found = remove_at(p, i);
        else
            close_at(p, i);
    }
    (void)pthread_mutex_unlock(&p->lock);
    return found;
}

int cay_spare_take(struct cay_spare *s, const char *key)
{
    return s->fd >= 0 && strcmp(s->key, key) == 0 ? cay_take_fd(&s->fd) : -1;
}

void cay_pool_give(struct cay_pool *p, const char *key, int fd, int64_t now_ms)
{
    size_t same = 0, oldest = 0;
    (void)pthread_mutex_lock(&p->lock);
    for (size_t i = p->count; i-- > 0;)
        if (strcmp(p->at[i].key, key) == 0) {
            same++;
            oldest = i;
        }
    if (same >= CAY_PROXY_POOL_EACH)
        close_at(p, oldest);
    else if (p->count == CAY_PROXY_POOL)
        close_at(p, 0);
    struct idle *i = &p->at[p->count++];
    *i = (struct idle){.fd = fd, .since_ms = now_ms};
    cay_str_copy(i->key, sizeof i->key, key);
    (void)pthread_mutex_unlock(&p->lock);
}

/* One that cannot be watched is not kept. Who ended before shows at once. */
static void watch_all(struct cay_pool *p)
{
    for (size_t i = p->count; i-- > 0;) {
        struct epoll_event ev = {.events = EPOLLIN | EPOLLRDHUP, .data.fd = p->at[i].fd};
        if (p->at[i].watched)
            continue;
        p->at[i].watched = epoll_ctl(p->epoll_fd, EPOLL_CTL_ADD, p->at[i].fd, &ev) == 0;
        if (!p->at[i].watched)
            close_at(p, i);
    }
}

void cay_pool_sweep(struct cay_pool *p, int64_t now_ms)
{
    struct epoll_event events[EVENTS];
    (void)pthread_mutex_lock(&p->lock);
    watch_all(p);
    int n = epoll_wait(p->epoll_fd, events, EVENTS, 0);
    for (int e = 0; e < n; e++)
        for (size_t i = 0; i < p->count; i++)
            if (p->at[i].fd == events[e].data.fd) {
                close_at(p, i);
                break;
            }
    while (p->count > 0 && now_ms - p->at[0].since_ms >= CAY_PROXY_POOL_MS)
        close_at(p, 0);
    (void)pthread_mutex_unlock(&p->lock);
}
