/* SPDX-License-Identifier: Apache-2.0 */
#include "core/source.h"
#include "core/source_run.h"
#include "core/source_url.h"
#include "log/writer.h"
#include "tests/fixture.h"
#include <string.h>

static const struct {
    const char *url, *rule; /* NULL: refused */
} urls[] = {
    {"https://git.example/a/b.git", "git.example:443"},
    {"https://git.example:8443/a?x=1", "git.example:8443"},
    {"https://192.0.2.7/a", "192.0.2.7:443"},
    {"https://[2001:db8::1]:8443/a", "[2001:db8::1]:8443"},
    {"https://git.example", "git.example:443"},
    {"http://git.example/a", NULL},
    {"HTTPS://git.example/a", NULL},
    {"file:///etc", NULL},
    {"/etc", NULL},
    {"ext::sh -c id", NULL},
    {"--upload-pack=id", NULL},
    {"-oProxyCommand=id", NULL},
    {"ssh://-oX/a", NULL},
    {"git@host:a.git", NULL},
    {"https://-oX/a", NULL},
    {"https://user:pass@git.example/a", NULL},
    {"https://user@git.example/a", NULL},
    {"https://git.example\\@evil.example/", NULL},
    {"https://git.example#@evil.example/", NULL},
    {"https:///a", NULL},
    {"https://*.example/a", NULL},
    {"https://10.0.0.0/8", "10.0.0.0:443"},
    {"https://2130706433/", NULL},
    {"https://0x7f.1/", NULL},
    {"https://git.example:0/", NULL},
    {"https://git.example:80-90/", NULL},
    {"https://git.example:/", NULL},
    {"https://git.example:65536/", NULL},
    {"https://git.example/a b", NULL},
    {"https://git.example/a\nb", NULL},
    {"https://g\xc3\xaft.example/", NULL},
    {"", NULL},
};

TEST(source_urls)
{
    for (size_t i = 0; i < COUNT(urls); i++) {
        struct cay_source_url out;
        struct cay_error err = {0};
        int r = cay_source_url_read(urls[i].url, &out, &err);
        CHECK_EQ(urls[i].url, r, urls[i].rule ? 0 : CAY_ERR_INVALID);
        if (urls[i].rule) {
            CHECK_STR(urls[i].url, out.rule, urls[i].rule);
            continue;
        }
        CHECK_STR(urls[i].url, cay_error_name(&err), "INVALID_SOURCE");
        CHECK_STR(urls[i].url, err.field, "source.url");
        CHECK(urls[i].url, !strstr(err.msg, "pass@"));
    }
}

static const struct {
    const char *name;
    struct cay_spec_source source;
    const char *field; /* NULL: it is well */
} sources[] = {
    {"git", {.revision = "v1.2", .depth = 1, .username = "me", .password = "p:w"}, NULL},
    {"a branch", {.revision = "feature/a+b@2"}, NULL},
    {"an option", {.revision = "--upload-pack=id"}, "source.revision"},
    {"a range", {.revision = "a..b"}, "source.revision"},
    {"an expression", {.revision = "a^{commit}"}, "source.revision"},
    {"nothing", {.revision = ""}, "source.revision"},
    {"too deep", {.depth = CAY_MAX_DEPTH + 1}, "source.depth"},
    {"two names", {.username = "a:b"}, "source.username"},
    {"two headers", {.password = "x\r\nHost: evil"}, "source.password"},
    {"no time", {.timeout_ms = -1}, "source.timeoutMs"},
    {"a tarball of a revision", {.kind = CAY_SOURCE_TARBALL, .revision = "v1"}, "source"},
};

TEST(source_fields)
{
    for (size_t i = 0; i < COUNT(sources); i++) {
        struct cay_spec_source s = sources[i].source;
        struct cay_error err = {0};
        s.url = "https://git.example/a";
        s.kind = s.kind ? s.kind : CAY_SOURCE_GIT;
        s.timeout_ms = s.timeout_ms ? s.timeout_ms : 1000;
        int r = cay_source_check(&s, &err);
        CHECK_EQ(sources[i].name, r, sources[i].field ? CAY_ERR_INVALID : 0);
        CHECK_STR(sources[i].name, err.field, sources[i].field ? sources[i].field : "");
    }
}

