/* SPDX-License-Identifier: Apache-2.0 */
/* The bounds of model/limits.h, applied to what callers ask for. */
#include "core/validate.h"
#include "base/id.h"
#include "core/source.h"
#include "model/limits.h"
#include "net/policy.h"
#include <ctype.h>
#include <string.h>

#define MAX_DISK_BYTES (64 * 1000 * 1000 * 1000LL * 1000)
#define MAX_TAG 256
#define MAX_USER 63

/* Words that stand where an id may stand in a path. */
static const char *const reserved[] = {"bulk", "ports", "expose", "exec", "status"};

static bool all_of(const char *s, const char *more)
{
    for (; *s; s++)
        if (!isalnum((unsigned char)*s) && !strchr(more, *s))
            return false;
    return true;
}

static int check_name(const char *name, struct cay_error *err)
{
    size_t len = strlen(name);
    if (len < 1 || len > CAY_MAX_NAME || name[0] == '-')
        return cay_fail_field(err, "name", "name must be 1 to %d of a-z, 0-9 and -, not - first",
                              CAY_MAX_NAME);
    for (size_t i = 0; i < len; i++)
        if (!(name[i] >= 'a' && name[i] <= 'z') && !(name[i] >= '0' && name[i] <= '9') &&
            name[i] != '-')
            return cay_fail_field(err, "name", "name may hold only a-z, 0-9 and -");
    for (size_t i = 0; i < CAY_COUNT(reserved); i++)
        if (strcmp(name, reserved[i]) == 0)
            return cay_fail_field(err, "name", "the name %s is reserved", name);
    if (cay_id_is_sandbox(name))
        return cay_fail_field(err, "name", "a name may not have the form of an id");
    return 0;
}

static int check_env(const struct cay_pairs *env, const char *field, struct cay_error *err)
{
    size_t bytes = 0;
    if (env->count > CAY_MAX_ENV)
        return cay_fail_field(err, field, "at most %d variables", CAY_MAX_ENV);
    for (size_t i = 0; i < env->count; i++) {
        const char *key = env->at[i].key;
        bytes += strlen(key) + (env->at[i].value ? strlen(env->at[i].value) : 0) + 2;
        if (!key[0])
            return cay_fail_field(err, field, "a variable without a name");
        for (const char *c = key; *c; c++)
            if (*c == '=' || (unsigned char)*c < ' ')
                return cay_fail_field(err, field, "a variable's name may not hold = or controls");
    }
    if (bytes > CAY_MAX_ENV_BYTES)
        return cay_fail_field(err, field, "at most %lld bytes of variables", CAY_MAX_ENV_BYTES);
    return 0;
}

static int check_labels(const struct cay_spec *spec, struct cay_error *err)
{
    if (spec->labels.count > CAY_MAX_LABELS)
        return cay_fail_field(err, "labels", "at most %d labels", CAY_MAX_LABELS);
    for (size_t i = 0; i < spec->labels.count; i++)
        if (!spec->labels.at[i][0] || strlen(spec->labels.at[i]) > CAY_MAX_LABEL)
            return cay_fail_field(err, "labels", "a label has 1 to %d bytes", CAY_MAX_LABEL);
    if (spec->tags.count > CAY_MAX_TAGS)
        return cay_fail_field(err, "tags", "at most %d tags", CAY_MAX_TAGS);
    for (size_t i = 0; i < spec->tags.count; i++)
        if (!spec->tags.at[i].key[0] || strlen(spec->tags.at[i].key) > CAY_MAX_LABEL ||
            strlen(spec->tags.at[i].value) > MAX_TAG)
            return cay_fail_field(err, "tags", "a tag has a name of 1 to %d bytes and at most %d",
                                  CAY_MAX_LABEL, MAX_TAG);
    return 0;
}

static uint64_t most_disk(const struct cay_host *host)
{
    if (host->disk_bytes == 0 || host->disk_bytes > MAX_DISK_BYTES)
        return MAX_DISK_BYTES;
    return host->disk_bytes > CAY_MIN_DISK_BYTES ? host->disk_bytes : CAY_MIN_DISK_BYTES;
}

