/* SPDX-License-Identifier: Apache-2.0 */
/* cay create */
#include "cli/create.h"
#include "cli/network.h"
#include "cli/output.h"
#include <stdio.h>
#include <string.h>

static void add_optional(struct cay_json_writer *w, const char *key, const char *value)
{
    if (value)
        cay_jw_str(w, key, value);
}

static void add_collections(struct cay_json_writer *w, const struct cay_create_options *o)
{
    if (o->env.count) {
        cay_jw_object(w, "environmentVars");
        for (size_t i = 0; i < o->env.count; i++)
            cay_jw_str(w, o->env.at[i].key, o->env.at[i].value);
        cay_jw_object_end(w);
    }
    if (o->labels.count) {
        cay_jw_array(w, "labels");
        for (size_t i = 0; i < o->labels.count; i++)
            cay_jw_str(w, NULL, o->labels.at[i]);
        cay_jw_array_end(w);
    }
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
    add_optional(&w, "startCommand", o->start);
    add_optional(&w, "user", o->user);
    add_optional(&w, "workdir", o->workdir);
    add_optional(&w, "volume", o->volume);
    add_optional(&w, "track", o->track);
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
    if (timeout_ms >= 0)
        cay_jw_int(&w, "timeoutMs", timeout_ms);
    if (o->idle_ms)
        cay_jw_int(&w, "idleTimeoutMs", o->idle_ms);
    if (o->lease_ms)
        cay_jw_int(&w, "leaseSeconds", o->lease_ms / 1000);
    if (o->network || o->no_network)
        cay_network_put(&w, o->no_network ? "off" : o->network);
    if (o->persistent)
        cay_jw_bool(&w, "persistent", true);
    add_collections(&w, o);
    cay_jw_object_end(&w);
    const char *path = cay_remote_path(cli, "sandbox", (const char *)NULL);
    int r = cay_remote_call(cli, "POST", path, &body, 0, out, err);
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
