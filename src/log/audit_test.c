/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "log/audit.h"
#include "tests/test.h"
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static struct cay_audit *open_audit(void)
{
    struct cay_error err = {0};
    struct cay_audit *audit = NULL;
    int dir = open(test_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK_EQ("open", cay_audit_open(dir, &audit, &err), 0);
    return audit;
}

static void add(struct cay_audit *audit, const char *account, const char *action,
                const char *sandbox, const char *object, int status)
{
    struct cay_error err = {0};
    struct cay_audit_entry e = {.account_id = account,
                                .key_id = "ky-1",
                                .peer = "127.0.0.1",
                                .action = action,
                                .sandbox = sandbox,
                                .object = object,
                                .status = status};
    CHECK_EQ("add", cay_audit_add(audit, &e, &err), 0);
}

static struct cay_audit_page page_of(struct cay_audit *audit, const struct cay_audit_filter *f,
                                     struct cay_arena *a)
{
    struct cay_error err = {0};
    struct cay_audit_page page = {0};
    CHECK_EQ("read", cay_audit_read(audit, f, a, &page, &err), 0);
    return page;
}

static void write_day(const char *name, const char *text)
{
    int dir = open(test_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int fd = openat(dir, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    CHECK_EQ(name, write(fd, text, strlen(text)), (long long)strlen(text));
    close(fd);
    close(dir);
}

TEST(audit_finds_by_every_filter)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_audit *audit = open_audit();
    add(audit, "local", "sandbox.create", "sb-1", NULL, 201);
    add(audit, "local", "sandbox.files.read", "sb-1", "/x\",\"account\":\"other\"", 200);
    add(audit, "other", "sandbox.create", "sb-2", NULL, 201);
    add(audit, "local", "sandbox.filesystem", "sb-3", NULL, 403);
    int64_t later = cay_clock_ms() + 60000;
    const struct {
        const char *name;
        struct cay_audit_filter filter;
        size_t want;
    } cases[] = {
        {"of an account", {.account_id = "local", .limit = 10}, 3},
        {"and no other, whatever it wrote", {.account_id = "other", .limit = 10}, 1},
        {"of nobody", {.account_id = "nobody", .limit = 10}, 0},
        {"a sandbox", {.account_id = "local", .sandbox = "sb-1", .limit = 10}, 2},
        {"another's", {.account_id = "local", .sandbox = "sb-2", .limit = 10}, 0},
        {"an action", {.account_id = "local", .action = "sandbox.create", .limit = 10}, 1},
        {"actions below", {.account_id = "local", .action = "sandbox.files", .limit = 10}, 1},
        {"all below", {.account_id = "local", .action = "sandbox", .limit = 10}, 3},
        {"what was refused", {.account_id = "local", .result = "refused", .limit = 10}, 1},
        {"by a key", {.account_id = "local", .key = "ky-1", .limit = 10}, 3},
        {"by another", {.account_id = "local", .key = "ky-2", .limit = 10}, 0},
        {"from an address", {.account_id = "local", .peer = "127.0.0.1", .limit = 10}, 3},
        {"from another", {.account_id = "local", .peer = "::1", .limit = 10}, 0},
        {"a trick", {.account_id = "local", .action = "x\" or \"", .limit = 10}, 0},
        {"since later", {.account_id = "local", .from_ms = later, .limit = 10}, 0},
        {"until later", {.account_id = "local", .to_ms = later, .limit = 10}, 3},
        {"until long ago", {.account_id = "local", .to_ms = 1000, .limit = 10}, 0},
        {"few", {.account_id = "local", .limit = 2}, 2},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        CHECK_EQ(cases[i].name, page_of(audit, &cases[i].filter, &a).lines.count, cases[i].want);
    struct cay_audit_page page = page_of(audit, &cases[0].filter, &a);
    CHECK("the newest first", strstr(page.lines.at[0], "\"result\":\"refused\",\"status\":403"));
    CHECK("then older", strstr(page.lines.at[2], "\"action\":\"sandbox.create\""));
    CHECK_STR("no more", page.next, "");
    cay_audit_close(audit);
}

TEST(audit_pages_over_windows_and_days)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_error err = {0};
    struct cay_audit *audit = open_audit();
    enum { MANY = 1500 };
    char object[300];
    for (int i = 0; i < MANY; i++) {
        snprintf(object, sizeof object, "%0*d", 50 + i % 200, i);
        add(audit, "local", "sandbox.exec", "sb-1", object, 200);
    }
    write_day("2020-02-03.jsonl",
              "{\"time\":\"2020-02-03T00:00:00.000Z\",\"account\":\"local\",\"old\":1}\n"
              "{\"time\":\"2020-02-03T00:00:01.000Z\",\"account\":\"local\",\"cut\n"
              "{\"time\":\"2020-02-03T00:00:02.000Z\",\"account\":\"local\",\"old\":2}\n");
    write_day("notes.jsonl", "{\"account\":\"local\"}\n");
    struct cay_audit_filter f = {.account_id = "local", .limit = 7};
    size_t seen = 0;
    int next = MANY - 1, old = 0;
    for (;;) {
        struct cay_audit_page page = page_of(audit, &f, &a);
        for (size_t i = 0; i < page.lines.count; i++, seen++) {
            const char *at = strstr(page.lines.at[i], "\"object\":\"");
            old += !at;
            CHECK_EQ("in order", at ? (int)strtol(at + 10, NULL, 10) : next, next);
            next -= at != NULL;
        }
        if (!page.next[0])
            break;
        f.cursor = cay_arena_strdup(&a, page.next);
    }
    CHECK_EQ("all", seen, MANY + 2);
    CHECK_EQ("of the old day too", old, 2);
    static const char *const wrong[] = {
        "", "x", "2026-11-15", "2026-11-15.", "2026-11-15.-1", "../../etc/p.1", "2026-11-15x1"};
    for (size_t i = 0; i < COUNT(wrong); i++) {
        struct cay_audit_page page;
        f.cursor = wrong[i];
        CHECK_EQ(wrong[i], cay_audit_read(audit, &f, &a, &page, &err), CAY_ERR_INVALID);
        CHECK_STR(wrong[i], err.field, "cursor");
    }
    cay_audit_close(audit);
}

static const char *day_ago(int days, char out[24])
{
    char iso[CAY_ISO_SIZE];
    snprintf(out, 24, "%.10s.jsonl",
             cay_clock_iso(cay_clock_ms() - days * (24 * 60 * 60 * 1000LL), iso));
    return out;
}

static bool has(const char *name)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/%s", test_dir(), name);
    return access(path, F_OK) == 0;
}

/* So that the next open begins a day. */
static void forget_today(void)
{
    char name[24], path[4200];
    snprintf(path, sizeof path, "%s/%s", test_dir(), day_ago(0, name));
    CHECK_EQ("today's", unlink(path), 0);
}

TEST(audit_forgets_one_old_day_for_each_new_one)
{
    char name[24];
    static const int days[] = {-400, 1, 89, 92, 93};
    for (size_t i = 0; i < COUNT(days); i++)
        write_day(day_ago(days[i], name), "{}\n");
    write_day("other.txt", "mine");
    cay_audit_close(open_audit());
    CHECK("the oldest", !has(day_ago(93, name)));
    CHECK("one at a time", has(day_ago(92, name)));
    cay_audit_close(open_audit());
    CHECK("not at every start", has(day_ago(92, name)));
    forget_today();
    cay_audit_close(open_audit());
    CHECK("then the next", !has(day_ago(92, name)));
    forget_today();
    cay_audit_close(open_audit());
    CHECK("none that is young", has(day_ago(89, name)));
    CHECK("none of a clock that was ahead", has(day_ago(-400, name)));
    CHECK("not ours", has("other.txt"));
}

TEST(audit_outlives_a_clock_that_leaps)
{
    char name[24];
    for (int i = 0; i < 3; i++)
        write_day(day_ago(365 + i, name), "{}\n");
    cay_audit_close(open_audit());
    for (int i = 0; i < 3; i++)
        CHECK(day_ago(365 + i, name), has(name));
}
