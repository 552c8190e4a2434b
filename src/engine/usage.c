/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox uses, in one answer: its cgroups, its processes, its disk. */
#include "engine/dispatcher.h"
#include "engine/io.h"
#include <string.h>

static void never_less(uint64_t *told, uint64_t *now)
{
    *told = *now = *now > *told ? *now : *told;
}

void cay_usage_answer(struct cay_dispatcher *d, struct cay_box *box, struct cay_pending *p)
{
    struct cay_usage usage;
    cay_cgroup_usage(&d->engine.kit.cgroups, p->request.id, &usage);
    cay_io_read(&d->engine.kit.cgroups, p->request.id, box->record.pid, &usage);
    /* who has ended is missing until its parent has waited for it, and for good if it does not */
    never_less(&box->io_bytes[0], &usage.io_read_bytes);
    never_less(&box->io_bytes[1], &usage.io_write_bytes);
    (void)cay_disk_usage(&d->engine.disk, p->request.id, &usage.disk_bytes,
                         &usage.disk_limit_bytes); /* else it cannot be told */
    cay_victims_read(d);
    memcpy(usage.victims, box->victims, sizeof usage.victims);
    cay_dispatcher_answer(d, p, NULL, &usage, sizeof usage, -1);
}
