/* SPDX-License-Identifier: Apache-2.0 */
/* cay backup, cay restore: a data directory as one file, and back. */
#include "supervisor/backup.h"
#include "cli/cli.h"
#include <stdio.h>
#include <string.h>

struct backup_options {
    const char *data, *user;
};

#define AT(member) offsetof(struct backup_options, member)

static int need_root(const struct cay_cli *cli, struct cay_error *err)
{
    if (geteuid() == 0)
        return 0;
    return cay_fail(err, CAY_ERR_FORBIDDEN, "`cay %s` needs root", cli->command->name);
}

/* On stderr: stdout may be the backup itself. */
static int tell(const char *what, const struct cay_backup_told *told)
{
    fprintf(stderr, "%s: files of %zu sandboxes, %zu snapshots, %zu volumes\n", what,
            told->sandboxes, told->snapshots, told->volumes);
    return 0;
}

static int backup(struct cay_cli *cli, struct cay_error *err)
{
    const struct backup_options *o = cli->options;
    const char *file = cli->args.args.at[0];
    struct cay_backup_told told;
    int r = need_root(cli, err);
    if (r == 0 && strcmp(file, "-") == 0 && isatty(STDOUT_FILENO))
        return cay_fail(err, CAY_ERR_INVALID, "a backup is nothing for a terminal: give a file");
    if (r == 0)
        r = cay_backup(o->data, file, &told, err);
    return r < 0 ? r : tell("saved", &told);
}

static int restore(struct cay_cli *cli, struct cay_error *err)
{
    const struct backup_options *o = cli->options;
    struct cay_backup_told told;
    int r = need_root(cli, err);
    if (r == 0)
        r = cay_restore(cli->args.args.at[0], o->data, o->user, &told, err);
    return r < 0 ? r : tell("restored", &told);
}

static const struct cay_option backup_table[] = {
    {CAY_OPTION_STRING, "data", AT(data), .arg = "DIR", .help = "the server's data directory",
     .variable = "CAY_DATA", .otherwise = "/var/lib/cay"},
    CAY_OPTION_END,
};

static const struct cay_option restore_table[] = {
    {CAY_OPTION_STRING, "data", AT(data), .arg = "DIR", .help = "where to: empty, or not there yet",
     .variable = "CAY_DATA", .otherwise = "/var/lib/cay"},
    {CAY_OPTION_STRING, "user", AT(user), .arg = "NAME",
     .help = "whom the server will run as, if it is told so", .variable = "CAY_USER"},
    CAY_OPTION_END,
};

const struct cay_command cay_command_backup = {
    .name = "backup",
    .args = "FILE|-",
    .summary = "save a data directory, while its server runs or not",
    .notes = "Records, keys, snapshots, volumes, and the files of persistent and stopped "
             "sandboxes, as they are\nat one moment. Images, logs and the audit are not in it.",
    .options = backup_table,
    .size = sizeof(struct backup_options),
    .args_min = 1,
    .args_max = 1,
    .run = backup,
};

const struct cay_command cay_command_restore = {
    .name = "restore",
    .args = "FILE",
    .summary = "make a data directory of a backup",
    .notes = "All of it is verified before anything is in place.",
    .options = restore_table,
    .size = sizeof(struct backup_options),
    .args_min = 1,
    .args_max = 1,
    .run = restore,
};
