/* SPDX-License-Identifier: Apache-2.0 */
#include "model/sandbox.h"
#include <string.h>

static const char *const names[] = {
    [CAY_PENDING] = "PENDING",       [CAY_PROVISIONING] = "PROVISIONING", [CAY_RUNNING] = "RUNNING",
    [CAY_PAUSED] = "PAUSED",         [CAY_STOPPED] = "STOPPED",           [CAY_ERROR] = "ERROR",
    [CAY_TERMINATED] = "TERMINATED",
};

const char *cay_state_name(enum cay_state state)
{
    return (size_t)state < CAY_COUNT(names) ? names[state] : "UNKNOWN";
}

bool cay_state_parse(const char *name, enum cay_state *out)
{
    for (size_t i = 0; i < CAY_COUNT(names); i++)
        if (strcmp(names[i], name) == 0) {
            *out = (enum cay_state)i;
            return true;
        }
    return false;
}
