/* SPDX-License-Identifier: Apache-2.0 */
/* Reading options. The file's name may itself come from an option, so the command line is read
 * twice: once to learn the name, once on top of defaults, file and variables. */
#include "cli/options.h"
#include "base/path.h"
#include <ctype.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <strings.h>

struct parse {
    const struct cay_options *o;
    struct cay_arena *a;
    char *values;
    struct cay_error *err;
};

struct unit {
    const char *name;
    double factor;
};

/* A decimal number and one of the units; the first stands for none. */
static bool parse_unit(const char *text, const struct unit *units, int64_t *out)
{
    char *end;
    if (!isdigit((unsigned char)text[0]) || text[1] == 'x' || text[1] == 'X')
        return false;
    double n = strtod(text, &end);
    for (const struct unit *u = units; u->name; u++) {
        if (strcasecmp(end, u->name) != 0)
            continue;
        n *= u->factor;
        if (!isfinite(n) || n > 9e15)
            return false;
        *out = (int64_t)(n + 0.5);
        return true;
    }
    return false;
}

bool cay_options_size(const char *text, int64_t *bytes_out)
{
    static const struct unit units[] = {
        {"", 1},         {"b", 1},       {"k", 1024},     {"kb", 1024},    {"kib", 1024},
        {"m", 0x1p20},   {"mb", 0x1p20}, {"mib", 0x1p20}, {"g", 0x1p30},   {"gb", 0x1p30},
        {"gib", 0x1p30}, {"t", 0x1p40},  {"tb", 0x1p40},  {"tib", 0x1p40}, {NULL, 0},
    };
    return parse_unit(text, units, bytes_out);
}

bool cay_options_duration(const char *text, int64_t *ms_out)
{
    static const struct unit units[] = {
        {"", 1000},     {"ms", 1},       {"s", 1000}, {"m", 60000},
        {"h", 3600000}, {"d", 86400000}, {NULL, 0},
    };
    return parse_unit(text, units, ms_out);
}

static int refuse(struct parse *p, const char *where, const char *text, const char *want)
{
    return cay_fail(p->err, CAY_ERR_INVALID, "%s: \"%s\" is not %s", where, text, want);
}

static int set_number(struct parse *p, const struct cay_option *opt, const char *text,
                      const char *where)
{
    int64_t n = 0;
    bool good = opt->kind == CAY_OPTION_INTEGER ? cay_str_i64(text, &n)
                : opt->kind == CAY_OPTION_SIZE  ? cay_options_size(text, &n)
                                                : cay_options_duration(text, &n);
    if (!good)
        return refuse(p, where, text,
                      opt->kind == CAY_OPTION_INTEGER ? "a whole number"
                      : opt->kind == CAY_OPTION_SIZE  ? "a size like 512m or 2g"
                                                      : "a time like 500ms, 30s, 10m or 2h");
    if (n < opt->min || (opt->max && n > opt->max))
        return cay_fail(p->err, CAY_ERR_INVALID, "%s: %s is out of bounds (%lld to %lld)", where,
                        text, (long long)opt->min,
                        opt->max ? (long long)opt->max : (long long)INT64_MAX);
    *(int64_t *)(p->values + opt->offset) = n;
    return 0;
}

static int set_real(struct parse *p, const struct cay_option *opt, const char *text,
                    const char *where)
{
    char *end;
    double n = isdigit((unsigned char)text[0]) ? strtod(text, &end) : NAN;
    if (!isfinite(n) || *end)
        return refuse(p, where, text, "a number");
    *(double *)(p->values + opt->offset) = n;
    return 0;
}

static int set_string(struct parse *p, const struct cay_option *opt, const char *text,
                      const char *where)
{
    bool known = !opt->choices;
    for (const char *const *c = opt->choices; c && *c; c++)
        known = known || strcmp(*c, text) == 0;
    if (!known) {
        const char *list = opt->choices[0];
        for (const char *const *c = opt->choices + 1; *c; c++)
            list = cay_arena_printf(p->a, "%s, %s", list, *c);
        return refuse(p, where, text, cay_arena_printf(p->a, "one of %s", list));
    }
    *(const char **)(p->values + opt->offset) = text;
    return 0;
}

static int set_flag(struct parse *p, const struct cay_option *opt, const char *text,
                    const char *where)
{
    bool yes = strcmp(text, "true") == 0 || strcmp(text, "1") == 0;
    if (!yes && strcmp(text, "false") != 0 && strcmp(text, "0") != 0)
        return refuse(p, where, text, "true or false");
    *(bool *)(p->values + opt->offset) = yes;
    return 0;
}

static const char *variable(const struct cay_options *o, const char *name)
{
    return o->variable ? o->variable(name) : getenv(name);
}

static int add_pair(struct parse *p, const struct cay_option *opt, const char *text,
                    const char *where)
{
    const char *eq = strchr(text, '=');
    const char *key = eq ? cay_arena_strndup(p->a, text, (size_t)(eq - text)) : text;
    const char *value = eq ? eq + 1 : variable(p->o, key);
    if (!*key)
        return refuse(p, where, text, "KEY=VALUE");
    if (!value)
        return cay_fail(p->err, CAY_ERR_INVALID,
                        "%s: %s has no value, here or in our own environment", where, key);
    cay_pairs_set(p->a, (struct cay_pairs *)(p->values + opt->offset), key, value);
    return 0;
}

