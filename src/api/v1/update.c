/* SPDX-License-Identifier: Apache-2.0 */
/* /api/v1: changing a sandbox that is there, and giving it more time. */
#include "api/v1/v1.h"
#include "model/limits.h"
#include <string.h>

struct update_body {
    const char *name, *memory_limit;
    struct cay_strs labels, idle_when;
    struct cay_pairs tags, env;
    double cpu_cores, vcpus, memory_gb, disk_gb; /* 0: absent */
    int64_t timeout_minutes, timeout_ms;         /* -1: absent, as with all below */
    int64_t idle_minutes, idle_ms, lease_seconds;
    const struct cay_json *secrets, *ports;
    const char *track;
    struct cay_api_network network;
};

#define BODY struct update_body
#define SIZES                                                                                      \
    CAY_FIELD_NUM(BODY, cpu_cores, "cpuCores", .min = 0.1, .max = 64,                              \
                  .about = "A cap, so more than the host has is allowed."),                        \
        CAY_FIELD_NUM(BODY, memory_gb, "memoryGB", .min = 0.0625, .about = CAY_V1_ABOUT_MEMORY),   \
        CAY_FIELD_STR(BODY, memory_limit, "memoryLimit", .max_len = 32),                           \
        CAY_FIELD_NUM(BODY, disk_gb, "diskSizeGB", .min = 0.1, .about = CAY_V1_ABOUT_DISK)

static const struct cay_field resource_fields[] = {
    SIZES,
    CAY_FIELD_NUM(BODY, vcpus, "vcpus", .min = 0.1, .max = 64, .about = CAY_V1_ABOUT_VCPUS),
    CAY_FIELD_END,
};

static const struct cay_field update_fields[] = {
    CAY_FIELD_STR(BODY, name, "name", .max_len = 1024),
    CAY_FIELD_STRS(BODY, labels, "labels"),
    CAY_FIELD_PAIRS(BODY, tags, "tags"),
    CAY_FIELD_PAIRS(BODY, env, "environmentVars", .max_len = CAY_MAX_ENV_BYTES),
    CAY_FIELD_PAIRS(BODY, env, "env", .max_len = CAY_MAX_ENV_BYTES),
    CAY_FIELD_SUB("resources", resource_fields),
    SIZES,
    CAY_API_TIMEOUT_FIELDS(BODY),
    CAY_V1_LEASE_FIELDS(BODY),
    CAY_FIELD_ANY(BODY, secrets, "secrets", .type = "{any}"),
    CAY_FIELD_ANY(BODY, ports, "ports", .type = "[any]"),
    CAY_FIELD_STR(BODY, track, "track", .choices = cay_api_tracks),
    CAY_API_NETWORK_FIELDS(BODY),
    CAY_FIELD_END,
};

/* What the change points at, beside the body. */
struct values {
    uint32_t cpu_milli;
    uint64_t memory_bytes, disk_bytes;
    int64_t timeout_ms, idle_ms, lease_ms;
    unsigned idle_when;
    struct cay_port ports[CAY_MAX_PORTS];
    struct cay_pairs secrets;
};

/* `vcpus` stands for cores and memory, unless they are named. */
static int set_sizes(const struct update_body *body, struct values *v, struct cay_change *out,
                     struct cay_error *err)
{
    double cpu = body->cpu_cores > 0 ? body->cpu_cores : body->vcpus;
    if (cpu > 0) {
        v->cpu_milli = (uint32_t)(cpu * 1000 + 0.5);
        out->cpu_milli = &v->cpu_milli;
    }
    if (body->disk_gb > 0) {
        v->disk_bytes = cay_api_bytes(body->disk_gb, CAY_V1_GB);
        out->disk_bytes = &v->disk_bytes;
    }
    bool named = body->memory_gb > 0 || body->memory_limit;
    if (!named && body->vcpus <= 0)
        return 0;
    out->memory_bytes = &v->memory_bytes;
    out->memory_by_vcpus = !named;
    if (body->memory_gb <= 0 && body->memory_limit)
        return cay_v1_parse_memory(body->memory_limit, &v->memory_bytes, err);
    v->memory_bytes = named ? cay_api_bytes(body->memory_gb, CAY_V1_GIB)
                            : cay_api_bytes(body->vcpus, (double)CAY_MEMORY_PER_VCPU_BYTES);
    return 0;
}

/* A name with null is a secret that goes. */
static int set_secrets(struct cay_arena *a, const struct update_body *body, struct values *v,
                       struct cay_change *out, struct cay_error *err)
{
    const struct cay_json *all = body->secrets;
    if (!all || all->kind == CAY_JSON_NULL)
        return 0;
    if (all->kind != CAY_JSON_OBJECT)
        return cay_fail_field(err, "secrets", "secrets must be an object of strings");
    for (const struct cay_json *one = all->first; one; one = one->next) {
        if (one->kind != CAY_JSON_STRING && one->kind != CAY_JSON_NULL)
            return cay_fail_field(err, "secrets", "a secret is a string, or null to remove it");
        if (one->kind == CAY_JSON_STRING && strlen(one->text) != one->len)
            return cay_fail_field(err, "secrets", "a secret may not hold NUL");
        cay_pairs_push(a, &v->secrets, one->key, one->kind == CAY_JSON_NULL ? NULL : one->text);
    }
    out->secrets = &v->secrets;
    return 0;
}

