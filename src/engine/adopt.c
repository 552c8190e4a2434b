/* SPDX-License-Identifier: Apache-2.0 */
/* At start: what an earlier engine left. A sandbox that runs is taken over as it is; one that died
 * meanwhile gets its end written down; one that was never finished, or was being removed, goes. */
#include "base/log.h"
#include "base/process.h"
#include "engine/dispatcher.h"
#include "engine/leftover.h"
#include "engine/trees.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>

static bool host_lacks(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOMEM;
}

/* 0: it is dead. The pidfd is opened before the start time is compared: then both speak of one
 * process. */
static int take_over(struct cay_dispatcher *d, struct cay_box *box, struct cay_error *err)
{
    struct cay_box_record *r = &box->record;
    if (strcmp(r->boot_id, d->engine.boot_id) != 0 || r->pid <= 0)
        return 0;
    CAY_AUTO_FD int fd = (int)syscall(SYS_pidfd_open, r->pid, 0);
    uint64_t start = fd < 0 ? 0 : cay_process_start(r->pid);
    if (start == 0 && host_lacks(errno))
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot look at process %d", r->pid);
    if (start == 0 || start != r->start_ticks) /* none is in the record of one that was dead then */
        return 0;
    box->source.fd = cay_take_fd(&fd);
    box->base = cay_victims_base_of(r->pid);
    cay_dispatcher_watch(d, &box->source, EPOLLIN);
    return 1;
}

/* What cannot be looked at is not gone. The next engine may see more. */
static void leave_alone(struct cay_box *box, const char *id, const struct cay_error *err)
{
    cay_log_error(err, "%s is left alone", id);
    box->record.running = false; /* whoever has that number now is none of ours */
    box->record.entry.state = CAY_ENGINE_UNKNOWN;
}

static void adopt(struct cay_dispatcher *d, const char *id)
{
    struct cay_error err;
    struct cay_box *box = cay_boxes_add(d, id);
    int r = cay_box_load(d->engine.records_fd, id, &box->record, &err);

    if (r < 0 && r != CAY_ERR_NOT_FOUND) {
        leave_alone(box, id, &err);
        return;
    }
    if (r < 0) {
        cay_log_info("%s was never finished: removed", id);
        cay_cgroup_kill(&d->engine.kit.cgroups, id);
        cay_jobs_add(d, box, CAY_JOB_REMOVE);
        return;
    }
    enum cay_intent intent = box->record.intent;
    if (!box->record.running && intent == CAY_INTENT_DESTROY)
        cay_jobs_add(d, box, CAY_JOB_REMOVE);
    else if (!box->record.running)
        cay_jobs_add(d, box, CAY_JOB_CLEAN); /* a cgroup may be left of a crash */
    else if ((r = take_over(d, box, &err)) < 0)
        leave_alone(box, id, &err);
    else if (r == 0)
        cay_boxes_died(d, box, false, 0);
    else if (intent == CAY_INTENT_DESTROY)
        cay_boxes_wish(d, CAY_ENGINE_DESTROY, id, NULL);
    else
        cay_pause_adopt(d, box);
}

static void adopt_in(struct cay_dispatcher *d, int dir_fd)
{
    int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    for (struct dirent *e; dir && (e = readdir(dir));)
        if (cay_id_is_sandbox(e->d_name) && !cay_boxes_find(d, e->d_name))
            adopt(d, e->d_name);
    if (dir)
        closedir(dir);
}

void cay_adopt_all(struct cay_dispatcher *d)
{
    cay_trees_clear(&d->engine, CAY_TREE_NEW);
    cay_trees_clear(&d->engine, CAY_LEFTOVER);
    cay_leftover_clear_cgroups(&d->engine.kit.cgroups, CAY_LEFTOVER);
    cay_leftover_clear_files(d->engine.records_fd, CAY_LEFTOVER);
    adopt_in(d, d->engine.records_fd);
    adopt_in(d, d->engine.files_fd); /* what is there without a record */
    if (d->box_count)
        cay_log_info("%zu sandboxes found", d->box_count);
    d->trash_wanted = true;
}
