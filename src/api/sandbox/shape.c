/* SPDX-License-Identifier: Apache-2.0 */
/* /api/sandbox: the form of its answers, and of its errors. */
#include "api/dialect.h"
#include "api/sandbox/sandbox.h"
#include "base/clock.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define NOT_MADE "Failed to create container from image"

/* The lower-case word. */
static const char *word_of(struct cay_arena *a, enum cay_state state)
{
    char *word = cay_arena_strdup(a, cay_state_name(state));
    for (char *at = word; *at; at++)
        *at = (char)tolower((unsigned char)*at);
    return word;
}

/* 2025-05-12T10:00:00Z */
static void shape_time(struct cay_json_writer *w, const char *key, int64_t time_ms)
{
    char iso[CAY_ISO_SIZE], text[CAY_ISO_SIZE];
    (void)cay_clock_iso(time_ms, iso);
    (void)snprintf(text, sizeof text, "%.19sZ", iso); /* fits: a fraction goes */
    cay_jw_str(w, key, time_ms ? text : NULL);
}

static void shape_head(struct cay_req *req, struct cay_json_writer *w, const struct cay_sandbox *sb,
                       const char *status)
{
    cay_jw_str(w, "containerId", sb->id);
    cay_jw_str(w, "status", status ? status : word_of(req->arena, sb->state));
    shape_time(w, "createdAt", sb->created_at_ms);
    shape_time(w, "expiresAt", sb->expires_at_ms);
    cay_jw_str(w, "id", sb->id);
    cay_jw_str(w, "name", sb->spec.name);
}

void cay_sandbox_shape_made(struct cay_req *req, struct cay_resp *resp,
                            const struct cay_sandbox *sb)
{
    struct cay_json_writer *w = cay_resp_json(resp, 201);
    cay_jw_object(w, NULL);
    shape_head(req, w, sb, "created");
    cay_jw_object_end(w);
}

/* As a caller would have written it: "512m". */
static void shape_size(struct cay_json_writer *w, const char *key, uint64_t bytes)
{
    char text[32];
    double mib = (double)bytes / (double)CAY_MIB;
    (void)snprintf(text, sizeof text, mib >= 10 ? "%.0fm" : "%.1fm", mib); /* fits */
    cay_jw_str(w, key, text);
}

static void shape_cores(struct cay_json_writer *w, const char *key, double cores)
{
    char text[32];
    (void)snprintf(text, sizeof text, "%.3g", cores); /* fits */
    cay_jw_str(w, key, text);
}

/* Strings, as document 004 has them. One that does not run uses nothing. */
static void shape_usage(struct cay_req *req, struct cay_json_writer *w,
                        const struct cay_sandbox *sb)
{
    struct cay_stats stats = {0};
    bool known = cay_core_usage(req->core, sb, &stats);
    double cores = known && stats.cpu_percent > 0 ? stats.cpu_percent / 100 : 0;
    cay_jw_object(w, "resourceUsage");
    shape_cores(w, "cpuUsage", cores);
    shape_size(w, "memoryUsage", known ? stats.usage.memory_bytes : 0);
    cay_jw_object_end(w);
}

static void shape_limits(struct cay_json_writer *w, const struct cay_spec *spec)
{
    cay_jw_object(w, "limits");
    shape_cores(w, "cpuLimit", spec->cpu_milli / 1000.0);
    shape_size(w, "memoryLimit", spec->memory_bytes);
    cay_jw_int(w, "timeout", spec->exec_ms ? spec->exec_ms : CAY_SANDBOX_EXEC_MS);
    cay_jw_object_end(w);
}