void cay_validate_fit(struct cay_spec *spec, const struct cay_host *host)
{
    if (spec->memory_fits && spec->memory_bytes > host->memory_bytes)
        spec->memory_bytes = host->memory_bytes;
    if (spec->disk_fits && spec->disk_bytes > most_disk(host))
        spec->disk_bytes = most_disk(host);
}

static int check_memory(const struct cay_spec *spec, const struct cay_host *host,
                        struct cay_error *err)
{
    uint64_t most = host->memory_bytes;
    if (spec->memory_bytes >= CAY_MIN_MEMORY_BYTES && spec->memory_bytes <= most)
        return 0;
    if (spec->memory_by_vcpus)
        return cay_fail_field(err, "resources.vcpus",
                              "resources.vcpus brings %lld MiB each, and this host has %llu MiB "
                              "for sandboxes: at most %.1f",
                              CAY_MEMORY_PER_VCPU_BYTES / CAY_MIB,
                              (unsigned long long)(most / CAY_MIB),
                              (double)(most / (CAY_MEMORY_PER_VCPU_BYTES / 10)) / 10);
    return cay_fail_field(err, "memoryGB",
                          "memory must be from 64 MiB to this host's %llu MiB for sandboxes",
                          (unsigned long long)(most / CAY_MIB));
}

static int check_size(const struct cay_spec *spec, const struct cay_host *host,
                      struct cay_error *err)
{
    if (spec->cpu_milli < CAY_MIN_CPU_MILLI || spec->cpu_milli > CAY_MAX_CPU_MILLI)
        return cay_fail_field(err, "cpuCores", "cpuCores must be from 0.1 to 64");
    int r = check_memory(spec, host, err);
    if (r < 0)
        return r;
    if (spec->disk_bytes < CAY_MIN_DISK_BYTES || spec->disk_bytes > most_disk(host))
        return cay_fail_field(err, "diskSizeGB",
                              "diskSizeGB must be from 0.1 to the %.1f that this host can give",
                              (double)most_disk(host) / 1e9);
    if (spec->gpu_count > 0) {
        r = cay_fail_as(err, CAY_ERR_INVALID, "GPU_UNAVAILABLE", "there is no GPU to be had here");
        cay_str_copy(err->field, sizeof err->field, "gpuCount");
        return r;
    }
    return 0;
}

static int check_patience(const struct cay_spec *spec, struct cay_error *err)
{
    if (spec->timeout_ms < 0 || spec->timeout_ms > CAY_MAX_TIMEOUT_MS)
        return cay_fail_field(err, "timeoutMinutes",
                              "the time must be from 0 (none) to %lld minutes",
                              CAY_MAX_TIMEOUT_MS / 60000);
    if (spec->idle_ms != 0 && (spec->idle_ms < CAY_MIN_IDLE_MS || spec->idle_ms > CAY_MAX_IDLE_MS))
        return cay_fail_field(err, "idleTimeoutMs",
                              "idleTimeoutMs must be 0 (none) or from %d to %lld", CAY_MIN_IDLE_MS,
                              CAY_MAX_IDLE_MS);
    if (spec->lease_ms != 0 &&
        (spec->lease_ms < CAY_MIN_LEASE_MS || spec->lease_ms > CAY_MAX_LEASE_MS))
        return cay_fail_field(err, "leaseSeconds",
                              "leaseSeconds must be 0 (none) or from %d to %lld",
                              CAY_MIN_LEASE_MS / 1000, CAY_MAX_LEASE_MS / 1000);
    if (spec->idle_ms != 0 && (spec->idle_when & CAY_ACTIVE_ALL) == 0)
        return cay_fail_field(err, "idleWhen", "idleWhen must name what counts as activity");
    return 0;
}

int cay_validate_user(const char *user, struct cay_error *err)
{
    if (!user)
        return 0;
    if (!user[0] || strlen(user) > MAX_USER || user[0] == '-' || !all_of(user, "._-:") ||
        strcmp(user, "65535") == 0)
        return cay_fail_field(err, "user", "this cannot be the name of a user");
    return 0;
}

