/* SPDX-License-Identifier: Apache-2.0 */
/* cay exec, cay ps, cay kill: the commands in a sandbox. */
#include "cli/exec.h"
#include "base/clock.h"
#include "cli/follow.h"
#include "cli/output.h"
#include "cli/talk.h"
#include "model/limits.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

struct exec_options {
    struct cay_remote_options remote;
    bool detach, input, tty;
    const char *cwd, *user;
    struct cay_pairs env;
    int64_t timeout_ms;
};

struct kill_options {
    struct cay_remote_options remote;
    const char *signal;
};

static int begin(struct cay_cli *cli, const char *sandbox, const struct cay_exec_request *req,
                 const struct cay_json **out, struct cay_error *err)
{
    CAY_AUTO_BUF struct cay_buf body = {0};
    struct cay_json_writer w = {.buf = &body};
    cay_jw_object(&w, NULL);
    cay_jw_array(&w, "command");
    for (size_t i = 0; i < req->command->count; i++)
        cay_jw_str(&w, NULL, req->command->at[i]);
    cay_jw_array_end(&w);
    if (req->env && req->env->count) {
        cay_jw_object(&w, "env");
        for (size_t i = 0; i < req->env->count; i++)
            cay_jw_str(&w, req->env->at[i].key, req->env->at[i].value);
        cay_jw_object_end(&w);
    }
    if (req->cwd)
        cay_jw_str(&w, "cwd", req->cwd);
    if (req->user)
        cay_jw_str(&w, "user", req->user);
    if (req->timeout_ms)
        cay_jw_int(&w, "timeoutMs", req->timeout_ms);
    if (req->open_stdin)
        cay_jw_bool(&w, "openStdin", true);
    if (req->tty) {
        int cols, rows;
        cay_talk_window(&cols, &rows);
        cay_jw_object(&w, "tty");
        cay_jw_int(&w, "cols", cols);
        cay_jw_int(&w, "rows", rows);
        cay_jw_object_end(&w);
    }
    if (req->input)
        cay_jw_strn(&w, "stdin", req->input, req->input_len);
    if (!req->wait)
        cay_jw_bool(&w, "detach", true);
    cay_jw_object_end(&w);
    const char *path = cay_remote_path(cli, "sandbox", sandbox, "exec", (const char *)NULL);
    /* A whole result comes only when the command ends, however long that is. */
    int64_t wait_ms = req->wait ? CAY_MAX_EXEC_TIMEOUT_MS : 0;
    int r = cay_remote_call(cli, "POST", path, &body, wait_ms, out, err);
    if (r >= 0 && !cay_json_get_str(*out, "id", NULL))
        return cay_fail(err, CAY_ERR_PROVIDER, "the server's answer names no execution");
    return r;
}

int cay_exec_attended(struct cay_cli *cli, const char *sandbox, struct cay_exec_request *req,
                      struct cay_error *err)
{
    const struct cay_remote_options *o = cli->options;
    const struct cay_json *begun;
    req->wait = o->json;
    int r = begin(cli, sandbox, req, &begun, err);
    if (r < 0)
        return r;
    const char *id = cay_json_get_str(begun, "id", "");
    if (!o->json)
        return cay_follow_execution(cli, sandbox, id, err);
    cay_output_json(cli->raw);
    int64_t code = cay_json_get_int(begun, "exitCode", -1);
    if (code < 0)
        return cay_fail(err, CAY_ERR_UNAVAILABLE, "execution %s goes on without us", id);
    return (int)(code & 0xff);
}

static int read_input(struct cay_buf *out, struct cay_error *err)
{
    for (;;) {
        char *room = cay_buf_room(out, 65536);
        ssize_t n = read(STDIN_FILENO, room, 65536);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot read our own input");
        if (n == 0)
            break;
        out->len += (size_t)n;
        if (out->len > (size_t)CAY_MAX_STDIN_BYTES)
            return cay_fail(err, CAY_ERR_TOO_LARGE, "input of more than %lld bytes is not taken",
                            (long long)CAY_MAX_STDIN_BYTES);
    }
    if (!cay_str_is_utf8(out->data, out->len) || memchr(out->data, 0, out->len))
        return cay_fail(err, CAY_ERR_INVALID, "--stdin takes text in UTF-8 only");
    return 0;
}

