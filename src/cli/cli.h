/* SPDX-License-Identifier: Apache-2.0 */
/* What every command of the command line shares: its table entry, the call under way, and the exit
 * statuses. A command returns its exit status, or a negative code with the error filled. */
#pragma once
#include "base/arena.h"
#include "base/error.h"
#include "cli/options.h"
#include "http/client.h"

#define CAY_EXIT_FAILED 1
#define CAY_EXIT_USAGE 2
#define CAY_EXIT_OWN 125 /* of run and exec: cay failed, not the command */
#define CAY_EXIT_SIGNAL 128

struct cay_cli {
    struct cay_arena arena; /* of the whole call */
    const struct cay_command *command;
    const void *options; /* the command's own struct */
    struct cay_args args;
    struct cay_client *client; /* of remote commands */
    int signal_fd;             /* readable when the user wants us to end; -1: not caught */
    char api_code[48];         /* the code of the answer that failed, or empty */
    const char *raw;           /* the last answer's JSON as it came */
};

/* First in the option struct of every command that speaks to a server. */
struct cay_remote_options {
    const char *url, *token, *ca;
    bool json;
};

struct cay_command {
    const char *name;
    const char *args; /* in the usage line, behind the options */
    const char *summary;
    const char *notes;                /* below the options; or NULL */
    const struct cay_option *options; /* or NULL */
    size_t size;                      /* of the option struct */
    size_t args_min, args_max;
    bool command; /* the rest is a command line, at least one word */
    bool remote;  /* the struct begins with cay_remote_options */
    int failure;  /* exit status of our own failure; 0 is CAY_EXIT_FAILED */
    const char *(*file)(struct cay_arena *a, const void *values); /* configuration; or NULL */
    int (*run)(struct cay_cli *cli, struct cay_error *err);
};

extern const struct cay_option cay_remote_table[];
extern const struct cay_command cay_command_cp, cay_command_files, cay_command_serve,
    cay_command_down, cay_command_backup, cay_command_restore, cay_command_run, cay_command_create,
    cay_command_ls, cay_command_inspect, cay_command_exec, cay_command_shell, cay_command_attach,
    cay_command_ps, cay_command_kill, cay_command_logs, cay_command_stop, cay_command_start,
    cay_command_pause, cay_command_resume, cay_command_rm, cay_command_update, cay_command_stats,
    cay_command_version, cay_command_doctor, cay_command_top, cay_command_batch, cay_command_fork,
    cay_command_snapshot, cay_command_snapshots, cay_command_volumes;
extern const struct cay_command cay_command_history, cay_command_diff, cay_command_rollback;
extern const struct cay_command cay_command_ports, cay_command_expose, cay_command_unexpose,
    cay_command_forward;
extern const struct cay_command cay_command_account, cay_command_key, cay_command_team,
    cay_command_quota, cay_command_image;
extern const struct cay_command cay_command_network;

/* `cay: message (CODE): cause` on stderr; the code only when a server gave it. */
void cay_cli_tell(const struct cay_cli *cli, const struct cay_error *err);
int cay_cli_main(int argc, char **argv);
