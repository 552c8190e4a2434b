/* SPDX-License-Identifier: Apache-2.0 */
/* One container, as the Docker Engine tells of it: how it is, what it uses, and its network. */
#include "base/buf.h"
#include "model/limits.h"
#include "model/network.h"
#include "provider/docker/docker.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

const char *cay_docker_name(struct cay_arena *a, const char *id)
{
    return cay_arena_printf(a, "/containers/cay-%s", id);
}

const struct cay_json *cay_docker_below(const struct cay_json *at, const char *key)
{
    const struct cay_json *v = at && at->kind == CAY_JSON_OBJECT ? cay_json_get(at, key) : NULL;
    return v && v->kind != CAY_JSON_NULL ? v : NULL;
}

static uint64_t number(const struct cay_json *at, const char *key)
{
    int64_t v = at && at->kind == CAY_JSON_OBJECT ? cay_json_get_int(at, key, 0) : 0;
    return v > 0 ? (uint64_t)v : 0;
}

/* 2026-11-15T17:22:30.123456789Z; the year 1 is never. */
static int64_t read_time(const char *text)
{
    struct tm t = {0};
    int ms = 0;
    if (sscanf(text, "%d-%d-%dT%d:%d:%d.%3d", &t.tm_year, &t.tm_mon, &t.tm_mday, &t.tm_hour,
               &t.tm_min, &t.tm_sec, &ms) < 6 ||
        t.tm_year < 1970)
        return 0;
    t.tm_year -= 1900;
    t.tm_mon--;
    return (int64_t)timegm(&t) * 1000 + ms;
}

bool cay_docker_was_killed(struct cay_docker *d, const char *id)
{
    bool found = false;
    pthread_mutex_lock(&d->lock);
    for (size_t i = 0; i < CAY_COUNT(d->killed); i++)
        found |= strcmp(d->killed[i], id) == 0;
    pthread_mutex_unlock(&d->lock);
    return found;
}

void cay_docker_note_killed(struct cay_docker *d, const char *id)
{
    pthread_mutex_lock(&d->lock);
    cay_str_copy(d->killed[d->killed_at++ % CAY_COUNT(d->killed)], CAY_ID_SIZE, id);
    pthread_mutex_unlock(&d->lock);
}

void cay_docker_forget_killed(struct cay_docker *d, const char *id)
{
    pthread_mutex_lock(&d->lock);
    for (size_t i = 0; i < CAY_COUNT(d->killed); i++)
        if (strcmp(d->killed[i], id) == 0)
            d->killed[i][0] = 0;
    pthread_mutex_unlock(&d->lock);
}

/* cay-init ends with 0 when it was told to, and else never by itself. */
static void read_death(struct cay_docker *d, const struct cay_json *state,
                       struct cay_provider_entry *e)
{
    int code = (int)cay_json_get_int(state, "ExitCode", 0);
    bool never = !e->started_at_ms;
    e->death = (struct cay_death){.reason = "error", .has_exit = !never, .exit_code = code};
    if (never)
        return;
    int signal = code > 128 && code < 128 + 65 ? code - 128 : 0;
    if (code == 0 || cay_docker_was_killed(d, e->id)) {
        e->death.reason = "stopped";
    } else if (signal) {
        /* OOMKilled says that somebody in it was, at some time */
        bool oom = signal == SIGKILL && cay_json_get_bool(state, "OOMKilled", false);
        e->death.reason = oom ? "oom" : cay_signal_is_crash(signal) ? "error" : "signal";
        e->death.has_exit = false;
        e->death.has_signal = true;
        e->death.signal = signal;
    }
}

