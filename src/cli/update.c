/* SPDX-License-Identifier: Apache-2.0 */
/* cay update: what a sandbox is called and may have, from now on. */
#include "cli/output.h"
#include "cli/remote.h"
#include <stdio.h>

struct update_options {
    struct cay_remote_options remote;
    const char *name, *timeout, *idle, *lease; /* times as text: 0 is one of them */
    double cpus;
    int64_t memory_bytes, disk_bytes;
    struct cay_pairs env, tags;
    struct cay_strs labels;
};

static int add_time(struct cay_json_writer *w, const char *key, const char *option,
                    const char *text, int64_t unit_ms, struct cay_error *err)
{
    int64_t ms;
    if (!text)
        return 0;
    if (!cay_options_duration(text, &ms))
        return cay_fail(err, CAY_ERR_INVALID, "--%s %s is not a time like 90m", option, text);
    cay_jw_int(w, key, ms / unit_ms);
    return 0;
}

static void add_pairs(struct cay_json_writer *w, const char *key, const struct cay_pairs *pairs)
{
    if (pairs->count == 0)
        return;
    cay_jw_object(w, key);
    for (size_t i = 0; i < pairs->count; i++)
        cay_jw_str(w, pairs->at[i].key, pairs->at[i].value);
    cay_jw_object_end(w);
}

static void add_collections(struct cay_json_writer *w, const struct update_options *o)
{
    add_pairs(w, "environmentVars", &o->env);
    add_pairs(w, "tags", &o->tags);
    if (o->labels.count > 0) {
        cay_jw_array(w, "labels");
        for (size_t i = 0; i < o->labels.count; i++)
            cay_jw_str(w, NULL, o->labels.at[i]);
        cay_jw_array_end(w);
    }
}

static int update(struct cay_cli *cli, struct cay_error *err)
{
    const struct update_options *o = cli->options;
    const struct cay_json *root;
    CAY_AUTO_BUF struct cay_buf body = {0};
    struct cay_json_writer w = {.buf = &body};
    cay_jw_object(&w, NULL);
    if (o->name)
        cay_jw_str(&w, "name", o->name);
    if (o->cpus > 0)
        cay_jw_real(&w, "cpuCores", o->cpus);
    if (o->memory_bytes)
        cay_jw_real(&w, "memoryGB", (double)o->memory_bytes / 0x1p30);
    if (o->disk_bytes)
        cay_jw_real(&w, "diskSizeGB", (double)o->disk_bytes / 1e9);
    int r = add_time(&w, "timeoutMs", "timeout", o->timeout, 1, err);
    if (r == 0)
        r = add_time(&w, "idleTimeoutMs", "idle-timeout", o->idle, 1, err);
    if (r == 0)
        r = add_time(&w, "leaseSeconds", "lease", o->lease, 1000, err);
    if (r < 0)
        return r;
    add_collections(&w, o);
    cay_jw_object_end(&w);
    const char *path = cay_remote_path(cli, "sandbox", cli->args.args.at[0], (const char *)NULL);
    r = cay_remote_call(cli, "PATCH", path, &body, 0, &root, err);
    if (r >= 0 && o->remote.json)
        cay_output_json(cli->raw);
    return r < 0 ? r : 0;
}

#define AT(member) offsetof(struct update_options, member)

static const struct cay_option table[] = {
    {CAY_OPTION_STRING, "name", AT(name), .arg = "NAME", .help = "another name"},
    {CAY_OPTION_NUMBER, "cpus", AT(cpus), .arg = "N", .help = "at most this many cores"},
    {CAY_OPTION_SIZE, "memory", AT(memory_bytes), 'm', .arg = "SIZE",
     .help = "at most this much memory; not less than it uses"},
    {CAY_OPTION_SIZE, "disk", AT(disk_bytes), .arg = "SIZE",
     .help = "at most this much disk; not less than it uses"},
    {CAY_OPTION_STRING, "timeout", AT(timeout), .arg = "TIME",
     .help = "how long it may live, counted from its start; 0 is for ever"},
    {CAY_OPTION_STRING, "idle-timeout", AT(idle), .arg = "TIME",
     .help = "end it after so long without activity; 0 is never"},
    {CAY_OPTION_STRING, "lease", AT(lease), .arg = "TIME",
     .help = "end it after so long without a call; 0 is never"},
    {CAY_OPTION_PAIRS, "env", AT(env), 'e', .arg = "KEY=VALUE",
     .help = "variable of later commands; replaces all there are"},
    {CAY_OPTION_LIST, "label", AT(labels), 'l', .arg = "TEXT",
     .help = "label; replaces all there are"},
    {CAY_OPTION_PAIRS, "tag", AT(tags), .arg = "KEY=VALUE", .help = "tag; replaces all there are"},
    CAY_OPTION_END,
};

const struct cay_command cay_command_update = {
    .name = "update",
    .args = "ID",
    .summary = "change what a sandbox is called and may have",
    .notes = "A running one has its new limits at once; one that is stopped, at its next start.",
    .options = table,
    .size = sizeof(struct update_options),
    .args_min = 1,
    .args_max = 1,
    .remote = true,
    .run = update,
};
