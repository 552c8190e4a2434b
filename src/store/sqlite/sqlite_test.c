/* SPDX-License-Identifier: Apache-2.0 */
/* What only this store has: files that can be damaged, a log, groups, a disk that is full. */
#include "store/migrations/migrations.h"
#include "store/sqlite/file.h"
#include "store/sqlite/sqlite.h"
#include "store/sqlite/syncer.h"
#include "tests/test.h"
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>

static int dir_fd(void)
{
    return open(test_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int open_store(struct cay_store **out, struct cay_error *err)
{
    CAY_AUTO_FD int dir = dir_fd();
    struct cay_config cfg = {.data_fd = dir};
    return cay_store_open("sqlite", &cfg, out, err);
}

static struct cay_sandbox make(const char *name)
{
    struct cay_sandbox sb = {.account_id = "local",
                             .spec = cay_spec_default(),
                             .state = CAY_RUNNING,
                             .created_at_ms = 1};
    cay_id_sandbox(sb.id);
    sb.spec.name = name;
    return sb;
}

/* The kernel tells of a failed sync once: nobody behind it is told that his is good, until all was
 * written back. */
TEST(sqlite_a_failed_sync_is_everybodys)
{
    CAY_AUTO_FD int dir = dir_fd();
    struct cay_error err = {0};
    struct cay_sqlite_checkpoint checkpoint = {0};
    struct cay_sqlite_syncer y;
    CHECK_EQ("open", cay_sqlite_syncer_open(&y, dir, &checkpoint, &err), 0);
    uint64_t first = cay_sqlite_syncer_begin(&y);
    CHECK_EQ("there is no log", cay_sqlite_syncer_end(&y, first, &err), CAY_ERR_STORE);
    CAY_AUTO_FD int log = openat(dir, CAY_SQLITE_FILE "-wal", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    uint64_t second = cay_sqlite_syncer_begin(&y);
    CHECK_EQ("behind a failure", cay_sqlite_syncer_end(&y, second, &err), CAY_ERR_STORE);
    CHECK_EQ("who looks late", cay_sqlite_syncer_end(&y, first, &err), CAY_ERR_STORE);
    atomic_store(&checkpoint.unsynced, false);
    uint64_t third = cay_sqlite_syncer_begin(&y);
    CHECK_EQ("all was written back", cay_sqlite_syncer_end(&y, third, &err), 0);
    cay_sqlite_syncer_close(&y);
    CHECK("log", log >= 0);
}

static void insert_many(struct cay_store *s, int count)
{
    for (int i = 0; i < count; i++) {
        struct cay_error err = {0};
        char name[16];
        (void)snprintf(name, sizeof name, "n%d", i);
        struct cay_sandbox sb = make(name);
        CHECK_EQ("insert", cay_store_insert(s, &sb, CAY_SOON, &err), 0);
    }
}

static int64_t count_rows(struct cay_store *s)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_error err = {0};
    struct cay_sandbox_list list = {.count = (size_t)-1};
    CHECK_EQ("all", cay_store_all(s, &a, &list, &err), 0);
    return (int64_t)list.count;
}

static void copy_file(int from_dir, const char *from, int to_dir, const char *to)
{
    CAY_AUTO_FREE char *data = malloc(1 << 20);
    CAY_AUTO_FD int in = openat(from_dir, from, O_RDONLY | O_CLOEXEC);
    CAY_AUTO_FD int out = openat(to_dir, to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);
    for (ssize_t got; (got = read(in, data, 1 << 20)) > 0;)
        CHECK_EQ("copy", write(out, data, (size_t)got), got);
}

static int64_t size_of(int dir, const char *name)
{
    struct stat st;
    return fstatat(dir, name, &st, 0) == 0 ? st.st_size : -1;
}

TEST(sqlite_rows_survive_a_close)
{
    struct cay_error err = {0};
    struct cay_store *s = NULL;
    struct stat st = {0};
    CAY_AUTO_FD int dir = dir_fd();
    CHECK_EQ("open", open_store(&s, &err), 0);
    insert_many(s, 50);
    CHECK_EQ("mode", fstatat(dir, "cay.db", &st, 0) == 0 ? st.st_mode & 07777 : 0, 0640);
    CHECK_EQ("mode", fstatat(dir, "cay.db-wal", &st, 0) == 0 ? st.st_mode & 07777 : 0, 0640);
    cay_store_close(s);
    CHECK_EQ("the log is written back", size_of(dir, "cay.db-wal"), -1);
    CHECK_EQ("open again", open_store(&s, &err), 0);
    CHECK_EQ("rows", count_rows(s), 50);
    cay_store_close(s);
}

/* The files as a power cut leaves them: copied while the store is open. They stand in crash/. */
static int crash_copy(int rows)
{
    struct cay_error err = {0};
    struct cay_store *s = NULL;
    CAY_AUTO_FD int dir = dir_fd();
    CHECK_EQ("open", open_store(&s, &err), 0);
    insert_many(s, rows);
    (void)mkdirat(dir, "crash", 0700);
    int crash = openat(dir, "crash", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    /* Closing a descriptor of cay.db drops SQLite's locks; nobody else is there to take them. */
    copy_file(dir, "cay.db", crash, "cay.db");
    copy_file(dir, "cay.db-wal", crash, "cay.db-wal");
    copy_file(dir, "cay.db-shm", crash, "cay.db-shm");
    copy_file(dir, "cay.db.mark", crash, "cay.db.mark");
    cay_store_close(s);
    return crash;
}

TEST(sqlite_committed_rows_survive_a_crash)
{
    struct cay_error err = {0};
    struct cay_store *s = NULL;
    CAY_AUTO_FD int crash = crash_copy(40);
    struct cay_config cfg = {.data_fd = crash};
    CHECK("there is a log", size_of(crash, "cay.db-wal") > 0);
    CHECK_EQ("open", cay_store_open("sqlite", &cfg, &s, &err), 0);
    CHECK_EQ("rows", count_rows(s), 40);
    cay_store_close(s);
}

static void cut(int dir, const char *name, int64_t bytes)
{
    CAY_AUTO_FD int fd = openat(dir, name, O_WRONLY | O_CLOEXEC);
    CHECK_EQ(name, ftruncate(fd, bytes), 0);
}

static void scribble(int dir, const char *name, int64_t at, int count)
{
    CAY_AUTO_FD int fd = openat(dir, name, O_WRONLY | O_CLOEXEC);
    char junk[4096];
    memset(junk, 0x5A, sizeof junk);
    for (int i = 0; i < count; i++)
        CHECK_EQ(name, pwrite(fd, junk, sizeof junk, at + i * 4096), sizeof junk);
}

static void empty_db(int dir)
{
    cut(dir, "cay.db", 0);
}

static void cut_db(int dir)
{
    cut(dir, "cay.db", size_of(dir, "cay.db") / 2 / 4096 * 4096);
}

static void cut_header(int dir)
{
    cut(dir, "cay.db", 50);
}

static void flip_header(int dir)
{
    scribble(dir, "cay.db", 0, 1);
}

static void flip_pages(int dir)
{
    scribble(dir, "cay.db", 4096, (int)(size_of(dir, "cay.db") / 4096) - 1);
}

static void remove_db(int dir)
{
    CHECK_EQ("unlink", unlinkat(dir, "cay.db", 0), 0);
}

static void remove_wal(int dir)
{
    CHECK_EQ("unlink", unlinkat(dir, "cay.db-wal", 0), 0);
}

static void remove_all(int dir)
{
    (void)unlinkat(dir, "cay.db", 0); /* with or without log and index */
    (void)unlinkat(dir, "cay.db-wal", 0);
    (void)unlinkat(dir, "cay.db-shm", 0);
}

static void remove_log_and_index(int dir)
{
    remove_wal(dir);
    CHECK_EQ("unlink", unlinkat(dir, "cay.db-shm", 0), 0);
}

static void flip_wal_header(int dir)
{
    scribble(dir, "cay.db-wal", 0, 1);
}

static void flip_wal_middle(int dir)
{
    scribble(dir, "cay.db-wal", size_of(dir, "cay.db-wal") / 2, 1);
}

static void cut_wal(int dir)
{
    cut(dir, "cay.db-wal", size_of(dir, "cay.db-wal") - 1);
}

static void empty_wal(int dir)
{
    cut(dir, "cay.db-wal", 0);
}

static void make_newer(int dir)
{
    struct cay_error err = {0};
    char path[64];
    CAY_CLEANUP(cay_sqlite_close) struct cay_sqlite_db db = {0};
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d/cay.db", dir);
    CHECK_EQ("open", cay_sqlite_open(&db, path, SQLITE_OPEN_READWRITE, &err), 0);
    CHECK_EQ("newer", cay_sqlite_exec(&db, "PRAGMA user_version = 999", &err), 0);
}

static const struct {
    const char *what;
    void (*harm)(int dir);
    bool after_crash; /* with a log beside it */
    const char *says;
} damages[] = {
    {"emptied", empty_db, false, "empty"},
    {"emptied beside its log", empty_db, true, "empty"},
    {"cut", cut_db, false, "cut"},
    {"cut in its header", cut_header, false, "no database"},
    {"header overwritten", flip_header, false, "no database"},
    {"header overwritten beside its log", flip_header, true, "no database"},
    {"pages overwritten", flip_pages, false, "damaged"},
    {"missing beside its log", remove_db, true, "missing"},
    {"its log missing", remove_wal, true, "missing"},
    {"gone", remove_all, false, "missing"},
    {"gone with its log", remove_all, true, "missing"},
    {"its log and index missing", remove_log_and_index, true, "missing"},
    {"its log's header overwritten", flip_wal_header, true, "cay.db-wal is damaged"},
    {"its log overwritten", flip_wal_middle, true, "pages are whole"},
    {"its log cut", cut_wal, true, "pages are whole"},
    {"its log emptied", empty_wal, true, "cay.db-wal is damaged"},
    {"newer", make_newer, false, "newer"},
};

static void snapshot(int dir, struct cay_arena *a, char **out, int64_t *size)
{
    *size = size_of(dir, "cay.db");
    *out = cay_arena_alloc(a, *size > 0 ? (size_t)*size : 1);
    CAY_AUTO_FD int fd = openat(dir, "cay.db", O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
        CHECK_EQ("read", pread(fd, *out, (size_t)*size, 0), *size);
}

TEST(sqlite_damaged_files_are_refused_and_left_alone)
{
    for (size_t i = 0; i < COUNT(damages); i++) {
        CAY_AUTO_ARENA struct cay_arena a = {0};
        struct cay_error err = {0};
        struct cay_store *s = NULL;
        char *before, *after, name[16];
        int64_t size, size_after;
        CAY_AUTO_FD int crash = crash_copy(200);
        CAY_AUTO_FD int top = dir_fd();
        struct cay_config cfg = {.data_fd = crash};
        if (!damages[i].after_crash) { /* open and close once, so that the log is written back */
            CHECK_EQ(damages[i].what, cay_store_open("sqlite", &cfg, &s, &err), 0);
            cay_store_close(s);
            s = NULL;
        }
        damages[i].harm(crash);
        snapshot(crash, &a, &before, &size);
        CHECK_EQ(damages[i].what, cay_store_open("sqlite", &cfg, &s, &err), CAY_ERR_STORE);
        CHECK(damages[i].what, !s);
        CHECK(err.msg, strstr(err.msg, damages[i].says));
        snapshot(crash, &a, &after, &size_after);
        CHECK_EQ(damages[i].what, size_after, size);
        CHECK(damages[i].what, size < 0 || memcmp(before, after, (size_t)size) == 0);
        cay_store_close(s);

        (void)snprintf(name, sizeof name, "crash%zu", i);
        CHECK_EQ("aside", renameat(top, "crash", top, name), 0);
        (void)unlinkat(top, "cay.db", 0);
        (void)unlinkat(top, "cay.db.mark", 0);
    }
}

/* After a restart of the host a log may end early by right: what it lacks was never synced. */
TEST(sqlite_log_may_be_cut_by_a_power_cut)
{
    struct cay_error err = {0};
    struct cay_store *s = NULL;
    CAY_AUTO_FD int crash = crash_copy(40);
    struct cay_config cfg = {.data_fd = crash};
    CAY_AUTO_FD int mark = openat(crash, "cay.db.mark", O_WRONLY | O_TRUNC | O_CLOEXEC);
    CHECK_EQ("another boot", write(mark, "open 0000\n", 10), 10);
    cut_wal(crash);
    CHECK_EQ("open", cay_store_open("sqlite", &cfg, &s, &err), 0);
    CHECK_EQ("all but the last", count_rows(s), 39);
    cay_store_close(s);
}

TEST(sqlite_half_made_database_is_made_anew)
{
    struct cay_error err = {0};
    struct cay_store *s = NULL;
    CAY_AUTO_FD int dir = dir_fd();
    CAY_AUTO_FD int half = openat(dir, "cay.db.new", O_WRONLY | O_CREAT | O_CLOEXEC, 0640);
    CHECK_EQ("junk", write(half, "junk", 4), 4);
    CHECK_EQ("open", open_store(&s, &err), 0);
    CHECK_EQ("empty", count_rows(s), 0);
    CHECK_EQ("gone", size_of(dir, "cay.db.new"), -1);
    cay_store_close(s);
}

TEST(sqlite_migrations_run_once)
{
    struct cay_error err = {0};
    char path[128];
    int64_t version = 0, tables = 0;
    CAY_CLEANUP(cay_sqlite_close) struct cay_sqlite_db db = {0};
    (void)snprintf(path, sizeof path, "%s/m.db", test_dir());
    CHECK_EQ("open", cay_sqlite_open(&db, path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, &err),
             0);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ("run", cay_migrations_run(&db, &err), 0);
        CHECK_EQ("version", cay_sqlite_int(&db, "PRAGMA user_version", &version, &err), 0);
        CHECK_EQ("version", version, cay_migrations_count);
    }
    CHECK_EQ("tables",
             cay_sqlite_int(&db, "SELECT count(*) FROM sqlite_schema WHERE name = 'sandboxes'",
                            &tables, &err),
             0);
    CHECK_EQ("tables", tables, 1);
}

TEST(sqlite_failed_migration_leaves_the_version)
{
    struct cay_error err = {0};
    char path[128];
    int64_t version = -1;
    CAY_CLEANUP(cay_sqlite_close) struct cay_sqlite_db db = {0};
    (void)snprintf(path, sizeof path, "%s/m.db", test_dir());
    CHECK_EQ("open", cay_sqlite_open(&db, path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, &err),
             0);
    CHECK_EQ("in the way", cay_sqlite_exec(&db, "CREATE TABLE labels (x)", &err), 0);
    CHECK_EQ("run", cay_migrations_run(&db, &err), CAY_ERR_STORE);
    CHECK_EQ("version", cay_sqlite_int(&db, "PRAGMA user_version", &version, &err), 0);
    CHECK_EQ("version", version, 0);
    CHECK_EQ("nothing half made", cay_sqlite_exec(&db, "CREATE TABLE sandboxes (x)", &err), 0);
}

#define WRITERS 8
#define EACH 60

struct load {
    struct cay_store *store;
    int number;
    int failures;
    atomic_bool *stop;
};

static void *write_load(void *arg)
{
    struct load *l = arg;
    for (int i = 0; i < EACH; i++) {
        struct cay_error err = {0};
        char name[24];
        (void)snprintf(name, sizeof name, "w%d-%d", l->number, i);
        struct cay_sandbox sb = make(name);
        l->failures += cay_store_insert(l->store, &sb, CAY_SOON, &err) < 0;
        sb.updated_at_ms = 2;
        l->failures += cay_store_update(l->store, &sb, CAY_NOW, &err) < 0;
        if (i % 3 == 0)
            l->failures += cay_store_remove(l->store, sb.id, CAY_SOON, &err) < 0;
    }
    return NULL;
}

static void *read_load(void *arg)
{
    struct load *l = arg;
    while (!atomic_load(l->stop)) {
        CAY_AUTO_ARENA struct cay_arena a = {0};
        struct cay_error err = {0};
        struct cay_sandbox_list list = {0};
        struct cay_sandbox sb;
        struct cay_list_filter f = {.account_id = "local", .page = 1, .per_page = 5};
        l->failures += cay_store_list(l->store, &f, &a, &list, &err) < 0;
        if (list.count > 0) /* it may have been removed since */
            l->failures += cay_store_get(l->store, "local", list.at[0].id, &a, &sb, &err) < 0 &&
                           err.code != CAY_ERR_NOT_FOUND;
        l->failures += (int64_t)list.count > list.total;
    }
    return NULL;
}

TEST(sqlite_many_threads_write_and_read)
{
    struct cay_error err = {0};
    struct cay_store *s = NULL;
    atomic_bool stop = false;
    pthread_t threads[WRITERS + 4];
    struct load loads[WRITERS + 4];
    CHECK_EQ("open", open_store(&s, &err), 0);
    for (int i = 0; i < WRITERS + 4; i++) {
        loads[i] = (struct load){s, i, 0, &stop};
        CHECK_EQ("start",
                 pthread_create(&threads[i], NULL, i < WRITERS ? write_load : read_load, &loads[i]),
                 0);
    }
    for (int i = 0; i < WRITERS; i++)
        (void)pthread_join(threads[i], NULL);
    atomic_store(&stop, true);
    for (int i = WRITERS; i < WRITERS + 4; i++)
        (void)pthread_join(threads[i], NULL);
    for (int i = 0; i < WRITERS + 4; i++)
        CHECK_EQ("failures", loads[i].failures, 0);
    CHECK_EQ("rows", count_rows(s), WRITERS * EACH * 2 / 3);
    cay_store_close(s);
}

TEST(sqlite_log_is_bounded)
{
    CAY_AUTO_FD int dir = dir_fd();
    struct cay_error err = {0};
    struct cay_store *s = NULL;
    struct cay_sandbox sb = make("n");
    CHECK_EQ("open", open_store(&s, &err), 0);
    CHECK_EQ("insert", cay_store_insert(s, &sb, CAY_SOON, &err), 0);
    int64_t largest = 0;
    for (int i = 0; i < 6000; i++) { /* some 5 pages each, 15 times what starts a checkpoint */
        sb.updated_at_ms = i;
        CHECK_EQ("update", cay_store_update(s, &sb, CAY_SOON, &err), 0);
        int64_t size = size_of(dir, "cay.db-wal");
        largest = size > largest ? size : largest;
    }
    CHECK("it grew", largest > 4096 * (int64_t)CAY_STORE_WAL_PAGES);
    CHECK("it started over", largest < 2 * 4096 * (int64_t)CAY_STORE_WAL_MAX);
    cay_store_close(s);
}

/* No file may grow, as on a full disk. */
static void set_full(bool full)
{
    static struct rlimit before;
    if (full) {
        CHECK_EQ("limit", getrlimit(RLIMIT_FSIZE, &before), 0);
        struct rlimit none = {.rlim_cur = 4096, .rlim_max = before.rlim_max};
        (void)signal(SIGXFSZ, SIG_IGN);
        CHECK_EQ("limit", setrlimit(RLIMIT_FSIZE, &none), 0);
    } else {
        CHECK_EQ("limit", setrlimit(RLIMIT_FSIZE, &before), 0);
        (void)signal(SIGXFSZ, SIG_DFL);
    }
}

TEST(sqlite_full_disk_fails_writes_and_passes)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_error err = {0};
    struct cay_store *s = NULL;
    struct cay_sandbox one = make("one"), two = make("two"), got;
    char version[32];
    CHECK_EQ("open", open_store(&s, &err), 0);
    CHECK_EQ("before", cay_store_insert(s, &one, CAY_NOW, &err), 0);
    set_full(true);
    CHECK_EQ("full", cay_store_insert(s, &two, CAY_NOW, &err), CAY_ERR_STORE);
    CHECK_STR("name", cay_error_name(&err), "DATABASE_ERROR");
    CHECK("cause", err.cause[0]);
    CHECK_EQ("full, soon", cay_store_insert(s, &two, CAY_SOON, &err), CAY_ERR_STORE);
    CHECK_EQ("reads go on", cay_store_get(s, "local", "one", &a, &got, &err), 0);
    CHECK_EQ("no trace", cay_store_get(s, "local", "two", &a, &got, &err), CAY_ERR_NOT_FOUND);
    CHECK_EQ("unhealthy", cay_store_check(s, version, sizeof version, &err), CAY_ERR_STORE);
    set_full(false);
    CHECK_EQ("healthy", cay_store_check(s, version, sizeof version, &err), 0);
    CHECK_EQ("after", cay_store_insert(s, &two, CAY_NOW, &err), 0);
    CHECK_EQ("there", cay_store_get(s, "local", "two", &a, &got, &err), 0);
    cay_store_close(s);
}

static const char *const plans[] = {
    "SELECT s.meta_data FROM sandboxes s INDEXED BY sandboxes_living WHERE s.account_id = ?1 AND"
    " s.deleted_at IS NULL ORDER BY s.created_at DESC, s.seq DESC LIMIT ?6 OFFSET ?7",
    "SELECT s.meta_data FROM sandboxes s INDEXED BY sandboxes_every WHERE s.account_id = ?1"
    " ORDER BY s.created_at DESC, s.seq DESC LIMIT ?6 OFFSET ?7",
    "SELECT s.meta_data FROM sandboxes s WHERE s.account_id = ?1 AND s.deleted_at IS NULL AND"
    " s.name = ?3",
    "SELECT s.meta_data FROM sandboxes s WHERE s.id = ?2 AND s.account_id = ?1",
    "SELECT s.meta_data FROM sandboxes s INDEXED BY sandboxes_due WHERE s.deleted_at IS NULL AND"
    " s.expires_at IS NOT NULL AND s.expires_at <= ?1 ORDER BY s.expires_at",
};

TEST(sqlite_no_query_sorts_or_reads_the_whole_table)
{
    struct cay_error err = {0};
    struct cay_store *s = NULL;
    CHECK_EQ("open", open_store(&s, &err), 0);
    sqlite3 *db = ((struct cay_sqlite_store *)s)->writer.db.db;
    for (size_t i = 0; i < COUNT(plans); i++) {
        char sql[512];
        sqlite3_stmt *st = NULL;
        (void)snprintf(sql, sizeof sql, "EXPLAIN QUERY PLAN %s", plans[i]);
        CHECK_EQ(plans[i], sqlite3_prepare_v2(db, sql, -1, &st, NULL), SQLITE_OK);
        while (sqlite3_step(st) == SQLITE_ROW) {
            const char *step = (const char *)sqlite3_column_text(st, 3);
            CHECK(step, !strstr(step, "TEMP B-TREE") && strncmp(step, "SCAN", 4) != 0);
        }
        (void)sqlite3_finalize(st);
    }
    cay_store_close(s);
}

/* What the database does for one page, in its own steps. */
static int64_t list_steps(struct cay_store *store, int64_t total)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_error err = {0};
    struct cay_sandbox_list list;
    struct cay_list_filter f = {.account_id = "local", .page = 1, .per_page = 10};
    struct cay_sqlite_db *db = &((struct cay_sqlite_store *)store)->readers[0].db;
    int64_t steps = 0;
    CHECK_EQ("list", cay_store_list(store, &f, &a, &list, &err), 0);
    CHECK_EQ("total", list.total, total);
    for (int i = 0; i < CAY_SQLITE_STATEMENTS; i++)
        if (db->statements[i])
            steps += sqlite3_stmt_status(db->statements[i], SQLITE_STMTSTATUS_VM_STEP, 1);
    return steps;
}

TEST(sqlite_list_costs_its_page_alone)
{
    struct cay_error err = {0};
    struct cay_store *s = NULL;
    CHECK_EQ("open", open_store(&s, &err), 0);
    (void)list_steps(s, 0);
    insert_many(s, 20);
    int64_t few = list_steps(s, 20);
    CHECK("counted", few > 0);
    for (int i = 0; i < 500; i++) {
        struct cay_sandbox sb = make("gone");
        CHECK_EQ("insert", cay_store_insert(s, &sb, CAY_SOON, &err), 0);
        sb.state = CAY_TERMINATED;
        sb.deleted_at_ms = 2;
        CHECK_EQ("end", cay_store_update(s, &sb, CAY_SOON, &err), 0);
    }
    CHECK_EQ("beside terminated ones", list_steps(s, 20), few);
    struct cay_sandbox sb = make("back");
    CHECK_EQ("insert", cay_store_insert(s, &sb, CAY_SOON, &err), 0);
    CHECK_EQ("one more", list_steps(s, 21), few);
    CHECK_EQ("remove", cay_store_remove(s, sb.id, CAY_SOON, &err), 0);
    CHECK_EQ("forget", cay_store_forget(s, 3, &err), 0);
    CHECK_EQ("as before", list_steps(s, 20), few);
    cay_store_close(s);
}