static void set_times(const struct update_body *body, struct values *v, struct cay_change *out)
{
    if (cay_api_time(body->timeout_ms, body->timeout_minutes, 60000, &v->timeout_ms))
        out->timeout_ms = &v->timeout_ms;
    if (cay_api_time(body->idle_ms, body->idle_minutes, 60000, &v->idle_ms))
        out->idle_ms = &v->idle_ms;
    if (cay_api_time(-1, body->lease_seconds, 1000, &v->lease_ms))
        out->lease_ms = &v->lease_ms;
}

static int update(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    static const char *no_strs[1];
    static struct cay_pair no_pairs[1]; /* that these are still there says: absent */
    struct update_body body = {.labels.at = no_strs,
                               .idle_when.at = no_strs,
                               .tags.at = no_pairs,
                               .env.at = no_pairs,
                               CAY_V1_NO_TIMES};
    struct values values = {0};
    struct cay_change change = {0};
    struct cay_network network;
    bool is_network = false;
    struct cay_sandbox sb;
    int r = cay_req_decode(req, update_fields, &body, err);
    if (r == 0 && body.ports) {
        r = cay_v1_decode_ports(req->arena, body.ports, values.ports, &change.port_count, err);
        change.ports = values.ports;
    }
    if (r == 0)
        r = set_secrets(req->arena, &body, &values, &change, err);
    if (r == 0)
        r = cay_api_decode_network(req->arena, &body.network, &network, &is_network, err);
    if (r == 0)
        r = set_sizes(&body, &values, &change, err);
    if (r == 0 && body.idle_when.at != no_strs) {
        r = cay_v1_idle_when(&body.idle_when, &values.idle_when, err);
        change.idle_when = &values.idle_when;
    }
    if (r < 0)
        return r;
    set_times(&body, &values, &change);
    change.name = body.name;
    change.track = body.track;
    change.network = is_network ? &network : NULL;
    change.labels = body.labels.at == no_strs ? NULL : &body.labels;
    change.tags = body.tags.at == no_pairs ? NULL : &body.tags;
    change.env = body.env.at == no_pairs ? NULL : &body.env;
    r = cay_core_update(req->core, req->owner, cay_req_param(req, "id"), &change, req->arena, &sb,
                        err);
    if (r < 0)
        return r;
    cay_v1_shape_sandbox(cay_resp_json(resp, 200), NULL, req->core, &sb, true);
    return 0;
}

static const struct cay_field extend_fields[] = {
    CAY_API_TIMEOUT_FIELDS(BODY),
    CAY_FIELD_INT(BODY, lease_seconds, "leaseSeconds", .min = 0,
                  .max = (double)(CAY_MAX_LEASE_MS / 1000)),
    CAY_FIELD_END,
};

static int extend(struct cay_req *req, struct cay_resp *resp, struct cay_error *err)
{
    struct update_body body = {CAY_V1_NO_TIMES};
    struct values values = {0};
    struct cay_change change = {0};
    struct cay_sandbox sb;
    int r = cay_req_decode(req, extend_fields, &body, err);
    if (r < 0)
        return r;
    set_times(&body, &values, &change);
    if (!change.timeout_ms && !change.lease_ms)
        return cay_fail_field(err, "timeoutMs", "timeoutMs or leaseSeconds is required");
    r = cay_core_extend(req->core, req->owner, cay_req_param(req, "id"), change.timeout_ms,
                        change.lease_ms, req->arena, &sb, err);
    if (r < 0)
        return r;
    cay_v1_shape_sandbox(cay_resp_json(resp, 200), NULL, req->core, &sb, true);
    return 0;
}

const struct cay_route cay_v1_update_routes[] = {
    {"PATCH", "/api/v1/sandbox/{id}", CAY_SCOPE_WRITE, update, CAY_BODY_AUTO,
     CAY_DOC("Change one: name, labels, tags, environment, ports, sizes, times, network",
             "Sandbox; 501", .topic = "Sandboxes", .body = update_fields,
             .send = "{'tags': {'stage': 'test'}, 'timeoutMinutes': 30}")},
    {"POST", "/api/v1/sandbox/{id}/extend", CAY_SCOPE_WRITE, extend, CAY_BODY_AUTO,
     CAY_DOC("Give it more time, from now on", "Sandbox", .body = extend_fields,
             .send = "{'timeoutMs': 600000}")},
    {0},
};
