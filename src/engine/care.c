/* SPDX-License-Identifier: Apache-2.0 */
/* Growing the disk before it is full, in a process of its own: the host may let it wait. */
#include "base/log.h"
#include "engine/dispatcher.h"
#include <errno.h>
#include <string.h>

#define LOOK_MS 500
#define SWEEP_MS (3600 * 1000)

static void CAY_NORETURN care(const struct cay_disk *disk, uint64_t step_bytes)
{
    struct cay_error err;
    if (step_bytes == 0)
        cay_disk_sweep(disk);
    else if (cay_disk_grow(disk, step_bytes, &err) < 0)
        cay_log_error(&err, "the disk stays as it is");
    else
        cay_log_info("the disk has grown by %llu MiB", (unsigned long long)(step_bytes >> 20));
    _exit(0);
}

void cay_care_tick(struct cay_dispatcher *d, int64_t now_ms)
{
    const struct cay_disk *disk = &d->engine.disk;
    if (disk->fd < 0 || d->disk_pid > 0 || now_ms < d->disk_at_ms)
        return;
    d->disk_at_ms = now_ms + LOOK_MS;
    if (d->sweep_at_ms == 0)
        d->sweep_at_ms = now_ms + SWEEP_MS;
    uint64_t step = cay_disk_wants(disk);
    if (step == 0 && now_ms < d->sweep_at_ms)
        return;
    if (step == 0)
        d->sweep_at_ms = now_ms + SWEEP_MS;
    pid_t pid = cay_jobs_fork(d, "cay-disk");
    if (pid == 0)
        care(disk, step);
    if (pid < 0)
        cay_log_warn("cannot fork to grow the disk: %s", strerror(errno));
    else
        d->disk_pid = pid;
}
