/* SPDX-License-Identifier: Apache-2.0 */
/* cay stats: what a sandbox uses, once or as it changes. */
#include "cli/output.h"
#include "cli/remote.h"
#include "cli/sse.h"
#include "model/limits.h"
#include <inttypes.h>
#include <string.h>

#define IDLE_MS (CAY_STATS_MAX_MS + 15000)
#define BETWEEN_MS 500             /* readings, when the server has none to compare with */
#define GO_OVER_IT "\033[2A\033[J" /* up to the heading, and clear what is below */

struct stats_options {
    struct cay_remote_options remote;
    bool follow;
    int64_t interval_ms;
};

static const char *percent_text(struct cay_arena *a, double percent)
{
    return cay_arena_printf(a, "%.1f%%", percent);
}

/* `text` is for people, where the value as it came is not. */
static const struct {
    const char *heading, *part, *member;
    const char *(*text)(struct cay_arena *a, double value);
} columns[] = {
    {"CPU", "cpu", "percent", percent_text},
    {"MEMORY", "memory", "bytes", cay_output_size},
    {"LIMIT", "memory", "limitBytes", cay_output_size},
    {"PROCESSES", "pids", "now", NULL},
    {"LIMIT", "pids", "limit", NULL},
    {"DISK", "disk", "bytes", cay_output_size},
    {"LIMIT", "disk", "limitBytes", cay_output_size},
    {"READ", "io", "readBytes", cay_output_size},
    {"WRITTEN", "io", "writeBytes", cay_output_size},
};

/* True when the next one may go over it. */
static bool print_row(struct cay_arena *a, const struct cay_json *root, bool over)
{
    const char *headings[CAY_COUNT(columns) + 1] = {0};
    struct cay_table t;
    for (size_t i = 0; i < CAY_COUNT(columns); i++)
        headings[i] = columns[i].heading;
    cay_table_init(&t, a, headings);
    for (size_t i = 0; i < CAY_COUNT(columns); i++) {
        const struct cay_json *v =
            cay_json_get(cay_json_get(root, columns[i].part), columns[i].member);
        double value;
        bool shown = t.human && columns[i].text && cay_json_real(v, &value);
        cay_table_add(&t, shown ? columns[i].text(a, value) : cay_output_value(v));
    }
    if (over)
        fputs(GO_OVER_IT, stdout);
    cay_table_print(&t, stdout);
    return t.human;
}

struct follow {
    const struct stats_options *options;
    struct cay_sse sse;
    bool shown, ended;
};

static int take_event(void *arg, const char *event, const char *data, size_t len,
                      struct cay_error *err)
{
    struct follow *f = arg;
    CAY_AUTO_ARENA struct cay_arena a = {0};
    const struct cay_json *root = NULL;
    int r = cay_json_parse(&a, data, len, &root, err);
    if (r < 0)
        return cay_wrap(err, "the stream is not as agreed");
    if (strcmp(event, "stats") == 0 && f->options->remote.json)
        cay_output_json(data);
    else if (strcmp(event, "stats") == 0)
        f->shown = print_row(&a, root, f->shown);
    else if (strcmp(event, "end") == 0)
        f->ended = true;
    if (fflush(stdout) != 0)
        return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot write the output");
    return 0;
}

static int take_bytes(void *arg, const char *data, size_t len, struct cay_error *err)
{
    struct follow *f = arg;
    return cay_sse_feed(&f->sse, data, len, take_event, f, err);
}

static int follow(struct cay_cli *cli, const char *path, struct cay_error *err)
{
    CAY_AUTO_ANSWER struct cay_client_answer answer = {0};
    struct follow f = {.options = cli->options};
    struct cay_client_request req = {
        .method = "GET",
        .path =
            cay_arena_printf(&cli->arena, "%s?intervalMs=%" PRId64, path, f.options->interval_ms),
        .accept = "text/event-stream",
        .idle_ms = IDLE_MS,
        .on_data = take_bytes,
        .arg = &f,
    };
    int r = cay_client_call(cli->client, &req, &answer, err);
    if (r >= 0)
        r = cay_remote_check(cli, &answer, err);
    if (r >= 0 && !f.ended)
        r = cay_fail(err, CAY_ERR_UNAVAILABLE, "the stream ends without an end");
    cay_sse_done(&f.sse);
    return r < 0 ? r : 0;
}

static bool has_percent(const struct cay_json *root)
{
    const struct cay_json *v = cay_json_get(cay_json_get(root, "cpu"), "percent");
    return v && v->kind == CAY_JSON_NUMBER;
}

static int stats(struct cay_cli *cli, struct cay_error *err)
{
    const struct stats_options *o = cli->options;
    const struct cay_json *root;
    const char *path =
        cay_remote_path(cli, "sandbox", cli->args.args.at[0], "stats", (const char *)NULL);
    if (o->follow)
        return follow(cli, path, err);
    int r = cay_remote_call(cli, "GET", path, NULL, 0, &root, err);
    if (r >= 0 && !has_percent(root)) {
        r = cay_remote_pause(cli, BETWEEN_MS, err);
        if (r >= 0)
            r = cay_remote_call(cli, "GET", path, NULL, 0, &root, err);
    }
    if (r < 0)
        return r;
    if (o->remote.json)
        cay_output_json(cli->raw);
    else
        (void)print_row(&cli->arena, root, false);
    return 0;
}

static const struct cay_option stats_table[] = {
    {CAY_OPTION_FLAG, "follow", offsetof(struct stats_options, follow), 'f',
     .help = "go on until the sandbox ends"},
    {CAY_OPTION_DURATION, "interval", offsetof(struct stats_options, interval_ms), .arg = "TIME",
     .help = "between two readings, with --follow", .otherwise = "1s", .min = CAY_STATS_MIN_MS,
     .max = CAY_STATS_MAX_MS},
    CAY_OPTION_END,
};

const struct cay_command cay_command_stats = {
    .name = "stats",
    .args = "ID",
    .summary = "tell what a sandbox uses of CPU, memory, processes and disk",
    .notes = "100% is one core. In a pipe: no heading, columns set off by tabs, sizes in bytes.",
    .options = stats_table,
    .size = sizeof(struct stats_options),
    .args_min = 1,
    .args_max = 1,
    .remote = true,
    .run = stats,
};
