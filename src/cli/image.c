/* SPDX-License-Identifier: Apache-2.0 */
/* cay image: what sandboxes are made of: pulled, loaded, built, listed, looked at, exported,
 * removed. */
#include "base/clock.h"
#include "cli/follow.h"
#include "cli/nuls.h"
#include "cli/output.h"
#include "cli/transfer.h"
#include "model/limits.h"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define IDLE_MS 60000 /* a server that is well says so in between */
#define PRUNE_MS (CAY_IMAGE_CALL_MS + CAY_CLIENT_IDLE_MS)
#define USAGE                                                                                      \
    "pull REF | load FILE|- | build NAME|--file FILE | ls | inspect REF | export REF FILE|- | "    \
    "rm REF... | prune"

struct image_options {
    struct cay_remote_options remote;
    const char *policy, *tag, *file;
    bool again;
};

#define IMAGE_AT(member) offsetof(struct image_options, member)

static const char *ref_path(struct cay_cli *cli, const char *word, const char *ref)
{
    const char *path = cay_remote_path(cli, "images", word, (const char *)NULL);
    return cay_arena_printf(&cli->arena, "%s?ref=%s", path, cay_remote_quote(&cli->arena, ref));
}

/* ---- pull ---- */

struct watch {
    struct cay_cli *cli;
    struct cay_sse sse;
    struct cay_progress bar;
    char step[24], note[160]; /* the last that were told, where there is no terminal */
    bool ended, good;
};

/* What a build says names the image itself. */
static void tell_note(struct watch *w, const char *note)
{
    CAY_AUTO_BUF struct cay_buf line = {0};
    if (w->bar.shown || strcmp(note, w->note) == 0)
        return;
    cay_str_copy(w->note, sizeof w->note, note);
    cay_output_clean(&line, note);
    fprintf(stderr, "%.*s\n", (int)line.len, line.data);
}

static void tell_step(struct watch *w, const struct cay_json *job)
{
    const char *step = cay_json_get_str(job, "step", "");
    CAY_AUTO_BUF struct cay_buf line = {0};
    tell_note(w, cay_json_get_str(job, "note", ""));
    if (w->bar.shown || strcmp(step, w->step) == 0)
        return;
    cay_str_copy(w->step, sizeof w->step, step);
    cay_output_clean(&line, w->bar.name);
    cay_buf_adds(&line, ": ");
    cay_output_clean(&line, step);
    int64_t total = cay_json_get_int(job, "totalBytes", 0);
    if (total > 0)
        cay_buf_addf(&line, " %s", cay_output_size(&w->cli->arena, (double)total));
    fprintf(stderr, "%.*s\n", (int)line.len, line.data);
}

static void tell_end(struct watch *w, const struct cay_json *job)
{
    const struct cay_json *error = cay_json_get(job, "error");
    struct cay_error err = {0};
    w->ended = true;
    w->good = strcmp(cay_json_get_str(job, "status", ""), "succeeded") == 0;
    if (w->good)
        return;
    const struct cay_json *details = error ? cay_json_get(error, "details") : NULL;
    cay_str_copy(err.msg, sizeof err.msg,
                 error ? cay_json_get_str(error, "message", "") : "the job was lost");
    cay_str_copy(err.cause, sizeof err.cause,
                 details ? cay_json_get_str(details, "cause", "") : "");
    cay_str_copy(w->cli->api_code, sizeof w->cli->api_code,
                 error ? cay_json_get_str(error, "code", "") : "");
    cay_cli_tell(w->cli, &err);
}

static int on_event(void *arg, const char *event, const char *data, size_t len,
                    struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct watch *w = arg;
    const struct cay_json *job;
    int r = cay_nuls_parse(&a, data, len, &job, err);
    if (r < 0)
        return cay_wrap(err, "the stream is not as agreed");
    int64_t done = cay_json_get_int(job, "bytes", 0);
    w->bar.total = (uint64_t)cay_json_get_int(job, "totalBytes", 0);
    w->bar.done = done > 0 ? (uint64_t)done : 0;
    cay_str_copy(w->bar.note, sizeof w->bar.note, cay_json_get_str(job, "note", ""));
    cay_progress_add(&w->bar, 0);
    bool end = strcmp(event, "end") == 0;
    if (end)
        cay_progress_end(&w->bar);
    tell_step(w, job);
    if (end)
        tell_end(w, job);
    return 0;
}

