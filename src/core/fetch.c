/* SPDX-License-Identifier: Apache-2.0 */
#include "core/fetch.h"
#include "base/clock.h"
#include "base/log.h"
#include "core/build.h"
#include "core/core.h"
#include "core/image.h"
#include <string.h>

#define LOOK_MS 200 /* between two looks at those who wait */

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
    enum cay_pull_policy policy;
    char recipe[CAY_MAX_IMAGE_NAME + 1]; /* what a recipe makes that will do; or empty, and: */
    struct cay_error none;               /* why, with all that was tried */
    struct waiter *waiters;
};

static const struct cay_account owner = {.id = CAY_LOCAL_ACCOUNT};

void cay_fetcher_init(struct cay_fetcher *f)
{
    pthread_mutex_init(&f->lock, NULL);
}

void cay_fetcher_done(struct cay_fetcher *f)
{
    pthread_mutex_destroy(&f->lock);
}

/* ---- who waits ---- */

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
                              "the image %s is still being made: try again later", job->image);
        else
            (void)cay_fail(why, CAY_ERR_CONFLICT, "it was deleted meanwhile");
        return w;
    }
    return NULL;
}

void cay_fetch_look(struct cay_core *core)
{
    struct cay_fetcher *f = &core->fetcher;
    struct cay_error why;
    long long now_ms = cay_clock_mono_ms(), last_ms = atomic_load(&f->looked_ms);
    if (now_ms - last_ms < LOOK_MS ||
        !atomic_compare_exchange_strong(&f->looked_ms, &last_ms, now_ms))
        return;
    for (struct waiter *w;;) {
        w = NULL;
        pthread_mutex_lock(&f->lock);
        for (struct cay_fetch *job = f->first; job && !w; job = job->next)
            w = take_one(job, &why);
        pthread_mutex_unlock(&f->lock);
        if (!w)
            return;
        tell(core, w, &why);
    }
}

/* ---- one image ---- */

static void finish(struct cay_fetch *job, const struct cay_error *err)
{
    struct cay_core *core = job->core;
    struct cay_fetcher *f = &core->fetcher;
    if (err)
        cay_log_error(err, "cannot have the image %s", job->image);
    pthread_mutex_lock(&f->lock);
    struct cay_fetch **at = &f->first;
    while (*at != job)
        at = &(*at)->next;
    *at = job->next; /* who comes now begins anew */
    f->count--;
    pthread_mutex_unlock(&f->lock);
    for (struct waiter *w; (w = job->waiters) != NULL;) {
        job->waiters = w->next;
        tell(core, w, err);
    }
    free(job);
}

static void built(struct cay_core *core, void *arg, const struct cay_error *err)
{
    (void)core;
    finish(arg, err);
}

/* `asked`: what its registry said; NULL: it was not asked. */
static void build(struct cay_fetch *job, const struct cay_error *asked)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_error err = {0};
    struct cay_recipe what = {.image = job->recipe};
    char id[CAY_ID_SIZE];
    if (job->recipe[0]) {
        if (cay_build_begin(job->core, &owner, &what, built, job, id, &err) < 0)
            finish(job, &err);
        return;
    }
    if (asked)
        cay_error_tried(
            &job->none, cay_arena_printf(&a, "registry: %s", job->image),
            cay_arena_printf(&a, "%s%s%s", asked->msg, asked->cause[0] ? ": " : "", asked->cause));
    finish(job, &job->none);
}

static void pulled(struct cay_core *core, void *arg, const struct cay_error *err)
{
    struct cay_fetch *job = arg;
    struct cay_error unnamed;
    if (!err)
        finish(job, cay_images_spell(core, job->image, &unnamed) < 0 ? &unnamed : NULL);
    else if (job->policy == CAY_PULL_ALWAYS)
        finish(job, err);
    else
        build(job, err);
}

/* Its registry first, then a recipe. One that a recipe makes does not wait long for a registry
 * that does not answer. */
static void start(struct cay_fetch *job)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_error err = {0};
    const char *recipe;
    char id[CAY_ID_SIZE];
    int r = job->policy == CAY_PULL_ALWAYS
                ? CAY_ERR_NOT_FOUND
                : cay_image_recipe(job->core, job->image, &a, &recipe, &job->none);
    if (r == 0)
        cay_str_copy(job->recipe, sizeof job->recipe, recipe);
    if (r < 0 && r != CAY_ERR_NOT_FOUND) {
        finish(job, &job->none);
        return;
    }
    if (!cay_images_are_asked_for(job->core, job->image, job->policy)) {
        job->policy == CAY_PULL_ALWAYS ? finish(job, NULL) : build(job, NULL);
        return;
    }
    struct cay_image_wish wish = {
        .name = job->image, .policy = job->policy, .brief = job->recipe[0] != 0};
    if (cay_images_pull(job->core, &owner, &wish, pulled, job, id, &err) < 0)
        pulled(job->core, job, &err);
}

/* Under the lock: the one that has this image made, or a new one; NULL: there is no room. */
static struct cay_fetch *find(struct cay_core *core, const char *image, enum cay_pull_policy policy,
                              bool *is_new)
{
    struct cay_fetcher *f = &core->fetcher;
    struct cay_fetch *job = f->first;
    while (job && (strcmp(job->image, image) != 0 || job->policy != policy))
        job = job->next;
    *is_new = !job;
    if (job || f->count >= CAY_FETCHES)
        return job;
    job = calloc(1, sizeof *job);
    if (!job)
        abort();
    job->core = core;
    job->policy = policy;
    cay_str_copy(job->image, sizeof job->image, image);
    job->next = f->first;
    f->first = job;
    f->count++;
    return job;
}

void cay_fetch(struct cay_core *core, const char *image, enum cay_pull_policy policy,
               const char *id,
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
    struct cay_fetch *job = find(core, image, policy, &is_new);
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
