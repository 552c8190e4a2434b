/* SPDX-License-Identifier: Apache-2.0 */
/* cay account, key, team, quota: who may come in, and what each may use.
 *
 * With a token they ask the server like every other command, as whom the token is. Without one they
 * go by the socket in the data directory, which only root and the server's user may open, and act
 * for the account that --account names: so the first key is made. */
#include "base/clock.h"
#include "cli/output.h"
#include "cli/remote.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

struct access_options {
    struct cay_remote_options remote;
    const char *data, *account, *name, *team, *scopes;
    int64_t expires_ms;
};

#define AT(member) offsetof(struct access_options, member)

#define WHERE                                                                                      \
    {CAY_OPTION_STRING,                                                                            \
     "data",                                                                                       \
     AT(data),                                                                                     \
     .arg = "DIR",                                                                                 \
     .help = "without a token: the server's data directory",                                       \
     .variable = "CAY_DATA",                                                                       \
     .otherwise = "/var/lib/cay"},                                                                 \
        {CAY_OPTION_STRING,                                                                        \
         "account",                                                                                \
         AT(account),                                                                              \
         .arg = "NAME",                                                                            \
         .help = "without a token: for whom; by default local",                                    \
         .otherwise = "local"},                                                                    \
    {                                                                                              \
        CAY_OPTION_STRING, "team", AT(team), .arg = "ID", .help = "for this team instead"          \
    }

static int connect_operator(const struct access_options *o, struct cay_error *err)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int len = snprintf(addr.sun_path, sizeof addr.sun_path, "%s/run/admin.sock", o->data);
    if (len < 0 || (size_t)len >= sizeof addr.sun_path)
        return cay_fail(err, CAY_ERR_INVALID, "%s is too long for a socket's path", o->data);
    CAY_AUTO_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&addr, sizeof addr) < 0) {
        if (errno == EACCES)
            return cay_fail(err, CAY_ERR_FORBIDDEN,
                            "%s is root's and the server's; try sudo, or set CAY_TOKEN",
                            addr.sun_path);
        return cay_fail_errno(err, CAY_ERR_UNAVAILABLE, "no server at %s", addr.sun_path);
    }
    return cay_take_fd(&fd);
}

static int begin(struct cay_cli *cli, struct cay_error *err)
{
    const struct access_options *o = cli->options;
    if (o->remote.token && *o->remote.token)
        return 0;
    int fd = connect_operator(o, err);
    if (fd < 0)
        return fd;
    cay_client_use_fd(cli->client, fd);
    return cay_client_act_for(cli->client, o->team ? o->team : o->account, err);
}

static int call(struct cay_cli *cli, const char *method, const char *path,
                const struct cay_buf *body, const struct cay_json **out, struct cay_error *err)
{
    const struct access_options *o = cli->options;
    const char *team = body ? NULL : o->team; /* a body names it itself */
    if (team)
        path = cay_arena_printf(&cli->arena, "%s?team_id=%s", path,
                                cay_remote_quote(&cli->arena, team));
    return cay_remote_call(cli, method, path, body, 0, out, err);
}

/* One field of each row in a column. */
static void print_rows(struct cay_cli *cli, const struct cay_json *rows, const char *const *names,
                       const char *const *headings)
{
    struct cay_table t;
    cay_table_init(&t, &cli->arena, headings);
    for (const struct cay_json *v = rows ? rows->first : NULL; v; v = v->next)
        for (size_t i = 0; names[i]; i++) {
            const struct cay_json *field = cay_json_get(v, names[i]);
            CAY_AUTO_BUF struct cay_buf list = {0};
            if (field && field->kind == CAY_JSON_ARRAY)
                for (const struct cay_json *w = field->first; w; w = w->next)
                    cay_buf_addf(&list, "%s%s", list.len ? "," : "", w->text);
            cay_table_add(&t, list.len ? cay_arena_strndup(&cli->arena, list.data, list.len)
                                       : cay_output_value(field));
        }
    cay_table_print(&t, stdout);
}

static int list(struct cay_cli *cli, const char *path, const char *what, const char *const *names,
                const char *const *headings, struct cay_error *err)
{
    const struct access_options *o = cli->options;
    const struct cay_json *root;
    int r = call(cli, "GET", path, NULL, &root, err);
    if (r < 0)
        return r;
    if (o->remote.json)
        cay_output_json(cli->raw);
    else
        print_rows(cli, cay_json_get(root, what), names, headings);
    return 0;
}