static int on_data(void *arg, const char *data, size_t len, struct cay_error *err)
{
    struct watch *w = arg;
    return cay_sse_feed(&w->sse, data, len, on_event, w, err);
}

/* To its end; a user who ends us ends the job too. */
static int follow_job(struct cay_cli *cli, const char *id, const char *name, struct cay_error *err)
{
    struct watch w = {.cli = cli};
    const struct cay_json *ignored;
    const char *path = cay_remote_path(cli, "jobs", id, (const char *)NULL);
    struct cay_client_request req = {.method = "GET",
                                     .path = path,
                                     .accept = "text/event-stream",
                                     .idle_ms = IDLE_MS,
                                     .on_data = on_data,
                                     .arg = &w};
    CAY_AUTO_ANSWER struct cay_client_answer answer = {0};
    cay_progress_begin(&w.bar, name, 0);
    int r = cay_follow_catch_signals(cli, err);
    if (r == 0)
        r = cay_client_call(cli->client, &req, &answer, err);
    cay_sse_done(&w.sse);
    int number = cay_follow_signal(cli);
    if (number > 0) {
        cay_client_interrupt_on(cli->client, -1);
        (void)cay_remote_call(cli, "DELETE", path, NULL, 0, &ignored,
                              err); /* it ends by itself too */
        return CAY_EXIT_SIGNAL + number;
    }
    if (r == 0)
        r = cay_remote_check(cli, &answer, err);
    if (r < 0)
        return r;
    if (!w.ended)
        return cay_fail(err, CAY_ERR_UNAVAILABLE, "the server ended before the job did");
    return w.good ? 0 : CAY_EXIT_FAILED;
}

static int pull(struct cay_cli *cli, const char *ref, struct cay_error *err)
{
    const struct image_options *o = cli->options;
    CAY_AUTO_BUF struct cay_buf body = {0};
    struct cay_json_writer w = {.buf = &body};
    const struct cay_json *job;
    cay_jw_object(&w, NULL);
    cay_jw_str(&w, "image", ref);
    cay_jw_str(&w, "policy", o->policy);
    cay_jw_object_end(&w);
    const char *path = cay_remote_path(cli, "images", "pull", (const char *)NULL);
    int r = cay_remote_call(cli, "POST", path, &body, 0, &job, err);
    if (r < 0)
        return r;
    r = follow_job(cli, cay_json_get_str(job, "id", ""), ref, err);
    if (r == 0)
        printf("%s\n", cay_json_get_str(job, "image", ref));
    return r;
}

/* ---- load ---- */

static int load(struct cay_cli *cli, const char *file, struct cay_error *err)
{
    const struct image_options *o = cli->options;
    const char *path = cay_remote_path(cli, "images", "load", (const char *)NULL);
    const struct cay_json *job;
    struct cay_progress bar;
    struct stat st = {0};
    bool from_stdin = strcmp(file, "-") == 0;
    CAY_AUTO_FD int fd =
        from_stdin ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3) : open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return cay_fail_errno(err, CAY_ERR_INVALID, "cannot read %s", file);
    if (o->tag)
        path = cay_arena_printf(&cli->arena, "%s?name=%s", path,
                                cay_remote_quote(&cli->arena, o->tag));
    struct cay_upload_source from = {
        .fd = fd, .end_fd = -1, .length = S_ISREG(st.st_mode) ? st.st_size : -1, .method = "POST"};
    cay_progress_begin(&bar, file, from.length > 0 ? (uint64_t)from.length : 0);
    int r = cay_transfer_put(cli, path, &from, &bar, &job, err);
    return r < 0 ? r : follow_job(cli, cay_json_get_str(job, "id", ""), file, err);
}

/* ---- build ---- */

