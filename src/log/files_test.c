/* SPDX-License-Identifier: Apache-2.0 */
#include "log/files.h"
#include "log/reader.h"
#include "model/limits.h"
#include "tests/test.h"
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#define BOX "sb-0123456789abcdefghij"
#define BOX2 "sb-0123456789abcdefghik"
#define AT "j/" BOX /* where its logs lie */
#define AT2 "k/" BOX2
#define ONE "exec_0000000000000001"
#define TWO "exec_0000000000000002"

static const char *words[] = {"/bin/sh", "-c", "echo hi"};
static struct cay_pair variables[] = {{"TOKEN", "very-secret"}};
static const struct cay_exec_spec spec = {.argv = {words, 3},
                                          .text = "echo hi",
                                          .cwd = "/tmp",
                                          .user = "user",
                                          .timeout_ms = 5,
                                          .env = {variables, 1}};

static int open_dir(void)
{
    return open(test_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

TEST(log_files_create_and_read)
{
    CAY_AUTO_FD int dir = open_dir();
    CAY_AUTO_FD int fd = -1;
    CAY_AUTO_FD int again = -1;
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_error err = {0};
    struct cay_execution x = {0};
    struct stat st;
    char text[1024] = {0};
    CHECK_EQ("not yet", cay_log_open(dir, BOX, ONE, &fd, &err), CAY_ERR_NOT_FOUND);
    CHECK_STR("not yet", err.name, "EXECUTION_NOT_FOUND");
    CHECK_EQ("create", cay_log_create(dir, BOX, ONE, &spec, &fd, &err), 0);
    CHECK_EQ("not twice", cay_log_create(dir, BOX, ONE, &spec, &again, &err), CAY_ERR_CONFLICT);
    CHECK_EQ("open", cay_log_open(dir, BOX, ONE, &again, &err), 0);
    CHECK_EQ("summary", cay_log_summary(again, &a, &x, &err), 0);
    CHECK_EQ("command", x.argv.count, 3);
    CHECK_STR("command", x.argv.at[2], "echo hi");
    CHECK_STR("text", x.text, "echo hi");
    CHECK("read", pread(fd, text, sizeof text - 1, 16) > 0);
    CHECK("the name of a variable", strstr(text, "TOKEN"));
    CHECK("never its value", !strstr(text, "very-secret"));
    CHECK_EQ("mode", fstatat(dir, AT, &st, 0), 0);
    CHECK_EQ("mode", st.st_mode & 0777, 0700);
}

TEST(log_files_cut_long_commands)
{
    static char huge[100000], odd[100000];
    memset(huge, 'a', sizeof huge - 1);
    memset(odd, 1, sizeof odd - 1); /* each becomes six bytes */
    const char *const long_words[] = {huge, odd};
    for (size_t i = 0; i < COUNT(long_words); i++) {
        CAY_AUTO_FD int dir = open_dir();
        CAY_AUTO_FD int fd = -1;
        CAY_AUTO_ARENA struct cay_arena a = {0};
        struct cay_error err = {0};
        struct cay_execution x = {0};
        const char *argv[] = {"/bin/sh", "-c", long_words[i]};
        struct cay_exec_spec s = {.argv = {argv, 3}, .text = long_words[i]};
        CHECK_EQ("create", cay_log_create(dir, BOX, i ? TWO : ONE, &s, &fd, &err), 0);
        CHECK_EQ("summary", cay_log_summary(fd, &a, &x, &err), 0);
        CHECK("its beginning", x.text && strlen(x.text) > 1000 && x.text[0] == long_words[i][0]);
        CHECK("a block", lseek(fd, 0, SEEK_END) <= CAY_LOG_BLOCK);
    }
}

static const struct {
    const char *name, *sandbox, *exec;
} bad_ids[] = {
    {"a way up", "..", ONE},
    {"a way around", BOX "/../x", ONE},
    {"an empty one", "", ""},
    {"no execution", BOX, "../" ONE},
    {"no digits", BOX, "exec_zzzzzzzzzzzzzzzz"},
};

TEST(log_files_check_ids)
{
    CAY_AUTO_FD int dir = open_dir();
    for (size_t i = 0; i < COUNT(bad_ids); i++) {
        struct cay_error err = {0};
        struct cay_log_fact fact = {.reason = "oom"};
        int fd = -1;
        CHECK(bad_ids[i].name,
              cay_log_create(dir, bad_ids[i].sandbox, bad_ids[i].exec, &spec, &fd, &err) < 0);
        CHECK(bad_ids[i].name,
              cay_log_open(dir, bad_ids[i].sandbox, bad_ids[i].exec, &fd, &err) < 0);
        CHECK(bad_ids[i].name,
              cay_log_fact_write(dir, bad_ids[i].sandbox, bad_ids[i].exec, &fact, &err) < 0);
    }
}

TEST(log_files_facts)
{
    CAY_AUTO_FD int dir = open_dir();
    struct cay_error err = {0};
    struct cay_log_fact fact = {.reason = "oom", .time_ms = 1234567890123}, got;
    CHECK("none", !cay_log_fact_read(dir, BOX, ONE, &got));
    CHECK_EQ("write", cay_log_fact_write(dir, BOX, ONE, &fact, &err), 0);
    CHECK("read", cay_log_fact_read(dir, BOX, ONE, &got));
    CHECK_STR("reason", got.reason, "oom");
    CHECK_EQ("time", got.time_ms, 1234567890123);
    CHECK_STR("nobody", got.process, "");
    cay_str_copy(fact.process, sizeof fact.process, "a) b c");
    CHECK_EQ("write over it", cay_log_fact_write(dir, BOX, ONE, &fact, &err), 0);
    CHECK("read again", cay_log_fact_read(dir, BOX, ONE, &got));
    CHECK_EQ("time again", got.time_ms, 1234567890123);
    CHECK_STR("somebody", got.process, "a) b c");
    int fd = openat(dir, AT "/" ONE ".fact", O_WRONLY | O_TRUNC | O_CLOEXEC);
    CHECK("half of one", write(fd, "oom 12", 6) == 6);
    (void)close(fd);
    CHECK("half of one is none", !cay_log_fact_read(dir, BOX, ONE, &got));
}

static bool alive(void *arg, const char *id)
{
    return strcmp(arg, id) == 0;
}

TEST(log_files_list_remove_sweep)
{
    CAY_AUTO_FD int dir = open_dir();
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_error err = {0};
    struct cay_strs list = {0};
    int fd = -1;
    char box[] = BOX;
    CHECK_EQ("none", cay_log_list(dir, BOX, &a, &list, &err), 0);
    CHECK_EQ("none", list.count, 0);
    CHECK_EQ("create", cay_log_create(dir, BOX, TWO, &spec, &fd, &err), 0);
    cay_close_fd(&fd);
    (void)usleep(20000); /* births are kept by the tick of the clock */
    CHECK_EQ("create", cay_log_create(dir, BOX, ONE, &spec, &fd, &err), 0);
    cay_close_fd(&fd);
    CHECK_EQ("create", cay_log_create(dir, BOX2, ONE, &spec, &fd, &err), 0);
    cay_close_fd(&fd);
    CHECK_EQ("list", cay_log_list(dir, BOX, &a, &list, &err), 0);
    CHECK_EQ("two", list.count, 2);
    CHECK_STR("newest first", list.count == 2 ? list.at[0] : "", ONE);
    cay_log_remove(dir, BOX, ONE);
    cay_log_remove(dir, BOX, ONE);
    CHECK_EQ("list", cay_log_list(dir, BOX, &a, &list, &err), 0);
    CHECK_EQ("one", list.count, 1);
    cay_log_sweep(dir, 60000, alive, box);
    CHECK_EQ("young ones stay", faccessat(dir, AT2, F_OK, 0), 0);
    (void)usleep(20000);
    cay_log_sweep(dir, 1, alive, box);
    CHECK("old ones go", faccessat(dir, AT2, F_OK, 0) < 0);
    CHECK_EQ("the living keep theirs", faccessat(dir, AT "/" TWO ".log", F_OK, 0), 0);
    cay_log_remove_all(dir, BOX);
    cay_log_remove_all(dir, BOX);
    CHECK("all gone", faccessat(dir, AT, F_OK, 0) < 0);
}

/* As a program before the shelves left them, once and again. */
TEST(log_files_are_put_onto_shelves)
{
    CAY_AUTO_FD int dir = open_dir();
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_error err = {0};
    struct cay_strs list = {0};
    static const char *const names[] = {ONE, TWO};
    for (size_t i = 0; i < COUNT(names); i++) {
        CAY_AUTO_FD int fd = -1;
        char path[64];
        snprintf(path, sizeof path, BOX "/%s.log", names[i]);
        CHECK_EQ("a directory", mkdirat(dir, BOX, 0700), 0);
        fd = openat(dir, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        CHECK("a log", fd >= 0);
        cay_log_shelve(dir);
        CHECK("not there any more", faccessat(dir, BOX, F_OK, 0) < 0);
        CHECK_EQ("but here", cay_log_list(dir, BOX, &a, &list, &err), 0);
        CHECK_EQ("with the earlier ones", list.count, i + 1);
    }
    cay_log_sweep(dir, -60000, alive, (char[]){"nobody"});
    CHECK("and swept from here", faccessat(dir, AT, F_OK, 0) < 0);
}
