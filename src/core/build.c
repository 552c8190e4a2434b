/* SPDX-License-Identifier: Apache-2.0 */
#include "core/build.h"
#include "base/log.h"
#include "core/core.h"
#include "core/image.h"
#include "image/recipe.h"
#include <string.h>
#include <time.h>

#define AGAIN_MS 500 /* until the backend is asked again that has enough to do */

static const char build_kind[] = "build";

struct building {
    char image[CAY_MAX_IMAGE_NAME + 1];
    char *text; /* malloc'ed; NULL: the operator's recipe of that name */
    bool again;
};

static void drop(void *arg)
{
    struct building *b = arg;
    free(b->text);
    free(b);
}

static void line(void *task, const char *text)
{
    cay_log_info("%s", text); /* it names the image */
    cay_task_note(task, text);
}

static bool is_to_stop(void *task)
{
    return !cay_task_goes_on(task);
}

static int run(struct cay_core *core, struct cay_task *task, void *arg, struct cay_error *err)
{
    const struct building *b = arg;
    const struct cay_build_watch watch = {line, is_to_stop, task};
    const struct cay_recipe what = {.image = b->image, .text = b->text, .again = b->again};
    cay_task_at(task, "building");
    for (;;) {
        int r = cay_provider_build(core->provider, &what, &watch, err);
        if (r < 0 && is_to_stop(task))
            return cay_fail_as(err, CAY_ERR_UNAVAILABLE, "CANCELLED", "the build was given up");
        if (r == 0 || strcmp(cay_error_name(err), "TOO_MANY_BUILDS") != 0)
            return r;
        nanosleep(&(struct timespec){.tv_nsec = AGAIN_MS * 1000000L}, NULL);
    }
}

int cay_build_begin(struct cay_core *core, const struct cay_account *owner,
                    const struct cay_recipe *what,
                    void (*then)(struct cay_core *core, void *arg, const struct cay_error *err),
                    void *then_arg, char job_out[CAY_ID_SIZE], struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct building *b = calloc(1, sizeof *b);
    char *text = what->text ? strdup(what->text) : NULL;
    if (!b || (what->text && !text))
        abort();
    *b = (struct building){.text = text, .again = what->again};
    cay_str_copy(b->image, sizeof b->image, what->image);
    struct cay_task_spec spec = {
        .kind = build_kind,
        .key = text ? NULL : cay_arena_printf(&a, "%s %s", what->again ? "again" : "", b->image),
        .subject = b->image,
        .run = run,
        .drop = drop,
        .arg = b,
        .then = then,
        .then_arg = then_arg};
    return cay_task_begin(core, owner, &spec, job_out, err);
}

/* The name must be there before the job, so that whoever mistyped it hears of it. */
int cay_core_image_build(struct cay_core *core, const struct cay_account *owner,
                         const struct cay_recipe *what, char job_out[CAY_ID_SIZE],
                         struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_recipe wanted = *what;
    int r = what->text ? cay_recipe_name(&a, what->text, &wanted.image, err)
                       : cay_image_recipe(core, what->image, &a, &wanted.image, err);
    if (r == CAY_ERR_NOT_FOUND)
        return cay_fail_as(err, r, "NO_RECIPE", "no recipe makes %.100s", what->image);
    return r < 0 ? r : cay_build_begin(core, owner, &wanted, NULL, NULL, job_out, err);
}
