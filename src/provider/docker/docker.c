/* SPDX-License-Identifier: Apache-2.0 */
/* The provider's table: what a sandbox is, asked of the Docker Engine. What happens inside is asked
 * of cay-init, see provider/local.h. */
#include "provider/docker/docker.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/crash.h"
#include "base/path.h"
#include "model/limits.h"
#include "model/network.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define LATE_MS 2000 /* that an end may take when its grace is over */
#define UP_MS 10000  /* from its start until cay-init listens */
#define UP_LOOK_MS 2
#define USUAL_SOCKET "unix:///var/run/docker.sock"

/* ---- pid 1 ---- */

static uint32_t pack(const struct cay_json *list, char *data, size_t size, size_t *len)
{
    uint32_t count = 0;
    for (const struct cay_json *v = list ? list->first : NULL; v; v = v->next, count++) {
        if (v->kind != CAY_JSON_STRING || *len + v->len + 1 > size)
            break;
        memcpy(data + *len, v->text, v->len + 1);
        *len += v->len + 1;
    }
    return count;
}

/* What executions need to know of the image, as its labels and the container's config say it. */
static size_t pack_image(const struct cay_docker_box *box, struct cay_arena *a, char *data,
                         size_t size)
{
    const struct cay_json *labels = cay_json_get(box->config, "Labels"), *argv = NULL;
    const char *user = cay_json_get_str(labels, "cay.user", "");
    const char *workdir = cay_json_get_str(labels, "cay.workdir", "");
    const char *words = cay_json_get_str(labels, "cay.argv", "[]");
    struct cay_engine_image head = {0};
    struct cay_error ignored; /* a label that is no list: the image has no command */
    size_t len = sizeof head;
    bool root = !*user || strcmp(user, "root") == 0 || *user == '0';
    cay_str_copy(head.user, sizeof head.user, root ? CAY_DEFAULT_USER : user);
    head.user[strcspn(head.user, ":")] = 0; /* its group is the one that /etc/passwd says */
    cay_str_copy(head.workdir, sizeof head.workdir, *workdir ? workdir : CAY_DEFAULT_WORKDIR);
    if (cay_json_parse(a, words, strlen(words), &argv, &ignored) == 0)
        head.argc = pack(argv, data, size, &len);
    head.argv_len = (uint32_t)(len - sizeof head);
    head.env_count = pack(cay_json_get(box->config, "Env"), data, size, &len);
    head.env_len = (uint32_t)(len - sizeof head - head.argv_len);
    memcpy(data, &head, sizeof head);
    return len;
}

static int ask_engine(struct cay_docker *d, enum cay_engine_op op, const struct cay_docker_box *box,
                      int *fd_out, struct cay_error *err)
{
    struct cay_engine_request rq = cay_docker_request(op, box);
    int r = cay_local_call(&d->local, &rq, CAY_ENGINE_CALL_MS, NULL, 0, NULL, fd_out, err);
    if (r == 0 && *fd_out < 0)
        return cay_fail(err, CAY_ERR_PROVIDER, "the engine's answer has no socket");
    return r;
}

static int reach(struct cay_local *l, const char *id, char *data, size_t size, size_t *len_out,
                 int *fd_out, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_docker *d = (struct cay_docker *)l;
    struct cay_docker_box box;
    struct cay_error ignored; /* it is not there any more, says who can tell */
    *len_out = 0;             /* what is known of it is so still */
    if (cay_docker_find_place(d, &a, id, true, &box) &&
        ask_engine(d, CAY_ENGINE_JOIN, &box, fd_out, &ignored) == 0)
        return 0;
    int r = cay_docker_running(d, &a, id, &box, err);
    if (r == 0)
        r = ask_engine(d, CAY_ENGINE_JOIN, &box, fd_out, err);
    if (r < 0)
        return r;
    cay_docker_note_place(d, &box, true);
    *len_out = pack_image(&box, &a, data, size);
    return 0;
}

/* It is up, says the Engine, and has another number now or none: it ended. Else it runs where we
 * are not. */
