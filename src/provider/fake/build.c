/* SPDX-License-Identifier: Apache-2.0 */
/* Images that are only named. */
#include "base/clock.h"
#include "provider/fake/fake.h"
#include "provider/fake/inside.h"
#include <string.h>
#include <time.h>

static const char *const recipes[] = {"missing-built", "missing-broken"};

bool cay_fake_has_image(const struct cay_fake *f, const char *image)
{
    return strncmp(image, "missing", 7) != 0 || (f->built && strcmp(image, recipes[0]) == 0);
}

static bool is_held(struct cay_fake *f)
{
    CAY_FAKE_LOCKED(f);
    return f->builds_held;
}

int cay_fake_build(struct cay_provider *p, const struct cay_recipe *what,
                   const struct cay_build_watch *watch, struct cay_error *err)
{
    const char *image = what->image;
    struct cay_fake *f = cay_fake_of(p);
    pthread_mutex_lock(&f->lock);
    f->builds++;
    pthread_mutex_unlock(&f->lock);
    if (strcmp(image, recipes[0]) != 0 && strcmp(image, recipes[1]) != 0)
        return cay_fail_as(err, CAY_ERR_NOT_FOUND, "NO_RECIPE", "no recipe makes %s", image);
    if (watch->line)
        watch->line(watch->arg, "one step");
    while (is_held(f)) {
        if (watch->stop && watch->stop(watch->arg))
            return cay_fail(err, CAY_ERR_UNAVAILABLE, "the build was ended");
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    if (strcmp(image, recipes[1]) == 0)
        return cay_fail_as(err, CAY_ERR_PROVIDER, "BUILD_FAILED", "cannot build %s", image);
    CAY_FAKE_LOCKED(f);
    f->built = true;
    return 0;
}

int cay_fake_recipes(struct cay_provider *p, struct cay_arena *a, struct cay_strs *out,
                     struct cay_error *err)
{
    (void)p, (void)err;
    for (size_t i = 0; i < CAY_COUNT(recipes); i++)
        cay_strs_push(a, out, recipes[i]);
    return 0;
}

void cay_provider_fake_hold_builds(struct cay_provider *p, bool hold)
{
    CAY_FAKE_LOCKED(cay_fake_of(p));
    cay_fake_of(p)->builds_held = hold;
}

int cay_provider_fake_builds(struct cay_provider *p)
{
    CAY_FAKE_LOCKED(cay_fake_of(p));
    return cay_fake_of(p)->builds;
}