void cay_sandbox_shape(struct cay_req *req, struct cay_resp *resp, const struct cay_sandbox *sb)
{
    bool up = sb->state == CAY_RUNNING || sb->state == CAY_PAUSED;
    int64_t uptime_ms = up && sb->started_at_ms ? cay_clock_ms() - sb->started_at_ms : 0;
    struct cay_json_writer *w = cay_resp_json(resp, 200);
    cay_jw_object(w, NULL);
    shape_head(req, w, sb, NULL);
    shape_usage(req, w, sb);
    cay_jw_str(w, "state", word_of(req->arena, sb->state));
    cay_jw_str(w, "reason", sb->status_reason);
    cay_jw_int(w, "uptime", uptime_ms > 0 ? uptime_ms / 1000 : 0);
    cay_jw_str(w, "logs", cay_arena_printf(req->arena, CAY_SANDBOX_PATH "/%s/logs", sb->id));
    shape_limits(w, &sb->spec);
    cay_jw_str(w, "image", sb->spec.image);
    cay_jw_str(w, "server", sb->server);
    cay_jw_bool(w, "networkAccess", cay_network_leads_out(&sb->spec.network));
    cay_jw_str(w, "track", sb->spec.track ? sb->spec.track : "off");
    cay_jw_object_end(w);
}

void cay_sandbox_shape_list(struct cay_req *req, struct cay_resp *resp,
                            const struct cay_sandbox_list *list)
{
    struct cay_json_writer *w = cay_resp_json(resp, 200);
    cay_jw_array(w, NULL);
    for (size_t i = 0; i < list->count; i++) {
        const struct cay_sandbox *sb = &list->at[i];
        cay_jw_object(w, NULL);
        shape_head(req, w, sb, NULL);
        cay_jw_str(w, "image", sb->spec.image);
        cay_jw_str(w, "server", sb->server);
        cay_jw_object_end(w);
    }
    cay_jw_array_end(w);
    cay_resp_header(resp, "X-Total-Count",
                    cay_arena_printf(req->arena, "%lld", (long long)list->total));
}

/* ---- errors ---- */

/* What the caller can mend has its own code; all else is a container that could not be made. */
int cay_sandbox_not_made(const char *image_name, int r, struct cay_error *err)
{
    bool image = strcmp(cay_error_name(err), "IMAGE_NOT_FOUND") == 0 ||
                 strcmp(err->field, "dockerImage") == 0;
    bool callers = r == CAY_ERR_INVALID || r == CAY_ERR_CONFLICT || r == CAY_ERR_LIMIT ||
                   r == CAY_ERR_FORBIDDEN || r == CAY_ERR_NOT_FOUND;
    if (callers && !image)
        return r;
    char cause[sizeof err->cause];
    if (image)
        (void)snprintf(cause, sizeof cause, "Image not found: %s",
                       image_name); /* as much as fits */
    else
        cay_str_copy(cause, sizeof cause, err->cause[0] ? err->cause : err->msg);
    r = cay_fail_as(err, image ? CAY_ERR_NOT_FOUND : (enum cay_err)r, "CONTAINER_CREATION_FAILED",
                    NOT_MADE);
    cay_str_copy(err->cause, sizeof err->cause, cause);
    return r;
}

static void tell(const struct cay_req *req, const struct cay_error *err, struct cay_resp *resp)
{
    struct cay_error told = *err;
    if (strcmp(told.msg, "sandbox not found") == 0)
        told.msg[0] = 'S'; /* as document 000 writes it */
    cay_api_error_bare(req, &told, resp);
}

#define HEAD                                                                                       \
    "containerId string, status string, createdAt string, expiresAt string|null, id string, "      \
    "name string"

static const struct cay_schema schemas[] = {
    {"ContainerError", "error ErrorBody"},
    {"Container", HEAD},
    {"ContainerStatus",
     HEAD ", resourceUsage ContainerUsage, state string, reason string|null, uptime integer, "
          "logs string, limits ContainerLimits, image string, server string, "
          "networkAccess boolean, track string"},
    {"ContainerUsage", "cpuUsage string, memoryUsage string"},
    {"ContainerLimits", "cpuLimit string, memoryLimit string, timeout integer"},
    {"ContainerListed", HEAD ", image string, server string"},
    {"ContainerDeleted", "status 'deleted', containerId string, volumeId? string"},
    {"ContainerRun", "id string, status 'success'|'error'|'timeout'|'oom', duration integer, "
                     "stdout string, stderr string, exitCode integer, reason string, "
                     "truncated? boolean"},
    {"ContainerRunning", "id string, status 'running', containerId string"},
    {0},
};

const struct cay_dialect cay_sandbox_dialect = {
    .prefix = "/api", .schemas = schemas, .error = "ContainerError", .tell = tell};
