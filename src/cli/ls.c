/* SPDX-License-Identifier: Apache-2.0 */
/* cay ls, cay inspect: what is there. */
#include "base/clock.h"
#include "cli/output.h"
#include "cli/remote.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PER_PAGE 200
#define PAGES_MAX 1000

struct ls_options {
    struct cay_remote_options remote;
    const char *status, *team;
    bool all;
};

static const char *memory_text(struct cay_table *t, const struct cay_json *sandbox)
{
    double gb;
    const struct cay_json *v = cay_json_get(sandbox, "memoryGB");
    return t->human && cay_json_real(v, &gb) ? cay_output_size(t->arena, gb * 0x1p30)
                                             : cay_output_value(v);
}

static void add_sandbox(struct cay_table *t, const struct cay_json *sandbox, int64_t now_ms)
{
    const char *created = cay_json_get_str(sandbox, "createdAt", "-");
    cay_table_add(t, cay_json_get_str(sandbox, "id", "-"));
    cay_table_add(t, cay_json_get_str(sandbox, "name", "-"));
    cay_table_add(t, cay_json_get_str(sandbox, "status", "-"));
    cay_table_add(t, cay_json_get_str(sandbox, "dockerImage", "-"));
    cay_table_add(t, cay_output_value(cay_json_get(sandbox, "cpuCores")));
    cay_table_add(t, memory_text(t, sandbox));
    cay_table_add(t, t->human ? cay_output_age(t->arena, created, now_ms) : created);
}

static const char *list_path(struct cay_cli *cli, const struct ls_options *o, int page)
{
    const char *path = cay_remote_path(cli, "sandbox", (const char *)NULL);
    path = cay_arena_printf(&cli->arena, "%s?page=%d&per_page=%d", path, page, PER_PAGE);
    if (o->status)
        path = cay_arena_printf(&cli->arena, "%s&status=%s", path,
                                cay_remote_quote(&cli->arena, o->status));
    if (o->team)
        path = cay_arena_printf(&cli->arena, "%s&team_id=%s", path,
                                cay_remote_quote(&cli->arena, o->team));
    return o->all ? cay_arena_printf(&cli->arena, "%s&include_terminated=true", path) : path;
}

static int ls(struct cay_cli *cli, struct cay_error *err)
{
    static const char *const headings[] = {"ID",   "NAME",   "STATUS", "IMAGE",
                                           "CPUS", "MEMORY", "AGE",    NULL};
    const struct ls_options *o = cli->options;
    struct cay_table t;
    cay_table_init(&t, &cli->arena, headings);
    bool more = true;
    for (int page = 1; more && page <= PAGES_MAX; page++) {
        const struct cay_json *root;
        int r = cay_remote_call(cli, "GET", list_path(cli, o, page), NULL, 0, &root, err);
        if (r < 0)
            return r;
        const struct cay_json *list = cay_json_get(root, "sandboxes");
        for (const struct cay_json *s = list ? list->first : NULL; s; s = s->next)
            add_sandbox(&t, s, cay_clock_ms());
        more = cay_json_get_bool(root, "has_next", false);
        if (o->remote.json)
            cay_output_json(cli->raw); /* a line for each page */
    }
    if (!o->remote.json)
        cay_table_print(&t, stdout);
    return 0;
}

#define LS_AT(member) offsetof(struct ls_options, member)
static const struct cay_option ls_table[] = {
    {CAY_OPTION_STRING, "status", LS_AT(status), 's', .arg = "STATUS",
     .help = "only those in this state, like RUNNING"},
    {CAY_OPTION_STRING, "team", LS_AT(team), .arg = "ID", .help = "this team's instead"},
    {CAY_OPTION_FLAG, "all", LS_AT(all), 'a', .help = "those that are gone too"},
    CAY_OPTION_END,
};

const struct cay_command cay_command_ls = {
    .name = "ls",
    .args = "",
    .summary = "list sandboxes, newest first",
    .notes =
        "In a pipe: no heading, columns set off by tabs, times and sizes as the server tells them.",
    .options = ls_table,
    .size = sizeof(struct ls_options),
    .remote = true,
    .run = ls,
};

static void print_member(const struct cay_json *v, int depth)
{
    CAY_AUTO_BUF struct cay_buf line = {0};
    cay_buf_addf(&line, "%*s", depth * 2, "");
    cay_output_clean(&line, v->key ? v->key : "-");
    bool nested = v->kind == CAY_JSON_OBJECT || v->kind == CAY_JSON_ARRAY;
    if (!nested) {
        cay_buf_addf(&line, "%*s ", (int)(v->key && line.len < 20 ? 20 - line.len : 0), "");
        cay_output_clean(&line, cay_output_value(v));
    }
    printf("%.*s\n", (int)line.len, line.data);
    for (const struct cay_json *c = nested && depth < 4 ? v->first : NULL; c; c = c->next)
        print_member(c, depth + 1);
}

static bool is_empty(const struct cay_json *v)
{
    bool nested = v->kind == CAY_JSON_OBJECT || v->kind == CAY_JSON_ARRAY;
    return v->kind == CAY_JSON_NULL || (nested && v->count == 0);
}

static int inspect(struct cay_cli *cli, struct cay_error *err)
{
    const struct cay_remote_options *o = cli->options;
    const struct cay_json *root;
    const char *path = cay_remote_path(cli, "sandbox", cli->args.args.at[0], (const char *)NULL);
    int r = cay_remote_call(cli, "GET", path, NULL, 0, &root, err);
    if (r < 0)
        return r;
    if (o->json) {
        cay_output_json(cli->raw);
        return 0;
    }
    for (const struct cay_json *v = root->first; v; v = v->next)
        if (!is_empty(v))
            print_member(v, 0);
    return 0;
}

const struct cay_command cay_command_inspect = {
    .name = "inspect",
    .args = "ID",
    .summary = "tell all about one sandbox",
    .size = sizeof(struct cay_remote_options),
    .args_min = 1,
    .args_max = 1,
    .remote = true,
    .run = inspect,
};