static int read_recipe(struct cay_cli *cli, const char *file, char **out, struct cay_error *err)
{
    char *text = cay_arena_alloc(&cli->arena, CAY_RECIPE_BYTES + 2);
    FILE *f = strcmp(file, "-") == 0 ? stdin : fopen(file, "re");
    size_t len = f ? fread(text, 1, CAY_RECIPE_BYTES + 1, f) : 0;
    bool good = f && !ferror(f);
    if (f && f != stdin)
        (void)fclose(f); /* it was only read */
    if (!good)
        return cay_fail_errno(err, CAY_ERR_INVALID, "cannot read %s", file);
    if (len > (size_t)CAY_RECIPE_BYTES || memchr(text, 0, len))
        return cay_fail(err, CAY_ERR_INVALID, "%s is no recipe", file);
    *out = text;
    return 0;
}

static int build(struct cay_cli *cli, const char *name, struct cay_error *err)
{
    const struct image_options *o = cli->options;
    CAY_AUTO_BUF struct cay_buf body = {0};
    struct cay_json_writer w = {.buf = &body};
    const struct cay_json *job;
    char *recipe = NULL;
    int r = o->file ? read_recipe(cli, o->file, &recipe, err) : 0;
    if (!name == !o->file)
        r = cay_fail(err, CAY_ERR_INVALID, "name the image of a recipe, or give one with --file");
    if (r < 0)
        return r;
    cay_jw_object(&w, NULL);
    cay_jw_str(&w, name ? "image" : "recipe", name ? name : recipe);
    if (o->again)
        cay_jw_bool(&w, "again", true);
    cay_jw_object_end(&w);
    const char *path = cay_remote_path(cli, "images", "build", (const char *)NULL);
    r = cay_remote_call(cli, "POST", path, &body, 0, &job, err);
    if (r < 0)
        return r;
    name = cay_json_get_str(job, "image", "image");
    r = follow_job(cli, cay_json_get_str(job, "id", ""), name, err);
    if (r == 0)
        printf("%s\n", name);
    return r;
}

/* ---- the others ---- */

static int ls(struct cay_cli *cli, const char *ref, struct cay_error *err)
{
    static const char *const headings[] = {"NAME", "DIGEST", "SIZE", "USES", "AGE", NULL};
    const struct image_options *o = cli->options;
    const struct cay_json *root;
    struct cay_table t;
    (void)ref;
    int r = cay_remote_call(cli, "GET", cay_remote_path(cli, "images", (const char *)NULL), NULL, 0,
                            &root, err);
    if (r < 0)
        return r;
    if (o->remote.json) {
        cay_output_json(cli->raw);
        return 0;
    }
    cay_table_init(&t, &cli->arena, headings);
    const struct cay_json *list = cay_json_get(root, "images");
    for (const struct cay_json *v = list ? list->first : NULL; v; v = v->next) {
        const char *digest = cay_json_get_str(v, "digest", "-");
        const struct cay_json *size = cay_json_get(v, "sizeBytes");
        double bytes;
        cay_table_add(&t, cay_json_get_str(v, "name", "-"));
        cay_table_add(&t, t.human ? cay_arena_printf(&cli->arena, "%.19s", digest) : digest);
        cay_table_add(&t, t.human && cay_json_real(size, &bytes)
                              ? cay_output_size(&cli->arena, bytes)
                              : cay_output_value(size));
        cay_table_add(&t, cay_output_value(cay_json_get(v, "uses")));
        cay_table_add(
            &t, cay_output_age(&cli->arena, cay_json_get_str(v, "createdAt", "-"), cay_clock_ms()));
    }
    cay_table_print(&t, stdout);
    return 0;
}

static int inspect(struct cay_cli *cli, const char *ref, struct cay_error *err)
{
    const struct cay_json *root;
    int r = cay_remote_call(cli, "GET", ref_path(cli, NULL, ref), NULL, 0, &root, err);
    if (r == 0)
        cay_output_json(cli->raw);
    return r;
}

