/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/foreign.h"
#include "base/clock.h"
#include "base/path.h"
#include "base/str.h"
#include "engine/cgroup.h"
#include "engine/copy.h"
#include "engine/hierarchy.h"
#include "engine/io.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define COPY_SPARE_MS 5000 /* until the server stops waiting */
#define CHILD_FD 3         /* all that a child has beside the usual three, */
#define PROC_FD 4          /* and this, if its task has one */

/* ---- its cgroups ---- */

static void close_groups(struct cay_cgroups *c)
{
    cay_cgroups_close(c, "", false);
}

/* First in a pid namespace of its own, and called what ours are called. */
static bool is_init(int proc)
{
    char text[2048];
    unsigned outer = 0, inner = 0;
    if (!cay_small_read(proc, "status", text, sizeof text) ||
        strncmp(text, "Name:\tcay-init\n", 15) != 0)
        return false;
    const char *ids = strstr(text, "\nNSpid:");
    int count = ids ? sscanf(ids, "\nNSpid: %u %u", &outer, &inner) : 0;
    return count == 2 && inner == 1;
}

static int find(int proc, struct cay_cgroups *c, char name[CAY_CGROUP_NAME], struct cay_error *err)
{
    *c = (struct cay_cgroups){0};
    if (!is_init(proc))
        return cay_fail(err, CAY_ERR_NOT_FOUND, "the process is no sandbox's first");
    return cay_cgroups_of(c, proc, name, err);
}

int cay_foreign_usage(int proc, pid_t pid, struct cay_usage *out, struct cay_error *err)
{
    CAY_CLEANUP(close_groups) struct cay_cgroups c;
    char name[CAY_CGROUP_NAME];
    int r = find(proc, &c, name, err);
    if (r < 0)
        return r;
    cay_cgroup_usage(&c, name, out);
    cay_io_read(&c, name, pid, out);
    return 0;
}

int cay_foreign_limit(int proc, const struct cay_engine_request *rq, struct cay_error *err)
{
    const struct cay_cgroup_limits limits = {rq->memory_bytes, rq->cpu_milli, rq->pids};
    CAY_CLEANUP(close_groups) struct cay_cgroups c;
    char name[CAY_CGROUP_NAME];
    int r = find(proc, &c, name, err);
    return r < 0 ? r : cay_cgroup_limit(&c, name, &limits, err);
}

/* ---- what lasts ---- */

struct task {
    int (*work)(const struct task *t, struct cay_engine_copied *out, struct cay_error *err);
    const struct cay_engine_request *rq;
    int proc; /* -1: none */
};

static void say(int code, const struct cay_engine_copied *copied, const struct cay_error *err)
{
    struct cay_engine_done done = {.reply = {.version = CAY_ENGINE_VERSION, .code = code},
                                   .copied = *copied};
    if (code < 0) {
        cay_str_copy(done.reply.name, sizeof done.reply.name, err->name ? err->name : "");
        cay_str_copy(done.reply.msg, sizeof done.reply.msg, err->msg);
        cay_str_copy(done.reply.cause, sizeof done.reply.cause, err->cause);
    }
    (void)send(CHILD_FD, &done, sizeof done, MSG_NOSIGNAL); /* nobody there: nobody wants it */
}

static void CAY_NORETURN run(const struct task *t, int end)
{
    struct cay_engine_copied copied = {0};
    struct cay_error err = {0};
    sigset_t none;
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    int proc = t->proc < 0 ? -1 : fcntl(t->proc, F_DUPFD_CLOEXEC, PROC_FD + 1);
    if ((end != CHILD_FD && dup2(end, CHILD_FD) < 0) || (t->proc >= 0 && dup2(proc, PROC_FD) < 0))
        _exit(1);
    /* The engine's locks and listeners are not ours to keep open. */
    (void)syscall(SYS_close_range, t->proc < 0 ? PROC_FD : PROC_FD + 1, ~0U, 0);
    int r = t->work(t, &copied, &err);
    say(r, &copied, &err);
    _exit(0);
}

static int begin(const struct task *t, struct cay_sockets *out, struct cay_error *err)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot make a socket");
    CAY_AUTO_FD int child = ends[0], ours = ends[1];
    pid_t pid = fork();
    if (pid == 0)
        run(t, child);
    if (pid < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot start a process");
    out->fds[out->count++] = cay_take_fd(&ours);
    return 0;
}

static int hold(const struct task *t, struct cay_engine_copied *out, struct cay_error *err)
{
    CAY_CLEANUP(close_groups) struct cay_cgroups c;
    struct cay_error ignored; /* frozen it was, so it can be thawed, or is gone */
    char name[CAY_CGROUP_NAME], byte;
    (void)t;
    int r = find(PROC_FD, &c, name, err);
    if (r == 0)
        r = cay_cgroup_freeze(&c, name, true, err);
    if (r < 0)
        return r;
    say(0, out, err);
    while (recv(CHILD_FD, &byte, 1, 0) < 0 && errno == EINTR) {
    }
    (void)cay_cgroup_freeze(&c, name, false, &ignored);
    return 0;
}

int cay_foreign_hold(int proc, struct cay_sockets *out, struct cay_error *err)
{
    const struct task task = {hold, NULL, proc};
    return begin(&task, out, err);
}

static int open_volume(int base, const char *id, int *fd_out, struct cay_error *err)
{
    const int how = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    CAY_AUTO_FD int top = openat(base, id, how);
    CAY_AUTO_FD int data = top < 0 ? -1 : openat(top, "_data", how);
    if (data < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot open the volume %s", id);
    *fd_out = cay_take_fd(&data);
    return 0;
}

/* Hard links are remembered within the volume itself: beside it another quota may count. */
static int copy_volume(const struct task *t, struct cay_engine_copied *out, struct cay_error *err)
{
    CAY_AUTO_FD int base = open(t->rq->image, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CAY_AUTO_FD int from = -1, to = -1, links = -1;
    int64_t began = cay_clock_mono_ms();
    struct stat st = {0};
    const char *method;
    char mark[17], name[32];
    cay_id_hex(mark, 16);
    snprintf(name, sizeof name, ".cay-%s", mark);
    int r = open_volume(base, t->rq->id, &from, err);
    if (r == 0)
        r = open_volume(base, t->rq->other, &to, err);
    if (r == 0)
        r = cay_path_open_dir(to, name, 0700, &links, err);
    if (r == 0)
        r = cay_copy_tree(from, to, links, began + CAY_ENGINE_COPY_MS - COPY_SPARE_MS, &method,
                          &out->bytes, err);
    if (r == 0 && (unlinkat(to, name, AT_REMOVEDIR) < 0 || fstat(from, &st) < 0 ||
                   futimens(to, (struct timespec[]){st.st_atim, st.st_mtim}) < 0))
        r = cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot finish the copy of a volume");
    if (r < 0)
        return r;
    cay_str_copy(out->method, sizeof out->method, method);
    out->ms = cay_clock_mono_ms() - began;
    return 0;
}

static bool is_kept(const char *id)
{
    return memchr(id, 0, CAY_ID_SIZE) && (cay_id_is_volume(id) || cay_id_is_snapshot(id));
}

int cay_foreign_copy(const struct cay_engine_request *rq, struct cay_sockets *out,
                     struct cay_error *err)
{
    const struct task task = {copy_volume, rq, -1};
    if (!is_kept(rq->id) || !is_kept(rq->other) || rq->image[0] != '/')
        return cay_fail(err, CAY_ERR_INVALID, "not a volume of ours");
    return begin(&task, out, err);
}
