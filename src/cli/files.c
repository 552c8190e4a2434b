/* SPDX-License-Identifier: Apache-2.0 */
/* cay files: ls, cat, put and rm in a sandbox. */
#include "base/clock.h"
#include "cli/output.h"
#include "cli/transfer.h"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

struct files_options {
    struct cay_remote_options remote;
    const char *user, *mode;
    bool recursive, append;
};

/* ---- ls ---- */

static void add_entry(struct cay_table *t, const struct cay_json *e)
{
    const char *name = cay_json_get_str(e, "path", "-"),
               *link = cay_json_get_str(e, "linkTarget", NULL);
    const char *type = cay_json_get_str(e, "type", "");
    double size = (double)cay_json_get_int(e, "size", 0);
    cay_table_add(t, cay_json_get_str(e, "mode", "-"));
    cay_table_add(t, t->human ? cay_output_size(t->arena, size)
                              : cay_arena_printf(t->arena, "%.0f", size));
    cay_table_add(
        t, t->human ? cay_output_age(t->arena, cay_json_get_str(e, "mtime", ""), cay_clock_ms())
                    : cay_json_get_str(e, "mtime", "-"));
    if (link)
        name = cay_arena_printf(t->arena, "%s -> %s", name, link);
    else if (strcmp(type, "directory") == 0)
        name = cay_arena_printf(t->arena, "%s/", name);
    cay_table_add(t, name);
}

static int list(struct cay_cli *cli, const char *id, const char *path, struct cay_error *err)
{
    static const char *const headings[] = {"MODE", "SIZE", "MODIFIED", "NAME", NULL};
    const struct files_options *o = cli->options;
    const char *base = cay_transfer_path(cli, id, "/list", path, o->user), *cursor = NULL;
    struct cay_table t;
    cay_table_init(&t, &cli->arena, headings);
    do {
        const struct cay_json *page;
        const char *url =
            cay_arena_printf(&cli->arena, "%s%s%s%s", base, o->recursive ? "&recursive=true" : "",
                             cursor ? "&cursor=" : "", cursor ? cursor : "");
        int r = cay_remote_call(cli, "GET", url, NULL, 0, &page, err);
        if (r < 0)
            return r;
        const struct cay_json *entries = cay_json_get(page, "entries");
        for (const struct cay_json *e = entries ? entries->first : NULL; e; e = e->next)
            add_entry(&t, e);
        if (o->remote.json)
            cay_output_json(cli->raw); /* a line for each page */
        cursor = cay_json_get_str(page, "nextCursor", NULL);
    } while (cursor);
    if (!o->remote.json)
        cay_table_print(&t, stdout);
    return 0;
}

static int files_ls(struct cay_cli *cli, struct cay_error *err)
{
    const struct cay_strs *args = &cli->args.args;
    if (args->count > 3)
        return cay_fail(err, CAY_ERR_INVALID, "one directory at a time");
    return list(cli, args->at[1], args->count > 2 ? args->at[2] : ".", err);
}

/* ---- cat, put, rm ---- */

