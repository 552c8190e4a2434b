/* SPDX-License-Identifier: Apache-2.0 */
/* The body of a create or a fork. A field that is taken and does not hold would be a lie, so it is
 * refused; but fields of foreign clients that change nothing are taken. */
#include "api/v1/v1.h"
#include "core/image.h"
#include "model/limits.h"
#include <string.h>

struct create_body {
    const char *idempotency_key;
    const char *name, *image, *runtime, *memory_limit, *user, *workdir, *team_id, *track, *volume;
    const char *isolation, *pull;
    const char *source_type, *source_id, *snapshot_id;
    struct cay_spec_source source;
    const struct cay_json *start;
    double cpu_cores, vcpus, memory_gb, disk_gb;    /* 0: absent */
    int64_t gpu_count, timeout_minutes, timeout_ms; /* times: -1 absent */
    int64_t idle_minutes, idle_ms, lease_seconds;
    struct cay_strs idle_when;
    bool persistent, stop_when_start_ends;
    struct cay_api_network network;
    struct cay_pairs env, tags;
    struct cay_strs labels;
    const struct cay_json *advanced;
    struct cay_pairs secrets;
    const struct cay_json *ports;
    int64_t ready_port, ready_ms; /* 0: absent */
    const char *ready_line;
    int64_t count; /* of forks; 0: absent */
    const char *execution_id;
};

#define BODY struct create_body

static const struct cay_field resource_fields[] = {
    CAY_FIELD_NUM(BODY, vcpus, "vcpus", .min = 0.1, .max = 64, .about = CAY_V1_ABOUT_VCPUS),
    CAY_FIELD_END,
};

static const char *const source_types[] = {"git", "tarball", "snapshot", NULL};

static const struct cay_field source_fields[] = {
    CAY_FIELD_STR(BODY, source_type, "type", .choices = source_types),
    CAY_FIELD_STR(BODY, source_id, "id", .max_len = 64),
    CAY_FIELD_STR(BODY, snapshot_id, "snapshotId", .max_len = 64),
    CAY_FIELD_STR(BODY, source.url, "url"),
    CAY_FIELD_STR(BODY, source.revision, "revision"),
    CAY_FIELD_INT(BODY, source.depth, "depth", .min = 1, .max = CAY_MAX_DEPTH),
    CAY_FIELD_STR(BODY, source.username, "username"),
    CAY_FIELD_STR(BODY, source.password, "password"),
    CAY_FIELD_INT(BODY, source.timeout_ms, "timeoutMs", .min = 1, .max = CAY_MAX_SOURCE_MS),
    CAY_FIELD_END,
};

static const struct cay_field ready_fields[] = {
    CAY_FIELD_INT(BODY, ready_port, "port", .min = 1, .max = 65535),
    CAY_FIELD_STR(BODY, ready_line, "logLine", .max_len = CAY_MAX_READY_LINE),
    CAY_FIELD_INT(BODY, ready_ms, "timeoutMs", .min = 1, .max = CAY_MAX_READY_MS),
    CAY_FIELD_END,
};

#define ABOUT_CORES                                                                                \
    "A cap, so more than the host has is allowed. Those of a create, not of a fork, bring "        \
    "2048 MiB of memory each where neither memory nor resources.vcpus is named, or what the host " \
    "can give."

