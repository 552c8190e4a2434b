/* SPDX-License-Identifier: Apache-2.0 */
#include "base/crash.h"
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const cay_crash_points[] = {
    "create-row-written",
    "create-box-made",
    "create-cgroup-made",
    "create-cloned",
    "create-recorded",
    "create-started",
    "create-engine-answers",
    "create-provider-done",
    "create-start-command",
    "create-row-running",
    "delete-row-marked",
    "delete-intent-written",
    "delete-killed",
    "delete-reaped",
    "delete-cgroup-gone",
    "delete-put-by",
    "delete-files-gone",
    "delete-provider-done",
    "delete-row-gone",
    "stop-row-marked",
    "stop-intent-written",
    "stop-asked",
    "stop-reaped",
    "stop-recorded",
    "stop-cgroup-gone",
    "stop-provider-done",
    "stop-row-written",
    "start-provider-done",
    "start-command-begun",
    "start-row-running",
    "pause-frozen",
    "resume-thawed",
    "copy-frozen",
    "copy-made",
    "copy-filled",
    "copy-named",
    "attach-named",
    "keep-moved",
    "keep-thrown",
    "keep-stripped",
    "keep-named",
    "snapshot-row-written",
    "snapshot-provider-done",
    "snapshot-row-ready",
    "layer-unpacked",
    "layer-named",
    "version-due",
    "version-objects",
    "version-index",
    "version-journal",
    NULL,
};

#define FOLLOW_S 10

static const char *armed;
static pid_t victim;

void cay_crash_arm(pid_t supervisor)
{
    armed = getenv("CAY_CRASH_AT");
    victim = supervisor;
}

void cay_crash_point(const char *name)
{
    if (!armed || strcmp(armed, name) != 0)
        return;
    if (kill(victim, SIGKILL) < 0)
        _exit(CAY_CRASH_STATUS); /* without root's rights: the supervisor does it for us */
    /* The kernel takes all of us with it, in one moment. Who went by himself could be missed by
     * the others while they live. */
    (void)sleep(FOLLOW_S);
    (void)kill(getpid(), SIGKILL);
}