static int rm(struct cay_cli *cli, const char *ref, struct cay_error *err)
{
    const struct cay_json *root;
    (void)ref;
    for (size_t i = 1; i < cli->args.args.count; i++) {
        const char *path = ref_path(cli, NULL, cli->args.args.at[i]);
        int r = cay_remote_call(cli, "DELETE", path, NULL, 0, &root, err);
        if (r < 0)
            return r;
        printf("%s\n", cay_json_get_str(root, "name", ""));
    }
    return 0;
}

static int prune(struct cay_cli *cli, const char *ref, struct cay_error *err)
{
    const struct cay_json *root;
    const char *path = cay_remote_path(cli, "images", "prune", (const char *)NULL);
    (void)ref;
    int r = cay_remote_call(cli, "POST", path, NULL, PRUNE_MS, &root, err);
    if (r < 0)
        return r;
    printf("%lld layers, %s\n", (long long)cay_json_get_int(root, "layers", 0),
           cay_output_size(&cli->arena, (double)cay_json_get_int(root, "bytes", 0)));
    return 0;
}

/* A file that could not be filled is not left behind. */
static int export_it(struct cay_cli *cli, const char *ref, struct cay_error *err)
{
    const struct image_options *o = cli->options;
    const char *file = cli->args.args.at[2], *path = ref_path(cli, "export", ref);
    struct cay_progress bar;
    bool to_stdout = strcmp(file, "-") == 0;
    if (o->tag)
        path =
            cay_arena_printf(&cli->arena, "%s&tag=%s", path, cay_remote_quote(&cli->arena, o->tag));
    CAY_AUTO_FD int fd = to_stdout ? fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3)
                                   : open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot write %s", file);
    cay_progress_begin(&bar, ref, 0);
    int r = cay_transfer_get(cli, path, fd, &bar, err);
    if (r < 0 && !to_stdout)
        (void)unlink(file);
    return r;
}

static const struct verb {
    const char *name;
    size_t args_min, args_max;
    int (*run)(struct cay_cli *cli, const char *ref, struct cay_error *err);
} verbs[] = {
    {"pull", 1, 1, pull}, {"load", 1, 1, load},       {"build", 0, 1, build},
    {"ls", 0, 0, ls},     {"inspect", 1, 1, inspect}, {"export", 2, 2, export_it},
    {"rm", 1, 1000, rm},  {"prune", 0, 0, prune},
};

static int image(struct cay_cli *cli, struct cay_error *err)
{
    const struct cay_strs *args = &cli->args.args;
    for (size_t i = 0; i < CAY_COUNT(verbs); i++)
        if (strcmp(verbs[i].name, args->at[0]) == 0 && args->count > verbs[i].args_min &&
            args->count <= verbs[i].args_max + 1)
            return verbs[i].run(cli, args->count > 1 ? args->at[1] : NULL, err);
    fprintf(stderr, "usage: cay image " USAGE "\n");
    return CAY_EXIT_USAGE;
}

static const char *const policies[] = {"always", "missing", NULL};

static const struct cay_option table[] = {
    {CAY_OPTION_STRING, "policy", IMAGE_AT(policy), .arg = "always|missing",
     .help = "of pull: ask the registry also when the image is here", .otherwise = "always",
     .choices = policies},
    {CAY_OPTION_STRING, "tag", IMAGE_AT(tag), .arg = "REF",
     .help = "of export and load: the name that it is loaded by"},
    {CAY_OPTION_STRING, "file", IMAGE_AT(file), .arg = "FILE|-",
     .help = "of build: a recipe of your own"},
    {CAY_OPTION_FLAG, "again", IMAGE_AT(again),
     .help = "of build: also when there is an image of that name"},
    CAY_OPTION_END,
};

const struct cay_command cay_command_image = {
    .name = "image",
    .args = USAGE,
    .summary = "images: pull, load, build, list, look at, export, remove",
    .notes = "export takes a snapshot's id too: what was prepared in a sandbox becomes an image.",
    .options = table,
    .size = sizeof(struct image_options),
    .args_min = 1,
    .args_max = 1001,
    .remote = true,
    .run = image,
};
