/* SPDX-License-Identifier: Apache-2.0 */
/* How long a process runs at a stretch. Everybody gets as much of the processor as before, but who
 * asks for short stretches need not wait until another's long one is over: so pid 1 does, which
 * answers callers. Linux 6.12 and later; others take no notice. */
#pragma once
#include <linux/sched/types.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CAY_SLICE_SHORT_NS 100000
#define CAY_SLICE_USUAL_NS 0

/* Of the calling thread, and of what it will start. */
static inline void cay_slice_set(uint64_t ns)
{
    struct sched_attr a = {
        .size = sizeof a, .sched_nice = getpriority(PRIO_PROCESS, 0), .sched_runtime = ns};
    (void)syscall(SYS_sched_setattr, 0, &a, 0); /* nobody is worse off without */
}
