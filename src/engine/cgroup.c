/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/cgroup.h"
#include "base/clock.h"
#include "engine/hierarchy.h"
#include "model/limits.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>

#define DYING_CPU_MILLI (1000 * 1000) /* more than any host has */

/* ---- small files ---- */

static int write_number(int dirfd, const char *name, uint64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    return cay_small_write(dirfd, name, text);
}

/* The number that a file holds; with a key, the one behind it in "key value" lines. */
static bool find_number(int dirfd, const char *name, const char *key, uint64_t *out)
{
    char text[1024];
    size_t len = key ? strlen(key) : 0;
    if (!cay_small_read(dirfd, name, text, sizeof text))
        return false;
    for (char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (key && (strncmp(line, key, len) != 0 || line[len] != ' '))
            continue;
        *out = strtoull(key ? line + len + 1 : line, NULL, 10);
        return true;
    }
    return false;
}

/* What cannot be read is 0. */
static uint64_t read_number(int dirfd, const char *name, const char *key)
{
    uint64_t n = 0;
    (void)find_number(dirfd, name, key, &n);
    return n;
}

/* ---- all of them ---- */

static int tree_fd(const struct cay_cgroups *c, enum cay_controller controller, bool *v2_out)
{
    int at = c->of[controller];
    if (at < 0)
        return -1;
    *v2_out = c->trees[at].v2;
    return c->trees[at].parent_fd;
}

/* All sandboxes together leave the host some of its memory and 20 % of its pids, and have half the
 * weight of anyone else when there is not enough processor for all. */
