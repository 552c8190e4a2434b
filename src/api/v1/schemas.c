/* SPDX-License-Identifier: Apache-2.0 */
/* /api/v1: what its answers look like, in the notation of api/schema.h. Real answers are held
 * against this by tests/e2e/test_openapi.py and tests/abuse: a member that is not named here fails
 * them. */
#include "api/dialect.h"
#include "api/history.h"
#include "api/v1/v1.h"

#define PAGE                                                                                       \
    ", total integer, page integer, per_page integer, perPage integer, has_next boolean, "         \
    "hasNext boolean"
#define FILE_INFO                                                                                  \
    "type 'file'|'directory'|'symlink'|'fifo'|'socket'|'device', size integer, mode string, "      \
    "uid integer, gid integer, mtime time|null, etag string"
#define STATES "'PENDING'|'PROVISIONING'|'RUNNING'|'PAUSED'|'STOPPED'|'ERROR'|'TERMINATED'"
#define EXIT                                                                                       \
    "exitCode integer|null, signal integer|null, reason string|null, code? string, "               \
    "process? string, message? string"
#define PORT "port integer, name string|null, url string, public boolean, waitSeconds integer"
#define USAGE "cpu CpuUsage, memory MemoryUsage, pids PidUsage, disk DiskUsage, io IoUsage"
#define WRITTEN "path string, pathBase64? string, created boolean, " FILE_INFO

