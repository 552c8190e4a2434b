/* SPDX-License-Identifier: Apache-2.0 */
/* The list of commands, their help, and how a failure is told. */
#include "cli/cli.h"
#include "cli/output.h"
#include "cli/remote.h"
#include <signal.h>
#include <stdio.h>
#include <string.h>

/* One a line, so that additions do not collide. */
/* clang-format off */
static const struct cay_command *const commands[] = {
    &cay_command_run,
    &cay_command_create,
    &cay_command_ls,
    &cay_command_inspect,
    &cay_command_exec,
    &cay_command_shell,
    &cay_command_attach,
    &cay_command_ps,
    &cay_command_top,
    &cay_command_batch,
    &cay_command_kill,
    &cay_command_logs,
    &cay_command_cp,
    &cay_command_files,
    &cay_command_ports,
    &cay_command_expose,
    &cay_command_unexpose,
    &cay_command_forward,
    &cay_command_stop,
    &cay_command_start,
    &cay_command_pause,
    &cay_command_resume,
    &cay_command_update,
    &cay_command_network,
    &cay_command_rm,
    &cay_command_fork,
    &cay_command_history,
    &cay_command_diff,
    &cay_command_rollback,
    &cay_command_snapshot,
    &cay_command_snapshots,
    &cay_command_volumes,
    &cay_command_image,
    &cay_command_stats,
    &cay_command_account,
    &cay_command_key,
    &cay_command_team,
    &cay_command_quota,
    &cay_command_serve,
    &cay_command_down,
    &cay_command_backup,
    &cay_command_restore,
    &cay_command_doctor,
    &cay_command_version,
};
/* clang-format on */

static const struct cay_option no_options[] = {CAY_OPTION_END};

static const struct cay_command *find(const char *name)
{
    for (size_t i = 0; i < CAY_COUNT(commands); i++)
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    return NULL;
}

static void print_usage(FILE *to)
{
    fputs("cay: sandboxes to run code in, on a machine of your own\n\n"
          "usage: cay COMMAND [options] [arguments]\n\n",
          to);
    for (size_t i = 0; i < CAY_COUNT(commands); i++)
        fprintf(to, "  %-10s %s\n", commands[i]->name, commands[i]->summary);
    fputs(
        "\n`cay COMMAND --help` tells a command's options.\n"
        "The server is found by CAY_URL (default http://127.0.0.1:3000), CAY_TOKEN and, on https,\n"
        "CAY_CA, or by url =, token = and ca = in ~/.config/cay/config.\n"
        "Exit status: 0, 1 on failure, 2 on wrong usage; of run and exec the command's own\n"
        "(128 + N when signal N ended it), or 125 when cay itself failed.\n",
        to);
}

static void print_help(const struct cay_command *c, FILE *to)
{
    fprintf(to, "usage: cay %s [options]%s%s\n\n%s\n", c->name, *c->args ? " " : "", c->args,
            c->summary);
    if (c->options || c->remote)
        fputs("\noptions:\n", to);
    if (c->options)
        cay_options_help(c->options, to);
    if (c->remote)
        cay_options_help(cay_remote_table, to);
    if (c->notes)
        fprintf(to, "\n%s\n", c->notes);
}

void cay_cli_tell(const struct cay_cli *cli, const struct cay_error *err)
{
    CAY_AUTO_BUF struct cay_buf line = {0};
    cay_buf_adds(&line, "cay: ");
    cay_output_clean(&line, err->msg);
    if (cli->api_code[0]) {
        cay_buf_adds(&line, " (");
        cay_output_clean(&line, cli->api_code);
        cay_buf_addc(&line, ')');
    }
    if (err->cause[0]) {
        cay_buf_adds(&line, ": ");
        cay_output_clean(&line, err->cause);
    }
    if (err->name && strcmp(err->name, "NO_SERVER") == 0)
        cay_buf_adds(&line, "; start one with `cay serve` or set CAY_URL");
    fprintf(stderr, "%.*s\n", (int)line.len, line.data);
}

static int wrong_usage(const struct cay_command *c, const char *msg)
{
    fprintf(stderr, "cay %s: %s; see `cay %s --help`\n", c->name, msg, c->name);
    return CAY_EXIT_USAGE;
}

static const char *count_problem(const struct cay_command *c, const struct cay_args *args)
{
    if (args->args.count < c->args_min)
        return "an argument is missing";
    if (c->command && args->command.count == 0)
        return "the command to run is missing";
    return NULL;
}

static int run_command(const struct cay_command *c, size_t argc, const char *const *argv)
{
    struct cay_cli cli = {.command = c, .signal_fd = -1};
    struct cay_error err = {0};
    const struct cay_option *const tables[] = {c->options ? c->options : no_options,
                                               c->remote ? cay_remote_table : NULL, NULL};
    const struct cay_options o = {
        .tables = tables,
        .size = c->size,
        .args_max = c->args_max,
        .command = c->command,
        .file_needed = !c->remote,
        .file = c->remote ? cay_remote_file : c->file,
    };
    void *values = cay_arena_alloc(&cli.arena, c->size + 1);
    int status = CAY_EXIT_USAGE;
    int r = cay_options_parse(&o, &cli.arena, argc, argv, values, &cli.args, &err);
    const char *problem = r < 0 ? err.msg : count_problem(c, &cli.args);
    if (r >= 0 && cli.args.help) {
        print_help(c, stdout);
        status = 0;
    } else if (problem) {
        status = wrong_usage(c, problem);
    } else {
        cli.options = values;
        r = c->remote ? cay_remote_open(&cli, &err) : 0;
        status = r < 0 ? r : c->run(&cli, &err);
        if (status < 0) {
            cay_cli_tell(&cli, &err);
            status = c->failure ? c->failure : CAY_EXIT_FAILED;
        }
    }
    cay_client_free(cli.client);
    cay_close_fd(&cli.signal_fd);
    cay_arena_done(&cli.arena);
    return status;
}

static int help(const char *name)
{
    const struct cay_command *c = name ? find(name) : NULL;
    if (name && !c) {
        fprintf(stderr, "cay: there is no command %s; see `cay help`\n", name);
        return CAY_EXIT_USAGE;
    }
    if (c)
        print_help(c, stdout);
    else
        print_usage(stdout);
    return 0;
}

int cay_cli_main(int argc, char **argv)
{
    /* A reader that went away is an error of write, so that `run` can still clean up. */
    (void)signal(SIGPIPE, SIG_IGN);
    const char *name = argc > 1 ? argv[1] : NULL;
    int status;
    if (!name) {
        print_usage(stderr);
        return CAY_EXIT_USAGE;
    }
    if (strcmp(name, "help") == 0 || strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        status = help(argc > 2 ? argv[2] : NULL);
    } else if (strcmp(name, "--version") == 0) {
        status = printf("cay %s\n", CAY_VERSION) < 0;
    } else {
        const struct cay_command *c = find(name);
        if (!c)
            return help(name);
        status = run_command(c, (size_t)argc - 2, (const char *const *)argv + 2);
    }
    /* Output that did not reach a full disk or a closed pipe is no success. */
    if (fflush(stdout) != 0 && status == 0)
        status = CAY_EXIT_FAILED;
    return status;
}
