/* SPDX-License-Identifier: Apache-2.0 */
/* cay stop, start, pause, resume, rm, logs: a sandbox's life and what its start command says. */
#include "cli/follow.h"
#include "cli/output.h"
#include "cli/remove.h"
#include "model/limits.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct stop_options {
    struct cay_remote_options remote;
    int64_t grace_ms;
};

struct rm_options {
    struct cay_remote_options remote;
    bool preserve_volume;
};

struct logs_options {
    struct cay_remote_options remote;
    bool follow;
    int64_t tail;
};

static int show(struct cay_cli *cli, int r)
{
    const struct cay_remote_options *o = cli->options;
    if (r >= 0 && o->json)
        cay_output_json(cli->raw);
    return r < 0 ? r : 0;
}

/* start, pause and resume: the command's name is the verb of the path. */
static int ask(struct cay_cli *cli, struct cay_error *err)
{
    const struct cay_json *root;
    const char *path = cay_remote_path(cli, "sandbox", cli->args.args.at[0], cli->command->name,
                                       (const char *)NULL);
    return show(cli, cay_remote_call(cli, "POST", path, NULL, 0, &root, err));
}

static int stop(struct cay_cli *cli, struct cay_error *err)
{
    const struct stop_options *o = cli->options;
    const struct cay_json *root;
    CAY_AUTO_BUF struct cay_buf body = {0};
    const char *path =
        cay_remote_path(cli, "sandbox", cli->args.args.at[0], "stop", (const char *)NULL);
    cay_buf_addf(&body, "{\"graceMs\":%" PRId64 "}", o->grace_ms);
    int64_t wait_ms = o->grace_ms + CAY_CLIENT_IDLE_MS;
    return show(cli, cay_remote_call(cli, "POST", path, &body, wait_ms, &root, err));
}

static int rm(struct cay_cli *cli, struct cay_error *err)
{
    const struct rm_options *o = cli->options;
    return cay_remove_each(cli, "sandbox", 0, o->preserve_volume ? "?preserveVolume=true" : "",
                           o->preserve_volume ? "volumeId" : NULL, err);
}

static int logs(struct cay_cli *cli, struct cay_error *err)
{
    const struct logs_options *o = cli->options;
    const char *path =
        cay_remote_path(cli, "sandbox", cli->args.args.at[0], "logs", (const char *)NULL);
    if (o->follow || !o->remote.json)
        path = cay_arena_printf(&cli->arena, "%s?follow=%s&", path, o->follow ? "true" : "false");
    else
        path = cay_arena_printf(&cli->arena, "%s?", path);
    if (o->tail >= 0)
        path = cay_arena_printf(&cli->arena, "%stail=%" PRId64, path, o->tail);
    if (o->follow || !o->remote.json)
        return cay_follow_logs(cli, path, o->follow, err);
    const struct cay_json *root;
    return show(cli, cay_remote_call(cli, "GET", path, NULL, 0, &root, err));
}

const struct cay_command cay_command_start = {
    .name = "start",
    .args = "ID",
    .summary = "start a stopped sandbox",
    .size = sizeof(struct cay_remote_options),
    .args_min = 1,
    .args_max = 1,
    .remote = true,
    .run = ask,
};

const struct cay_command cay_command_pause = {
    .name = "pause",
    .args = "ID",
    .summary = "let every process of a sandbox stand still",
    .notes = "Memory and processes stay; the sandbox's time goes on.",
    .size = sizeof(struct cay_remote_options),
    .args_min = 1,
    .args_max = 1,
    .remote = true,
    .run = ask,
};

const struct cay_command cay_command_resume = {
    .name = "resume",
    .args = "ID",
    .summary = "let a paused sandbox go on",
    .size = sizeof(struct cay_remote_options),
    .args_min = 1,
    .args_max = 1,
    .remote = true,
    .run = ask,
};

static const struct cay_option stop_table[] = {
    {CAY_OPTION_DURATION, "grace", offsetof(struct stop_options, grace_ms), .arg = "TIME",
     .help = "between SIGTERM and SIGKILL", .otherwise = "10s", .max = CAY_MAX_GRACE_MS},
    CAY_OPTION_END,
};

const struct cay_command cay_command_stop = {
    .name = "stop",
    .args = "ID",
    .summary = "stop a sandbox; its files stay",
    .options = stop_table,
    .size = sizeof(struct stop_options),
    .args_min = 1,
    .args_max = 1,
    .remote = true,
    .run = stop,
};

static const struct cay_option rm_table[] = {
    {CAY_OPTION_FLAG, "preserve-volume", offsetof(struct rm_options, preserve_volume),
     .help = "keep /workspace as a volume, and print its id"},
    CAY_OPTION_END,
};

const struct cay_command cay_command_rm = {
    .name = "rm",
    .args = "ID...",
    .summary = "remove sandboxes",
    .notes = "A volume that was given at create is kept in any case.",
    .options = rm_table,
    .size = sizeof(struct rm_options),
    .args_min = 1,
    .args_max = 1000,
    .remote = true,
    .run = rm,
};

static const struct cay_option logs_table[] = {
    {CAY_OPTION_FLAG, "follow", offsetof(struct logs_options, follow), 'f',
     .help = "go on as more comes"},
    {CAY_OPTION_INTEGER, "tail", offsetof(struct logs_options, tail), 'n', .arg = "N",
     .help = "begin with the last N lines; -1 is all", .otherwise = "-1", .min = -1},
    CAY_OPTION_END,
};

const struct cay_command cay_command_logs = {
    .name = "logs",
    .args = "ID",
    .summary = "print what a sandbox's start command wrote",
    .options = logs_table,
    .size = sizeof(struct logs_options),
    .args_min = 1,
    .args_max = 1,
    .remote = true,
    .run = logs,
};
