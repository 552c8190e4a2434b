/* SPDX-License-Identifier: Apache-2.0 */
/* Hears of containers that end. While the Engine could not be heard something may have happened: an
 * entry without an id says so, once the Engine is there again. */
#include "base/buf.h"
#include "model/limits.h"
#include "provider/docker/docker.h"
#include <stdio.h>
#include <string.h>

#define AGAIN_MS 500
#define SILENCE_MS                                                                                 \
    (10 * 60 * 1000) /* then it is begun anew: a connection may be dead and not tell */
#define PING_MS 5000
#define LINE_MAX_BYTES (1u << 20)

struct ear {
    struct cay_docker *d;
    struct cay_buf line;
};

static void died(struct cay_docker *d, const char *line, size_t len)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_error err;
    const struct cay_json *event;
    struct cay_docker_box box;
    if (cay_json_parse(&a, line, len, &event, &err) < 0)
        return;
    const struct cay_json *about = cay_json_get(cay_json_get(event, "Actor"), "Attributes");
    const char *id = cay_json_get_str(about, "cay.id", "");
    const char *code = cay_json_get_str(about, "exitCode", "");
    if (!cay_id_is_sandbox(id))
        return;
    cay_docker_forget(d, id);
    if (strcmp(code, "0") == 0 || cay_docker_was_killed(d, id))
        return; /* by us: whoever asked for it knows */
    if (cay_docker_inspect(d, &a, id, &box, &err) == 0 && !box.entry.running)
        cay_local_tell(&d->local, &box.entry);
    else /* gone already, or up again: whoever wants to know looks */
        cay_local_tell(&d->local, NULL);
}

static int on_data(void *arg, const char *data, size_t len, struct cay_error *err)
{
    struct ear *ear = arg;
    if (ear->line.len + len > LINE_MAX_BYTES)
        return cay_fail(err, CAY_ERR_TOO_LARGE, "an event without an end");
    cay_buf_add(&ear->line, data, len);
    for (;;) {
        const char *end = ear->line.len ? memchr(ear->line.data, '\n', ear->line.len) : NULL;
        if (!end)
            return 0;
        size_t line = (size_t)(end - ear->line.data);
        died(ear->d, ear->line.data, line);
        cay_buf_drop(&ear->line, line + 1);
    }
}

/* However it ends, it is begun anew. */
static void hear(struct cay_docker *d)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    CAY_AUTO_ANSWER struct cay_client_answer answer = {0};
    struct cay_error err;
    struct ear ear = {.d = d};
    const char *filters =
        cay_docker_encode(&a, cay_arena_printf(&a,
                                               "{\"type\":[\"container\"],\"event\":[\"die\"],"
                                               "\"label\":[\"" CAY_DOCKER_LABEL "=%s\"]}",
                                               d->instance));
    struct cay_client_request rq = {
        .method = "GET",
        .path = cay_arena_printf(&a, CAY_DOCKER_API "/events?filters=%s", filters),
        .on_data = on_data,
        .arg = &ear,
        .idle_ms = SILENCE_MS};
    struct cay_client *c = cay_docker_take(d, &err);
    if (!c)
        return;
    cay_client_interrupt_on(c, d->local.closing);
    (void)cay_client_call(c, &rq, &answer, &err);
    cay_client_free(c);
    cay_buf_done(&ear.line);
}

static bool is_there(struct cay_docker *d)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_docker_answer ignored;
    struct cay_error err;
    const struct cay_docker_question q = {.method = "GET", .path = "/_ping", .wait_ms = PING_MS};
    return cay_docker_ask(d, &a, &q, &ignored, &err) == 0;
}

void *cay_docker_listen(void *docker)
{
    struct cay_docker *d = docker;
    for (bool first = true; !cay_local_closing(&d->local, -1, first ? 0 : AGAIN_MS);
         first = false) {
        if (!first && !is_there(d))
            continue;
        if (!first)
            cay_local_tell(&d->local, NULL);
        hear(d);
    }
    return NULL;
}
