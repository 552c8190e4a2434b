/* SPDX-License-Identifier: Apache-2.0 */
/* What wakes a stream that waits. One inotify for all; readers of one file share its watch,
 * which goes with the last of them. Where no watch can be had the stream is pulled by the clock.
 * Pipes are in the loop's own epoll set, named by their connection's address with the lowest bit
 * set. */
#include "http/conn.h"
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>

struct cay_watch {
    int wd;
    struct cay_conn *conns;
    struct cay_watch *next; /* in the bucket */
};

static struct cay_watch **bucket_of(struct cay_http_server *s, int wd)
{
    return &s->watches[(unsigned)wd % CAY_HTTP_WATCHES];
}

static struct cay_watch *find(struct cay_http_server *s, int wd)
{
    struct cay_watch *w = *bucket_of(s, wd);
    while (w && w->wd != wd)
        w = w->next;
    return w;
}

static void *far_tag(struct cay_conn *c)
{
    return (char *)c + 1;
}

struct cay_conn *cay_far_of(void *tag)
{
    return (uintptr_t)tag & 1 ? (struct cay_conn *)(void *)((char *)tag - 1) : NULL;
}

bool cay_far_watch(struct cay_http_server *s, struct cay_conn *c, int fd, uint32_t events)
{
    struct epoll_event ev = {.events = events | EPOLLET, .data.ptr = far_tag(c)};
    if (epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0)
        return false;
    c->far_fd = fd;
    return true;
}

void cay_far_forget(struct cay_http_server *s, struct cay_conn *c)
{
    if (c->far_fd >= 0)
        (void)epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, c->far_fd, NULL); /* it is in the set */
    c->far_fd = -1;
}

void cay_watch_add(struct cay_http_server *s, struct cay_conn *c)
{
    char path[40];
    int wd = -1;
    if (c->stream->is_pipe && cay_far_watch(s, c, c->stream->watch_fd, EPOLLIN))
        return;
    if (!c->stream->is_pipe && c->stream->watch_fd >= 0) {
        (void)snprintf(path, sizeof path, "/proc/self/fd/%d", c->stream->watch_fd);
        wd = inotify_add_watch(s->inotify_fd, path, IN_MODIFY);
    }
    if (wd < 0) {
        c->polled = true;
        s->polled++;
        return;
    }
    struct cay_watch *w = find(s, wd);
    if (!w) {
        w = calloc(1, sizeof *w);
        if (!w)
            abort();
        *w = (struct cay_watch){.wd = wd, .next = *bucket_of(s, wd)};
        *bucket_of(s, wd) = w;
    }
    c->watch = w;
    c->watch_prev = NULL;
    c->watch_next = w->conns;
    if (w->conns)
        w->conns->watch_prev = c;
    w->conns = c;
}

static void drop_watch(struct cay_http_server *s, struct cay_watch *w)
{
    struct cay_watch **at = bucket_of(s, w->wd);
    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
    (void)inotify_rm_watch(s->inotify_fd, w->wd); /* gone already when the file is */
    free(w);
}

void cay_watch_remove(struct cay_http_server *s, struct cay_conn *c)
{
    struct cay_watch *w = c->watch;
    cay_far_forget(s, c);
    if (c->polled)
        s->polled--;
    c->polled = false;
    if (!w)
        return;
    c->watch = NULL;
    if (c->watch_prev)
        c->watch_prev->watch_next = c->watch_next;
    else
        w->conns = c->watch_next;
    if (c->watch_next)
        c->watch_next->watch_prev = c->watch_prev;
    c->watch_prev = c->watch_next = NULL;
    if (!w->conns)
        drop_watch(s, w);
}

static void wake(struct cay_http_server *s, const struct inotify_event *event)
{
    if (event->mask & IN_Q_OVERFLOW) { /* some were lost, nobody knows whose */
        for (struct cay_conn *c = s->conns; c; c = c->next)
            if (atomic_load(&c->hold) == CAY_HOLD_LOOP && c->stream)
                cay_pump_later(s, c);
        return;
    }
    struct cay_watch *w = find(s, event->wd);
    for (struct cay_conn *c = w ? w->conns : NULL; c; c = c->watch_next)
        cay_pump_later(s, c);
}

void cay_watch_read(struct cay_http_server *s)
{
    _Alignas(struct inotify_event) char events[4096];
    ssize_t n = read(s->inotify_fd, events, sizeof events);
    for (ssize_t at = 0; at < n;) {
        const struct inotify_event *event = (const struct inotify_event *)(events + at);
        wake(s, event);
        at += (ssize_t)(sizeof *event + event->len);
    }
}
