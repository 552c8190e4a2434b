/* SPDX-License-Identifier: Apache-2.0 */
#include "net/loop.h"
#include "base/await.h"
#include "base/clock.h"
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#define EVENTS 128
#define SLEEP_MAX_MS 60000

struct task {
    struct task *next;
    void (*run)(void *arg);
    void *arg;
    sem_t *done; /* NULL: nobody waits */
};

struct cay_loop {
    int epoll_fd, wake_fd;
    pthread_t thread;
    struct cay_deadlines *timers;
    struct cay_turn turns;
    struct epoll_event events[EVENTS];
    int event_count;
    bool brisk;

    pthread_mutex_t lock; /* guards what follows */
    struct task *first, **last;
    bool closing;
};

/* ---- from any thread ---- */

static void add_task(struct cay_loop *loop, const struct task *wanted)
{
    uint64_t one = 1;
    struct task *t = malloc(sizeof *t);
    if (!t)
        abort();
    *t = *wanted;
    pthread_mutex_lock(&loop->lock);
    bool idle = !loop->first;
    *loop->last = t;
    loop->last = &t->next;
    pthread_mutex_unlock(&loop->lock);
    if (idle)
        (void)!write(loop->wake_fd, &one, sizeof one); /* nobody lives to see it full */
}

void cay_loop_post(struct cay_loop *loop, void (*run)(void *arg), void *arg)
{
    add_task(loop, &(struct task){.run = run, .arg = arg});
}

void cay_loop_ask(struct cay_loop *loop, void (*run)(void *arg), void *arg)
{
    sem_t done;
    sem_init(&done, 0, 0);
    add_task(loop, &(struct task){.run = run, .arg = arg, .done = &done});
    while (sem_wait(&done) < 0 && errno == EINTR)
        ;
    sem_destroy(&done);
}

/* ---- in its own thread ---- */

static bool run_tasks(struct cay_loop *loop)
{
    pthread_mutex_lock(&loop->lock);
    struct task *t = loop->first;
    bool closing = loop->closing;
    loop->first = NULL;
    loop->last = &loop->first;
    pthread_mutex_unlock(&loop->lock);
    while (t) {
        struct task *next = t->next;
        t->run(t->arg);
        if (t->done)
            sem_post(t->done);
        free(t);
        t = next;
    }
    return !closing;
}

static bool is_empty(const struct cay_deadline *list)
{
    return list->next == list;
}

static int64_t run_timers(struct cay_loop *loop)
{
    int64_t now = cay_clock_mono_ms(), next = now + SLEEP_MAX_MS;
    for (struct cay_deadlines *kind = loop->timers; kind; kind = kind->others) {
        while (!is_empty(&kind->list) && kind->list.next->at_ms <= now) {
            struct cay_deadline *t = kind->list.next;
            cay_deadline_clear(t);
            kind->due(t);
        }
        if (!is_empty(&kind->list) && kind->list.next->at_ms < next)
            next = kind->list.next->at_ms;
    }
    return next - now;
}

/* Whoever asks again meanwhile has his next turn after the others. */
static void run_turns(struct cay_loop *loop)
{
    struct cay_turn mine = {&mine, &mine, NULL};
    if (loop->turns.next == &loop->turns)
        return;
    mine.next = loop->turns.next;
    mine.prev = loop->turns.prev;
    mine.next->prev = mine.prev->next = &mine;
    loop->turns.next = loop->turns.prev = &loop->turns;
    while (mine.next != &mine) {
        struct cay_turn *t = mine.next;
        cay_turn_clear(t);
        t->run(t);
    }
}

static void run_events(struct cay_loop *loop)
{
    for (int i = 0; i < loop->event_count; i++) {
        struct cay_watch *w = loop->events[i].data.ptr;
        if (w)
            w->ready(w, loop->events[i].events);
    }
    loop->event_count = 0;
}

static void *loop_main(void *arg)
{
    struct cay_loop *loop = arg;
    while (run_tasks(loop)) {
        run_turns(loop);
        int64_t wait_ms = run_timers(loop);
        if (loop->turns.next != &loop->turns)
            wait_ms = 0;
        int n = cay_await(loop->epoll_fd, loop->events, EVENTS, (int)wait_ms, &loop->brisk);
        loop->event_count = n < 0 ? 0 : n;
        run_events(loop);
    }
    return NULL;
}