/* Prints a field of the answer, or all of it. */
static int change(struct cay_cli *cli, const char *method, const char *path,
                  const struct cay_buf *body, const char *tell, struct cay_error *err)
{
    const struct access_options *o = cli->options;
    const struct cay_json *root;
    int r = call(cli, method, path, body, &root, err);
    if (r < 0)
        return r;
    if (o->remote.json)
        cay_output_json(cli->raw);
    else
        printf("%s\n", cay_json_get_str(root, tell, ""));
    return 0;
}

static int named(struct cay_cli *cli, const char *path, const char *name, struct cay_error *err)
{
    CAY_AUTO_BUF struct cay_buf body = {0};
    struct cay_json_writer w = {.buf = &body};
    cay_jw_object(&w, NULL);
    cay_jw_str(&w, "name", name);
    cay_jw_object_end(&w);
    return change(cli, "POST", path, &body, "id", err);
}

/* ---- key ---- */

static int key_create(struct cay_cli *cli, struct cay_error *err)
{
    const struct access_options *o = cli->options;
    CAY_AUTO_BUF struct cay_buf body = {0};
    struct cay_json_writer w = {.buf = &body};
    char iso[CAY_ISO_SIZE];
    cay_jw_object(&w, NULL);
    cay_jw_str(&w, "name", o->name);
    if (o->team)
        cay_jw_str(&w, "teamId", o->team);
    if (o->expires_ms > 0)
        cay_jw_str(&w, "expiresAt", cay_clock_iso(cay_clock_ms() + o->expires_ms, iso));
    if (o->scopes) {
        char *words = cay_arena_strdup(&cli->arena, o->scopes), *left;
        cay_jw_array(&w, "scopes");
        for (char *at = strtok_r(words, ",", &left); at; at = strtok_r(NULL, ",", &left))
            cay_jw_str(&w, NULL, at);
        cay_jw_array_end(&w);
    }
    cay_jw_object_end(&w);
    return change(cli, "POST", "/api/v1/account/keys", &body, "token", err);
}

static int remove_each(struct cay_cli *cli, const char *under, struct cay_error *err)
{
    for (size_t i = 1; i < cli->args.args.count; i++) {
        const char *id = cay_remote_quote(&cli->arena, cli->args.args.at[i]);
        int r = change(cli, "DELETE", cay_arena_printf(&cli->arena, "/api/v1/%s/%s", under, id),
                       NULL, "id", err);
        if (r < 0)
            return r;
    }
    return 0;
}

static int key_list(struct cay_cli *cli, struct cay_error *err)
{
    static const char *const names[] = {"id",        "name",       "scopes",    "createdAt",
                                        "expiresAt", "lastUsedAt", "revokedAt", NULL};
    static const char *const headings[] = {"ID",      "NAME",      "SCOPES",  "CREATED",
                                           "EXPIRES", "LAST USED", "REVOKED", NULL};
    return list(cli, "/api/v1/account/keys", "keys", names, headings, err);
}

static int key_remove(struct cay_cli *cli, struct cay_error *err)
{
    return remove_each(cli, "account/keys", err);
}

/* ---- account ---- */

static int account_list(struct cay_cli *cli, struct cay_error *err)
{
    static const char *const names[] = {"id", "name", "createdAt", NULL};
    static const char *const headings[] = {"ID", "NAME", "CREATED", NULL};
    return list(cli, "/api/v1/accounts", "accounts", names, headings, err);
}

static int account_create(struct cay_cli *cli, struct cay_error *err)
{
    return named(cli, "/api/v1/accounts", cli->args.args.at[1], err);
}

static int account_remove(struct cay_cli *cli, struct cay_error *err)
{
    return remove_each(cli, "accounts", err);
}

static int account_show(struct cay_cli *cli, struct cay_error *err)
{
    const struct access_options *o = cli->options;
    const struct cay_json *root;
    int r = cay_remote_call(cli, "GET", "/api/v1/account", NULL, 0, &root, err);
    if (r < 0)
        return r;
    if (o->remote.json)
        cay_output_json(cli->raw);
    else
        printf("%s\t%s\n", cay_json_get_str(root, "id", "-"), cay_json_get_str(root, "name", "-"));
    return 0;
}

/* ---- team ---- */