static const struct cay_schema schemas[] = {
    {"Error", "error ErrorBody, detail string"},
    {"ErrorBody", "code string, message string, details ErrorDetails"},
    {"ErrorDetails", "field? string, cause? string, quota? string, limit? number, used? number, "
                     "tried? [Tried]"},
    {"Tried", "what string, why string"},

    {"Sandbox",
     "id string, sandboxId string, name string, status " STATES ", statusReason string|null, "
     "accountId string, server string|null, dockerImage string, image string|null, runtime "
     "string|null, "
     "isolation string, provider string, startCommand string|null, cpuCores number, memoryGB "
     "number, "
     "diskSizeGB number, diskMountPath string, diskEnforcedBy string, gpuCount integer, "
     "vm boolean, networkAccess boolean, networkPolicy NetworkPolicy|string, "
     "networkAllowlist [string]|null, networkDenylist [string]|null, networkEnforced boolean, "
     "timeoutMinutes integer, "
     "timeoutMs integer, idleTimeoutMs integer, idleTimeoutMinutes integer|null, idleWhen "
     "[string], leaseSeconds integer, "
     "environmentVars {string}, labels [string], tags {string}, persistent boolean, "
     "user string|null, workdir string|null, teamId string|null, ports [Port], track string, "
     "stopWhenStartEnds boolean, secrets {null}, readyWhen ReadyWhen|null, "
     "volumeId string, source SourceOf|null, forkedFrom string|null, forkMethod string|null, "
     "forkMs integer|null, createdAt time, startedAt time|null, updatedAt time, "
     "stoppedAt time|null, expiresAt time|null, terminatedAt time|null, createdInMs integer, "
     "uptimeMs integer, terminationReason string|null, errorType string|null, errorMessage "
     "string|null, "
     "exitCode integer|null, termination Termination|null, usage? Usage, "
     "startExecutionId? string, startCommandExit? StartExit|null, links {string}"},
    {"SandboxPage", "sandboxes [Sandbox]" PAGE},
    {"SandboxList", "sandboxes [Sandbox]"},
    {"SourceOf", "type string, id? string, url? string, revision? string, depth? integer"},
    {"ReadyWhen", "port? integer, logLine? string, timeoutMs integer"},
    {"Termination",
     "kind string, removedBy string|null, exitCode? integer, signal? integer, message string|null, "
     "peakBytes integer, cpuMs integer, txBytes integer, rxBytes integer"},
    {"StartExit", "exitCode integer, signal integer|null"},
    {"Usage", USAGE},
    {"Stats", "sandboxId string, readAt time, " USAGE ", network NetworkUsage"},
    {"CpuUsage", "usageMs integer, percent number|null, limitCores number"},
    {"MemoryUsage", "bytes integer, peakBytes integer, limitBytes integer"},
    {"PidUsage", "now integer, limit integer"},
    {"DiskUsage", "bytes integer|null, limitBytes integer, enforcedBy string"},
    {"IoUsage", "readBytes integer, writeBytes integer"},
    {"NetworkUsage", "rxBytes integer, txBytes integer"},
    {"Deleted", "id string, status 'DELETED'|'TERMINATED'|'STOPPED', volumeId? string"},
    {"BulkResult", "succeeded [string], failed [BulkFailure], message string"},
    {"BulkFailure", "id string, code string, message string"},
    {"Statuses", "statuses [Status], errors [StatusError]"},
    {"Status", "sandbox_id string, status 'PENDING'|'PROVISIONING'|'RUNNING'|'PAUSED'|'ERROR'|"
               "'TERMINATED', error_type string|null, error_message string|null"},
    {"StatusError", "sandbox_id string, code string, message string"},
    {"ErrorContext", "status " STATES ", errorType string|null, errorMessage string|null"},
    {"Logs", "logs string, truncated boolean"},
    {"EgressPolicy", "policy EgressLists, generation integer, applied_generation integer, "
                     "appliedGeneration integer, applied boolean"},
    {"EgressLists", "allowlist [string]|null, denylist [string]|null"},
    {"Network", "sandboxId string, networkPolicy NetworkPolicy|string, generation integer, "
                "wanted [Wanted]"},
    {"Wanted",
     "name string|null, address string|null, port integer|null, "
     "verdict 'allowed'|'guarded'|'denied'|'unlisted'|'quota', failed boolean, count integer, "
     "sentBytes integer, receivedBytes integer, injected integer, firstAt time|null, "
     "lastAt time|null"},
    {"Proposal", "sandboxId string, networkPolicy NetworkPolicy, leftOut [Wanted]"},
    {"Spec", .fields = cay_v1_spec_fields},
    {"NetworkPolicy", .fields = cay_api_policy_fields},

    {"Execution",
     "id string, sandboxId string, status 'running'|'exited'|'lost', command string|[string]|null, "
     "tty boolean, " EXIT ", startedAt time|null, endedAt time|null, durationMs integer|null, "
     "stdoutBytes integer, stderrBytes integer, truncated boolean, usage ExecutionUsage"},
    {"ExecutionUsage", "cpuMs integer, peakBytes integer"},
    {"ExecutionPage", "executions [Execution]" PAGE},
    {"Result", "id string, sandboxId string, status 'exited', " EXIT ", stdout string, "
               "stderr string, truncated boolean, durationMs integer"},
    {"Forgotten", "id string, deleted boolean"},
    {"Written", "bytes integer, closed boolean"},
    {"Window", .fields = cay_v1_window_fields},
    {"Base64", "base64 string"},
    {"Command", .fields = cay_v1_exec_fields},

    {"Port", "sandboxId string, " PORT ", protocol 'http'|'tcp', createdAt time"},
    {"PortList", "ports [Port], total integer"},
    {"PortRemoved", "sandboxId string, port integer"},
    {"PortLink", "url string, expiresAt time"},
    {"Exposure", "exposure_id string, sandbox_id string, " PORT ", tls_socket string, "
                 "protocol 'HTTP'|'TCP', created_at time"},
    {"ExposureList", "exposures [Exposure], total integer"},

    {"ProcessList", "processes [Process], truncated boolean"},
    {"Process", "pid integer, parent integer, user string, uid integer, command string, "
                "state string, threads integer, cpuMs integer, cpuPercent number, "
                "memoryBytes integer, startedAt time|null, executionId string|null"},
    {"Signalled", "pid integer, signal integer"},

    {"FileInfo", "path string, pathBase64? string, to? string, toBase64? string, "
                 "created? boolean, " FILE_INFO ", links? integer, linkTarget? string, "
                 "linkTargetBase64? string, target? FileTarget, sha256? string"},
    {"FileTarget", FILE_INFO},
    {"FileEntry", "name string, nameBase64? string, path string, pathBase64? string, " FILE_INFO
                  ", linkTarget? string, linkTargetBase64? string"},
    {"FilePage", "path string, pathBase64? string, entries [FileEntry], hasNext boolean, "
                 "nextCursor string|null"},
    {"FileWritten", WRITTEN ", sha256? string, files? [FormFile]"},
    {"FormFile", "path string, pathBase64? string, " FILE_INFO},
    {"FileRemoved", "path string, pathBase64? string, removed boolean"},
    {"Unpacked",
     "path string, pathBase64? string, entries integer, bytes integer, skipped integer"},

    {"Snapshot", "id string, name string|null, accountId string, sandboxId string|null, "
                 "dockerImage string|null, sizeBytes integer|null, method string|null, "
                 "snapshotMs integer, expiresAt time|null, createdAt time"},
    {"SnapshotPage", "snapshots [Snapshot]" PAGE},
    {"Volume", "id string, name string|null, accountId string, sandboxId string|null, "
               "dockerImage string|null, sizeBytes integer|null, inUse boolean, createdAt time"},
    {"VolumePage", "volumes [Volume]" PAGE},

    CAY_HISTORY_SCHEMAS,

    {"Image", "name string, digest string|null, source string|null, architecture string|null, "
              "sizeBytes integer, uses integer, layerCount integer, createdAt time|null, "
              "user? string|null, workdir? string|null, stopSignal? string|null, env? [string], "
              "entrypoint? [string], cmd? [string], layers? [string]"},
    {"ImageList", "images [Image], total integer"},
    {"ImageRemoved", "name string, deleted boolean"},
    {"Pruned", "layers integer, bytes integer"},
    {"Job", "id string, kind string|null, image string|null, status 'waiting'|'running'|"
            "'succeeded'|'failed'|'cancelled'|'lost', step string|null, note string|null, "
            "bytes integer, totalBytes integer, bytesPerSecond integer, layers [JobLayer], "
            "createdAt time|null, startedAt time|null, endedAt time|null, error? ErrorBody"},
    {"JobLayer", "digest string, step string, bytes integer, totalBytes integer"},
    {"JobList", "jobs [Job]"},

    {"AuditPage", "entries [AuditEntry], nextCursor string|null, hasNext boolean"},
    {"AuditEntry", "time time, account? string, key? string, peer? string, action? string, "
                   "sandbox? string, object? string, result string, status? integer, "
                   "request? string"},

    {"Health", "status 'healthy'|'degraded'|'unhealthy', version string, "
               "provider? ProviderHealth, store? StoreHealth, features? Features"},
    {"ProviderHealth", "name string, version string|null, status string, problems [Problem]"},
    {"Problem", "what string, why string, fix string, fatal? boolean"},
    {"StoreHealth", "name string, version string|null, status string, error string|null"},
    {"Features", "network string, diskLimit string, gpu boolean"},

    {"Account", "id string, accountId string, name string, kind 'account'|'team', "
                "keyId string|null, scopes [string], teams [TeamOf], createdAt time|null"},
    {"Holder", "id string, name string, kind 'account'|'team', createdAt time|null"},
    {"AccountList", "accounts [Holder]"},
    {"TeamOf", "id string, name string, role string, addedAt? time|null"},
    {"TeamList", "teams [TeamOf]"},
    {"Team", "id string, name string, createdAt time|null, members [Member]"},
    {"Member", "accountId string, name string, role string, addedAt time|null"},
    {"Key", "id string, name string, accountId string, scopes [string], createdAt time, "
            "expiresAt time|null, lastUsedAt time|null, revokedAt time|null, token? string"},
    {"KeyList", "keys [Key]"},
    {"Quota", "accountId string, quotas {QuotaOf}"},
    {"QuotaOf", "limit number|null, used number"},
    {"SandboxToken",
     "token string, sandboxId string, sandbox_id string, gatewayUrl string, gateway_url string, "
     "userNs string, user_ns string, jobId string, job_id string, expiresAt time|null, "
     "expires_at time|null, isVm boolean, is_vm boolean"},
    {0},
};

const struct cay_dialect cay_v1_dialect = {
    .prefix = "/api/v1", .schemas = schemas, .error = "Error", .tell = cay_api_error};
