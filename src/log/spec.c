/* SPDX-License-Identifier: Apache-2.0 */
/* The SPEC record, to JSON and back. */
#include "log/spec.h"
#include "base/json.h"
#include "log/record.h"
#include "model/limits.h"
#include <string.h>

/* A string of at most what is left of the budget, which goes down by it. */
static void put_cut(struct cay_json_writer *w, const char *key, const char *s, size_t *budget,
                    bool *cut)
{
    size_t len = strlen(s);
    if (len > *budget) {
        len = cay_str_utf8_whole(s, *budget);
        *cut = true;
    }
    *budget -= len;
    cay_jw_strn(w, key, s, len);
}

static void put_command(struct cay_json_writer *w, const struct cay_exec_spec *spec, size_t budget)
{
    bool cut = false;
    if (spec->text) {
        size_t half = budget / 2; /* the text is an argument too, as a rule */
        budget -= half;
        put_cut(w, "text", spec->text, &half, &cut);
    }
    cay_jw_array(w, "command");
    for (size_t i = 0; i < spec->argv.count && !cut; i++) {
        /* what it costs beside its bytes; an empty argument is no argument for nothing */
        if (budget < 8) {
            cut = true;
            break;
        }
        budget -= 8;
        put_cut(w, NULL, spec->argv.at[i], &budget, &cut);
    }
    cay_jw_array_end(w);
    if (cut)
        cay_jw_bool(w, "cut", true);
}

static void put_env(struct cay_json_writer *w, const struct cay_pairs *env, size_t budget)
{
    cay_jw_array(w, "env");
    for (size_t i = 0; i < env->count; i++) {
        size_t len = strlen(env->at[i].key) + 8;
        if (len > budget)
            break;
        budget -= len;
        cay_jw_str(w, NULL, env->at[i].key);
    }
    cay_jw_array_end(w);
}

void cay_log_spec_write(const struct cay_exec_spec *spec, struct cay_buf *out)
{
    const size_t start = out->len;
    size_t budget = CAY_LOG_BLOCK / 2;
    do {
        out->len = start;
        struct cay_json_writer w = {.buf = out};
        cay_jw_object(&w, NULL);
        put_command(&w, spec, budget);
        if (spec->cwd && strlen(spec->cwd) <= CAY_MAX_PATH)
            cay_jw_str(&w, "cwd", spec->cwd);
        if (spec->user && strlen(spec->user) <= CAY_MAX_NAME)
            cay_jw_str(&w, "user", spec->user);
        cay_jw_int(&w, "timeoutMs", spec->timeout_ms);
        if (spec->window.cols)
            cay_jw_bool(&w, "tty", true);
        if (spec->once)
            cay_jw_str(&w, "fingerprint", spec->once->fingerprint);
        put_env(&w, &spec->env, budget / 4);
        cay_jw_object_end(&w);
        budget /= 2; /* escapes make up to six bytes of one */
    } while (out->len - start > cay_record_room(0) && budget);
}

static int no_spec(struct cay_error *err)
{
    return cay_fail_as(err, CAY_ERR_INTERNAL, "LOG_DAMAGED", "execution log begins with no spec");
}

int cay_log_spec_read(struct cay_arena *a, const char *data, size_t len, struct cay_execution *out,
                      struct cay_error *err)
{
    const struct cay_json *root;
    struct cay_error ignored; /* it speaks of JSON, which no caller sent */
    if (cay_json_parse(a, data, len, &root, &ignored) < 0 || root->kind != CAY_JSON_OBJECT)
        return no_spec(err);
    const struct cay_json *command = cay_json_get(root, "command");
    struct cay_strs argv = {0};
    if (!command || command->kind != CAY_JSON_ARRAY)
        return no_spec(err);
    argv.at = cay_arena_alloc(a, (command->count + 1) * sizeof *argv.at);
    for (const struct cay_json *v = command->first; v; v = v->next) {
        if (v->kind != CAY_JSON_STRING)
            return no_spec(err);
        argv.at[argv.count++] = v->text;
    }
    const struct cay_json *tty = cay_json_get(root, "tty");
    out->argv = argv;
    out->text = cay_json_get_str(root, "text", NULL);
    out->fingerprint = cay_json_get_str(root, "fingerprint", NULL);
    out->tty = tty && tty->kind == CAY_JSON_BOOL && tty->truth;
    return 0;
}
