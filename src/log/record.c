/* SPDX-License-Identifier: Apache-2.0 */
/* Where records may lie in a log, and what an exit record says. */
#include "log/record.h"
#include "model/limits.h"
#include <signal.h>
#include <string.h>

uint32_t cay_record_room(uint64_t offset)
{
    uint32_t left = (uint32_t)(CAY_LOG_BLOCK - offset % CAY_LOG_BLOCK);
    return left > sizeof(struct cay_record_head) ? left - sizeof(struct cay_record_head) : 0;
}

bool cay_record_exit_read(const void *data, uint32_t len, struct cay_record_exit *out)
{
    struct cay_record_exit e = {0};
    if (len < CAY_RECORD_EXIT_MIN)
        return false;
    memcpy(&e, data, len < sizeof e ? len : sizeof e);
    e.process[sizeof e.process - 1] = 0;
    for (char *at = e.process; *at; at++)
        if (*at < ' ' || *at > '~') /* a process gives itself whatever name it likes */
            *at = '?';
    *out = e;
    return true;
}

/* Who failed while the kernel killed for want of memory, or refused a process, failed of that: the
 * kernel does not say whom it refused, and a victim's parent only passes its failure on. */
const char *cay_record_exit_reason(const struct cay_record_exit *e)
{
    static const char *const words[] = {
        [CAY_REASON_EXITED] = "exited",
        [CAY_REASON_SIGNAL] = "signal",
        [CAY_REASON_TIMEOUT] = "timeout",
        [CAY_REASON_KILLED] = "killed",
    };
    bool known = e->reason && e->reason < CAY_COUNT(words);
    const char *word = known ? words[e->reason] : e->signal ? "signal" : "exited";
    if (!e->counted || e->reason == CAY_REASON_TIMEOUT || e->reason == CAY_REASON_KILLED)
        return word;
    if (e->oom_kills && (e->signal ? e->signal == SIGKILL : e->exit_code != 0))
        return "oom";
    if (e->forks_refused && (e->signal ? e->signal == SIGABRT : e->exit_code != 0))
        return "pids"; /* some abort when they get no thread */
    return word;
}