#define SPEC_FIELDS                                                                                \
    CAY_FIELD_STR(BODY, name, "name", .max_len = 1024),                                            \
        CAY_FIELD_STR(BODY, image, "dockerImage", .max_len = 1024),                                \
        CAY_FIELD_STR(BODY, image, "image", .max_len = 1024),                                      \
        CAY_FIELD_STR(BODY, runtime, "runtime", .max_len = 64),                                    \
        CAY_FIELD_ANY(BODY, start, "startCommand", .type = "string|[string]|null"),                \
        CAY_FIELD_NUM(BODY, cpu_cores, "cpuCores", .min = 0.1, .max = 64, .about = ABOUT_CORES),   \
        CAY_FIELD_SUB("resources", resource_fields),                                               \
        CAY_FIELD_NUM(BODY, memory_gb, "memoryGB", .min = 0.0625, .about = CAY_V1_ABOUT_MEMORY),   \
        CAY_FIELD_STR(BODY, memory_limit, "memoryLimit", .max_len = 32),                           \
        CAY_FIELD_NUM(BODY, disk_gb, "diskSizeGB", .min = 0.1, .about = CAY_V1_ABOUT_DISK),        \
        CAY_FIELD_INT(BODY, gpu_count, "gpuCount", .min = 0, .max = 0x1p53,                        \
                      .about = "There is none here: any count is GPU_UNAVAILABLE."),               \
        CAY_API_NETWORK_FIELDS(BODY), CAY_API_TIMEOUT_FIELDS(BODY), CAY_V1_LEASE_FIELDS(BODY),     \
        CAY_FIELD_PAIRS(BODY, env, "environmentVars", .max_len = CAY_MAX_ENV_BYTES),               \
        CAY_FIELD_PAIRS(BODY, env, "env", .max_len = CAY_MAX_ENV_BYTES),                           \
        CAY_FIELD_STRS(BODY, labels, "labels"), CAY_FIELD_PAIRS(BODY, tags, "tags"),               \
        CAY_FIELD_BOOL(BODY, persistent, "persistent"),                                            \
        CAY_FIELD_BOOL(BODY, stop_when_start_ends, "stopWhenStartEnds"),                           \
        CAY_FIELD_STR(BODY, user, "user", .max_len = 1024),                                        \
        CAY_FIELD_STR(BODY, workdir, "workdir", .max_len = CAY_MAX_PATH),                          \
        CAY_FIELD_STR(BODY, team_id, "teamId", .max_len = 1024),                                   \
        CAY_FIELD_STR(BODY, track, "track", .choices = cay_api_tracks),                            \
        CAY_FIELD_STR(BODY, volume, "volume", .max_len = 64),                                      \
        CAY_FIELD_PAIRS(BODY, secrets, "secrets", .max_len = CAY_MAX_ENV_BYTES),                   \
        CAY_FIELD_ANY(BODY, ports, "ports", .type = "[any]"),                                      \
        CAY_FIELD_STR(BODY, isolation, "isolation", .max_len = 64)

const struct cay_field cay_v1_spec_fields[] = {
    SPEC_FIELDS,
    CAY_FIELD_STR(BODY, pull, "pullPolicy", .choices = cay_api_pulls),
    CAY_FIELD_SUB("source", source_fields),
    CAY_FIELD_SUB("readyWhen", ready_fields),
    CAY_FIELD_SKIP("vm"),
    CAY_FIELD_SKIP("gpuType"),
    CAY_FIELD_SKIP("region"),
    CAY_FIELD_ANY(BODY, advanced, "advancedConfigs"),
    CAY_FIELD_SKIP("registryCredentialsId"),
    CAY_FIELD_SKIP("guaranteed"),
    CAY_FIELD_STR(BODY, idempotency_key, "idempotencyKey"),
    CAY_FIELD_END,
};

/* A fork begins with the files of its sandbox and waits for nothing: it goes on. */
const struct cay_field cay_v1_fork_fields[] = {
    SPEC_FIELDS,
    CAY_FIELD_INT(BODY, count, "count", .min = 1, .max = CAY_MAX_FORKS),
    CAY_FIELD_STR(BODY, execution_id, "executionId", .max_len = 64),
    CAY_FIELD_END,
};

static int set_ready(const struct create_body *body, struct cay_spec *spec, struct cay_error *err)
{
    bool named = body->ready_port || body->ready_line;
    if (!named && !body->ready_ms)
        return 0;
    if (!named)
        return cay_fail_field(err, "readyWhen", "readyWhen names a port or a logLine");
    spec->ready =
        (struct cay_ready){.port = (uint16_t)body->ready_port,
                           .line = body->ready_line,
                           .timeout_ms = body->ready_ms ? body->ready_ms : CAY_DEFAULT_READY_MS};
    return 0;
}

int cay_v1_parse_memory(const char *text, uint64_t *out, struct cay_error *err)
{
    static const char units[] = "kmgt";
    char digits[16];
    uint64_t number;
    size_t len = strlen(text);
    const char *unit = len > 1 ? strchr(units, text[len - 1]) : NULL;
    if (!unit || len > sizeof digits)
        return cay_fail_field(err, "memoryLimit", "memoryLimit must be like 512m or 2g");
    cay_str_copy(digits, len, text);
    if (!cay_str_u64(digits, UINT32_MAX, &number))
        return cay_fail_field(err, "memoryLimit", "memoryLimit must be like 512m or 2g");
    unsigned shift = 10 * (unsigned)(unit - units + 1);
    if (number > (UINT64_C(1) << 60) >> shift)
        return cay_fail_field(err, "memoryLimit", "memoryLimit is too large");
    *out = number << shift;
    return 0;
}

