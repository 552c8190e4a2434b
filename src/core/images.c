/* SPDX-License-Identifier: Apache-2.0 */
#include "core/images.h"
#include "base/path.h"
#include "core/core.h"
#include "core/pull.h"
#include "image/registry.h"
#include "image/text.h"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

static const char pull_kind[] = "pull", export_kind[] = "export";

int cay_images_open(struct cay_core *core, const struct cay_config *cfg, struct cay_error *err)
{
    struct cay_registry_options o = {.settings = cfg->registries,
                                     .insecure = cfg->registry_insecure,
                                     .docker = cfg->registry_docker,
                                     .proxy = cfg->egress_proxy,
                                     .no_proxy = cfg->egress_no_proxy};
    core->pull_policy = CAY_PULL_MISSING;
    if (cfg->pull && !cay_pull_policy_parse(cfg->pull, &core->pull_policy))
        return cay_fail(err, CAY_ERR_INVALID, "pull %s is not always, missing or never", cfg->pull);
    int r = cay_path_open_dir(cfg->data_fd, "pulls", 0700, &core->pulls_fd, err);
    return r < 0 ? r : cay_registry_open(&o, &core->registry, err);
}

void cay_images_close(struct cay_core *core)
{
    cay_registry_close(core->registry);
    core->registry = NULL;
    cay_close_fd(&core->pulls_fd);
}

bool cay_pull_policy_parse(const char *word, enum cay_pull_policy *out)
{
    static const char *const words[] = {
        [CAY_PULL_MISSING] = "missing", [CAY_PULL_ALWAYS] = "always", [CAY_PULL_NEVER] = "never"};
    for (size_t i = CAY_PULL_MISSING; i < CAY_COUNT(words); i++)
        if (strcmp(words[i], word) == 0) {
            *out = (enum cay_pull_policy)i;
            return true;
        }
    return false;
}

static int short_name(struct cay_arena *a, const char *name, const char **out,
                      struct cay_error *err)
{
    struct cay_ref ref;
    int r = cay_ref_parse(a, name, &ref, err);
    if (r == 0)
        *out = cay_ref_short(a, &ref);
    return r;
}

/* ---- what there is ---- */

/* One whose text nobody can read is told by its name all the same. */
static void read_entry(struct cay_arena *a, const struct cay_image_entry *e, struct cay_image *out)
{
    struct cay_image_about about = {0};
    struct cay_error ignored;
    *out = (struct cay_image){.name = e->name, .bytes = e->bytes, .uses = e->uses};
    if (cay_image_text_read(a, e->text, &about, &ignored) < 0)
        return;
    out->digest = about.digest;
    out->source = about.source;
    out->architecture = about.config.architecture;
    out->user = about.config.user;
    out->workdir = about.config.workdir;
    out->stop_signal = about.config.stop_signal;
    out->created_at_ms = about.config.created_ms;
    out->env = about.config.env;
    out->entrypoint = about.config.entrypoint;
    out->cmd = about.config.cmd;
    out->layers = about.config.diff_ids;
}

int cay_core_images(struct cay_core *core, struct cay_arena *a, struct cay_images *out,
                    struct cay_error *err)
{
    struct cay_image_list list;
    int r = cay_provider_image_list(core->provider, NULL, a, &list, err);
    if (r < 0)
        return r;
    *out = (struct cay_images){.at = cay_arena_alloc(a, list.count * sizeof *out->at + 1),
                               .count = list.count};
    for (size_t i = 0; i < list.count; i++)
        read_entry(a, &list.at[i], &out->at[i]);
    return 0;
}

/* As it was written, because what is built here may have no tag; else in its one form. */
static int find_entry(struct cay_core *core, const char *name, struct cay_arena *a,
                      struct cay_image_list *out, struct cay_error *err)
{
    const char *same = name;
    int r = short_name(a, name, &same, err);
    if (r < 0)
        return r;
    r = cay_provider_image_list(core->provider, name, a, out, err);
    if (r == CAY_ERR_NOT_FOUND && strcmp(same, name) != 0)
        r = cay_provider_image_list(core->provider, same, a, out, err);
    return r;
}

