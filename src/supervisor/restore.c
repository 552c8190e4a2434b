/* SPDX-License-Identifier: Apache-2.0 */
/* Restoring: all is built and verified in DIR.restoring, which becomes DIR in one step. Until then
 * there is nothing that a server could be started on; what a killed restore leaves, the next one
 * removes. */
#include "base/arena.h"
#include "base/id.h"
#include "base/json.h"
#include "base/path.h"
#include "base/str.h"
#include "engine/disk.h"
#include "engine/dispatcher.h"
#include "store/sqlite/copy.h"
#include "supervisor/archive.h"
#include "supervisor/backup.h"
#include "supervisor/house.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>

#define MARK "restoring" /* says that a directory is a restore's, and not whole */

struct restore {
    const char *data;
    char stage[PATH_MAX];
    int file, stage_fd, engine_fd, files_fd;
    bool ours; /* the stage was made, and goes with us */
    struct cay_disk disk;
    struct cay_config cfg;
    struct cay_arena arena;
    struct cay_strs trees;
};

static void done(struct restore *s)
{
    bool mounted = s->disk.loop_fd >= 0;
    cay_close_fd(&s->files_fd);
    cay_disk_close(&s->disk);
    if (mounted && fchdir(s->engine_fd) == 0)
        (void)umount2("disk", MNT_DETACH); /* else with our namespace */
    cay_close_fd(&s->engine_fd);
    cay_close_fd(&s->stage_fd);
    if (s->ours)
        cay_trash_remove(AT_FDCWD, s->stage);
    cay_close_fd(&s->file);
    cay_arena_done(&s->arena);
}

/* ---- the archive ---- */

static int take_tree(struct restore *s, const struct cay_json *v, struct cay_error *err)
{
    const char *id = v->kind == CAY_JSON_STRING ? v->text : "";
    if (!cay_id_is_sandbox(id) && !cay_id_is_snapshot(id) && !cay_id_is_volume(id))
        return cay_fail(err, CAY_ERR_INVALID, "the backup names a tree that cannot be");
    cay_strs_push(&s->arena, &s->trees, id);
    return 0;
}

static int read_manifest(struct restore *s, struct cay_error *err)
{
    char *text;
    const struct cay_json *root;
    int r = cay_archive_manifest(s->file, &s->arena, &text, err);
    if (r == 0)
        r = cay_json_parse(&s->arena, text, strlen(text), &root, err);
    if (r < 0)
        return r;
    if (strcmp(cay_json_get_str(root, "format", ""), CAY_ARCHIVE_FORMAT) != 0)
        return cay_fail(err, CAY_ERR_INVALID, "this is no backup of cay");
    int64_t version = cay_json_get_int(root, "version", 0);
    if (version != CAY_ARCHIVE_VERSION)
        return cay_fail(err, CAY_ERR_UNSUPPORTED,
                        "the backup has version %lld, made by a newer cay (%.32s); this one knows "
                        "version %d",
                        (long long)version, cay_json_get_str(root, "cay", "?"),
                        CAY_ARCHIVE_VERSION);
    const struct cay_json *trees = cay_json_get(root, "trees");
    for (const struct cay_json *v = trees ? trees->first : NULL; r == 0 && v; v = v->next)
        r = take_tree(s, v, err);
    return r;
}

/* ---- the directories ---- */

static bool is_empty(int dir_fd)
{
    int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    size_t count = 0;
    while (dir && count < 3 && readdir(dir))
        count++;
    if (dir)
        closedir(dir);
    return dir && count == 2; /* itself, and the one above */
}