/* `vcpus` stands for cores and memory, so both are asked for. Cores alone bring theirs as far as
 * the host has it; those of a fork leave it as it was. */
static int set_sizes(const struct create_body *body, bool fork, struct cay_spec *spec,
                     struct cay_error *err)
{
    double cpu = body->cpu_cores > 0 ? body->cpu_cores : body->vcpus;
    double brings = fork || body->vcpus > 0 ? body->vcpus : cpu;
    if (cpu > 0)
        spec->cpu_milli = (uint32_t)(cpu * 1000 + 0.5);
    if (body->disk_gb > 0) {
        spec->disk_bytes = cay_api_bytes(body->disk_gb, CAY_V1_GB);
        spec->disk_fits = false;
    }
    bool named = body->memory_gb > 0 || body->memory_limit;
    if (named || body->vcpus > 0)
        spec->memory_fits = false;
    spec->memory_by_vcpus = !named && body->vcpus > 0;
    if (body->memory_gb > 0)
        spec->memory_bytes = cay_api_bytes(body->memory_gb, CAY_V1_GIB);
    else if (body->memory_limit)
        return cay_v1_parse_memory(body->memory_limit, &spec->memory_bytes, err);
    else if (brings > 0)
        spec->memory_bytes = cay_api_bytes(brings, (double)CAY_MEMORY_PER_VCPU_BYTES);
    return 0;
}

static int set_image(const struct cay_core *core, const struct create_body *body,
                     struct cay_spec *spec, struct cay_error *err)
{
    const char *image = NULL;
    if (body->runtime) {
        image = cay_image_of_runtime(core, body->runtime);
        if (!image)
            return cay_fail_field(err, "runtime",
                                  "runtime must be node18, node20, node22, node24, python3.11, "
                                  "python3.12 or python3.13; or name an image");
        spec->runtime = body->runtime;
    }
    if (body->image)
        image = body->image;
    if (image)
        spec->image = image;
    if (body->pull)
        (void)cay_pull_policy_parse(body->pull, &spec->pull); /* one of the table's */
    return 0;
}

/* What is fetched into it. */
static int set_fetched(const struct create_body *body, struct cay_spec *spec, struct cay_error *err)
{
    if (body->source_id || body->snapshot_id)
        return cay_fail_field(err, "source.id", "source.id is for snapshots");
    spec->source = body->source;
    spec->source.kind = strcmp(body->source_type, "git") == 0 ? CAY_SOURCE_GIT : CAY_SOURCE_TARBALL;
    if (!spec->source.timeout_ms)
        spec->source.timeout_ms = CAY_DEFAULT_SOURCE_MS;
    return 0;
}

/* Where its files come from. An image that is not named is then the snapshot's. */
static int set_source(const struct create_body *body, struct cay_spec *spec, struct cay_error *err)
{
    const char *id = body->snapshot_id ? body->snapshot_id : body->source_id;
    const struct cay_spec_source *s = &body->source;
    spec->volume = body->volume;
    if (!body->source_type && !id && !s->url)
        return 0;
    if (!body->source_type)
        return cay_fail_field(err, "source.type", "source.type is required");
    if (strcmp(body->source_type, "snapshot") != 0)
        return set_fetched(body, spec, err);
    if (!id)
        return cay_fail_field(err, "source.id", "source.id is required");
    if (s->url || s->revision || s->depth || s->username || s->password)
        return cay_fail_field(err, "source.url", "a snapshot has an id, and nothing else");
    spec->from = id;
    spec->image = body->image;
    return 0;
}

static const char *absent[1]; /* where a list points that did not come */

/* What is there before is what an absent field stands for. */
static struct create_body body_of(const struct cay_spec *spec)
{
    return (struct create_body){
        .persistent = spec->persistent,
        .stop_when_start_ends = spec->stop_when_start_ends,
        .gpu_count = spec->gpu_count,
        .env = spec->env,
        .labels = spec->labels,
        .tags = spec->tags,
        .user = spec->user,
        .workdir = spec->workdir,
        .team_id = spec->team_id,
        .track = spec->track,
        .idle_when.at = absent,
        CAY_V1_NO_TIMES,
    };
}

