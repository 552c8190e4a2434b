/* SPDX-License-Identifier: Apache-2.0 */
/* Making a backup.
 *
 * While the engine stands still every tree has its one name, and the rows are those that a power
 * cut at this moment would leave; both are held here. So whatever a server finds in the copy it
 * can finish or take back, as after a crash: no case of its own. All that lasts comes later, when
 * everybody goes on: the database is copied out of the transaction, the trees one by one. */
#include "supervisor/backup.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/packet.h"
#include "base/path.h"
#include "engine/box.h"
#include "engine/dispatcher.h"
#include "engine/trees.h"
#include "history/history.h"
#include "store/sqlite/copy.h"
#include "store/store.h"
#include "supervisor/archive.h"
#include "supervisor/supervisor.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define STAGE "backup" /* in DATA/engine: the copy of the database, and what else is no tree */
#define ELSEWHERE "restored" /* in place of a boot: whatever runs here does not run there */
#define KEY_LETTERS "abcdefghijklmnopqrstuvwxyz.-"
#define ANSWER_MS (CAY_ENGINE_COPY_MS + CAY_BACKUP_WAIT_MS)

struct backup {
    const char *data, *file;
    int data_fd, engine_fd, stage_fd, sock, files_fd;
    struct cay_arena arena;
    struct cay_strs held, taken;      /* trees */
    struct cay_engine_entry *entries; /* what the engine knew of sandboxes */
    size_t entry_count;
    struct cay_sqlite_copy store;
    struct cay_backup_told told;
};

static void done(struct backup *b)
{
    cay_sqlite_copy_close(&b->store);
    if (b->stage_fd >= 0)
        cay_trash_remove(b->engine_fd, STAGE);
    cay_close_fd(&b->sock); /* now the engine removes its copies */
    cay_close_fd(&b->files_fd);
    cay_close_fd(&b->stage_fd);
    cay_close_fd(&b->engine_fd);
    cay_close_fd(&b->data_fd);
    cay_arena_done(&b->arena);
}

/* ---- the engine ---- */

static int ask(struct backup *b, enum cay_engine_op op, const char *id, int *fd_out,
               struct cay_error *err)
{
    char packet[CAY_MESSAGE_MAX];
    struct cay_engine_request rq = {.version = CAY_ENGINE_VERSION, .op = op};
    struct cay_engine_reply reply;
    int fd = -1, fd_count = 0;
    struct pollfd ready = {.fd = b->sock, .events = POLLIN};
    cay_str_copy(rq.id, sizeof rq.id, id);
    if (cay_packet_send(b->sock, &rq, sizeof rq, NULL, 0, NULL, 0) < 0)
        return cay_fail_errno(err, CAY_ERR_UNAVAILABLE, "cannot reach the engine");
    if (poll(&ready, 1, ANSWER_MS) <= 0 ||
        cay_packet_recv(b->sock, packet, sizeof packet, &fd, 1, &fd_count) < (ssize_t)sizeof reply)
        return cay_fail(err, CAY_ERR_UNAVAILABLE, "the engine did not answer");
    memcpy(&reply, packet, sizeof reply);
    if (fd_count > 0 && fd_out && reply.code == 0)
        *fd_out = fd;
    else if (fd_count > 0)
        close(fd);
    if (reply.code == 0)
        return 0;
    reply.msg[sizeof reply.msg - 1] = reply.cause[sizeof reply.cause - 1] = 0;
    cay_fail(err, reply.code, "%s", reply.msg);
    cay_str_copy(err->cause, sizeof err->cause, reply.cause);
    return reply.code;
}

static int by_entry_id(const void *a, const void *b)
{
    return strcmp(((const struct cay_engine_entry *)a)->id,
                  ((const struct cay_engine_entry *)b)->id);
}

