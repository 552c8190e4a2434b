/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots and volumes, and requests that need two trees.
 *
 * What is made of a tree that is there (a fork, a snapshot, a sandbox with a volume) waits in that
 * tree's queue. When its turn has come it is a job of the new one, and holds the old one until that
 * is over: nothing begins there but other copies. A snapshot or volume is in the table only while
 * somebody wants something of it. */
#include "base/log.h"
#include "engine/dispatcher.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

static bool is_kept_id(const char *id)
{
    return cay_id_is_snapshot(id) || cay_id_is_volume(id);
}

/* The tree that it is made of; NULL: of none. */
static const char *source_of(const struct cay_engine_request *rq)
{
    if (rq->op == CAY_ENGINE_SNAPSHOT)
        return rq->id;
    if (rq->op != CAY_ENGINE_CREATE)
        return NULL;
    if (*rq->other)
        return rq->other;
    return *rq->volume ? rq->volume : NULL;
}

static const char *made_by(const struct cay_engine_request *rq)
{
    return rq->op == CAY_ENGINE_SNAPSHOT ? rq->other : rq->id;
}

static bool is_source(const struct cay_box *box, const struct cay_pending *p)
{
    const char *source = source_of(&p->request);
    return source && strcmp(source, box->record.entry.id) == 0;
}

struct cay_box *cay_kept_where(struct cay_dispatcher *d, const struct cay_engine_request *rq)
{
    const char *source = source_of(rq);
    struct cay_box *box = cay_boxes_find(d, made_by(rq));
    if (box || (!source && !is_kept_id(rq->id)))
        return box; /* asked for again, or nothing of ours */
    const char *id = source ? source : rq->id;
    box = cay_boxes_find(d, id);
    return box || !is_kept_id(id) ? box : cay_boxes_add(d, id);
}

bool cay_kept_may_begin(const struct cay_dispatcher *d, const struct cay_box *box,
                        const struct cay_pending *p)
{
    /* A copy of every file lets its source go on when it is done. */
    return box->held == 0 || (is_source(box, p) && cay_disk_can_snapshot(&d->engine.disk));
}

bool cay_kept_begin(struct cay_dispatcher *d, struct cay_box *box, struct cay_pending *p)
{
    struct cay_error err;
    if (p->request.op == CAY_ENGINE_DROP) {
        box->current = p;
        box->record.drop_volume = true;
        cay_jobs_add(d, box, CAY_JOB_REMOVE);
        return true;
    }
    if (!is_source(box, p))
        return false;
    if (box->record.intent == CAY_INTENT_DESTROY) {
        cay_fail(&err, CAY_ERR_NOT_FOUND, "%s is being removed", box->record.entry.id);
        cay_dispatcher_answer(d, p, &err, NULL, 0, -1);
        return true;
    }
    if (cay_boxes_find(d, made_by(&p->request))) {
        cay_boxes_take(d, p); /* made while this waited */
        return true;
    }
    struct cay_box *made = cay_boxes_add(d, made_by(&p->request));
    made->current = p;
    made->from = box;
    box->held++;
    cay_jobs_add(d, made, p->request.op == CAY_ENGINE_SNAPSHOT ? CAY_JOB_SNAPSHOT : CAY_JOB_CREATE);
    return true;
}

void cay_kept_release(struct cay_dispatcher *d, struct cay_box *made)
{
    struct cay_error ignored; /* not frozen, most often */
    struct cay_box *from = made->from;
    if (!from)
        return;
    made->from = NULL;
    from->held--;
    if (cay_backup_is_copy(made))
        cay_backup_let_go(d, from);
    d->trash_wanted = true;
    /* Whoever copied it file by file may have died before he let it go on. */
    if (!cay_disk_can_snapshot(&d->engine.disk) && from->record.running && !from->record.paused &&
        from->held == 0)
        (void)cay_cgroup_freeze(&d->engine.kit.cgroups, from->record.entry.id, false, &ignored);
    cay_boxes_next(d, from);
}

void cay_kept_settle(struct cay_dispatcher *d, struct cay_box *box)
{
    if (is_kept_id(box->record.entry.id) && !box->current && !box->queue && !box->job && !box->held)
        cay_boxes_drop(d, box);
}

/* ---- the list ---- */

static bool write_list(const struct cay_engine *e, int to)
{
    int fd = openat(e->files_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    FILE *f = dir ? fdopen(dup(to), "w") : NULL;
    if (!f)
        return false;
    errno = 0;
    for (struct dirent *entry; (entry = readdir(dir)); errno = 0) {
        char id[CAY_ID_SIZE] = "";
        if (!is_kept_id(entry->d_name))
            continue;
        cay_str_copy(id, sizeof id, entry->d_name);
        fwrite(id, sizeof id, 1, f);
    }
    return errno == 0 && fclose(f) == 0;
}

static void answer_list(struct cay_dispatcher *d, const struct cay_error *err)
{
    struct cay_listing *l = &d->listing;
    while (l->served) {
        struct cay_pending *p = l->served;
        l->served = p->next;
        cay_dispatcher_answer(d, p, err, NULL, 0, err ? -1 : l->fd);
    }
    cay_close_fd(&l->fd);
    l->pid = 0;
}

/* A child reads the directory, which may be large, or on a disk that is slow. */
static void start_list(struct cay_dispatcher *d)
{
    struct cay_error err;
    struct cay_listing *l = &d->listing;
    if (l->pid > 0 || !l->waiting)
        return;
    l->served = l->waiting;
    l->waiting = NULL;
    l->fd = memfd_create("kept", MFD_CLOEXEC);
    l->pid = l->fd < 0 ? -1 : cay_jobs_fork(d, "cay-list");
    if (l->pid == 0)
        _exit(!write_list(&d->engine, l->fd));
    if (l->pid < 0) {
        cay_fail_errno(&err, CAY_ERR_PROVIDER, "cannot list what is kept");
        answer_list(d, &err);
    }
}

void cay_kept_list(struct cay_dispatcher *d, struct cay_pending *p)
{
    p->next = d->listing.waiting; /* who comes while a list is read wants a later one */
    d->listing.waiting = p;
    start_list(d);
}

bool cay_kept_child_died(struct cay_dispatcher *d, pid_t pid, int status)
{
    struct cay_error err;
    if (pid != d->listing.pid)
        return false;
    if (status != 0)
        cay_fail(&err, CAY_ERR_PROVIDER, "cannot list what is kept");
    answer_list(d, status == 0 ? NULL : &err);
    start_list(d);
    return true;
}