/* Our own input and output are the command's while it runs. */
static int exec_with_input(struct cay_cli *cli, const char *sandbox, struct cay_exec_request *req,
                           struct cay_error *err)
{
    const struct cay_json *begun;
    if (req->tty && !isatty(STDIN_FILENO))
        return cay_fail(err, CAY_ERR_INVALID, "--tty wants a terminal as our own input");
    int r = begin(cli, sandbox, req, &begun, err);
    if (r < 0)
        return r;
    struct cay_talk talk = {.sandbox = cay_json_get_str(begun, "sandboxId", sandbox),
                            .execution = cay_json_get_str(begun, "id", ""),
                            .tty = req->tty};
    return cay_talk(cli, &talk, err);
}

/* All of the input goes along at once where nobody stays to send it. */
static int exec(struct cay_cli *cli, struct cay_error *err)
{
    const struct exec_options *o = cli->options;
    const char *sandbox = cli->args.args.at[0];
    CAY_AUTO_BUF struct cay_buf input = {0};
    struct cay_exec_request req = {.command = &cli->args.command,
                                   .env = &o->env,
                                   .cwd = o->cwd,
                                   .user = o->user,
                                   .timeout_ms = o->timeout_ms};
    const bool whole = o->detach || o->remote.json;
    if (!whole && (o->input || o->tty)) {
        req.tty = o->tty;
        req.open_stdin = !o->tty;
        return exec_with_input(cli, sandbox, &req, err);
    }
    int r = o->input ? read_input(&input, err) : 0;
    if (r < 0)
        return r;
    req.tty = o->tty;
    if (o->input) {
        req.input = input.data ? input.data : "";
        req.input_len = input.len;
    }
    if (!o->detach) {
        r = cay_follow_catch_signals(cli, err);
        return r < 0 ? r : cay_exec_attended(cli, sandbox, &req, err);
    }
    const struct cay_json *begun;
    r = begin(cli, sandbox, &req, &begun, err);
    if (r < 0)
        return r;
    if (o->remote.json)
        cay_output_json(cli->raw);
    else
        printf("%s\n", cay_json_get_str(begun, "id", ""));
    return 0;
}

#define EXEC_AT(member) offsetof(struct exec_options, member)
static const struct cay_option exec_table[] = {
    {CAY_OPTION_FLAG, "detach", EXEC_AT(detach), 'd',
     .help = "begin it, print its id and leave; `cay ps` finds it again"},
    {CAY_OPTION_STRING, "cwd", EXEC_AT(cwd), 'w', .arg = "DIR", .help = "where it begins"},
    {CAY_OPTION_PAIRS, "env", EXEC_AT(env), 'e', .arg = "KEY=VALUE",
     .help = "variable; KEY alone takes our own value"},
    {CAY_OPTION_STRING, "user", EXEC_AT(user), 'u', .arg = "USER", .help = "who runs it"},
    {CAY_OPTION_DURATION, "timeout", EXEC_AT(timeout_ms), .arg = "TIME",
     .help = "end it after so long, like 30s"},
    {CAY_OPTION_FLAG, "stdin", EXEC_AT(input), 'i', .help = "give our input to the command"},
    {CAY_OPTION_FLAG, "tty", EXEC_AT(tty), 't',
     .help = "give it a terminal: ours, when we have one"},
    CAY_OPTION_END,
};