static int explain(struct cay_docker *d, const char *id, uint32_t pid, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_docker_box box;
    bool elsewhere = err->name && strcmp(err->name, "ENGINE_ELSEWHERE") == 0;
    int r = cay_docker_running(d, &a, id, &box, err);
    if (r < 0 || box.pid != pid)
        return cay_fail(err, CAY_ERR_PROVIDER, "the container ended as soon as it was started");
    if (!elsewhere)
        return cay_fail(err, CAY_ERR_PROVIDER,
                        "pid 1 of the container does not answer; its runtime must be runc or crun");
    atomic_store(&d->elsewhere, true);
    return cay_fail_as(err, CAY_ERR_UNSUPPORTED, "ENGINE_ELSEWHERE", CAY_DOCKER_NOT_HERE);
}

/* Started, but cay-init has to come up: a few milliseconds. Then its network is made, before
 * anybody else runs in there. */
static int settle(struct cay_docker *d, const char *id, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    char data[CAY_MESSAGE_MAX];
    struct cay_docker_box box;
    struct cay_error yet = {0}; /* the caller's is written to only if it fails */
    int fd = -1;
    int64_t until = cay_clock_mono_ms() + UP_MS;
    int r = cay_docker_running(d, &a, id, &box, err);
    if (r == CAY_ERR_CONFLICT)
        return cay_fail(err, CAY_ERR_PROVIDER, "the container ended as soon as it was started");
    if (r < 0)
        return r;
    while ((r = ask_engine(d, CAY_ENGINE_SETTLE, &box, &fd, &yet)) < 0) {
        bool away = r == CAY_ERR_UNAVAILABLE || r == CAY_ERR_TIMEOUT;
        if (away || r == CAY_ERR_UNSUPPORTED || cay_clock_mono_ms() > until) {
            *err = yet;
            return away ? r : explain(d, id, box.pid, err);
        }
        (void)nanosleep(&(struct timespec){.tv_nsec = UP_LOOK_MS * 1000000L}, NULL);
    }
    atomic_store(&d->elsewhere, false);
    cay_docker_note_place(d, &box, true);
    cay_pid1_learn(&d->local, id, data, pack_image(&box, &a, data, sizeof data), fd);
    return 0;
}

/* ---- life ---- */

/* One that is up already is settled all the same: whoever began it may have been cut short. */
static int run_container(struct cay_docker *d, struct cay_arena *a, const char *id,
                         struct cay_error *err)
{
    cay_docker_forget(d, id);
    cay_docker_forget_killed(d, id);
    int r = cay_docker_act(d, a, id, "start", NULL, err);
    cay_crash_point("create-started");
    return r < 0 ? r : settle(d, id, err);
}

static int post_container(struct cay_docker *d, struct cay_arena *a, const char *id,
                          const char *image, const struct cay_spec *spec, struct cay_error *err)
{
    char own[CAY_ID_SIZE];
    cay_id_volume(own, id);
    for (;;) {
        CAY_AUTO_BUF struct cay_buf body = {0};
        cay_docker_write_create(d, id, image, spec->volume ? spec->volume : own, spec, &body);
        int r =
            cay_docker_call(d, a, "POST", cay_arena_printf(a, "/containers/create?name=cay-%s", id),
                            &body, NULL, err);
        if (r != CAY_ERR_PROVIDER || d->sized <= 0 || !strstr(err->msg, "storage-opt"))
            return r;
        d->sized = -1; /* a storage driver that cannot, where volumes can */
    }
}

/* Nobody looks beforehand whether the image is fitted, or still there: this asks, and knows. A
 * repeated one finds the first: the name is taken, by us. */
