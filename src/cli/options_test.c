/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options.h"
#include "tests/test.h"
#include <fcntl.h>

struct values {
    const char *config, *listen, *auth;
    int64_t count, size_bytes, wait_ms;
    double cpus;
    bool json, detach;
    struct cay_strs labels;
    struct cay_pairs env;
};

static const char *const auths[] = {"off", "keys", NULL};
#define OPT(k, member, wire, ...)                                                                  \
    {                                                                                              \
        CAY_OPTION_##k, wire, offsetof(struct values, member), __VA_ARGS__                         \
    }
static const struct cay_option table[] = {
    OPT(STRING, config, "config", .variable = "CAY_CONFIG"),
    OPT(STRING, listen, "listen", .variable = "CAY_LISTEN", .otherwise = "default"),
    OPT(STRING, auth, "auth-kind", .variable = "CAY_AUTH", .choices = auths),
    OPT(INTEGER, count, "count", 'n', .min = 1, .max = 10, .otherwise = "3"),
    OPT(SIZE, size_bytes, "size", 'm'),
    OPT(DURATION, wait_ms, "wait"),
    OPT(NUMBER, cpus, "cpus"),
    OPT(FLAG, json, "json", 'j', .variable = "CAY_JSON"),
    OPT(FLAG, detach, "detach", 'd'),
    OPT(LIST, labels, "label", 'l'),
    OPT(PAIRS, env, "env", 'e'),
    CAY_OPTION_END,
};
static const struct cay_option *const tables[] = {table, NULL};

static struct cay_pair vars[4];

static const char *fake_variable(const char *name)
{
    for (size_t i = 0; i < COUNT(vars); i++)
        if (vars[i].key && strcmp(vars[i].key, name) == 0)
            return vars[i].value;
    return NULL;
}

static const char *config_file(struct cay_arena *a, const void *values)
{
    (void)a;
    return ((const struct values *)values)->config;
}

static const struct cay_options plain = {.tables = tables,
                                         .size = sizeof(struct values),
                                         .args_max = 2,
                                         .file_needed = true,
                                         .file = config_file,
                                         .variable = fake_variable};

static int parse(const struct cay_options *o, struct cay_arena *a, const char *const *argv,
                 struct values *v, struct cay_args *args, struct cay_error *err)
{
    size_t argc = 0;
    while (argv[argc])
        argc++;
    return cay_options_parse(o, a, argc, argv, v, args, err);
}

static const struct {
    const char *name, *option, *variable, *file, *want;
} ranks[] = {
    {"nothing told", NULL, NULL, NULL, "default"},
    {"the file over the default", NULL, NULL, "file", "file"},
    {"the variable over the file", NULL, "var", "file", "var"},
    {"the option over all", "opt", "var", "file", "opt"},
    {"the option without the rest", "opt", NULL, NULL, "opt"},
    {"an empty variable says nothing", NULL, "", "file", "file"},
};

