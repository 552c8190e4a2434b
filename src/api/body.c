/* SPDX-License-Identifier: Apache-2.0 */
#include "api/body.h"
#include "base/sha256.h"
#include "model/limits.h"
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define BEYOND 1e9 /* every host: what it can give core knows, and says */

const char *const cay_api_tracks[] = {"off", "files", "workspace", NULL};

const char *const cay_api_pulls[] = {"always", "missing", "never", NULL};

const char *const cay_api_truths[] = {"true", "1", "false", "0", NULL};

enum cay_workspace cay_api_workspace(const char *preserve_volume)
{
    if (!preserve_volume)
        return CAY_WORKSPACE_AS_IT_IS;
    return strchr("t1", preserve_volume[0]) ? CAY_WORKSPACE_KEPT : CAY_WORKSPACE_GONE;
}

int cay_api_refuse(const struct cay_json *v, const char *field, struct cay_error *err)
{
    bool says_nothing = !v || v->kind == CAY_JSON_NULL || (v->kind == CAY_JSON_BOOL && !v->truth) ||
                        ((v->kind == CAY_JSON_ARRAY || v->kind == CAY_JSON_OBJECT) && !v->count);
    if (says_nothing)
        return 0;
    int r = cay_fail(err, CAY_ERR_UNSUPPORTED, "%s is not available yet", field);
    cay_str_copy(err->field, sizeof err->field, field);
    return r;
}

/* ---- commands ---- */

static int push_all(struct cay_arena *a, const struct cay_json *list, const char *field,
                    struct cay_strs *out, struct cay_error *err)
{
    if (list->count > CAY_MAX_ARGS)
        return cay_fail_field(err, field, "at most %d arguments", CAY_MAX_ARGS);
    for (const struct cay_json *v = list->first; v; v = v->next) {
        if (v->kind != CAY_JSON_STRING)
            return cay_fail_field(err, field, "%s must hold strings only", field);
        cay_strs_push(a, out, v->text);
    }
    return 0;
}

int cay_api_decode_command(struct cay_arena *a, const struct cay_json *v, const char *field,
                           struct cay_strs *argv_out, const char **text_out, struct cay_error *err)
{
    struct cay_strs argv = {0};
    const char *text = NULL;
    int r = 0;
    if (v->kind == CAY_JSON_STRING) {
        text = v->text;
        cay_strs_push(a, &argv, "/bin/sh");
        cay_strs_push(a, &argv, "-c");
        cay_strs_push(a, &argv, text);
    } else if (v->kind == CAY_JSON_ARRAY) {
        r = push_all(a, v, field, &argv, err);
    } else if (v->kind == CAY_JSON_OBJECT && cay_json_get_str(v, "executable", NULL)) {
        const struct cay_json *args = cay_json_get(v, "args");
        cay_strs_push(a, &argv, cay_json_get_str(v, "executable", ""));
        if (args && args->kind == CAY_JSON_ARRAY)
            r = push_all(a, args, field, &argv, err);
    } else {
        r = cay_fail_field(err, field, "%s must be a string or an array of strings", field);
    }
    if (r == 0 && (argv.count == 0 || (text && !text[0])))
        r = cay_fail_field(err, field, "%s must not be empty", field);
    if (r == 0) {
        *argv_out = argv;
        *text_out = text;
    }
    return r;
}

int cay_api_decode_start(struct cay_arena *a, const struct cay_json *v, struct cay_spec *spec,
                         struct cay_error *err)
{
    if (!v || v->kind == CAY_JSON_NULL)
        return 0;
    int r = cay_api_decode_command(a, v, "startCommand", &spec->start, &spec->start_text, err);
    if (r == 0 && spec->start_text && strcmp(spec->start_text, "image") == 0)
        spec->start.count = 0; /* the image's own */
    return r;
}

static int wrong_file(const char *path, struct cay_error *err)
{
    char field[sizeof err->field];
    (void)snprintf(field, sizeof field, "files.%s", path); /* as much as fits */
    return cay_fail_field(err, field, "a file is a text, or {base64} of its bytes");
}

static int decode_file(struct cay_arena *a, const struct cay_json *v, struct cay_exec_file *out,
                       struct cay_error *err)
{
    const char *base64 = cay_json_get_str(v, "base64", NULL);
    out->path = v->key;
    if (v->kind == CAY_JSON_STRING) {
        out->data = v->text;
        out->len = v->len;
        return 0;
    }
    bool sound = v->kind == CAY_JSON_OBJECT && v->count == 1 && base64 &&
                 cay_str_unbase64_data(a, base64, &out->data, &out->len);
    return sound ? 0 : wrong_file(v->key, err);
}

int cay_api_decode_files(struct cay_arena *a, const struct cay_json *v, struct cay_exec_spec *spec,
                         struct cay_error *err)
{
    if (!v || v->kind == CAY_JSON_NULL)
        return 0;
    if (v->kind != CAY_JSON_OBJECT)
        return cay_fail_field(err, "files", "files must be an object of paths and contents");
    if (v->count > CAY_FILE_FORM_FILES)
        return cay_fail_field(err, "files", "at most %d files", CAY_FILE_FORM_FILES);
    spec->files = cay_arena_alloc(a, v->count * sizeof *spec->files + 1);
    for (const struct cay_json *f = v->first; f; f = f->next) {
        int r = decode_file(a, f, &spec->files[spec->file_count++], err);
        if (r < 0)
            return r;
    }
    return 0;
}

