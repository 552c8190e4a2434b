/* SPDX-License-Identifier: Apache-2.0 */
/* cay create */
#include "cli/create.h"
#include "cli/network.h"
#include "cli/output.h"
#include "cli/secret.h"
#include "model/limits.h"
#include <stdio.h>
#include <string.h>

/* Its image, its source and its start command may be waited for, one after the other. */
#define CREATE_MS                                                                                  \
    (CAY_IMAGE_WAIT_MS + CAY_DEFAULT_SOURCE_MS + CAY_MAX_READY_MS + CAY_CLIENT_IDLE_MS)

static void add_optional(struct cay_json_writer *w, const char *key, const char *value)
{
    if (value)
        cay_jw_str(w, key, value);
}

static void add_pairs(struct cay_json_writer *w, const char *key, const struct cay_pairs *pairs)
{
    if (!pairs->count)
        return;
    cay_jw_object(w, key);
    for (size_t i = 0; i < pairs->count; i++)
        cay_jw_str(w, pairs->at[i].key, pairs->at[i].value);
    cay_jw_object_end(w);
}

static void add_collections(struct cay_json_writer *w, const struct cay_create_options *o)
{
    add_pairs(w, "environmentVars", &o->env);
    add_pairs(w, "tags", &o->tags);
    if (o->labels.count) {
        cay_jw_array(w, "labels");
        for (size_t i = 0; i < o->labels.count; i++)
            cay_jw_str(w, NULL, o->labels.at[i]);
        cay_jw_array_end(w);
    }
}

static int add_secrets(struct cay_json_writer *w, struct cay_arena *a,
                       const struct cay_create_options *o, struct cay_error *err)
{
    struct cay_pairs all = {0};
    for (size_t i = 0; i < o->secrets.count; i++)
        cay_pairs_set(a, &all, o->secrets.at[i].key, o->secrets.at[i].value);
    int r = cay_secret_files(a, "secret-file", &o->secret_files, &all, err);
    if (r == 0)
        add_pairs(w, "secrets", &all);
    return r;
}

static void add_ready(struct cay_json_writer *w, const struct cay_create_options *o)
{
    if (!o->ready_port && !o->ready_line && !o->ready_ms)
        return;
    cay_jw_object(w, "readyWhen");
    if (o->ready_port)
        cay_jw_int(w, "port", o->ready_port);
    add_optional(w, "logLine", o->ready_line);
    if (o->ready_ms)
        cay_jw_int(w, "timeoutMs", o->ready_ms);
    cay_jw_object_end(w);
}

/* URL or URL@REVISION; what is named like an archive is one. */
static void add_source(struct cay_json_writer *w, const char *text)
{
    static const char *const archives[] = {".tar",    ".tgz",     ".tar.gz",
                                           ".tar.xz", ".tar.bz2", ".tar.zst"};
    const char *slash = strrchr(text, '/'), *at = slash ? strchr(slash, '@') : NULL;
    bool tarball = false;
    for (size_t i = 0; i < CAY_COUNT(archives); i++)
        tarball |= cay_str_ends(text, archives[i]);
    cay_jw_object(w, "source");
    cay_jw_str(w, "type", tarball ? "tarball" : "git");
    if (at && !tarball) {
        cay_jw_strn(w, "url", text, (size_t)(at - text));
        cay_jw_str(w, "revision", at + 1);
    } else {
        cay_jw_str(w, "url", text);
    }
    cay_jw_object_end(w);
}

