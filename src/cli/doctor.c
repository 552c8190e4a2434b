/* SPDX-License-Identifier: Apache-2.0 */
/* cay doctor, cay version: how are we, and who. */
#include "cli/output.h"
#include "cli/remote.h"
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

static void print_row(const char *what, const char *verdict, const char *detail)
{
    CAY_AUTO_BUF struct cay_buf line = {0};
    cay_buf_addf(&line, "%-10s %-10s ", what, verdict);
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

static void check_here(struct cay_arena *a)
{
    struct utsname un;
    int major = 0, minor = 0;
    if (geteuid() == 0)
        print_row("root", "ok", "");
    else
        print_row("root", "note", "not root: `cay serve` with the native engine needs it");
    if (uname(&un) < 0 || sscanf(un.release, "%d.%d", &major, &minor) != 2)
        return;
    bool new_enough = major > 5 || (major == 5 && minor >= 19);
    print_row("kernel", new_enough ? "ok" : "old",
              new_enough ? un.release
                         : cay_arena_printf(a, "%s: the native engine needs 5.19", un.release));
    bool v2 = access("/sys/fs/cgroup/cgroup.controllers", F_OK) == 0;
    bool v1 = access("/sys/fs/cgroup/memory", F_OK) == 0;
    print_row("cgroups", v1 || v2 ? "ok" : "missing",
              v2   ? "version 2"
              : v1 ? "version 1"
                   : "mount them: `mount -t cgroup2 none /sys/fs/cgroup`");
}

static int doctor(struct cay_cli *cli, struct cay_error *err)
{
    const struct cay_remote_options *o = cli->options;
    const struct cay_json *root = NULL;
    int r = get_health(cli, &root, err);
    if (o->json) {
        if (r < 0)
            return r;
        cay_output_json(cli->raw);
    } else {
        check_here(&cli->arena);
        if (r < 0) {
            print_row("server", "missing", o->url);
            return r;
        }
        const char *version = cay_json_get_str(root, "version", "-");
        print_row("server", cay_json_get_str(root, "status", "-"),
                  cay_arena_printf(&cli->arena, "cay %s at %s", version, o->url));
        print_part(&cli->arena, "provider", cay_json_get(root, "provider"));
        print_part(&cli->arena, "store", cay_json_get(root, "store"));
    }
    return strcmp(cay_json_get_str(root, "status", ""), "unhealthy") == 0 ? CAY_EXIT_FAILED : 0;
}

const struct cay_command cay_command_doctor = {
    .name = "doctor",
    .args = "",
    .summary = "look for what is wrong here and at the server, and say what to do",
    .notes = "Exit status 1 when the server is unhealthy or not there.",
    .size = sizeof(struct cay_remote_options),
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
        printf("%.*s\n", (int)out.len, out.data);
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
