/* SPDX-License-Identifier: Apache-2.0 */
/* The list of providers in this build, and one thin function per entry of the interface. */
#include "provider/provider.h"
#include <string.h>

static const struct cay_provider_ops *const known[] = {
    &cay_provider_native,
    &cay_provider_docker,
    &cay_provider_fake,
};

int cay_provider_open(const char *name, const struct cay_config *cfg, struct cay_queue *events,
                      struct cay_provider **out, struct cay_error *err)
{
    for (size_t i = 0; i < CAY_COUNT(known); i++)
        if (strcmp(known[i]->name, name) == 0)
            return known[i]->open(cfg, events, out, err);
    return cay_fail(err, CAY_ERR_INVALID, "no provider named %s in this build", name);
}

void cay_provider_close(struct cay_provider *p)
{
    if (p)
        p->ops->close(p);
}

const char *cay_provider_name(const struct cay_provider *p)
{
    return p->ops->name;
}

const char *cay_provider_isolation(const struct cay_provider *p)
{
    return p->ops->isolation ? p->ops->isolation(p) : "native";
}

int cay_provider_health(struct cay_provider *p, struct cay_arena *a, struct cay_health *out,
                        struct cay_error *err)
{
    return p->ops->health(p, a, out, err);
}

const char *cay_provider_disk(struct cay_provider *p)
{
    return p->ops->disk ? p->ops->disk(p) : "none";
}

uint64_t cay_provider_room(struct cay_provider *p)
{
    return p->ops->room ? p->ops->room(p) : 0;
}

static int cannot(const struct cay_provider *p, const char *what, struct cay_error *err)
{
    return cay_fail(err, CAY_ERR_UNSUPPORTED, "the provider %s cannot %s", p->ops->name, what);
}

int cay_provider_create(struct cay_provider *p, const char *id, const struct cay_spec *spec,
                        struct cay_copied *copied, struct cay_error *err)
{
    *copied = (struct cay_copied){0};
    if (spec->from && !p->ops->snapshot)
        return cannot(p, "begin with the files of another", err);
    if (spec->volume && !p->ops->drop)
        return cannot(p, "keep volumes", err);
    return p->ops->create(p, id, spec, copied, err);
}

int cay_provider_start(struct cay_provider *p, const char *id, const struct cay_spec *spec,
                       struct cay_error *err)
{
    return p->ops->start(p, id, spec, err);
}

int cay_provider_stop(struct cay_provider *p, const char *id, int64_t grace_ms,
                      struct cay_error *err)
{
    return p->ops->stop(p, id, grace_ms, err);
}

int cay_provider_destroy(struct cay_provider *p, const char *id, const char *volume,
                         struct cay_usage *used, struct cay_error *err)
{
    struct cay_usage unwanted;
    return p->ops->destroy(p, id, volume, used ? used : &unwanted, err);
}

int cay_provider_pause(struct cay_provider *p, const char *id, struct cay_error *err)
{
    return p->ops->pause ? p->ops->pause(p, id, err) : cannot(p, "pause a sandbox", err);
}

int cay_provider_resume(struct cay_provider *p, const char *id, struct cay_error *err)
{
    return p->ops->resume ? p->ops->resume(p, id, err) : cannot(p, "resume a sandbox", err);
}

int cay_provider_snapshot(struct cay_provider *p, const char *id, const char *snapshot_id,
                          struct cay_copied *out, struct cay_error *err)
{
    *out = (struct cay_copied){0};
    return p->ops->snapshot ? p->ops->snapshot(p, id, snapshot_id, out, err)
                            : cannot(p, "make a snapshot", err);
}

int cay_provider_drop(struct cay_provider *p, const char *kept_id, struct cay_error *err)
{
    return p->ops->drop ? p->ops->drop(p, kept_id, err) : cannot(p, "keep files", err);
}

int cay_provider_kept(struct cay_provider *p, struct cay_arena *a, struct cay_strs *out,
                      struct cay_error *err)
{
    *out = (struct cay_strs){0};
    return p->ops->kept ? p->ops->kept(p, a, out, err) : 0;
}

int cay_provider_limit(struct cay_provider *p, const char *id, const struct cay_spec *spec,
                       struct cay_error *err)
{
    if (!p->ops->limit)
        return cay_fail(err, CAY_ERR_UNSUPPORTED, "provider %s cannot change what runs",
                        p->ops->name);
    return p->ops->limit(p, id, spec, err);
}

int cay_provider_socket(struct cay_provider *p, const char *id, enum cay_socket_kind kind,
                        int *fd_out, struct cay_error *err)
{
    if (!p->ops->socket)
        return cay_fail(err, CAY_ERR_UNSUPPORTED, "provider %s has no way to a port inside",
                        p->ops->name);
    return p->ops->socket(p, id, kind, fd_out, err);
}

