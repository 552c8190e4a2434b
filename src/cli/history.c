/* SPDX-License-Identifier: Apache-2.0 */
/* cay history, diff, rollback: versions of a sandbox's workspace. */
#include "cli/output.h"
#include "cli/transfer.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BACK_MS (5 * 60 * 1000) /* that a rollback may take */

static const char *path_of(struct cay_cli *cli, const char *verb)
{
    return cay_remote_path(cli, "sandbox", cli->args.args.at[0], verb, (const char *)NULL);
}

struct history_options {
    struct cay_remote_options remote;
    const char *bundle;
};

/* Under another name first: half a bundle is none. */
static int save_bundle(struct cay_cli *cli, const char *file, struct cay_error *err)
{
    const char *part = cay_arena_printf(&cli->arena, "%s.part", file);
    const char *path = cay_arena_printf(&cli->arena, "%s/bundle", path_of(cli, "history"));
    struct cay_progress progress;
    cay_progress_begin(&progress, file, 0);
    if (strcmp(file, "-") == 0)
        return cay_transfer_get(cli, path, STDOUT_FILENO, &progress, err);
    CAY_AUTO_FD int fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return cay_fail_errno(err, CAY_ERR_INVALID, "cannot write %s", part);
    int r = cay_transfer_get(cli, path, fd, &progress, err);
    if (r == 0 && (fsync(fd) < 0 || rename(part, file) < 0))
        r = cay_fail_errno(err, CAY_ERR_INVALID, "cannot write %s", file);
    if (r < 0)
        (void)unlink(part); /* what is left of it harms nobody */
    return r;
}

static const char *names(struct cay_arena *a, const struct cay_json *version)
{
    const struct cay_json *files = cay_json_get(version, "files");
    const char *list = "";
    for (const struct cay_json *f = files ? files->first : NULL; f; f = f->next) {
        list = cay_arena_printf(a, "%s%s%s", list, list[0] ? " " : "", f->text ? f->text : "");
        if (strlen(list) > 60 && f->next)
            return cay_arena_printf(a, "%s ...", list);
    }
    return list;
}

static int history(struct cay_cli *cli, struct cay_error *err)
{
    static const char *const headings[] = {"ID", "COMMIT", "TIME", "MESSAGE", "FILES", NULL};
    const struct history_options *o = cli->options;
    const struct cay_json *root;
    struct cay_table t;
    if (o->bundle)
        return save_bundle(cli, o->bundle, err);
    int r = cay_remote_call(cli, "GET", path_of(cli, "history"), NULL, 0, &root, err);
    if (r < 0)
        return r;
    if (o->remote.json) {
        cay_output_json(cli->raw);
        return 0;
    }
    const struct cay_json *list = cay_json_get(root, "history");
    cay_table_init(&t, &cli->arena, headings);
    for (const struct cay_json *v = list ? list->first : NULL; v; v = v->next) {
        cay_table_add(&t, cay_json_get_str(v, "id", ""));
        cay_table_add(&t, cay_arena_printf(&cli->arena, t.human ? "%.12s" : "%s",
                                           cay_json_get_str(v, "commitId", "")));
        cay_table_add(&t, cay_json_get_str(v, "timestamp", ""));
        cay_table_add(&t, cay_json_get_str(v, "message", ""));
        cay_table_add(&t, names(&cli->arena, v));
    }
    cay_table_print(&t, stdout);
    return 0;
}

static const struct cay_option history_table[] = {
    {CAY_OPTION_STRING, "bundle", offsetof(struct history_options, bundle), .arg = "FILE",
     .help = "write all of it to FILE, for `git clone FILE`; - is stdout"},
    CAY_OPTION_END,
};

const struct cay_command cay_command_history = {
    .name = "history",
    .args = "ID",
    .summary = "list the versions of a sandbox's workspace",
    .notes = "A sandbox keeps them when it is made with --track workspace or files.",
    .options = history_table,
    .size = sizeof(struct history_options),
    .args_min = 1,
    .args_max = 1,
    .remote = true,
    .run = history,
};

/* ---- diff ---- */

