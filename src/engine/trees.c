/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/trees.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/log.h"
#include "base/path.h"
#include "base/str.h"
#include "engine/copy.h"
#include "engine/image.h"
#include "engine/leftover.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define COPY_SPARE_MS 20000 /* of a copy's time, for taking it back */
#define NAME_SIZE 64
#define USER_ID 1000 /* owns /workspace, as the fitting layer has it */

static int open_tree_dir(const struct cay_engine *e, const char *name)
{
    return openat(e->files_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static void new_name(char out[NAME_SIZE], const char *id)
{
    snprintf(out, NAME_SIZE, CAY_TREE_NEW "%s", id);
}

/* ---- rubbish ---- */

/* The child that empties the trash finds it by this, now or after a crash. */
static int tell_trash(const struct cay_engine *e, const char *name, struct cay_error *err)
{
    CAY_AUTO_FD int fd = openat(e->trash_fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    return fd < 0 ? cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot write to the trash") : 0;
}

/* A tree with rubbish in it gets its name. It is told before, for the case of a crash; and again,
 * because who looked in between found no such tree and thought that there was nothing to do. */
static int name_tree(const struct cay_engine *e, const char *from, const char *to)
{
    char old[NAME_SIZE];
    struct cay_error ignored; /* told once already */
    snprintf(old, sizeof old, "%s/" CAY_TREE_OLD, to);
    if (renameat2(e->files_fd, from, e->files_fd, to, RENAME_NOREPLACE) < 0)
        return -1;
    if (faccessat(e->files_fd, old, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        (void)tell_trash(e, to, &ignored);
    return 0;
}

/* Whatever it is, it is in `old` afterwards. Not there is fine. */
static int throw_away(int dir, const char *name, struct cay_error *err)
{
    char suffix[17], to[NAME_SIZE];
    if (mkdirat(dir, CAY_TREE_OLD, 0700) < 0 && errno != EEXIST)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot make " CAY_TREE_OLD);
    cay_id_hex(suffix, 16);
    snprintf(to, sizeof to, CAY_TREE_OLD "/%s", suffix);
    if (renameat(dir, name, dir, to) < 0 && errno != ENOENT)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot throw %s away", name);
    return 0;
}

/* Out of sight at once: the kernel empties it where it can, else a child of ours. */
static int throw_tree(const struct cay_engine *e, const char *name, struct cay_error *err)
{
    char to[NAME_SIZE];
    if (e->disk.fd >= 0)
        return cay_disk_remove(&e->disk, name, err);
    snprintf(to, sizeof to, "%s.%lld", name, (long long)cay_clock_ms());
    if (renameat(e->files_fd, name, e->trash_fd, to) < 0 && errno != ENOENT)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot move %s to the trash", name);
    return 0;
}

void cay_trees_clear(const struct cay_engine *e, const char *prefix)
{
    struct cay_error err;
    int fd = openat(e->files_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0 &&
            strlen(entry->d_name) < NAME_SIZE / 2 && throw_tree(e, entry->d_name, &err) < 0)
            cay_log_error(&err, "what an earlier engine left stays");
    if (dir)
        closedir(dir);
}

/* ---- quota ---- */

int cay_tree_limit(const struct cay_engine *e, const char *id, uint64_t disk_bytes,
                   struct cay_error *err)
{
    return e->disk.fd < 0 ? 0 : cay_disk_limit(&e->disk, id, disk_bytes, err);
}

/* ---- copies ---- */

/* What a copy takes from the first is counted to it from its first byte. */
static int write_inherited(const struct cay_engine *e, int dir, const char *from,
                           struct cay_engine_copied *copied, struct cay_error *err)
{
    char text[64];
    uint64_t used, limit;
    /* After the copy, because only now all that is in it has been placed and counted. */
    if (cay_disk_usage(&e->disk, from, &used, &limit))
        copied->bytes = used;
    int len =
        snprintf(text, sizeof text, "%llu %s\n", (unsigned long long)copied->bytes, copied->method);
    return cay_path_replace(dir, CAY_DISK_INHERITED, text, (size_t)len, 0600, err);
}

static int copy_note(int from, int to, const char *name, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    char *text;
    int r = cay_path_read(from, name, CAY_MAX_IMAGE_TEXT, &a, &text, NULL, err);
    if (r == CAY_ERR_NOT_FOUND)
        return 0; /* a volume has no image, and not every tree a volume */
    return r < 0 ? r : cay_path_replace(to, name, text, strlen(text), 0600, err);
}

static int copy_upper(int from, int to, struct cay_engine_copied *copied, struct cay_error *err)
{
    const char *method;
    int64_t until_ms = cay_clock_mono_ms() + CAY_ENGINE_COPY_MS - COPY_SPARE_MS;
    CAY_AUTO_FD int upper = openat(from, "upper", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    CAY_AUTO_FD int made = -1;
    CAY_AUTO_FD int links = -1;
    if (upper < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot open what is to be copied");
    int r = copy_note(from, to, "image", err);
    if (r == 0)
        r = copy_note(from, to, "volume", err);
    if (r == 0)
        r = cay_path_open_dir(to, "upper", 0755, &made, err);
    if (r == 0)
        r = cay_path_open_dir(to, "links", 0700, &links, err);
    if (r == 0)
        r = cay_copy_tree(upper, made, links, until_ms, &method, &copied->bytes, err);
    if (r < 0)
        return r;
    cay_str_copy(copied->method, sizeof copied->method, method);
    (void)unlinkat(to, "links", AT_REMOVEDIR); /* empty, and nobody's name */
    return 0;
}

/* File by file: so that all are of one moment, nothing in the source moves meanwhile. */
static int copy_files(const struct cay_engine *e, const char *from_id, int from, const char *name,
                      struct cay_engine_copied *copied, struct cay_error *err)
{
    struct cay_error ignored; /* nothing runs in it, or the host cannot: then it is copied as is */
    CAY_AUTO_FD int to = -1;
    int r = e->disk.fd < 0 ? 0 : cay_disk_make(&e->disk, name, CAY_DISK_NO_LIMIT, err);
    if (r == 0)
        r = cay_path_open_dir(e->files_fd, name, 0700, &to, err);
    if (r < 0)
        return r;
    bool still = cay_id_is_sandbox(from_id) && !cay_cgroup_is_frozen(&e->kit.cgroups, from_id) &&
                 cay_cgroup_freeze(&e->kit.cgroups, from_id, true, &ignored) == 0;
    if (still)
        cay_engine_crash("copy-frozen", from_id);
    r = copy_upper(from, to, copied, err);
    if (still)
        (void)cay_cgroup_freeze(&e->kit.cgroups, from_id, false, &ignored);
    return r;
}

/* What is the source's alone does not come with the copy. */
static int tidy(int dir, struct cay_error *err)
{
    int r = throw_away(dir, "work", err);
    (void)unlinkat(dir, "init.sock", 0); /* most often there is none */
    if (r == 0 && unlinkat(dir, "volume", 0) < 0 && errno != ENOENT)
        r = cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot take a volume's name off its copy");
    return r;
}

static int fill(const struct cay_engine *e, const char *from_id, int from, const char *name,
                struct cay_engine_copied *copied, struct cay_error *err)
{
    int64_t begun = cay_clock_mono_ms();
    int r;
    if (cay_disk_can_snapshot(&e->disk)) {
        cay_str_copy(copied->method, sizeof copied->method, "btrfs-snapshot");
        r = cay_disk_snapshot(&e->disk, from, name, err);
    } else {
        r = copy_files(e, from_id, from, name, copied, err);
    }
    copied->ms = cay_clock_mono_ms() - begun;
    return r;
}

static int finish_copy(const struct cay_engine *e, const char *from, const char *name,
                       const char *id, uint64_t disk_bytes, struct cay_engine_copied *copied,
                       struct cay_error *err)
{
    CAY_AUTO_FD int dir = open_tree_dir(e, name);
    if (dir < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot open a copy");
    int r = tidy(dir, err);
    if (r == 0)
        r = write_inherited(e, dir, from, copied, err);
    if (r == 0 && e->disk.fd >= 0 && disk_bytes && copied->bytes >= disk_bytes)
        return cay_fail_as(err, CAY_ERR_CONFLICT, "DISK_FULL",
                           "there are %llu bytes to copy, and the disk has %llu",
                           (unsigned long long)copied->bytes, (unsigned long long)disk_bytes);
    if (r == 0)
        r = tell_trash(e, id, err);
    if (r < 0)
        return r;
    cay_engine_crash("copy-filled", id);
    if (name_tree(e, name, id) < 0 || (disk_bytes == 0 && syncfs(dir) < 0))
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot finish a copy");
    cay_engine_crash("copy-named", id);
    return 0;
}

/* As well as the tree itself remembers. */
static int found_copy(int dir, struct cay_engine_copied *out)
{
    char text[64] = "";
    CAY_AUTO_FD int fd = openat(dir, CAY_DISK_INHERITED, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0)
        (void)!read(fd, text, sizeof text - 1);
    char *method = strchr(text, ' ');
    out->bytes = strtoull(text, NULL, 10);
    if (method) {
        method[strcspn(method, "\n")] = 0;
        cay_str_copy(out->method, sizeof out->method, method + 1);
    }
    return 0;
}

int cay_tree_copy(const struct cay_engine *e, const char *from_id, const char *id,
                  uint64_t disk_bytes, struct cay_engine_copied *out, struct cay_error *err)
{
    char name[NAME_SIZE];
    struct cay_error ignored; /* the caller has the error that matters */
    struct cay_engine_copied copied = {0};
    bool snapshot = cay_id_is_snapshot(from_id);
    CAY_AUTO_FD int there = open_tree_dir(e, id);
    if (there >= 0)
        return found_copy(there, out);
    CAY_AUTO_FD int from = open_tree_dir(e, from_id);
    if (from < 0)
        return cay_fail_as(err, CAY_ERR_NOT_FOUND, snapshot ? "SNAPSHOT_NOT_FOUND" : NULL,
                           "%s not found: %s", snapshot ? "snapshot" : "sandbox", from_id);
    new_name(name, id);
    int r = throw_tree(e, name, err); /* of a spawner that was lost */
    if (r == 0)
        r = fill(e, from_id, from, name, &copied, err);
    if (r == 0) {
        cay_engine_crash("copy-made", id);
        r = finish_copy(e, from_id, name, id, disk_bytes, &copied, err);
    }
    if (r < 0)
        (void)throw_tree(e, name, &ignored);
    else
        *out = copied;
    return r;
}

int cay_tree_backup(const struct cay_engine *e, const char *from_id, const char *id,
                    struct cay_engine_copied *out, struct cay_error *err)
{
    char name[NAME_SIZE];
    struct cay_error ignored; /* the caller has the error that matters */
    CAY_AUTO_FD int from = open_tree_dir(e, from_id);
    if (from < 0)
        return cay_fail_errno(err, CAY_ERR_NOT_FOUND, "cannot open %s", from_id);
    new_name(name, id);
    int r = throw_tree(e, name, err);
    if (r == 0)
        r = fill(e, from_id, from, name, out, err);
    if (r < 0)
        (void)throw_tree(e, name, &ignored);
    return r;
}

/* ---- volumes ---- */

static bool has(int dir, const char *name)
{
    return faccessat(dir, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

int cay_tree_attach(const struct cay_engine *e, const char *volume, const char *id,
                    uint64_t disk_bytes, struct cay_error *err)
{
    uint64_t used = 0, limit;
    int r = 0;
    CAY_AUTO_FD int dir = open_tree_dir(e, volume);
    if (dir < 0)
        return cay_fail_as(err, CAY_ERR_NOT_FOUND, "VOLUME_NOT_FOUND", "volume not found: %s",
                           volume);
    if (cay_disk_usage(&e->disk, volume, &used, &limit) &&
        used > disk_bytes + CAY_DISK_RESERVE_BYTES)
        return cay_fail_as(err, CAY_ERR_CONFLICT, "DISK_FULL",
                           "the volume has %llu bytes, and the disk %llu", (unsigned long long)used,
                           (unsigned long long)disk_bytes);
    if (has(dir, CAY_TREE_OLD))
        r = tell_trash(e, id, err);
    if (r == 0 && name_tree(e, volume, id) < 0)
        r = cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot attach %s", volume);
    if (r == 0)
        cay_engine_crash("attach-named", id);
    return r;
}

/* The volume that a tree names, or "". */
static int read_volume(int dir, char out[CAY_ID_SIZE], struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    char *text;
    *out = 0;
    int r = cay_path_read(dir, "volume", CAY_ID_SIZE, &a, &text, NULL, err);
    if (r == CAY_ERR_NOT_FOUND)
        return 0;
    if (r == 0 && !cay_id_is_volume(text))
        r = cay_fail(err, CAY_ERR_PROVIDER, "the name of a volume is damaged: it is left alone");
    if (r == 0)
        cay_str_copy(out, CAY_ID_SIZE, text);
    return r;
}

/* On the disk before anything is taken apart. */
static int write_volume(int dir, const char *volume, struct cay_error *err)
{
    int r = cay_path_replace(dir, "volume", volume, strlen(volume), 0600, err);
    CAY_AUTO_FD int fd = openat(dir, "volume", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (r == 0 && (fd < 0 || fsync(fd) < 0 || fsync(dir) < 0))
        r = cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot write a volume's name to the disk");
    return r;
}

/* Only the directory itself: root inside may have put a link in its place, or nothing. */
static int move_workspace(int dir, struct cay_error *err)
{
    struct stat st;
    if (has(dir, "upper.new/workspace"))
        return 0;
    if (fstatat(dir, "upper/workspace", &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode)) {
        if (renameat(dir, "upper/workspace", dir, "upper.new/workspace") < 0)
            return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot move the workspace");
        return 0;
    }
    /* Made under its name last, so that it is never seen with another owner. */
    if ((mkdirat(dir, "upper.new/made", 0755) < 0 && errno != EEXIST) ||
        fchownat(dir, "upper.new/made", USER_ID, USER_ID, AT_SYMLINK_NOFOLLOW) < 0 ||
        renameat(dir, "upper.new/made", dir, "upper.new/workspace") < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot make a workspace");
    return 0;
}

/* Everything but the workspace is thrown away. Cut anywhere and begun again it ends the same. */
static int strip(int dir, const char *id, struct cay_error *err)
{
    int r = 0;
    if (has(dir, "upper") && mkdirat(dir, "upper.new", 0755) < 0 && errno != EEXIST)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot make a volume");
    if (has(dir, "upper.new")) {
        r = move_workspace(dir, err);
        if (r < 0)
            return r;
        cay_engine_crash("keep-moved", id);
        r = throw_away(dir, "upper", err);
        if (r < 0)
            return r;
        cay_engine_crash("keep-thrown", id);
        if (renameat(dir, "upper.new", dir, "upper") < 0)
            return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot make a volume");
    }
    r = throw_away(dir, "work", err);
    if (r == 0)
        r = throw_away(dir, "image", err);
    (void)unlinkat(dir, "init.sock", 0); /* most often there is none */
    return r;
}

static int keep(const struct cay_engine *e, int dir, const char *id, const char *volume,
                struct cay_error *err)
{
    int r = strip(dir, id, err);
    if (r == 0)
        r = tell_trash(e, volume, err);
    if (r < 0)
        return r;
    cay_engine_crash("keep-stripped", id);
    if (name_tree(e, id, volume) < 0 || syncfs(dir) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot keep %s as %s", id, volume);
    cay_engine_crash("keep-named", id);
    return 0;
}

static int give_volume_up(int dir, struct cay_error *err)
{
    if (unlinkat(dir, "volume", 0) < 0 && errno != ENOENT)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot give a volume up");
    return 0;
}

/* Which volume the tree is to become; none: "". */
static int choose_volume(const struct cay_engine *e, int dir, const char *id, const char *volume,
                         char out[CAY_ID_SIZE], struct cay_error *err)
{
    *out = 0;
    if (!*volume && !has(dir, "volume"))
        return 0;
    /* A full tree has no room for what follows, and nobody writes to a volume. */
    int r = cay_tree_limit(e, id, CAY_DISK_NO_LIMIT, err);
    if (r < 0 || !*volume)
        return r < 0 ? r : read_volume(dir, out, err);
    cay_str_copy(out, CAY_ID_SIZE, volume);
    return write_volume(dir, volume, err);
}

int cay_tree_undo(const struct cay_engine *e, const char *id, struct cay_error *err)
{
    char name[NAME_SIZE];
    new_name(name, id);
    return has(e->files_fd, name) ? throw_tree(e, name, err) : 0;
}

int cay_tree_remove(const struct cay_engine *e, const char *id, const char *volume,
                    bool drop_volume, struct cay_error *err)
{
    char kept[CAY_ID_SIZE] = "";
    int r = cay_tree_undo(e, id, err);
    if (r < 0)
        return r;
    CAY_AUTO_FD int dir = open_tree_dir(e, id);
    if (dir < 0 && errno == ENOENT)
        return 0;
    if (dir < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot open %s", id);
    r = drop_volume ? give_volume_up(dir, err) : choose_volume(e, dir, id, volume, kept, err);
    if (r < 0)
        return r;
    if (*kept)
        return keep(e, dir, id, kept, err);
    return cay_leftover_put_disk(&e->disk, id) ? 0 : throw_tree(e, id, err);
}