int cay_provider_way_out(struct cay_provider *p, const char *id, struct cay_way_out *out,
                         struct cay_error *err)
{
    if (!p->ops->way_out)
        return cay_fail(err, CAY_ERR_UNSUPPORTED, "provider %s has no way out for us to keep",
                        p->ops->name);
    return p->ops->way_out(p, id, out, err);
}

int cay_provider_usage(struct cay_provider *p, const char *id, struct cay_usage *out,
                       struct cay_error *err)
{
    return p->ops->usage(p, id, out, err);
}

int cay_provider_list(struct cay_provider *p, struct cay_arena *a, struct cay_provider_list *out,
                      struct cay_error *err)
{
    return p->ops->list(p, a, out, err);
}

int cay_provider_exec(struct cay_provider *p, const char *id, const char *exec_id,
                      const struct cay_exec_spec *spec, int log_fd, struct cay_error *err)
{
    return p->ops->exec(p, id, exec_id, spec, log_fd, err);
}

int cay_provider_kill(struct cay_provider *p, const char *id, const char *exec_id, int signal,
                      struct cay_error *err)
{
    return p->ops->kill(p, id, exec_id, signal, err);
}

int cay_provider_input(struct cay_provider *p, const char *id, const char *exec_id, int input_fd,
                       int end_fd, struct cay_error *err)
{
    return p->ops->input(p, id, exec_id, input_fd, end_fd, err);
}

int cay_provider_resize(struct cay_provider *p, const char *id, const char *exec_id,
                        struct cay_window window, struct cay_error *err)
{
    return p->ops->resize(p, id, exec_id, window, err);
}

int cay_provider_file(struct cay_provider *p, const char *id, const struct cay_file_request *rq,
                      const struct cay_file_pipes *pipes, int64_t timeout_ms, struct cay_error *err)
{
    return p->ops->file ? p->ops->file(p, id, rq, pipes, timeout_ms, err)
                        : cannot(p, "touch files", err);
}

int cay_provider_executions(struct cay_provider *p, const char *id, struct cay_arena *a,
                            struct cay_strs *out, struct cay_error *err)
{
    return p->ops->executions(p, id, a, out, err);
}

/* ---- images ---- */

static const char keep_images[] = "keep images";

int cay_provider_image_has(struct cay_provider *p, const char *diff_id, bool *out,
                           struct cay_error *err)
{
    return p->ops->image_has ? p->ops->image_has(p, diff_id, out, err)
                             : cannot(p, keep_images, err);
}

int cay_provider_image_layer(struct cay_provider *p, const struct cay_layer *layer, int fd,
                             const struct cay_progress *progress, struct cay_unpacked *out,
                             struct cay_error *err)
{
    return p->ops->image_layer ? p->ops->image_layer(p, layer, fd, progress, out, err)
                               : cannot(p, keep_images, err);
}

int cay_provider_image_put(struct cay_provider *p, const char *name, const char *text,
                           struct cay_error *err)
{
    return p->ops->image_put ? p->ops->image_put(p, name, text, err) : cannot(p, keep_images, err);
}

void cay_provider_image_let_go(struct cay_provider *p, const struct cay_strs *diff_ids)
{
    if (p->ops->image_let_go)
        p->ops->image_let_go(p, diff_ids);
}

int cay_provider_image_list(struct cay_provider *p, const char *name, struct cay_arena *a,
                            struct cay_image_list *out, struct cay_error *err)
{
    return p->ops->image_list ? p->ops->image_list(p, name, a, out, err)
                              : cannot(p, keep_images, err);
}

int cay_provider_image_remove(struct cay_provider *p, const char *name, struct cay_error *err)
{
    return p->ops->image_remove ? p->ops->image_remove(p, name, err) : cannot(p, keep_images, err);
}

int cay_provider_image_prune(struct cay_provider *p, struct cay_pruned *out, struct cay_error *err)
{
    return p->ops->image_prune ? p->ops->image_prune(p, out, err) : cannot(p, keep_images, err);
}

int cay_provider_image_export(struct cay_provider *p, const char *name_or_snapshot, const char *tag,
                              int fd, const struct cay_progress *progress, struct cay_error *err)
{
    return p->ops->image_export ? p->ops->image_export(p, name_or_snapshot, tag, fd, progress, err)
                                : cannot(p, "export an image", err);
}

int cay_provider_build(struct cay_provider *p, const struct cay_recipe *what,
                       const struct cay_build_watch *watch, struct cay_error *err)
{
    static const struct cay_build_watch nobody;
    return p->ops->build ? p->ops->build(p, what, watch ? watch : &nobody, err)
                         : cannot(p, "build an image", err);
}

int cay_provider_recipes(struct cay_provider *p, struct cay_arena *a, struct cay_strs *out,
                         struct cay_error *err)
{
    *out = (struct cay_strs){0};
    return p->ops->recipes ? p->ops->recipes(p, a, out, err) : 0;
}