int cay_api_decode_signal(const struct cay_json *v, int *out, struct cay_error *err)
{
    int64_t number = SIGTERM;
    bool known = true;
    if (v && v->kind == CAY_JSON_NUMBER) {
        known = cay_json_int(v, &number) && number >= 1 && number <= 64;
    } else if (v && v->kind == CAY_JSON_STRING) {
        const char *name = strncmp(v->text, "SIG", 3) == 0 ? v->text + 3 : v->text;
        known = false;
        for (int i = 1; i < NSIG && !known; i++) {
            const char *abbrev = sigabbrev_np(i);
            known = abbrev && strcmp(abbrev, name) == 0;
            number = i;
        }
    } else if (v && v->kind != CAY_JSON_NULL) {
        known = false;
    }
    if (!known)
        return cay_fail_field(err, "signal", "signal must be a name like SIGTERM or from 1 to 64");
    *out = (int)number;
    return 0;
}

static void shape_cause(struct cay_json_writer *w, const struct cay_execution *ex)
{
    char text[CAY_CAUSE_SIZE];
    if (ex->status != CAY_EXEC_EXITED || !ex->reason)
        return;
    if (ex->process[0])
        cay_jw_str(w, "process", ex->process);
    if (cay_core_cause(ex, text))
        cay_jw_str(w, "message", text);
}

void cay_api_shape_exit(struct cay_json_writer *w, const struct cay_execution *ex)
{
    if (ex->status == CAY_EXEC_EXITED)
        cay_jw_int(w, "exitCode", ex->exit_code);
    else
        cay_jw_null(w, "exitCode");
    if (ex->status == CAY_EXEC_EXITED && ex->signal)
        cay_jw_int(w, "signal", ex->signal);
    else
        cay_jw_null(w, "signal");
    cay_jw_str(w, "reason", ex->status == CAY_EXEC_RUNNING ? NULL : ex->reason);
    if (ex->status == CAY_EXEC_LOST)
        cay_jw_str(w, "code", "EXEC_LOST");
    shape_cause(w, ex);
}

/* ---- numbers ---- */

uint64_t cay_api_bytes(double count, double unit)
{
    return (uint64_t)((count < BEYOND ? count : BEYOND) * unit + 0.5);
}

bool cay_api_time(int64_t ms, int64_t count, int64_t unit_ms, int64_t *out)
{
    if (ms >= 0)
        *out = ms;
    else if (count >= 0)
        *out = count * unit_ms;
    return ms >= 0 || count >= 0;
}

/* ---- did it come before? ---- */

/* Two requests are the same when method, path, query and body are, byte for byte. The key, which is
 * kept nowhere, goes in as well: nobody can try out secrets of the body on what is kept. */
static void fingerprint(const struct cay_req *req, const char *key, char out[CAY_FINGERPRINT_SIZE])
{
    const char *const parts[] = {key, req->method, req->path, req->query};
    struct cay_sha256 s;
    uint8_t sum[32];
    cay_sha256_init(&s);
    for (size_t i = 0; i < CAY_COUNT(parts); i++)
        cay_sha256_add(&s, parts[i], strlen(parts[i]) + 1);
    if (req->body_len > 0)
        cay_sha256_add(&s, req->body, req->body_len);
    cay_sha256_done(&s, sum);
    for (size_t i = 0; i + 1 < CAY_FINGERPRINT_SIZE; i += 2)
        (void)snprintf(out + i, 3, "%02x", sum[i / 2]); /* two digits */
}

int cay_api_once(struct cay_req *req, const char *key, const struct cay_once **out,
                 struct cay_error *err)
{
    static const char name[] = "Idempotency-Key";
    const char *header = cay_req_header(req, "idempotency-key");
    *out = NULL;
    if (header)
        key = header;
    if (!key)
        return 0;
    size_t len = strlen(key);
    for (size_t i = 0; i < len; i++)
        if (key[i] < 0x20 || key[i] > 0x7e)
            return cay_fail_field(err, name, "%s must be printable ASCII", name);
    if (len == 0 || len > CAY_MAX_IDEMPOTENCY_KEY)
        return cay_fail_field(err, name, "%s must have 1 to %d characters", name,
                              CAY_MAX_IDEMPOTENCY_KEY);
    struct cay_once *once = cay_arena_alloc(req->arena, sizeof *once);
    once->key = key;
    fingerprint(req, key, once->fingerprint);
    *out = once;
    return 0;
}

bool cay_api_answered(struct cay_resp *resp, int status, const struct cay_sandbox *made)
{
    const char *text = made->first_answer;
    if (!text)
        return false;
    cay_resp_header(resp, "Idempotent-Replayed", "true");
    cay_resp_text(resp, status, "application/json", text, strlen(text));
    return true;
}

void cay_api_keep_answer(struct cay_req *req, const struct cay_resp *resp,
                         const struct cay_sandbox *made)
{
    cay_core_answered(req->core, made,
                      cay_arena_strndup(req->arena, resp->body.data, resp->body.len));
}
