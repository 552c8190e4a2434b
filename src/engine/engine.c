/* SPDX-License-Identifier: Apache-2.0 */
/* Setting the engine up: everything that needs a name is opened here, once. */
#include "engine/engine.h"
#include "base/crash.h"
#include "base/id.h"
#include "base/path.h"
#include "base/str.h"
#include "engine/berth.h"
#include "engine/plan.h"
#include "engine/seccomp.h"
#include "engine/shelf.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

void cay_engine_crash(const char *point, const char *id)
{
    if (strcmp(id, CAY_TRIAL_ID) != 0)
        cay_crash_point(point);
}

int cay_engine_open_program(const char *program, struct cay_error *err)
{
    static const char *const places[] = {"", "../libexec/cay/"};
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 64);
    self[n > 0 ? n : 0] = 0;
    char *name = strrchr(self, '/');
    for (size_t i = 0; name && i < CAY_COUNT(places); i++) {
        (void)snprintf(name + 1, (size_t)(self + sizeof self - name - 1), "%s%s", places[i],
                       program);
        int fd = open(self, O_RDONLY | O_CLOEXEC);
        if (fd >= 0)
            return fd;
    }
    return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot find %s beside the program", program);
}

/* Run from sealed memory: in a sandbox no path and no file of the host is in sight, and on the
 * stage there is none. */
static int load(const char *program, int *fd_out, struct cay_error *err)
{
    CAY_AUTO_FD int file = cay_engine_open_program(program, err);
    if (file < 0)
        return file;
    CAY_AUTO_FD int fd = memfd_create(program, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    struct stat st;
    if (fd < 0 || fstat(file, &st) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot load %s", program);
    for (off_t done = 0; done < st.st_size;)
        if (sendfile(fd, file, &done, (size_t)(st.st_size - done)) <= 0)
            return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot load %s", program);
    /* Not readable: then the kernel counts pid 1's memory to the host's user namespace, and root
     * inside gets nothing of /proc/1. */
    if (fchmod(fd, 0111) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot seal %s", program);
    *fd_out = cay_take_fd(&fd);
    return 0;
}

static int read_line(int dir, const char *path, char *out, size_t size)
{
    CAY_AUTO_FD int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, out, size - 1);
    out[n > 0 ? n : 0] = 0;
    out[strcspn(out, "\n")] = 0;
    return n > 0 ? 0 : -1;
}

int cay_engine_instance(int data_fd, char out[17], struct cay_error *err)
{
    if (read_line(data_fd, "instance", out, 17) == 0 && strspn(out, "0123456789abcdef") == 16)
        return 0;
    cay_id_hex(out, 16);
    return cay_path_replace(data_fd, "instance", out, 16, 0644, err);
}

static int open_dirs(struct cay_engine *e, struct cay_error *err)
{
    CAY_AUTO_FD int data = open(e->cfg->data, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (data < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot open %s", e->cfg->data);
    int r = cay_engine_instance(data, e->instance, err);
    if (r == 0)
        r = cay_path_open_dir(data, "engine", 0700, &e->engine_fd, err);
    if (r == 0)
        r = cay_path_open_dir(e->engine_fd, "records", 0700, &e->records_fd, err);
    if (r == 0)
        r = cay_path_open_dir(e->engine_fd, "files", 0700, &e->files_fd, err);
    if (r == 0)
        r = cay_path_open_dir(e->engine_fd, "trash", 0700, &e->trash_fd, err);
    if (r == 0 && mkdirat(e->engine_fd, "stage", 0700) < 0 && errno != EEXIST)
        r = cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot make the stage");
    if (r < 0)
        return r;
    if (e->cfg->images)
        e->images_fd = open(e->cfg->images, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    else
        return cay_path_open_dir(data, "images", 0711, &e->images_fd, err);
    return e->images_fd < 0
               ? cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot open %s", e->cfg->images)
               : 0;
}

int cay_engine_prepare(struct cay_engine *e, const struct cay_config *cfg, struct cay_error *err)
{
    *e = (struct cay_engine){
        .cfg = cfg,
        .engine_fd = -1,
        .records_fd = -1,
        .files_fd = -1,
        .trash_fd = -1,
        .disk = CAY_DISK_NONE,
        .images_fd = -1,
        .host_fd = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC),
        .berth_fd = -1,
        .kit = {.ids_fd = -1, .init_fd = -1, .file_fd = -1, .guards = !cfg->egress_allow}};
    (void)read_line(AT_FDCWD, "/proc/sys/kernel/random/boot_id", e->boot_id, sizeof e->boot_id);
    /* Descriptors of directories must come from the namespace in which they are mounted from. */
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_PRIVATE | MS_REC, NULL) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot make a mount namespace");
    int r = open_dirs(e, err);
    if (r == 0)
        r = cay_shelf_prepare(e->images_fd, err);
    bool no_disk = cfg->closing && faccessat(e->engine_fd, "disk", F_OK, 0) < 0;
    if (r == 0 && !no_disk)
        r = cay_disk_open(&e->disk, e->engine_fd, &e->files_fd, err);
    if (r == 0)
        r = cay_trust_read(cfg->trust_ca, &e->trust, err);
    if (r == 0)
        r = cay_berth_open_ids(&e->kit.ids_fd, err);
    if (r == 0)
        r = load("cay-init", &e->kit.init_fd, err);
    if (r == 0)
        r = load("cay-file", &e->kit.file_fd, err);
    if (r == 0)
        r = load("cay-berth", &e->berth_fd, err);
    if (r == 0)
        r = cay_seccomp_build(&e->kit.seccomp, err);
    if (r == 0)
        r = cay_cgroups_open(&e->kit.cgroups, e->instance, err);
    return r < 0 ? r : cay_rootfs_stage(e->engine_fd, e->images_fd, e->files_fd, err);
}