static const char *write_file(struct cay_arena *a, const char *text)
{
    const char *path = cay_arena_printf(a, "%s/config", test_dir());
    CAY_AUTO_FD int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    CHECK("the file is written", write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    return path;
}

TEST(options_rank)
{
    for (size_t i = 0; i < COUNT(ranks); i++) {
        CAY_AUTO_ARENA struct cay_arena a = {0};
        struct cay_error err = {0};
        struct values v;
        struct cay_args args;
        const char *text = ranks[i].file ? "# c\n\n listen =  file \nauth_kind=keys\n" : "";
        const char *argv[] = {"--config", write_file(&a, text), NULL, NULL, NULL};
        if (ranks[i].option) {
            argv[2] = "--listen";
            argv[3] = ranks[i].option;
        }
        vars[0] = (struct cay_pair){"CAY_LISTEN", ranks[i].variable};
        CHECK_EQ(ranks[i].name, parse(&plain, &a, argv, &v, &args, &err), 0);
        CHECK_STR(ranks[i].name, v.listen, ranks[i].want);
        CHECK_STR(ranks[i].name, v.auth, ranks[i].file ? "keys" : NULL);
        vars[0] = (struct cay_pair){0};
    }
}

static const struct {
    const char *name;
    const char *argv[6];
    const char *file;
    const char *msg; /* NULL: accepted */
} verdicts[] = {
    {"nothing", {NULL}, NULL, NULL},
    {"all kinds", {"-jd", "-n5", "--size=2g", "--wait", "90s"}, NULL, NULL},
    {"unknown long", {"--nope"}, NULL, "unknown option --nope"},
    {"unknown short", {"-x"}, NULL, "unknown option -x"},
    {"unknown in a group", {"-jx"}, NULL, "unknown option -x"},
    {"value missing", {"--listen"}, NULL, "--listen needs a value"},
    {"short value missing", {"-n"}, NULL, "-n needs a value"},
    {"no number", {"-n", "five"}, NULL, "-n: \"five\" is not a whole number"},
    {"below", {"--count", "0"}, NULL, "--count: 0 is out of bounds (1 to 10)"},
    {"above", {"--count=11"}, NULL, "--count: 11 is out of bounds (1 to 10)"},
    {"no size", {"-m", "2q"}, NULL, "-m: \"2q\" is not a size like 512m or 2g"},
    {"negative size", {"-m", "-1"}, NULL, "-m: \"-1\" is not a size like 512m or 2g"},
    {"hex size", {"-m", "0x10"}, NULL, "-m: \"0x10\" is not a size like 512m or 2g"},
    {"huge size", {"-m", "1e300"}, NULL, "-m: \"1e300\" is not a size like 512m or 2g"},
    {"infinite cpus", {"--cpus", "inf"}, NULL, "--cpus: \"inf\" is not a number"},
    {"cpus with a tail", {"--cpus", "2x"}, NULL, "--cpus: \"2x\" is not a number"},
    {"no such choice", {"--auth-kind", "x"}, NULL, "--auth-kind: \"x\" is not one of off, keys"},
    {"no flag value", {"--json=maybe"}, NULL, "--json: \"maybe\" is not true or false"},
    {"too many", {"a", "b", "c"}, NULL, "unexpected argument c"},
    {"a pair without key", {"-e", "=x"}, NULL, "-e: \"=x\" is not KEY=VALUE"},
    {"a pair without value",
     {"-e", "K"},
     NULL,
     "-e: K has no value, here or in our own environment"},
    {"a line without =", {NULL}, "listen\n", "\"listen\" is not a line like key = value"},
    {"an unknown key", {NULL}, "\nlisen = x", "\"lisen\" is not a known key"},
    {"a key that is no file's", {NULL}, "count = 5", "\"count\" is not a known key"},
    {"a bad flag in a file", {NULL}, "json = yes", "\"yes\" is not true or false"},
};

TEST(options_verdicts)
{
    for (size_t i = 0; i < COUNT(verdicts); i++) {
        CAY_AUTO_ARENA struct cay_arena a = {0};
        struct cay_error err = {0};
        struct values v;
        struct cay_args args;
        const char *argv[8] = {0};
        size_t n = 0;
        if (verdicts[i].file) {
            argv[n++] = "--config";
            argv[n++] = write_file(&a, verdicts[i].file);
        }
        for (size_t k = 0; k < 6 && verdicts[i].argv[k]; k++)
            argv[n++] = verdicts[i].argv[k];
        int r = parse(&plain, &a, argv, &v, &args, &err);
        CHECK_EQ(verdicts[i].name, r, verdicts[i].msg ? CAY_ERR_INVALID : 0);
        if (verdicts[i].msg && verdicts[i].file) /* the path stands before it */
            CHECK(verdicts[i].name, strstr(err.msg, verdicts[i].msg) != NULL);
        else if (verdicts[i].msg)
            CHECK_STR(verdicts[i].name, err.msg, verdicts[i].msg);
    }
}

TEST(options_missing_file)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_error err = {0};
    struct values v;
    struct cay_args args;
    const char *argv[] = {"--config", "/nonexistent/cay", NULL};
    struct cay_options lax = plain;
    lax.file_needed = false;
    CHECK("a named file must be there", parse(&plain, &a, argv, &v, &args, &err) < 0);
    CHECK_EQ("a usual file need not", parse(&lax, &a, argv, &v, &args, &err), 0);
}