static const char *colour_of(const char *line)
{
    static const struct {
        const char *begin, *colour;
    } known[] = {{"diff ", "\033[1m"}, {"index ", "\033[1m"}, {"--- ", "\033[1m"},
                 {"+++ ", "\033[1m"},  {"@@ ", "\033[36m"},   {"+", "\033[32m"},
                 {"-", "\033[31m"}};
    for (size_t i = 0; i < CAY_COUNT(known); i++)
        if (strncmp(line, known[i].begin, strlen(known[i].begin)) == 0)
            return known[i].colour;
    return "";
}

/* For a terminal: in colours, and without anything in it that a terminal would obey. */
static void print_line(struct cay_arena *a, const char *line, size_t len)
{
    CAY_AUTO_BUF struct cay_buf out = {0};
    const char *colour = colour_of(line);
    cay_buf_adds(&out, colour);
    for (const char *at = line; at <= line + len;) {
        size_t part = strcspn(at, "\t\n");
        cay_output_clean(&out, cay_arena_strndup(a, at, part));
        at += part + 1;
        if (at <= line + len)
            cay_buf_addc(&out, '\t');
    }
    cay_buf_adds(&out, colour[0] ? "\033[0m\n" : "\n");
    (void)fwrite(out.data, 1, out.len, stdout); /* a closed stdout is noticed at its flush */
}

static void print_diff(struct cay_arena *a, const struct cay_json *text)
{
    if (!isatty(STDOUT_FILENO)) {
        (void)fwrite(text->text, 1, text->len, stdout); /* as above */
        return;
    }
    for (const char *at = text->text; *at;) {
        size_t len = strcspn(at, "\n");
        print_line(a, at, len);
        at += len + (at[len] == '\n');
    }
}

static int diff(struct cay_cli *cli, struct cay_error *err)
{
    const struct cay_remote_options *o = cli->options;
    const struct cay_strs *args = &cli->args.args;
    CAY_AUTO_BUF struct cay_buf body = {0};
    struct cay_json_writer w = {.buf = &body};
    const struct cay_json *root;
    cay_jw_object(&w, NULL);
    if (args->count > 1)
        cay_jw_str(&w, "fromExecId", args->at[1]);
    if (args->count > 2)
        cay_jw_str(&w, "toExecId", args->at[2]);
    cay_jw_object_end(&w);
    int r = cay_remote_call(cli, "POST", path_of(cli, "diff"), &body, 0, &root, err);
    if (r < 0)
        return r;
    if (o->json) {
        cay_output_json(cli->raw);
        return 0;
    }
    const struct cay_json *all = cay_json_get(root, "diff");
    for (const struct cay_json *f = all ? all->first : NULL; f; f = f->next)
        if (f->kind == CAY_JSON_STRING)
            print_diff(&cli->arena, f);
    return 0;
}

static const struct cay_option no_options[] = {CAY_OPTION_END};

const struct cay_command cay_command_diff = {
    .name = "diff",
    .args = "ID [FROM [TO]]",
    .summary = "show what differs between two versions of a workspace",
    .notes = "FROM and TO are ids of executions or commits; the first and the last version unless "
             "named.",
    .options = no_options,
    .size = sizeof(struct cay_remote_options),
    .args_min = 1,
    .args_max = 3,
    .remote = true,
    .run = diff,
};

/* ---- rollback ---- */

static int rollback(struct cay_cli *cli, struct cay_error *err)
{
    const struct cay_remote_options *o = cli->options;
    const struct cay_strs *args = &cli->args.args;
    CAY_AUTO_BUF struct cay_buf body = {0};
    struct cay_json_writer w = {.buf = &body};
    const struct cay_json *root;
    cay_jw_object(&w, NULL);
    cay_jw_str(&w, "executionId", args->at[1]);
    if (args->count > 2)
        cay_jw_str(&w, "path", args->at[2]);
    cay_jw_object_end(&w);
    int r = cay_remote_call(cli, "POST", path_of(cli, "rollback"), &body, BACK_MS, &root, err);
    if (r < 0)
        return r;
    if (o->json)
        cay_output_json(cli->raw);
    else
        printf("%s\n", cay_json_get_str(root, "commitId", ""));
    return 0;
}

const struct cay_command cay_command_rollback = {
    .name = "rollback",
    .args = "ID VERSION [PATH]",
    .summary = "bring a workspace, or one file of it, back to a version and print the new commit",
    .options = no_options,
    .size = sizeof(struct cay_remote_options),
    .args_min = 2,
    .args_max = 3,
    .remote = true,
    .run = rollback,
};