static int files_cat(struct cay_cli *cli, struct cay_error *err)
{
    const struct files_options *o = cli->options;
    const struct cay_strs *args = &cli->args.args;
    for (size_t i = 2; i < args->count; i++) {
        struct cay_progress progress;
        cay_progress_begin(&progress, args->at[i], 0);
        progress.shown &= isatty(STDOUT_FILENO) == 0; /* not across what is printed */
        int r = cay_transfer_get(cli, cay_transfer_path(cli, args->at[1], "", args->at[i], o->user),
                                 STDOUT_FILENO, &progress, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static int files_put(struct cay_cli *cli, struct cay_error *err)
{
    const struct files_options *o = cli->options;
    const struct cay_strs *args = &cli->args.args;
    const char *from = args->count > 3 ? args->at[3] : "-";
    bool is_stdin = strcmp(from, "-") == 0;
    CAY_AUTO_FD int file = is_stdin ? -1 : open(from, O_RDONLY | O_CLOEXEC);
    struct cay_progress progress;
    const struct cay_json *ignored;
    struct stat st = {0};
    if (args->count > 4)
        return cay_fail(err, CAY_ERR_INVALID, "one file at a time");
    if (!is_stdin && (file < 0 || fstat(file, &st) < 0))
        return cay_fail_errno(err, CAY_ERR_INVALID, "cannot read %s", from);
    struct cay_upload_source source = {is_stdin ? STDIN_FILENO : file, -1,
                                       S_ISREG(st.st_mode) ? (int64_t)st.st_size : -1};
    const char *path = cay_transfer_path(cli, args->at[1], "", args->at[2], o->user);
    path = cay_arena_printf(&cli->arena, "%s%s%s%s", path, o->append ? "&append=true" : "",
                            o->mode ? "&mode=" : "",
                            o->mode ? cay_remote_quote(&cli->arena, o->mode) : "");
    cay_progress_begin(&progress, args->at[2], (uint64_t)st.st_size);
    int r = cay_transfer_put(cli, path, &source, &progress, &ignored, err);
    if (r == 0 && o->remote.json)
        cay_output_json(cli->raw);
    return r;
}

static int files_rm(struct cay_cli *cli, struct cay_error *err)
{
    const struct files_options *o = cli->options;
    const struct cay_strs *args = &cli->args.args;
    for (size_t i = 2; i < args->count; i++) {
        const struct cay_json *ignored;
        const char *path = cay_transfer_path(cli, args->at[1], "", args->at[i], o->user);
        path = cay_arena_printf(&cli->arena, "%s%s", path, o->recursive ? "&recursive=true" : "");
        int r = cay_remote_call(cli, "DELETE", path, NULL, 0, &ignored, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static int files(struct cay_cli *cli, struct cay_error *err)
{
    static const struct {
        const char *name;
        size_t args_min;
        int (*run)(struct cay_cli *cli, struct cay_error *err);
    } verbs[] = {
        {"ls", 2, files_ls}, {"cat", 3, files_cat}, {"put", 3, files_put}, {"rm", 3, files_rm}};
    const struct cay_strs *args = &cli->args.args;
    for (size_t i = 0; i < CAY_COUNT(verbs); i++)
        if (strcmp(verbs[i].name, args->at[0]) == 0)
            return args->count < verbs[i].args_min
                       ? cay_fail(err, CAY_ERR_INVALID, "files %s: a path is missing", args->at[0])
                       : verbs[i].run(cli, err);
    return cay_fail(err, CAY_ERR_INVALID, "files knows ls, cat, put and rm, not %s", args->at[0]);
}

#define AT(member) offsetof(struct files_options, member)
static const struct cay_option files_table[] = {
    {CAY_OPTION_STRING, "user", AT(user), 'u', .arg = "USER",
     .help = "whose rights count in the sandbox"},
    {CAY_OPTION_FLAG, "recursive", AT(recursive), 'r',
     .help = "ls: what lies below, too; rm: directories with what they hold"},
    {CAY_OPTION_STRING, "mode", AT(mode), 'm', .arg = "MODE",
     .help = "put: permissions, like 0755"},
    {CAY_OPTION_FLAG, "append", AT(append), 'a', .help = "put: to the end of what is there"},
    CAY_OPTION_END,
};

const struct cay_command cay_command_files = {
    .name = "files",
    .args = "ls ID [PATH] | cat ID PATH... | put ID PATH [FILE] | rm ID PATH...",
    .summary = "list, print, write and remove files in a sandbox",
    .notes = "put reads stdin unless a FILE is named. For directories see `cay cp`.",
    .options = files_table,
    .size = sizeof(struct files_options),
    .args_min = 2,
    .args_max = 1024,
    .remote = true,
    .run = files,
};