int cay_create(struct cay_cli *cli, const struct cay_create_options *o, const char *name,
               int64_t timeout_ms, const struct cay_json **out, struct cay_error *err)
{
    CAY_AUTO_BUF struct cay_buf body = {0};
    struct cay_json_writer w = {.buf = &body};
    cay_jw_object(&w, NULL);
    add_optional(&w, "name", name);
    add_optional(&w, "dockerImage", o->image);
    add_optional(&w, "pullPolicy", o->pull);
    add_optional(&w, "startCommand", o->start);
    add_optional(&w, "user", o->user);
    add_optional(&w, "workdir", o->workdir);
    add_optional(&w, "volume", o->volume);
    add_optional(&w, "track", o->track);
    add_optional(&w, "teamId", o->team);
    if (o->from) {
        cay_jw_object(&w, "source");
        cay_jw_str(&w, "type", "snapshot");
        cay_jw_str(&w, "id", o->from);
        cay_jw_object_end(&w);
    } else if (o->source) {
        add_source(&w, o->source);
    }
    if (o->cpus > 0)
        cay_jw_real(&w, "cpuCores", o->cpus);
    if (o->memory_bytes)
        cay_jw_real(&w, "memoryGB", (double)o->memory_bytes / 0x1p30);
    if (o->disk_bytes)
        cay_jw_real(&w, "diskSizeGB", (double)o->disk_bytes / 1e9);
    if (timeout_ms >= 0)
        cay_jw_int(&w, "timeoutMs", timeout_ms);
    if (o->idle_ms)
        cay_jw_int(&w, "idleTimeoutMs", o->idle_ms);
    if (o->lease_ms)
        cay_jw_int(&w, "leaseSeconds", o->lease_ms / 1000);
    if (o->persistent)
        cay_jw_bool(&w, "persistent", true);
    add_collections(&w, o);
    add_ready(&w, o);
    int r = add_secrets(&w, &cli->arena, o, err);
    if (r == 0)
        r = cay_network_put(&w, &cli->arena, o->no_network ? "off" : o->network, &o->edge, err);
    if (r < 0)
        return r;
    cay_jw_object_end(&w);
    const char *path = cay_remote_path(cli, "sandbox", (const char *)NULL);
    r = cay_remote_call(cli, "POST", path, &body, CREATE_MS, out, err);
    if (r >= 0 && !cay_json_get_str(*out, "id", NULL))
        return cay_fail(err, CAY_ERR_PROVIDER, "the server's answer names no sandbox");
    return r;
}

static const struct cay_option create_table[] = {
    CAY_CREATE_OPTIONS,
    {CAY_OPTION_DURATION, "timeout", CAY_CREATE_AT(timeout_ms), .arg = "TIME",
     .help = "how long it may live, like 90m; 0 is for ever", .otherwise = "60m"},
    {CAY_OPTION_DURATION, "idle-timeout", CAY_CREATE_AT(idle_ms), .arg = "TIME",
     .help = "end it after so long without activity; 0 is never"},
    {CAY_OPTION_DURATION, "lease", CAY_CREATE_AT(lease_ms), .arg = "TIME",
     .help = "end it after so long without a call that names it; 0 is never"},
    {CAY_OPTION_STRING, "start", CAY_CREATE_AT(start), .arg = "COMMAND",
     .help = "command to start with it; its output is what `cay logs` shows"},
    {CAY_OPTION_INTEGER, "ready-port", CAY_CREATE_AT(ready_port), .arg = "PORT",
     .help = "wait until something listens there, inside", .min = 1, .max = 65535},
    {CAY_OPTION_STRING, "ready-line", CAY_CREATE_AT(ready_line), .arg = "TEXT",
     .help = "wait until a line of its start command's output holds this"},
    {CAY_OPTION_DURATION, "ready-timeout", CAY_CREATE_AT(ready_ms), .arg = "TIME",
     .help = "what is later is too late, and the sandbox is removed; 30s unless said"},
    {CAY_OPTION_FLAG, "persistent", CAY_CREATE_AT(persistent),
     .help = "at the end of its time it stops and keeps its files"},
    CAY_OPTION_END,
};

static int create(struct cay_cli *cli, struct cay_error *err)
{
    const struct cay_create_options *o = cli->options;
    const struct cay_json *sandbox;
    int r = cay_create(cli, o, o->name, o->timeout_ms, &sandbox, err);
    if (r < 0)
        return r;
    if (o->remote.json)
        cay_output_json(cli->raw);
    else
        printf("%s\n", cay_json_get_str(sandbox, "id", ""));
    return 0;
}

const struct cay_command cay_command_create = {
    .name = "create",
    .args = "",
    .summary = "make a sandbox and print its id",
    .options = create_table,
    .size = sizeof(struct cay_create_options),
    .remote = true,
    .run = create,
};
