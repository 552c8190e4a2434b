/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/remote.h"
#include "base/clock.h"
#include "cli/nuls.h"
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const struct cay_option cay_remote_table[] = {
    {CAY_OPTION_STRING, "url", offsetof(struct cay_remote_options, url), .arg = "URL",
     .help = "the server", .variable = "CAY_URL", .otherwise = "http://127.0.0.1:3000"},
    {CAY_OPTION_STRING, "token", offsetof(struct cay_remote_options, token),
     .help = "sent to the server as Bearer", .variable = "CAY_TOKEN", .unspoken = true},
    {CAY_OPTION_STRING, "ca", offsetof(struct cay_remote_options, ca), .arg = "FILE",
     .help = "certificates to trust on https; by default the system's", .variable = "CAY_CA"},
    {CAY_OPTION_FLAG, "json", offsetof(struct cay_remote_options, json),
     .help = "print the server's answer as it came"},
    CAY_OPTION_END,
};

const char *cay_remote_file(struct cay_arena *a, const void *values)
{
    (void)values;
    const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    if (config && config[0] == '/')
        return cay_arena_printf(a, "%s/cay/config", config);
    return home && home[0] == '/' ? cay_arena_printf(a, "%s/.config/cay/config", home) : NULL;
}

int cay_remote_open(struct cay_cli *cli, struct cay_error *err)
{
    const struct cay_remote_options *o = cli->options;
    int r = cay_client_new(o->url, o->token, &cli->client, err);
    if (r == 0 && o->ca)
        cay_client_trust(cli->client, o->ca);
    return r;
}

const char *cay_remote_quote(struct cay_arena *a, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_~";
    CAY_AUTO_BUF struct cay_buf out = {0};
    /* A lone "." or ".." would be a step in the path, so dots at the front are encoded too. */
    for (const char *c = word; *c; c++) {
        if (strchr(plain, *c) || (*c == '.' && c != word && word[0] != '.'))
            cay_buf_addc(&out, *c);
        else
            cay_buf_addf(&out, "%%%02X", (unsigned char)*c);
    }
    return cay_arena_strndup(a, out.data ? out.data : "", out.len);
}

const char *cay_remote_path(struct cay_cli *cli, ...)
{
    const char *path = "/api/v1", *word;
    va_list words;
    va_start(words, cli);
    while ((word = va_arg(words, const char *)))
        path = cay_arena_printf(&cli->arena, "%s/%s", path, cay_remote_quote(&cli->arena, word));
    va_end(words);
    return path;
}

static enum cay_err code_of(int status)
{
    switch (status) {
    case 401:
        return CAY_ERR_UNAUTHORIZED;
    case 403:
        return CAY_ERR_FORBIDDEN;
    case 404:
        return CAY_ERR_NOT_FOUND;
    case 409:
        return CAY_ERR_CONFLICT;
    case 413:
        return CAY_ERR_TOO_LARGE;
    case 429:
        return CAY_ERR_LIMIT;
    case 502:
    case 503:
    case 504:
        return CAY_ERR_UNAVAILABLE;
    default:
        return status >= 500 ? CAY_ERR_PROVIDER : CAY_ERR_INVALID;
    }
}

int cay_remote_check(struct cay_cli *cli, const struct cay_client_answer *answer,
                     struct cay_error *err)
{
    const struct cay_json *root = NULL;
    struct cay_error ignored; /* a page of some proxy's: its status says enough */
    cli->api_code[0] = 0;
    if (answer->status >= 200 && answer->status < 300)
        return 0;
    if (cay_nuls_parse(&cli->arena, answer->body.data, answer->body.len, &root, &ignored) < 0)
        root = NULL;
    const struct cay_json *error = root ? cay_json_get(root, "error") : NULL;
    const struct cay_json *details = error ? cay_json_get(error, "details") : NULL;
    const char *message = error ? cay_json_get_str(error, "message", NULL) : NULL;
    int r = code_of(answer->status);
    if (!message)
        return cay_fail(err, r, "the server answered with status %d and no reason", answer->status);
    (void)cay_fail(err, r, "%s", message);
    cay_str_copy(cli->api_code, sizeof cli->api_code, cay_json_get_str(error, "code", "ERROR"));
    if (!details)
        return r;
    const char *field = cay_json_get_str(details, "field", NULL);
    const char *cause = cay_json_get_str(details, "cause", NULL);
    cay_str_copy(err->field, sizeof err->field, field ? field : "");
    if (cause)
        cay_str_copy(err->cause, sizeof err->cause, cause);
    else if (field && !strstr(message, field))
        (void)snprintf(err->cause, sizeof err->cause, "field %s", field);
    return r;
}

int cay_remote_call(struct cay_cli *cli, const char *method, const char *path,
                    const struct cay_buf *body, int64_t wait_ms, const struct cay_json **out,
                    struct cay_error *err)
{
    CAY_AUTO_ANSWER struct cay_client_answer answer = {0};
    struct cay_client_request req = {.method = method, .path = path, .idle_ms = wait_ms};
    if (body) {
        req.body = body->data ? body->data : "";
        req.body_len = body->len;
    }
    cli->api_code[0] = 0;
    int r = cay_client_call(cli->client, &req, &answer, err);
    if (r < 0)
        return r;
    cli->raw = cay_arena_strndup(&cli->arena, answer.body.data, answer.body.len);
    r = cay_remote_check(cli, &answer, err);
    if (r < 0)
        return r;
    r = cay_nuls_parse(&cli->arena, answer.body.data, answer.body.len, out, err);
    return r < 0 ? cay_wrap(err, "the server's answer is not JSON") : 0;
}

bool cay_remote_may_retry(const struct cay_error *err)
{
    return err->code == CAY_ERR_UNAVAILABLE || err->code == CAY_ERR_TIMEOUT ||
           err->code == CAY_ERR_LIMIT;
}

int cay_remote_insist(struct cay_cli *cli, const char *method, const char *path,
                      const struct cay_json **out, struct cay_error *err)
{
    int64_t end = cay_clock_mono_ms() + CAY_REMOTE_PATIENCE_MS;
    for (int64_t pause_ms = 100;; pause_ms = pause_ms < 1600 ? pause_ms * 2 : pause_ms) {
        int r = cay_remote_call(cli, method, path, NULL, 0, out, err);
        if (r >= 0 || !cay_remote_may_retry(err) || cay_clock_mono_ms() > end)
            return r;
        struct cay_error interrupted;
        if (cay_remote_pause(cli, pause_ms, &interrupted) < 0)
            return r;
    }
}

int cay_remote_pause(struct cay_cli *cli, int64_t ms, struct cay_error *err)
{
    struct pollfd fd = {.fd = cli->signal_fd, .events = POLLIN};
    if (poll(&fd, 1, (int)ms) > 0)
        return cay_fail_as(err, CAY_ERR_CONFLICT, "INTERRUPTED", "interrupted");
    return 0;
}
