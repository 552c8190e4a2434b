/* SPDX-License-Identifier: Apache-2.0 */
/* cay run: a sandbox for one command.
 *
 * Whatever happens after the create, the sandbox is removed, unless it shall be kept. The name is
 * made up here when the user gave none: when the create's answer is lost, it is the only handle. */
#include "base/id.h"
#include "cli/create.h"
#include "cli/exec.h"
#include "cli/follow.h"
#include "model/limits.h"
#include <stdio.h>
#include <string.h>

#define OUTLIVE_MS 60000 /* the sandbox lives so much longer than its command may */

struct run_options {
    struct cay_create_options create; /* its timeout is the command's here */
    bool keep;
};

/* With what is left of patience: a sandbox that stays costs the user more than a short wait. */
static void remove_sandbox(struct cay_cli *cli, const char *id)
{
    const struct cay_json *root;
    struct cay_error err = {0};
    const char *path = cay_remote_path(cli, "sandbox", id, (const char *)NULL);
    const char *raw = cli->raw;
    char code[sizeof cli->api_code];
    memcpy(code, cli->api_code, sizeof code);
    if (cay_remote_insist(cli, "DELETE", path, &root, &err) < 0 && err.code != CAY_ERR_NOT_FOUND)
        fprintf(stderr, "cay: sandbox %s may be left behind: %s\n", id, err.msg);
    memcpy(cli->api_code, code, sizeof code);
    cli->raw = raw;
}

static int64_t lifetime_ms(int64_t timeout_ms)
{
    if (timeout_ms <= 0)
        return timeout_ms;
    int64_t all = timeout_ms + OUTLIVE_MS;
    return all < CAY_MAX_TIMEOUT_MS ? all : CAY_MAX_TIMEOUT_MS;
}

static int run(struct cay_cli *cli, struct cay_error *err)
{
    const struct run_options *o = cli->options;
    const struct cay_json *sandbox;
    char suffix[13];
    cay_id_hex(suffix, 12);
    const char *ours = cay_arena_printf(&cli->arena, "run-%s", suffix);
    const char *name = o->create.name ? o->create.name : ours;

    int r = cay_follow_catch_signals(cli, err);
    if (r < 0)
        return r;
    r = cay_create(cli, &o->create, name, lifetime_ms(o->create.timeout_ms), &sandbox, err);
    if (r < 0) {
        bool unknown = !cli->api_code[0] && !(err->name && strcmp(err->name, "NO_SERVER") == 0);
        if (unknown && name == ours)
            remove_sandbox(cli, name);
        return r;
    }
    const char *id = cay_json_get_str(sandbox, "id", "");
    struct cay_exec_request req = {.command = &cli->args.command,
                                   .timeout_ms =
                                       o->create.timeout_ms > 0 ? o->create.timeout_ms : 0};
    int status = cay_exec_attended(cli, id, &req, err);
    if (o->keep)
        fprintf(stderr, "cay: kept %s\n", id);
    else
        remove_sandbox(cli, id);
    return status;
}

static const struct cay_option run_table[] = {
    CAY_CREATE_OPTIONS,
    {CAY_OPTION_DURATION, "timeout", CAY_CREATE_AT(timeout_ms), .arg = "TIME",
     .help = "end the command after so long, like 30s; 0 is never", .otherwise = "59m"},
    {CAY_OPTION_FLAG, "keep", offsetof(struct run_options, keep),
     .help = "leave the sandbox there afterwards"},
    CAY_OPTION_END,
};

const struct cay_command cay_command_run = {
    .name = "run",
    .args = "-- COMMAND...",
    .summary = "run a command in a sandbox of its own, which is removed afterwards",
    .notes = "The exit status is the command's own, 128 + N when signal N ended it, 125 when cay\n"
             "itself failed. Ctrl-C ends the command and removes the sandbox.",
    .options = run_table,
    .size = sizeof(struct run_options),
    .command = true,
    .remote = true,
    .failure = CAY_EXIT_OWN,
    .run = run,
};