int cay_core_image(struct cay_core *core, const char *name, struct cay_arena *a,
                   struct cay_image *out, struct cay_error *err)
{
    struct cay_image_list list;
    int r = find_entry(core, name, a, &list, err);
    if (r == 0 && list.count == 0)
        r = cay_fail_as(err, CAY_ERR_NOT_FOUND, "IMAGE_NOT_FOUND", "image not found: %.100s", name);
    if (r == 0)
        read_entry(a, &list.at[0], out);
    return r;
}

int cay_core_image_remove(struct cay_core *core, const char *name, struct cay_arena *a,
                          const char **name_out, struct cay_error *err)
{
    struct cay_image_list list;
    int r = find_entry(core, name, a, &list, err);
    if (r == 0 && list.count > 0)
        name = list.at[0].name;
    if (r == 0)
        r = cay_provider_image_remove(core->provider, name, err);
    if (r == 0)
        *name_out = name;
    return r;
}

int cay_core_image_prune(struct cay_core *core, struct cay_pruned *out, struct cay_error *err)
{
    return cay_provider_image_prune(core->provider, out, err);
}

/* ---- pulls ---- */

struct pull_arg {
    enum cay_pull_policy policy;
    bool brief;
    char name[CAY_MAX_IMAGE_NAME + 1];
};

static int run_pull(struct cay_core *core, struct cay_task *task, void *arg, struct cay_error *err)
{
    const struct pull_arg *p = arg;
    const struct cay_image_wish wish = {p->name, p->policy, p->brief};
    return cay_pull_image(core, task, &wish, err);
}

int cay_images_pull(struct cay_core *core, const struct cay_account *owner,
                    const struct cay_image_wish *wish,
                    void (*then)(struct cay_core *core, void *arg, const struct cay_error *err),
                    void *then_arg, char job_out[CAY_ID_SIZE], struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_image_list list;
    const char *name = wish->name;
    int r = short_name(&a, wish->name, &name, err);
    if (r == 0 && strlen(name) > CAY_MAX_IMAGE_NAME)
        r = cay_fail_field(err, "image", "the image's name is too long");
    if (r == 0)
        r = cay_provider_image_list(core->provider, name, &a, &list, err);
    if (r < 0 && r != CAY_ERR_NOT_FOUND)
        return r;
    if (!core->registry)
        return cay_fail(err, CAY_ERR_UNSUPPORTED, "this server asks no registries");
    struct pull_arg *arg = calloc(1, sizeof *arg);
    if (!arg)
        abort();
    *arg = (struct pull_arg){.policy = wish->policy, .brief = wish->brief};
    cay_str_copy(arg->name, sizeof arg->name, name);
    struct cay_task_spec spec = {
        .kind = pull_kind,
        .key = cay_arena_printf(&a, "%s %s", wish->policy == CAY_PULL_ALWAYS ? "now" : "", name),
        .subject = name,
        .run = run_pull,
        .drop = free,
        .arg = arg,
        .then = then,
        .then_arg = then_arg};
    return cay_task_begin(core, owner, &spec, job_out, err);
}

int cay_core_image_pull(struct cay_core *core, const struct cay_account *owner, const char *name,
                        enum cay_pull_policy policy, char job_out[CAY_ID_SIZE],
                        struct cay_error *err)
{
    const struct cay_image_wish wish = {.name = name, .policy = policy};
    return cay_images_pull(core, owner, &wish, NULL, NULL, job_out, err);
}

bool cay_images_are_asked_for(struct cay_core *core, const char *name, enum cay_pull_policy policy)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_error ignored; /* it is no name of a registry's */
    return core->registry && policy != CAY_PULL_NEVER && short_name(&a, name, &name, &ignored) == 0;
}

