/* SPDX-License-Identifier: Apache-2.0 */
/* cay network: what a sandbox may reach, what it wanted to, and what it would need. */
#include "cli/network.h"
#include "base/clock.h"
#include "cli/output.h"
#include "cli/remote.h"
#include "cli/secret.h"
#include <string.h>

struct network_options {
    struct cay_remote_options remote;
    struct cay_strs allow, deny;
    struct cay_edge_options edge;
    bool open, off, observe, apply;
};

static void put_rules(struct cay_json_writer *w, const char *text)
{
    while (*text) {
        size_t len = strcspn(text, ",");
        if (len > 0)
            cay_jw_strn(w, NULL, text, len);
        text += len + (text[len] == ',');
    }
}

static void put_list(struct cay_json_writer *w, const char *key, const struct cay_strs *rules)
{
    cay_jw_array(w, key);
    for (size_t i = 0; i < rules->count; i++)
        put_rules(w, rules->at[i]);
    cay_jw_array_end(w);
}

/* As it is asked for. */
struct asked {
    const char *mode;
    struct cay_strs allow, deny; /* rules, with commas between */
    struct cay_pairs headers;    /* "HOST/NAME" */
};

static bool is_same_host(const struct cay_pair *one, const struct cay_pair *other)
{
    size_t len = strcspn(one->key, "/");
    return strncmp(one->key, other->key, len + 1) == 0;
}

static void put_headers(struct cay_json_writer *w, struct cay_arena *a, const struct cay_pairs *all)
{
    cay_jw_object(w, "headers");
    for (size_t i = 0; i < all->count; i++) {
        size_t len = strcspn(all->at[i].key, "/"), k = 0;
        while (!is_same_host(&all->at[i], &all->at[k]))
            k++;
        if (k < i)
            continue; /* it was among those of the first */
        cay_jw_object(w, cay_arena_strndup(a, all->at[i].key, len));
        for (; k < all->count; k++)
            if (is_same_host(&all->at[i], &all->at[k]))
                cay_jw_str(w, all->at[k].key + len + 1, all->at[k].value);
        cay_jw_object_end(w);
    }
    cay_jw_object_end(w);
}

static void put_policy(struct cay_json_writer *w, struct cay_arena *a, const struct asked *p)
{
    if (p->allow.count + p->deny.count + p->headers.count == 0) {
        cay_jw_str(w, "networkPolicy", p->mode);
        return;
    }
    cay_jw_object(w, "networkPolicy");
    cay_jw_str(w, "mode", p->mode);
    if (p->allow.count > 0)
        put_list(w, "allow", &p->allow);
    if (p->deny.count > 0)
        put_list(w, "deny", &p->deny);
    if (p->headers.count > 0)
        put_headers(w, a, &p->headers);
    cay_jw_object_end(w);
}

static int read_headers(struct cay_arena *a, const struct cay_edge_options *edge,
                        struct cay_pairs *out, struct cay_error *err)
{
    int r = cay_secret_variables(a, "edge-header", &edge->headers, out, err);
    if (r == 0)
        r = cay_secret_files(a, "edge-header-file", &edge->header_files, out, err);
    for (size_t i = 0; i < out->count && r == 0; i++)
        if (!strchr(out->at[i].key, '/'))
            r = cay_fail(err, CAY_ERR_INVALID, "--edge-header: \"%s\" is not HOST/NAME",
                         out->at[i].key);
    return r;
}

int cay_network_put(struct cay_json_writer *w, struct cay_arena *a, const char *text,
                    const struct cay_edge_options *edge, struct cay_error *err)
{
    static const struct {
        const char *word, *mode;
    } words[] = {{"off", "deny-all"}, {"open", "allow-all"}, {"observe", "observe"}};
    struct asked p = {.mode = text ? "custom" : "allow-all"};
    int r = read_headers(a, edge, &p.headers, err);
    if (r < 0 || (!text && p.headers.count == 0))
        return r;
    for (size_t i = 0; text && i < CAY_COUNT(words); i++)
        if (strcmp(text, words[i].word) == 0)
            p.mode = words[i].mode;
    if (strcmp(p.mode, "custom") == 0)
        cay_strs_push(a, &p.allow, text);
    put_policy(w, a, &p);
    return 0;
}

static void print_wanted(struct cay_cli *cli, const struct cay_json *list)
{
    static const char *const headings[] = {"NAME", "ADDRESS",  "PORT", "VERDICT",         "TIMES",
                                           "SENT", "RECEIVED", "LAST", (const char *)NULL};
    static const char *const plain[] = {"name", "address", "port", "verdict", "count"};
    struct cay_table t;
    cay_table_init(&t, &cli->arena, headings);
    for (const struct cay_json *v = list ? list->first : NULL; v; v = v->next) {
        for (size_t i = 0; i < CAY_COUNT(plain); i++)
            cay_table_add(&t, cay_output_value(cay_json_get(v, plain[i])));
        cay_table_add(&t,
                      cay_output_size(&cli->arena, (double)cay_json_get_int(v, "sentBytes", 0)));
        cay_table_add(
            &t, cay_output_size(&cli->arena, (double)cay_json_get_int(v, "receivedBytes", 0)));
        cay_table_add(
            &t, cay_output_age(&cli->arena, cay_json_get_str(v, "lastAt", ""), cay_clock_ms()));
    }
    cay_table_print(&t, stdout);
}

