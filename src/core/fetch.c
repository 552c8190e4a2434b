/* SPDX-License-Identifier: Apache-2.0 */
#include "core/fetch.h"
#include "base/clock.h"
#include "base/log.h"
#include "core/core.h"
#include "core/image.h"
#include "core/images.h"
#include <string.h>
#include <time.h>

#define AGAIN_MS 500 /* until the backend is asked again that had enough to do */

struct waiter {
    struct waiter *next;
    char id[CAY_ID_SIZE];
    int64_t until_ms;
    void (*then)(struct cay_core *core, void *arg, const struct cay_error *err);
    void *arg;
};

struct cay_fetch {
    struct cay_fetch *next;
    struct cay_core *core;
    char image[CAY_MAX_IMAGE_NAME + 1];
    struct waiter *waiters;
};

void cay_fetcher_init(struct cay_fetcher *f)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->changed, &attr);
    pthread_condattr_destroy(&attr);
}

static void tell(struct cay_core *core, struct waiter *w, const struct cay_error *err)
{
    w->then(core, w->arg, err);
    free(w);
}

/* Takes out who need not wait any more; the first of them, and why. */
static struct waiter *take_one(struct cay_fetch *job, struct cay_error *why)
{
    int64_t now_ms = cay_clock_mono_ms();
    for (struct waiter **at = &job->waiters; *at; at = &(*at)->next) {
        struct waiter *w = *at;
        bool late = now_ms >= w->until_ms;
        if (!late && !cay_ready_is_cancelled(job->core, w->id))
            continue;
        *at = w->next;
        if (late)
            (void)cay_fail_as(why, CAY_ERR_TIMEOUT, "IMAGE_NOT_READY",
                              "the image %s is still being built: try again later", job->image);
        else
            (void)cay_fail(why, CAY_ERR_CONFLICT, "it was deleted meanwhile");
        return w;
    }
    return NULL;
}

/* Asked a few times a second. Nobody waits any more: it is made all the same. */
static bool is_to_stop(void *arg)
{
    struct cay_fetch *job = arg;
    struct cay_fetcher *f = &job->core->fetcher;
    struct cay_error why;
    struct waiter *w;
    for (;;) {
        pthread_mutex_lock(&f->lock);
        bool closing = f->closing;
        w = take_one(job, &why);
        pthread_mutex_unlock(&f->lock);
        if (!w)
            return closing;
        tell(job->core, w, &why);
    }
}

static void log_line(void *arg, const char *line)
{
    (void)arg;
    cay_log_info("%s", line); /* it names the image */
}

/* Without the thread's time for `ms`, or less if we are to close. */
static void rest(struct cay_fetcher *f, int64_t ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += ms % 1000 * 1000000;
    until.tv_sec += ms / 1000 + until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&f->lock);
    if (!f->closing)
        (void)pthread_cond_timedwait(&f->changed, &f->lock, &until);
    pthread_mutex_unlock(&f->lock);
}

static int build(struct cay_fetch *job, const char *image, struct cay_error *err)
{
    struct cay_core *core = job->core;
    const struct cay_build_watch watch = {log_line, is_to_stop, job};
    for (;;) {
        int r = cay_provider_build(core->provider, image, &watch, err);
        if (r == 0 || strcmp(cay_error_name(err), "TOO_MANY_BUILDS") != 0 || is_to_stop(job))
            return r;
        rest(&core->fetcher, AGAIN_MS);
    }
}

/* Its registry first, then a recipe. */
static int run(struct cay_fetch *job, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_error asked = {0};
    const char *image;
    bool asks = cay_images_are_asked_for(job->core, job->image);
    if (asks && cay_images_ask(job->core, job->image, is_to_stop, job, &asked) == 0)
        return 0;
    int r = cay_image_recipe(job->core, job->image, &a, &image, err);
    if (r == CAY_ERR_NOT_FOUND && asks)
        cay_error_tried(
            err, cay_arena_printf(&a, "registry: %s", job->image),
            cay_arena_printf(&a, "%s%s%s", asked.msg, asked.cause[0] ? ": " : "", asked.cause));
    return r < 0 ? r : build(job, image, err);
}

static void finish(struct cay_fetch *job)
{
    struct cay_core *core = job->core;
    struct cay_fetcher *f = &core->fetcher;
    struct cay_error err = {0};
    int r = run(job, &err);
    if (r < 0)
        cay_log_error(&err, "cannot make the image %s", job->image);
    pthread_mutex_lock(&f->lock);
    struct cay_fetch **at = &f->first;
    while (*at != job)
        at = &(*at)->next;
    *at = job->next; /* who comes now begins anew */
    pthread_mutex_unlock(&f->lock);
    for (struct waiter *w; (w = job->waiters) != NULL;) {
        job->waiters = w->next;
        tell(core, w, r < 0 ? &err : NULL);
    }
    free(job);
    pthread_mutex_lock(&f->lock);
    f->count--;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->lock);
}

static void *fetch_main(void *arg)
{
    finish(arg);
    return NULL;
}

/* Under the lock: the one that makes this image, or a new one; NULL: there is no room. */
static struct cay_fetch *find(struct cay_core *core, const char *image, bool *is_new)
{
    struct cay_fetcher *f = &core->fetcher;
    struct cay_fetch *job = f->first;
    while (job && strcmp(job->image, image) != 0)
        job = job->next;
    *is_new = !job;
    if (job || f->count >= CAY_FETCHES || f->closing)
        return job;
    job = calloc(1, sizeof *job);
    if (!job)
        abort();
    job->core = core;
    cay_str_copy(job->image, sizeof job->image, image);
    job->next = f->first;
    f->first = job;
    f->count++;
    return job;
}

/* Without threads (in tests that keep no house) it is made here. */
static void start(struct cay_fetch *job)
{
    pthread_t thread;
    if (job->core->maker.started > 0 && pthread_create(&thread, NULL, fetch_main, job) == 0)
        (void)pthread_detach(thread); /* `count` is waited for */
    else
        finish(job);
}

void cay_fetch(struct cay_core *core, const char *image, const char *id,
               void (*then)(struct cay_core *core, void *arg, const struct cay_error *err),
               void *arg)
{
    struct cay_error err;
    struct waiter *w = calloc(1, sizeof *w);
    bool is_new;
    if (!w)
        abort();
    *w = (struct waiter){
        .until_ms = cay_clock_mono_ms() + CAY_IMAGE_WAIT_MS, .then = then, .arg = arg};
    cay_str_copy(w->id, sizeof w->id, id);
    pthread_mutex_lock(&core->fetcher.lock);
    struct cay_fetch *job = find(core, image, &is_new);
    if (job) {
        w->next = job->waiters;
        job->waiters = w;
    }
    pthread_mutex_unlock(&core->fetcher.lock);
    if (job && is_new)
        start(job);
    if (job)
        return;
    (void)cay_fail_as(&err, CAY_ERR_UNAVAILABLE, "TOO_MANY_BUILDS",
                      "%d images are being made already", CAY_FETCHES);
    tell(core, w, &err);
}

void cay_fetcher_done(struct cay_core *core)
{
    struct cay_fetcher *f = &core->fetcher;
    pthread_mutex_lock(&f->lock);
    f->closing = true;
    pthread_cond_broadcast(&f->changed);
    while (f->count > 0)
        pthread_cond_wait(&f->changed, &f->lock);
    pthread_mutex_unlock(&f->lock);
    pthread_mutex_destroy(&f->lock);
    pthread_cond_destroy(&f->changed);
}
