/* SPDX-License-Identifier: Apache-2.0 */
/* cay top: the processes of a sandbox. */
#include "cli/output.h"
#include "cli/remote.h"
#include <stdio.h>

static const char *percent_text(struct cay_arena *a, double percent)
{
    return cay_arena_printf(a, "%.1f%%", percent);
}

static const struct {
    const char *heading, *member;
    const char *(*text)(struct cay_arena *a, double value); /* for people */
} columns[] = {
    {"PID", "pid", NULL},
    {"PARENT", "parent", NULL},
    {"USER", "user", NULL},
    {"STATE", "state", NULL},
    {"CPU", "cpuPercent", percent_text},
    {"CPU-MS", "cpuMs", NULL},
    {"MEMORY", "memoryBytes", cay_output_size},
    {"EXECUTION", "executionId", NULL},
    {"COMMAND", "command", NULL},
};

static void add(struct cay_table *t, const struct cay_json *process)
{
    for (size_t i = 0; i < CAY_COUNT(columns); i++) {
        const struct cay_json *v = cay_json_get(process, columns[i].member);
        double value;
        bool shown = t->human && columns[i].text && cay_json_real(v, &value);
        cay_table_add(t, shown ? columns[i].text(t->arena, value) : cay_output_value(v));
    }
}

static int top(struct cay_cli *cli, struct cay_error *err)
{
    const char *headings[CAY_COUNT(columns) + 1] = {0};
    const struct cay_remote_options *o = cli->options;
    const struct cay_json *root;
    const char *path =
        cay_remote_path(cli, "sandbox", cli->args.args.at[0], "processes", (const char *)NULL);
    int r = cay_remote_call(cli, "GET", path, NULL, 0, &root, err);
    if (r < 0)
        return r;
    if (o->json) {
        cay_output_json(cli->raw);
        return 0;
    }
    struct cay_table t;
    for (size_t i = 0; i < CAY_COUNT(columns); i++)
        headings[i] = columns[i].heading;
    cay_table_init(&t, &cli->arena, headings);
    const struct cay_json *list = cay_json_get(root, "processes");
    for (const struct cay_json *p = list ? list->first : NULL; p; p = p->next)
        add(&t, p);
    cay_table_print(&t, stdout);
    return 0;
}

const struct cay_command cay_command_top = {
    .name = "top",
    .args = "ID",
    .summary = "list the processes of a sandbox",
    .notes = "CPU is of a process's whole life; EXECUTION is the command that began it.",
    .size = sizeof(struct cay_remote_options),
    .args_min = 1,
    .args_max = 1,
    .remote = true,
    .run = top,
};
