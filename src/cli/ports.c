/* SPDX-License-Identifier: Apache-2.0 */
/* cay ports, expose, unexpose: which ports of a sandbox may be reached. */
#include "cli/output.h"
#include "cli/remote.h"
#include "model/limits.h"
#include <stdio.h>
#include <string.h>

struct port_options {
    struct cay_remote_options remote;
    const char *name;
    bool is_public, link;
    int64_t wait_s;
};

#define AT(member) offsetof(struct port_options, member)

static int list(struct cay_cli *cli, struct cay_error *err)
{
    static const char *const headings[] = {"PORT", "NAME", "ACCESS", "URL", NULL};
    const struct cay_remote_options *o = cli->options;
    const struct cay_json *root;
    struct cay_table t;
    const char *path =
        cay_remote_path(cli, "sandbox", cli->args.args.at[0], "ports", (const char *)NULL);
    int r = cay_remote_insist(cli, "GET", path, &root, err);
    if (r < 0)
        return r;
    if (o->json) {
        cay_output_json(cli->raw);
        return 0;
    }
    cay_table_init(&t, &cli->arena, headings);
    const struct cay_json *ports = cay_json_get(root, "ports");
    for (const struct cay_json *p = ports ? ports->first : NULL; p; p = p->next) {
        cay_table_add(&t, cay_output_value(cay_json_get(p, "port")));
        cay_table_add(&t, cay_output_value(cay_json_get(p, "name")));
        cay_table_add(&t, cay_json_get_bool(p, "public", false) ? "public" : "private");
        cay_table_add(&t, cay_output_value(cay_json_get(p, "url")));
    }
    cay_table_print(&t, stdout);
    return 0;
}

const struct cay_command cay_command_ports = {
    .name = "ports",
    .args = "ID",
    .summary = "list a sandbox's exposed ports and their URLs",
    .size = sizeof(struct cay_remote_options),
    .args_min = 1,
    .args_max = 1,
    .remote = true,
    .run = list,
};

static int number_of(const char *text, uint64_t *out, struct cay_error *err)
{
    if (!cay_str_u64(text, 65535, out) || *out == 0)
        return cay_fail(err, CAY_ERR_INVALID, "%s is no port", text);
    return 0;
}

static int expose(struct cay_cli *cli, struct cay_error *err)
{
    const struct port_options *o = cli->options;
    const char *id = cli->args.args.at[0], *port = cli->args.args.at[1];
    CAY_AUTO_BUF struct cay_buf body = {0};
    struct cay_json_writer w = {.buf = &body};
    const struct cay_json *root;
    uint64_t number;
    int r = number_of(port, &number, err);
    if (r < 0)
        return r;
    cay_jw_object(&w, NULL);
    cay_jw_int(&w, "port", (int64_t)number);
    if (o->name)
        cay_jw_str(&w, "name", o->name);
    cay_jw_bool(&w, "public", o->is_public);
    cay_jw_int(&w, "waitSeconds", o->wait_s);
    cay_jw_object_end(&w);
    r = cay_remote_call(cli, "POST",
                        cay_remote_path(cli, "sandbox", id, "ports", (const char *)NULL), &body, 0,
                        &root, err);
    if (r == 0 && o->link) {
        CAY_AUTO_BUF struct cay_buf nothing = {0};
        cay_buf_adds(&nothing, "{}");
        r = cay_remote_call(
            cli, "POST",
            cay_remote_path(cli, "sandbox", id, "ports", port, "link", (const char *)NULL),
            &nothing, 0, &root, err);
    }
    if (r < 0)
        return r;
    if (o->remote.json)
        cay_output_json(cli->raw);
    else
        printf("%s\n", cay_output_value(cay_json_get(root, "url")));
    return 0;
}

static const struct cay_option expose_table[] = {
    {CAY_OPTION_FLAG, "public", AT(is_public), .help = "without a token"},
    {CAY_OPTION_FLAG, "link", AT(link),
     .help = "print a signed link, good for an hour, instead of the URL"},
    {CAY_OPTION_STRING, "name", AT(name), .arg = "TEXT", .help = "what to call it"},
    {CAY_OPTION_INTEGER, "wait", AT(wait_s), .arg = "SECONDS",
     .help = "how long a request waits for something to listen", .otherwise = "0",
     .max = CAY_MAX_PORT_WAIT_S},
    CAY_OPTION_END,
};

const struct cay_command cay_command_expose = {
    .name = "expose",
    .args = "ID PORT",
    .summary = "let a port be reached from outside and print its URL",
    .options = expose_table,
    .size = sizeof(struct port_options),
    .args_min = 2,
    .args_max = 2,
    .remote = true,
    .run = expose,
};

static int unexpose(struct cay_cli *cli, struct cay_error *err)
{
    const struct cay_remote_options *o = cli->options;
    const struct cay_json *root;
    uint64_t ignored;
    int r = number_of(cli->args.args.at[1], &ignored, err);
    if (r == 0)
        r = cay_remote_call(cli, "DELETE",
                            cay_remote_path(cli, "sandbox", cli->args.args.at[0], "ports",
                                            cli->args.args.at[1], (const char *)NULL),
                            NULL, 0, &root, err);
    if (r == 0 && o->json)
        cay_output_json(cli->raw);
    return r;
}

const struct cay_command cay_command_unexpose = {
    .name = "unexpose",
    .args = "ID PORT",
    .summary = "close a port that was exposed",
    .size = sizeof(struct cay_remote_options),
    .args_min = 2,
    .args_max = 2,
    .remote = true,
    .run = unexpose,
};
