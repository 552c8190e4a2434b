/* SPDX-License-Identifier: Apache-2.0 */
/* The body of an execution, alone or one of a batch. */
#include "api/v1/v1.h"
#include "model/limits.h"
#include <stdio.h>
#include <string.h>

struct body {
    const struct cay_json *command, *files, *tty;
    const char *cwd, *user, *input;
    struct cay_pairs env;
    int64_t timeout_ms, output_limit;
    bool detach, open_stdin, login;
};

struct window {
    int64_t cols, rows;
};

#define BODY struct body

const struct cay_field cay_v1_exec_fields[] = {
    CAY_FIELD_ANY(BODY, command, "command", .required = true, .type = "string|[string]"),
    CAY_FIELD_STR(BODY, cwd, "cwd", .max_len = CAY_MAX_PATH),
    CAY_FIELD_PAIRS(BODY, env, "env", .max_len = CAY_MAX_ENV_BYTES),
    CAY_FIELD_STR(BODY, user, "user", .max_len = 1024),
    CAY_FIELD_INT(BODY, timeout_ms, "timeoutMs", .min = 0, .max = (double)CAY_MAX_EXEC_TIMEOUT_MS),
    CAY_FIELD_STR(BODY, input, "stdin", .max_len = CAY_MAX_STDIN_BYTES),
    CAY_FIELD_BOOL(BODY, detach, "detach"),
    CAY_FIELD_BOOL(BODY, login, "login"),
    CAY_FIELD_INT(BODY, output_limit, "outputLimit", .min = 0,
                  .max = (double)(CAY_LOG_HEAD_BYTES + CAY_LOG_TAIL_BYTES)),
    CAY_FIELD_BOOL(BODY, open_stdin, "openStdin"),
    CAY_FIELD_ANY(BODY, tty, "tty", .type = "boolean|Window"),
    CAY_FIELD_ANY(BODY, files, "files", .type = "{string|Base64}"),
    CAY_FIELD_END,
};

const struct cay_field cay_v1_window_fields[] = {
    CAY_FIELD_INT(struct window, cols, "cols", .min = 1, .max = CAY_MAX_WINDOW),
    CAY_FIELD_INT(struct window, rows, "rows", .min = 1, .max = CAY_MAX_WINDOW),
    CAY_FIELD_END,
};

/* {cols, rows}, either left out for the usual; or true. */
static int decode_tty(struct cay_arena *a, const struct cay_json *v, struct cay_window *out,
                      struct cay_error *err)
{
    struct window w = {.cols = CAY_DEFAULT_COLS, .rows = CAY_DEFAULT_ROWS};
    if (!v || v->kind == CAY_JSON_NULL || (v->kind == CAY_JSON_BOOL && !v->truth))
        return 0;
    if (v->kind != CAY_JSON_BOOL && v->kind != CAY_JSON_OBJECT)
        return cay_fail_field(err, "tty", "tty must be an object with cols and rows");
    int r = v->kind == CAY_JSON_OBJECT ? cay_fields_decode(a, cay_v1_window_fields, v, &w, err) : 0;
    *out = (struct cay_window){(uint16_t)w.cols, (uint16_t)w.rows};
    return r;
}

/* By a login shell, which reads the profiles first: what is in them goes on top of the rest. */
static void log_in(struct cay_arena *a, struct cay_exec_spec *spec)
{
    struct cay_strs argv = {0};
    cay_strs_push(a, &argv, "/bin/sh");
    cay_strs_push(a, &argv, "-lc");
    cay_strs_push(a, &argv, spec->text ? spec->text : "exec \"$@\"");
    if (!spec->text)
        cay_strs_push(a, &argv, "sh");
    for (size_t i = 0; i < spec->argv.count && !spec->text; i++)
        cay_strs_push(a, &argv, spec->argv.at[i]);
    spec->argv = argv;
}

int cay_v1_decode_exec(struct cay_arena *a, const struct cay_json *object, struct cay_v1_exec *out,
                       struct cay_error *err)
{
    struct body body = {.output_limit = (int64_t)out->output_limit};
    struct cay_exec_spec spec = {0};
    int r = cay_fields_decode(a, cay_v1_exec_fields, object, &body, err);
    if (r == 0 && !body.command)
        r = cay_fail_field(err, "command", "command is missing");
    if (r == 0)
        r = cay_api_decode_files(a, body.files, &spec, err);
    if (r == 0)
        r = decode_tty(a, body.tty, &spec.window, err);
    if (r == 0)
        r = cay_api_decode_command(a, body.command, "command", &spec.argv, &spec.text, err);
    if (r < 0)
        return r;
    if (body.login)
        log_in(a, &spec);
    spec.cwd = body.cwd;
    spec.user = body.user;
    spec.env = body.env;
    spec.timeout_ms = body.timeout_ms;
    spec.open_stdin = body.open_stdin;
    spec.stdin_text = body.input;
    spec.stdin_len = body.input ? strlen(body.input) : 0;
    *out = (struct cay_v1_exec){
        .spec = spec, .detach = body.detach, .output_limit = (size_t)body.output_limit};
    return 0;
}