static int make_container(struct cay_docker *d, struct cay_arena *a, const char *id,
                          const char *image, const struct cay_spec *spec, struct cay_error *err)
{
    struct cay_docker_box box;
    int r = post_container(d, a, id, image, spec, err);
    if (r == CAY_ERR_NOT_FOUND && spec->from)
        return cay_fail_as(err, r, "SNAPSHOT_NOT_FOUND", "snapshot not found");
    if (r == CAY_ERR_NOT_FOUND && (r = cay_docker_fit(d, a, spec->image, err)) == 0)
        r = post_container(d, a, id, image, spec, err);
    if (r != CAY_ERR_CONFLICT)
        return r;
    r = cay_docker_inspect(d, a, id, &box, err);
    if (r == CAY_ERR_NOT_FOUND)
        return cay_fail(err, CAY_ERR_PROVIDER, "somebody else has a container named cay-%s", id);
    return r;
}

/* Docker labels a volume that it makes with a container, Podman does not. */
static int label_volume(struct cay_docker *d, struct cay_arena *a, const char *id,
                        const struct cay_spec *spec, struct cay_error *err)
{
    char own[CAY_ID_SIZE];
    int podman = cay_docker_is_podman(d, a, err);
    if (podman <= 0)
        return podman;
    cay_id_volume(own, id);
    return cay_docker_make_volume(d, a, own, spec->disk_bytes, err);
}

static int choose_image(struct cay_docker *d, struct cay_arena *a, const char *id,
                        const struct cay_spec *spec, const char **image, bool *temporary,
                        struct cay_copied *copied, struct cay_error *err)
{
    *copied = (struct cay_copied){0};
    if (spec->from)
        return cay_docker_copy(d, a, spec, id, image, temporary, copied, err);
    return cay_docker_fit_name(d, a, spec->image, image, err);
}

static void drop_own(struct cay_docker *d, struct cay_arena *a, const char *id)
{
    struct cay_error ignored; /* the caller has the error that matters */
    char own[CAY_ID_SIZE];
    cay_id_volume(own, id);
    (void)cay_docker_drop_volume(d, a, own, &ignored);
}

/* With the volume that was made with it. */
static void undo_create(struct cay_docker *d, struct cay_arena *a, const char *id,
                        const struct cay_spec *spec)
{
    struct cay_error ignored; /* as above */
    cay_docker_note_killed(d, id);
    (void)cay_docker_call(d, a, "DELETE",
                          cay_arena_printf(a, "%s?force=true", cay_docker_name(a, id)), NULL, NULL,
                          &ignored);
    if (!spec->volume)
        drop_own(d, a, id);
}

static int create(struct cay_provider *p, const char *id, const struct cay_spec *spec,
                  struct cay_copied *copied, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_docker *d = (struct cay_docker *)p;
    const char *image = NULL;
    bool temporary = false;
    cay_docker_try_size(d);
    int r = choose_image(d, &a, id, spec, &image, &temporary, copied, err);
    if (r < 0)
        return r;
    if (spec->volume)
        pthread_mutex_lock(&d->attaching);
    if (spec->volume)
        r = cay_docker_find_volume(d, &a, spec->volume, id, err);
    else if (!spec->from)
        r = label_volume(d, &a, id, spec, err);
    if (r == 0)
        r = make_container(d, &a, id, image, spec, err);
    if (spec->volume)
        pthread_mutex_unlock(&d->attaching);
    cay_crash_point("create-box-made");
    if (r == 0) {
        r = run_container(d, &a, id, err);
        if (r < 0)
            undo_create(d, &a, id, spec);
    } else if (spec->from) {
        drop_own(d, &a, id);
    }
    if (temporary)
        cay_docker_drop_image(d, &a, image);
    return r;
}

static int start(struct cay_provider *p, const char *id, const struct cay_spec *spec,
                 struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    CAY_AUTO_BUF struct cay_buf limits = {0};
    struct cay_docker *d = (struct cay_docker *)p;
    struct cay_docker_box box;
    int r = cay_docker_inspect(d, &a, id, &box, err);
    if (r < 0 || box.entry.running)
        return r;
    if (!cay_docker_has_limits(&box, spec)) {
        cay_docker_write_limits(spec, &limits);
        r = cay_docker_act(d, &a, id, "update", &limits, err);
    }
    bool later = r == CAY_ERR_NOT_FOUND; /* a call that Podman does not know: by us, once it runs */
    if (r == 0 || later)
        r = run_container(d, &a, id, err);
    return r == 0 && later ? cay_docker_limit(p, id, spec, err) : r;
}