int cay_v1_idle_when(const struct cay_strs *words, unsigned *out, struct cay_error *err)
{
    static const struct {
        const char *word;
        enum cay_activity activity;
    } known[] = {{"cpu", CAY_ACTIVE_CPU},
                 {"output", CAY_ACTIVE_OUTPUT},
                 {"requests", CAY_ACTIVE_REQUESTS},
                 {"commands", CAY_ACTIVE_COMMANDS}};
    unsigned bits = 0;
    for (size_t i = 0; i < words->count; i++) {
        unsigned bit = 0;
        for (size_t k = 0; k < CAY_COUNT(known); k++)
            if (strcmp(words->at[i], known[k].word) == 0)
                bit = known[k].activity;
        if (!bit)
            return cay_fail_field(err, "idleWhen",
                                  "idleWhen may hold cpu, output, requests and commands");
        bits |= bit;
    }
    if (!bits)
        return cay_fail_field(err, "idleWhen", "idleWhen must name what counts as activity");
    *out = bits;
    return 0;
}

static void set_rest(const struct create_body *body, struct cay_spec *spec)
{
    (void)cay_api_time(body->timeout_ms, body->timeout_minutes, 60000, &spec->timeout_ms);
    (void)cay_api_time(body->idle_ms, body->idle_minutes, 60000, &spec->idle_ms);
    (void)cay_api_time(-1, body->lease_seconds, 1000, &spec->lease_ms);
    spec->name = body->name;
    spec->gpu_count = body->gpu_count < UINT32_MAX ? (uint32_t)body->gpu_count : UINT32_MAX;
    spec->persistent = body->persistent;
    spec->stop_when_start_ends = body->stop_when_start_ends;
    spec->env = body->env;
    spec->labels = body->labels;
    spec->tags = body->tags;
    spec->user = body->user;
    spec->workdir = body->workdir;
    /* Of a client that has no fields for these; whatever else it says there is its own affair. */
    if (!spec->user)
        spec->user = cay_json_get_str(body->advanced, "user", NULL);
    if (!spec->workdir)
        spec->workdir = cay_json_get_str(body->advanced, "workdir", NULL);
    spec->team_id = body->team_id;
    spec->track = body->track;
    spec->at = body->execution_id;
    spec->new_secrets = body->secrets;
    spec->isolation = body->isolation;
}

static int decode(const struct cay_core *core, struct cay_arena *a, const struct cay_json *object,
                  bool fork, struct create_body *body, struct cay_spec *spec, struct cay_error *err)
{
    *body = body_of(spec);
    int r = cay_fields_decode(a, fork ? cay_v1_fork_fields : cay_v1_spec_fields, object, body, err);
    if (r == 0)
        r = set_image(core, body, spec, err);
    if (r == 0)
        r = set_source(body, spec, err);
    if (r == 0)
        r = set_sizes(body, fork, spec, err);
    if (r == 0)
        r = cay_api_decode_start(a, body->start, spec, err);
    if (r == 0)
        r = cay_v1_decode_ports(a, body->ports, spec->ports, &spec->port_count, err);
    if (r == 0)
        r = set_ready(body, spec, err);
    if (r == 0 && body->idle_when.at != absent)
        r = cay_v1_idle_when(&body->idle_when, &spec->idle_when, err);
    if (r == 0)
        r = cay_api_decode_network(a, &body->network, &spec->network, NULL, err);
    if (r == 0)
        set_rest(body, spec);
    return r;
}

int cay_v1_decode_spec_of(struct cay_req *req, const struct cay_json *object, struct cay_arena *a,
                          struct cay_spec *spec, struct cay_error *err)
{
    struct create_body body;
    return decode(req->core, a, object, false, &body, spec, err);
}

int cay_v1_decode_spec(struct cay_req *req, struct cay_spec *spec, int64_t *count_out,
                       struct cay_error *err)
{
    struct create_body body;
    const struct cay_json *object;
    int r = cay_req_json(req, req->arena, &object, err);
    if (r == 0)
        r = decode(req->core, req->arena, object, count_out != NULL, &body, spec, err);
    if (r < 0)
        return r;
    if (count_out)
        *count_out = body.count;
    return cay_api_once(req, body.idempotency_key, &spec->once, err);
}
