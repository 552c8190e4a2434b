/* SPDX-License-Identifier: Apache-2.0 */
/* Making a sandbox: its files, its socket, its cgroup, its first process, its record.
 *
 * The order is the order of undoing. A crash anywhere leaves something that names what there is:
 * files without a record are of a sandbox that was never finished, and whoever finds them removes
 * it. */
#include "engine/spawner.h"
#include "base/clock.h"
#include "base/packet.h"
#include "base/path.h"
#include "base/process.h"
#include "engine/box.h"
#include "engine/leftover.h"
#include "engine/plan.h"
#include "engine/shelf.h"
#include "engine/trees.h"
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>

#define REMOVE_TRIES 200 /* × 5 ms: processes leave their cgroup a moment after they are reaped */

struct making {
    struct cay_engine *engine;
    const struct cay_job *job;
    int dir; /* of its files */
    struct cay_job_reply *reply;
    bool killed; /* see cay_sandbox_spawn */
};

/* ---- one job: create or start ---- */

static int open_listener(int dir, int *fd_out, struct cay_error *err)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    CAY_AUTO_FD int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot make a socket");
    snprintf(addr.sun_path, sizeof addr.sun_path, "/proc/self/fd/%d/init.sock", dir);
    if (bind(fd, (struct sockaddr *)&addr, sizeof addr) < 0 || listen(fd, 128) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot listen for pid 1");
    *fd_out = cay_take_fd(&fd);
    return 0;
}