const struct cay_command cay_command_exec = {
    .name = "exec",
    .args = "ID -- COMMAND...",
    .summary = "run a command in a sandbox",
    .notes =
        "Its output comes live, also when the server is restarted meanwhile. The exit status is\n"
        "the command's own, 128 + N when signal N ended it, 125 when cay itself failed.\n"
        "Ctrl-C is passed on to the command; a second one kills it. With -it it has our terminal,\n"
        "keys and window size included, and Ctrl-C is a key like any other.",
    .options = exec_table,
    .size = sizeof(struct exec_options),
    .args_min = 1,
    .args_max = 1,
    .command = true,
    .remote = true,
    .failure = CAY_EXIT_OWN,
    .run = exec,
};

struct shell_options {
    struct cay_remote_options remote;
    const char *cwd, *user;
};

static int shell(struct cay_cli *cli, struct cay_error *err)
{
    const struct shell_options *o = cli->options;
    const char *sandbox = cli->args.args.at[0];
    int cols, rows;
    if (!isatty(STDIN_FILENO))
        return cay_fail(err, CAY_ERR_INVALID, "shell wants a terminal; `cay exec -i` does not");
    cay_talk_window(&cols, &rows);
    const char *path = cay_arena_printf(
        &cli->arena, "%s?cols=%d&rows=%d",
        cay_remote_path(cli, "sandbox", sandbox, "terminal", (const char *)NULL), cols, rows);
    if (o->cwd)
        path =
            cay_arena_printf(&cli->arena, "%s&cwd=%s", path, cay_remote_quote(&cli->arena, o->cwd));
    if (o->user)
        path = cay_arena_printf(&cli->arena, "%s&user=%s", path,
                                cay_remote_quote(&cli->arena, o->user));
    struct cay_talk talk = {.sandbox = sandbox, .path = path, .tty = true};
    return cay_talk(cli, &talk, err);
}

#define SHELL_AT(member) offsetof(struct shell_options, member)
static const struct cay_option shell_table[] = {
    {CAY_OPTION_STRING, "cwd", SHELL_AT(cwd), 'w', .arg = "DIR", .help = "where it begins"},
    {CAY_OPTION_STRING, "user", SHELL_AT(user), 'u', .arg = "USER", .help = "whose shell"},
    CAY_OPTION_END,
};

const struct cay_command cay_command_shell = {
    .name = "shell",
    .args = "ID",
    .summary = "a login shell in a sandbox, on this terminal",
    .notes = "A shell whose connection is lost goes on; `cay ps` finds it, `cay attach` shows it.",
    .options = shell_table,
    .size = sizeof(struct shell_options),
    .args_min = 1,
    .args_max = 1,
    .remote = true,
    .failure = CAY_EXIT_OWN,
    .run = shell,
};

static int attach(struct cay_cli *cli, struct cay_error *err)
{
    const char *sandbox = cli->args.args.at[0], *id = cli->args.args.at[1];
    const struct cay_json *ex;
    const char *path = cay_remote_path(cli, "sandbox", sandbox, "exec", id, (const char *)NULL);
    int r = cay_remote_call(cli, "GET", path, NULL, 0, &ex, err);
    if (r < 0)
        return r;
    struct cay_talk talk = {.sandbox = sandbox,
                            .execution = cay_json_get_str(ex, "id", id),
                            .tty = cay_json_get_bool(ex, "tty", false) && isatty(STDIN_FILENO),
                            .replay = true};
    return cay_talk(cli, &talk, err);
}

const struct cay_command cay_command_attach = {
    .name = "attach",
    .args = "ID EXECUTION",
    .summary = "see a command in a sandbox, and type to it if it takes input",
    .size = sizeof(struct cay_remote_options),
    .args_min = 2,
    .args_max = 2,
    .remote = true,
    .failure = CAY_EXIT_OWN,
    .run = attach,
};

