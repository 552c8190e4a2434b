/* SPDX-License-Identifier: Apache-2.0 */
/* Directories, programs, libraries and the port that `cay serve` would use with the same options.
 * Nothing is made in them. */
#include "base/library.h"
#include "base/str.h"
#include "cli/doctor.h"
#include "model/limits.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/dqblk_xfs.h>
#include <linux/magic.h>
#include <linux/quota.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/utsname.h>

#define XFS_MAGIC 0x58465342

static const struct {
    unsigned long magic;
    const char *name;
} filesystems[] = {
    {BTRFS_SUPER_MAGIC, "btrfs"}, {EXT4_SUPER_MAGIC, "ext4"}, {XFS_MAGIC, "xfs"},
    {TMPFS_MAGIC, "tmpfs"},       {NFS_SUPER_MAGIC, "nfs"},   {OVERLAYFS_SUPER_MAGIC, "overlay"},
};

static const char *filesystem_name(unsigned long magic)
{
    for (size_t i = 0; i < CAY_COUNT(filesystems); i++)
        if (filesystems[i].magic == magic)
            return filesystems[i].name;
    return "another filesystem";
}

/* What the engine can do with it, where that is not told by its name. */
static const char *quotas_on(const char *path, unsigned long magic)
{
    struct fs_quota_stat stat = {.qs_version = FS_QSTAT_VERSION};
    unsigned wanted = FS_QUOTA_PDQ_ACCT | FS_QUOTA_PDQ_ENFD;
    CAY_AUTO_FD int fd = magic == XFS_MAGIC ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return "";
    if (syscall(SYS_quotactl_fd, fd, QCMD(Q_XGETQSTAT, PRJQUOTA), 0, &stat) == 0 &&
        (stat.qs_flags & wanted) == wanted)
        return " with prjquota";
    return " without prjquota: disks are in an image";
}

/* The path, or what of it exists: where it would be made. */
static void find_existing(const char *path, char *out, size_t size)
{
    struct stat st;
    cay_str_copy(out, size, path);
    while (stat(out, &st) < 0) {
        char *slash = strrchr(out, '/');
        if (!slash) {
            cay_str_copy(out, size, ".");
            return;
        }
        slash[slash == out] = 0;
    }
}

static void images_path(const struct cay_place *place, const char *tail, char *out, size_t size)
{
    (void)snprintf(out, size, "%s%s%s", place->images ? place->images : place->data,
                   place->images ? "" : "/images", tail);
}

static void try_data(const struct cay_probe *p, const struct cay_place *place,
                     struct cay_found *out)
{
    char path[PATH_MAX];
    struct statfs fs;
    struct stat st;
    (void)p;
    find_existing(place->data, path, sizeof path);
    if (stat(path, &st) < 0 || statfs(path, &fs) < 0)
        cay_doctor_failed(out, path);
    else if (!S_ISDIR(st.st_mode))
        cay_doctor_say(out, CAY_LACKING, "%.100s is no directory", path);
    else if ((unsigned long)fs.f_flags & ST_RDONLY)
        cay_doctor_say(out, CAY_LACKING, "%.100s cannot be written", path);
    else
        cay_doctor_say(out, CAY_FINE, "%.100s, on %s%s%s", place->data,
                       filesystem_name((unsigned long)fs.f_type),
                       quotas_on(path, (unsigned long)fs.f_type),
                       cay_doctor_in_use(place) ? ", in use by a server" : "");
}