static int check_dir(const char *path, const char *field, struct cay_error *err)
{
    if (path && (path[0] != '/' || strlen(path) > CAY_MAX_PATH))
        return cay_fail_field(err, field, "%s must be an absolute path of at most %d bytes", field,
                              CAY_MAX_PATH);
    return 0;
}

static int check_argv(const struct cay_strs *argv, const char *field, struct cay_error *err)
{
    size_t bytes = 0;
    if (argv->count > CAY_MAX_ARGS)
        return cay_fail_field(err, field, "at most %d arguments", CAY_MAX_ARGS);
    if (argv->count == 0 || !argv->at[0][0])
        return cay_fail_field(err, field, "a command must not be empty");
    for (size_t i = 0; i < argv->count; i++) {
        size_t len = strlen(argv->at[i]);
        bytes += len + 1;
        if (len > CAY_MAX_ARG_BYTES)
            return cay_fail_field(err, field, "an argument has at most %lld bytes",
                                  CAY_MAX_ARG_BYTES);
    }
    if (bytes > CAY_MAX_ARGV_BYTES)
        return cay_fail_field(err, field, "a command has at most %lld bytes", CAY_MAX_ARGV_BYTES);
    return 0;
}

/* A scope may stand before it, as in @scope/name. */
static int check_image(const char *image, struct cay_error *err)
{
    if (!image || strlen(image) > CAY_MAX_IMAGE_NAME || !all_of(image, "./:@_-") ||
        !isalnum((unsigned char)image[image[0] == '@']))
        return cay_fail_field(err, "dockerImage", "this cannot be the name of an image");
    return 0;
}

int cay_validate_port(const struct cay_port *port, struct cay_error *err)
{
    if (port->port < 1)
        return cay_fail_field(err, "port", "port must be from 1 to 65535");
    if (port->wait_s > CAY_MAX_PORT_WAIT_S)
        return cay_fail_field(err, "waitSeconds", "waitSeconds must be from 0 to %d",
                              CAY_MAX_PORT_WAIT_S);
    return port->name[0] ? cay_validate_title(port->name, err) : 0;
}

static int check_ready(const struct cay_spec *spec, struct cay_error *err)
{
    const struct cay_ready *ready = &spec->ready;
    if (!cay_spec_waits(spec))
        return 0;
    if (ready->port && ready->line)
        return cay_fail_field(err, "readyWhen", "readyWhen names a port or a logLine, not both");
    if (ready->line &&
        (!ready->line[0] || strlen(ready->line) > CAY_MAX_READY_LINE || strchr(ready->line, '\n')))
        return cay_fail_field(err, "readyWhen.logLine", "logLine has 1 to %d bytes of one line",
                              CAY_MAX_READY_LINE);
    if (ready->line && !cay_spec_has_start(spec))
        return cay_fail_field(err, "readyWhen.logLine", "logLine needs a startCommand");
    if (ready->timeout_ms < 1 || ready->timeout_ms > CAY_MAX_READY_MS)
        return cay_fail_field(err, "readyWhen.timeoutMs", "timeoutMs must be from 1 to %d",
                              CAY_MAX_READY_MS);
    return 0;
}

static int check_ports(const struct cay_spec *spec, struct cay_error *err)
{
    int r = 0;
    for (size_t i = 0; i < spec->port_count && r == 0; i++) {
        r = cay_validate_port(&spec->ports[i], err);
        for (size_t k = 0; k < i && r == 0; k++)
            if (spec->ports[k].port == spec->ports[i].port)
                r = cay_fail_field(err, "ports", "port %u is there twice", spec->ports[i].port);
    }
    return r;
}

int cay_validate_secrets(const struct cay_pairs *secrets, struct cay_error *err)
{
    if (secrets->count > CAY_MAX_SECRETS)
        return cay_fail_field(err, "secrets", "at most %d secrets", CAY_MAX_SECRETS);
    return check_env(secrets, "secrets", err);
}