bool cay_images_may_be_old(struct cay_core *core, const char *name)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_error ignored; /* what is not here is fetched anyway */
    struct cay_image image;
    struct cay_ref ref;
    return core->registry && cay_core_image(core, name, &a, &image, &ignored) == 0 &&
           image.source && strchr(image.source, '/') && /* else a recipe or an archive */
           cay_ref_parse(&a, name, &ref, &ignored) == 0 && !ref.digest;
}

int cay_images_spell(struct cay_core *core, const char *name, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_image_list list;
    const char *same = name;
    int r = short_name(&a, name, &same, err);
    if (r < 0 || strcmp(same, name) == 0)
        return r;
    r = cay_provider_image_list(core->provider, same, &a, &list, err);
    return r < 0 ? r : cay_provider_image_put(core->provider, name, list.at[0].text, err);
}

/* ---- archives ---- */

struct export_arg {
    int out_fd, end_fd; /* to write */
    char name[CAY_MAX_IMAGE_NAME + 1], tag[CAY_MAX_IMAGE_NAME + 1];
};

static void drop_export(void *arg)
{
    struct export_arg *e = arg;
    cay_close_fd(&e->out_fd);
    cay_close_fd(&e->end_fd);
    free(e);
}

static bool export_step(void *task, uint64_t done)
{
    (void)done;
    return cay_task_goes_on(task);
}

static int run_export(struct cay_core *core, struct cay_task *task, void *arg,
                      struct cay_error *err)
{
    struct export_arg *e = arg;
    struct cay_progress progress = {.step = export_step, .arg = task};
    int r = cay_provider_image_export(core->provider, e->name, e->tag, e->out_fd, &progress, err);
    if (r == 0)
        (void)!write(e->end_fd, "", 1); /* a reader that is gone needs it no more */
    return r;
}

/* A snapshot is its owner's; an image is there, or this says so before anything is sent. */
static int find_export(struct cay_core *core, const struct cay_account *owner, struct cay_arena *a,
                       const char **name, const char **tag, struct cay_error *err)
{
    struct cay_kept kept;
    struct cay_image image;
    bool snapshot = cay_id_is_snapshot(*name);
    int r = snapshot ? cay_core_kept(core, owner, CAY_SNAPSHOT, *name, a, &kept, err)
                     : cay_core_image(core, *name, a, &image, err);
    if (r < 0)
        return r;
    if (!snapshot)
        *name = image.name;
    return short_name(a, *tag ? *tag : *name, tag, err);
}

int cay_core_image_export(struct cay_core *core, const struct cay_account *owner, const char *name,
                          const char *tag, struct cay_export_ends *out, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    char id[CAY_ID_SIZE];
    int data[2], end[2];
    int r = find_export(core, owner, &a, &name, &tag, err);
    if (r < 0)
        return r;
    struct export_arg *e = calloc(1, sizeof *e);
    if (!e)
        abort();
    if (pipe2(data, O_CLOEXEC) < 0) {
        free(e);
        return cay_fail_errno(err, CAY_ERR_UNAVAILABLE, "cannot make a pipe");
    }
    if (pipe2(end, O_CLOEXEC) < 0) {
        (void)close(data[0]);
        (void)close(data[1]);
        free(e);
        return cay_fail_errno(err, CAY_ERR_UNAVAILABLE, "cannot make a pipe");
    }
    CAY_AUTO_FD int out_fd = data[0], end_fd = end[0];
    *e = (struct export_arg){.out_fd = data[1], .end_fd = end[1]};
    cay_str_copy(e->name, sizeof e->name, name);
    cay_str_copy(e->tag, sizeof e->tag, tag);
    (void)fcntl(out_fd, F_SETFL, O_NONBLOCK);
    (void)fcntl(end_fd, F_SETFL, O_NONBLOCK);
    struct cay_task_spec spec = {.kind = export_kind,
                                 .subject = name,
                                 .most = CAY_JOB_EXPORTS,
                                 .run = run_export,
                                 .drop = drop_export,
                                 .arg = e};
    r = cay_task_begin(core, owner, &spec, id, err);
    if (r == 0)
        *out = (struct cay_export_ends){cay_take_fd(&out_fd), cay_take_fd(&end_fd)};
    return r;
}
