/* SPDX-License-Identifier: Apache-2.0 */
/* /api/sandbox: the body of a create. */
#include "api/network.h"
#include "api/sandbox/sandbox.h"
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TIMEOUT_MS (30 * 60 * 1000) /* that a sandbox lives, as document 004 shows it */

struct body {
    const char *name, *image, *pull, *track, *user, *workdir, *volume, *team_id;
    const struct cay_json *start, *memory, *cpu;
    int64_t exec_ms, timeout_minutes, timeout_ms; /* the last two: -1 absent */
    bool persistent;
    struct cay_api_network network;
    struct cay_pairs env, tags;
    struct cay_strs labels;
    const char *idempotency_key;
};

#define BODY struct body
#define SIZE_FIELDS                                                                                \
    CAY_FIELD_ANY(BODY, memory, "memoryLimit", .type = "string|number"),                           \
        CAY_FIELD_ANY(BODY, cpu, "cpuLimit", .type = "string|number")

static const struct cay_field option_fields[] = {
    CAY_FIELD_INT(BODY, exec_ms, "timeout", .min = 1, .max = (double)CAY_MAX_EXEC_TIMEOUT_MS),
    SIZE_FIELDS,
    CAY_FIELD_END,
};

const struct cay_field cay_sandbox_spec_fields[] = {
    CAY_FIELD_STR(BODY, name, "name", .max_len = 1024),
    CAY_FIELD_STR(BODY, image, "image", .max_len = 1024),
    CAY_FIELD_STR(BODY, pull, "pullPolicy", .choices = cay_api_pulls),
    CAY_FIELD_SUB("options", option_fields),
    SIZE_FIELDS,
    CAY_API_TIMEOUT_FIELDS(BODY),
    CAY_FIELD_PAIRS(BODY, env, "env", .max_len = CAY_MAX_ENV_BYTES),
    CAY_FIELD_STRS(BODY, labels, "labels"),
    CAY_FIELD_PAIRS(BODY, tags, "tags"),
    CAY_API_NETWORK_FIELDS(BODY),
    CAY_FIELD_BOOL(BODY, persistent, "persistent"),
    CAY_FIELD_ANY(BODY, start, "startCommand", .type = "string|[string]|null"),
    CAY_FIELD_STR(BODY, track, "track", .choices = cay_api_tracks),
    CAY_FIELD_STR(BODY, user, "user", .max_len = 1024),
    CAY_FIELD_STR(BODY, workdir, "workdir", .max_len = CAY_MAX_PATH),
    CAY_FIELD_STR(BODY, volume, "volume", .max_len = 64),
    CAY_FIELD_STR(BODY, team_id, "teamId", .max_len = 1024),
    CAY_FIELD_STR(BODY, idempotency_key, "idempotencyKey"),
    CAY_FIELD_END,
};

/* "0.5", "512m", 2: the number, and where its unit begins. False for what is none, or negative. */
static bool number_of(const struct cay_json *v, double *out, const char **unit)
{
    char *end = NULL;
    if (v->kind != CAY_JSON_STRING && v->kind != CAY_JSON_NUMBER)
        return false;
    if (!isdigit((unsigned char)v->text[0]) && v->text[0] != '.')
        return false;
    if (v->text[0] == '0' && (v->text[1] | 0x20) == 'x')
        return false;
    *out = strtod(v->text, &end);
    *unit = end;
    return isfinite(*out) && *out > 0;
}

/* Bytes, or with a unit of 1024s: "512m", "512MB", "2Gi". */
static int set_memory(const struct cay_json *v, struct cay_spec *spec, struct cay_error *err)
{
    static const char units[] = "kmgt";
    double count;
    const char *unit;
    if (!v || v->kind == CAY_JSON_NULL)
        return 0;
    bool sound = number_of(v, &count, &unit);
    const char *at = sound && *unit ? strchr(units, tolower((unsigned char)*unit)) : NULL;
    if (at) {
        count *= (double)(UINT64_C(1) << (10 * (at - units + 1)));
        unit += 1 + (unit[1] == 'i');
    }
    if (sound && tolower((unsigned char)*unit) == 'b')
        unit++;
    if (!sound || *unit)
        return cay_fail_field(err, "memoryLimit", "memoryLimit must be like 512m or 2g, or bytes");
    spec->memory_bytes = cay_api_bytes(count / (double)CAY_MIB, (double)CAY_MIB);
    spec->memory_fits = false;
    return 0;
}

static int set_cpu(const struct cay_json *v, struct cay_spec *spec, struct cay_error *err)
{
    double count;
    const char *unit;
    if (!v || v->kind == CAY_JSON_NULL)
        return 0;
    if (!number_of(v, &count, &unit) || *unit || count < 0.1 || count > 64)
        return cay_fail_field(err, "cpuLimit", "cpuLimit must be a number of cores, 0.1 to 64");
    spec->cpu_milli = (uint32_t)(count * 1000 + 0.5);
    return 0;
}

int cay_sandbox_decode_spec(struct cay_req *req, struct cay_spec *spec, struct cay_error *err)
{
    struct body body = {.exec_ms = CAY_SANDBOX_EXEC_MS,
                        .timeout_minutes = -1,
                        .timeout_ms = -1,
                        .track = "workspace"};
    int r = cay_req_decode(req, cay_sandbox_spec_fields, &body, err);
    *spec = cay_spec_default();
    if (r == 0)
        r = set_memory(body.memory, spec, err);
    if (r == 0)
        r = set_cpu(body.cpu, spec, err);
    spec->network = (struct cay_network){.mode = CAY_NETWORK_OFF, .generation = 1};
    if (r == 0)
        r = cay_api_decode_network(req->arena, &body.network, &spec->network, NULL, err);
    if (r == 0)
        r = cay_api_decode_start(req->arena, body.start, spec, err);
    if (r < 0)
        return r;
    if (body.image)
        spec->image = body.image;
    if (body.pull)
        (void)cay_pull_policy_parse(body.pull, &spec->pull); /* one of the table's */
    spec->timeout_ms = TIMEOUT_MS;
    (void)cay_api_time(body.timeout_ms, body.timeout_minutes, 60000, &spec->timeout_ms);
    spec->name = body.name;
    spec->exec_ms = body.exec_ms;
    spec->track = body.track;
    spec->persistent = body.persistent;
    spec->env = body.env;
    spec->labels = body.labels;
    spec->tags = body.tags;
    spec->user = body.user;
    spec->workdir = body.workdir;
    spec->volume = body.volume;
    spec->team_id = body.team_id;
    return cay_api_once(req, body.idempotency_key, &spec->once, err);
}
