/* SPDX-License-Identifier: Apache-2.0 */
/* cay fork, snapshot, snapshots, volumes: copies of a sandbox's files, and files without one. */
#include "base/clock.h"
#include "cli/output.h"
#include "cli/remove.h"
#include "model/limits.h"
#include <stdio.h>
#include <string.h>

#define PER_PAGE 200
#define PAGES_MAX 1000
#define COPY_MS (CAY_ENGINE_COPY_MS + CAY_CLIENT_IDLE_MS)
#define LIST_OR_REMOVE "[ls | rm ID...]"

struct copy_options {
    struct cay_remote_options remote;
    const char *name, *at;
    int64_t count; /* of forks */
};

#define COPY_AT(member) offsetof(struct copy_options, member)

/* fork and snapshot: the command's name is the verb of the path. */
static int copy(struct cay_cli *cli, struct cay_error *err)
{
    const struct copy_options *o = cli->options;
    CAY_AUTO_BUF struct cay_buf body = {0};
    struct cay_json_writer w = {.buf = &body};
    const struct cay_json *root;
    const char *path = cay_remote_path(cli, "sandbox", cli->args.args.at[0], cli->command->name,
                                       (const char *)NULL);
    cay_jw_object(&w, NULL);
    if (o->name)
        cay_jw_str(&w, "name", o->name);
    if (o->at)
        cay_jw_str(&w, "executionId", o->at);
    if (o->count > 0)
        cay_jw_int(&w, "count", o->count);
    cay_jw_object_end(&w);
    int r = cay_remote_call(cli, "POST", path, &body, COPY_MS, &root, err);
    if (r < 0)
        return r;
    const struct cay_json *list = cay_json_get(root, "sandboxes");
    if (o->remote.json)
        cay_output_json(cli->raw);
    else if (!list)
        printf("%s\n", cay_json_get_str(root, "id", ""));
    for (const struct cay_json *v = list && !o->remote.json ? list->first : NULL; v; v = v->next)
        printf("%s\n", cay_json_get_str(v, "id", ""));
    return 0;
}

static const struct cay_option fork_table[] = {
    {CAY_OPTION_INTEGER, "count", COPY_AT(count), 'n', .arg = "N", .help = "make so many at once",
     .otherwise = "0", .max = CAY_MAX_FORKS},
    {CAY_OPTION_STRING, "name", COPY_AT(name), .arg = "NAME",
     .help = "its name, numbered when there are several; made up when not given"},
    {CAY_OPTION_STRING, "at", COPY_AT(at), .arg = "VERSION",
     .help = "begin with this version of its workspace: see history"},
    CAY_OPTION_END,
};

const struct cay_command cay_command_fork = {
    .name = "fork",
    .args = "ID",
    .summary = "make sandboxes with a copy of one's files and print their ids",
    .options = fork_table,
    .size = sizeof(struct copy_options),
    .args_min = 1,
    .args_max = 1,
    .remote = true,
    .run = copy,
};

static const struct cay_option snapshot_table[] = {
    {CAY_OPTION_STRING, "name", COPY_AT(name), .arg = "TEXT", .help = "what to call it"},
    CAY_OPTION_END,
};

const struct cay_command cay_command_snapshot = {
    .name = "snapshot",
    .args = "ID",
    .summary = "keep a sandbox's files as they are now and print the snapshot's id",
    .options = snapshot_table,
    .size = sizeof(struct copy_options),
    .args_min = 1,
    .args_max = 1,
    .remote = true,
    .run = copy,
};

static void add(struct cay_table *t, const struct cay_json *kept, int64_t now_ms)
{
    const char *created = cay_json_get_str(kept, "createdAt", "-");
    const struct cay_json *bytes = cay_json_get(kept, "sizeBytes");
    double size;
    cay_table_add(t, cay_json_get_str(kept, "id", "-"));
    cay_table_add(t, cay_json_get_str(kept, "name", "-"));
    cay_table_add(t, cay_json_get_str(kept, "sandboxId", "-"));
    cay_table_add(t, cay_json_get_str(kept, "dockerImage", "-"));
    cay_table_add(t, t->human && cay_json_real(bytes, &size) ? cay_output_size(t->arena, size)
                                                             : cay_output_value(bytes));
    cay_table_add(t, t->human ? cay_output_age(t->arena, created, now_ms) : created);
}

/* The command's name is that of the path and of the list in its answer. */
static int ls(struct cay_cli *cli, struct cay_error *err)
{
    static const char *const headings[] = {"ID", "NAME", "SANDBOX", "IMAGE", "SIZE", "AGE", NULL};
    const struct cay_remote_options *o = cli->options;
    const char *kind = cli->command->name;
    struct cay_table t;
    cay_table_init(&t, &cli->arena, headings);
    bool more = true;
    for (int page = 1; more && page <= PAGES_MAX; page++) {
        const struct cay_json *root;
        const char *path = cay_remote_path(cli, kind, (const char *)NULL);
        path = cay_arena_printf(&cli->arena, "%s?page=%d&per_page=%d", path, page, PER_PAGE);
        int r = cay_remote_call(cli, "GET", path, NULL, 0, &root, err);
        if (r < 0)
            return r;
        const struct cay_json *list = cay_json_get(root, kind);
        for (const struct cay_json *v = list ? list->first : NULL; v; v = v->next)
            add(&t, v, cay_clock_ms());
        more = cay_json_get_bool(root, "has_next", false);
        if (o->json)
            cay_output_json(cli->raw); /* a line for each page */
    }
    if (!o->json)
        cay_table_print(&t, stdout);
    return 0;
}

static int list_or_remove(struct cay_cli *cli, struct cay_error *err)
{
    const struct cay_strs *args = &cli->args.args;
    const char *verb = args->count > 0 ? args->at[0] : "ls";
    if (strcmp(verb, "ls") == 0 && args->count <= 1)
        return ls(cli, err);
    if (strcmp(verb, "rm") == 0 && args->count > 1)
        return cay_remove_each(cli, cli->command->name, 1, "", NULL, err);
    fprintf(stderr, "usage: cay %s " LIST_OR_REMOVE "\n", cli->command->name);
    return CAY_EXIT_USAGE;
}

#define KEPT_COMMAND(word, what)                                                                   \
    const struct cay_command cay_command_##word = {                                                \
        .name = #word,                                                                             \
        .args = LIST_OR_REMOVE,                                                                    \
        .summary = what,                                                                           \
        .size = sizeof(struct cay_remote_options),                                                 \
        .args_max = 1000,                                                                          \
        .remote = true,                                                                            \
        .run = list_or_remove,                                                                     \
    }

KEPT_COMMAND(snapshots, "list snapshots, newest first, or remove some");
KEPT_COMMAND(volumes, "list volumes, newest first, or remove some that no sandbox has");
