/* SPDX-License-Identifier: Apache-2.0 */
/* What /proc and /sys tell about the guards around this process. A fact that is as it must be
 * answers with a negative errno, as a refused attempt does. */
#include "escape.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID, NET_BIND_SERVICE, SETFCAP */
#define ROOT_CAPS                                                                                  \
    (1ULL << 0 | 1ULL << 1 | 1ULL << 3 | 1ULL << 4 | 1ULL << 5 | 1ULL << 6 | 1ULL << 7 |           \
     1ULL << 10 | 1ULL << 31)

static ssize_t slurp(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    return n;
}

static long good_if(int good)
{
    return good ? -EPERM : 1;
}

static unsigned long long status_field(const char *key, int base)
{
    char text[8192];
    slurp("/proc/self/status", text, sizeof(text));
    const char *at = strstr(text, key);
    return at ? strtoull(at + strlen(key), NULL, base) : ~0ULL;
}

static long lacks_seccomp(long unused)
{
    (void)unused;
    return good_if(status_field("\nSeccomp:\t", 10) == 2);
}

static long has_capability(long unused)
{
    (void)unused;
    unsigned long long allowed = getuid() == 0 ? ROOT_CAPS : 0;
    return good_if((status_field("\nCapEff:\t", 16) & ~allowed) == 0);
}

static long may_gain_capability(long unused)
{
    (void)unused;
    return good_if((status_field("\nCapBnd:\t", 16) & ~ROOT_CAPS) == 0);
}

static long bounding_set(long unused)
{
    (void)unused;
    return good_if(getuid() == 0 || status_field("\nCapBnd:\t", 16) == 0);
}

static long ids_of_the_host(long unused)
{
    char text[256];
    unsigned long long inside = 0, outside = 0, count = 0;
    (void)unused;
    slurp("/proc/self/uid_map", text, sizeof(text));
    sscanf(text, "%llu %llu %llu", &inside, &outside, &count);
    return good_if(outside != 0 && count <= 65536);
}

static long host_processes(long unused)
{
    char text[64];
    (void)unused;
    slurp("/proc/2/comm", text, sizeof(text));
    return good_if(strcmp(text, "kthreadd\n") != 0);
}

/* Every line of this file ends in the path of a cgroup: only the root's may show. */
static long cgroup_paths(long unused)
{
    char text[4096], *rest = text;
    (void)unused;
    slurp("/proc/self/cgroup", text, sizeof(text));
    for (char *line; (line = strsep(&rest, "\n")) && *line;)
        if (strcmp(strrchr(line, ':'), ":/") != 0)
            return 1;
    return -EPERM;
}

static long overlay_paths(long unused)
{
    static char text[1 << 16];
    (void)unused;
    slurp("/proc/self/mountinfo", text, sizeof(text));
    return good_if(!strstr(text, "upperdir=/"));
}

static long shared_mounts(long unused)
{
    static char text[1 << 16];
    (void)unused;
    slurp("/proc/self/mountinfo", text, sizeof(text));
    return good_if(!strstr(text, " shared:") && !strstr(text, " master:"));
}

static long core_dumps(long unused)
{
    struct rlimit core;
    (void)unused;
    return good_if(getrlimit(RLIMIT_CORE, &core) == 0 && core.rlim_max == 0);
}

static long open_files(long unused)
{
    struct rlimit files;
    (void)unused;
    return good_if(getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_max <= 65536);
}

/* As the process itself can see it, by either version of cgroups. */
static long unlimited(long which)
{
    static const char *const files[][2] = {
        {"/sys/fs/cgroup/pids.max", "/sys/fs/cgroup/pids/pids.max"},
        {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"},
        {"/sys/fs/cgroup/memory.swap.max", "/sys/fs/cgroup/memory/memory.memsw.limit_in_bytes"},
        {"/sys/fs/cgroup/cpu.max", "/sys/fs/cgroup/cpu/cpu.cfs_quota_us"},
    };
    char text[64];
    if (slurp(files[which][0], text, sizeof(text)) <= 0 &&
        slurp(files[which][1], text, sizeof(text)) <= 0)
        return 1;
    return good_if(text[0] >= '0' && text[0] <= '9' && strtoull(text, NULL, 10) < 1ULL << 50);
}

/* clang-format off */
const struct trick facts[] = {
    {"no_seccomp", HIGH, lacks_seccomp, 0},
    {"has_capability", HIGH, has_capability, 0},
    {"may_gain_capability", HIGH, may_gain_capability, 0},
    {"bounding_set", LOW, bounding_set, 0},
    {"ids_of_the_host", MEDIUM, ids_of_the_host, 0},
    {"host_processes", HIGH, host_processes, 0},
    {"cgroup_paths", LOW, cgroup_paths, 0},
    {"overlay_paths", LOW, overlay_paths, 0},
    {"shared_mounts", MEDIUM, shared_mounts, 0},
    {"core_dumps", MEDIUM, core_dumps, 0},
    {"open_files", LOW, open_files, 0},
    {"unlimited_pids", HIGH, unlimited, 0},
    {"unlimited_memory", HIGH, unlimited, 1},
    {"unlimited_swap", MEDIUM, unlimited, 2},
    {"unlimited_cpu", MEDIUM, unlimited, 3},
    {0},
};
/* clang-format on */