static int check_network(const struct cay_network *network, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_policy policy;
    return cay_policy_read(&a, network, &policy, err);
}

int cay_validate_spec(const struct cay_spec *spec, const struct cay_host *host,
                      struct cay_error *err)
{
    int r = spec->name ? check_name(spec->name, err) : 0;
    if (r == 0)
        r = check_image(spec->image, err);
    if (r == 0)
        r = check_size(spec, host, err);
    if (r == 0)
        r = check_patience(spec, err);
    if (r == 0)
        r = check_env(&spec->env, "environmentVars", err);
    if (r == 0)
        r = check_labels(spec, err);
    if (r == 0)
        r = check_ports(spec, err);
    if (r == 0)
        r = check_network(&spec->network, err);
    if (r == 0)
        r = cay_validate_user(spec->user, err);
    if (r == 0)
        r = check_dir(spec->workdir, "workdir", err);
    if (r == 0 && spec->start.count > 0)
        r = check_argv(&spec->start, "startCommand", err);
    if (r == 0 && spec->team_id && strlen(spec->team_id) > CAY_MAX_LABEL)
        r = cay_fail_field(err, "teamId", "at most %d bytes", CAY_MAX_LABEL);
    if (r == 0 && spec->stop_when_start_ends && !cay_spec_has_start(spec))
        r = cay_fail_field(err, "stopWhenStartEnds", "stopWhenStartEnds needs a startCommand");
    if (r == 0)
        r = check_ready(spec, err);
    if (r == 0)
        r = cay_source_check(&spec->source, err);
    if (r == 0)
        r = check_ports(spec, err);
    if (r == 0 && spec->from && spec->volume)
        r = cay_fail_field(err, "volume", "a copy brings a workspace of its own");
    return r;
}

int cay_validate_window(const struct cay_window *window, struct cay_error *err)
{
    if (window->cols < 1 || window->cols > CAY_MAX_WINDOW)
        return cay_fail_field(err, "cols", "cols must be from 1 to %d", CAY_MAX_WINDOW);
    if (window->rows < 1 || window->rows > CAY_MAX_WINDOW)
        return cay_fail_field(err, "rows", "rows must be from 1 to %d", CAY_MAX_WINDOW);
    return 0;
}

int cay_validate_exec(const struct cay_exec_spec *spec, struct cay_error *err)
{
    if (spec->text && !spec->text[0])
        return cay_fail_field(err, "command", "a command must not be empty");
    int r = check_argv(&spec->argv, "command", err);
    if (r == 0)
        r = check_env(&spec->env, "env", err);
    if (r == 0)
        r = cay_validate_user(spec->user, err);
    if (r == 0)
        r = check_dir(spec->cwd, "cwd", err);
    if (r == 0 && (spec->timeout_ms < 0 || spec->timeout_ms > CAY_MAX_EXEC_TIMEOUT_MS))
        r = cay_fail_field(err, "timeoutMs", "timeoutMs must be from 0 (none) to %lld",
                           CAY_MAX_EXEC_TIMEOUT_MS);
    if (r == 0 && spec->stdin_text && spec->stdin_len > CAY_MAX_STDIN_BYTES)
        r = cay_fail_field(err, "stdin", "at most %lld bytes", CAY_MAX_STDIN_BYTES);
    if (r == 0 && spec->stdin_text && (spec->open_stdin || spec->window.cols))
        r = cay_fail_field(err, "stdin", "stdin is given whole, or open, or a terminal");
    if (r == 0 && (spec->window.cols || spec->window.rows))
        r = cay_validate_window(&spec->window, err);
    return r;
}

int cay_validate_title(const char *name, struct cay_error *err)
{
    if (name && (!name[0] || strlen(name) > CAY_MAX_LABEL))
        return cay_fail_field(err, "name", "name has 1 to %d bytes", CAY_MAX_LABEL);
    for (const char *c = name ? name : ""; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            return cay_fail_field(err, "name", "name may not hold control characters");
    return 0;
}
