/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes and executions as /api/v1 shows them. */
#include "api/v1/v1.h"
#include "base/clock.h"
#include "model/limits.h"
#include <stdio.h>
#include <string.h>

#define GB 1e9
#define GIB 1073741824.0
#define PLAIN "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=@%+,"

static void shape_pairs(struct cay_json_writer *w, const char *key, const struct cay_pairs *map)
{
    cay_jw_object(w, key);
    for (size_t i = 0; i < map->count; i++)
        cay_jw_str(w, map->at[i].key, map->at[i].value);
    cay_jw_object_end(w);
}

static void shape_strs(struct cay_json_writer *w, const char *key, const struct cay_strs *list)
{
    cay_jw_array(w, key);
    for (size_t i = 0; i < list->count; i++)
        cay_jw_str(w, NULL, list->at[i]);
    cay_jw_array_end(w);
}

static void shape_command(struct cay_json_writer *w, const char *key, const struct cay_strs *argv,
                          const char *text)
{
    if (text)
        cay_jw_str(w, key, text);
    else if (argv->count > 0)
        shape_strs(w, key, argv);
    else
        cay_jw_null(w, key);
}

/* One string, whichever way it came, as document 003 has it: words that a shell would read back. */
static void shape_start(struct cay_json_writer *w, const struct cay_spec *spec)
{
    CAY_AUTO_BUF struct cay_buf line = {0};
    for (size_t i = 0; i < spec->start.count && !spec->start_text; i++) {
        const char *word = spec->start.at[i];
        if (i > 0)
            cay_buf_addc(&line, ' ');
        if (*word && strspn(word, PLAIN) == strlen(word)) {
            cay_buf_adds(&line, word);
            continue;
        }
        cay_buf_addc(&line, '\'');
        for (; *word; word++)
            *word == '\'' ? cay_buf_adds(&line, "'\\''") : cay_buf_addc(&line, *word);
        cay_buf_addc(&line, '\'');
    }
    if (spec->start_text || line.len == 0)
        cay_jw_str(w, "startCommand", spec->start_text);
    else
        cay_jw_strn(w, "startCommand", line.data, line.len);
}

static const char *disk_enforced_by(const char *kind)
{
    static const struct {
        const char *kind, *told;
    } all[] = {{"xfs", "xfs-quota"},
               {"btrfs", "btrfs-quota"},
               {"loop-btrfs", "btrfs-quota-loop"},
               {"loop-xfs", "xfs-quota-loop"},
               {"unknown", "unknown"}};
    for (size_t i = 0; i < CAY_COUNT(all); i++)
        if (strcmp(kind, all[i].kind) == 0)
            return all[i].told;
    return "none";
}

static void shape_idle(struct cay_json_writer *w, unsigned when)
{
    static const char *const words[] = {"cpu", "output", "requests", "commands"};
    cay_jw_array(w, "idleWhen");
    for (size_t i = 0; i < CAY_COUNT(words); i++)
        if (when & 1u << i)
            cay_jw_str(w, NULL, words[i]);
    cay_jw_array_end(w);
}

static void shape_ready(struct cay_json_writer *w, const struct cay_spec *spec)
{
    if (!cay_spec_waits(spec)) {
        cay_jw_null(w, "readyWhen");
        return;
    }
    cay_jw_object(w, "readyWhen");
    if (spec->ready.port)
        cay_jw_int(w, "port", spec->ready.port);
    else
        cay_jw_str(w, "logLine", spec->ready.line);
    cay_jw_int(w, "timeoutMs", spec->ready.timeout_ms);
    cay_jw_object_end(w);
}

/* To a byte, so that 0.3 comes back as it was said. */
static double gib(uint64_t bytes)
{
    return (double)(int64_t)((double)bytes / GIB * 1e9 + 0.5) / 1e9;
}

