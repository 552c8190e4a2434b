/* SPDX-License-Identifier: Apache-2.0 */
/* Which event leads where, as a table: what is not in it does not happen. */
#include "core/state.h"

static const struct {
    enum cay_event event;
    enum cay_state from, to;
} moves[] = {
    {CAY_CREATED, CAY_PENDING, CAY_RUNNING},
    {CAY_CREATED, CAY_PROVISIONING, CAY_RUNNING},
    {CAY_START, CAY_STOPPED, CAY_RUNNING},
    {CAY_START, CAY_ERROR, CAY_RUNNING}, /* its files are still there */
    {CAY_START, CAY_RUNNING, CAY_RUNNING},
    {CAY_STOP, CAY_RUNNING, CAY_STOPPED},
    {CAY_STOP, CAY_PAUSED, CAY_STOPPED},
    {CAY_STOP, CAY_STOPPED, CAY_STOPPED},
    {CAY_STOP, CAY_ERROR, CAY_STOPPED},
    {CAY_PAUSE, CAY_RUNNING, CAY_PAUSED},
    {CAY_PAUSE, CAY_PAUSED, CAY_PAUSED},
    {CAY_RESUME, CAY_PAUSED, CAY_RUNNING},
    {CAY_RESUME, CAY_RUNNING, CAY_RUNNING},
    {CAY_EXEC, CAY_RUNNING, CAY_RUNNING},
    {CAY_COPY, CAY_RUNNING, CAY_RUNNING},
    {CAY_COPY, CAY_PAUSED, CAY_PAUSED},
    {CAY_COPY, CAY_STOPPED, CAY_STOPPED},
    {CAY_COPY, CAY_ERROR, CAY_ERROR}, /* its files may still be there */
    {CAY_CHANGE, CAY_RUNNING, CAY_RUNNING},
    {CAY_CHANGE, CAY_PAUSED, CAY_PAUSED},
    {CAY_CHANGE, CAY_STOPPED, CAY_STOPPED},
    {CAY_CHANGE, CAY_ERROR, CAY_ERROR},
    {CAY_DELETE, CAY_PENDING, CAY_TERMINATED},
    {CAY_DELETE, CAY_PROVISIONING, CAY_TERMINATED},
    {CAY_DELETE, CAY_RUNNING, CAY_TERMINATED},
    {CAY_DELETE, CAY_PAUSED, CAY_TERMINATED},
    {CAY_DELETE, CAY_STOPPED, CAY_TERMINATED},
    {CAY_DELETE, CAY_ERROR, CAY_TERMINATED},
    {CAY_DELETE, CAY_TERMINATED, CAY_TERMINATED},
    {CAY_DIE, CAY_RUNNING, CAY_ERROR},
    {CAY_DIE, CAY_PAUSED, CAY_ERROR},
    {CAY_DIE, CAY_STOPPED, CAY_ERROR}, /* its files are gone */
    {CAY_DIE, CAY_ERROR, CAY_ERROR},
    {CAY_REST, CAY_RUNNING, CAY_STOPPED},
    {CAY_REST, CAY_PAUSED, CAY_STOPPED},
    {CAY_REST, CAY_STOPPED, CAY_STOPPED},
};

int cay_state_apply(enum cay_state *state, enum cay_event event, struct cay_error *err)
{
    for (size_t i = 0; i < CAY_COUNT(moves); i++)
        if (moves[i].event == event && moves[i].from == *state) {
            *state = moves[i].to;
            return 0;
        }
    if (*state == CAY_PAUSED) /* stopped and deleted it can be, run it cannot */
        return cay_fail_as(err, CAY_ERR_CONFLICT, "SANDBOX_PAUSED",
                           "the sandbox is paused: resume it first");
    if (event == CAY_EXEC || event == CAY_PAUSE)
        return cay_fail_as(err, CAY_ERR_CONFLICT, "SANDBOX_NOT_RUNNING",
                           "the sandbox is %s, not RUNNING", cay_state_name(*state));
    return cay_fail_as(err, CAY_ERR_CONFLICT, "INVALID_STATE",
                       "this cannot be done to a sandbox that is %s", cay_state_name(*state));
}