/* The command as one line: a string as it was written, else the words. */
static const char *command_text(struct cay_arena *a, const struct cay_json *command)
{
    const char *text = "";
    if (!command || command->kind != CAY_JSON_ARRAY)
        return cay_output_value(command);
    for (const struct cay_json *w = command->first; w; w = w->next)
        text = cay_arena_printf(a, "%s%s%s", text, *text ? " " : "", cay_output_value(w));
    return strlen(text) > 60 ? cay_arena_printf(a, "%.57s...", text) : text;
}

static const char *result_text(struct cay_arena *a, const struct cay_json *e)
{
    const char *reason = cay_json_get_str(e, "reason", "");
    int64_t code = cay_json_get_int(e, "exitCode", -1);
    if (code < 0)
        return *reason ? reason : "-";
    if (!*reason || strcmp(reason, "exited") == 0)
        return cay_arena_printf(a, "%d", (int)code);
    return cay_arena_printf(a, "%d (%s)", (int)code, reason);
}

static void add_execution(struct cay_table *t, const struct cay_json *e, int64_t now_ms)
{
    const char *started = cay_json_get_str(e, "startedAt", "-");
    cay_table_add(t, cay_json_get_str(e, "id", "-"));
    cay_table_add(t, cay_json_get_str(e, "status", "-"));
    cay_table_add(t, result_text(t->arena, e));
    cay_table_add(t, t->human ? cay_output_age(t->arena, started, now_ms) : started);
    cay_table_add(t, command_text(t->arena, cay_json_get(e, "command")));
}

static int ps(struct cay_cli *cli, struct cay_error *err)
{
    static const char *const headings[] = {"EXECUTION", "STATUS",  "EXIT",
                                           "STARTED",   "COMMAND", NULL};
    const struct cay_remote_options *o = cli->options;
    const struct cay_json *root;
    const char *path =
        cay_remote_path(cli, "sandbox", cli->args.args.at[0], "exec", (const char *)NULL);
    int r = cay_remote_call(cli, "GET", path, NULL, 0, &root, err);
    if (r < 0)
        return r;
    if (o->json) {
        cay_output_json(cli->raw);
        return 0;
    }
    struct cay_table t;
    const struct cay_json *list = cay_json_get(root, "executions");
    cay_table_init(&t, &cli->arena, headings);
    for (const struct cay_json *e = list ? list->first : NULL; e; e = e->next)
        add_execution(&t, e, cay_clock_ms());
    cay_table_print(&t, stdout);
    return 0;
}

const struct cay_command cay_command_ps = {
    .name = "ps",
    .args = "ID",
    .summary = "list the commands that ran or run in a sandbox, newest first",
    .size = sizeof(struct cay_remote_options),
    .args_min = 1,
    .args_max = 1,
    .remote = true,
    .run = ps,
};

static int kill_one(struct cay_cli *cli, struct cay_error *err)
{
    const struct kill_options *o = cli->options;
    CAY_AUTO_BUF struct cay_buf body = {0};
    struct cay_json_writer w = {.buf = &body};
    const struct cay_json *root;
    cay_jw_object(&w, NULL);
    cay_jw_str(&w, "signal", o->signal);
    cay_jw_object_end(&w);
    const char *path = cay_remote_path(cli, "sandbox", cli->args.args.at[0], "exec",
                                       cli->args.args.at[1], "kill", (const char *)NULL);
    int r = cay_remote_call(cli, "POST", path, &body, 0, &root, err);
    if (r >= 0 && o->remote.json)
        cay_output_json(cli->raw);
    return r < 0 ? r : 0;
}

static const struct cay_option kill_table[] = {
    {CAY_OPTION_STRING, "signal", offsetof(struct kill_options, signal), 's', .arg = "NAME",
     .help = "what to send", .otherwise = "SIGKILL"},
    CAY_OPTION_END,
};

const struct cay_command cay_command_kill = {
    .name = "kill",
    .args = "ID EXECUTION",
    .summary = "send a signal to a command in a sandbox",
    .options = kill_table,
    .size = sizeof(struct kill_options),
    .args_min = 2,
    .args_max = 2,
    .remote = true,
    .run = kill_one,
};