/* where names the source in messages: "--listen", "CAY_LISTEN", "FILE:3". */
static int set_value(struct parse *p, const struct cay_option *opt, const char *text,
                     const char *where)
{
    switch (opt->kind) {
    case CAY_OPTION_FLAG:
        return set_flag(p, opt, text, where);
    case CAY_OPTION_STRING:
        return set_string(p, opt, text, where);
    case CAY_OPTION_NUMBER:
        return set_real(p, opt, text, where);
    case CAY_OPTION_LIST:
        cay_strs_push(p->a, (struct cay_strs *)(p->values + opt->offset), text);
        return 0;
    case CAY_OPTION_PAIRS:
        return add_pair(p, opt, text, where);
    default:
        return set_number(p, opt, text, where);
    }
}

/* Walks all tables; NULL at the end. */
static const struct cay_option *next_option(const struct cay_options *o, size_t *table, size_t *at)
{
    while (o->tables[*table]) {
        const struct cay_option *opt = &o->tables[*table][(*at)++];
        if (opt->kind != CAY_OPTION_STOP)
            return opt;
        (*table)++;
        *at = 0;
    }
    return NULL;
}

static int apply_defaults(struct parse *p)
{
    size_t table = 0, at = 0;
    const struct cay_option *opt;
    while ((opt = next_option(p->o, &table, &at))) {
        int r = opt->otherwise ? set_value(p, opt, opt->otherwise, opt->name) : 0;
        if (r < 0)
            return r;
    }
    return 0;
}

static int apply_variables(struct parse *p)
{
    size_t table = 0, at = 0;
    const struct cay_option *opt;
    while ((opt = next_option(p->o, &table, &at))) {
        const char *text = opt->variable ? variable(p->o, opt->variable) : NULL;
        int r = text && *text ? set_value(p, opt, text, opt->variable) : 0;
        if (r < 0)
            return r;
    }
    return 0;
}

static bool key_is(const char *name, const char *key)
{
    for (; *name && *key; name++, key++)
        if (*name != *key && !(*name == '-' && *key == '_'))
            return false;
    return !*name && !*key;
}

/* What follows "alias." in the key; or NULL. */
static const char *entry_of(const struct cay_option *opt, const char *key)
{
    size_t len = strlen(opt->name);
    return strncmp(key, opt->name, len) == 0 && key[len] == '.' && key[len + 1] ? key + len + 1
                                                                                : NULL;
}

static char *trim(char *s)
{
    while (isspace((unsigned char)*s))
        s++;
    size_t len = strlen(s);
    while (len && isspace((unsigned char)s[len - 1]))
        s[--len] = 0;
    return s;
}

static int apply_line(struct parse *p, const char *file, int number, char *line)
{
    const char *where = cay_arena_printf(p->a, "%s:%d", file, number);
    line = trim(line);
    if (!*line || *line == '#' || *line == ';')
        return 0;
    char *eq = strchr(line, '=');
    if (!eq)
        return refuse(p, where, line, "a line like key = value");
    *eq = 0;
    const char *key = trim(line), *value = trim(eq + 1);
    size_t table = 0, at = 0;
    const struct cay_option *opt;
    while ((opt = next_option(p->o, &table, &at))) {
        const char *entry = opt->kind == CAY_OPTION_PAIRS ? entry_of(opt, key) : NULL;
        if (opt->variable && entry)
            return set_value(p, opt, cay_arena_printf(p->a, "%s=%s", entry, value), where);
        if (opt->variable && key_is(opt->name, key))
            return set_value(p, opt, value, where);
    }
    return refuse(p, where, key, "a known key");
}

static int apply_file(struct parse *p, const char *file)
{
    char *text = NULL;
    size_t len = 0;
    struct cay_error read_err = {0};
    CAY_AUTO_FREE char *real = realpath(file, NULL); /* behind links too: they are the user's own */
    int r = cay_path_read(AT_FDCWD, real ? real : file, CAY_OPTIONS_FILE_MAX, p->a, &text, &len,
                          &read_err);
    if (r == CAY_ERR_NOT_FOUND && !p->o->file_needed)
        return 0;
    if (r < 0) {
        *p->err = read_err;
        return cay_wrap(p->err, "cannot read the configuration %s", file);
    }
    if (strlen(text) != len)
        return cay_fail(p->err, CAY_ERR_INVALID, "%s is no text", file);
    int number = 1;
    for (char *line = text; line; number++) {
        char *next = strchr(line, '\n');
        if (next)
            *next++ = 0;
        r = apply_line(p, file, number, line);
        if (r < 0)
            return r;
        line = next;
    }
    return 0;
}