bool cay_loop_watch(struct cay_loop *loop, struct cay_watch *w, uint32_t events)
{
    struct epoll_event ev = {.events = events, .data.ptr = w};
    return epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, w->fd, &ev) == 0;
}

void cay_loop_unwatch(struct cay_loop *loop, struct cay_watch *w)
{
    (void)epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, w->fd, NULL); /* it may not be watched */
    cay_loop_forget(loop, w);
}

void cay_loop_forget(struct cay_loop *loop, struct cay_watch *w)
{
    for (int i = 0; i < loop->event_count; i++)
        if (loop->events[i].data.ptr == w)
            loop->events[i].data.ptr = NULL;
}

void cay_deadlines_init(struct cay_loop *loop, struct cay_deadlines *kind, int64_t delay_ms,
                        void (*due)(struct cay_deadline *t))
{
    *kind = (struct cay_deadlines){.delay_ms = delay_ms, .due = due, .others = loop->timers};
    kind->list.next = kind->list.prev = &kind->list;
    loop->timers = kind;
}

void cay_deadlines_done(struct cay_loop *loop, struct cay_deadlines *kind)
{
    struct cay_deadlines **at = &loop->timers;
    while (*at != kind)
        at = &(*at)->others;
    *at = kind->others;
}

void cay_deadline_clear(struct cay_deadline *t)
{
    if (!t->next)
        return;
    t->next->prev = t->prev;
    t->prev->next = t->next;
    t->next = t->prev = NULL;
}

void cay_deadline_set(struct cay_deadlines *kind, struct cay_deadline *t)
{
    cay_deadline_clear(t);
    t->at_ms = cay_clock_mono_ms() + kind->delay_ms;
    t->prev = kind->list.prev;
    t->next = &kind->list;
    t->prev->next = t->next->prev = t;
}

void cay_turn_clear(struct cay_turn *t)
{
    if (!t->next)
        return;
    t->next->prev = t->prev;
    t->prev->next = t->next;
    t->next = t->prev = NULL;
}

void cay_loop_again(struct cay_loop *loop, struct cay_turn *t)
{
    if (t->next)
        return;
    t->prev = loop->turns.prev;
    t->next = &loop->turns;
    t->prev->next = t->next->prev = t;
}

/* ---- its beginning and end ---- */

int cay_loop_open(const char *name, struct cay_loop **out, struct cay_error *err)
{
    struct cay_loop *loop = calloc(1, sizeof *loop);
    if (!loop)
        abort();
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    loop->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    loop->last = &loop->first;
    loop->turns.next = loop->turns.prev = &loop->turns;
    pthread_mutex_init(&loop->lock, NULL);
    /* by its edges: each write wakes us, and none has to be read */
    struct epoll_event ev = {.events = EPOLLIN | EPOLLET};
    if (loop->epoll_fd < 0 || loop->wake_fd < 0 ||
        epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, loop->wake_fd, &ev) < 0 ||
        pthread_create(&loop->thread, NULL, loop_main, loop) != 0) {
        cay_close_fd(&loop->epoll_fd);
        cay_close_fd(&loop->wake_fd);
        free(loop);
        return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot start the thread %s", name);
    }
    (void)pthread_setname_np(loop->thread, name);
    *out = loop;
    return 0;
}

static void say_closing(void *arg)
{
    struct cay_loop *loop = arg;
    pthread_mutex_lock(&loop->lock);
    loop->closing = true;
    pthread_mutex_unlock(&loop->lock);
}

void cay_loop_close(struct cay_loop *loop)
{
    if (!loop)
        return;
    cay_loop_ask(loop, say_closing, loop);
    cay_loop_post(loop, say_closing, loop); /* wakes it, if it sleeps */
    pthread_join(loop->thread, NULL);
    (void)run_tasks(loop); /* whoever came too late must not wait for ever */
    cay_close_fd(&loop->epoll_fd);
    cay_close_fd(&loop->wake_fd);
    pthread_mutex_destroy(&loop->lock);
    free(loop);
}