static int record_pid(void *arg, pid_t pid, struct cay_error *err)
{
    struct making *m = arg;
    struct cay_box_record record = {.running = true, .pid = pid};
    struct cay_engine_entry *e = &record.entry;

    record.start_ticks = cay_process_start(pid);
    cay_str_copy(record.boot_id, sizeof record.boot_id, m->engine->boot_id);
    cay_str_copy(e->id, sizeof e->id, m->job->request.id);
    e->started_at_ms = cay_clock_ms();
    e->exit_code = e->signal = -1;
    m->reply->pid = pid;
    m->reply->start_ticks = record.start_ticks;
    m->reply->started_at_ms = e->started_at_ms;
    if (m->job->op == CAY_JOB_CREATE)
        cay_box_begin(m->engine->records_fd, e->id);
    cay_disk_forget(&m->engine->disk, m->dir, "image"); /* while the hull is at work */
    int r = cay_box_save(m->engine->records_fd, &record, err);
    if (r < 0 || !m->job->request.persistent)
        return r;
    /* What must survive the host is on its disk before anyone hears of it. */
    if (syncfs(m->engine->records_fd) < 0 || syncfs(m->dir) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot write %s to the disk", e->id);
    return 0;
}

/* Files that are there already: those of the last run, a copy, a volume's. */
static bool has_files(const struct cay_job *job)
{
    return job->op == CAY_JOB_START || *job->request.other || *job->request.volume;
}

/* With room for overlayfs to come up, however full they are. */
static int open_files(struct making *m, struct cay_error *err)
{
    const struct cay_engine *e = m->engine;
    const struct cay_engine_request *rq = &m->job->request;
    int r = m->job->op == CAY_JOB_CREATE ? cay_disk_check(e->files_fd, e->records_fd, err) : 0;
    if (r < 0)
        return r;
    if (m->job->op == CAY_JOB_CREATE && *rq->other)
        r = cay_tree_copy(e, rq->other, rq->id, rq->disk_bytes, &m->reply->copied, err);
    else if (m->job->op == CAY_JOB_CREATE && *rq->volume)
        r = cay_tree_attach(e, rq->volume, rq->id, rq->disk_bytes, err);
    else if (m->job->op == CAY_JOB_CREATE && e->disk.fd >= 0 &&
             !cay_leftover_take_disk(&e->disk, rq->id, rq->disk_bytes))
        r = cay_disk_make(&e->disk, rq->id, rq->disk_bytes, err);
    if (r == 0 && has_files(m->job))
        r = cay_tree_limit(e, rq->id, rq->disk_bytes + CAY_DISK_RESERVE_BYTES, err);
    return r < 0 ? r : cay_path_open_dir(e->files_fd, rq->id, 0700, &m->dir, err);
}

/* By these overlayfs refuses to mount again what was volatile. Not there is as well. */
static void remove_marks(const struct making *m)
{
    static const char *const names[] = {"/volatile/dirty", "/volatile", ""};
    char path[64 + CAY_ID_SIZE];
    for (size_t i = 0; i < CAY_COUNT(names); i++) {
        snprintf(path, sizeof path, "%s/work/work/incompat%s", m->job->request.id, names[i]);
        (void)unlinkat(m->engine->files_fd, path, i == 0 ? 0 : AT_REMOVEDIR);
    }
}

static int make_dirs(const struct making *m, struct cay_error *err)
{
    if ((mkdirat(m->dir, "upper", 0755) < 0 && errno != EEXIST) ||
        (mkdirat(m->dir, "work", 0755) < 0 && errno != EEXIST))
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot make the sandbox's directories");
    if (!has_files(m->job))
        return 0;
    (void)unlinkat(m->dir, "init.sock", 0); /* of the last run */
    remove_marks(m);
    return 0;
}

/* It may be there already, from who had these files before. Without a detour by another name: until
 * there is a record nobody looks at it. */
static int keep_image(int dir, const char *text, struct cay_error *err)
{
    static char there[CAY_MAX_IMAGE_TEXT];
    const size_t len = strlen(text);
    CAY_AUTO_FD int fd = openat(dir, "image", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    ssize_t n = fd < 0 ? -1 : read(fd, there, sizeof there);
    if (n == (ssize_t)len && memcmp(there, text, len) == 0)
        return 0;
    if (n < 0 || (n > 0 && ftruncate(fd, 0) < 0) || pwrite(fd, text, len, 0) != (ssize_t)len)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot keep the image's settings");
    return 0;
}

/* The image as it is now; later starts and copies use the text that lies with the sandbox. */
static int find_image(struct making *m, struct cay_arena *a, struct cay_image *image,
                      struct cay_error *err)
{
    const char *text;
    char *copy;
    if (m->job->op == CAY_JOB_START || *m->job->request.other) {
        int r = cay_path_read(m->dir, "image", CAY_MAX_IMAGE_TEXT, a, &copy, NULL, err);
        return r < 0 ? r : cay_image_parse(a, copy, image, err);
    }
    /* Between the look and the note nobody may throw its layers away. */
    CAY_AUTO_FD int lock = -1;
    int r = cay_shelf_lock(m->engine->images_fd, false, &lock, err);
    if (r == 0)
        r = cay_image_find(m->engine->images_fd, m->job->request.image, a, image, &text, err);
    if (r == 0)
        r = cay_shelf_use(m->engine, image, text, err);
    return r < 0 ? r : keep_image(m->dir, text, err);
}

/* What the first process is told. */
static int write_order(struct making *m, struct cay_order *order, struct cay_error *err)
{
    CAY_AUTO_ARENA struct cay_arena a = {0};
    struct cay_image image;
    order->request = m->job->request;
    int r = find_image(m, &a, &image, err);
    if (r == 0)
        r = cay_image_fit(m->engine->images_fd, &m->engine->trust, &a, &image, err);
    return r < 0 ? r
                 : cay_rootfs_overlay(&image, order->request.persistent, order->overlay,
                                      sizeof order->overlay, err);
}

static int bring_up(struct making *m, struct cay_berth *berth, struct cay_error *err)
{
    CAY_AUTO_FD int listener = -1;
    struct cay_order order;
    struct cay_error ignored;
    const struct cay_engine_request *rq = &m->job->request;
    int r = write_order(m, &order, err);
    if (r == 0)
        r = make_dirs(m, err);
    if (r == 0)
        r = open_listener(m->dir, &listener, err);
    if (r < 0)
        return r;
    cay_engine_crash("create-box-made", rq->id);
    struct cay_plan plan = {&m->engine->kit, &order, berth, listener};
    r = cay_sandbox_spawn(&plan, record_pid, m, &m->killed, err);
    if (r == 0 && has_files(m->job))
        (void)cay_tree_limit(m->engine, rq->id, rq->disk_bytes, &ignored); /* a bit more */
    if (r == 0)
        cay_engine_crash("create-started", rq->id);
    return r;
}

/* ---- undoing ---- */

static int remove_cgroup(struct cay_engine *engine, const char *id, struct cay_error *err)
{
    cay_leftover_put_cgroups(&engine->kit.cgroups, id);
    int r = cay_cgroup_remove(&engine->kit.cgroups, id, err);
    for (int i = 0; r < 0 && i < REMOVE_TRIES; i++) {
        cay_cgroup_kill(&engine->kit.cgroups, id);
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
        r = cay_cgroup_remove(&engine->kit.cgroups, id, err);
    }
    if (r == CAY_ERR_CONFLICT)
        return cay_fail(err, CAY_ERR_TIMEOUT,
                        "a process of %s waits in the kernel and does not die", id);
    return r;
}

/* The record last: as long as it is there, somebody comes back for the rest. */
static int remove_box(struct cay_engine *engine, const char *id, const char *volume,
                      bool drop_volume, struct cay_error *err)
{
    int r = remove_cgroup(engine, id, err);
    if (r < 0)
        return r;
    cay_engine_crash("delete-cgroup-gone", id);
    r = cay_tree_remove(engine, id, volume, drop_volume, err);
    if (r < 0)
        return r;
    cay_engine_crash("delete-files-gone", id);
    return cay_box_remove(engine->records_fd, id, err);
}

/* ---- the jobs ---- */

static void close_files(struct making *m)
{
    cay_close_fd(&m->dir);
}

/* Down again, and its record says so: the next engine must not take it for one that died. */
static void take_back_start(struct cay_engine *engine, const char *id)
{
    struct cay_error ignored; /* the caller has the error that matters */
    struct cay_box_record record;
    (void)remove_cgroup(engine, id, &ignored);
    if (cay_box_load(engine->records_fd, id, &record, &ignored) == 0 && record.running) {
        record.running = false;
        (void)cay_box_save(engine->records_fd, &record, &ignored);
    }
}

/* Up, or as it was before. True: its first process was killed, and nothing is left of it. */
static bool try_up(struct cay_engine *engine, const struct cay_job *job, struct cay_berth *berth,
                   struct cay_job_reply *reply, int *r_out, struct cay_error *err)
{
    CAY_CLEANUP(close_files) struct making m = {engine, job, -1, reply, false};
    struct cay_error ignored; /* the caller has the error that matters */
    int r = open_files(&m, err);
    if (r == 0)
        r = bring_up(&m, berth, err);
    if (r < 0 && job->op == CAY_JOB_CREATE)
        reply->left = remove_box(engine, job->request.id, "", false, &ignored) < 0;
    else if (r < 0)
        take_back_start(engine, job->request.id);
    *r_out = r;
    return m.killed && !reply->left;
}

/* For one that was killed before it was anybody's another comes up, in the same berth, which only
 * our own code has been in. Once: whatever kills that too would go on. */
static int run_up(struct cay_engine *engine, const struct cay_job *job, struct cay_berth *berth,
                  struct cay_job_reply *reply, struct cay_error *err)
{
    int r;
    if (try_up(engine, job, berth, reply, &r, err)) {
        *reply = (struct cay_job_reply){0};
        (void)try_up(engine, job, berth, reply, &r, err);
    }
    return r;
}

/* All is looked at before anything is changed. What a fault leaves half done, whoever asked sets
 * right by asking for the old limits again. */
static int change_limits(struct cay_engine *engine, const struct cay_engine_request *rq,
                         struct cay_error *err)
{
    const struct cay_cgroup_limits limits = {rq->memory_bytes, rq->cpu_milli, rq->pids};
    uint64_t used, limit;
    if (cay_disk_usage(&engine->disk, rq->id, &used, &limit) && used > rq->disk_bytes)
        return cay_fail_as(err, CAY_ERR_CONFLICT, "DISK_IN_USE",
                           "its files take %llu bytes, more than the new limit",
                           (unsigned long long)used);
    int r = cay_cgroup_limit(&engine->kit.cgroups, rq->id, &limits, err);
    return r < 0 ? r : cay_tree_limit(engine, rq->id, rq->disk_bytes, err);
}

static int run(struct cay_engine *engine, const struct cay_job *job, struct cay_berth *berth,
               struct cay_job_reply *reply, struct cay_error *err)
{
    const struct cay_engine_request *rq = &job->request;
    int r;
    switch (job->op) {
    case CAY_JOB_START: /* beside nobody who did not die when it was stopped */
        r = remove_cgroup(engine, rq->id, err);
        return r < 0 ? r : run_up(engine, job, berth, reply, err);
    case CAY_JOB_CREATE:
        return run_up(engine, job, berth, reply, err);
    case CAY_JOB_CLEAN:
        r = remove_cgroup(engine, rq->id, err);
        cay_engine_crash("stop-cgroup-gone", rq->id);
        return r;
    case CAY_JOB_REMOVE:
        return remove_box(engine, rq->id, rq->volume, rq->drop_volume, err);
    case CAY_JOB_FREEZE:
    case CAY_JOB_THAW:
        return cay_cgroup_freeze(&engine->kit.cgroups, rq->id, job->op == CAY_JOB_FREEZE, err);
    case CAY_JOB_SNAPSHOT:
        return rq->id[0] == *CAY_TREE_BACKUP
                   ? cay_tree_backup(engine, rq->other, rq->id, &reply->copied, err)
                   : cay_tree_copy(engine, rq->other, rq->id, 0, &reply->copied, err);
    case CAY_JOB_LIMIT:
        return change_limits(engine, rq, err);
    case CAY_JOB_UNDO:
        return cay_tree_undo(engine, rq->id, err);
    }
    return cay_fail(err, CAY_ERR_INTERNAL, "no job %u", job->op);
}

/* Of libraries: a first process calls none but the C library before it becomes cay-init; and what a
 * sanitizer puts beneath that. */
static int leave_out(struct dl_phdr_info *info, size_t size, void *arg)
{
    static const char *const kept[] = {"/libc.", "/ld-", "linux-vdso", "san.so"};
    (void)size;
    (void)arg;
    if (!*info->dlpi_name) /* ourselves */
        return 0;
    for (size_t i = 0; i < CAY_COUNT(kept); i++)
        if (strstr(info->dlpi_name, kept[i]))
            return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE) - 1;
        uintptr_t begin = (info->dlpi_addr + part->p_vaddr) & ~page;
        uintptr_t end = (info->dlpi_addr + part->p_vaddr + part->p_memsz + page) & ~page;
        if (part->p_type == PT_LOAD) /* copied after all, it is only slower */
            (void)madvise((void *)begin, end - begin, MADV_DONTFORK);
    }
    return 0;
}