TEST(options_values)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_error err = {0};
    struct values v;
    struct cay_args args;
    const char *argv[] = {"-dj",    "one",     "-n5", "--size=1.5g", "--wait", "90",
                          "-la",    "--label", "b",   "-e",          "A=b=c",  "-eHOME",
                          "--cpus", "0.5",     "--",  "-two",        NULL};
    vars[0] = (struct cay_pair){"HOME", "/h"};
    CHECK_EQ("parsed", parse(&plain, &a, argv, &v, &args, &err), 0);
    vars[0] = (struct cay_pair){0};
    CHECK("flags", v.json && v.detach);
    CHECK_EQ("integer", v.count, 5);
    CHECK_EQ("size", v.size_bytes, 3LL << 29);
    CHECK_EQ("bare duration is seconds", v.wait_ms, 90000);
    CHECK_EQ("labels", v.labels.count, 2);
    CHECK_STR("first label", v.labels.at[0], "a");
    CHECK_STR("pair", cay_pairs_get(&v.env, "A"), "b=c");
    CHECK_STR("pair from our own", cay_pairs_get(&v.env, "HOME"), "/h");
    CHECK("number", v.cpus == 0.5);
    CHECK_EQ("arguments", args.args.count, 2);
    CHECK_STR("after --", args.args.at[1], "-two");
}

static const struct {
    const char *name;
    size_t args_max;
    const char *argv[8];
    size_t args, command;
    const char *first;
} splits[] = {
    {"after --", 1, {"id", "--", "ls", "-la"}, 1, 2, "ls"},
    {"options between", 1, {"id", "-j", "--", "-x"}, 1, 1, "-x"},
    {"without --", 1, {"-j", "id", "ls", "-j", "--", "x"}, 1, 4, "ls"},
    {"no argument of ours", 0, {"-j", "ls", "--json"}, 0, 2, "ls"},
    {"only --", 0, {"--"}, 0, 0, NULL},
};

TEST(options_command_line)
{
    for (size_t i = 0; i < COUNT(splits); i++) {
        CAY_AUTO_ARENA struct cay_arena a = {0};
        struct cay_error err = {0};
        struct values v;
        struct cay_args args;
        struct cay_options o = plain;
        o.command = true;
        o.args_max = splits[i].args_max;
        CHECK_EQ(splits[i].name, parse(&o, &a, splits[i].argv, &v, &args, &err), 0);
        CHECK_EQ(splits[i].name, args.args.count, splits[i].args);
        CHECK_EQ(splits[i].name, args.command.count, splits[i].command);
        CHECK_STR(splits[i].name, args.command.count ? args.command.at[0] : NULL, splits[i].first);
    }
}

TEST(options_units)
{
    static const struct {
        const char *text;
        bool size;    /* else a duration */
        int64_t want; /* -1: refused */
    } units[] = {
        {"1", true, 1},
        {"1k", true, 1024},
        {"512m", true, 512 << 20},
        {"2GiB", true, 2LL << 30},
        {"1t", true, 1LL << 40},
        {"", true, -1},
        {"g", true, -1},
        {"1 g", true, -1},
        {"500ms", false, 500},
        {"30s", false, 30000},
        {"1.5m", false, 90000},
        {"2h", false, 7200000},
        {"1d", false, 86400000},
        {"0", false, 0},
        {"1w", false, -1},
        {"-5s", false, -1},
        {"nan", false, -1},
    };
    for (size_t i = 0; i < COUNT(units); i++) {
        int64_t got = -1;
        bool good = units[i].size ? cay_options_size(units[i].text, &got)
                                  : cay_options_duration(units[i].text, &got);
        CHECK_EQ(units[i].text, good, units[i].want >= 0);
        CHECK_EQ(units[i].text, got, units[i].want);
    }
}