/* Where it has no quotas itself an image is made in it, which wants room and a real disk. */
static void try_room(const struct cay_probe *p, const struct cay_place *place,
                     struct cay_found *out)
{
    char path[PATH_MAX];
    struct statfs fs;
    find_existing(place->data, path, sizeof path);
    if (statfs(path, &fs) < 0) {
        cay_doctor_failed(out, path);
        return;
    }
    uint64_t free_bytes = (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize;
    bool in_memory = (unsigned long)fs.f_type == TMPFS_MAGIC;
    cay_doctor_say(out, in_memory || free_bytes < (uint64_t)p->number ? CAY_LACKING : CAY_FINE,
                   "%.1f GB free%s", (double)free_bytes / 1e9, in_memory ? ", in memory" : "");
}

static void try_images(const struct cay_probe *p, const struct cay_place *place,
                       struct cay_found *out)
{
    char store[PATH_MAX], path[PATH_MAX];
    (void)p;
    images_path(place, "", store, sizeof store);
    find_existing(store, path, sizeof path);
    CAY_AUTO_FD int user = cay_doctor_user_namespace();
    CAY_AUTO_FD int mapped = user < 0 ? -1 : cay_doctor_map(AT_FDCWD, path, user);
    if (mapped < 0)
        cay_doctor_failed(out, path);
    else
        cay_doctor_say(out, CAY_FINE, "%.100s", store);
}

static void try_image(const struct cay_probe *p, const struct cay_place *place,
                      struct cay_found *out)
{
    char path[PATH_MAX];
    (void)p;
    images_path(place, "/refs/" CAY_DEFAULT_IMAGE, path, sizeof path);
    if (access(path, R_OK) == 0)
        cay_doctor_say(out, CAY_FINE, CAY_DEFAULT_IMAGE);
    else if (errno == EACCES)
        cay_doctor_say(out, CAY_UNTRIED, "cannot look into the image store");
    else if (cay_doctor_has_program("mmdebstrap") && cay_doctor_has_program("npm"))
        cay_doctor_say(out, CAY_NOTED, "none yet: the first start builds it, which takes a minute");
    else
        cay_doctor_say(out, CAY_LACKING, "no " CAY_DEFAULT_IMAGE ", and it cannot be built");
}

static void try_program(const struct cay_probe *p, const struct cay_place *place,
                        struct cay_found *out)
{
    (void)place;
    cay_doctor_say(out, cay_doctor_has_program(p->text) ? CAY_FINE : CAY_LACKING, "%s", "");
}

/* Needed where btrfs has no simple quotas, which came with Linux 6.7. */
static void try_mkfs_xfs(const struct cay_probe *p, const struct cay_place *place,
                         struct cay_found *out)
{
    struct utsname name;
    int major = 0, minor = 0;
    try_program(p, place, out);
    if (out->verdict == CAY_LACKING && cay_doctor_has_program("mkfs.btrfs") && uname(&name) == 0 &&
        sscanf(name.release, "%d.%d", &major, &minor) == 2 && major * 100 + minor >= 607)
        cay_doctor_say(out, CAY_NOTED, "not here, nor needed: btrfs has simple quotas");
}

/* Beside the program, or where `make install` puts it. */
static void try_beside(const struct cay_probe *p, const struct cay_place *place,
                       struct cay_found *out)
{
    static const char *const places[] = {"", "../libexec/cay/"};
    char self[PATH_MAX], path[PATH_MAX + 64];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    (void)place;
    self[n > 0 ? n : 0] = 0;
    self[strcspn(self, "/") < strlen(self) ? (size_t)(strrchr(self, '/') - self) : 0] = 0;
    for (size_t i = 0; i < CAY_COUNT(places); i++) {
        (void)snprintf(path, sizeof path, "%s/%s%s", self, places[i], p->text);
        if (access(path, R_OK) == 0) {
            cay_doctor_say(out, CAY_FINE, "%.150s", path);
            return;
        }
    }
    cay_doctor_say(out, CAY_LACKING, "not beside %.150s/cay", self);
}

static void try_library(const struct cay_probe *p, const struct cay_place *place,
                        struct cay_found *out)
{
    const char *why = "";
    (void)place;
    if (cay_library_there(p->text, &why))
        cay_doctor_say(out, CAY_FINE, "%s", p->text);
    else
        cay_doctor_say(out, CAY_LACKING, "%.180s", why);
}

/* A file without a name, so that nothing stays. */
static void try_ids(const struct cay_probe *p, const struct cay_place *place, struct cay_found *out)
{
    char path[64];
    (void)place;
    find_existing(p->text, path, sizeof path);
    CAY_AUTO_FD int fd = open(path, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
        cay_doctor_failed(out, path);
    else
        cay_doctor_say(out, CAY_FINE, "%s", p->text);
}

static void try_user(const struct cay_probe *p, const struct cay_place *place,
                     struct cay_found *out)
{
    (void)p, (void)place;
    cay_doctor_say(out, getpwnam("cay") ? CAY_FINE : CAY_NOTED, "%s",
                   getpwnam("cay") ? "cay" : "no user cay: the server runs as a number");
}

static bool parse_listen(const char *text, struct sockaddr_storage *out, socklen_t *len)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)out;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;
    char host[64];
    uint64_t port;
    const char *colon = strrchr(text, ':');
    size_t bracket = text[0] == '[';
    if (!colon || (size_t)(colon - text) >= sizeof host || !cay_str_u64(colon + 1, 65535, &port))
        return false;
    cay_str_copy(host, (size_t)(colon - text) + 1 - 2 * bracket, text + bracket);
    *out = (struct sockaddr_storage){0};
    if (strcmp(host, "localhost") == 0)
        cay_str_copy(host, sizeof host, "127.0.0.1");
    if (inet_pton(AF_INET, host, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons((uint16_t)port);
        *len = sizeof *v4;
        return true;
    }
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons((uint16_t)port);
    *len = sizeof *v6;
    return inet_pton(AF_INET6, host, &v6->sin6_addr) == 1;
}

static void try_port(const struct cay_probe *p, const struct cay_place *place,
                     struct cay_found *out)
{
    struct sockaddr_storage addr;
    socklen_t len;
    int yes = 1;
    (void)p;
    if (!parse_listen(place->listen, &addr, &len)) {
        cay_doctor_say(out, CAY_LACKING, "%.80s is no ADDR:PORT", place->listen);
        return;
    }
    CAY_AUTO_FD int fd = socket(addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (fd >= 0 && bind(fd, (struct sockaddr *)&addr, len) == 0)
        cay_doctor_say(out, CAY_FINE, "%.80s", place->listen);
    else if (errno == EADDRINUSE && (place->served || cay_doctor_in_use(place)))
        cay_doctor_say(out, CAY_NOTED, "%.80s is in use, as a server that runs would",
                       place->listen);
    else
        cay_doctor_failed(out, place->listen);
}

const struct cay_probe cay_doctor_files[] = {
    {"data directory", true, false, try_data, "a server has no place", "name another: --data DIR",
     0, NULL},
    {"disk space", false, false, try_room, "no disk limit, and little room",
     "have 2 GiB free at the data directory, on a real disk", 2 * CAY_GIB, NULL},
    {"image store", true, true, try_images, "sandboxes cannot be made",
     "put it on a filesystem that knows idmapped mounts (ext4, xfs, btrfs): --images DIR", 0, NULL},
    {"image", true, false, try_image, "a server cannot start",
     "install mmdebstrap and npm, or put an image into the store", 0, NULL},
    {"cay-init", true, false, try_beside, "sandboxes cannot be made",
     "install it beside cay, as `make install` does", 0, "cay-init"},
    {"cay-file", true, false, try_beside, "sandboxes cannot be made",
     "install it beside cay, as `make install` does", 0, "cay-file"},
    {"cay-berth", true, false, try_beside, "sandboxes cannot be made",
     "install it beside cay, as `make install` does", 0, "cay-berth"},
    {"libcurl", false, false, try_library,
     "no registry can be asked: a server ends, and is started again, whenever one is",
     "apt install libcurl4-openssl-dev, which brings " CAY_LIBCURL, 0, CAY_LIBCURL},
    {"libgit2", false, false, try_library,
     "no code history: a server ends, and is started again, when a sandbox is to have one, which "
     "those of /api/sandbox are unless their `track` is off",
     "apt install libgit2-dev, which brings " CAY_LIBGIT2, 0, CAY_LIBGIT2},
    {"mkfs.btrfs", false, false, try_program,
     "snapshots and forks copy files, unless the data directory is on btrfs",
     "apt install btrfs-progs", 0, "mkfs.btrfs"},
    {"mkfs.xfs", false, false, try_mkfs_xfs,
     "no disk limit, unless the data directory is on XFS with prjquota", "apt install xfsprogs", 0,
     "mkfs.xfs"},
    {"mmdebstrap", false, false, try_program, "images cannot be built", "apt install mmdebstrap", 0,
     "mmdebstrap"},
    {"npm", false, false, try_program, "the Node image cannot be built", "apt install npm", 0,
     "npm"},
    {"id ranges", true, true, try_ids, "sandboxes cannot be made", "make /run writable for root", 0,
     "/run/cay/ids"},
    {"server's user", false, false, try_user, "", "useradd --system cay", 0, NULL},
    {"port", true, false, try_port, "a server cannot listen there",
     "end what has it, or name another: --listen ADDR:PORT", 0, NULL},
    {0},
};