static int read_box(struct cay_docker *d, const struct cay_json *json, const char *id,
                    struct cay_docker_box *out, struct cay_error *err)
{
    const struct cay_json *state = json ? cay_json_get(json, "State") : NULL;
    const struct cay_json *config = json ? cay_json_get(json, "Config") : NULL;
    const struct cay_json *labels = config ? cay_json_get(config, "Labels") : NULL;
    if (!state || !labels)
        return cay_fail(err, CAY_ERR_PROVIDER, "Docker's answer is no container");
    if (strcmp(cay_json_get_str(labels, CAY_DOCKER_LABEL, ""), d->instance) != 0)
        return cay_fail(err, CAY_ERR_NOT_FOUND, "sandbox not found");
    *out = (struct cay_docker_box){
        .pid = (uint32_t)cay_json_get_int(state, "Pid", 0),
        .container = cay_json_get_str(json, "Id", ""),
        .own_bytes = number(json, "SizeRw"),
        .volume = cay_json_get_str(labels, "cay.volume", ""),
        .given = *cay_json_get_str(labels, "cay.given", ""),
        .disk = cay_json_get_str(labels, "cay.disk", ""),
        .image = cay_json_get_str(json, "Image", ""),
        .copied = strncmp(cay_docker_short(cay_json_get_str(config, "Image", "")), CAY_DOCKER_SNAPS,
                          strlen(CAY_DOCKER_SNAPS)) == 0,
        .config = config,
        .host = cay_json_get(json, "HostConfig")};
    struct cay_provider_entry *e = &out->entry;
    cay_str_copy(e->id, sizeof e->id, id);
    e->running = cay_json_get_bool(state, "Running", false);
    e->paused = e->running && cay_json_get_bool(state, "Paused", false);
    e->started_at_ms = read_time(cay_json_get_str(state, "StartedAt", ""));
    e->ended_at_ms = e->running ? 0 : read_time(cay_json_get_str(state, "FinishedAt", ""));
    if (!e->running)
        read_death(d, state, e);
    return 0;
}

static int look_at(struct cay_docker *d, struct cay_arena *a, const char *id, const char *query,
                   struct cay_docker_box *out, struct cay_error *err)
{
    struct cay_docker_answer answer;
    int r = cay_docker_call(d, a, "GET",
                            cay_arena_printf(a, "%s/json%s", cay_docker_name(a, id), query), NULL,
                            &answer, err);
    if (r == CAY_ERR_NOT_FOUND)
        return cay_fail(err, r, "sandbox not found");
    return r < 0 ? r : read_box(d, answer.json, id, out, err);
}

int cay_docker_inspect(struct cay_docker *d, struct cay_arena *a, const char *id,
                       struct cay_docker_box *out, struct cay_error *err)
{
    return look_at(d, a, id, "", out, err);
}

int cay_docker_measure(struct cay_docker *d, struct cay_arena *a, const char *id,
                       struct cay_docker_box *out, struct cay_error *err)
{
    return look_at(d, a, id, "?size=true", out, err);
}

struct cay_engine_request cay_docker_request(enum cay_engine_op op,
                                             const struct cay_docker_box *box)
{
    struct cay_engine_request rq = {.version = CAY_ENGINE_VERSION, .op = op, .pid = box->pid};
    cay_str_copy(rq.container, sizeof rq.container, box->container);
    return rq;
}

static int not_running(struct cay_error *err)
{
    return cay_fail_as(err, CAY_ERR_CONFLICT, "SANDBOX_NOT_RUNNING", "sandbox is not running");
}

int cay_docker_running(struct cay_docker *d, struct cay_arena *a, const char *id,
                       struct cay_docker_box *out, struct cay_error *err)
{
    int r = cay_docker_inspect(d, a, id, out, err);
    return r == 0 && !out->entry.running ? not_running(err) : r;
}

int cay_docker_act(struct cay_docker *d, struct cay_arena *a, const char *id, const char *verb,
                   const struct cay_buf *body, struct cay_error *err)
{
    return cay_docker_call(d, a, "POST", cay_arena_printf(a, "%s/%s", cay_docker_name(a, id), verb),
                           body, NULL, err);
}

/* ---- what it uses ---- */

int cay_docker_usage_of(struct cay_docker *d, const struct cay_docker_box *box,
                        struct cay_usage *out, struct cay_error *err)
{
    const struct cay_engine_request rq = cay_docker_request(CAY_ENGINE_USAGE, box);
    struct cay_usage now;
    size_t len = 0;
    int r = cay_local_call(&d->local, &rq, CAY_ENGINE_CALL_MS, &now, sizeof now, &len, NULL, err);
    if (r == CAY_ERR_NOT_FOUND || (r == 0 && len != sizeof now))
        return not_running(err); /* it ended since Docker was asked */
    if (r == 0)
        *out = now;
    return r;
}

