/* SPDX-License-Identifier: Apache-2.0 */
/* What is wrong with the Docker Engine, and what to do about it. */
#include "provider/docker/docker.h"
#include <stdio.h>
#include <string.h>

#define HEALTH_MS 5000
#define API_MINOR 41
#define MAX_PROBLEMS 3 /* as many as are looked for */

static void add_problem(struct cay_health *out, struct cay_arena *a, const char *what,
                        const char *why, const char *fix)
{
    if (!out->problems)
        out->problems = cay_arena_alloc(a, MAX_PROBLEMS * sizeof *out->problems);
    out->problems[out->problem_count++] =
        (struct cay_problem){what, cay_arena_strdup(a, why), fix, true};
}

static bool lacks_runtime(struct cay_docker *d, struct cay_arena *a)
{
    struct cay_docker_answer answer;
    struct cay_error ignored; /* then a create tells */
    const struct cay_docker_question q = {.method = "GET", .path = "/info", .wait_ms = HEALTH_MS};
    if (cay_docker_ask(d, a, &q, &answer, &ignored) < 0)
        return false;
    const struct cay_json *known = cay_docker_below(answer.json, "Runtimes");
    return known && !cay_docker_below(known, d->runtime);
}

/* What to do about it, by a word of what is wrong; the last for everything else. */
static const char *find_fix(const char *why)
{
    static const struct {
        const char *sign, *fix;
    } signs[] = {
        {"No such file",
         "install Docker or start it (`systemctl start docker`), or name its socket "
         "with --docker-host"},
        {"refused", "start Docker (`systemctl start docker`): nobody listens there"},
        {"denied", "let root open Docker's socket, or name another with --docker-host"},
        {"too new", "install a Docker Engine with API 1.41 or newer (20.10)"},
        {"not trusted", "put the authority that signs the Engine's certificate into ca.pem of "
                        "--docker-cert-path"},
        {"speak TLS", "speak to it without TLS: no --docker-cert-path, no DOCKER_TLS_VERIFY"},
        {"in time", "Docker is there and does not answer: look at its log, restart it"},
        {"", "see that it is Docker's API, and with TLS whether it wants --docker-cert-path"},
    };
    size_t i = 0;
    while (!strstr(why, signs[i].sign))
        i++;
    return signs[i].fix;
}

int cay_docker_health(struct cay_provider *p, struct cay_arena *a, struct cay_health *out,
                      struct cay_error *err)
{
    struct cay_docker *d = (struct cay_docker *)p;
    const struct cay_docker_question q = {
        .method = "GET", .path = "/version", .wait_ms = HEALTH_MS};
    struct cay_docker_answer answer = {0};
    const struct cay_engine_request hello = {.version = CAY_ENGINE_VERSION, .op = CAY_ENGINE_HELLO};
    unsigned major = 0, minor = 0;
    struct cay_error why = {0};
    /* Without it no sandbox is reached, whatever Docker says. */
    int r = cay_local_call(&d->local, &hello, HEALTH_MS, NULL, 0, NULL, NULL, err);
    if (r < 0)
        return r;
    *out = (struct cay_health){.version = "unknown", .disk = p->ops->disk(p)};
    if (cay_docker_ask(d, a, &q, &answer, &why) < 0) {
        const char *text =
            cay_arena_printf(a, "%s%s%s", why.msg, *why.cause ? ": " : "", why.cause);
        add_problem(out, a, "docker", text, find_fix(text));
        return 0;
    }
    out->version = cay_arena_strdup(a, cay_json_get_str(answer.json, "Version", "unknown"));
    const char *api = cay_json_get_str(answer.json, "ApiVersion", "0.0");
    if (sscanf(api, "%u.%u", &major, &minor) != 2 || major < 1 || (major == 1 && minor < API_MINOR))
        add_problem(out, a, "docker", cay_arena_printf(a, "its API is %s", api),
                    find_fix("too new"));
    if (d->runtime && lacks_runtime(d, a))
        add_problem(out, a, "docker runtime", cay_arena_printf(a, "it has no %s", d->runtime),
                    "tell the Docker Engine of it (`runtimes` in daemon.json), or leave "
                    "--docker-runtime out");
    if (atomic_load(&d->elsewhere))
        add_problem(out, a, "docker", CAY_DOCKER_NOT_HERE,
                    "run `cay serve` on the machine that the Engine is on");
    return 0;
}