static void shape_spec(struct cay_json_writer *w, struct cay_core *core,
                       const struct cay_spec *spec)
{
    cay_jw_str(w, "dockerImage", spec->image);
    cay_jw_str(w, "image", spec->image_used);
    cay_jw_str(w, "runtime", spec->runtime);
    cay_jw_str(w, "isolation", cay_core_isolation(core));
    cay_jw_str(w, "provider", cay_core_provider(core));
    shape_start(w, spec);
    cay_jw_real(w, "cpuCores", spec->cpu_milli / 1000.0);
    cay_jw_real(w, "memoryGB", gib(spec->memory_bytes));
    cay_jw_real(w, "diskSizeGB", (double)spec->disk_bytes / GB);
    cay_jw_str(w, "diskMountPath", spec->workdir ? spec->workdir : CAY_DEFAULT_WORKDIR);
    cay_jw_str(w, "diskEnforcedBy", disk_enforced_by(cay_core_disk(core)));
    cay_jw_int(w, "gpuCount", spec->gpu_count);
    cay_jw_bool(w, "vm", false);
    cay_api_shape_network(w, &spec->network);
    cay_jw_bool(w, "networkEnforced", true);
    cay_jw_int(w, "timeoutMinutes", (spec->timeout_ms + 59999) / 60000);
    cay_jw_int(w, "timeoutMs", spec->timeout_ms);
    cay_jw_int(w, "idleTimeoutMs", spec->idle_ms);
    if (spec->idle_ms)
        cay_jw_int(w, "idleTimeoutMinutes", (spec->idle_ms + 59999) / 60000);
    else
        cay_jw_null(w, "idleTimeoutMinutes");
    shape_idle(w, spec->idle_when);
    cay_jw_int(w, "leaseSeconds", spec->lease_ms / 1000);
    shape_pairs(w, "environmentVars", &spec->env);
    shape_strs(w, "labels", &spec->labels);
    shape_pairs(w, "tags", &spec->tags);
    cay_jw_bool(w, "persistent", spec->persistent);
    cay_jw_str(w, "user", spec->user);
    cay_jw_str(w, "workdir", spec->workdir);
    cay_jw_str(w, "teamId", spec->team_id);
    cay_jw_str(w, "track", spec->track ? spec->track : "off");
    cay_jw_bool(w, "stopWhenStartEnds", spec->stop_when_start_ends);
    cay_jw_object(w, "secrets"); /* their names: the values are nobody's to read */
    for (size_t i = 0; i < spec->secrets.count; i++)
        cay_jw_null(w, spec->secrets.at[i].key);
    cay_jw_object_end(w);
    shape_ready(w, spec);
}

static void shape_death(struct cay_json_writer *w, const struct cay_death *death)
{
    cay_jw_str(w, "terminationReason", death->reason);
    cay_jw_object(w, "termination");
    cay_jw_str(w, "kind", death->reason);
    cay_jw_str(w, "removedBy", death->removal);
    if (death->has_exit)
        cay_jw_int(w, "exitCode", death->exit_code);
    if (death->has_signal)
        cay_jw_int(w, "signal", death->signal);
    cay_jw_str(w, "message", death->message);
    cay_jw_int(w, "peakBytes", (int64_t)death->peak_bytes);
    cay_jw_int(w, "cpuMs", (int64_t)death->cpu_ms);
    cay_jw_int(w, "txBytes", (int64_t)death->sent_bytes);
    cay_jw_int(w, "rxBytes", (int64_t)death->received_bytes);
    cay_jw_object_end(w);
}

void cay_v1_shape_usage(struct cay_json_writer *w, struct cay_core *core,
                        const struct cay_spec *limits, const struct cay_stats *stats)
{
    const struct cay_usage *u = &stats->usage;
    cay_jw_object(w, "cpu");
    cay_jw_int(w, "usageMs", (int64_t)(u->cpu_us / 1000));
    if (stats->cpu_percent >= 0)
        cay_jw_real(w, "percent", (double)(int64_t)(stats->cpu_percent * 100 + 0.5) / 100);
    else
        cay_jw_null(w, "percent");
    cay_jw_real(w, "limitCores", limits->cpu_milli / 1000.0);
    cay_jw_object_end(w);
    cay_jw_object(w, "memory");
    cay_jw_int(w, "bytes", (int64_t)u->memory_bytes);
    cay_jw_int(w, "peakBytes", (int64_t)u->memory_peak_bytes);
    cay_jw_int(w, "limitBytes", (int64_t)limits->memory_bytes);
    cay_jw_object_end(w);
    cay_jw_object(w, "pids");
    cay_jw_int(w, "now", u->pids);
    cay_jw_int(w, "limit", limits->pids);
    cay_jw_object_end(w);
    cay_jw_object(w, "disk");
    if (u->disk_limit_bytes)
        cay_jw_int(w, "bytes", (int64_t)u->disk_bytes);
    else
        cay_jw_null(w, "bytes");
    cay_jw_int(w, "limitBytes",
               (int64_t)(u->disk_limit_bytes ? u->disk_limit_bytes : limits->disk_bytes));
    cay_jw_str(w, "enforcedBy", disk_enforced_by(cay_core_disk(core)));
    cay_jw_object_end(w);
    cay_jw_object(w, "io");
    cay_jw_int(w, "readBytes", (int64_t)u->io_read_bytes);
    cay_jw_int(w, "writeBytes", (int64_t)u->io_write_bytes);
    cay_jw_object_end(w);
}