/* From now on hulls get from us what they need and no more. */
static void bequeath(void)
{
    cay_hull_be_expendable();
    (void)dl_iterate_phdr(leave_out, NULL);
}

/* What nobody waits for. The marks of a mount have served once it is there, and the kernel would
 * remember what they are for as long as the sandbox lives. */
static void settle(struct cay_engine *engine, const struct cay_job *job)
{
    const struct making m = {.engine = engine, .job = job};
    if ((job->op == CAY_JOB_CREATE || job->op == CAY_JOB_START) && !job->request.persistent)
        remove_marks(&m);
}

void cay_spawner_serve(struct cay_engine *engine, int sock)
{
    struct cay_job job;
    int fds[CAY_BERTH_FDS], fd_count;
    bequeath();
    for (;;) {
        struct cay_job_reply reply = {0};
        ssize_t n = cay_packet_recv(sock, &job, sizeof job, fds, CAY_BERTH_FDS, &fd_count);
        if (n != sizeof job)
            return;
        CAY_CLEANUP(cay_berth_done) struct cay_berth berth = CAY_NO_BERTH;
        if (fd_count > 0)
            berth = cay_berth_from_fds(fds, fd_count, job.base, job.hull);
        reply.code = run(engine, &job, &berth, &reply, &reply.err);
        if (reply.code < 0 && reply.err.name)
            cay_str_copy(reply.err_name, sizeof reply.err_name, reply.err.name);
        reply.err.name = NULL; /* a pointer of this process */
        if (cay_packet_send(sock, &reply, sizeof reply, NULL, 0, NULL, 0) < 0)
            return;
        if (reply.code == 0)
            settle(engine, &job);
    }
}
