/* SPDX-License-Identifier: Apache-2.0 */
/* cay doctor, cay version: how are we, and who. What is tried stands in doctor_*.c. */
#include "cli/doctor.h"
#include "cli/output.h"
#include "cli/remote.h"
#include <stdio.h>
#include <string.h>

static void print_row(const char *what, const char *verdict, const char *detail)
{
    CAY_AUTO_BUF struct cay_buf line = {0};
    cay_buf_addf(&line, "%-20s %-10s ", what, verdict);
    cay_output_clean(&line, detail);
    printf("%.*s\n", (int)line.len, line.data);
}

static void print_problem(const struct cay_json *p)
{
    static const char *const parts[] = {"what", "why", "fix"};
    for (size_t i = 0; i < CAY_COUNT(parts); i++) {
        CAY_AUTO_BUF struct cay_buf line = {0};
        cay_buf_addf(&line, i ? "    %s: " : "  %s: ", i ? parts[i] : "problem");
        cay_output_clean(&line, cay_json_get_str(p, parts[i], "-"));
        printf("%.*s\n", (int)line.len, line.data);
    }
}

/* A part of the server: {name, version, status, problems[]}. */
static void print_part(struct cay_arena *a, const char *what, const struct cay_json *part)
{
    if (!part || part->kind != CAY_JSON_OBJECT)
        return;
    print_row(what, cay_json_get_str(part, "status", "-"),
              cay_arena_printf(a, "%s %s", cay_json_get_str(part, "name", ""),
                               cay_json_get_str(part, "version", "")));
    const char *error = cay_json_get_str(part, "error", NULL);
    if (error)
        print_row("", "", error);
    const struct cay_json *problems = cay_json_get(part, "problems");
    for (const struct cay_json *p = problems ? problems->first : NULL; p; p = p->next)
        print_problem(p);
}

/* Unhealthy is 503 with the same body: here that is an answer, not a failure. */
static int get_health(struct cay_cli *cli, const struct cay_json **out, struct cay_error *err)
{
    CAY_AUTO_ANSWER struct cay_client_answer answer = {0};
    struct cay_client_request req = {
        .method = "GET",
        .path = cay_remote_path(cli, "health", (const char *)NULL),
        .idle_ms = 15000,
    };
    int r = cay_client_call(cli->client, &req, &answer, err);
    if (r < 0)
        return r;
    cli->raw = cay_arena_strndup(&cli->arena, answer.body.data, answer.body.len);
    const struct cay_json *root = NULL;
    struct cay_error broken;
    if (cay_json_parse(&cli->arena, answer.body.data, answer.body.len, &root, &broken) < 0)
        root = NULL;
    if (!cay_json_get_str(root, "status", NULL)) {
        r = cay_remote_check(cli, &answer, err);
        return r < 0 ? r : cay_fail(err, CAY_ERR_PROVIDER, "what answers there is not cay");
    }
    *out = root;
    return 0;
}

struct doctor_options {
    struct cay_remote_options remote;
    struct cay_place place;
};

static const struct cay_probe *const tables[] = {cay_doctor_limits, cay_doctor_kernel,
                                                 cay_doctor_cgroups, cay_doctor_files};

static const char *const verdicts[] = {
    [CAY_FINE] = "ok", [CAY_NOTED] = "note", [CAY_UNTRIED] = "untried", [CAY_LACKING] = "missing"};

struct findings {
    struct cay_json_writer *json; /* NULL: to people, as it comes */
    int fatal, lacking, untried;
};

static void tell(struct findings *f, const struct cay_probe *p, const struct cay_found *found)
{
    bool lacking = found->verdict == CAY_LACKING;
    f->fatal += lacking && p->needed;
    f->lacking += lacking && !p->needed;
    f->untried += found->verdict == CAY_UNTRIED;
    if (f->json) {
        cay_jw_object(f->json, NULL);
        cay_jw_str(f->json, "what", p->what);
        cay_jw_str(f->json, "status", verdicts[found->verdict]);
        cay_jw_bool(f->json, "needed", p->needed);
        cay_jw_str(f->json, "detail", found->detail);
        cay_jw_str(f->json, "lost", lacking ? p->lost : NULL);
        cay_jw_str(f->json, "fix", lacking ? p->fix : NULL);
        cay_jw_object_end(f->json);
        return;
    }
    print_row(p->what, verdicts[found->verdict], found->detail);
    if (lacking)
        printf("  %s: %s\n  to get it: %s\n", p->needed ? "NEEDED" : "lost", p->lost, p->fix);
}

static void look_here(const struct cay_place *place, struct findings *f)
{
    for (size_t t = 0; t < CAY_COUNT(tables); t++)
        for (const struct cay_probe *p = tables[t]; p->what; p++) {
            struct cay_found found = {0};
            cay_doctor_try(p, place, &found);
            tell(f, p, &found);
        }
}