static void shape_ports(struct cay_json_writer *w, const struct cay_sandbox *sb)
{
    cay_jw_array(w, "ports");
    for (size_t i = 0; i < sb->spec.port_count; i++)
        cay_v1_shape_port(w, NULL, sb->id, &sb->spec.ports[i]);
    cay_jw_array_end(w);
}

/* What is not on the row: use and limits, and how the start command ended. */
static void shape_now(struct cay_json_writer *w, struct cay_core *core,
                      const struct cay_sandbox *sb)
{
    struct cay_stats stats;
    struct cay_record_exit end;
    if (cay_core_usage(core, sb, &stats)) {
        cay_jw_object(w, "usage");
        cay_v1_shape_usage(w, core, &sb->spec, &stats);
        cay_jw_object_end(w);
    }
    if (sb->start_exec[0])
        cay_jw_str(w, "startExecutionId", sb->start_exec);
    if (cay_core_start_exit(core, sb, &end)) {
        cay_jw_object(w, "startCommandExit");
        cay_jw_int(w, "exitCode", end.signal ? 128 + end.signal : end.exit_code);
        if (end.signal)
            cay_jw_int(w, "signal", end.signal);
        else
            cay_jw_null(w, "signal");
        cay_jw_object_end(w);
    } else {
        cay_jw_null(w, "startCommandExit");
    }
}

static void shape_source(struct cay_json_writer *w, const struct cay_spec *spec)
{
    const struct cay_spec_source *s = &spec->source;
    bool snapshot = spec->from && cay_id_is_snapshot(spec->from);
    if (!snapshot && s->kind == CAY_SOURCE_NONE) {
        cay_jw_null(w, "source");
        return;
    }
    cay_jw_object(w, "source");
    if (snapshot) {
        cay_jw_str(w, "type", "snapshot");
        cay_jw_str(w, "id", spec->from);
    } else {
        cay_jw_str(w, "type", s->kind == CAY_SOURCE_GIT ? "git" : "tarball");
        cay_jw_str(w, "url", s->url);
        if (s->revision)
            cay_jw_str(w, "revision", s->revision);
        if (s->depth)
            cay_jw_int(w, "depth", s->depth);
    }
    cay_jw_object_end(w);
}

/* Whose files it began with, and which volume is or would be its workspace. */
static void shape_files(struct cay_json_writer *w, const struct cay_sandbox *sb)
{
    const char *from = sb->spec.from;
    char own[CAY_ID_SIZE];
    cay_id_volume(own, sb->id);
    cay_jw_str(w, "volumeId", sb->spec.volume ? sb->spec.volume : own);
    shape_source(w, &sb->spec);
    cay_jw_str(w, "forkedFrom", from && cay_id_is_sandbox(from) ? from : NULL);
    cay_jw_str(w, "forkMethod", sb->copied.method);
    if (sb->copied.method)
        cay_jw_int(w, "forkMs", sb->copied.ms);
    else
        cay_jw_null(w, "forkMs");
}

static void shape_links(struct cay_json_writer *w, const char *id)
{
    static const struct {
        const char *key, *tail;
    } links[] = {{"self", ""}, {"logs", "/logs"}, {"exec", "/exec"}, {"files", "/files"}};
    char path[80];
    cay_jw_object(w, "links");
    for (size_t i = 0; i < CAY_COUNT(links); i++) {
        (void)snprintf(path, sizeof path, "/api/v1/sandbox/%s%s", id, links[i].tail);
        cay_jw_str(w, links[i].key, path);
    }
    cay_jw_object_end(w);
}