static int team_list(struct cay_cli *cli, struct cay_error *err)
{
    static const char *const names[] = {"id", "name", "role", NULL};
    static const char *const headings[] = {"ID", "NAME", "ROLE", NULL};
    return list(cli, "/api/v1/teams", "teams", names, headings, err);
}

static int team_create(struct cay_cli *cli, struct cay_error *err)
{
    return named(cli, "/api/v1/teams", cli->args.args.at[1], err);
}

static int team_remove(struct cay_cli *cli, struct cay_error *err)
{
    return remove_each(cli, "teams", err);
}

static int team_members(struct cay_cli *cli, struct cay_error *err)
{
    static const char *const names[] = {"accountId", "name", "role", "addedAt", NULL};
    static const char *const headings[] = {"ACCOUNT", "NAME", "ROLE", "ADDED", NULL};
    return list(cli, cay_remote_path(cli, "teams", cli->args.args.at[1], (const char *)NULL),
                "members", names, headings, err);
}

/* TEAM ACCOUNT ROLE; the role none takes him out. */
static int team_set(struct cay_cli *cli, struct cay_error *err)
{
    const char *const *args = cli->args.args.at;
    const char *path =
        cay_remote_path(cli, "teams", args[1], "members", args[2], (const char *)NULL);
    CAY_AUTO_BUF struct cay_buf body = {0};
    struct cay_json_writer w = {.buf = &body};
    if (strcmp(args[3], "none") == 0)
        return change(cli, "DELETE", path, NULL, "id", err);
    cay_jw_object(&w, NULL);
    cay_jw_str(&w, "role", args[3]);
    cay_jw_object_end(&w);
    return change(cli, "PUT", path, &body, "accountId", err);
}

/* ---- quota ---- */

static int quota_show(struct cay_cli *cli, struct cay_error *err)
{
    static const char *const headings[] = {"QUOTA", "LIMIT", "USED", NULL};
    const struct access_options *o = cli->options;
    const struct cay_json *root;
    struct cay_table t;
    int r = call(cli, "GET", "/api/v1/quota", NULL, &root, err);
    if (r < 0)
        return r;
    if (o->remote.json) {
        cay_output_json(cli->raw);
        return 0;
    }
    const struct cay_json *all = cay_json_get(root, "quotas");
    cay_table_init(&t, &cli->arena, headings);
    for (const struct cay_json *v = all ? all->first : NULL; v; v = v->next) {
        cay_table_add(&t, v->key);
        cay_table_add(&t, cay_output_value(cay_json_get(v, "limit")));
        cay_table_add(&t, cay_output_value(cay_json_get(v, "used")));
    }
    cay_table_print(&t, stdout);
    return 0;
}

static int put_named(struct cay_cli *cli, const char *text, struct cay_json_writer *w,
                     struct cay_error *err)
{
    char *name = cay_arena_strdup(&cli->arena, text);
    char *value = strchr(name, '='), *end = NULL;
    int64_t bytes;
    if (!value)
        return cay_fail(err, CAY_ERR_INVALID, "%s is not NAME=NUMBER", name);
    *value++ = 0;
    double number = strtod(value, &end);
    if (strcmp(value, "none") == 0)
        cay_jw_null(w, name);
    else if (cay_str_ends(name, "Bytes") && *end && cay_options_size(value, &bytes))
        cay_jw_int(w, name, bytes);
    else if (*value && !*end)
        cay_jw_real(w, name, number);
    else
        return cay_fail(err, CAY_ERR_INVALID, "%s of %s is no number", value, name);
    return 0;
}

static bool is_named(const struct cay_strs *args, const char *quota)
{
    size_t len = strlen(quota);
    for (size_t i = 1; i < args->count; i++)
        if (strncmp(args->at[i], quota, len) == 0 && args->at[i][len] == '=')
            return true;
    return false;
}

