/* SPDX-License-Identifier: Apache-2.0 */
/* Capabilities and ids. pid 1 has a uid of its own, so that neither users nor root inside can
 * signal, trace or limit it; it keeps what it needs to start processes as others, and what root
 * inside must be able to get. Everything else leaves the bounding set for good. */
#include "init/init.h"
#include <errno.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define BIT(cap) (UINT64_C(1) << (cap))

static int set_caps(uint64_t permitted, uint64_t effective)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {
        {.permitted = (uint32_t)permitted, .effective = (uint32_t)effective},
        {.permitted = (uint32_t)(permitted >> 32), .effective = (uint32_t)(effective >> 32)},
    };
    return (int)syscall(SYS_capset, &head, data);
}

/* Takes everything but `keep` out of the bounding set, as far as `from` says it is in there. */
static int bound(uint64_t from, uint64_t keep)
{
    for (int cap = 0; cap < 64; cap++) {
        if (!(from & ~keep & BIT(cap)))
            continue;
        if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
            return errno == EINVAL ? 0 : -1; /* the kernel knows no more of them */
    }
    return 0;
}

/* The C library's own would first stop all threads, of which there are none, at four calls each. */
static int set_ids(uint32_t uid, uint32_t gid)
{
    gid_t group = gid;
    return syscall(SYS_setgroups, 1, &group) < 0 || syscall(SYS_setresgid, gid, gid, gid) < 0 ||
                   syscall(SYS_setresuid, uid, uid, uid) < 0
               ? -1
               : 0;
}

int cay_caps_become_init(void)
{
    (void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); /* empty where it is unknown */
    if (bound(UINT64_MAX, CAY_INIT_CAPS) < 0 || prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0 ||
        (getuid() != CAY_INIT_UID && set_ids(CAY_INIT_UID, CAY_INIT_UID) < 0) ||
        set_caps(CAY_INIT_CAPS, BIT(CAP_KILL)) < 0)
        return -1;
    return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* last: a change of ids sets it anew */
}

int cay_caps_raise(void)
{
    return set_caps(CAY_INIT_CAPS, CAY_INIT_CAPS);
}

int cay_caps_become(uint32_t uid, uint32_t gid)
{
    uint64_t keep = uid == 0 ? CAY_ROOT_CAPS : 0;
    if (bound(CAY_INIT_CAPS, keep) < 0 || set_ids(uid, gid) < 0)
        return -1;
    return set_caps(keep, keep);
}