void cay_v1_shape_sandbox(struct cay_json_writer *w, const char *key, struct cay_core *core,
                          const struct cay_sandbox *sb, bool full)
{
    bool up = sb->state == CAY_RUNNING || sb->state == CAY_PAUSED;
    bool ended = !up && sb->state != CAY_PENDING && sb->state != CAY_PROVISIONING;
    int64_t uptime = up && sb->started_at_ms ? cay_clock_ms() - sb->started_at_ms : 0;
    cay_jw_object(w, key);
    cay_jw_str(w, "id", sb->id);
    cay_jw_str(w, "sandboxId", sb->id);
    cay_jw_str(w, "name", sb->spec.name);
    cay_jw_str(w, "status", cay_state_name(sb->state));
    cay_jw_str(w, "statusReason", sb->status_reason);
    cay_jw_str(w, "accountId", sb->account_id);
    cay_jw_str(w, "server", sb->server);
    shape_spec(w, core, &sb->spec);
    shape_ports(w, sb);
    shape_files(w, sb);
    cay_jw_time(w, "createdAt", sb->created_at_ms);
    cay_jw_time(w, "startedAt", sb->started_at_ms);
    cay_jw_time(w, "updatedAt", sb->updated_at_ms);
    cay_jw_time(w, "stoppedAt", sb->stopped_at_ms);
    cay_jw_time(w, "expiresAt", sb->expires_at_ms);
    cay_jw_time(w, "terminatedAt", sb->deleted_at_ms);
    cay_jw_int(w, "createdInMs", sb->created_in_ms);
    cay_jw_int(w, "uptimeMs", uptime > 0 ? uptime : 0);
    if (ended && sb->has_death) {
        shape_death(w, &sb->death);
    } else {
        cay_jw_null(w, "terminationReason");
        cay_jw_null(w, "termination");
    }
    cay_v1_shape_failure(w, "errorType", "errorMessage", sb);
    if (ended && sb->has_death && sb->death.has_exit)
        cay_jw_int(w, "exitCode", sb->death.exit_code);
    else
        cay_jw_null(w, "exitCode");
    if (full)
        shape_now(w, core, sb);
    shape_links(w, sb->id);
    cay_jw_object_end(w);
}

void cay_v1_shape_execution(struct cay_json_writer *w, const char *key,
                            const struct cay_execution *ex)
{
    static const char *const names[] = {
        [CAY_EXEC_RUNNING] = "running", [CAY_EXEC_EXITED] = "exited", [CAY_EXEC_LOST] = "lost"};
    cay_jw_object(w, key);
    cay_jw_str(w, "id", ex->id);
    cay_jw_str(w, "sandboxId", ex->sandbox_id);
    cay_jw_str(w, "status", names[ex->status]);
    shape_command(w, "command", &ex->argv, ex->text);
    cay_jw_bool(w, "tty", ex->tty);
    cay_api_shape_exit(w, ex);
    cay_jw_time(w, "startedAt", ex->started_at_ms);
    cay_jw_time(w, "endedAt", ex->ended_at_ms);
    if (ex->status == CAY_EXEC_RUNNING)
        cay_jw_null(w, "durationMs");
    else
        cay_jw_int(w, "durationMs", ex->duration_ms);
    cay_jw_int(w, "stdoutBytes", (int64_t)ex->stdout_bytes);
    cay_jw_int(w, "stderrBytes", (int64_t)ex->stderr_bytes);
    cay_jw_bool(w, "truncated", ex->truncated);
    cay_jw_object(w, "usage");
    cay_jw_int(w, "cpuMs", (int64_t)ex->cpu_ms);
    cay_jw_int(w, "peakBytes", (int64_t)ex->peak_bytes);
    cay_jw_object_end(w);
    cay_jw_object_end(w);
}

void cay_v1_shape_page(struct cay_json_writer *w, int64_t total, int64_t page, int64_t per_page)
{
    bool more = page * per_page < total;
    cay_jw_int(w, "total", total);
    cay_jw_int(w, "page", page);
    cay_jw_int(w, "per_page", per_page);
    cay_jw_int(w, "perPage", per_page);
    cay_jw_bool(w, "has_next", more);
    cay_jw_bool(w, "hasNext", more);
}
