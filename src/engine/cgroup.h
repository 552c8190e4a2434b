/* SPDX-License-Identifier: Apache-2.0 */
/* Limits and usage of a sandbox, on cgroup v2, v1, or both side by side.
 *
 * A hierarchy is a mounted cgroup tree. On a v2 host there is one; on a v1 host one per controller,
 * and often an empty v2 tree beside them, which still freezes. A sandbox has a directory
 * of its own, cay-<instance>/<id>, in each hierarchy that has something we use. */
#pragma once
#include "base/error.h"
#include "base/id.h"
#include "model/sandbox.h"
#include <sys/types.h>

#define CAY_CGROUP_NAME 96 /* of a directory that somebody else made, with its NUL */

enum cay_controller {
    CAY_CG_MEMORY,
    CAY_CG_CPU,
    CAY_CG_CPUACCT,
    CAY_CG_PIDS,
    CAY_CG_FREEZER, /* v1 has it as a controller; the v2 tree does it by itself */
    CAY_CG_UNIFIED, /* the v2 tree itself; it kills where it is not one of threads */
    CAY_CG_COUNT,
};

struct cay_hierarchy {
    int parent_fd; /* cay-<instance> */
    bool v2;
    bool threaded; /* v2 beside v1: entered thread by thread, see cay_cgroup_enter */
    char name[16]; /* for messages */
};

struct cay_cgroups {
    struct cay_hierarchy trees[CAY_CG_COUNT];
    int tree_count;
    int of[CAY_CG_COUNT]; /* which tree has that controller; -1 none */
};

struct cay_cgroup_limits {
    uint64_t memory_bytes;
    uint32_t cpu_milli, pids;
};

/* Finds the trees in /proc/self/mountinfo and makes our parent in each, with limits for the sum of
 * all sandboxes. A missing controller is not an error here: see cay_cgroups_lacks. */
int cay_cgroups_open(struct cay_cgroups *c, const char *instance, struct cay_error *err);
/* Of a process, by its directory in /proc, that is in cgroups of somebody else's making, such as a
 * container's: what stands below for `id` is the name then. Close it with cay_cgroups_close(c, "",
 * false). */
int cay_cgroups_of(struct cay_cgroups *c, int proc, char name[CAY_CGROUP_NAME],
                   struct cay_error *err);
/* Into some of them a process can only be moved (v1). */
bool cay_cgroups_move(const struct cay_cgroups *c);
bool cay_cgroups_lacks(const struct cay_cgroups *c, enum cay_controller controller);
const char *cay_controller_name(enum cay_controller controller);

/* Makes the sandbox's directories and writes its limits. What exists is taken as it is. */
int cay_cgroup_make(const struct cay_cgroups *c, const char *id, const struct cay_cgroup_limits *l,
                    struct cay_error *err);
/* Other limits for one that runs. CAY_ERR_CONFLICT, "MEMORY_IN_USE", when it has more than that and
 * cannot give it back; then nothing is changed. */
int cay_cgroup_limit(const struct cay_cgroups *c, const char *id, const struct cay_cgroup_limits *l,
                     struct cay_error *err);
/* The v2 directory for CLONE_INTO_CGROUP, made if need be, or -1. The caller closes it. */
int cay_cgroup_clone_fd(const struct cay_cgroups *c, const char *id);
/* Enters all trees, or the v1 ones when the clone did the other. Of a process with one thread, by
 * itself: who moves another process, or all of its threads, holds up every fork and every change of
 * a cgroup on this host for as long as the kernel takes to see that nobody forks, 8 ms and more. */
int cay_cgroup_enter(const struct cay_cgroups *c, const char *id, bool v2_too,
                     struct cay_error *err);
/* The list of who is in it, a pid on each line; -1 with errno. The caller closes it. */
int cay_cgroup_open_procs(const struct cay_cgroups *c, const char *id);
/* All of it but the disk, and what is read and written (engine/io.h). What nobody counts is 0. */
void cay_cgroup_usage(const struct cay_cgroups *c, const char *id, struct cay_usage *out);
bool cay_cgroup_is_empty(const struct cay_cgroups *c, const char *id); /* and this is known */
/* And it has at most so much memory, nobody in it was killed for want of that, and nobody was
 * refused a process; who cannot tell says no. */
bool cay_cgroup_is_blank(const struct cay_cgroups *c, const char *id, uint64_t most_bytes);
/* What of it is to be told of one that has ended: processor time, most memory, kills. */
void cay_cgroup_total(const struct cay_cgroups *c, const char *id, struct cay_usage *out);
/* The files that count kills for want of memory and refused processes, as pid 1 reads them; -1
 * where there is none. The caller closes them. */
void cay_cgroup_open_counts(const struct cay_cgroups *c, const char *id, int *oom_fd_out,
                            int *pids_fd_out);
/* Every process in it stands still on return, or goes on. Waits up to CAY_FREEZE_MS: then it is
 * let go again and CAY_ERR_TIMEOUT returned. What is so already is no error. */
int cay_cgroup_freeze(const struct cay_cgroups *c, const char *id, bool frozen,
                      struct cay_error *err);
bool cay_cgroup_is_frozen(const struct cay_cgroups *c, const char *id); /* or is about to be */
/* Whoever was told to die may: a frozen one goes on, where the kernel cannot kill what stands still
 * (v1). */
void cay_cgroup_let_die(const struct cay_cgroups *c, const char *id);
/* And if that takes long: nobody in it waits for processor time. To say so the kernel looks at
 * every cgroup there is. */
void cay_cgroup_hurry(const struct cay_cgroups *c, const char *id);
/* SIGKILL to whatever is still in it, best effort. */
void cay_cgroup_kill(const struct cay_cgroups *c, const char *id);
/* Gone is fine. CAY_ERR_CONFLICT while a process is still in it. */
int cay_cgroup_remove(const struct cay_cgroups *c, const char *id, struct cay_error *err);
/* Our parents, when no sandbox is left. */
void cay_cgroups_close(struct cay_cgroups *c, const char *instance, bool remove);
