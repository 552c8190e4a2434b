/* SPDX-License-Identifier: Apache-2.0 */
#include "model/access.h"
#include "base/attr.h"
#include <string.h>

static const struct {
    const char *name;
    double unit;
} quotas[CAY_QUOTAS] = {
    [CAY_QUOTA_SANDBOXES] = {"sandboxes", 1},      [CAY_QUOTA_CPU_MILLI] = {"vcpus", 1000},
    [CAY_QUOTA_MEMORY_BYTES] = {"memoryBytes", 1}, [CAY_QUOTA_DISK_BYTES] = {"diskBytes", 1},
    [CAY_QUOTA_EXECUTIONS] = {"executions", 1},    [CAY_QUOTA_LOG_BYTES] = {"logBytes", 1},
    [CAY_QUOTA_EGRESS_BYTES] = {"egressBytes", 1}, [CAY_QUOTA_CONNECTIONS] = {"connections", 1},
};

static const char *const roles[] = {"none", "viewer", "member", "owner"};

const char *cay_quota_name(enum cay_quota_kind kind)
{
    return quotas[kind].name;
}

double cay_quota_unit(enum cay_quota_kind kind)
{
    return quotas[kind].unit;
}

struct cay_quota cay_quota_none(void)
{
    struct cay_quota q;
    for (int i = 0; i < CAY_QUOTAS; i++)
        q.at[i] = CAY_QUOTA_NONE;
    return q;
}

const char *cay_role_name(enum cay_role role)
{
    return roles[role];
}

bool cay_role_parse(const char *name, enum cay_role *out)
{
    for (size_t i = CAY_ROLE_VIEWER; i < CAY_COUNT(roles); i++)
        if (strcmp(roles[i], name) == 0) {
            *out = (enum cay_role)i;
            return true;
        }
    return false;
}
