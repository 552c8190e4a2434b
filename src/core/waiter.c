/* SPDX-License-Identifier: Apache-2.0 */
/* A watch is set before the log is looked at for the first time, so no end is missed. Where no
 * watch can be had, and for news that the kernel dropped, all logs are looked at once a second. */
#include "core/waiter.h"
#include "core/core.h"
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>

#define LOOK_MS 1000

static bool has_ended(struct cay_core *core, struct cay_wait *w)
{
    struct cay_record rec;
    struct cay_error ignored; /* whoever reads the log next meets the same error and tells it */
    int r;
    while ((r = cay_reader_next(&w->reader, &rec, &ignored)) == CAY_READ_RECORD)
        if (rec.kind == CAY_RECORD_EXIT)
            return true;
    cay_reader_rest(&w->reader);
    return r < 0 || cay_core_lost(core, w->sandbox_id, w->exec_id);
}

/* Under the lock: takes those that ended out of the list; of one watch, or one sandbox, or all. */
static struct cay_wait *take_ended(struct cay_core *core, int wd, const char *sandbox_id)
{
    struct cay_waiter *all = &core->waiter;
    struct cay_wait *ended = NULL;
    for (struct cay_wait **at = &all->first; *at;) {
        struct cay_wait *w = *at;
        if ((wd >= 0 && w->wd != wd) || (sandbox_id && strcmp(w->sandbox_id, sandbox_id) != 0) ||
            !has_ended(core, w)) {
            at = &w->next;
            continue;
        }
        *at = w->next;
        w->next = ended;
        ended = w;
        (void)inotify_rm_watch(all->inotify_fd, w->wd); /* there was none: fine */
        cay_reader_done(&w->reader);
    }
    return ended;
}

static void look_at(struct cay_core *core, int wd, const char *sandbox_id)
{
    pthread_mutex_lock(&core->waiter.lock);
    struct cay_wait *w = take_ended(core, wd, sandbox_id);
    pthread_mutex_unlock(&core->waiter.lock);
    while (w) {
        struct cay_wait *next = w->next;
        w->ended(core, w);
        w = next;
    }
}

static void look(struct cay_core *core, int wd)
{
    look_at(core, wd, NULL);
}

void cay_wait_look(struct cay_core *core, const char *sandbox_id)
{
    look_at(core, -1, sandbox_id);
}

static void read_news(struct cay_core *core)
{
    _Alignas(struct inotify_event) char events[4096];
    ssize_t n = read(core->waiter.inotify_fd, events, sizeof events);
    for (ssize_t at = 0; at < n;) {
        const struct inotify_event *e = (const struct inotify_event *)(events + at);
        look(core, e->mask & IN_Q_OVERFLOW ? -1 : e->wd);
        at += (ssize_t)(sizeof *e + e->len);
    }
}

static void *waiter_main(void *arg)
{
    struct cay_core *core = arg;
    struct cay_waiter *all = &core->waiter;
    for (;;) {
        struct pollfd fds[] = {{.fd = all->inotify_fd, .events = POLLIN},
                               {.fd = all->wake_fd, .events = POLLIN}};
        uint64_t ignored; /* a count of wakes */
        pthread_mutex_lock(&all->lock);
        bool idle = !all->first, closing = all->closing;
        pthread_mutex_unlock(&all->lock);
        if (closing)
            return NULL;
        int ready = poll(fds, CAY_COUNT(fds), idle ? -1 : LOOK_MS);
        if (ready == 0)
            look(core, -1);
        if (ready > 0 && fds[0].revents)
            read_news(core);
        if (ready > 0 && fds[1].revents)
            (void)!read(all->wake_fd, &ignored, sizeof ignored);
    }
}

static void wake(struct cay_waiter *all)
{
    const uint64_t one = 1;
    (void)!write(all->wake_fd, &one, sizeof one); /* full: it is awake anyway */
}

void cay_wait_for(struct cay_core *core, struct cay_wait *w, int log_fd)
{
    struct cay_waiter *all = &core->waiter;
    char path[40];
    cay_reader_init(&w->reader, log_fd, 0);
    w->reader.headers_only = true;
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", log_fd);
    w->wd = inotify_add_watch(all->inotify_fd, path, IN_MODIFY);
    pthread_mutex_lock(&all->lock);
    int wd = w->wd; /* once it is in the list it may end at any moment */
    bool first = !all->first;
    w->next = all->first;
    all->first = w;
    pthread_mutex_unlock(&all->lock);
    if (first)
        wake(all);
    look(core, wd);
}

void cay_waiter_init(struct cay_waiter *w)
{
    *w = (struct cay_waiter){.inotify_fd = -1, .wake_fd = -1};
    pthread_mutex_init(&w->lock, NULL);
}

static int start(struct cay_core *core, struct cay_error *err)
{
    struct cay_waiter *w = &core->waiter;
    if (w->inotify_fd < 0)
        w->inotify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (w->wake_fd < 0)
        w->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (w->inotify_fd < 0 || w->wake_fd < 0)
        return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot watch logs");
    errno = pthread_create(&w->thread, NULL, waiter_main, core);
    return errno == 0 ? 0 : cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot start a thread");
}

int cay_waiter_start(struct cay_core *core, struct cay_error *err)
{
    struct cay_waiter *w = &core->waiter;
    int r = 0;
    pthread_mutex_lock(&w->lock);
    if (!w->running)
        r = start(core, err);
    w->running = r == 0;
    pthread_mutex_unlock(&w->lock);
    return r;
}

void cay_waiter_done(struct cay_waiter *w)
{
    if (w->running) {
        pthread_mutex_lock(&w->lock);
        w->closing = true;
        pthread_mutex_unlock(&w->lock);
        wake(w);
        pthread_join(w->thread, NULL);
    }
    for (struct cay_wait *at = w->first; at; at = at->next)
        cay_reader_done(&at->reader);
    cay_close_fd(&w->inotify_fd);
    cay_close_fd(&w->wake_fd);
    pthread_mutex_destroy(&w->lock);
}