/* NAME=NUMBER…; sizes may have a unit, and none is no bound. The others stay as they are. */
static int quota_set(struct cay_cli *cli, struct cay_error *err)
{
    CAY_AUTO_BUF struct cay_buf body = {0};
    struct cay_json_writer w = {.buf = &body};
    const struct cay_strs *args = &cli->args.args;
    const struct cay_json *root;
    double limit;
    int r = call(cli, "GET", "/api/v1/quota", NULL, &root, err);
    cay_jw_object(&w, NULL);
    for (size_t i = 1; i < args->count && r == 0; i++)
        r = put_named(cli, args->at[i], &w, err);
    if (r < 0)
        return r;
    const struct cay_json *all = cay_json_get(root, "quotas");
    for (const struct cay_json *v = all ? all->first : NULL; v; v = v->next)
        if (!is_named(args, v->key) && cay_json_real(cay_json_get(v, "limit"), &limit))
            cay_jw_real(&w, v->key, limit);
    cay_jw_object_end(&w);
    return change(cli, "PUT", "/api/v1/quota", &body, "accountId", err);
}

/* ---- the commands ---- */

struct verb {
    const char *name;
    size_t least, most; /* words behind it */
    int (*run)(struct cay_cli *cli, struct cay_error *err);
};

/* The first without any word is the first of the table. */
static int run_verb(struct cay_cli *cli, const struct verb *verbs, struct cay_error *err)
{
    const struct cay_strs *args = &cli->args.args;
    size_t words = args->count > 0 ? args->count - 1 : 0;
    for (const struct verb *v = verbs; v->name; v++) {
        bool named_so = args->count == 0 || strcmp(args->at[0], v->name) == 0;
        if (!named_so || words < v->least || words > v->most)
            continue;
        int r = begin(cli, err);
        return r < 0 ? r : v->run(cli, err);
    }
    fprintf(stderr, "usage: cay %s %s\n", cli->command->name, cli->command->args);
    return CAY_EXIT_USAGE;
}

#define WORDS_MAX 1000

#define ACCESS_COMMAND(word, usage, what, table, ...)                                              \
    static const struct verb word##_verbs[] = {__VA_ARGS__, {0}};                                  \
    static int run_##word(struct cay_cli *cli, struct cay_error *err)                              \
    {                                                                                              \
        return run_verb(cli, word##_verbs, err);                                                   \
    }                                                                                              \
    const struct cay_command cay_command_##word = {                                                \
        .name = #word,                                                                             \
        .args = usage,                                                                             \
        .summary = what,                                                                           \
        .notes = "With CAY_TOKEN it asks the server as whom the token is; without, on the "        \
                 "server's machine,\nit goes by the socket in the data directory.",                \
        .options = table,                                                                          \
        .size = sizeof(struct access_options),                                                     \
        .args_max = WORDS_MAX,                                                                     \
        .remote = true,                                                                            \
        .run = run_##word,                                                                         \
    }

static const struct cay_option where_table[] = {WHERE, CAY_OPTION_END};

static const struct cay_option key_table[] = {
    {CAY_OPTION_STRING, "name", AT(name), .arg = "TEXT", .help = "what to call a new key",
     .otherwise = "key"},
    {CAY_OPTION_STRING, "scopes", AT(scopes), .arg = "LIST",
     .help = "what it allows: read, exec, write, account, with commas; by default write, which "
             "includes the two before it"},
    {CAY_OPTION_DURATION, "expires", AT(expires_ms), .arg = "TIME",
     .help = "how long it is good for; by default for ever", .otherwise = "0"},
    WHERE,
    CAY_OPTION_END,
};

ACCESS_COMMAND(key, "[ls | create | rm ID...]",
               "list keys, make one and print it once, or revoke some", key_table,
               {"ls", 0, 0, key_list}, {"create", 0, 0, key_create},
               {"rm", 1, WORDS_MAX, key_remove});
ACCESS_COMMAND(account, "[show | ls | create NAME | rm NAME...]",
               "show the account, or keep accounts, as the operator", where_table,
               {"show", 0, 0, account_show}, {"ls", 0, 0, account_list},
               {"create", 1, 1, account_create}, {"rm", 1, WORDS_MAX, account_remove});
ACCESS_COMMAND(team, "[ls | create NAME | rm ID... | members ID | set ID ACCOUNT ROLE]",
               "teams, and who belongs to them as viewer, member or owner (none: not any more)",
               where_table, {"ls", 0, 0, team_list}, {"create", 1, 1, team_create},
               {"rm", 1, WORDS_MAX, team_remove}, {"members", 1, 1, team_members},
               {"set", 3, 3, team_set});
ACCESS_COMMAND(quota, "[show | set NAME=NUMBER|none...]",
               "show what may be used and is, or set some of it, as the operator", where_table,
               {"show", 0, 0, quota_show}, {"set", 1, WORDS_MAX, quota_set});