static void print_policy(const struct cay_json *policy)
{
    const struct cay_json *allow = policy ? cay_json_get(policy, "allow") : NULL;
    for (const struct cay_json *v = allow ? allow->first : NULL; v; v = v->next) {
        CAY_AUTO_BUF struct cay_buf line = {0};
        cay_output_clean(&line, cay_output_value(v));
        printf("%.*s\n", (int)line.len, line.data);
    }
}

static int patch(struct cay_cli *cli, const char *id, const struct cay_buf *body,
                 struct cay_error *err)
{
    const struct cay_json *root;
    const char *path = cay_remote_path(cli, "sandbox", id, (const char *)NULL);
    int r = cay_remote_call(cli, "PATCH", path, body, 0, &root, err);
    return r < 0 ? r : 0;
}

static int set(struct cay_cli *cli, const struct network_options *o, const char *id,
               struct cay_error *err)
{
    CAY_AUTO_BUF struct cay_buf body = {0};
    struct cay_json_writer w = {.buf = &body};
    struct asked p = {.mode = o->off               ? "deny-all"
                              : o->observe         ? "observe"
                              : o->allow.count > 0 ? "custom"
                                                   : "allow-all",
                      .allow = o->allow,
                      .deny = o->deny};
    int r = read_headers(&cli->arena, &o->edge, &p.headers, err);
    if (r < 0)
        return r;
    cay_jw_object(&w, NULL);
    put_policy(&w, &cli->arena, &p);
    cay_jw_object_end(&w);
    r = patch(cli, id, &body, err);
    if (r == 0 && o->remote.json)
        cay_output_json(cli->raw);
    return r;
}

static int propose(struct cay_cli *cli, const struct network_options *o, const char *id,
                   struct cay_error *err)
{
    const struct cay_json *root;
    const char *path =
        cay_remote_path(cli, "sandbox", id, "network", "propose", (const char *)NULL);
    int r = cay_remote_call(cli, "POST", path, NULL, 0, &root, err);
    if (r < 0)
        return r;
    const struct cay_json *policy = cay_json_get(root, "networkPolicy");
    if (o->remote.json)
        cay_output_json(cli->raw);
    else
        print_policy(policy);
    if (!o->apply)
        return 0;
    CAY_AUTO_BUF struct cay_buf body = {0};
    struct cay_json_writer w = {.buf = &body};
    const struct cay_json *allow = policy ? cay_json_get(policy, "allow") : NULL;
    cay_jw_object(&w, NULL);
    cay_jw_object(&w, "networkPolicy");
    cay_jw_array(&w, "allow");
    for (const struct cay_json *v = allow ? allow->first : NULL; v; v = v->next)
        cay_jw_str(&w, NULL, v->text);
    cay_jw_array_end(&w);
    cay_jw_object_end(&w);
    cay_jw_object_end(&w);
    return patch(cli, id, &body, err);
}

static int show(struct cay_cli *cli, const struct network_options *o, const char *id,
                struct cay_error *err)
{
    const struct cay_json *root;
    const char *path = cay_remote_path(cli, "sandbox", id, "network", (const char *)NULL);
    int r = cay_remote_call(cli, "GET", path, NULL, 0, &root, err);
    if (r < 0)
        return r;
    if (o->remote.json)
        cay_output_json(cli->raw);
    else
        print_wanted(cli, cay_json_get(root, "wanted"));
    return 0;
}

static int network(struct cay_cli *cli, struct cay_error *err)
{
    const struct network_options *o = cli->options;
    const struct cay_strs *args = &cli->args.args;
    bool proposes = args->count == 2;
    int says = o->off + o->observe + (o->open || o->deny.count > 0 || o->allow.count > 0);
    if (proposes && strcmp(args->at[0], "propose") != 0)
        return cay_fail(err, CAY_ERR_INVALID, "cay network ID, or cay network propose ID");
    bool edge = o->edge.headers.count + o->edge.header_files.count > 0;
    if (says > 1 || (o->open && o->allow.count > 0) || (proposes && says) ||
        (!proposes && o->apply) || (edge && !says))
        return cay_fail(err, CAY_ERR_INVALID, "these options contradict each other");
    if (proposes)
        return propose(cli, o, args->at[1], err);
    return says ? set(cli, o, args->at[0], err) : show(cli, o, args->at[0], err);
}

#define AT(member) offsetof(struct network_options, member)

static const struct cay_option table[] = {
    {CAY_OPTION_LIST, "allow", AT(allow), .arg = "RULE,…",
     .help = "it may reach these and nothing else, like *.debian.org:80"},
    {CAY_OPTION_LIST, "deny", AT(deny), .arg = "RULE,…", .help = "it may not reach these"},
    {CAY_OPTION_FLAG, "open", AT(open), .help = "it may reach all that is public"},
    {CAY_OPTION_FLAG, "off", AT(off), .help = "it may reach nothing"},
    {CAY_OPTION_FLAG, "observe", AT(observe), .help = "open, to find out what it needs"},
    CAY_EDGE_OPTIONS(AT(edge)),
    {CAY_OPTION_FLAG, "apply", AT(apply), .help = "of propose: make it the policy"},
    CAY_OPTION_END,
};

const struct cay_command cay_command_network = {
    .name = "network",
    .args = "[propose] ID",
    .summary = "show what a sandbox wanted to reach, say what it may, or propose it",
    .notes = "A rule is a name (example.com, *.example.com, *), an address or a net, with or "
             "without ports:\nexample.com:443, *.example.com:80-90, 192.0.2.0/24, "
             "[2001:db8::1]:443.",
    .options = table,
    .size = sizeof(struct network_options),
    .args_min = 1,
    .args_max = 2,
    .remote = true,
    .run = network,
};