/* Until it is so ("not-running", "removed"), or gone altogether. */
static int await(struct cay_docker *d, struct cay_arena *a, const char *id, const char *condition,
                 int64_t wait_ms, struct cay_error *err)
{
    struct cay_docker_answer ignored;
    const struct cay_docker_question q = {
        .method = "POST",
        .path = cay_arena_printf(a, "%s/wait?condition=%s", cay_docker_name(a, id), condition),
        .wait_ms = wait_ms};
    int r = cay_docker_ask(d, a, &q, &ignored, err);
    return r == CAY_ERR_NOT_FOUND ? 0 : r;
}

static int stop(struct cay_provider *p, const char *id, int64_t grace_ms, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_docker *d = (struct cay_docker *)p;
    struct cay_docker_box box;
    struct cay_error polite;
    int r = cay_docker_inspect(d, &a, id, &box, err);
    if (r < 0 || !box.entry.running)
        return r;
    if (box.entry.paused && (r = cay_docker_act(d, &a, id, "unpause", NULL, err)) < 0)
        return r;
    bool told = cay_local_stop(&d->local, id, grace_ms, &polite) == 0;
    cay_docker_forget(d, id);
    if (told && await(d, &a, id, "not-running", grace_ms + LATE_MS, &polite) == 0)
        return 0;
    cay_docker_note_killed(d, id);
    r = cay_docker_act(d, &a, id, "kill", NULL, err); /* 409: it ended in the meantime */
    return r < 0 && r != CAY_ERR_CONFLICT
               ? r
               : await(d, &a, id, "not-running", CAY_ENGINE_CALL_MS, err);
}

/* The Engine gave up: somebody in it waits in the kernel, where nothing reaches him. */
static int took_long(const char *what, struct cay_error *err)
{
    (void)cay_wrap(err, "%s", what);
    err->code = CAY_ERR_TIMEOUT;
    return CAY_ERR_TIMEOUT;
}

/* Its container was removed by hand, or by a call that was cut short: what was made with it may be
 * there still. */
static int destroy_rest(struct cay_provider *p, const char *id, const char *volume,
                        struct cay_error *err)
{
    char own[CAY_ID_SIZE];
    if (volume && *volume)
        return 0;
    cay_id_volume(own, id);
    int r = cay_docker_drop(p, own, err);
    return r == CAY_ERR_CONFLICT ? 0 : r; /* in a container that is not ours */
}

static int destroy(struct cay_provider *p, const char *id, const char *volume,
                   struct cay_usage *used, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_docker *d = (struct cay_docker *)p;
    struct cay_docker_box box;
    struct cay_usage last = {0};
    struct cay_error ignored; /* what it used is nobody's condition */
    cay_docker_forget(d, id);
    int r = cay_docker_inspect(d, &a, id, &box, err);
    if (r == CAY_ERR_NOT_FOUND && (r = destroy_rest(p, id, volume, err)) == 0) {
        *used = last;
        return 0;
    }
    if (r < 0)
        return r;
    if (box.entry.running)
        (void)cay_docker_usage_of(d, &box, &last, &ignored);
    cay_docker_note_killed(d, id);
    r = cay_docker_call(d, &a, "DELETE",
                        cay_arena_printf(&a, "%s?force=true", cay_docker_name(&a, id)), NULL, NULL,
                        err);
    if (r == CAY_ERR_PROVIDER && strstr(err->msg, "kill"))
        return took_long("its processes do not end", err);
    if (r == CAY_ERR_CONFLICT) /* another is at it */
        r = await(d, &a, id, "removed", CAY_ENGINE_CALL_MS, err);
    if (r < 0 && r != CAY_ERR_NOT_FOUND)
        return r;
    cay_crash_point("delete-killed");
    if (box.copied)
        cay_docker_drop_untagged(d, &a, box.image);
    bool keeps = volume ? *volume : box.given;
    r = keeps ? 0 : cay_docker_drop_volume(d, &a, box.volume, err);
    cay_crash_point("delete-files-gone");
    if (r == 0)
        *used = last;
    return r;
}

