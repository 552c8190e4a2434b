/* SPDX-License-Identifier: Apache-2.0 */
/* The spawner's part of a sandbox's beginning: it gives the first process its order, makes the
 * cgroups that are to hold it, has it written down, and lets it go. */
#include "base/crash.h"
#include "base/packet.h"
#include "base/process.h"
#include "engine/engine.h"
#include "engine/leftover.h"
#include "engine/plan.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>

#define SETUP_MS 5000

struct first {
    pid_t pid;
    int sock;
};

static int give_order(const struct cay_plan *plan, int sock)
{
    return cay_packet_send(sock, plan->order, sizeof *plan->order, NULL, 0, &plan->listen_fd, 1);
}

/* The one that waits with the berth; or one made now, where none is made ahead or it has died. */
static int take_first(const struct cay_plan *plan, struct first *f, struct cay_error *err)
{
    struct cay_berth *b = plan->berth;
    *f = (struct first){b->hull, b->hull_fd};
    if (f->sock >= 0 && give_order(plan, f->sock) == 0)
        return 0;
    CAY_AUTO_FD int v2 = cay_cgroup_clone_fd(&plan->kit->cgroups, plan->order->request.id);
    cay_close_fd(&b->hull_fd);
    f->pid = cay_hull_clone(plan->kit, b, v2, -1, &b->hull_fd, err);
    if (f->pid < 0)
        return f->pid;
    f->sock = b->hull_fd;
    (void)give_order(plan, f->sock); /* a dead one shows at the end */
    return 0;
}

/* The cgroups that it will enter. */
static int enclose(const struct cay_plan *plan, struct cay_error *err)
{
    const struct cay_engine_request *rq = &plan->order->request;
    const struct cay_cgroup_limits limits = {rq->memory_bytes, rq->cpu_milli, rq->pids};
    cay_leftover_take_cgroups(&plan->kit->cgroups, rq->id);
    int r = cay_cgroup_make(&plan->kit->cgroups, rq->id, &limits, err);
    if (r == 0)
        cay_engine_crash("create-cgroup-made", rq->id);
    return r;
}

/* EOF: cay-init runs, or it died. Bytes: the error that stopped it. */
static int wait_for_exec(int sock, struct cay_error *err)
{
    struct cay_error told;
    struct pollfd fd = {.fd = sock, .events = POLLIN};
    int r = poll(&fd, 1, SETUP_MS);
    if (r <= 0)
        return cay_fail(err, CAY_ERR_TIMEOUT, "the sandbox was not set up in %d ms", SETUP_MS);
    ssize_t n = cay_packet_recv(sock, &told, sizeof told, NULL, 0, NULL);
    if (n == 0)
        return 0;
    if (n != sizeof told)
        return cay_fail(err, CAY_ERR_PROVIDER, "the sandbox's first process died in its set-up");
    told.name = NULL;
    *err = told;
    return told.code;
}

/* By somebody else, for it tells its own faults and waits until they are read. What a process had
 * mounted goes before one can wait for its end. */
static bool was_killed(pid_t pid)
{
    if (!cay_process_ends(pid))
        return false;
    CAY_AUTO_FD int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    struct pollfd end = {.fd = fd, .events = POLLIN};
    return fd < 0 ? errno == ESRCH : poll(&end, 1, SETUP_MS) > 0;
}

int cay_sandbox_spawn(const struct cay_plan *plan,
                      int (*record)(void *arg, pid_t pid, struct cay_error *err), void *arg,
                      bool *killed_out, struct cay_error *err)
{
    struct first f;
    const char *id = plan->order->request.id;
    int r = take_first(plan, &f, err);
    if (r < 0)
        return r;
    cay_engine_crash("create-cloned", id);
    r = enclose(plan, err);
    if (r == 0)
        r = record(arg, f.pid, err);
    if (r == 0) {
        cay_engine_crash("create-recorded", id);
        (void)cay_packet_send(f.sock, "g", 1, NULL, 0, NULL, 0); /* a dead one shows at the end */
        r = wait_for_exec(f.sock, err);
    }
    *killed_out = was_killed(f.pid);
    if (*killed_out)
        return cay_fail(err, CAY_ERR_PROVIDER, "the sandbox's first process died in its set-up");
    if (r < 0)
        (void)kill(f.pid, SIGKILL); /* our parent reaps it */
    return r;
}
