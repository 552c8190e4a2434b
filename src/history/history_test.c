/* SPDX-License-Identifier: Apache-2.0 */
#include "history/inside.h"
#include "tests/test.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define BOX "sb-aaaaaaaaaaaaaaaaaaaa"
#define OTHER "sb-bbbbbbbbbbbbbbbbbbbb"

struct trial {
    int dir_fd;
    struct cay_history *h;
    struct cay_arena a;
    struct cay_error err;
    int64_t clock_ns;
};

struct put {
    const char *path, *text;
    uint32_t mode;
};

static void begin(struct trial *t)
{
    *t = (struct trial){.clock_ns = 1000000000000000000};
    t->dir_fd = open(test_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK_EQ("open", cay_history_open(t->dir_fd, BOX, true, &t->h, &t->err), 0);
}

static void reopen(struct trial *t)
{
    cay_history_close(t->h, true);
    CHECK_EQ("open again", cay_history_open(t->dir_fd, BOX, false, &t->h, &t->err), 0);
}

static void end(struct trial *t)
{
    cay_history_close(t->h, true);
    cay_history_remove(t->dir_fd, BOX);
    struct stat st;
    CHECK("nothing is left", fstatat(t->dir_fd, BOX, &st, 0) < 0);
    cay_arena_done(&t->a);
    close(t->dir_fd);
}

/* One version of a whole workspace; how many contents were wanted, or -1 when none was made. */
static int commit(struct trial *t, const char *id, const struct put *files, size_t count)
{
    struct cay_history_file seen[16];
    bool made = false;
    char commit_id[CAY_COMMIT_SIZE];
    int wanted = 0;
    for (size_t i = 0; i < count; i++) {
        int64_t age = (int64_t)strlen(files[i].text) + 1000; /* another text, another time */
        seen[i] = (struct cay_history_file){.path = files[i].path,
                                            .path_len = strlen(files[i].path),
                                            .mode = files[i].mode ? files[i].mode : 0100644,
                                            .size = strlen(files[i].text),
                                            .inode = 7,
                                            .mtime_ns = t->clock_ns - age * 1000000000,
                                            .ctime_ns = t->clock_ns - age * 1000000000};
    }
    for (int round = 0; round < 2; round++) { /* what rules are there, then by them */
        CHECK_EQ("look",
                 (round == 0 ? cay_history_look_at_rules
                             : cay_history_look)(t->h, seen, count, t->clock_ns / 1000000, &t->err),
                 0);
        for (size_t i = 0; i < count; i++)
            for (size_t k = 0; seen[i].stale && k < count; k++)
                if (strcmp(files[k].path, seen[i].path) == 0 &&
                    (round == 1 || cay_history_is_rules(seen[i].path))) {
                    wanted++;
                    CHECK_EQ("take",
                             cay_history_take(t->h, &seen[i], files[k].text, strlen(files[k].text),
                                              &t->err),
                             0);
                }
    }
    struct cay_history_note note = {.id = id,
                                    .message = "Update files for sandbox execution",
                                    .time_ms = t->clock_ns / 1000000,
                                    .files = seen,
                                    .count = count};
    CHECK_EQ("commit", cay_history_commit(t->h, &note, &made, commit_id, &t->err), 0);
    return made ? wanted : -1;
}

static void on_diff(void *arg, const char *path, const char *diff, size_t len)
{
    cay_buf_addf(arg, "[%s]%.*s", path, (int)len, diff);
}

TEST(history_of_document_004)
{
    struct trial t;
    struct cay_versions all = {0};
    CAY_AUTO_BUF struct cay_buf diff = {0};
    begin(&t);
    const struct put first[] = {{"README.md", "hello\n", 0}};
    const struct put second[] = {{"index.js", "console.log(\"Version 1\");", 0},
                                 {"README.md", "hello\n", 0}};
    const struct put third[] = {
        {"index.js", "console.log(\"Version 2\");\nconsole.log(\"New feature added!\");", 0},
        {"README.md", "hello\n", 0}};
    CHECK_EQ("the first", commit(&t, CAY_HISTORY_NO_ID, first, 1), 1);
    CHECK_EQ("only what is new", commit(&t, "exec_1", second, 2), 1);
    CHECK_EQ("nothing new, no version", commit(&t, "exec_x", second, 2), -1);
    reopen(&t);
    CHECK_EQ("only what changed", commit(&t, "exec_2", third, 2), 1);
    CHECK_EQ("list", cay_history_list(t.h, &t.a, &all, &t.err), 0);
    CHECK_EQ("three versions", all.count, 3);
    CHECK_STR("newest first", all.at[0].id, "exec_2");
    CHECK_STR("with its file", all.at[0].files.at[0], "index.js");
    CHECK_EQ("and no other", all.at[0].file_count, 1);
    CHECK_STR("oldest last", all.at[2].files.at[0], "README.md");
    CHECK_EQ("found", cay_history_has(t.h, "exec_1", "id", &t.err), 0);
    CHECK_EQ("not found", cay_history_has(t.h, "exec_x", "id", &t.err), CAY_ERR_NOT_FOUND);
    struct cay_history_ask ask = {"exec_1", "exec_2", "fromExecId", "toExecId"};
    CHECK_EQ("diff", cay_history_diff(t.h, &ask, on_diff, &diff, &t.err), 0);
    cay_buf_addc(&diff, 0);
    const char *body = strstr(diff.data, "--- a/");
    static const char start[] = "[index.js]diff --git a/index.js b/index.js\nindex ";
    CHECK("begins as git's", strncmp(diff.data, start, strlen(start)) == 0);
    CHECK_STR("goes on as the document's", body,
              "--- a/index.js\n+++ b/index.js\n@@ -1 +1,2 @@\n-console.log(\"Version 1\");\n"
              "+console.log(\"Version 2\");\n+console.log(\"New feature added!\");\n");
    ask.from = "HEAD@{1}";
    CHECK_EQ("no such id", cay_history_diff(t.h, &ask, on_diff, &diff, &t.err), CAY_ERR_NOT_FOUND);
    CHECK_STR("its field", t.err.field, "fromExecId");
    end(&t);
}

struct step {
    char text[512];
};

static int on_step(void *arg, const char *path, uint32_t mode, const void *data, size_t len,
                   struct cay_error *err)
{
    struct step *s = arg;
    size_t at = strlen(s->text);
    (void)err;
    (void)snprintf(s->text + at, sizeof s->text - at, "%s %o %.*s|", path, mode, (int)len,
                   data ? (const char *)data : "");
    return 0;
}

TEST(history_goes_back)
{
    struct trial t;
    struct step all = {""}, one = {""};
    begin(&t);
    const struct put first[] = {{"a", "1", 0}, {"dir/run", "#!", 0100755}, {"link", "a", 0120777}};
    const struct put second[] = {{"a", "22", 0}, {"dir", "now a file", 0}, {"new", "x", 0}};
    (void)commit(&t, "exec_1", first, 3);
    (void)commit(&t, "exec_2", second, 3);
    CHECK_EQ("back", cay_history_back(t.h, "exec_1", "executionId", NULL, on_step, &all, &t.err),
             0);
    CHECK_STR("what goes first, then what comes", all.text,
              "dir 1 |new 1 |a 100644 1|dir/run 100755 #!|link 120000 a|");
    CHECK_EQ("one file", cay_history_back(t.h, "exec_1", "", "a", on_step, &one, &t.err), 0);
    CHECK_STR("that one", one.text, "a 100644 1|");
    end(&t);
}

TEST(history_leaves_out_what_is_ignored)
{
    struct trial t;
    struct cay_versions all = {0};
    begin(&t);
    const struct put files[] = {{".gitignore", "*.log\n/build/\n!keep.log\n", 0},
                                {"a.log", "1", 0},
                                {"keep.log", "2", 0},
                                {"build/out", "3", 0},
                                {"src/build/in", "4", 0},
                                {"odd\nname\xff", "5", 0}};
    (void)commit(&t, "exec_1", files, 6);
    CHECK_EQ("list", cay_history_list(t.h, &t.a, &all, &t.err), 0);
    CHECK_EQ("kept", all.at[0].file_count, 4);
    CHECK_EQ("left out", all.at[0].left_out_count, 2);
    CHECK_STR("and told", all.at[0].left_out.at[1], "build/out");
    CHECK_STR("quoted as git does", all.at[0].files.at[2], "\"odd\\nname\\377\"");
    end(&t);
}

TEST(history_ignore_rules)
{
    static const struct {
        const char *rules, *path;
        bool ignored;
    } cases[] = {
        {"*.o", "a.o", true},
        {"*.o", "dir/a.o", true},
        {"/a.o", "dir/a.o", false},
        {"dir/*.o", "dir/a.o", true},
        {"dir/*.o", "dir/sub/a.o", false},
        {"dir/**/a.o", "dir/a.o", true},
        {"dir/**/a.o", "dir/x/y/a.o", true},
        {"**/cache", "x/cache/file", true},
        {"node_modules/", "node_modules/x/y.js", true},
        {"node_modules/", "node_modules", false},
        {"*\n!keep", "keep", false},
        {"dir\n!dir/keep", "dir/keep", true},
        {"[ab]?", "bx", true},
        {"[!ab]", "a", false},
        {"\\#x", "#x", true},
        {"# a", "# a", false},
        {"a ", "a", true},
        {"", "a", false},
        {"***********************a", "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb", false},
    };
    for (size_t i = 0; i < CAY_COUNT(cases); i++) {
        CAY_AUTO_ARENA struct cay_arena a = {0};
        struct cay_ignore rules = {0};
        cay_ignore_add(&a, &rules, "", cases[i].rules, strlen(cases[i].rules));
        CHECK_EQ(cases[i].rules, cay_ignore_has(&rules, cases[i].path), cases[i].ignored);
    }
}

TEST(history_of_many_files_is_one_pack)
{
    struct trial t;
    struct cay_history_file seen[500];
    char paths[500][24];
    bool made;
    char id[CAY_COMMIT_SIZE];
    begin(&t);
    for (int i = 0; i < 500; i++) {
        (void)snprintf(paths[i], sizeof paths[i], "d%d/f%d", i / 100, i);
        seen[i] = (struct cay_history_file){
            .path = paths[i], .path_len = strlen(paths[i]), .mode = 0100644, .size = 3, .inode = 9};
    }
    CHECK_EQ("look", cay_history_look(t.h, seen, 500, t.clock_ns / 1000000, &t.err), 0);
    for (int i = 0; i < 500; i++)
        CHECK_EQ("take", cay_history_take(t.h, &seen[i], seen[i].path, 3, &t.err), 0);
    struct cay_history_note note = {.id = "exec_1", .message = "m", .time_ms = 1000};
    CHECK_EQ("commit", cay_history_commit(t.h, &note, &made, id, &t.err), 0);
    reopen(&t);
    struct step s = {""};
    CHECK_EQ("all is there", cay_history_back(t.h, id, "", NULL, on_step, &s, &t.err), 0);
    CHECK_STR("and as it is", s.text, "");
    CHECK_EQ("copied", cay_history_copy(t.dir_fd, t.h, OTHER, &t.err), 0);
    end(&t);
    begin(&t);
    struct cay_history *other = NULL;
    CHECK_EQ("the other is there", cay_history_open(t.dir_fd, OTHER, false, &other, &t.err), 0);
    CHECK_EQ("and knows", cay_history_has(other, "exec_1", "id", &t.err), 0);
    CHECK_EQ("all of it", cay_history_back(other, "exec_1", "", NULL, on_step, &s, &t.err), 0);
    cay_history_close(other, true);
    cay_history_remove(t.dir_fd, OTHER);
    end(&t);
}

/* A server that was killed has not written what it remembered last. */
TEST(history_survives_an_old_index)
{
    struct trial t;
    struct put files[16];
    char paths[COUNT(files)][8];
    CAY_AUTO_BUF struct cay_buf diff = {0};
    begin(&t);
    for (size_t i = 0; i < COUNT(files); i++) {
        (void)snprintf(paths[i], sizeof paths[i], "f%zu", i);
        files[i] = (struct put){paths[i], "1", 0};
    }
    CHECK_EQ("all are new", commit(&t, "exec_1", files, COUNT(files)), COUNT(files));
    files[3].text = "22";
    CHECK_EQ("one is", commit(&t, "exec_2", files, COUNT(files)), 1);
    CHECK_EQ("it waits", t.h->unwritten, 1);
    cay_history_close(t.h, false);
    CHECK_EQ("open again", cay_history_open(t.dir_fd, BOX, false, &t.h, &t.err), 0);
    CHECK_EQ("nothing new, no version", commit(&t, "exec_x", files, COUNT(files)), -1);
    cay_history_close(t.h, false);
    CHECK_EQ("once more", cay_history_open(t.dir_fd, BOX, false, &t.h, &t.err), 0);
    files[5].text = "333";
    CHECK_EQ("what was not written, and what is new", commit(&t, "exec_3", files, COUNT(files)), 2);
    struct cay_history_ask ask = {"exec_2", "exec_3", "from", "to"};
    CHECK_EQ("diff", cay_history_diff(t.h, &ask, on_diff, &diff, &t.err), 0);
    CHECK("only that",
          strncmp(diff.data, "[f5]", 4) == 0 && !memchr(diff.data + 1, '[', diff.len - 1));
    end(&t);
}

TEST(history_survives_a_torn_line)
{
    struct trial t;
    struct cay_versions all = {0};
    const struct put first[] = {{"a", "1", 0}};
    const struct put second[] = {{"a", "22", 0}};
    begin(&t);
    (void)commit(&t, "exec_1", first, 1);
    int fd = openat(t.dir_fd, BOX "/journal", O_WRONLY | O_APPEND | O_CLOEXEC);
    CHECK_EQ("torn", write(fd, "{\"id\":\"exec_2\",\"comm", 20), 20);
    close(fd);
    reopen(&t);
    CHECK_EQ("goes on", commit(&t, "exec_3", second, 1), 1);
    CHECK_EQ("list", cay_history_list(t.h, &t.a, &all, &t.err), 0);
    CHECK_EQ("two versions", all.count, 2);
    CHECK_STR("the new one", all.at[0].id, "exec_3");
    end(&t);
}

static void put_file(int dir_fd, const char *name, const char *text)
{
    CAY_AUTO_FD int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    CHECK_EQ(name, write(fd, text, strlen(text)), strlen(text));
}

static bool is_there(int dir_fd, const char *name)
{
    return faccessat(dir_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* What one who is killed leaves is in nobody's way, and in no copy. */
TEST(history_survives_what_the_killed_leave)
{
    static const char *const left[] = {"/index.lock", "/objects/tmp_object_git2_a1b2",
                                       "/objects/pack/draft", "/objects/pack/.pack-1.idx.x.tmp"};
    struct trial t;
    const struct put first[] = {{"a", "1", 0}};
    const struct put second[] = {{"a", "22", 0}};
    char name[80];
    begin(&t);
    (void)commit(&t, "exec_1", first, 1);
    for (size_t i = 0; i < COUNT(left); i++) {
        (void)snprintf(name, sizeof name, BOX "%s", left[i]);
        put_file(t.dir_fd, name, "half");
    }
    CHECK_EQ("copied", cay_history_copy(t.dir_fd, t.h, OTHER, &t.err), 0);
    for (size_t i = 0; i < COUNT(left); i++) {
        (void)snprintf(name, sizeof name, OTHER "%s", left[i]);
        CHECK(name, !is_there(t.dir_fd, name));
    }
    CHECK("what counts is", is_there(t.dir_fd, OTHER "/index"));
    cay_history_remove(t.dir_fd, OTHER);
    reopen(&t);
    CHECK_EQ("goes on behind a lock", commit(&t, "exec_2", second, 1), 1);
    cay_history_close(t.h, true);
    put_file(t.dir_fd, BOX "/index", "no index");
    CHECK_EQ("open without", cay_history_open(t.dir_fd, BOX, false, &t.h, &t.err), 0);
    CHECK_EQ("nothing is new", commit(&t, "exec_x", second, 1), -1);
    CHECK_EQ("goes on", commit(&t, "exec_3", first, 1), 1);
    end(&t);
}

struct busy {
    int dir_fd;
    atomic_bool over;
};

static void *come_and_go(void *arg)
{
    struct busy *b = arg;
    while (!atomic_load(&b->over)) {
        char name[48];
        for (int i = 0; i < 50; i++) {
            (void)snprintf(name, sizeof name, BOX "/objects/tmp_object_%d", i);
            put_file(b->dir_fd, name, "x");
        }
        for (int i = 0; i < 50; i++) {
            (void)snprintf(name, sizeof name, BOX "/objects/tmp_object_%d", i);
            (void)unlinkat(b->dir_fd, name, 0);
        }
    }
    return NULL;
}

TEST(history_is_saved_while_it_is_written_to)
{
    struct trial t;
    pthread_t thread;
    const struct put first[] = {{"a", "1", 0}};
    begin(&t);
    (void)commit(&t, "exec_1", first, 1);
    struct busy b = {.dir_fd = t.dir_fd};
    CHECK_EQ("mkdir", mkdirat(t.dir_fd, "saved", 0700), 0);
    int to_fd = openat(t.dir_fd, "saved", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK_EQ("thread", pthread_create(&thread, NULL, come_and_go, &b), 0);
    for (int i = 0; i < 60; i++) {
        CHECK_EQ("saved", cay_history_save(t.dir_fd, BOX, to_fd, &t.err), 0);
        cay_history_remove(to_fd, BOX);
    }
    atomic_store(&b.over, true);
    pthread_join(thread, NULL);
    close(to_fd);
    end(&t);
}

TEST(history_leaves_out_names_that_git_refuses)
{
    struct trial t;
    struct cay_versions all = {0};
    const struct put files[] = {{"a", "1", 0},
                                {".GIT", "2", 0},
                                {".git.", "3", 0},
                                {"git~1", "4", 0},
                                {"d/.Git/config", "5", 0},
                                {".gitmodules", "a", 0120777},
                                {".gitattributes", "a", 0120777},
                                {"gitmod~1", "a", 0120777}};
    begin(&t);
    (void)commit(&t, "exec_1", files, COUNT(files));
    CHECK_EQ("list", cay_history_list(t.h, &t.a, &all, &t.err), 0);
    CHECK_EQ("a version", all.count, 1);
    CHECK_EQ("left out", all.at[0].left_out_count, 4);
    CHECK_STR("and told", all.at[0].left_out.at[0], ".GIT");
    CHECK_EQ("and kept the others", all.at[0].file_count, COUNT(files) - 4);
    reopen(&t);
    CHECK_EQ("nothing new, no version", commit(&t, "exec_x", files, COUNT(files)), -1);
    end(&t);
}

/* Rules that would take hours end the look; new ones are read all the same. */
TEST(history_ignore_rules_have_an_end)
{
    struct trial t;
    CAY_AUTO_BUF struct cay_buf text = {0};
    char name[200];
    memset(name, 'a', sizeof name - 1);
    name[sizeof name - 1] = 0;
    for (int i = 0; i < 1000; i++)
        cay_buf_adds(&text, "*a*a*a*a*a*a*a*a*a*a*b\n");
    begin(&t);
    struct cay_history_file files[] = {{.path = ".gitignore", .mode = 0100644, .size = text.len},
                                       {.path = name, .path_len = 199, .mode = 0100644}};
    int64_t now_ms = t.clock_ns / 1000000;
    CHECK_EQ("take", cay_history_take(t.h, &files[0], text.data, text.len, &t.err), 0);
    CHECK_EQ("too long", cay_history_look(t.h, files, 2, now_ms, &t.err), CAY_ERR_TOO_LARGE);
    files[0].size = 2;
    files[0].stale = false;
    CHECK_EQ("again", cay_history_look_at_rules(t.h, files, 2, now_ms, &t.err), 0);
    CHECK("new rules are wanted", files[0].stale);
    CHECK_EQ("and taken", cay_history_take(t.h, &files[0], "b\n", 2, &t.err), 0);
    CHECK_EQ("then it is well", cay_history_look(t.h, files, 2, now_ms, &t.err), 0);
    end(&t);
}

TEST(history_ignore_rules_have_a_length)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    CAY_AUTO_BUF struct cay_buf text = {0};
    struct cay_ignore rules = {0};
    for (int i = 0; i < 1000000; i++)
        cay_buf_adds(&text, "**/");
    cay_buf_adds(&text, "x\ny\n");
    cay_ignore_add(&a, &rules, "", text.data, text.len);
    CHECK_EQ("it is none", rules.count, 1);
    CHECK("the next one is", cay_ignore_has(&rules, "d/y"));
    CHECK("others do not fit", !cay_ignore_has(&rules, "d/x"));
}

/* A line of the journal stays small whatever names there are, and its numbers true. */
TEST(history_tells_so_many_bytes_of_names)
{
    struct trial t;
    enum { N = 100, LONG = 1000 };
    struct cay_history_file seen[2 * N];
    char paths[2 * N][LONG];
    struct cay_versions all = {0};
    struct cay_strs brought = {0};
    struct stat st;
    bool made;
    char id[CAY_COMMIT_SIZE];
    begin(&t);
    memset(paths, 1, sizeof paths); /* each byte is four when it is quoted */
    for (int i = 0; i < 2 * N; i++) {
        (void)snprintf(paths[i] + LONG - 8, 8, "%07d", i);
        for (int at = 200; at < LONG - 8; at += 200)
            paths[i][at] = '/';
        seen[i] = (struct cay_history_file){.path = paths[i],
                                            .path_len = LONG - 1,
                                            .mode = 0100644,
                                            .size = i < N ? 1 : CAY_HISTORY_FILE_BYTES + 1};
        cay_strs_push(&t.a, &brought, paths[i % N]); /* each twice, and each is new */
    }
    CHECK_EQ("look", cay_history_look(t.h, seen, 2 * N, t.clock_ns / 1000000, &t.err), 0);
    for (int i = 0; i < 2 * N; i++)
        if (seen[i].stale)
            CHECK_EQ("take", cay_history_take(t.h, &seen[i], "x", 1, &t.err), 0);
    struct cay_history_note note = {.id = "exec_1",
                                    .message = "m",
                                    .time_ms = 1000,
                                    .brought = &brought,
                                    .files = seen,
                                    .count = 2 * N};
    CHECK_EQ("commit", cay_history_commit(t.h, &note, &made, id, &t.err), 0);
    CHECK_EQ("stat", fstatat(t.dir_fd, BOX "/journal", &st, 0), 0);
    CHECK("a short line", st.st_size < 2 * (CAY_HISTORY_TOLD_BYTES + CAY_HISTORY_LEFT_BYTES));
    CHECK_EQ("list", cay_history_list(t.h, &t.a, &all, &t.err), 0);
    CHECK("some are named", all.at[0].files.count > 0);
    CHECK_EQ("all are counted, once", all.at[0].file_count, N);
    CHECK_EQ("left out as well", all.at[0].left_out_count, N);
    end(&t);
}

/* What was written counts, also when no version came of it; but what it takes on the disk decides.
 */
TEST(history_is_full_at_last)
{
    struct trial t;
    enum { LEN = 1 << 20 };
    CAY_AUTO_FREE char *data = calloc(1, LEN);
    struct cay_history_file file = {.path = "a", .path_len = 1, .mode = 0100644, .size = LEN};
    begin(&t);
    CHECK("it has room", !cay_history_is_full(t.h, LEN));
    CHECK_EQ("take", cay_history_take(t.h, &file, data, LEN, &t.err), 0);
    CHECK("it was written", t.h->bytes >= LEN);
    CHECK("but takes little", !cay_history_is_full(t.h, LEN));
    CHECK("that was measured", t.h->bytes < LEN / 2);
    uint32_t noise = 1;
    for (int i = 0; i < LEN; i++) {
        noise = noise * 1664525 + 1013904223;
        data[i] = (char)(noise >> 24);
    }
    CHECK_EQ("take", cay_history_take(t.h, &file, data, LEN, &t.err), 0);
    cay_history_close(t.h, false);
    CHECK_EQ("open again", cay_history_open(t.dir_fd, BOX, false, &t.h, &t.err), 0);
    CHECK("no version came of it", !t.h->has_head);
    CHECK("it is full", cay_history_is_full(t.h, LEN));
    CHECK("and stays so", cay_history_is_full(t.h, LEN));
    CHECK("there is room for more", !cay_history_is_full(t.h, 2 * LEN));
    end(&t);
}