static int pause_box(struct cay_provider *p, const char *id, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_docker *d = (struct cay_docker *)p;
    struct cay_docker_box box;
    int r = cay_docker_running(d, &a, id, &box, err);
    if (r < 0 || box.entry.paused)
        return r;
    r = cay_docker_act(d, &a, id, "pause", NULL, err);
    return r == CAY_ERR_PROVIDER ? took_long("its processes do not stand still", err) : r;
}

static int resume(struct cay_provider *p, const char *id, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_docker *d = (struct cay_docker *)p;
    struct cay_docker_box box;
    int r = cay_docker_running(d, &a, id, &box, err);
    return r < 0 || !box.entry.paused ? r : cay_docker_act(d, &a, id, "unpause", NULL, err);
}

/* ---- all of them ---- */

static int list(struct cay_provider *p, struct cay_arena *a, struct cay_provider_list *out,
                struct cay_error *err)
{
    struct cay_docker *d = (struct cay_docker *)p;
    const struct cay_json *first;
    size_t count = 1;
    int r = cay_docker_list(
        d, a, "/containers/json?all=true",
        cay_arena_printf(a, "{\"label\":[\"" CAY_DOCKER_LABEL "=%s\"]}", d->instance), &first, err);
    if (r < 0)
        return r;
    for (const struct cay_json *v = first; v; v = v->next)
        count++;
    struct cay_provider_list found = {cay_arena_alloc(a, count * sizeof *found.at), 0};
    for (const struct cay_json *v = first; v; v = v->next) {
        struct cay_docker_box box;
        const char *id = cay_json_get_str(cay_json_get(v, "Labels"), "cay.id", "");
        if (!cay_id_is_sandbox(id))
            continue;
        r = cay_docker_inspect(d, a, id, &box, err);
        if (r == CAY_ERR_NOT_FOUND)
            continue; /* removed while we looked */
        if (r < 0)
            return r;
        found.at[found.count++] = box.entry;
    }
    *out = found;
    return 0;
}

/* ---- health ---- */

static const char *disk(struct cay_provider *p)
{
    return ((struct cay_docker *)p)->sized > 0 ? "xfs" : "none";
}

static const char *isolation(const struct cay_provider *p)
{
    return ((const struct cay_docker *)p)->isolation;
}

/* ---- open ---- */

/* The engine writes it before it answers anybody. */
static int read_instance(struct cay_docker *d, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    char *text;
    struct cay_engine_request rq = {.version = CAY_ENGINE_VERSION, .op = CAY_ENGINE_HELLO};
    int r = cay_local_call(&d->local, &rq, CAY_ENGINE_CALL_MS, NULL, 0, NULL, NULL, err);
    if (r == 0)
        r = cay_path_read(d->local.data_fd, "instance", 64, &a, &text, NULL, err);
    if (r == 0)
        cay_str_copy(d->instance, sizeof d->instance, text);
    return r;
}

/* Containers that never ran and were to be removed, of a server that was killed over it; and fitted
 * images of another version of cay, unless a sandbox is made from them. */
static void sweep(struct cay_docker *d)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    const struct cay_json *v = NULL;
    struct cay_error ignored; /* an Engine that is away has its say in health */
    if (cay_docker_list(
            d, &a, "/containers/json?all=true",
            cay_arena_printf(&a, "{\"name\":[\"^/" CAY_DOCKER_HELPER "%s-\"]}", d->instance), &v,
            &ignored) < 0)
        return;
    for (; v; v = v->next)
        (void)cay_docker_call(d, &a, "DELETE",
                              cay_arena_printf(&a, "/containers/%s?force=true&v=true",
                                               cay_json_get_str(v, "Id", "-")),
                              NULL, NULL, &ignored);
    cay_docker_drop_halves(d, &a);
    (void)cay_docker_drop_fits(d, &a, d->tools, &(struct cay_pruned){0}, &ignored);
}