TEST(source_credentials_are_in_one_place)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_spec_source s = {.kind = CAY_SOURCE_GIT,
                                .url = "https://git.example/a",
                                .username = "me",
                                .password = "secret"};
    struct cay_pairs env = {0};
    char *login = cay_source_login(&s);
    CHECK_STR("as a header", login, "Authorization: Basic bWU6c2VjcmV0");
    cay_pairs_push(&a, &env, "GIT_ALLOW_PROTOCOL", "ext");
    struct cay_exec_spec spec = cay_source_command(&a, &s, &env, "https://git.example/", login);
    for (size_t i = 0; i < spec.argv.count; i++)
        CHECK("not an argument", !strstr(spec.argv.at[i], "bWU6c2VjcmV0"));
    size_t found = 0;
    for (size_t i = 0; i < spec.env.count; i++)
        found += strcmp(spec.env.at[i].value, login) == 0;
    CHECK_EQ("once", found, 1);
    CHECK_STR("ours is on top", cay_pairs_get(&spec.env, "GIT_ALLOW_PROTOCOL"), "https");
    cay_source_logout(&login);
    CHECK("gone", !login);
    s.username = s.password = NULL;
    CHECK("none", !cay_source_login(&s));
}

static int create(struct fixture *f, const char *start, struct cay_sandbox *out,
                  struct cay_error *err)
{
    struct cay_spec spec = cay_spec_default();
    *err = (struct cay_error){0};
    spec.memory_bytes = CAY_MIN_MEMORY_BYTES;
    spec.source = (struct cay_spec_source){
        .kind = CAY_SOURCE_TARBALL, .url = "https://git.example/a.tgz", .timeout_ms = 1000};
    if (start) {
        cay_strs_push(&f->a, &spec.start, "echo");
        cay_strs_push(&f->a, &spec.start, start);
    }
    return cay_core_create(f->core, &f->me, &spec, &f->a, out, err);
}

TEST(source_then_start_command)
{
    struct fixture f;
    struct cay_error err;
    struct cay_sandbox sb, fork;
    fixture_open(&f);
    CHECK_EQ("created", create(&f, "hello", &sb, &err), 0);
    CHECK_EQ("runs", sb.state, CAY_RUNNING);
    CHECK("its start command too", sb.start_exec[0] != 0);
    CHECK_STR("told", sb.spec.source.url, "https://git.example/a.tgz");
    struct cay_execution_list all;
    CHECK_EQ("listed", cay_core_executions(f.core, &f.me, sb.id, 1, 10, &f.a, &all, &err), 0);
    CHECK_EQ("the fetch is not a command of the caller's", all.total, 1);
    struct cay_spec spec = cay_spec_fork(&sb.spec);
    struct cay_sandbox_list forks;
    CHECK_EQ("forked", cay_core_fork(f.core, &f.me, sb.id, &spec, 1, &f.a, &forks, &err), 0);
    fork = forks.at[0];
    CHECK_EQ("without its source", fork.spec.source.kind, CAY_SOURCE_NONE);
    fixture_close(&f);
}

/* Whichever step fails, nothing is left. */
TEST(source_failures_leave_nothing)
{
    struct fixture f;
    struct cay_error err;
    struct cay_sandbox sb;
    int failures = 0;
    fixture_open(&f);
    for (int n = 1; n < 20; n++) {
        cay_provider_fake_fail_at(f.provider, n);
        int r = create(&f, "hello", &sb, &err);
        cay_provider_fake_fail_at(f.provider, 0);
        if (r == 0)
            break;
        failures++;
        CHECK_EQ("no row", fixture_rows(&f), 0);
        CHECK_EQ("no sandbox", cay_provider_fake_count(f.provider), 0);
        CHECK("not held", !f.core->holds.first && !f.core->readier.first);
    }
    CHECK("create, fetch, start", failures >= 3);
    fixture_close(&f);
}
