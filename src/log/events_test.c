/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "log/events.h"
#include "model/limits.h"
#include "tests/test.h"
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static int open_dir(void)
{
    return open(test_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void append(int dir, const char *account, const char *name, int64_t time_ms)
{
    struct cay_error err = {0};
    struct cay_event e = {.type = "running",
                          .account_id = account,
                          .sandbox_id = "sb-1",
                          .name = name,
                          .status = "RUNNING",
                          .time_ms = time_ms};
    CHECK_EQ("append", cay_events_append(dir, &e, &err), 0);
}

static int open_events(int dir, const char *account)
{
    struct cay_error err = {0};
    int fd = -1;
    CHECK_EQ("open", cay_events_open(dir, account, &fd, &err), 0);
    return fd;
}

TEST(events_come_back_and_go_on_by_id)
{
    CAY_AUTO_FD int dir = open_dir();
    const char *line;
    size_t len;
    append(dir, "local", "one", 1000);
    append(dir, "other", "strange", 1000);
    append(dir, "local", "a\"\nb", 2000);
    CAY_AUTO_FD int fd = open_events(dir, "local");
    struct cay_events_reader r = {.fd = fd};
    CHECK_EQ("first", cay_events_next(&r, &line, &len), CAY_EVENTS_LINE);
    static const char want[] =
        "{\"type\":\"running\",\"time\":\"1970-01-01T00:00:01.000Z\",\"sandboxId\":\"sb-1\","
        "\"name\":\"one\",\"status\":\"RUNNING\"}";
    CHECK("as written", len == strlen(want) && memcmp(line, want, len) == 0);
    uint64_t id = r.offset;
    CHECK("a place to go on", cay_events_may_resume(fd, id));
    CHECK("no place", !cay_events_may_resume(fd, id - 3));
    CHECK("behind the end", !cay_events_may_resume(fd, id + 10000));
    cay_events_reader_done(&r);
    r = (struct cay_events_reader){.fd = fd, .offset = id};
    CHECK_EQ("the second", cay_events_next(&r, &line, &len), CAY_EVENTS_LINE);
    CHECK("its name", memmem(line, len, "a\\\"\\nb", 6) != NULL);
    CHECK_EQ("no more", cay_events_next(&r, &line, &len), CAY_EVENTS_END);
    append(dir, "local", "three", 3000);
    CHECK_EQ("then more", cay_events_next(&r, &line, &len), CAY_EVENTS_LINE);
    cay_events_reader_done(&r);
}

TEST(events_of_strange_accounts_have_no_file)
{
    CAY_AUTO_FD int dir = open_dir();
    static const char *const names[] = {"", "..", "../x", "a/b", "a.b", "\xff"};
    for (size_t i = 0; i < COUNT(names); i++) {
        struct cay_error err = {0};
        int fd = -1;
        CHECK_EQ(names[i], cay_events_open(dir, names[i], &fd, &err), CAY_ERR_INTERNAL);
    }
}

static void fill(int dir, int64_t from_ms, size_t bytes)
{
    struct stat st = {0};
    for (int64_t i = 0; (size_t)st.st_size < bytes; i++) {
        append(dir, "local", "some-name-or-other", from_ms + i);
        CHECK_EQ("stat", fstatat(dir, "local.jsonl", &st, 0), 0);
    }
}

/* Every line that is read is whole, and what is missing is told once. */
static int read_all(int fd, uint64_t from, int *gaps)
{
    struct cay_events_reader r = {.fd = fd, .offset = from};
    const char *line;
    size_t len;
    int lines = 0;
    *gaps = 0;
    for (enum cay_events_got got; (got = cay_events_next(&r, &line, &len)) != CAY_EVENTS_END;) {
        if (got == CAY_EVENTS_GAP) {
            ++*gaps;
            CHECK("goes on at a line", cay_events_may_resume(fd, r.offset));
            continue;
        }
        lines++;
        CHECK("whole", memcmp(line, "{\"type\":", 8) == 0 && line[len - 1] == '}');
    }
    cay_events_reader_done(&r);
    return lines;
}

TEST(events_that_are_old_go_and_leave_a_gap)
{
    CAY_AUTO_FD int dir = open_dir();
    int gaps;
    fill(dir, 1000, 3 * CAY_EVENTS_BLOCK);
    struct stat st;
    CHECK_EQ("stat", fstatat(dir, "local.jsonl", &st, 0), 0);
    int64_t later_ms = 1000000000;
    fill(dir, later_ms, (size_t)st.st_size + 100);
    CAY_AUTO_FD int fd = open_events(dir, "local");
    int before = read_all(fd, 0, &gaps);
    CHECK_EQ("nothing is missing", gaps, 0);
    cay_events_trim(dir, 1);
    CHECK_EQ("what is young stays", read_all(fd, 0, &gaps), before);
    cay_events_trim(dir, later_ms);
    int after = read_all(fd, 0, &gaps);
    CHECK_EQ("one gap", gaps, 1);
    CHECK("old ones went", after < before / 2 && after > 0);
    CHECK("a place that is gone can be named", cay_events_may_resume(fd, CAY_EVENTS_BLOCK));
    CHECK_EQ("and read on from", read_all(fd, 100, &gaps), after);
    CHECK_EQ("with its gap", gaps, 1);
    cay_events_trim(dir, cay_clock_ms() + 1000);
    CHECK("of a file at rest little is left", read_all(fd, 0, &gaps) < 1000);
}

TEST(events_are_bounded_in_size)
{
    CAY_AUTO_FD int dir = open_dir();
    struct stat st;
    int gaps;
    CAY_AUTO_FD int fd = open_events(dir, "local");
    CAY_AUTO_FD int w = openat(dir, "local.jsonl", O_WRONLY | O_CLOEXEC);
    static char lines[CAY_EVENTS_BLOCK];
    memset(lines, 'x', sizeof lines);
    for (size_t i = 99; i < sizeof lines; i += 100)
        lines[i] = '\n';
    lines[sizeof lines - 1] = '\n';
    for (off_t at = 0; at < CAY_EVENTS_BYTES + 2 * CAY_EVENTS_BLOCK; at += CAY_EVENTS_BLOCK)
        CHECK_EQ("write", pwrite(w, lines, sizeof lines, at), (long long)sizeof lines);
    append(dir, "local", "last", 5);
    cay_events_trim(dir, 0);
    CHECK_EQ("stat", fstat(fd, &st), 0);
    CHECK("bounded", st.st_blocks * 512 <= CAY_EVENTS_BYTES + CAY_EVENTS_BLOCK);
    CHECK_EQ("the last is there", read_all(fd, 0, &gaps), 1);
}