static const struct cay_option *find(const struct cay_options *o, const char *name, size_t len,
                                     char letter)
{
    size_t table = 0, at = 0;
    const struct cay_option *opt;
    while ((opt = next_option(o, &table, &at)))
        if (!opt->unspoken &&
            (letter ? opt->letter == letter
                    : strlen(opt->name) == len && strncmp(opt->name, name, len) == 0))
            return opt;
    return NULL;
}

/* --name, --name=value, --name value. */
static int take_long(struct parse *p, size_t argc, const char *const *argv, size_t *i)
{
    const char *name = argv[*i] + 2;
    size_t len = strcspn(name, "=");
    const char *value = name[len] ? name + len + 1 : NULL;
    const struct cay_option *opt = find(p->o, name, len, 0);
    const char *where = cay_arena_printf(p->a, "--%.*s", (int)len, name);
    if (!opt)
        return cay_fail(p->err, CAY_ERR_INVALID, "unknown option %s", where);
    if (opt->kind == CAY_OPTION_FLAG)
        return set_value(p, opt, value ? value : "true", where);
    if (!value && *i + 1 >= argc)
        return cay_fail(p->err, CAY_ERR_INVALID, "%s needs a value", where);
    return set_value(p, opt, value ? value : argv[++*i], where);
}

/* -f, several flags in one, -e value, -evalue. */
static int take_short(struct parse *p, size_t argc, const char *const *argv, size_t *i)
{
    for (const char *c = argv[*i] + 1; *c; c++) {
        const struct cay_option *opt = find(p->o, NULL, 0, *c);
        const char *where = cay_arena_printf(p->a, "-%c", *c);
        if (!opt)
            return cay_fail(p->err, CAY_ERR_INVALID, "unknown option %s", where);
        if (opt->kind == CAY_OPTION_FLAG) {
            int r = set_value(p, opt, "true", where);
            if (r < 0)
                return r;
            continue;
        }
        if (!c[1] && *i + 1 >= argc)
            return cay_fail(p->err, CAY_ERR_INVALID, "%s needs a value", where);
        return set_value(p, opt, c[1] ? c + 1 : argv[++*i], where);
    }
    return 0;
}

static int apply_argv(struct parse *p, size_t argc, const char *const *argv, struct cay_args *out)
{
    struct cay_args got = {0};
    bool more = true; /* options may still come */
    for (size_t i = 0; i < argc; i++) {
        const char *arg = argv[i];
        bool full = got.args.count >= p->o->args_max;
        int r = 0;
        if (more && strcmp(arg, "--") == 0) {
            more = false;
            if (!p->o->command)
                continue;
            while (++i < argc)
                cay_strs_push(p->a, &got.command, argv[i]);
        } else if (more && (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0)) {
            got.help = true;
        } else if (more && arg[0] == '-' && arg[1] == '-') {
            r = take_long(p, argc, argv, &i);
        } else if (more && arg[0] == '-' && arg[1]) {
            r = take_short(p, argc, argv, &i);
        } else if (p->o->command && full) {
            for (; i < argc; i++)
                cay_strs_push(p->a, &got.command, argv[i]);
        } else if (full) {
            r = cay_fail(p->err, CAY_ERR_INVALID, "unexpected argument %s", arg);
        } else {
            cay_strs_push(p->a, &got.args, arg);
        }
        if (r < 0)
            return r;
    }
    *out = got;
    return 0;
}

/* Everything in its order of rank, the weakest first. */
static int apply_all(struct parse *p, const char *file, size_t argc, const char *const *argv,
                     struct cay_args *out)
{
    memset(p->values, 0, p->o->size);
    int r = apply_defaults(p);
    if (r >= 0 && file)
        r = apply_file(p, file);
    if (r >= 0)
        r = apply_variables(p);
    if (r >= 0)
        r = apply_argv(p, argc, argv, out);
    return r;
}

int cay_options_parse(const struct cay_options *o, struct cay_arena *a, size_t argc,
                      const char *const *argv, void *values, struct cay_args *out,
                      struct cay_error *err)
{
    struct parse p = {.o = o, .a = a, .values = values, .err = err};
    int r = apply_all(&p, NULL, argc, argv, out);
    if (r < 0 || out->help || !o->file)
        return r;
    const char *file = o->file(a, values);
    return file ? apply_all(&p, file, argc, argv, out) : 0;
}

void cay_options_help(const struct cay_option *table, FILE *to)
{
    for (const struct cay_option *opt = table; opt->kind != CAY_OPTION_STOP; opt++) {
        char left[64];
        if (opt->unspoken) {
            (void)snprintf(left, sizeof left, "  %s", opt->variable);
        } else {
            char letter[8] = "    ";
            if (opt->letter)
                (void)snprintf(letter, sizeof letter, "-%c, ", opt->letter);
            (void)snprintf(left, sizeof left, "  %s--%s%s%s", letter, opt->name,
                           opt->arg ? " " : "", opt->arg ? opt->arg : "");
        }
        fprintf(to, "%-30s %s", left, opt->help);
        if (opt->otherwise)
            fprintf(to, " (default %s)", opt->otherwise);
        if (opt->variable && !opt->unspoken)
            fprintf(to, " [%s]", opt->variable);
        fputc('\n', to);
    }
}