/* By one rename at the end: so it cannot be where a filesystem is mounted. */
static int check_target(const char *data, struct cay_error *err)
{
    struct stat st, above;
    char up[PATH_MAX];
    CAY_AUTO_FD int fd = open(data, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return 0;
    if (fd < 0)
        return cay_fail_errno(err, CAY_ERR_INVALID, "cannot open %s", data);
    if (!is_empty(fd))
        return cay_fail(err, CAY_ERR_CONFLICT, "%.100s is not empty: nothing is overwritten", data);
    snprintf(up, sizeof up, "%.*s/..", (int)sizeof up - 4, data);
    if (stat(data, &st) < 0 || stat(up, &above) < 0 || st.st_dev != above.st_dev)
        return cay_fail(err, CAY_ERR_INVALID,
                        "%.100s is a mount point: give a directory in it, and move it afterwards",
                        data);
    return 0;
}

static int clear_stage(struct restore *s, struct cay_error *err)
{
    CAY_AUTO_FD int old = open(s->stage, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (old < 0 && errno == ENOENT)
        return 0;
    if (old < 0 || flock(old, LOCK_EX | LOCK_NB) < 0)
        return cay_fail_errno(err, CAY_ERR_CONFLICT, "another restore is at %.100s", s->stage);
    if (!is_empty(old) && faccessat(old, MARK, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
        return cay_fail(err, CAY_ERR_CONFLICT, "%.100s is in the way", s->stage);
    cay_trash_remove(AT_FDCWD, s->stage);
    return 0;
}

/* Below it a disk may be mounted, so it must be opened in a namespace where that can be. */
static int open_stage(struct restore *s, struct cay_error *err)
{
    size_t len = strlen(s->data);
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_PRIVATE | MS_REC, NULL) < 0)
        return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot make a mount namespace");
    while (len > 1 && s->data[len - 1] == '/')
        len--;
    if ((size_t)snprintf(s->stage, sizeof s->stage, "%.*s.restoring", (int)len, s->data) >=
        sizeof s->stage)
        return cay_fail(err, CAY_ERR_INVALID, "the directory's name is too long");
    int r = clear_stage(s, err);
    if (r < 0)
        return r;
    if (mkdir(s->stage, 0700) < 0)
        return cay_fail_errno(err, CAY_ERR_INVALID, "cannot make %s", s->stage);
    s->ours = true;
    s->stage_fd = open(s->stage, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (s->stage_fd < 0 || flock(s->stage_fd, LOCK_EX | LOCK_NB) < 0)
        return cay_fail_errno(err, CAY_ERR_CONFLICT, "cannot hold %s", s->stage);
    return cay_path_replace(s->stage_fd, MARK, "", 0, 0600, err);
}

/* Trees lie where an engine of this host would have them. */
static int open_disk(struct restore *s, struct cay_error *err)
{
    CAY_AUTO_FD int records = -1;
    int r = cay_path_open_dir(s->stage_fd, "engine", 0700, &s->engine_fd, err);
    if (r == 0)
        r = cay_path_open_dir(s->engine_fd, "records", 0700, &records, err);
    if (r == 0)
        r = cay_path_open_dir(s->engine_fd, "files", 0700, &s->files_fd, err);
    return r < 0 ? r : cay_disk_open(&s->disk, s->engine_fd, &s->files_fd, err);
}

static int make_trees(struct restore *s, struct cay_error *err)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < s->trees.count; i++) {
        if (s->disk.fd >= 0)
            r = cay_disk_make(&s->disk, s->trees.at[i], CAY_DISK_NO_LIMIT, err);
        else if (mkdirat(s->files_fd, s->trees.at[i], 0700) < 0)
            r = cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot make a tree");
    }
    return r;
}

/* ---- what came out ---- */

static int check_trees(const struct restore *s, struct cay_error *err)
{
    for (size_t i = 0; i < s->trees.count; i++) {
        char path[64];
        snprintf(path, sizeof path, "%s/upper", s->trees.at[i]);
        if (faccessat(s->files_fd, path, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
            return cay_fail(err, CAY_ERR_INVALID, "the files of %s are not in the backup",
                            s->trees.at[i]);
    }
    return 0;
}

/* The server's files are its user's, whoever that was where they come from. Histories are all his,
 * and nothing but files and directories. */
static int give_to_server(const struct restore *s, int at_fd, const char *name, bool deep,
                          struct cay_error *err)
{
    int fd = openat(at_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return 0;
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    int r = dir ? 0 : cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot list %s", s->stage);
    for (struct dirent *e; r == 0 && (e = readdir(dir));) {
        bool up = strcmp(e->d_name, "..") == 0, here = strcmp(e->d_name, ".") == 0;
        if ((deep ? !up : e->d_type == DT_REG) &&
            fchownat(fd, e->d_name, s->cfg.server_uid, s->cfg.server_gid, AT_SYMLINK_NOFOLLOW) < 0)
            r = cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot set the owner of %s", e->d_name);
        if (r == 0 && deep && e->d_type == DT_DIR && !up && !here)
            r = give_to_server(s, fd, e->d_name, true, err);
    }
    if (dir)
        closedir(dir);
    return r;
}

/* An instance of its own: it may run beside the one it was made of. */
static int finish(struct restore *s, struct cay_error *err)
{
    char instance[17];
    cay_id_hex(instance, 16);
    int r = check_trees(s, err);
    if (r == 0)
        r = cay_sqlite_copy_check(s->stage_fd, err);
    if (r == 0 && (unlinkat(s->stage_fd, CAY_ARCHIVE_MANIFEST, 0) < 0 ||
                   fchmodat(s->stage_fd, "cay.db", 0640, 0) < 0))
        r = cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot finish %s", s->stage);
    if (r == 0)
        r = give_to_server(s, s->stage_fd, ".", false, err);
    if (r == 0)
        r = give_to_server(s, s->stage_fd, "history", true, err);
    if (r == 0)
        r = cay_path_replace(s->stage_fd, "instance", instance, 16, 0644, err);
    if (r < 0)
        return r;
    if (syncfs(s->files_fd) < 0 || syncfs(s->stage_fd) < 0 || unlinkat(s->stage_fd, MARK, 0) < 0 ||
        fsync(s->stage_fd) < 0)
        return cay_fail_errno(err, CAY_ERR_INTERNAL, "cannot write %s to the disk", s->stage);
    if (rename(s->stage, s->data) < 0)
        return cay_fail_errno(err, CAY_ERR_CONFLICT, "cannot put the backup at %s", s->data);
    s->ours = false;
    return 0;
}

static void tell(const struct restore *s, struct cay_backup_told *out)
{
    *out = (struct cay_backup_told){0};
    for (size_t i = 0; i < s->trees.count; i++) {
        out->sandboxes += cay_id_is_sandbox(s->trees.at[i]);
        out->snapshots += cay_id_is_snapshot(s->trees.at[i]);
        out->volumes += cay_id_is_volume(s->trees.at[i]);
    }
}

int cay_restore(const char *file, const char *data_dir, const char *user,
                struct cay_backup_told *out, struct cay_error *err)
{
    CAY_CLEANUP(done)
    struct restore s = {.data = data_dir,
                        .file = open(file, O_RDONLY | O_CLOEXEC),
                        .stage_fd = -1,
                        .engine_fd = -1,
                        .files_fd = -1,
                        .disk = CAY_DISK_NONE,
                        .cfg = {.data = data_dir, .user = user}};
    if (s.file < 0)
        return cay_fail_errno(err, CAY_ERR_NOT_FOUND, "cannot open %s", file);
    cay_house_find_user(&s.cfg);
    int r = check_target(data_dir, err);
    if (r == 0)
        r = cay_archive_check(s.file, err);
    if (r == 0)
        r = read_manifest(&s, err);
    if (r == 0)
        r = open_stage(&s, err);
    if (r == 0)
        r = open_disk(&s, err);
    if (r == 0)
        r = make_trees(&s, err);
    if (r == 0)
        r = cay_archive_read(s.file, s.stage_fd, s.disk.fd >= 0 ? "engine/disk" : "engine/files",
                             err);
    if (r == 0)
        r = finish(&s, err);
    if (r == 0)
        tell(&s, out);
    return r;
}