static void close_docker(struct cay_provider *p)
{
    struct cay_docker *d = (struct cay_docker *)p;
    cay_local_done(&d->local);
    cay_docker_close_idle(d);
    pthread_mutex_destroy(&d->lock);
    pthread_mutex_destroy(&d->fitting);
    pthread_mutex_destroy(&d->attaching);
    pthread_mutex_destroy(&d->copying);
    cay_close_fd(&d->staged_fd);
    free(d->url);
    free(d);
}

static struct cay_docker *new_docker(const struct cay_config *cfg, struct cay_queue *events)
{
    struct cay_docker *d = calloc(1, sizeof *d);
    if (!d)
        abort();
    d->local.base.ops = &cay_provider_docker;
    d->local.reach = reach;
    cay_local_init(&d->local, cfg, events);
    d->runtime = cfg->docker_runtime;
    d->read_only = cfg->docker_read_only;
    (void)snprintf(d->isolation, sizeof d->isolation, "docker%s%.48s", d->runtime ? "/" : "",
                   d->runtime ? d->runtime : "");
    d->host = cfg->docker_host ? cfg->docker_host : USUAL_SOCKET;
    d->dials = strncmp(d->host, "unix://", 7) == 0;
    d->staged_fd = -1;
    if (!d->dials) {
        d->ca = cfg->docker_ca;
        d->cert = cfg->docker_cert;
        d->key = cfg->docker_key;
    }
    const char *address = strstr(d->host, "://");
    if (asprintf(&d->url, "%s://%s", d->ca ? "https" : "http",
                 d->dials  ? "docker"
                 : address ? address + 3
                           : d->host) < 0)
        abort();
    pthread_mutex_init(&d->lock, NULL);
    pthread_mutex_init(&d->fitting, NULL);
    pthread_mutex_init(&d->attaching, NULL);
    pthread_mutex_init(&d->copying, NULL);
    return d;
}

static int open_docker(const struct cay_config *cfg, struct cay_queue *events,
                       struct cay_provider **out, struct cay_error *err)
{
    struct cay_docker *d = new_docker(cfg, events);
    int r = read_instance(d, err);
    if (r == 0)
        r = cay_docker_mark_tools(d, err);
    if (r == 0)
        r = cay_docker_stage_open(d, err);
    if (r == 0)
        sweep(d);
    if (r == 0)
        cay_docker_try_size(d);
    if (r == 0)
        r = cay_local_listen(&d->local, cay_docker_listen, err);
    if (r < 0)
        close_docker(&d->local.base);
    else
        *out = &d->local.base;
    return r;
}

const struct cay_provider_ops cay_provider_docker = {
    .name = "docker",
    .isolation = isolation,
    .open = open_docker,
    .close = close_docker,
    .health = cay_docker_health,
    .disk = disk,
    .create = create,
    .start = start,
    .stop = stop,
    .destroy = destroy,
    .pause = pause_box,
    .resume = resume,
    .snapshot = cay_docker_snapshot,
    .drop = cay_docker_drop,
    .kept = cay_docker_kept,
    .limit = cay_docker_limit,
    .socket = cay_docker_socket,
    .way_out = cay_docker_way_out,
    .usage = cay_docker_usage,
    .list = list,
    .exec = cay_local_exec,
    .kill = cay_local_kill,
    .input = cay_local_input,
    .resize = cay_local_resize,
    .file = cay_local_file,
    .executions = cay_local_executions,
    .image_has = cay_docker_image_has,
    .image_layer = cay_docker_image_layer,
    .image_put = cay_docker_image_put,
    .image_let_go = cay_docker_image_let_go,
    .image_list = cay_docker_image_list,
    .image_remove = cay_docker_image_remove,
    .image_prune = cay_docker_image_prune,
    .image_export = cay_docker_image_export,
    .build = cay_docker_build,
    .recipes = cay_local_recipes,
};