int cay_docker_usage(struct cay_provider *p, const char *id, struct cay_usage *out,
                     struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_docker *d = (struct cay_docker *)p;
    struct cay_docker_box box;
    struct cay_error ignored; /* then the Engine is asked */
    if (cay_docker_find_place(d, &a, id, false, &box) &&
        cay_docker_usage_of(d, &box, out, &ignored) == 0)
        return 0;
    int r = cay_docker_running(d, &a, id, &box, err);
    return r < 0 ? r : cay_docker_usage_of(d, &box, out, err);
}

/* By the engine, which refuses what is in use; Docker has to know for the next start. */
int cay_docker_limit(struct cay_provider *p, const char *id, const struct cay_spec *spec,
                     struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    CAY_AUTO_BUF struct cay_buf limits = {0};
    struct cay_docker *d = (struct cay_docker *)p;
    struct cay_docker_box box;
    int r = cay_docker_running(d, &a, id, &box, err);
    if (r < 0)
        return r;
    if (d->sized > 0 && strtoull(box.disk, NULL, 10) != spec->disk_bytes)
        return cay_fail(err, CAY_ERR_UNSUPPORTED, "Docker cannot change the limit of a disk");
    struct cay_engine_request rq = cay_docker_request(CAY_ENGINE_LIMIT, &box);
    rq.memory_bytes = spec->memory_bytes;
    rq.cpu_milli = spec->cpu_milli;
    rq.pids = spec->pids;
    r = cay_local_call(&d->local, &rq, CAY_ENGINE_CALL_MS, NULL, 0, NULL, NULL, err);
    if (r == CAY_ERR_NOT_FOUND)
        return not_running(err);
    cay_docker_write_limits(spec, &limits);
    if (r == 0)
        r = cay_docker_act(d, &a, id, "update", &limits, err);
    return r == CAY_ERR_NOT_FOUND ? 0 : r; /* a call that Podman does not know; start sees to it */
}

/* ---- sockets inside ---- */

static int ask_sockets(struct cay_docker *d, const struct cay_docker_box *box,
                       enum cay_socket_kind kind, int *fd_out, struct cay_error *err)
{
    CAY_CLEANUP(cay_local_close_fds) struct cay_local_fds fds = {0};
    struct cay_engine_request rq = cay_docker_request(CAY_ENGINE_SOCKET, box);
    int want = kind == CAY_SOCKET_OUT ? 2 : 1;
    rq.socket = kind;
    int r = cay_local_call_fds(&d->local, &rq, CAY_ENGINE_CALL_MS, NULL, 0, NULL, &fds, err);
    if (r == 0 && fds.count != want)
        return cay_fail(err, CAY_ERR_PROVIDER, "the engine's answer has no sockets");
    for (int i = 0; r == 0 && i < want; i++)
        fd_out[i] = cay_take_fd(&fds.at[i]);
    return r;
}

int cay_docker_socket(struct cay_provider *p, const char *id, enum cay_socket_kind kind,
                      int *fd_out, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_docker *d = (struct cay_docker *)p;
    struct cay_docker_box box;
    struct cay_error ignored; /* then the Engine is asked */
    if (cay_docker_find_place(d, &a, id, false, &box) &&
        ask_sockets(d, &box, kind, fd_out, &ignored) == 0)
        return 0;
    int r = cay_docker_running(d, &a, id, &box, err);
    if (r == 0)
        cay_docker_note_place(d, &box, false);
    return r < 0 ? r : ask_sockets(d, &box, kind, fd_out, err);
}

int cay_docker_way_out(struct cay_provider *p, const char *id, struct cay_way_out *out,
                       struct cay_error *err)
{
    int fds[2] = {-1, -1};
    int r = cay_docker_socket(p, id, CAY_SOCKET_OUT, fds, err);
    if (r == 0)
        *out = (struct cay_way_out){fds[0], fds[1]};
    return r;
}