static int ask_entries(struct backup *b, struct cay_error *err)
{
    struct stat st;
    CAY_AUTO_FD int fd = -1;
    int r = ask(b, CAY_ENGINE_LIST, "", &fd, err);
    if (r < 0)
        return r;
    if (fd < 0 || fstat(fd, &st) < 0 || st.st_size > CAY_MEMFD_MAX)
        return cay_fail(err, CAY_ERR_INTERNAL, "the engine's list cannot be read");
    b->entries = cay_arena_alloc(&b->arena, (size_t)st.st_size + 1);
    b->entry_count = (size_t)st.st_size / sizeof *b->entries;
    if (pread(fd, b->entries, (size_t)st.st_size, 0) != st.st_size)
        return cay_fail_errno(err, CAY_ERR_INTERNAL, "the engine's list cannot be read");
    qsort(b->entries, b->entry_count, sizeof *b->entries, by_entry_id);
    return 0;
}

static bool is_tree(const char *name)
{
    return cay_id_is_sandbox(name) || cay_id_is_snapshot(name) || cay_id_is_volume(name);
}

/* A tree without a sandbox that the engine knows is rubbish. */
static int hold_all(struct backup *b, struct cay_error *err)
{
    int fd = openat(b->files_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    int r = dir ? 0 : cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot list the trees");
    for (struct dirent *e; r == 0 && (e = readdir(dir));) {
        if (!is_tree(e->d_name))
            continue;
        r = ask(b, CAY_ENGINE_BACKUP_HOLD, e->d_name, NULL, err);
        if (r == 0)
            cay_strs_push(&b->arena, &b->held, cay_arena_strdup(&b->arena, e->d_name));
        else if (r == CAY_ERR_NOT_FOUND || r == CAY_ERR_INVALID)
            r = 0;
    }
    if (dir)
        closedir(dir);
    return r;
}

/* From the standstill on everything in here is of one moment. */
static int hold_moment(struct backup *b, struct cay_error *err)
{
    int r = ask(b, CAY_ENGINE_BACKUP, "", &b->files_fd, err);
    if (r == 0)
        r = ask_entries(b, err);
    if (r == 0)
        r = hold_all(b, err);
    if (r == 0)
        r = cay_sqlite_copy_open(&b->store, b->data_fd, err);
    return r < 0 ? r : ask(b, CAY_ENGINE_BACKUP_GO, "", NULL, err);
}

/* ---- what is no tree ---- */

static int open_stage(struct backup *b, struct cay_error *err)
{
    int r = cay_path_open_dir(b->data_fd, "engine", 0700, &b->engine_fd, err);
    if (r < 0)
        return r;
    cay_trash_remove(b->engine_fd, STAGE); /* of one that was killed */
    return cay_path_open_dir(b->engine_fd, STAGE, 0700, &b->stage_fd, err);
}

static void add_name(struct cay_buf *names, const char *name)
{
    cay_buf_add(names, name, strlen(name) + 1);
}

/* The server may make files here under any name; its keys have such ones. */
static bool is_key(const char *name)
{
    return cay_str_ends(name, ".key") && strspn(name, KEY_LETTERS) == strlen(name);
}

static int copy_keys(struct backup *b, struct cay_buf *names, struct cay_error *err)
{
    int fd = openat(b->data_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    int r = dir ? 0 : cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot list the data directory");
    for (struct dirent *e; r == 0 && (e = readdir(dir));) {
        char *text;
        size_t len;
        if (!is_key(e->d_name))
            continue;
        add_name(names, e->d_name);
        r = cay_path_read(b->data_fd, e->d_name, CAY_MIB, &b->arena, &text, &len, err);
        if (r == 0)
            r = cay_path_replace(b->stage_fd, e->d_name, text, len, 0600, err);
    }
    if (dir)
        closedir(dir);
    return r;
}

static const struct cay_engine_entry *find_entry(const struct backup *b, const char *id)
{
    struct cay_engine_entry key;
    cay_str_copy(key.id, sizeof key.id, id);
    return b->entry_count == 0 ? NULL
                               : bsearch(&key, b->entries, b->entry_count, sizeof key, by_entry_id);
}

static int write_record(int records, const struct cay_engine_entry *entry, struct cay_error *err)
{
    struct cay_box_record record = {
        .running = entry->state != CAY_ENGINE_STOPPED, .boot_id = ELSEWHERE, .entry = *entry};
    return cay_box_save(records, &record, err);
}

/* What a restart of the host would take is not copied: one that runs, is not to outlive it and
 * leaves no volume. Its record says that it ran. */
static bool needs_tree(const struct cay_sandbox *sb, const struct cay_engine_entry *entry)
{
    return sb->spec.persistent || *sb->keeps || entry->state == CAY_ENGINE_STOPPED;
}

static int choose_sandboxes(struct backup *b, struct cay_store *store, struct cay_strs *out,
                            struct cay_error *err)
{
    struct cay_sandbox_list rows;
    CAY_AUTO_FD int records = -1, engine = -1;
    int r = cay_store_all(store, &b->arena, &rows, err);
    if (r == 0)
        r = cay_path_open_dir(b->stage_fd, "engine", 0700, &engine, err);
    if (r == 0)
        r = cay_path_open_dir(engine, "records", 0700, &records, err);
    for (size_t i = 0; r == 0 && i < rows.count; i++) {
        const struct cay_engine_entry *entry = find_entry(b, rows.at[i].id);
        if (!entry)
            continue;
        r = write_record(records, entry, err);
        if (needs_tree(&rows.at[i], entry))
            cay_strs_push(&b->arena, out, entry->id);
    }
    return r;
}

/* Of sandboxes whose files are in the backup. */
static int copy_histories(struct backup *b, const struct cay_strs *wanted, struct cay_buf *names,
                          struct cay_error *err)
{
    CAY_AUTO_FD int from = -1, to = -1;
    int r = cay_path_open_dir(b->data_fd, "history", 0700, &from, err);
    if (r == 0)
        r = cay_path_open_dir(b->stage_fd, "history", 0700, &to, err);
    for (size_t i = 0; r == 0 && i < wanted->count; i++)
        if (cay_id_is_sandbox(wanted->at[i]))
            r = cay_history_save(from, wanted->at[i], to, err);
    add_name(names, "history");
    return r;
}

static int choose(struct backup *b, struct cay_strs *out, struct cay_error *err)
{
    struct cay_config cfg = {.data = b->data, .data_fd = b->stage_fd};
    struct cay_store *store;
    struct cay_kept_list kept;
    int r = cay_store_open("sqlite", &cfg, &store, err);
    if (r < 0)
        return r;
    r = choose_sandboxes(b, store, out, err);
    if (r == 0)
        r = cay_store_kept_all(store, &b->arena, &kept, err);
    for (size_t i = 0; r == 0 && i < kept.count; i++)
        cay_strs_push(&b->arena, out, kept.at[i].id);
    cay_store_close(store);
    return r;
}

/* ---- trees ---- */

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Those that are not wanted first: somebody may wait for them. */
static int take_trees(struct backup *b, struct cay_strs *wanted, struct cay_error *err)
{
    int r = 0;
    if (wanted->count > 0)
        qsort(wanted->at, wanted->count, sizeof *wanted->at, by_text);
    for (size_t i = 0; r == 0 && i < b->held.count; i++) {
        const char *id = b->held.at[i];
        if (wanted->count > 0 &&
            bsearch(&id, wanted->at, wanted->count, sizeof *wanted->at, by_text))
            cay_strs_push(&b->arena, &b->taken, id);
        else
            r = ask(b, CAY_ENGINE_BACKUP_FREE, id, NULL, err);
    }
    for (size_t i = 0; r == 0 && i < b->taken.count; i++) {
        const char *id = b->taken.at[i];
        r = ask(b, CAY_ENGINE_BACKUP_TAKE, id, NULL, err);
        b->told.sandboxes += cay_id_is_sandbox(id);
        b->told.snapshots += cay_id_is_snapshot(id);
        b->told.volumes += cay_id_is_volume(id);
    }
    return r;
}

static int write_manifest(struct backup *b, struct cay_error *err)
{
    CAY_AUTO_BUF struct cay_buf text = {0};
    struct cay_json_writer w = {.buf = &text};
    cay_jw_object(&w, NULL);
    cay_jw_str(&w, "format", CAY_ARCHIVE_FORMAT);
    cay_jw_int(&w, "version", CAY_ARCHIVE_VERSION);
    cay_jw_str(&w, "cay", CAY_VERSION);
    cay_jw_time(&w, "createdAt", cay_clock_ms());
    cay_jw_array(&w, "trees");
    for (size_t i = 0; i < b->taken.count; i++)
        cay_jw_str(&w, NULL, b->taken.at[i]);
    cay_jw_array_end(&w);
    cay_jw_object_end(&w);
    return cay_path_replace(b->stage_fd, CAY_ARCHIVE_MANIFEST, text.data, text.len, 0600, err);
}

/* Of a copy only what is the sandbox's; the rest is made anew. */
static void name_tree(const struct backup *b, const char *id, struct cay_buf *names)
{
    static const char *const parts[] = {"image", "volume", "upper"};
    for (size_t i = 0; i < CAY_COUNT(parts); i++) {
        char path[64];
        snprintf(path, sizeof path, CAY_TREE_NEW CAY_TREE_BACKUP "%.22s/%s", id + 1, parts[i]);
        if (faccessat(b->files_fd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
            add_name(names, path);
    }
}

/* ---- the whole ---- */

static int write_archive(struct backup *b, const struct cay_buf *plain, struct cay_error *err)
{
    char path[PATH_MAX];
    CAY_AUTO_BUF struct cay_buf trees = {0};
    for (size_t i = 0; i < b->taken.count; i++)
        name_tree(b, b->taken.at[i], &trees);
    struct cay_archive what = {b->stage_fd, b->files_fd, plain, &trees};
    if (strcmp(b->file, "-") == 0)
        return cay_archive_write(&what, STDOUT_FILENO, err);
    if ((size_t)snprintf(path, sizeof path, "%s.part", b->file) >= sizeof path)
        return cay_fail(err, CAY_ERR_INVALID, "the file's name is too long");
    CAY_AUTO_FD int out = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (out < 0)
        return cay_fail_errno(err, CAY_ERR_INVALID, "cannot write %s", path);
    int r = cay_archive_write(&what, out, err);
    if (r == 0 && (fsync(out) < 0 || rename(path, b->file) < 0))
        r = cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot finish %s", b->file);
    if (r < 0)
        (void)unlink(path); /* half a backup is none */
    return r;
}

static int run(void *arg, struct cay_error *err)
{
    struct backup *b = arg;
    char path[64];
    struct cay_strs wanted = {0};
    CAY_AUTO_BUF struct cay_buf plain = {0};
    snprintf(path, sizeof path, "/proc/self/fd/%d/run/engine.sock", b->data_fd);
    b->sock = cay_packet_connect(path);
    if (b->sock < 0)
        return cay_fail_errno(err, CAY_ERR_UNAVAILABLE, "cannot reach the engine");
    int r = hold_moment(b, err);
    if (r == 0)
        r = open_stage(b, err); /* the engine has let only us in */
    if (r == 0)
        r = cay_sqlite_copy_write(&b->store, b->stage_fd, err);
    cay_sqlite_copy_close(&b->store);
    add_name(&plain, CAY_ARCHIVE_MANIFEST);
    add_name(&plain, "cay.db");
    add_name(&plain, "engine/records");
    if (r == 0)
        r = copy_keys(b, &plain, err);
    if (r == 0)
        r = choose(b, &wanted, err);
    if (r == 0)
        r = copy_histories(b, &wanted, &plain, err);
    if (r == 0)
        r = take_trees(b, &wanted, err);
    if (r == 0)
        r = write_manifest(b, err);
    return r < 0 ? r : write_archive(b, &plain, err);
}

int cay_backup(const char *data_dir, const char *file, struct cay_backup_told *out,
               struct cay_error *err)
{
    CAY_CLEANUP(done)
    struct backup b = {.data = data_dir,
                       .file = file,
                       .data_fd = open(data_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
                       .engine_fd = -1,
                       .stage_fd = -1,
                       .sock = -1,
                       .files_fd = -1};
    if (b.data_fd < 0)
        return cay_fail_errno(err, CAY_ERR_NOT_FOUND, "cannot open %s", data_dir);
    int r = cay_supervisor_lend(data_dir, run, &b, err);
    if (r == 0)
        *out = b.told;
    return r;
}