static void print_server(struct cay_cli *cli, const struct cay_json *root)
{
    const struct doctor_options *o = cli->options;
    if (!root) {
        print_row("server", "note", cay_arena_printf(&cli->arena, "none at %s", o->remote.url));
        return;
    }
    print_row("server", cay_json_get_str(root, "status", "-"),
              cay_arena_printf(&cli->arena, "cay %s at %s", cay_json_get_str(root, "version", "-"),
                               o->remote.url));
    print_part(&cli->arena, "provider", cay_json_get(root, "provider"));
    print_part(&cli->arena, "store", cay_json_get(root, "store"));
}

static void print_verdict(const struct findings *f)
{
    printf("\n%sserver %s run here",
           f->untried && !f->fatal ? "As far as could be tried, a " : "A ",
           f->fatal ? "cannot" : "can");
    if (f->fatal || f->lacking)
        printf("; missing: %d that it needs, %d that it would use", f->fatal, f->lacking);
    if (f->untried)
        printf("; %d could not be tried, run `cay doctor` as root", f->untried);
    puts(".");
}

static int doctor(struct cay_cli *cli, struct cay_error *err)
{
    const struct doctor_options *o = cli->options;
    const struct cay_json *root = NULL;
    struct cay_error away; /* that there is no server is no fault of this machine */
    CAY_AUTO_BUF struct cay_buf out = {0};
    struct cay_json_writer w = {.buf = &out};
    struct findings f = {.json = o->remote.json ? &w : NULL};
    (void)err;
    if (get_health(cli, &root, &away) < 0)
        root = NULL;
    cli->api_code[0] = 0;
    bool ill = root && strcmp(cay_json_get_str(root, "status", ""), "unhealthy") == 0;
    if (f.json) {
        cay_jw_object(&w, NULL);
        cay_jw_array(&w, "host");
    }
    struct cay_place place = o->place;
    place.served = root != NULL;
    look_here(&place, &f);
    if (!f.json) {
        print_server(cli, root);
        print_verdict(&f);
        return f.fatal || ill ? CAY_EXIT_FAILED : 0;
    }
    cay_jw_array_end(&w);
    cay_jw_bool(&w, "canServe", f.fatal == 0);
    cay_jw_int(&w, "untried", f.untried);
    if (root)
        cay_jw_raw(&w, "server", cli->raw, strlen(cli->raw));
    else
        cay_jw_null(&w, "server");
    cay_jw_object_end(&w);
    (void)cay_output_line(out.data, out.len); /* a closed stdout is noticed at its flush */
    return f.fatal || ill ? CAY_EXIT_FAILED : 0;
}

#define PLACE_AT(member) offsetof(struct doctor_options, place.member)
static const struct cay_option doctor_table[] = {
    {CAY_OPTION_STRING, "data", PLACE_AT(data), .arg = "DIR", .help = "as `cay serve` takes it",
     .variable = "CAY_DATA", .otherwise = "/var/lib/cay"},
    {CAY_OPTION_STRING, "images", PLACE_AT(images), .arg = "DIR", .help = "the same",
     .variable = "CAY_IMAGES"},
    {CAY_OPTION_STRING, "listen", PLACE_AT(listen), .arg = "ADDR:PORT", .help = "the same",
     .variable = "CAY_LISTEN", .otherwise = "127.0.0.1:3000"},
    CAY_OPTION_END,
};

const struct cay_command cay_command_doctor = {
    .name = "doctor",
    .args = "",
    .summary = "try what a server needs of this machine, and say what is lost without it",
    .notes = "Everything is tried for real and taken back. Exit status 1 when a server cannot run\n"
             "here, or when the one that runs is unhealthy.",
    .options = doctor_table,
    .size = sizeof(struct doctor_options),
    .remote = true,
    .run = doctor,
};

static int version(struct cay_cli *cli, struct cay_error *err)
{
    const struct cay_remote_options *o = cli->options;
    const struct cay_json *root = NULL;
    struct cay_error away = {0};
    (void)err; /* that there is no server is an answer too */
    bool there = get_health(cli, &root, &away) >= 0;
    cli->api_code[0] = 0;
    const char *server = there ? cay_json_get_str(root, "version", NULL) : NULL;
    if (o->json) {
        CAY_AUTO_BUF struct cay_buf out = {0};
        struct cay_json_writer w = {.buf = &out};
        cay_jw_object(&w, NULL);
        cay_jw_str(&w, "version", CAY_VERSION);
        if (there) {
            cay_jw_object(&w, "server");
            cay_jw_str(&w, "url", o->url);
            cay_jw_str(&w, "version", server);
            cay_jw_object_end(&w);
        } else {
            cay_jw_null(&w, "server");
        }
        cay_jw_object_end(&w);
        (void)cay_output_line(out.data, out.len); /* a closed stdout is noticed at its flush */
        return 0;
    }
    CAY_AUTO_BUF struct cay_buf line = {0};
    cay_output_clean(&line, server ? server : away.msg);
    printf("client  %s\nserver  %.*s\n", CAY_VERSION, (int)line.len, line.data ? line.data : "");
    return 0;
}

const struct cay_command cay_command_version = {
    .name = "version",
    .args = "",
    .summary = "print the versions of this program and of the server",
    .size = sizeof(struct cay_remote_options),
    .remote = true,
    .run = version,
};