static void limit_parent(const struct cay_cgroups *c)
{
    struct sysinfo info;
    char text[32] = "";
    bool v2 = false;
    CAY_AUTO_FD int proc = open("/proc/sys/kernel", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int memory = tree_fd(c, CAY_CG_MEMORY, &v2);

    (void)sysinfo(&info);
    if (memory >= 0 && !v2)
        (void)write_number(memory, "memory.use_hierarchy", 1); /* always so on newer kernels */
    if (memory >= 0)
        (void)write_number(memory, v2 ? "memory.max" : "memory.limit_in_bytes",
                           (uint64_t)info.totalram * info.mem_unit / 100 * CAY_ALL_MEMORY_PERCENT);
    int pids = tree_fd(c, CAY_CG_PIDS, &v2);
    if (pids >= 0 && cay_small_read(proc, "pid_max", text, sizeof text))
        (void)write_number(pids, "pids.max", strtoull(text, NULL, 10) / 10 * 8);
    int cpu = tree_fd(c, CAY_CG_CPU, &v2);
    if (cpu >= 0)
        (void)write_number(cpu, v2 ? "cpu.weight" : "cpu.shares", v2 ? 50 : 512);
}

int cay_cgroups_open(struct cay_cgroups *c, const char *instance, struct cay_error *err)
{
    int r = cay_hierarchies_find(c, instance, err);
    if (r == 0)
        limit_parent(c);
    return r;
}

bool cay_cgroups_lacks(const struct cay_cgroups *c, enum cay_controller controller)
{
    return c->of[controller] < 0;
}

/* ---- one sandbox ---- */

static int open_box(const struct cay_cgroups *c, enum cay_controller controller, const char *id,
                    bool *v2_out)
{
    int parent = tree_fd(c, controller, v2_out);
    return parent < 0 ? -1 : openat(parent, id, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

bool cay_cgroups_move(const struct cay_cgroups *c)
{
    for (int i = 0; i < c->tree_count; i++)
        if (!c->trees[i].v2)
            return true;
    return false;
}

/* Named from the parent: to open the directory first would cost more than the writing. */
static int write_in(int parent, const char *id, const char *file, const char *text)
{
    char path[CAY_CGROUP_NAME + 64];
    snprintf(path, sizeof path, "%s/%s", id, file);
    return cay_small_write(parent, path, text);
}

static int set_memory(const struct cay_cgroups *c, const char *id, uint64_t bytes,
                      struct cay_error *err)
{
    bool v2 = false;
    CAY_AUTO_FD int fd = open_box(c, CAY_CG_MEMORY, id, &v2);
    if (cay_cgroups_lacks(c, CAY_CG_MEMORY))
        return 0; /* health says so */
    if (write_number(fd, v2 ? "memory.max" : "memory.limit_in_bytes", bytes) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot limit memory to %llu bytes",
                              (unsigned long long)bytes);
    /* Swap off. A kernel that has neither file, or counts no swap, can at least be asked to. */
    int r = v2 ? write_number(fd, "memory.swap.max", 0)
               : write_number(fd, "memory.memsw.limit_in_bytes", bytes);
    if (r < 0 && !v2)
        (void)write_number(fd, "memory.swappiness", 0);
    return 0;
}

static int set_cpu(const struct cay_cgroups *c, const char *id, uint32_t milli,
                   struct cay_error *err)
{
    char text[64];
    bool v2 = false;
    int parent = tree_fd(c, CAY_CG_CPU, &v2);
    if (cay_cgroups_lacks(c, CAY_CG_CPU))
        return 0;
    snprintf(text, sizeof text, v2 ? "%u 100000" : "%u", milli * 100);
    if (write_in(parent, id, v2 ? "cpu.max" : "cpu.cfs_quota_us", text) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot limit cpu to %u/1000", milli);
    return 0;
}

static int set_pids(const struct cay_cgroups *c, const char *id, uint32_t pids,
                    struct cay_error *err)
{
    char text[16];
    bool v2 = false;
    int parent = tree_fd(c, CAY_CG_PIDS, &v2);
    snprintf(text, sizeof text, "%u", pids);
    if (!cay_cgroups_lacks(c, CAY_CG_PIDS) && write_in(parent, id, "pids.max", text) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot limit processes to %u", pids);
    return 0;
}

static int make_in(const struct cay_hierarchy *tree, const char *id, struct cay_error *err)
{
    if (mkdirat(tree->parent_fd, id, 0755) < 0 && errno != EEXIST)
        return cay_fail_count(err, "cannot make a cgroup in %s", tree->name);
    if (tree->threaded && write_in(tree->parent_fd, id, "cgroup.type", "threaded") < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot open the cgroup in %s to threads",
                              tree->name);
    return 0;
}

int cay_cgroup_make(const struct cay_cgroups *c, const char *id, const struct cay_cgroup_limits *l,
                    struct cay_error *err)
{
    for (int i = 0; i < c->tree_count; i++)
        if (make_in(&c->trees[i], id, err) < 0)
            return err->code;
    int r = set_memory(c, id, l->memory_bytes, err);
    if (r == 0)
        r = set_cpu(c, id, l->cpu_milli, err);
    if (r == 0)
        r = set_pids(c, id, l->pids, err);
    return r;
}

int cay_cgroup_clone_fd(const struct cay_cgroups *c, const char *id)
{
    struct cay_error ignored; /* there already, or the open below tells */
    bool v2 = false;
    int at = c->of[CAY_CG_UNIFIED];
    if (at >= 0)
        (void)make_in(&c->trees[at], id, &ignored);
    return open_box(c, CAY_CG_UNIFIED, id, &v2);
}

static const char *door(const struct cay_hierarchy *tree)
{
    if (!tree->v2)
        return "tasks";
    return tree->threaded ? "cgroup.threads" : "cgroup.procs";
}

int cay_cgroup_enter(const struct cay_cgroups *c, const char *id, bool v2_too,
                     struct cay_error *err)
{
    for (int i = 0; i < c->tree_count; i++) {
        const struct cay_hierarchy *tree = &c->trees[i];
        if ((!tree->v2 || v2_too) && write_in(tree->parent_fd, id, door(tree), "0") < 0)
            return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot enter the cgroup in %s",
                                  tree->name);
    }
    return 0;
}

int cay_cgroup_open_procs(const struct cay_cgroups *c, const char *id)
{
    char path[CAY_CGROUP_NAME + 64];
    int at = 0;
    while (at < c->tree_count && c->trees[at].threaded) /* tells of threads only */
        at++;
    snprintf(path, sizeof path, "%s/cgroup.procs", id);
    return at < c->tree_count ? openat(c->trees[at].parent_fd, path, O_RDONLY | O_CLOEXEC) : -1;
}

/* The cache of files is given back when a limit falls, the rest is not. */
static int check_memory(const struct cay_cgroups *c, const char *id, uint64_t bytes,
                        struct cay_error *err)
{
    bool v2 = false;
    CAY_AUTO_FD int fd = open_box(c, CAY_CG_MEMORY, id, &v2);
    if (fd < 0)
        return 0;
    uint64_t used = read_number(fd, v2 ? "memory.current" : "memory.usage_in_bytes", NULL);
    uint64_t cache = read_number(fd, "memory.stat", "inactive_file") +
                     read_number(fd, "memory.stat", "active_file");
    uint64_t held = used > cache ? used - cache : 0;
    if (held > bytes)
        return cay_fail_as(err, CAY_ERR_CONFLICT, "MEMORY_IN_USE",
                           "it uses %llu bytes of memory, more than the new limit",
                           (unsigned long long)held);
    /* v1: memory with swap is never less than memory alone, so what rises rises there first */
    if (!v2)
        (void)write_number(fd, "memory.memsw.limit_in_bytes", bytes);
    return 0;
}

int cay_cgroup_limit(const struct cay_cgroups *c, const char *id, const struct cay_cgroup_limits *l,
                     struct cay_error *err)
{
    int r = check_memory(c, id, l->memory_bytes, err);
    if (r == 0)
        r = set_memory(c, id, l->memory_bytes, err);
    if (r < 0 && errno == EBUSY) /* v1, when it grew in between */
        return cay_fail_as(err, CAY_ERR_CONFLICT, "MEMORY_IN_USE",
                           "it uses more memory than the new limit");
    if (r == 0)
        r = set_cpu(c, id, l->cpu_milli, err);
    if (r == 0)
        r = set_pids(c, id, l->pids, err);
    return r;
}

enum figure { MEMORY, PEAK, OOM_KILLS, CPU_TIME, PIDS, REFUSED, FIGURES };

static const struct {
    enum cay_controller controller;
    struct {
        const char *file, *key; /* key NULL: the file is one number */
    } v1, v2;
} figures[FIGURES] = {
    [MEMORY] = {CAY_CG_MEMORY, {"memory.usage_in_bytes", NULL}, {"memory.current", NULL}},
    [PEAK] = {CAY_CG_MEMORY, {"memory.max_usage_in_bytes", NULL}, {"memory.peak", NULL}},
    [OOM_KILLS] = {CAY_CG_MEMORY,
                   {"memory.oom_control", "oom_kill"},
                   {"memory.events", "oom_kill"}},
    [CPU_TIME] = {CAY_CG_CPUACCT, {"cpuacct.usage", NULL}, {"cpu.stat", "usage_usec"}},
    [PIDS] = {CAY_CG_PIDS, {"pids.current", NULL}, {"pids.current", NULL}},
    [REFUSED] = {CAY_CG_PIDS, {"pids.events", "max"}, {"pids.events", "max"}},
};

static bool find_figure(const struct cay_cgroups *c, const char *id, enum figure which,
                        uint64_t *out)
{
    char path[CAY_CGROUP_NAME + 64];
    bool v2 = false;
    int parent = tree_fd(c, figures[which].controller, &v2);
    const char *file = v2 ? figures[which].v2.file : figures[which].v1.file;
    const char *key = v2 ? figures[which].v2.key : figures[which].v1.key;
    snprintf(path, sizeof path, "%s/%s", id, file);
    if (parent < 0 || !find_number(parent, path, key, out))
        return false;
    if (which == CPU_TIME && !v2)
        *out /= 1000; /* v1 tells nanoseconds */
    return true;
}

static uint64_t read_figure(const struct cay_cgroups *c, const char *id, enum figure which)
{
    uint64_t n = 0;
    (void)find_figure(c, id, which, &n);
    return n;
}

static int open_figure(const struct cay_cgroups *c, const char *id, enum figure which)
{
    char path[CAY_CGROUP_NAME + 64];
    bool v2 = false;
    int parent = tree_fd(c, figures[which].controller, &v2);
    snprintf(path, sizeof path, "%s/%s", id, v2 ? figures[which].v2.file : figures[which].v1.file);
    return parent < 0 ? -1 : openat(parent, path, O_RDONLY | O_CLOEXEC);
}

void cay_cgroup_open_counts(const struct cay_cgroups *c, const char *id, int *oom_fd_out,
                            int *pids_fd_out)
{
    *oom_fd_out = open_figure(c, id, OOM_KILLS);
    *pids_fd_out = open_figure(c, id, REFUSED);
}

void cay_cgroup_usage(const struct cay_cgroups *c, const char *id, struct cay_usage *out)
{
    uint64_t got[FIGURES];
    for (int i = 0; i < FIGURES; i++)
        got[i] = read_figure(c, id, (enum figure)i);
    *out = (struct cay_usage){.cpu_us = got[CPU_TIME],
                              .memory_bytes = got[MEMORY],
                              .memory_peak_bytes = got[PEAK],
                              .pids = (uint32_t)got[PIDS],
                              .oom_kills = got[OOM_KILLS],
                              .pids_refused = got[REFUSED]};
}

bool cay_cgroup_is_empty(const struct cay_cgroups *c, const char *id)
{
    uint64_t pids;
    return find_figure(c, id, PIDS, &pids) && pids == 0;
}

bool cay_cgroup_is_blank(const struct cay_cgroups *c, const char *id, uint64_t most_bytes)
{
    uint64_t bytes, kills, refused;
    return cay_cgroup_is_empty(c, id) && find_figure(c, id, MEMORY, &bytes) &&
           bytes <= most_bytes && find_figure(c, id, OOM_KILLS, &kills) && kills == 0 &&
           find_figure(c, id, REFUSED, &refused) && refused == 0;
}

void cay_cgroup_total(const struct cay_cgroups *c, const char *id, struct cay_usage *out)
{
    *out = (struct cay_usage){.cpu_us = read_figure(c, id, CPU_TIME),
                              .memory_peak_bytes = read_figure(c, id, PEAK),
                              .oom_kills = read_figure(c, id, OOM_KILLS)};
}

/* ---- standing still ---- */

static int set_frozen(int fd, bool v2, bool frozen)
{
    if (v2)
        return cay_small_write(fd, "cgroup.freeze", frozen ? "1" : "0");
    return cay_small_write(fd, "freezer.state", frozen ? "FROZEN" : "THAWED");
}

/* v2 tells by an event. v1 has to be asked again, and told again: who was about to wait for his
 * vforked child when it was told is passed over, and would keep the others waiting for ever. */
static bool wait_frozen(int fd, bool v2)
{
    int64_t until_ms = cay_clock_mono_ms() + CAY_FREEZE_MS;
    CAY_AUTO_FD int file = openat(fd, v2 ? "cgroup.events" : "freezer.state", O_RDONLY | O_CLOEXEC);
    for (;;) {
        char text[256];
        ssize_t n = file < 0 ? -1 : pread(file, text, sizeof text - 1, 0);
        if (n <= 0)
            return false;
        text[n] = 0;
        if (strstr(text, v2 ? "frozen 1" : "FROZEN"))
            return true;
        int64_t left_ms = until_ms - cay_clock_mono_ms();
        if (left_ms <= 0)
            return false;
        struct pollfd change = {.fd = file, .events = POLLPRI};
        (void)poll(&change, 1, v2 ? (int)left_ms : 1); /* whatever it says, we look */
        if (!v2)
            (void)set_frozen(fd, v2, true);
    }
}

int cay_cgroup_freeze(const struct cay_cgroups *c, const char *id, bool frozen,
                      struct cay_error *err)
{
    bool v2 = false;
    if (cay_cgroups_lacks(c, CAY_CG_FREEZER))
        return cay_fail(err, CAY_ERR_UNSUPPORTED, "this host has neither cgroup v2 nor a freezer");
    CAY_AUTO_FD int fd = open_box(c, CAY_CG_FREEZER, id, &v2);
    if (fd < 0 || set_frozen(fd, v2, frozen) < 0)
        return cay_fail_errno(err, CAY_ERR_PROVIDER, "cannot %s %s", frozen ? "freeze" : "thaw",
                              id);
    if (!frozen || wait_frozen(fd, v2))
        return 0;
    (void)set_frozen(fd, v2, false); /* what can be thawed by one who comes later */
    return cay_fail(err, CAY_ERR_TIMEOUT, "a process of %s did not stand still in %d ms", id,
                    CAY_FREEZE_MS);
}

bool cay_cgroup_is_frozen(const struct cay_cgroups *c, const char *id)
{
    char text[32];
    bool v2 = false;
    CAY_AUTO_FD int fd = open_box(c, CAY_CG_FREEZER, id, &v2);
    return fd >= 0 &&
           cay_small_read(fd, v2 ? "cgroup.freeze" : "freezer.state", text, sizeof text) &&
           (v2 ? *text == '1' : strncmp(text, "FR", 2) == 0);
}

/* Not checked, nor is the next: the deadline of the kill tells when it did not help. */
void cay_cgroup_let_die(const struct cay_cgroups *c, const char *id)
{
    bool v2 = false;
    CAY_AUTO_FD int fd = open_box(c, CAY_CG_FREEZER, id, &v2);
    if (fd >= 0 && !v2)
        (void)set_frozen(fd, v2, false);
}

/* A fork bomb at its memory limit owes the scheduler seconds of the kernel's time, and until they
 * are paid not even SIGKILL comes through. A new limit forgives them; none at all would make the
 * kernel patch itself whenever it is the last one. */
void cay_cgroup_hurry(const struct cay_cgroups *c, const char *id)
{
    struct cay_error ignored;
    (void)set_cpu(c, id, DYING_CPU_MILLI, &ignored);
}

/* Its number may be another's by now: so whoever has it is held, and then looked at. Of a thread
 * that is not its process's first there is no descriptor; that one is listed, too. */
static void kill_one(pid_t pid, const char *id)
{
    char path[32], text[4096], place[CAY_ID_SIZE + 2];
    CAY_AUTO_FD int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    snprintf(path, sizeof path, "/proc/%d/cgroup", pid);
    snprintf(place, sizeof place, "/%s\n", id);
    if (fd >= 0 && cay_small_read(AT_FDCWD, path, text, sizeof text) && strstr(text, place))
        (void)syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
}

/* Where one write cannot do it. Whoever is born meanwhile is met the next time. In each tree: one
 * who is about to enter them is not in all of them yet. */
static void kill_each(const struct cay_cgroups *c, const char *id)
{
    for (int i = 0; i < c->tree_count; i++) {
        char path[CAY_ID_SIZE + 32], line[32];
        snprintf(path, sizeof path, "%s/%s", id,
                 c->trees[i].threaded ? "cgroup.threads" : "cgroup.procs");
        int fd = openat(c->trees[i].parent_fd, path, O_RDONLY | O_CLOEXEC);
        FILE *in = fd < 0 ? NULL : fdopen(fd, "r");
        while (in && fgets(line, sizeof line, in))
            kill_one((pid_t)strtol(line, NULL, 10), id);
        if (in)
            fclose(in);
    }
}

void cay_cgroup_kill(const struct cay_cgroups *c, const char *id)
{
    bool v2 = false;
    CAY_AUTO_FD int fd = open_box(c, CAY_CG_UNIFIED, id, &v2);
    /* pid 1's own death does the same, later */
    if (fd < 0 || cay_small_write(fd, "cgroup.kill", "1") < 0) /* none, or of threads */
        kill_each(c, id);
}

int cay_cgroup_remove(const struct cay_cgroups *c, const char *id, struct cay_error *err)
{
    int busy = 0;
    for (int i = 0; i < c->tree_count; i++)
        if (unlinkat(c->trees[i].parent_fd, id, AT_REMOVEDIR) < 0 && errno != ENOENT)
            busy = errno;
    errno = busy;
    return busy ? cay_fail_errno(err, CAY_ERR_CONFLICT, "cannot remove the cgroup of %s", id) : 0;
}

void cay_cgroups_close(struct cay_cgroups *c, const char *instance, bool remove)
{
    for (int i = 0; i < c->tree_count; i++) {
        char name[32];
        snprintf(name, sizeof name, "../cay-%s", instance);
        if (remove)
            (void)unlinkat(c->trees[i].parent_fd, name, AT_REMOVEDIR); /* sandboxes left: stays */
        cay_close_fd(&c->trees[i].parent_fd);
    }
    c->tree_count = 0;
}
