/* SPDX-License-Identifier: Apache-2.0 */
#include "core/core.h"
#include "core/history.h"
#include "log/files.h"
#include "tests/fixture.h"
#include <stdio.h>
#include <sys/resource.h>

static void name(char id[CAY_ID_SIZE], int i)
{
    (void)snprintf(id, CAY_ID_SIZE, "sb-%020d", i);
}

static struct cay_history *visit(struct fixture *f, int i, bool half_done)
{
    CAY_AUTO_HISTORY_TURN struct cay_history_turn t = {0};
    char id[CAY_ID_SIZE];
    struct cay_error err = {0};
    name(id, i);
    CHECK_EQ("a turn", cay_history_turn_begin(f->core, id, true, &t, &err), 0);
    t.half_done = half_done;
    return t.h;
}

TEST(histories_stay_open)
{
    struct fixture f;
    struct cay_error err = {0};
    char id[CAY_ID_SIZE];
    fixture_open(&f);
    struct cay_historian *all = &f.core->historian;
    int dir_fd = open(test_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK_EQ("open", cay_historian_open(all, dir_fd, &err), 0);
    struct cay_history *first = visit(&f, 0, false);
    CHECK("the same again", visit(&f, 0, false) == first);
    for (int i = 1; i < CAY_HISTORY_OPEN; i++)
        (void)visit(&f, i, false);
    CHECK_EQ("as many as may", all->open_count, CAY_HISTORY_OPEN);
    CHECK("still the same", visit(&f, 0, false) == first);
    (void)visit(&f, CAY_HISTORY_OPEN, false);
    CHECK_EQ("and no more", all->open_count, CAY_HISTORY_OPEN);
    name(id, 1);
    for (size_t i = 0; i < all->open_count; i++)
        CHECK("the one that was used longest ago went", strcmp(all->open[i].id, id) != 0);
    (void)visit(&f, 0, true);
    CHECK_EQ("one that is half done does not stay", all->open_count, CAY_HISTORY_OPEN - 1);
    name(id, 2);
    cay_history_forget(f.core, id);
    CHECK_EQ("nor one that is gone", all->open_count, CAY_HISTORY_OPEN - 2);
    CHECK("with its files", faccessat(all->dir_fd, id, F_OK, 0) < 0);
    for (int i = 0; i <= CAY_HISTORY_OPEN; i++) {
        name(id, i);
        cay_history_forget(f.core, id);
    }
    close(dir_fd);
    fixture_close(&f);
}

/* Something is in its memory that is not on the disk. */
static void remember(struct fixture *f, int i)
{
    CAY_AUTO_HISTORY_TURN struct cay_history_turn t = {0};
    struct cay_history_file file = {.path = "a", .path_len = 1, .mode = 0100644, .size = 1};
    struct cay_error err = {0};
    char id[CAY_ID_SIZE];
    name(id, i);
    CHECK_EQ("a turn", cay_history_turn_begin(f->core, id, true, &t, &err), 0);
    CHECK_EQ("taken", cay_history_take(t.h, &file, "x", 1, &err), 0);
}

/* Is what was in the memory of 0 on the disk, now that it went to make room? */
static bool is_written(struct fixture *f, bool somebody_has_it)
{
    CAY_AUTO_HOLD struct cay_hold held = {0};
    struct cay_error err = {0};
    char id[CAY_ID_SIZE], path[CAY_ID_SIZE + 8];
    remember(f, 0);
    name(id, 0);
    if (somebody_has_it)
        CHECK_EQ("held", cay_history_hold(f->core, id, &held, &err), 0);
    for (int i = 1; i <= CAY_HISTORY_OPEN; i++)
        (void)visit(f, i, false);
    (void)snprintf(path, sizeof path, "%s/index", id);
    return faccessat(f->core->historian.dir_fd, path, F_OK, 0) == 0;
}

TEST(histories_that_somebody_has_are_not_written_by_others)
{
    struct fixture f;
    struct cay_error err = {0};
    fixture_open(&f);
    int dir_fd = open(test_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK_EQ("open", cay_historian_open(&f.core->historian, dir_fd, &err), 0);
    CHECK("not by others", !is_written(&f, true));
    CHECK("but when nobody has it", is_written(&f, false));
    close(dir_fd);
    fixture_close(&f);
}

/* Without a descriptor nobody could be told of the version: then none is due. */
TEST(history_without_descriptors_keeps_nobody_waiting)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_sandbox sb = {.account_id = CAY_LOCAL_ACCOUNT, .spec = {.track = "workspace"}};
    struct cay_exec_spec spec = {0};
    struct rlimit before, few;
    char exec_id[CAY_ID_SIZE];
    CAY_AUTO_FD int log_fd = -1;
    fixture_open(&f);
    int dir_fd = open(test_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK_EQ("open", cay_historian_open(&f.core->historian, dir_fd, &err), 0);
    name(sb.id, 0);
    cay_id_execution(exec_id);
    CHECK_EQ("a log", cay_log_create(f.core->logs_fd, sb.id, exec_id, &spec, &log_fd, &err), 0);
    struct cay_tracked *due = cay_history_expect(f.core, &sb, exec_id, &spec);
    CHECK("it is due", cay_core_version_due(f.core, exec_id));
    int free_fd = fcntl(dir_fd, F_DUPFD_CLOEXEC, 3);
    close(free_fd);
    (void)getrlimit(RLIMIT_NOFILE, &before);
    few = before;
    few.rlim_cur = (rlim_t)free_fd + 1; /* the log's own, and no second */
    (void)setrlimit(RLIMIT_NOFILE, &few);
    cay_history_began(f.core, due, true);
    (void)setrlimit(RLIMIT_NOFILE, &before);
    CHECK("nothing is due", !cay_core_version_due(f.core, exec_id));
    close(dir_fd);
    fixture_close(&f);
}

/* What commands bring is in memory, and in a file, as long as they run. */
TEST(history_notes_so_much_of_what_is_brought)
{
    struct fixture f;
    struct cay_error err = {0};
    struct cay_sandbox sb = {.account_id = CAY_LOCAL_ACCOUNT, .spec = {.track = "workspace"}};
    struct cay_exec_file files[100];
    struct cay_exec_spec spec = {.files = files, .file_count = COUNT(files)};
    char path[4000], exec_id[CAY_ID_SIZE];
    fixture_open(&f);
    struct cay_historian *all = &f.core->historian;
    int dir_fd = open(test_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK_EQ("open", cay_historian_open(all, dir_fd, &err), 0);
    memset(path, 'a', sizeof path - 1);
    path[sizeof path - 1] = 0;
    for (size_t i = 0; i < COUNT(files); i++)
        files[i] = (struct cay_exec_file){.path = path};
    name(sb.id, 0);
    for (int i = 0; i < 100; i++) {
        cay_id_execution(exec_id);
        CHECK("it is due", cay_history_expect(f.core, &sb, exec_id, &spec));
        CHECK("not much of one",
              all->due_bytes < (uint64_t)(i + 1) * (CAY_HISTORY_BROUGHT_BYTES + 400));
    }
    CHECK("some of all", all->due_bytes > CAY_HISTORY_BROUGHT_HERE / 2);
    CHECK("not much", all->due_bytes < CAY_HISTORY_BROUGHT_HERE + 100 * 400);
    name(sb.id, 1);
    uint64_t before = all->due_bytes;
    cay_id_execution(exec_id);
    CHECK("another's is due", cay_history_expect(f.core, &sb, exec_id, &spec));
    CHECK("with its files", all->due_bytes > before + CAY_HISTORY_BROUGHT_BYTES / 2);
    close(dir_fd);
    fixture_close(&f);
}

TEST(history_that_is_full_takes_no_version)
{
    CAY_AUTO_HISTORY_TURN struct cay_history_turn t = {0};
    struct fixture f;
    struct cay_error err = {0};
    struct cay_sandbox sb = {.account_id = CAY_LOCAL_ACCOUNT, .spec = {.track = "workspace"}};
    struct cay_history_note note = {.id = CAY_HISTORY_NO_ID, .message = "m"};
    char path[CAY_ID_SIZE + 16], commit[CAY_COMMIT_SIZE];
    bool made;
    fixture_open(&f);
    struct cay_historian *all = &f.core->historian;
    int dir_fd = open(test_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK_EQ("open", cay_historian_open(all, dir_fd, &err), 0);
    name(sb.id, 0);
    CHECK_EQ("a turn", cay_history_turn_begin(f.core, sb.id, true, &t, &err), 0);
    CHECK("it has room", cay_history_has_room(t.h, &sb));
    (void)snprintf(path, sizeof path, "%s/journal", sb.id);
    CAY_AUTO_FD int fd = openat(all->dir_fd, path, O_WRONLY | O_CLOEXEC);
    CHECK_EQ("a long journal", ftruncate(fd, CAY_HISTORY_JOURNAL_BYTES + 1), 0);
    CHECK_EQ("refused", cay_history_commit_now(&t, &sb, &note, &made, commit, &err),
             CAY_ERR_TOO_LARGE);
    CHECK_STR("and told why", err.name, "HISTORY_FULL");
    cay_history_turn_end(&t);
    close(dir_fd);
    fixture_close(&f);
}

TEST(history_bundles_are_so_many_at_once)
{
    struct fixture f;
    struct cay_error err = {0};
    int ends[CAY_HISTORY_BUNDLES], one_more = -1;
    fixture_open(&f);
    struct cay_historian *all = &f.core->historian;
    for (int i = 0; i < CAY_HISTORY_BUNDLES; i++)
        CHECK_EQ("one", cay_history_bundle_begin(all, &ends[i], &err), 0);
    CHECK_EQ("too many", cay_history_bundle_begin(all, &one_more, &err), CAY_ERR_UNAVAILABLE);
    close(ends[1]);
    CHECK_EQ("that was fetched", cay_history_bundle_begin(all, &ends[1], &err), 0);
    CHECK_EQ("no second", cay_history_bundle_begin(all, &one_more, &err), CAY_ERR_UNAVAILABLE);
    for (int i = 0; i < CAY_HISTORY_BUNDLES; i++)
        close(ends[i]);
    fixture_close(&f);
}
